"""The autoreset mode: Gymnasium's enum, its texts, and the pool's words for it."""

from __future__ import annotations

from sandpool.errors import InvalidTypeError, InvalidValueError
from sandpool.gymnasium.versions import BEFORE_1, INSTALLED, AutoresetMode

_POOL_WORDS = {AutoresetMode.SAME_STEP: "same_step", AutoresetMode.NEXT_STEP: "next_step", AutoresetMode.DISABLED: None}
_BY_WORD = {mode.value.lower(): mode for mode in AutoresetMode}


def read_mode(given: AutoresetMode | str | None) -> AutoresetMode | None:
    """Return the mode that a caller named by the enum's member, or as ``"SameStep"``, ``"same_step"`` and the like; None for None.

    Raises:
        InvalidValueError: no such mode, or one that the installed gymnasium does not know.
    """
    if given is None or isinstance(given, AutoresetMode):
        return _known_here(given)
    if not isinstance(given, str):
        raise InvalidTypeError(f"autoreset_mode is of type {type(given).__name__}; expected an AutoresetMode, its text or None.")
    mode = _BY_WORD.get(given.replace("_", "").replace("-", "").lower())
    if mode is None:
        expected = ", ".join(repr(mode.value) for mode in AutoresetMode)
        raise InvalidValueError(f"autoreset_mode={given!r:.80} was given; expected one of {expected}, or None for the default.")
    return _known_here(mode)


def pool_word(mode: AutoresetMode | None) -> str | None:
    """Return the pool's `autoreset` option; None becomes ``"auto"``: a vectorised environment's own mode, any other's same-step."""
    return "auto" if mode is None else _POOL_WORDS[mode]


def mode_of_pool(autoreset: str | None) -> AutoresetMode:
    """Return the mode of a pool that exists, from the `autoreset` of its description."""
    for mode, word in _POOL_WORDS.items():
        if word == autoreset:
            return _known_here(mode) or AutoresetMode.SAME_STEP
    raise InvalidValueError(f"The pool's autoreset is {autoreset!r:.40}; expected same_step, next_step or none.")


def _known_here(mode: AutoresetMode | None) -> AutoresetMode | None:
    if BEFORE_1 and mode not in (None, AutoresetMode.SAME_STEP):
        raise InvalidValueError(
            f"autoreset_mode={mode.value} needs gymnasium 1.1 or newer; {INSTALLED} is installed, whose vector environments reset "
            "in the same step.",
            hint="Leave autoreset_mode out, or install a newer gymnasium.",
        )
    return mode

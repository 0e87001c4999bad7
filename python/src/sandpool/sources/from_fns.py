"""An environment's folder made from thunks, functions that each make one environment."""

from __future__ import annotations

import contextlib
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module, metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from sandpool.errors import InvalidTypeError, InvalidValueError, RowsFailedError
from sandpool.escape import escape_untrusted
from sandpool.pool.rlpool import RLPool
from sandpool.sources.copy_code import Code, copy_code

_PROGRAMS = Path(__file__).parent / "programs"
_PINNED = ("numpy", "gymnasium", "cloudpickle")
_CARRIED = "stable_baselines3"
_REQUIREMENT_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")

Thunks = Sequence[Callable[[], Any]]


def open_fns_pool(
    fns: Thunks, *, requirements: Sequence[str] | None = None, code: Code = (), monitor: bool = False, **options: Any
) -> RLPool:
    """Make a pool whose row i is the environment that ``fns[i]()`` makes inside the sandbox.

    Args:
        fns: functions without arguments. They are sent with cloudpickle, so lambdas and closures will do; nothing comes back pickled.
        requirements: packages for the sandbox. None: the client's versions of numpy, gymnasium and cloudpickle. A list: those, and
            these, of which one that names one of the three takes its place. An empty list: whatever the interpreter has.
        code: files, folders or modules of your own that the thunks import; see `copy_code`.
        monitor: whether each environment tells its episodes' statistics, as `sandpool.sources.programs.monitor.Monitor` does.
        options: those of RLPool. `n`, if given, must be the number of thunks.

    Raises:
        InvalidValueError: no thunks, or rows whose spaces differ.
        EnvironmentFailedError: the sandbox's Python has another minor version than the client's, lacks what the thunks import, or a
            thunk raised.

    Example:
        >>> pool = open_fns_pool([lambda: gymnasium.make("CartPole-v1")] * 8)  # doctest: +SKIP
    """
    with tempfile.TemporaryDirectory(prefix="sandpool-fns-") as folder:
        path, count = write_fns_environment(Path(folder), fns, requirements=requirements, code=code, monitor=monitor)
        if options.setdefault("n", count) != count:
            raise InvalidValueError(f"n={options['n']!r:.40} was given with {count} functions; expected one function for each row.")
        pool = RLPool(path, **options)
    try:
        check_equal_spaces(pool)
    except BaseException:
        pool.close()
        raise
    return pool


def write_fns_environment(
    folder: Path, fns: Thunks, *, requirements: Sequence[str] | None = None, code: Code = (), monitor: bool = False
) -> tuple[Path, int]:
    """Write the environment of thunks into an empty folder; return the folder and the number of rows. Arguments as for `open_fns_pool`."""
    thunks = _checked(fns)
    required = _merge_requirements(requirements)
    copy_code(code, folder)
    for source, name in (("fns.py", "env.py"), ("monitor.py", "sandpool_monitor.py")):
        (folder / name).write_bytes((_PROGRAMS / source).read_bytes())
    about = {"python": list(sys.version_info[:2]), "monitor": bool(monitor)}
    (folder / "sandpool_fns.json").write_text(json.dumps(about), encoding="utf-8")
    (folder / "sandpool_fns.pickle").write_bytes(_pickle(thunks, carry=_CARRIED not in map(_name_of, required)))
    if required:
        (folder / "requirements.txt").write_text("".join(f"{line}\n" for line in required), encoding="utf-8")
    return folder, len(thunks)


def check_equal_spaces(pool: RLPool) -> None:
    """Raise InvalidValueError unless the thunks of all rows made environments with the same spaces, as one batch of them needs."""
    if pool.n == 1:
        return
    try:
        told = list(pool.get_attr("sandpool_spaces"))
    except RowsFailedError as failed:
        told = list(failed.result)  # type: ignore[call-overload]
    for row, spaces in enumerate(told):
        if spaces is not None and told[0] is not None and spaces != told[0]:
            raise InvalidValueError(
                f"The environment of function {row} has the observation and action space {_shown(spaces)}; "
                f"that of function 0 has {_shown(told[0])}. Expected equal spaces.",
                hint="Wrap the environments so that their spaces agree, or make a pool for each kind.",
            )


def _checked(fns: object) -> list[Callable[[], Any]]:
    if not isinstance(fns, Sequence) or isinstance(fns, (str, bytes)):
        raise InvalidTypeError(f"fns is of type {type(fns).__name__}; expected a list of functions, one for each row.")
    if not fns:
        raise InvalidValueError("fns is empty; expected at least one function.")
    for row, function in enumerate(fns):
        if not callable(function):
            raise InvalidTypeError(
                f"fns[{row}] is of type {type(function).__name__}; expected a function that makes an environment.",
                hint="Write lambda: make(), and not make().",
            )
    return list(fns)


def _merge_requirements(given: Sequence[str] | None) -> list[str]:
    """Return the client's own versions of what both sides share, then what was asked for; nothing for an empty list."""
    if isinstance(given, str):
        raise InvalidTypeError(f"requirements={given!r:.80} is text; expected a list such as ['ale-py==0.11.2'].")
    if given is not None and not given:
        return []
    given = given or []
    named = set(map(_name_of, given))
    pinned = []
    for package in _PINNED:
        with contextlib.suppress(metadata.PackageNotFoundError):
            if package not in named:
                pinned.append(f"{package}=={metadata.version(package)}")
    return [*pinned, *given]


def _name_of(requirement: str) -> str:
    found = _REQUIREMENT_NAME.match(requirement)
    return re.sub(r"[-_.]+", "_", found[1]).lower() if found else requirement


def _pickle(thunks: list[Callable[[], Any]], *, carry: bool) -> bytes:
    try:
        cloudpickle: Any = import_module("cloudpickle")
    except ImportError as error:
        raise ImportError(
            "Functions are sent with cloudpickle, which is not installed here; install it: pip install cloudpickle"
        ) from error
    carried = sys.modules.get(_CARRIED) if carry else None
    with _by_value(cloudpickle, carried):
        try:
            return cloudpickle.dumps(thunks)  # type: ignore[no-any-return]
        except Exception as error:
            raise InvalidTypeError(
                f"The functions cannot be pickled: {type(error).__name__}: {error}",
                hint="Make what they need inside them: an open file, a lock or a live environment stays where it is.",
            ) from error


@contextlib.contextmanager
def _by_value(cloudpickle: Any, module: ModuleType | None) -> Iterator[None]:
    """Send a module's functions and classes whole: Stable-Baselines3's Monitor is a page of code, its package wants gigabytes."""
    if module is None or module.__name__ in cloudpickle.list_registry_pickle_by_value():
        yield
        return
    cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def _shown(spaces: Any) -> str:
    return escape_untrusted(" and ".join(map(str, spaces)) if isinstance(spaces, list) else str(spaces), limit_chars=600)

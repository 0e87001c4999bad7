"""The pool behind a vector environment: made with the adapter's defaults, or one of the caller's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sandpool.errors import InvalidTypeError, InvalidValueError
from sandpool.gymnasium.modes import mode_of_pool, pool_word, read_mode
from sandpool.gymnasium.versions import AutoresetMode
from sandpool.pool.options import check_choice
from sandpool.pool.rlpool import RLPool

Mode = AutoresetMode | str | None


def open_pool(make: Callable[..., RLPool], mode: Mode, errors: str, options: Mapping[str, Any]) -> RLPool:
    """Call `make` with RLPool's options as a vector environment wants them. Failed rows are the adapter's to report."""
    check_choice("errors", errors)
    word = pool_word(read_mode(mode))
    if "autoreset" in options:
        raise InvalidTypeError(
            f"autoreset={options['autoreset']!r:.40} was given; expected autoreset_mode, a gymnasium.vector.AutoresetMode or its text."
        )
    return make(**{"seeds": "continue", **options, "autoreset": word})


def adopt_pool(pool: RLPool, env_dir: object, n: object, mode: Mode, errors: str, options: Mapping[str, Any]) -> RLPool:
    """Check a pool of the caller's, which has its options already."""
    check_choice("errors", errors)
    if not isinstance(pool, RLPool):
        raise InvalidTypeError(f"pool is of type {type(pool).__name__}; expected an RLPool.")
    given = [name for name, value in (("env_dir", env_dir), ("n", n)) if value is not None] + list(options)
    if given:
        raise InvalidTypeError(f"{', '.join(given)} was given with pool=; expected either a pool, or what one is made of.")
    wanted, actual = read_mode(mode), mode_of_pool(pool.description["autoreset"])
    if wanted not in (None, actual):
        raise InvalidValueError(
            f"autoreset_mode={wanted.value} was given with a pool whose mode is {actual.value}.",
            hint=f"Leave it out, or make the pool with autoreset={pool_word(wanted)!r}.",
        )
    return pool

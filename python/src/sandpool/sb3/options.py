"""What an SB3VecEnv asks of its pool."""

from __future__ import annotations

from typing import Any

from sandpool.errors import InvalidTypeError, InvalidValueError, NotSupportedError, PoolClosedError
from sandpool.pool.options import check_choice
from sandpool.pool.rlpool import RLPool
from sandpool.sb3.observations import Space, fit_batch
from sandpool.spaces import to_gymnasium

MODE = "same_step"


def pool_options(options: dict[str, Any], *, first_reset: bool) -> dict[str, Any]:
    """Return RLPool's options for these: same-step autoreset, and seeds as SB3's own classes give them.

    `first_reset`: whether the pool resets its environments when it is made. VecEnv's user does that, and an environment that
    counts its resets should count the same ones; without an announced space the form of observations is only known by it.
    """
    if options.get("autoreset", MODE) != MODE:
        raise InvalidValueError(
            f"autoreset={options['autoreset']!r:.40} was given; expected {MODE!r}, the only mode that VecEnv has.", hint="Leave it out."
        )
    return {"seeds": "continue", "first_reset": first_reset, **options, "autoreset": MODE}


def check_errors(errors: object) -> None:
    """Check the option of that name."""
    check_choice("errors", errors)


def check_open(pool: RLPool) -> None:
    """Check that the pool was not closed by this object."""
    if pool.closed:
        raise PoolClosedError("The environments were closed by close(); expected open ones.", hint="Make another SB3VecEnv.")


def check_pool(pool: object, others: dict[str, Any]) -> RLPool:
    """Check a pool that was made before, and that nothing which would make one is given too."""
    if not isinstance(pool, RLPool):
        raise InvalidTypeError(f"pool is of type {type(pool).__name__}; expected an RLPool.")
    given = [name for name, value in others.items() if value is not None]
    if given:
        raise InvalidTypeError(f"pool= was given with {', '.join(given)}; expected either a pool or what makes one.")
    mode = pool.description.get("autoreset")
    if mode != MODE:
        raise InvalidValueError(
            f"The pool {pool.id} has autoreset={mode!r}; expected {MODE!r}, the only mode that VecEnv has.",
            hint=f"Make it with RLPool(..., autoreset={MODE!r}).",
        )
    return pool


def spaces_of(pool: RLPool, observation_space: Space | None, action_space: Space | None) -> tuple[Space, Space]:
    """Return the spaces of one environment: those given by hand, else those that the environments announced."""
    observations = _space_of("observation_space", observation_space, pool.observation_space)
    actions = _space_of("action_space", action_space, pool.action_space)
    if pool.description["layout"]["kind"] != "array":
        raise NotSupportedError(
            f"The pool's observations are a list of values, for those of {observations} are no arrays of one shape; "
            "Stable-Baselines3 can only use arrays, and dicts and tuples of them.",
            hint="Wrap the environment so that its observations are of a Box, Discrete, MultiDiscrete, MultiBinary, Dict or Tuple space.",
        )
    fit_batch(observations, pool.batches.observations.last())
    return observations, actions


def _space_of(name: str, given: Space | None, announced: dict[str, Any] | None) -> Space:
    if given is not None:
        return given
    if announced is None:
        raise InvalidValueError(
            f"The environments announce no {name}, which Stable-Baselines3 needs.", hint=f"Give {name}= a gymnasium space."
        )
    return to_gymnasium(announced)

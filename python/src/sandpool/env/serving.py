"""serve(): which form the environment was given in, and the session that answers for it."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from sandpool.env.claiming import open_channel
from sandpool.env.environments import environment_of, environment_of_functions
from sandpool.env.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn


def serve(
    environment: Any = None,
    *,
    reset: Callable[..., Any] | None = None,
    step: Callable[[Any], Any] | None = None,
    make: Callable[..., Any] | None = None,
    make_vec: Callable[..., Any] | None = None,
    close: Callable[[], Any] | None = None,
    reseed: Callable[[int], Any] | None = None,
    partial_reset: bool = False,
    row_seeds: bool = False,
) -> NoReturn:
    """Answer the agent's requests until it closes the channel, then exit; never returns.

    Give exactly one of: an environment object with `reset` and `step`; the functions `reset` and `step`; `make`.
    `make(config)` runs once, before the pool forks the process; `make(index, config)` runs in each process.
    `close()` is called at the end (an object's own `close` otherwise). `reseed(seed)` is called when a fork or a restore asks
    for a new random stream. `make_vec`, `partial_reset` and `row_seeds` are reserved for vectorised environments.

    Raises TypeError for another combination, NotImplementedError for `make_vec`.

    Example: `serve(make=lambda config: gymnasium.make("CartPole-v1"))`.
    """
    if make_vec is not None or partial_reset or row_seeds:
        raise NotImplementedError("serve(make_vec=…) is not available in this version; give make=… and one environment a process instead")
    forms = [environment is not None, reset is not None or step is not None, make is not None]
    if sum(forms) != 1 or (forms[1] and (reset is None or step is None)):
        raise TypeError(
            "serve() takes exactly one of: an environment object, reset= with step=, or make=; "
            f"received environment={environment!r:.80}, reset={reset!r:.80}, step={step!r:.80}, make={make!r:.80}"
        )
    if environment is not None:
        ready = environment_of(environment)
        session = Session(lambda index, config: ready, False, close, reseed)
    elif make is not None:
        maker, in_each_process = _maker_of(make)
        session = Session(lambda index, config: environment_of(maker(index, config)), in_each_process, close, reseed)
    else:
        functions = environment_of_functions(reset, step)
        session = Session(lambda index, config: functions, False, close, reseed)
    session.run(open_channel())


def _maker_of(make: Callable[..., Any]) -> tuple[Callable[[Any, Any], Any], bool]:
    """`make` as a function of index and config, and whether it is run in each process rather than in the template."""
    parameters = inspect.signature(make).parameters
    places = [p.name for p in parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [name for name in places if parameters[name].default is inspect.Parameter.empty]
    if len(required) > 2:
        raise TypeError(f"make takes {', '.join(required)}; expected make(index, config), make(config) or make()")
    if places[:2] == ["index", "config"] or len(required) == 2:
        return make, True
    if places[:1] == ["index"]:
        return lambda index, config: make(index), True
    if required or places[:1] == ["config"]:
        return lambda index, config: make(config), False
    return lambda index, config: make(), False

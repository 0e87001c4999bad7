"""serve(): which form the environment was given in, and the session that answers for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandpool.env.claiming import open_channel
from sandpool.env.environments import environment_of, environment_of_functions
from sandpool.env.forms import Form, MadeForm
from sandpool.env.saving import Saver
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
    get_state: Callable[..., Any] | None = None,
    set_state: Callable[..., Any] | None = None,
    partial_reset: bool = False,
    row_seeds: bool = False,
) -> NoReturn:
    """Answer the agent's requests until it closes the channel, then exit; never returns.

    Give exactly one of: an environment object with `reset` and `step`; the functions `reset` and `step`; `make`; `make_vec`.
    `make(config)` runs once, before the pool forks the process; `make(index, config)` runs in each process. With either a process
    can hold several environments. `make_vec(num_envs, config)`, if it likes also `index`, the first row, makes a vectorised
    environment in each process; `partial_reset` and `row_seeds` say that its reset understands `options={"reset_mask": …}` and
    a list of seeds. `close()` is called at the end (an object's own `close` otherwise). `reseed(seed)` is called when a fork or
    a restore asks for a new random stream.

    An environment that cannot be forked while it runs is copied by its state: what `get_state()` returns, any value that pickles,
    goes to another process's `set_state(state)`. With a parameter more, the first one, both are given the environment object they
    are asked for, which processes with several environments need. Without the two, methods of these names, or `clone_state` and
    `restore_state`, of the environment or one of its wrappers do it; else a plain Python object is pickled whole.

    Raises TypeError for another combination.

    Example: `serve(make=lambda config: gymnasium.make("CartPole-v1"))`.
    """
    given = {"environment": environment, "reset": reset, "step": step, "make": make, "make_vec": make_vec}
    forms = [environment is not None, reset is not None or step is not None, make is not None, make_vec is not None]
    if sum(forms) != 1 or (forms[1] and (reset is None or step is None)):
        raise TypeError(
            "serve() takes exactly one of: an environment object, reset= with step=, make= or make_vec=; "
            f"received {', '.join(f'{name}={value!r:.80}' for name, value in given.items() if value is not None) or 'none'}"
        )
    if (partial_reset or row_seeds) and make_vec is None:
        raise TypeError("partial_reset and row_seeds say what a vectorised environment can do; give them with make_vec=")
    if make_vec is not None:
        from sandpool.env.vector import VectorForm

        form: Form = VectorForm(make_vec, close, reseed, partial_reset, row_seeds)
    elif make is not None:
        form = MadeForm(make, close, reseed)
    elif environment is not None:
        form = Form(environment_of(environment), close, reseed)
    else:
        form = Form(environment_of_functions(reset, step), close, reseed)
    Session(form, Saver(get_state, set_state)).run(open_channel())

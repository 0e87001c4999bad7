"""A vectorised environment: one object in a process, whose rows are stepped and fail together."""

from __future__ import annotations

import inspect
import traceback
from typing import TYPE_CHECKING

from sandpool.env.alarm import Alarm, OutOfTimeError
from sandpool.env.cast_rows import ActionCaster
from sandpool.env.describing import announced_by, members_of_hello, space_of
from sandpool.env.encoding import Output
from sandpool.env.errors import error_line, kind_of
from sandpool.env.forms import Form
from sandpool.env.rows import rows_of
from sandpool.env.vector_calls import CALLS, call_vector
from sandpool.env.vector_mode import is_envpool, mode_of
from sandpool.env.vector_reset import reset_vector
from sandpool.env.vector_step import step_vector

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from sandpool.env.environments import Environment


class VectorForm(Form):
    """A vectorised environment made by the user's function in each process."""

    features = ("batch",)
    is_shared = False

    def __init__(
        self,
        make: Callable[..., Any],
        close: Callable[[], Any] | None,
        reseed: Callable[[int], Any] | None,
        partial_reset: bool,
        row_seeds: bool,
    ) -> None:
        super().__init__(None, close, reseed)
        self.maker = _maker_of(make)
        self.partial_reset = partial_reset
        self.row_seeds = row_seeds

    def begin(self, index: int, rows: int, config: Any, configs: Any, shared: Environment | None) -> VectorRows:
        return VectorRows(self, rows, lambda: self.maker(rows, config if configs is None else configs, index))


class VectorRows:
    """The rows of one vectorised environment. After a failure it is none until its next reset makes it anew."""

    operations = frozenset(("step", "reset", "measure", *CALLS))
    packed = True
    first = None

    def __init__(self, form: VectorForm, count: int, make: Callable[[], Any]) -> None:
        self.form = form
        self.make = make
        self.all = range(count)
        self.environment: Any = None
        self.failed: Any = None
        self.seeded = False
        self.output = Output()
        self.alarm = Alarm()
        environment = self.renew()
        self.name = type(getattr(environment, "unwrapped", environment)).__name__
        self.mode = mode_of(environment)
        self.is_envpool = is_envpool(environment)
        self.observation_space = getattr(environment, "single_observation_space", getattr(environment, "observation_space", None))
        self.action_space = getattr(environment, "single_action_space", getattr(environment, "action_space", None))
        self.actions = ActionCaster(self.action_space)

    def renew(self) -> Any:
        """Close what there was and make the environment anew."""
        self.lose()
        if self.failed is not None:
            old, self.failed = self.failed, None
            try:
                old.close()
            except Exception:
                traceback.print_exc()
        made = self.make()
        missing = [name for name in ("num_envs", "reset", "step") if not hasattr(made, name)]
        if missing or made.num_envs != len(self.all):
            what = f"without {' and '.join(missing)}" if missing else f"of {made.num_envs} environments"
            raise TypeError(f"make_vec returned {made!r:.200}, {what}; expected a vectorised environment with num_envs={len(self.all)}")
        self.environment = made
        return made

    def lose(self) -> None:
        if self.environment is not None:
            self.failed, self.environment = self.environment, None

    def describe(self, features: tuple[str, ...]) -> str:
        environment = self.environment
        vector = {
            "class": self.name,
            "autoreset": self.mode,
            "partial_reset": self.form.partial_reset,
            "row_seeds": self.form.row_seeds,
        }
        spaces = {"observation_space": space_of(self.observation_space), "action_space": space_of(self.action_space)}
        return members_of_hello({**announced_by(environment), **spaces, "vector": vector}, features, len(self.all))

    def answer(self, operation: str, identity: Any, request: dict[str, Any], raw: bytes) -> bytes | list[Any]:
        """The reply to a message; an error in it fails all of its rows."""
        rows = rows_of(request, self.all)
        self.output.start()
        self.alarm.set(request.get("deadline_ms"))
        try:
            if operation == "step":
                return step_vector(self, rows, identity, request, raw)
            if operation == "reset":
                return reset_vector(self, rows, identity, request, raw)
            return call_vector(self, operation, rows, identity, request, raw)
        except OutOfTimeError as error:
            return error_line(identity, kind_of(error), error)
        finally:
            self.alarm.stop()

    def ask(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run the environment's code for a step or reset; if it fails nobody knows its state any more."""
        self.alarm.running = True
        try:
            return function(*args, **kwargs)
        except (Exception, OutOfTimeError):
            self.alarm.running = False
            self.lose()
            raise
        finally:
            self.alarm.running = False

    def reseed(self, seed: int) -> list[str]:
        """Nothing of Gymnasium's: a vectorised environment's streams are its own, so `serve(reseed=…)` is told."""
        return []

    def close(self) -> None:
        for one in (self.environment, self.failed):
            if one is not None and callable(getattr(one, "close", None)):
                one.close()


def _maker_of(make: Callable[..., Any]) -> Callable[[int, Any, int], Any]:
    """`make_vec` as a function of num_envs, config and index: by name where it names them, else num_envs and config by place."""
    parameters = inspect.signature(make).parameters
    known = [name for name in ("num_envs", "config", "index") if name in parameters]
    required = [
        name for name, one in parameters.items() if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]
    if set(required) <= set(known):
        return lambda count, config, index: make(**{name: {"num_envs": count, "config": config, "index": index}[name] for name in known})
    if len(required) == 2 and "index" not in required:
        return lambda count, config, index: make(count, config)
    if len(required) == 1:
        return lambda count, config, index: make(count)
    raise TypeError(
        f"make_vec takes {', '.join(required) or 'nothing'}; expected make_vec(num_envs, config) or make_vec(num_envs, config, index)"
    )

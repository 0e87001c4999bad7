"""The forms in which an environment may be given, and what a process serves from each."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from sandpool.env.environments import environment_of
from sandpool.env.row import Row

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from sandpool.env.environments import Environment

    class Served(Protocol):
        """What answers a process's messages other than hello, fork and close."""

        operations: frozenset[str]
        packed: bool  # whether several environments share the process

        @property
        def first(self) -> Environment | None: ...  # the first of its environments; none where they are one vectorised object
        def describe(self, features: tuple[str, ...]) -> str: ...
        def answer(self, operation: str, identity: Any, request: dict[str, Any], raw: bytes) -> bytes | list[Any]: ...
        def reseed(self, seed: int) -> list[str]: ...
        def close(self) -> None: ...


class Form:
    """One environment that exists already."""

    features: tuple[str, ...] = ()
    is_shared = True  # made once, in the template, before the fork

    def __init__(self, environment: Environment | None, close: Callable[[], Any] | None, reseed: Callable[[int], Any] | None) -> None:
        self.environment = environment
        self.close = close
        self.reseed = reseed

    def make(self, index: int, config: Any) -> Environment:
        """The environment of the row with that index."""
        assert self.environment is not None
        return self.environment

    def begin(self, index: int, rows: int, config: Any, configs: Any, shared: Environment | None) -> Served:
        """What a process serves whose first row is `index`; `shared` is what its template made."""
        return Row(shared or self.make(index, config))


class MadeForm(Form):
    """Environments made by a function of the user's, so that one process can hold several."""

    features = ("batch",)

    def __init__(self, make: Callable[..., Any], close: Callable[[], Any] | None, reseed: Callable[[int], Any] | None) -> None:
        super().__init__(None, close, reseed)
        self.maker, in_each_process = _maker_of(make)
        self.is_shared = not in_each_process

    def make(self, index: int, config: Any) -> Environment:
        return environment_of(self.maker(index, config))

    def begin(self, index: int, rows: int, config: Any, configs: Any, shared: Environment | None) -> Served:
        if configs is not None and (type(configs) is not list or len(configs) != rows):
            raise ValueError(f"configs is {configs!r:.200}; expected a list of {rows}, one for each row")
        if rows == 1:
            return Row(shared or self.make(index, config if configs is None else configs[0]))
        from sandpool.env.rows import Rows

        return Rows(lambda row: self.make(index + row, config if configs is None else configs[row]), rows, shared)


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

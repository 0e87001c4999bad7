"""The messages get_state and set_state, of the one environment of a process or of several."""

from __future__ import annotations

import binascii
import json
from typing import TYPE_CHECKING

from sandpool.env.encoding import base64_text
from sandpool.env.generators import generators_state, set_generators_state
from sandpool.env.pickling import apply_closures, apply_layers, pickle_parts, unpickle_parts
from sandpool.env.row import Row, check_seed
from sandpool.env.rows import Rows, rows_of
from sandpool.env.run_rows import Run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from sandpool.env.environments import Environment
    from sandpool.env.forms import Served
    from sandpool.env.saving import Saver
    from sandpool.env.session import Session


def get_state(session: Session, identity: Any, request: dict[str, Any], raw: bytes) -> bytes | list[Any]:
    served = session.served or session.begin(identity, request)
    if isinstance(served, Rows):
        return _each(GetRun(session.saver, served, rows_of(request, served.all)), identity, request)
    row = _row_of(served)
    _check(session.saver, row.environment, session.packed)
    parts = {**session.saver.save(row.environment), "generators": generators_state(), "seeded": row.seeded}
    data = pickle_parts(row.environment.target, parts)
    return f'{{"id":{json.dumps(identity)},"state":{_told(data)}}}\n'.encode()


def set_state(session: Session, identity: Any, request: dict[str, Any], raw: bytes) -> bytes | list[Any]:
    served = session.served or session.begin(identity, request)
    if isinstance(served, Rows):
        return _each(SetRun(session.saver, served, rows_of(request, served.all), request), identity, request)
    row = _row_of(served)
    _check(session.saver, row.environment, session.packed)
    seed = request.get("reseed")
    check_seed(seed)
    parts = _restore(session.saver, row.environment, _read(request.get("state")))
    if "generators" in parts:  # a row that shared its process with others has none of its own
        set_generators_state(parts["generators"])
        row.seeded = parts["seeded"]
    reseeded = None if seed is None else session.reseed(seed)
    return f'{{"id":{json.dumps(identity)},"ok":true,"reseeded":{json.dumps(reseeded)}}}\n'.encode()


class GetRun(Run):
    """The states of several rows, while they are asked. An exception leaves the row as it is."""

    def __init__(self, saver: Saver, owner: Rows, rows: Any) -> None:
        super().__init__(owner, rows)
        self.saver = saver
        self.states = ["null"] * len(rows)

    def items(self) -> Any:
        return enumerate(self.rows)

    def take(self, items: Iterator[tuple[int, int]]) -> None:
        for place, row in items:
            self.place = place
            environment = self.owner.environments[row]
            if environment is None:
                raise RuntimeError("the row failed and was not reset since; reset it before its state is asked for")
            _check(self.saver, environment, packed=True)
            self.states[place] = _told(pickle_parts(environment.target, self.saver.save(environment)))

    def fail(self, error: BaseException) -> None:
        self.fail_call(error)

    def columns(self) -> str:
        return f',"states":[{",".join(self.states)}]'


class SetRun(Run):
    """The states of several rows, while they are put back. After an exception nobody knows the row's state."""

    def __init__(self, saver: Saver, owner: Rows, rows: Any, request: dict[str, Any]) -> None:
        super().__init__(owner, rows)
        self.saver = saver
        self.states = _list_of(request.get("states"), len(rows), "states")
        seeds = request.get("reseeds")
        self.seeds: list[int | None] = [None] * len(rows) if seeds is None else _list_of(seeds, len(rows), "reseeds")
        for seed in self.seeds:
            check_seed(seed)
        self.reseeded: list[list[str] | None] = [None] * len(rows)

    def items(self) -> Any:
        return enumerate(self.rows)

    def take(self, items: Iterator[tuple[int, int]]) -> None:
        for place, row in items:
            self.place = place
            environment = self.owner.environments[row] or self.owner.renew(row)
            _check(self.saver, environment, packed=True)
            _restore(self.saver, environment, _read(self.states[place]))
            seed = self.seeds[place]
            if seed is not None:
                self.reseeded[place] = environment.reseed(seed)

    def columns(self) -> str:
        return f',"ok":true,"reseeded":{json.dumps(self.reseeded)}'


def _each(run: GetRun | SetRun, identity: Any, request: dict[str, Any]) -> bytes | list[Any]:
    owner = run.owner
    owner.output.start()
    owner.alarm.set(request.get("deadline_ms"))
    try:
        run.each(run.items())
        return run.finish(identity, run.columns())
    finally:
        owner.alarm.stop()


def _row_of(served: Served) -> Row:
    if isinstance(served, Row):
        return served
    raise ValueError("a vectorised environment has no state for each of its rows; serve its environments one by one with make=")


def _check(saver: Saver, environment: Environment, packed: bool) -> None:
    refusal = saver.refusal(environment, packed)
    if refusal is not None:
        raise ValueError(refusal)


def _restore(saver: Saver, environment: Environment, data: bytes) -> dict[str, Any]:
    """Put a state back; nothing is changed unless all of it could be read."""
    parts = unpickle_parts(environment.target, data)
    apply_layers(saver.layers_of(environment), parts["layers"])
    apply_closures(parts["closures"])
    saver.restore(environment, parts)
    return parts


def _told(data: bytes) -> str:
    return f'{{"$bytes":"{base64_text(data)}"}}'  # never raw: the agent keeps it as it is, and sends it among others


def _read(state: Any) -> bytes:
    if type(state) is not dict or type(state.get("$bytes")) is not str or len(state) != 1:
        raise ValueError(f"state is {state!r:.80}; expected the $bytes that get_state gave")
    return binascii.a2b_base64(state["$bytes"])


def _list_of(values: Any, count: int, name: str) -> list[Any]:
    if type(values) is not list or len(values) != count:
        raise ValueError(f"{name} is {values!r:.200}; expected a list of {count}, one for each row")
    return values

"""Calls and attributes of several rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandpool.env.attributes import call_by_name, get_attribute, has_attribute, is_wrapped, set_attribute
from sandpool.env.decoding import decode
from sandpool.env.encoding import encode
from sandpool.env.lines import name_of
from sandpool.env.row_text import row_text
from sandpool.env.run_rows import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from sandpool.env.rows import Rows


def call_rows(owner: Rows, operation: str, rows: Any, identity: Any, request: dict[str, Any], raw: bytes) -> bytes | list[Any]:
    run = CallRun(owner, rows)
    run.ask = _ASK[operation](request, raw)
    run.each(zip(range(len(rows)), values_of(request, raw, len(rows)) if operation == "set" else rows))
    return run.finish(identity, f',"results":[{",".join(run.results)}]')


def values_of(request: dict[str, Any], raw: bytes, count: int) -> list[Any]:
    """The values of a set, one for each row."""
    values = request.get("values")
    if values is None and "value" in request:
        return [decode(request["value"], raw) for _ in range(count)]
    if type(values) is not list or len(values) != count:
        raise ValueError(f"values is {values!r:.200}; expected a list of {count}, one for each row, or one value")
    return [decode(value, raw) for value in values]


class CallRun(Run):
    """A call while its rows are asked."""

    ask: Callable[[Any, Any], Any]

    def __init__(self, owner: Rows, rows: Any) -> None:
        super().__init__(owner, rows)
        self.results = ["null"] * len(rows)

    def take(self, items: Iterator[tuple[int, Any]]) -> None:
        output = self.owner.output
        for place, value in items:
            self.place = place
            environment = self.owner.environments[self.rows[place]]
            if environment is None:
                raise RuntimeError("the row failed and was not reset since; reset it before a call")
            self.results[place] = row_text(encode, self.ask(environment.target, value), output)

    def fail(self, error: BaseException) -> None:
        self.fail_call(error)


def _ask_call(request: dict[str, Any], raw: bytes) -> Callable[[Any, Any], Any]:
    name = name_of(request)
    args, kwargs = request.get("args") or [], request.get("kwargs") or {}
    return lambda target, value: call_by_name(target, name, decode(args, raw), decode(kwargs, raw))


def _ask_set(request: dict[str, Any], raw: bytes) -> Callable[[Any, Any], Any]:
    name = name_of(request)
    return lambda target, value: set_attribute(target, name, value)


def _asking(ask: Callable[[Any, str], Any]) -> Callable[[dict[str, Any], bytes], Callable[[Any, Any], Any]]:
    def of(request: dict[str, Any], raw: bytes) -> Callable[[Any, Any], Any]:
        name = name_of(request)
        return lambda target, value: ask(target, name)

    return of


_ASK: dict[str, Callable[[dict[str, Any], bytes], Callable[[Any, Any], Any]]] = {
    "call": _ask_call,
    "get": _asking(get_attribute),
    "set": _ask_set,
    "has": _asking(has_attribute),
    "wrapped": _asking(is_wrapped),
}
CALLS = frozenset(_ASK)

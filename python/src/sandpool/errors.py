"""Every error of the client: one root, a class for each family of codes.

A message says what was received and what was expected; `hint` says what to do. `code` is stable, the words are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sandpool.escape import escape_untrusted

if TYPE_CHECKING:
    from sandpool.pool.state import State


class SandpoolWarning(UserWarning):
    """Something went wrong in an environment and the batch went on without it."""


class SandpoolError(Exception):
    """Root of all errors of the client.

    Attributes:
        code: stable name of what went wrong, the server's code if it came from there.
        hint: what to do next, or None.
        details: further facts, by name.
    """

    default_code = "internal"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        hint: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        self.code = code if code is not None else self.default_code
        self.hint = hint
        self.details = dict(details or {})
        self.message = message
        text = escape_untrusted(message if hint is None else f"{message}\n  {hint}")
        super().__init__(text)


class InvalidValueError(SandpoolError, ValueError):
    """An argument has the right type and a value that cannot be used. Nothing was sent."""

    default_code = "invalid_argument"


class InvalidTypeError(SandpoolError, TypeError):
    """An argument has the wrong type. Nothing was sent."""

    default_code = "invalid_argument"


class NotSupportedError(SandpoolError, NotImplementedError):
    """An option or a call that this version does not have."""

    default_code = "not_in_this_version"


class NoServerError(SandpoolError, ConnectionError):
    """No server answered, or none is configured."""

    default_code = "connection_failed"


class ConnectionLostError(SandpoolError, ConnectionError):
    """The connection broke and could not be repaired."""

    default_code = "connection_failed"


class ServerTimeoutError(SandpoolError, TimeoutError):
    """The server was silent for longer than the request can take."""

    default_code = "connection_failed"


class NotReadyError(SandpoolError, TimeoutError):
    """Fewer rows were ready than asked for when the timeout of a `recv` passed. Nothing is lost: the next `recv` returns them."""

    default_code = "deadline_passed"


class ReplyError(SandpoolError):
    """The server's reply is not what the protocol says."""

    default_code = "protocol_violation"


class _OfStates:
    """Gives errors that name states by their ids the State objects that the caller had given.

    Attributes:
        given_states: those, by id.
    """

    details: dict[str, Any]
    given_states: Mapping[str, State] = {}

    @property
    def states(self) -> list[State | str]:
        """The states it is about."""
        ids = self.details.get("states")
        return [self.given_states.get(key, key) for key in map(str, ids)] if isinstance(ids, list) else []


class AuthenticationError(SandpoolError, PermissionError):
    """The key is missing, wrong or not allowed to do this."""

    default_code = "unauthorized"


class RequestRefusedError(SandpoolError, ValueError):
    """The server refused the request as wrong or too large."""

    default_code = "invalid_request"


class NotFoundError(SandpoolError, LookupError):
    """No such pool, archive or route for this key."""

    default_code = "not_found"


class ForkUnsupportedError(_OfStates, RequestRefusedError):
    """Rows or states could not be copied, or the program of a new pool cannot be forked. Nothing has changed."""

    default_code = "fork_unsupported"

    @property
    def sources(self) -> list[tuple[int | State | str, list[dict[str, Any]]]]:
        """What could not be copied, a row or a state, each with what stood in the way, such as ``{"threads": 3, "names": ["openblas"]}``.

        Names come from the sandbox: escape them before you print them, as the message is. Empty where it is about a pool's program.
        """
        sources = self.details.get("sources")
        described = [source for source in sources if isinstance(source, dict)] if isinstance(sources, list) else []
        return [(self._source(source), list(source.get("blockers") or [])) for source in described]

    @property
    def states(self) -> list[State | str]:
        """The states among `sources`."""
        return [source for source, _ in self.sources if not isinstance(source, int)]

    def _source(self, source: dict[str, Any]) -> int | State | str:
        row, state = source.get("row"), str(source.get("state"))
        return row if isinstance(row, int) else self.given_states.get(state, state)


class StateNotFoundError(_OfStates, NotFoundError):
    """The pool has no such states: they were dropped, or never were its own. Nothing has changed."""

    default_code = "state_not_found"


class StateLostError(_OfStates, SandpoolError):
    """The states ended by themselves, out of memory say, or with their sandbox. Nothing has changed."""

    default_code = "state_lost"


class PoolBusyError(SandpoolError):
    """The pool is in use by another batch."""

    default_code = "pool_busy"


class PoolSequenceError(SandpoolError):
    """The batch number was not the next one: another client uses the pool."""

    default_code = "pool_sequence"


class PoolClosedError(SandpoolError, ValueError):
    """The pool was closed or detached by this object."""

    default_code = "pool_closed"


class PoolLostError(SandpoolError):
    """The pool has ended on the server: its worker stopped, or its lease ran out."""

    default_code = "pool_lost"


class EnvironmentFailedError(SandpoolError):
    """An environment failed while the pool was made; the whole create was rolled back.

    Attributes:
        row: index of the environment.
        kind: `timeout`, `crash`, `oom`, `exception` or `protocol`.
        stderr_tail: the last it wrote to its standard error, as it came (escape it before you print it).
    """

    default_code = "environment_failed"

    @property
    def row(self) -> int | None:
        """Index of the environment that failed."""
        row = self.details.get("row")
        return row if isinstance(row, int) else None

    @property
    def kind(self) -> str | None:
        """Kind of the failure."""
        kind = self.details.get("kind")
        return kind if isinstance(kind, str) else None

    @property
    def stderr_tail(self) -> str:
        """End of the environment's standard error, unescaped."""
        tail = self.details.get("stderr_tail")
        return tail if isinstance(tail, str) else ""


class LimitError(SandpoolError):
    """A quota, a rate or the host's capacity is used up."""

    default_code = "quota"


class ServerFailedError(SandpoolError):
    """The server failed; the fault is not in the request."""

    default_code = "internal"


class RowsFailedError(EnvironmentFailedError):
    """Rows of a batch failed and the pool was made with ``errors="raise"``; `row` and `kind` are those of the first.

    Attributes:
        errors: dict of row index to its error.
        result: what the call would have returned, the other rows included.
    """

    default_code = "row_failed"

    def __init__(self, message: str, *, errors: dict[int, dict[str, Any]], result: object) -> None:
        first = min(errors)
        super().__init__(
            message,
            hint="The other rows are in `.result`; reset the failed ones to go on.",
            details={"row": first, **errors[first]},
        )
        self.errors = errors
        self.result = result


_LAST_WORDS_CHARS = 2_000

_BY_CODE: dict[str, type[SandpoolError]] = {
    "unauthorized": AuthenticationError,
    "host_not_allowed": AuthenticationError,
    "environment_failed": EnvironmentFailedError,
    "pool_busy": PoolBusyError,
    "pool_sequence": PoolSequenceError,
    "pool_lost": PoolLostError,
    "pool_closed": PoolLostError,
    "fork_unsupported": ForkUnsupportedError,
    "state_not_found": StateNotFoundError,
    "state_lost": StateLostError,
}

_BY_STATUS: dict[int, type[SandpoolError]] = {
    401: AuthenticationError,
    403: AuthenticationError,
    404: NotFoundError,
    410: PoolLostError,
    429: LimitError,
    501: NotSupportedError,
    507: LimitError,
}


def error_from_reply(status: int, payload: object) -> SandpoolError:
    """Make the error that the server's reply describes; `payload` is the decoded body or the `error` object in it."""
    error = payload.get("error", payload) if isinstance(payload, dict) else None
    if not isinstance(error, dict) or not isinstance(error.get("code"), str):
        return _undescribed(status, payload)
    code = error["code"]
    given = error.get("details")
    details: dict[str, Any] = given if isinstance(given, dict) else {}
    hint = error.get("hint")
    message = str(error.get("message") or code)
    return _class_of(code, status)(
        message + _last_words(details) if code == "environment_failed" else message,
        code=code,
        hint=hint if isinstance(hint, str) else None,
        details={**details, "status": status},
    )


def _last_words(details: Mapping[str, Any]) -> str:
    """Return what the program itself said of its failure: its traceback, else the end of its standard error."""
    said = str(details.get("traceback") or details.get("stderr_tail") or "")[-_LAST_WORDS_CHARS:].strip()
    return "\n    " + said.replace("\n", "\n    ") if said else ""


def _class_of(code: str, status: int) -> type[SandpoolError]:
    # Imported here: those classes are made from these.
    from sandpool.machines.errors import BY_CODE

    if code in _BY_CODE or code in BY_CODE:
        return _BY_CODE.get(code) or BY_CODE[code]
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return ServerFailedError if status >= 500 else RequestRefusedError


def _undescribed(status: int, payload: object) -> SandpoolError:
    return _class_of("", status)(
        f"The server answered status {status} without a description of the error: {payload!r:.200}",
        code="protocol_violation",
        hint="Is the URL that of a Sandpool server, and is a proxy between?",
        details={"status": status},
    )

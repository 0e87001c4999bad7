"""What the user is told of failed rows: one warning for each kind, or an exception."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sandpool.errors import RowsFailedError
from sandpool.escape import escape_untrusted
from sandpool.pool.result import RowErrors
from sandpool.warn import warn_user

_TRACEBACK_CHARS = 4_000


def collect_errors(failed: Sequence[int], infos: Mapping[int, dict[str, Any]]) -> RowErrors:
    """Take the errors of failed rows out of their infos."""
    return {row: infos.get(row, {}).get("sandpool_error") or _unexplained() for row in failed}


class Reporter:
    """Warns once for each kind of failure in a pool's life, or raises."""

    def __init__(self, *, raises: bool) -> None:
        self._raises = raises
        self._warned: set[str] = set()

    def report(self, errors: RowErrors, result: object) -> None:
        """Tell the user of the failed rows of one batch; `result` goes into the exception."""
        if self._raises:
            raise RowsFailedError(describe_errors(errors), errors=errors, result=result)
        fresh: dict[str, RowErrors] = {}
        for row, error in errors.items():
            kind = str(error.get("kind"))
            if kind not in self._warned:
                fresh.setdefault(kind, {})[row] = error
        for kind, rows in fresh.items():
            self._warned.add(kind)
            message = f"{describe_errors(rows)}\n  Further failures of kind {escape_untrusted(kind)} are only in .errors and infos."
            warn_user(message)


def describe_errors(errors: RowErrors) -> str:
    """Say in a few lines, safe for a terminal, which rows failed and how the first one did."""
    first = min(errors)
    error = errors[first]
    more = f" (and {len(errors) - 1} more: {_list_rows(sorted(errors)[1:])})" if len(errors) > 1 else ""
    text = f"environment {first} failed in {error.get('op')} with {error.get('kind')}{more}: {error.get('message')}"
    tail = error.get("traceback") or error.get("stderr_tail")
    if tail:
        text += "\n    " + str(tail)[-_TRACEBACK_CHARS:].rstrip().replace("\n", "\n    ")
    return escape_untrusted(text)


def _list_rows(rows: list[int]) -> str:
    shown = ", ".join(map(str, rows[:10]))
    return shown if len(rows) <= 10 else f"{shown}, …"


def _unexplained() -> dict[str, Any]:
    return {"kind": "protocol", "op": None, "message": "the server named the row as failed and gave no error"}

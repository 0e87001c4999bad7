"""Make machines: one request whose key lets a repetition join it, followed by its lines of progress."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from sandpool.errors import ConnectionLostError, InvalidTypeError, SandpoolError
from sandpool.machines.description import checked_mapping, plain_size
from sandpool.pool.options import check_count, check_seconds
from sandpool.pool.progress import ProgressDisplay
from sandpool.transport.calls import Calls, encode, event_error, repeat_when_broken

# The server says something at least every 5 s while it makes a machine.
_SILENCE_S = 60.0
_QUEUE_PATIENCE_S = 120.0
_QUEUE_PAUSE_S = 2.0
_GOODBYE_TIMEOUT_S = 10.0
_LABELS = {
    "image": "Preparing the image",
    "prepare": "Preparing the machine",
    "disk": "Making its disk",
    "network": "Connecting its network",
    "start": "Starting it",
}


def create_request(
    name: str | None,
    image: str,
    size: Any,
    driver: str | None,
    isolated: bool,
    egress: Any,
    environment: Any,
    labels: Any,
    lifetime: float | None,
    lease: float | None,
    count: int | None,
) -> dict[str, Any]:
    """Check a creation's arguments as far as they need no server, and return its body."""
    if isinstance(egress, str) or (egress is not None and not all(isinstance(host, str) for host in egress)):
        raise InvalidTypeError(f"egress={egress!r:.80} was given; expected a list of host names, or None.")
    for label, seconds in (("lifetime", lifetime), ("lease", lease)):
        if seconds is not None:
            check_seconds(label, seconds)
    if count is not None:
        check_count("count", count)
    request: dict[str, Any] = {"image": image, "size": plain_size(size), "isolated": bool(isolated)}
    request |= {"environment": checked_mapping("environment", environment), "labels": checked_mapping("labels", labels)}
    given = {"name": name, "driver": driver, "egress": None if egress is None else list(egress), "lifetime": lifetime, "lease": lease}
    request |= {key: value for key, value in given.items() if value is not None}
    return request | ({} if count is None or count == 1 else {"count": int(count)})


def create_machines(calls: Calls, request: Mapping[str, Any], progress: str | bool) -> Mapping[str, Any]:
    """Send a creation and return its last line: ``{"event": "machine" or "machines", …}``. Waits its turn where a queue is full.

    Whoever is interrupted meanwhile leaves nothing behind.
    """
    key, data = uuid.uuid4().hex, encode(request)
    try:
        with ProgressDisplay(progress, _LABELS) as display:
            return _wait_turn(lambda: repeat_when_broken(lambda: _follow(calls, key, data, display)))
    except SandpoolError:
        raise
    except BaseException:
        _revoke(calls, key)
        raise


def _wait_turn(create: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    until = time.monotonic() + _QUEUE_PATIENCE_S
    while True:
        try:
            return create()
        except SandpoolError as error:
            if not _is_queue_full(error) or time.monotonic() > until:
                raise
        time.sleep(_QUEUE_PAUSE_S)


def _revoke(calls: Calls, key: str) -> None:
    # By its key, for nobody knows an id yet. The name in the address is none that a machine can have.
    with contextlib.suppress(SandpoolError):
        calls.read_json("DELETE", ("machines", "_"), headers={"Idempotency-Key": key}, timeout_s=_GOODBYE_TIMEOUT_S)


def _follow(calls: Calls, key: str, data: bytes, display: ProgressDisplay) -> Mapping[str, Any]:
    headers = {"Content-Type": "application/json", "Idempotency-Key": key}
    for line in calls.lines("POST", ("machines",), headers=headers, body=data, silence_s=_SILENCE_S):
        event = line.get("event")
        if event == "error":
            raise event_error(line)
        if event in ("machine", "machines"):
            return line
        if event == "progress":
            display.update(line.get("phase"), line.get("done"), line.get("total"))
        elif event is None:
            # A server that knows no progress answers with the description itself.
            return {"event": "machine", "machine": line} if "id" in line else {"event": "machines", **line}
    raise ConnectionLostError("The server ended the creation's reply without a machine or an error.", hint="Its log says why.")


def _is_queue_full(error: SandpoolError) -> bool:
    # A bound on what starts at once passes by itself; the owner's quota does not.
    return error.code == "quota" and error.details.get("retry_after") is not None


def delete_quietly(calls: Calls, reference: str) -> None:
    """Delete a machine that nobody can use any more; its lease or lifetime ends it where the server cannot be reached."""
    with contextlib.suppress(SandpoolError):
        calls.json("DELETE", ("machines", reference), timeout_s=_GOODBYE_TIMEOUT_S)

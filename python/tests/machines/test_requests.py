"""What is sent and how replies are read, against a server that answers what the test wrote."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

import sandpool
from replay_server import ReplayServer, Request, chunked, http, http_error, http_json
from sandpool import Sandpool
from sandpool.execs.frames import read_frames
from sandpool.execs.output import Keeper

MACHINE = {
    "id": "m" + "0" * 20,
    "name": "box",
    "state": "running",
    "image": "host",
    "driver": "gvisor",
    "size": {"vcpu": 1, "memory": 1 << 30, "disk": 5 << 30},
    "labels": {"$bytes": "aGk=", "plain": "x"},
    "of_the_future": [1],
}
OUTCOME = {"id": "x" + "0" * 16, "state": "exited", "exit_code": 0, "signal": None, "stdout": "out", "stderr": "", "left": []}


@pytest.fixture
def client(replay: ReplayServer) -> Sandpool:
    return Sandpool()


def frame(kind: int, data: bytes) -> bytes:
    return struct.pack("<BI", kind, len(data)) + data


def ndjson(*events: object) -> list[bytes]:
    return [json.dumps(event).encode() + b"\n" for event in events]


def test_a_description_is_plain_and_keeps_what_this_version_does_not_know(replay: ReplayServer, client: Sandpool) -> None:
    replay.answer("GET /v1/machines/box", http_json(200, MACHINE))
    machine = client.machines.get("box")
    # A label that looks like a tag of observations stays the text it is.
    assert machine.labels == {"$bytes": "aGk=", "plain": "x"}
    assert machine.to_dict() == MACHINE
    replay.answer("GET /v1/machines/box", http_json(200, {"id": "m"}))
    with pytest.raises(sandpool.ReplyError, match="not complete"):
        client.machines.get("box")


def test_a_creation_has_a_key_and_is_repeated_with_it_after_a_broken_connection(replay: ReplayServer, client: Sandpool) -> None:
    events = ndjson({"event": "accepted", "id": "o1"}, {"event": "progress", "phase": "start", "done": 0, "total": 1})
    whole = chunked([*events, *ndjson({"event": "heartbeat"}, {"event": "machine", "machine": MACHINE})])
    replay.answer("POST /v1/machines", None, chunked(events), whole)
    assert client.machines.create("box", progress=False).id == MACHINE["id"]
    requests = replay.of("POST /v1/machines")
    assert len(requests) == 3
    assert len({request.headers["idempotency-key"] for request in requests}) == 1
    assert len({request.body for request in requests}) == 1
    client.machines.create("box", progress=False)
    assert len({request.headers["idempotency-key"] for request in replay.of("POST /v1/machines")}) == 2


def test_a_full_queue_is_waited_for_and_a_used_up_quota_is_not(
    replay: ReplayServer, client: Sandpool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandpool.machines.create._QUEUE_PAUSE_S", 0.01)
    replay.answer("POST /v1/machines", http_error(429, "quota", retry_after=1), chunked(ndjson({"event": "machine", "machine": MACHINE})))
    assert client.machines.create("box", progress=False).name == "box"
    replay.answer("POST /v1/machines", http_error(429, "quota", used=50, limit=50))
    with pytest.raises(sandpool.LimitError) as caught:
        client.machines.create("box", progress=False)
    assert caught.value.details["used"] == 50


def test_the_error_at_the_end_of_a_creation_is_of_its_kind(replay: ReplayServer, client: Sandpool) -> None:
    error = {"code": "image_not_found", "message": "no image x", "hint": "build it", "details": {}}
    replay.answer("POST /v1/machines", chunked(ndjson({"event": "error", "error": error, "status": 404})))
    with pytest.raises(sandpool.ImageNotFoundError, match="no image x"):
        client.machines.create("box", image="x", progress=False)


def test_an_interrupted_creation_is_revoked_by_its_key(replay: ReplayServer, client: Sandpool, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    replay.answer("POST /v1/machines", chunked(ndjson({"event": "progress", "phase": "start", "done": 0, "total": 1})))
    replay.answer("DELETE /v1/machines/_", http_json(200, {"id": "_", "deleted": True}))
    monkeypatch.setattr("sandpool.pool.progress.ProgressDisplay.update", interrupt)
    with pytest.raises(KeyboardInterrupt):
        client.machines.create("box", progress=False)
    (deleted,) = replay.of("DELETE /v1/machines/_")
    assert deleted.headers["idempotency-key"] == replay.of("POST /v1/machines")[0].headers["idempotency-key"]


def test_an_exec_is_one_request_with_what_was_given(replay: ReplayServer, client: Sandpool) -> None:
    replay.answer("POST /v1/machines/box/exec", http_json(200, {**OUTCOME, "stdout": {"base64": "/wA="}}))
    result = client.machines.exec("box", ["a", "b"], cwd="/c", environment={"D": "e"}, user="f", stdin=b"\xff", timeout=2.5)
    assert result.stdout_bytes == b"\xff\x00"
    (request,) = replay.of("POST /v1/machines/box/exec")
    assert json.loads(request.body) == {
        "argv": ["a", "b"],
        "cwd": "/c",
        "environment": {"D": "e"},
        "user": "f",
        "timeout": 2.5,
        "stdin": {"base64": "/w=="},
    }
    client.machines.exec("box", "text", stdin="é")
    assert json.loads(replay.of("POST /v1/machines/box/exec")[1].body) == {"command": "text", "stdin": "é"}


def test_an_error_is_not_repeated_and_a_damaged_reply_is_named(replay: ReplayServer, client: Sandpool) -> None:
    route = "POST /v1/machines/box/exec"
    replay.answer(route, http_error(500, "internal"))
    with pytest.raises(sandpool.ServerFailedError):
        client.machines.exec("box", "true")
    assert len(replay.of(route)) == 1
    for damaged in (http(200, b"<html>"), http_json(200, [1]), http_json(200, {**OUTCOME, "stdout": {"base64": "!"}})):
        replay.answer(route, damaged)
        with pytest.raises(sandpool.ReplyError):
            client.machines.exec("box", "true")


def test_an_upload_whose_hash_is_another_at_the_other_end_is_an_error(replay: ReplayServer, client: Sandpool) -> None:
    route = "PUT /v1/machines/box/files?path=%2Fx"
    replay.answer(route, http_json(200, {"bytes": 3, "sha256": "0" * 64}))
    with pytest.raises(sandpool.ReplyError, match="not what is there"):
        client.machines.files.write("box", "/x", b"abc")
    # SHA-256 of "abc" (FIPS 180-2, appendix B.1), sent ahead so that the server refuses other bytes.
    (request,) = replay.of(route)
    assert request.headers["x-sandpool-sha256"] == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_a_download_that_is_damaged_leaves_nothing(replay: ReplayServer, client: Sandpool, tmp_path: Path) -> None:
    stat = {"name": "x", "path": "/x", "kind": "file", "size": 3}
    replay.answer("GET /v1/machines/box/files/stat?path=%2Fx&follow=true", http_json(200, {"entry": stat}))
    replay.answer("GET /v1/machines/box/files?path=%2Fx", http(200, b"abc", extra=f"X-Sandpool-Sha256: {'0' * 64}\r\n"))
    with pytest.raises(sandpool.ReplyError, match="damaged"):
        client.machines.files.download("box", "/x", tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_frames_are_read_in_pieces_of_any_size(size: int) -> None:
    body = frame(3, b"{}") + frame(1, b"out") + frame(2, b"") + frame(1, b"x" * 300)
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    assert [(found.kind, found.data) for found in read_frames(pieces)] == [(3, b"{}"), (1, b"out"), (2, b""), (1, b"x" * 300)]
    assert [found.kind for found in read_frames([body[:-1]])] == [3, 1, 2]


@pytest.mark.parametrize("head", [struct.pack("<BI", 9, 1), struct.pack("<BI", 1, 1 << 31)])
def test_a_frame_of_another_kind_or_size_is_refused_before_it_is_read(head: bytes) -> None:
    with pytest.raises(sandpool.ReplyError):
        list(read_frames([head]))


def test_head_and_tail_are_kept_of_a_stream_of_any_length() -> None:
    for total in (0, 3, 10, 11, 19, 20, 21, 1000):
        keeper = Keeper(20)
        data = bytes(number % 251 for number in range(total))
        for start in range(0, total, 7):
            keeper.add(data[start : start + 7])
        content, head, dropped = keeper.content()
        assert (content, dropped) == ((data, 0) if total <= 20 else (data[:10] + data[-10:], total - 20))
        assert head == min(10, total)


def test_a_stream_that_breaks_again_and_again_ends_with_an_error(
    replay: ReplayServer, client: Sandpool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandpool.execs.stream._MOST_BREAKS", 3)
    first = frame(3, json.dumps({"id": OUTCOME["id"], "pid": 7, "dropped": {"stdout": 0, "stderr": 0}}).encode())
    body = chunked([first, frame(1, b"same")], "application/vnd.sandpool.exec", 200)
    replay.answer("POST /v1/machines/box/exec", body)
    replay.answer(f"DELETE /v1/machines/box/exec/{OUTCOME['id']}", http_json(200, {}))
    with client.machines.stream_exec("box", "x") as running, pytest.raises(sandpool.ConnectionLostError, match="broke before its end"):
        list(running)
    assert running.id == OUTCOME["id"]
    assert len(replay.of("POST /v1/machines/box/exec")) == 4


def test_an_image_is_built_pulled_imported_listed_and_removed(replay: ReplayServer, client: Sandpool, tmp_path: Path) -> None:
    image = {"id": "sha256:" + "0" * 64, "name": "python", "kind": "recipe", "bytes": 5, "source": None, "description": "d"}
    events = chunked(ndjson({"event": "progress", "phase": "install", "done": 1, "total": 0}, {"event": "image", "image": image}))
    replay.answer("POST /v1/images", events)
    assert client.images.build("python", progress=False).id == image["id"]
    assert client.images.pull("debian@sha256:0", progress=False).to_dict() == image
    assert [json.loads(request.body) for request in replay.of("POST /v1/images")] == [{"build": "python"}, {"pull": "debian@sha256:0"}]
    (tmp_path / "root.tar").write_bytes(b"tar" * 1000)
    replay.answer("PUT /v1/images?name=mine", events)
    assert client.images.import_tar("mine", tmp_path / "root.tar", progress=False).kind == "recipe"
    assert replay.of("PUT /v1/images?name=mine")[0].body == b"tar" * 1000
    replay.answer("GET /v1/images", http_json(200, {"images": [image]}))
    assert [found.name for found in client.images.list()] == ["python"]
    replay.answer("DELETE /v1/images/python", http_error(409, "image_in_use", machines=["box"]))
    with pytest.raises(sandpool.ImageInUseError):
        client.images.remove("python")


def test_a_name_stands_in_the_address_as_one_part(replay: ReplayServer, client: Sandpool) -> None:
    seen: list[str] = []

    def fallback(request: Request) -> bytes:
        seen.append(request.path)
        return http_error(404, "machine_not_found")

    replay.fallback = fallback
    for name in ("a/../b", "a?b", "é"):
        with pytest.raises(sandpool.MachineNotFoundError):
            client.machines.get(name)
    assert seen == ["/v1/machines/a%2F..%2Fb", "/v1/machines/a%3Fb", "/v1/machines/%C3%A9"]
    for wrong in ("", ".", ".."):
        with pytest.raises(sandpool.InvalidValueError):
            client.machines.get(wrong)
    with pytest.raises(sandpool.InvalidTypeError):
        client.machines.get(7)  # type: ignore[arg-type]

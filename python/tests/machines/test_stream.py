from __future__ import annotations

import hashlib

import pytest

import sandpool
from machines.conftest import Cutter
from sandpool import Machine, Sandpool


def test_output_comes_as_it_is_written(client: Sandpool, box: Machine) -> None:
    with client.machines.stream_exec(box, "echo one; read wait; echo two >&2; exit 4", stdin="open") as running:
        first = next(running)
        assert (first.kind, first.data, first.raw) == ("stdout", "one\n", b"one\n")
        running.write_stdin("go\n")
        second = next(running)
        assert (second.kind, second.data) == ("stderr", "two\n")
        result = running.wait()
    assert (result.exit_code, result.stdout, result.stderr, result.id) == (4, "one\n", "two\n", running.id)


def test_row_12_a_character_split_between_two_pieces_is_one_character(client: Sandpool, box: Machine) -> None:
    command = r"printf 'a\303'; sleep 0.3; printf '\251\360\237'; sleep 0.3; printf '\230\200b'; sleep 0.3; printf '\342\202'"
    with client.machines.stream_exec(box, command) as running:
        events = list(running)
        result = running.wait()
    assert "".join(event.data for event in events) == "aé😀b\ufffd"
    assert b"".join(event.raw for event in events) == "aé😀b".encode() + b"\xe2\x82"
    assert all("\ufffd" not in event.data for event in events[:-1])
    assert result.stdout == "aé😀b\ufffd"


def test_row_11_nothing_is_dropped_of_a_burst_whoever_is_slow(client: Sandpool, box: Machine) -> None:
    size = 24 << 20
    expected = client.machines.exec(box, f"seq 1 9999999 | head -c {size} | sha256sum").stdout.split()[0]
    hashing = hashlib.sha256()
    with client.machines.stream_exec(box, f"seq 1 9999999 | head -c {size}") as running:
        for event in running:
            hashing.update(event.raw)
        result = running.wait()
    assert hashing.hexdigest() == expected
    # The stream was whole; the result keeps head and tail of it.
    assert (result.truncated, result.stdout_total_bytes) == (True, size)
    assert len(result.stdout_bytes) + result.stdout_dropped_bytes == size


def test_row_14_and_15_standard_input_is_closed_when_told_and_loses_nothing_before(client: Sandpool, box: Machine) -> None:
    sent = b"0123456789abcdef" * 40_000
    with client.machines.stream_exec(box, ["cat"], stdin="open") as running:
        running.write_stdin(sent[:-1])
        running.write_stdin(sent[-1:])
        running.close_stdin()
        result = running.wait()
    assert (result.exit_code, result.stdout_bytes) == (0, sent)


def test_a_stream_that_is_left_ends_its_program(client: Sandpool, box: Machine) -> None:
    with client.machines.stream_exec(box, "echo on; sleep 98764") as running:
        assert next(running).data == "on\n"
    assert client.machines.get_exec(box, running.id).signal == "TERM"


def test_a_killed_program_still_tells_what_it_wrote(client: Sandpool, box: Machine) -> None:
    with client.machines.stream_exec(box, "echo on; trap '' TERM; while :; do sleep 1; done") as running:
        assert next(running).data == "on\n"
        running.kill()
        result = running.wait()
    assert (result.signal, result.stdout) == ("KILL", "on\n")


def test_a_terminal_has_a_size_that_changes(client: Sandpool, box: Machine) -> None:
    with client.machines.stream_exec(box, "stty size; read line; stty size", tty={"rows": 10, "columns": 20}) as running:
        text = ""
        for event in running:
            text += event.data
            if text == "10 20\r\n":
                running.resize(11, 21)
                running.write_stdin("\n")
    assert text.endswith("11 21\r\n")


def test_attaching_shows_the_output_so_far_and_leaves_the_program_running(client: Sandpool, box: Machine) -> None:
    started = client.machines.start_exec(box, "echo first; while [ ! -e /tmp/attach-go ]; do sleep 0.1; done; echo last")
    with client.machines.attach(box, started.id) as attached:
        assert next(attached).data == "first\n"
    with client.machines.attach(box, started.id) as attached:
        client.machines.files.write(box, "/tmp/attach-go", "")
        result = attached.wait()
    assert (result.stdout, result.exit_code) == ("first\nlast\n", 0)


def test_a_stream_joins_its_program_again_and_shows_each_byte_once(through_cutter: Sandpool, cutter: Cutter, box: Machine) -> None:
    cutter.cut_after_bytes = 300_000
    with through_cutter.machines.stream_exec(box, "seq 1 200000; sleep 0.5; echo end") as running:
        received = b"".join(event.raw for event in running)
        result = running.wait()
    assert cutter.connections >= 2
    assert received == "".join(f"{number}\n" for number in range(1, 200_001)).encode() + b"end\n"
    assert (result.exit_code, result.stdout_total_bytes) == (0, len(received))


def test_input_that_was_not_left_open_is_refused(client: Sandpool, box: Machine) -> None:
    with client.machines.stream_exec(box, ["cat"], stdin=b"given") as running:
        with pytest.raises(sandpool.InvalidValueError, match="not left open"):
            running.write_stdin(b"more")
        assert running.wait().stdout == "given"


def test_a_program_that_cannot_start_is_an_error_of_the_stream(client: Sandpool, box: Machine) -> None:
    with pytest.raises(sandpool.ExecFailedError):
        client.machines.stream_exec(box, ["no-such-program"])
    with pytest.raises(sandpool.ExecFailedError):
        client.machines.stream_exec(box, ["no-such-program"], stdin="open")

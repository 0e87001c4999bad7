from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable

import pytest

import sandpool
from machines.conftest import Cutter
from sandpool import ExecFailedError, ExecResult, Machine, Sandpool

MIB = 1 << 20


def until(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def runs(client: Sandpool, box: Machine, marker: str) -> bool:
    """Whether a program with the marker in its command line runs inside."""
    script = (
        f"for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $f 2>/dev/null | grep -v script- | grep -q '{marker}' && exit 0; done; exit 1"
    )
    return client.machines.exec(box, ["sh", "-c", script, "script-"]).exit_code == 0


def test_a_result_has_output_exit_code_and_text(client: Sandpool, box: Machine) -> None:
    result = client.machines.exec(box, "printf 'out'; printf 'err\\n' >&2; exit 3")
    assert (result.stdout, result.stderr, result.exit_code, result.signal, result.ok) == ("out", "err\n", 3, None, False)
    assert (result.stdout_bytes, result.stdout_total_bytes, result.truncated, result.timed_out) == (b"out", 3, False, False)
    assert result.to_dict()["stdout"] == "out"


def test_a_list_is_a_program_and_its_arguments_and_text_is_for_the_shell(client: Sandpool, box: Machine) -> None:
    assert client.machines.exec(box, ["printf", "%s|", "$HOME", "a b", "'"]).stdout == "$HOME|a b|'|"
    assert client.machines.exec(box, "printf '%s|' $((6*7))").stdout == "42|"


def test_row_22_arguments_and_variables_are_never_spliced_into_a_shell(client: Sandpool, box: Machine) -> None:
    hostile = "$(touch /tmp/spliced); `id`\n\"'\\"
    result = client.machines.exec(box, ["sh", "-c", 'printf "%s" "$1$VALUE"', "sh", hostile], environment={"VALUE": hostile}, check=True)
    assert result.stdout == hostile * 2
    with pytest.raises(sandpool.MachineFileNotFoundError):
        client.machines.files.stat(box, "/tmp/spliced")


def test_cwd_environment_and_user_are_the_programs_own(client: Sandpool, box: Machine) -> None:
    result = client.machines.exec(box, "pwd; echo $A; id -u", cwd="/tmp", environment={"A": "é"}, user="1234")
    assert result.stdout == "/tmp\né\n1234\n"


def test_row_7_and_8_output_is_exact_to_the_byte(client: Sandpool, box: Machine) -> None:
    every_byte = bytes(range(256)) * 64
    assert client.machines.exec(box, ["cat"], stdin=every_byte).stdout_bytes == every_byte
    line = "x" * 300_000
    assert client.machines.exec(box, ["cat"], stdin=line).stdout == line


def test_row_1_and_6_a_timeout_ends_the_tree_and_keeps_the_output_so_far(client: Sandpool, box: Machine) -> None:
    result = client.machines.exec(box, "echo before; sh -c 'sleep 98761 & sleep 98761'", timeout=1.0)
    assert (result.timed_out, result.stdout) == (True, "before\n")
    assert not runs(client, box, "sleep 98761")
    with pytest.raises(ExecFailedError, match=r"timeout after \d+\.\d s"):
        result.check()


def test_row_9_and_10_what_is_too_long_keeps_head_and_tail_and_says_how_much_is_gone(client: Sandpool, box: Machine) -> None:
    result = client.machines.exec(box, "echo first; head -c 20000000 /dev/zero | tr '\\0' x; echo; echo last")
    assert (result.truncated, result.stdout_total_bytes) == (True, 20_000_012)
    assert result.stdout_dropped_bytes == 20_000_012 - len(result.stdout_bytes) > 0
    assert result.stdout.startswith("first\nxxx")
    assert result.stdout.endswith("x\nlast\n")
    assert f"\n[… {result.stdout_dropped_bytes} bytes dropped …]\n" in result.stdout


def test_row_13_a_program_without_input_reads_its_end_at_once(client: Sandpool, box: Machine) -> None:
    assert client.machines.exec(box, "cat; echo done", timeout=20).stdout == "done\n"


def test_row_5_and_18_an_exec_returns_when_its_leader_ends_though_a_daemon_holds_the_pipe(client: Sandpool, box: Machine) -> None:
    result = client.machines.exec(box, "sleep 98762 & echo started", timeout=60)
    assert (result.stdout, result.timed_out, result.exit_code) == ("started\n", False, 0)
    assert [program.command for program in result.left] == ["sleep 98762"]
    assert runs(client, box, "sleep 98762")
    client.machines.end_exec(box, result.id)
    assert not runs(client, box, "sleep 98762")


def test_row_21_a_signal_is_128_and_its_number(client: Sandpool, box: Machine) -> None:
    result = client.machines.exec(box, "kill -KILL $$")
    assert (result.exit_code, result.signal) == (137, "KILL")


def test_the_error_of_a_failed_program_has_the_result_and_the_escaped_end_of_what_it_wrote(client: Sandpool, box: Machine) -> None:
    with pytest.raises(ExecFailedError) as caught:
        client.machines.exec(box, "printf 'bad \\033[2J news' >&2; exit 9", check=True)
    assert "exit code 9:\n    bad \\x1b[2J news\n" in str(caught.value)
    assert isinstance(caught.value.result, ExecResult)
    assert caught.value.result.stderr == "bad \x1b[2J news"


def test_a_program_that_is_not_there_says_so(client: Sandpool, box: Machine) -> None:
    with pytest.raises(ExecFailedError) as caught:
        client.machines.exec(box, ["no-such-program"])
    assert (caught.value.code, caught.value.result, caught.value.details["what"]) == ("exec_failed", None, "program")


def test_input_longer_than_a_request_goes_in_whole(client: Sandpool, box: Machine) -> None:
    result = client.machines.exec(box, ["sha256sum"], stdin=b"abc" * (6 * MIB))
    assert result.stdout.split()[0] == hashlib.sha256(b"abc" * (6 * MIB)).hexdigest()
    # A program that does not read all of it is no error.
    assert client.machines.exec(box, ["head", "-c", "3"], stdin=b"abc" * (6 * MIB)).stdout == "abc"


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        ({"command": ""}, sandpool.InvalidValueError),
        ({"command": []}, sandpool.InvalidValueError),
        ({"command": ["echo", 1]}, sandpool.InvalidTypeError),
        ({"command": b"ls"}, sandpool.InvalidTypeError),
        ({"command": "ls", "timeout": 0}, sandpool.InvalidValueError),
        ({"command": "ls", "environment": {"A": 1}}, sandpool.InvalidTypeError),
        ({"command": "ls", "stdin": 7}, sandpool.InvalidTypeError),
        ({"command": "ls", "environment": {"A=B": "1"}}, sandpool.RequestRefusedError),
        ({"command": "ls", "user": "no user"}, sandpool.RequestRefusedError),
    ],
)
def test_a_wrong_argument_is_refused(client: Sandpool, box: Machine, wrong: dict[str, object], kind: type[Exception]) -> None:
    with pytest.raises(kind):
        client.machines.exec(box, **wrong)  # type: ignore[arg-type]


def test_a_broken_connection_is_joined_again_and_the_program_runs_once(
    client: Sandpool, through_cutter: Sandpool, cutter: Cutter, box: Machine
) -> None:
    results: list[ExecResult] = []
    command = "echo run >> /tmp/joined; sleep 1.5; echo end"
    waiting = threading.Thread(target=lambda: results.append(through_cutter.machines.exec(box, command)))
    waiting.start()
    until(lambda: client.machines.exec(box, ["cat", "/tmp/joined"]).stdout == "run\n")
    cutter.cut()
    waiting.join()
    assert [(result.stdout, result.exit_code) for result in results] == [("end\n", 0)]
    assert cutter.connections >= 2
    assert client.machines.files.read_text(box, "/tmp/joined") == "run\n"


def test_row_3_ctrl_c_ends_the_program_inside(client: Sandpool, running_server: dict[str, str], box: Machine) -> None:
    program = textwrap.dedent(f"""
        from sandpool import Sandpool
        print("ready", flush=True)
        Sandpool({running_server["url"]!r}, {running_server["key"]!r}).machines.exec({box.id!r}, ["sleep", "98763"])
    """)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"ready\n"
        until(lambda: runs(client, box, "sleep 98763"))
        os.kill(running.pid, signal.SIGINT)
        _, errors = running.communicate(timeout=60)
    assert b"KeyboardInterrupt" in errors
    assert not runs(client, box, "sleep 98763")


def test_row_19_a_program_in_the_background_can_be_listed_signalled_awaited(client: Sandpool, box: Machine) -> None:
    started = client.machines.start_exec(box, "echo on; trap 'echo told; exit 7' USR1; while :; do sleep 0.1; done")
    assert client.machines.wait_exec(box, started.id, timeout=0.2).state == "running"
    listed = {item.id: item for item in client.machines.list_execs(box)}
    assert (listed[started.id].state, listed[started.id].pid) == ("running", started.pid)
    with client.machines.attach(box, started.id) as attached:
        assert next(attached).data == "on\n"
    assert client.machines.signal_exec(box, started.id, "USR1") == 1
    result = client.machines.wait_exec(box, started.id)
    assert (result.exit_code, result.stdout, result.state) == (7, "on\ntold\n", "exited")


def test_row_20_a_finished_program_stays_known_with_its_exit_code(client: Sandpool, box: Machine) -> None:
    result = client.machines.exec(box, "echo kept; exit 5")
    assert client.machines.get_exec(box, result.id).exit_code == 5
    with pytest.raises(sandpool.ExecNotFoundError):
        client.machines.get_exec(box, "x" + "0" * 16)

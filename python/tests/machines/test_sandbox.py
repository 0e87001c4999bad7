from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

import sandpool
from machines.conftest import LIFETIME_S, new_name
from sandpool import Machine, Sandbox, Sandpool


@pytest.fixture(autouse=True)
def _found(server: dict[str, str]) -> None:
    """The server is found as users' programs find it."""


@pytest.fixture(scope="module")
def sandbox(running_server: dict[str, str]) -> Sandbox:
    with Sandbox(
        name=new_name(), isolated=True, env={"GIVEN": "yes"}, lifetime=LIFETIME_S, url=running_server["url"], api_key=running_server["key"]
    ) as made:
        yield made


def names(client: Sandpool) -> set[str]:
    return {machine.name for machine in client.machines.list()}


def test_a_sandbox_runs_programs_and_has_files_and_addresses(sandbox: Sandbox) -> None:
    assert sandbox.exec("echo $GIVEN", check=True).stdout == "yes\n"
    sandbox.files.write("/root/data.txt", "data")
    assert sandbox.exec(["cat", "/root/data.txt"]).check().stdout == "data"
    assert sandbox.url(80).endswith(f"/v1/machines/{sandbox.id}/ports/80/")
    with sandbox.stream_exec(["cat"], stdin="x") as running:
        assert running.wait().stdout == "x"


def test_code_runs_with_its_traceback_and_finds_modules_where_it_runs(sandbox: Sandbox) -> None:
    sandbox.files.write("/root/my_module.py", "VALUE = 42\n")
    code = """
        import multiprocessing, my_module
        def square(number):
            return number * number
        if __name__ == "__main__":
            with multiprocessing.get_context("spawn").Pool(2) as pool:
                print(sum(pool.map(square, [1, 2, 3])), my_module.VALUE)
            raise RuntimeError("on purpose")
    """
    result = sandbox.run(textwrap.dedent(code), timeout=120)
    assert (result.stdout, result.exit_code) == ("14 42\n", 1)
    assert 'raise RuntimeError("on purpose")' in result.stderr
    with pytest.raises(sandpool.ExecFailedError, match="RuntimeError: on purpose"):
        result.check()
    assert sandbox.exec("ls -d /tmp/sandpool-run-* 2>/dev/null").stdout == ""


def test_code_of_any_length_and_content_runs_as_it_stands(sandbox: Sandbox) -> None:
    result = sandbox.run("text = '''" + "x" * 3_000_000 + "'''\nprint(len(text), \"it's $HOME `id`\")")
    assert result.stdout == "3000000 it's $HOME `id`\n"
    assert sandbox.run('read line; echo "got <$line>"; exit 3', language="bash").exit_code == 3
    assert sandbox.run("sleep 60", language="bash", timeout=0.5).timed_out is True
    with pytest.raises(sandpool.InvalidValueError, match="'python' or 'bash' or 'node'"):
        sandbox.run("puts 1", language="ruby")  # type: ignore[arg-type]


def test_it_is_deleted_at_the_end_of_the_block_and_after_an_exception(client: Sandpool) -> None:
    with Sandbox(isolated=True, progress=False) as made:
        assert made.name in names(client)
    assert made.closed
    with pytest.raises(RuntimeError, match="on purpose"), Sandbox(isolated=True, progress=False) as failed:
        raise RuntimeError("on purpose")
    assert names(client) & {made.name, failed.name} == set()
    made.close()


def test_a_sandbox_that_somebody_else_deleted_closes_quietly(client: Sandpool) -> None:
    with Sandbox(isolated=True, progress=False) as made:
        client.machines.delete(made.id)
        with pytest.raises(sandpool.SandpoolError) as caught:
            made.exec("true")
    assert type(caught.value) in (sandpool.MachineNotFoundError, sandpool.MachineLostError)


PROGRAM = """
    import os, sys, time
    from sandpool import Sandbox
    sb = Sandbox(name=sys.argv[1], isolated=True, progress=False, lease=3.0)
    print("made", flush=True)
    if sys.argv[2] == "fork":
        if os.fork() == 0:
            sys.exit()
        os.wait()
        assert sb.exec("echo still").stdout == "still\\n"
        os._exit(0)
    if sys.argv[2] == "exit":
        sys.exit()
    sb.exec("sleep 600")
"""


@pytest.mark.parametrize("how", ["exit", "interrupt", "kill"])
def test_row_36_a_machine_goes_with_its_program_however_that_ends(client: Sandpool, how: str) -> None:
    name = new_name()
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), name, how], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"made\n"
        if how != "exit":
            assert name in names(client)
            os.kill(running.pid, signal.SIGINT if how == "interrupt" else signal.SIGKILL)
        running.communicate(timeout=60)
    if how == "kill":
        # Nobody could say that it ended: the lease of three seconds does.
        end = time.monotonic() + 30
        while name in names(client) and time.monotonic() < end:
            time.sleep(0.2)
    assert name not in names(client)


def test_a_forked_child_does_not_delete_its_parents_machine(client: Sandpool) -> None:
    name = new_name()
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(PROGRAM), name, "fork"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_lease_is_renewed_while_the_object_lives(client: Sandpool) -> None:
    with Sandbox(isolated=True, progress=False, lease=1.5) as made:
        time.sleep(4)
        assert made.exec("echo alive").stdout == "alive\n"
        found: Machine = client.machines.get(made.id)
    assert found.lease == 1.5

"""A template forks environments that the agent can wait for, with the template's memory and their own channel and stderr."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from env.harness import Child, Program, python, vendor

TEMPLATE = """
    import os, sys, threading
    import random
    from sandpool.env import serve

    class Env:
        def __init__(self, config):
            self.config, self.made_in, self.steps, self.big = config, os.getpid(), 0, bytearray(8_000_000)
        def reset(self, seed=None):
            return [self.made_in, os.getpid(), os.getppid()], {"config": self.config}
        def step(self, action):
            self.steps += 1
            self.big[action] = 1
            print("stepping", action)
            return self.steps, float(sum(self.big[:10])), False, False, {}
        def where(self):
            with open("/proc/self/stat") as file:
                session = int(file.read().rpartition(")")[2].split()[3])
            return {
                "cwd": os.getcwd(), "home": os.environ.get("HOME"), "tmp": os.environ.get("TMPDIR"), "session": session, "uid": os.getuid(),
                "gid": os.getgid(), "groups": os.getgroups(), "thread": threading.get_native_id(),
                "descriptors": os.listdir("/proc/self/fd"),
                "status": dict(line.split(":\\t") for line in open("/proc/self/status").read().splitlines()),
                "stdin": os.readlink("/proc/self/fd/0"), "stdout": os.readlink("/proc/self/fd/1"), "stderr": os.readlink("/proc/self/fd/2"),
            }
        def draw(self):
            return random.random()
"""
SHARED = TEMPLATE + "    serve(make=lambda config: Env(config))"
EACH = TEMPLATE + "    serve(make=lambda index, config: Env([index, config]))"
ONE_ENVIRONMENT = TEMPLATE + "    serve(Env('given'))"


def fork(template: Program, index: int, folder: Path, **members: Any) -> Child:
    child = Child(template, index, folder, **members)
    assert child.first is not None, child.log()
    return child


def pid_of(child: Child) -> int:
    assert child.first is not None
    return int(child.first["pid"])


def end(*children: Child) -> None:
    for child in children:
        child.close_channel()
        assert os.waitstatus_to_exitcode(os.waitpid(pid_of(child), 0)[1]) == 0


def test_a_template_says_what_it_is_and_its_children_who_they_are(start: Any, tmp_path: Path) -> None:
    template = start(SHARED)
    hello = template.template(config={"a": 1})
    assert (hello["ok"], hello["template"], hello["features"]) == (True, True, ["fork", "batch", "raw"])
    child = fork(template, 17, tmp_path)
    assert child.answer == {"id": 117, "ok": True, "pid": pid_of(child)}
    assert child.first is not None
    assert {name: child.first[name] for name in ("id", "ok", "index", "protocol", "rows", "features")} == {
        "id": 0,
        "ok": True,
        "index": 17,
        "protocol": 1,
        "rows": 1,
        "features": ["fork", "batch", "raw"],
    }
    end(child)


def test_the_childs_parent_is_the_templates_parent_at_once(start: Any, tmp_path: Path) -> None:
    template = start(SHARED)
    template.template(config={"a": 1})
    child = fork(template, 0, tmp_path)
    reply = child.reset()
    made_in, pid, parent = reply["obs"]
    assert (made_in, pid, parent) == (template.process.pid, pid_of(child), os.getpid())
    assert reply["info"] == {"config": {"a": 1}}
    assert child.call("call", "where")["result"]["thread"] == pid
    end(child)


def test_children_share_nothing_once_they_write(start: Any, tmp_path: Path) -> None:
    template = start(ONE_ENVIRONMENT)
    template.template()
    children = [fork(template, index, tmp_path) for index in range(3)]
    for index, child in enumerate(children):
        for _ in range(index + 1):
            reply = child.step(index)
        assert (reply["obs"], reply["reward"]) == (index + 1, 1.0)
        assert child.log() == f"stepping {index}\n" * (index + 1)
    assert template.log() == ""
    end(*children)


def test_a_maker_with_an_index_runs_in_each_child(start: Any, tmp_path: Path) -> None:
    template = start(EACH)
    assert template.template(config={"a": 1})["observation_space"] is None
    children = [fork(template, index, tmp_path) for index in (3, 4)]
    for index, child in zip((3, 4), children, strict=True):
        reply = child.reset()
        assert reply["obs"][0] == pid_of(child)
        assert reply["info"] == {"config": [index, {"a": 1}]}
    end(*children)


@pytest.mark.parametrize(("code", "expected"), [(EACH, [3, {"task": 9}]), (SHARED, {"task": 9})])
def test_a_config_for_each_row_comes_with_its_fork(start: Any, tmp_path: Path, code: str, expected: Any) -> None:
    template = start(code)
    template.template(config=None, config_per_row=True)
    child = fork(template, 3, tmp_path, config={"task": 9})
    assert child.reset()["info"] == {"config": expected}
    end(child)


def test_an_unisolated_child_has_its_workspace_session_and_standard_streams(start: Any, tmp_path: Path) -> None:
    template = start(SHARED)
    template.template()
    child = fork(template, 5, tmp_path)
    where = child.call("call", "where")["result"]
    folder = str(child.workspace)
    assert (where["cwd"], where["home"], where["tmp"]) == (f"{folder}/workspace", f"{folder}/workspace", f"{folder}/tmp")
    assert where["session"] == pid_of(child)
    assert (where["stdin"], where["stdout"], where["stderr"]) == ("/dev/null", str(child.log_path), str(child.log_path))
    assert len(where["descriptors"]) == 5  # three standard streams, the channel, and the folder being listed
    end(child)


def test_many_forks_may_be_asked_for_at_once(start: Any, tmp_path: Path) -> None:
    template = start(SHARED)
    template.template()
    pairs = [socket.socketpair() for _ in range(60)]
    with (tmp_path / "stderr").open("wb") as stderr:
        for index, (_, far) in enumerate(pairs):
            request = {"id": index, "op": "fork", "index": index, "workspace": str(tmp_path), "isolated": False, "branching": True}
            template.send(json.dumps(request).encode() + b"\n", (far.fileno(), stderr.fileno()))
            far.close()
    pids = []
    for index in range(60):
        answer = json.loads(template.read())
        assert answer == {"id": index, "ok": True, "pid": answer["pid"]}
        pids.append(answer["pid"])
    for index, (near, _) in enumerate(pairs):
        near.settimeout(20)
        first = json.loads(near.makefile("rb").readline())
        assert (first["index"], first["pid"]) == (index, pids[index])
        near.close()
    assert {os.waitpid(pid, 0)[1] for pid in pids} == {0}


def test_a_forked_environment_outlives_its_template(start: Any, tmp_path: Path) -> None:
    template = start(SHARED)
    template.template()
    child = fork(template, 0, tmp_path)
    assert template.ask({"id": 9, "op": "close"}) == {"id": 9, "ok": True}
    assert template.wait() == 0
    assert child.step(0)["obs"] == 1
    end(child)


def test_where_no_clone_can_be_made_two_forks_do(start: Any, tmp_path: Path) -> None:
    code = SHARED.replace(
        "    serve(", "    from sandpool.env.native import native_calls\n    native_calls().can_clone = False\n    serve("
    )
    template = start(code)
    assert template.template()["template"] is True
    child = fork(template, 0, tmp_path)
    assert child.answer["pid"] == pid_of(child)
    assert child.reset()["obs"][1] == pid_of(child)
    assert child.ask({"id": 9, "op": "close"}) == {"id": 9, "ok": True}
    child.close_channel()


def test_threads_and_child_programs_are_named_as_what_keeps_it_from_forking(start: Any) -> None:
    threads = start("""
        import ctypes, threading
        from sandpool.env import serve
        def wait():
            ctypes.CDLL(None).prctl(15, b"renderer", 0, 0, 0)
            named.set()
            threading.Event().wait()
        for _ in range(2):
            named = threading.Event()
            threading.Thread(target=wait, daemon=True).start()
            named.wait()
        serve(reset=lambda seed: 0, step=lambda action: (0, 0, False, {}))
    """)
    error = threads.template()["error"]
    assert (error["kind"], error["blockers"]) == ("fork_unsupported", [{"threads": 2, "names": ["renderer"]}])
    assert threads.hello(index=3)["ok"] is True  # it still serves as one ordinary environment
    assert threads.reset()["obs"] == 0
    programs = start("""
        import subprocess
        from sandpool.env import serve
        kept = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
        subprocess.Popen(["true"]).wait()
        done = subprocess.Popen(["true"], stdout=subprocess.PIPE)
        done.stdout.read()
        while open(f"/proc/{done.pid}/stat").read().split()[2] != "Z": pass
        serve(reset=lambda seed: 0, step=lambda action: (0, 0, False, {}))
    """)
    error = programs.template()["error"]
    assert (error["kind"], error["blockers"]) == ("fork_unsupported", [{"children": 1, "names": ["cat"]}])


def test_a_template_needs_a_socket(tmp_path: Path) -> None:
    code = "from sandpool.env import serve; serve(reset=lambda seed: 0, step=print)"
    line = b'{"id":1,"op":"hello","template":true}\n'
    done = subprocess.run(python("-c", code), input=line, capture_output=True, cwd=vendor(tmp_path), check=True)
    error = json.loads(done.stdout)["error"]
    assert error["kind"] == "fork_unsupported"
    assert error["blockers"] == [{"reason": "the channel is not a unix socket; SANDPOOL_FD was not given"}]


def test_a_running_environment_refuses_to_fork_and_keeps_no_descriptor(start: Any, tmp_path: Path) -> None:
    program = start(SHARED)
    program.hello()
    program.reset()
    before = program.call("call", "where")["result"]["descriptors"]
    child = Child(program, 1, tmp_path)
    assert child.answer["error"]["kind"] == "fork_unsupported"
    child.close_channel()
    assert program.call("call", "where")["result"]["descriptors"] == before


def test_a_child_that_cannot_start_ends_and_says_why(start: Any, tmp_path: Path) -> None:
    template = start(TEMPLATE + "    serve(make=lambda index, config: Env(1 // index))")
    template.template()
    child = Child(template, 0, tmp_path)
    assert child.first is not None
    assert (child.first["id"], child.first["error"]["type"]) == (0, "ZeroDivisionError")
    assert "ZeroDivisionError" in child.log()
    assert os.waitstatus_to_exitcode(os.waitpid(child.answer["pid"], 0)[1]) == 1
    child.close_channel()
    lost = Child(template, 1, tmp_path, workspace="/nowhere")
    assert lost.first is None
    assert "No such file or directory: '/nowhere'" in lost.log()
    assert os.waitstatus_to_exitcode(os.waitpid(lost.answer["pid"], 0)[1]) == 1
    lost.close_channel()
    assert template.log() == ""
    end(fork(template, 2, tmp_path))


def test_a_child_whose_maker_leaves_ends_without_a_hello(start: Any, tmp_path: Path) -> None:
    template = start(TEMPLATE + "    serve(make=lambda index, config: sys.exit('no licence'))")
    template.template()
    child = Child(template, 0, tmp_path)
    assert child.first is None
    assert "SystemExit: no licence" in child.log()
    assert os.waitstatus_to_exitcode(os.waitpid(child.answer["pid"], 0)[1]) == 1
    child.close_channel()


def test_what_the_template_would_clean_up_at_its_end_stays_for_its_forks(start: Any, tmp_path: Path) -> None:
    template = start(TEMPLATE + "    import atexit\n    atexit.register(print, 'cleaned up')\n    serve(make=lambda config: Env(config))")
    template.template()
    children = [fork(template, index, tmp_path) for index in range(2)]
    end(children[0])
    assert template.ask({"id": 9, "op": "close"}) == {"id": 9, "ok": True}
    assert template.wait() == 0
    end(children[1])
    assert [child.log() for child in children] + [template.log()] == ["", "", ""]


def test_a_fork_without_descriptors_is_an_error(start: Any) -> None:
    template = start(SHARED)
    template.template()
    answer = template.ask({"id": 3, "op": "fork", "index": 1, "workspace": "/tmp"})
    assert answer["error"]["message"] == "fork came with 0 descriptors; expected 2: the child's channel and its stderr"


def test_an_address_space_limit_holds_in_the_child_alone(start: Any, tmp_path: Path) -> None:
    template = start(TEMPLATE + "    Env.take = lambda self, size: len(bytearray(size))\n    serve(make=lambda config: Env(config))")
    template.template()
    child = fork(template, 0, tmp_path, rlimits={"as": 500_000_000, "nproc": 5})
    assert child.call("call", "take", args=[100_000_000])["result"] == 100_000_000
    assert child.call("call", "take", args=[600_000_000])["error"]["kind"] == "oom"
    assert child.call("call", "take", args=[100_000_000])["result"] == 100_000_000
    end(child)
    free = fork(template, 1, tmp_path)
    assert free.call("call", "take", args=[600_000_000])["result"] == 600_000_000
    end(free)


def test_a_fork_may_have_several_rows_the_first_of_which_the_template_made(start: Any, tmp_path: Path) -> None:
    template = start(SHARED)
    template.template(config={"a": 1})
    child = fork(template, 10, tmp_path, rows=3)
    assert child.first is not None
    assert (child.first["rows"], child.first["index"], child.first["features"]) == (3, 10, ["fork", "batch", "state", "raw"])
    reply = child.reset_rows([1, 2, 3])
    assert [made for made, *_ in reply["obs"]] == [template.process.pid, pid_of(child), pid_of(child)]
    assert {pid for _, pid, _ in reply["obs"]} == {pid_of(child)}
    assert child.step_rows([0, 0, 0])["obs"] == [1, 1, 1]
    end(child)

    template = start(EACH)
    template.template(config_per_row=True)
    child = fork(template, 10, tmp_path / "each", rows=2, configs=[{"a": 1}, {"b": 2}])
    assert child.call_rows("get", "config")["results"] == [[10, {"a": 1}], [11, {"b": 2}]]
    end(child)

"""The forked child becomes its row: user, mounts, capabilities, limits, in a real mount namespace with a real quota mount.

Needs root, `unshare` and `setpriv`; SANDPOOL_REQUIRE_ROOT turns a skip into a failure.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from env.harness import Child, Program, vendor
from env.test_fork import TEMPLATE, end, fork

ROW = 12017
CODE = TEMPLATE.replace("    class Env:\n", "    class Env:\n        run = staticmethod(lambda code: eval(code, globals()))\n")
CODE += "    import subprocess\n    serve(make=lambda config: Env(config))"


def _missing() -> str | None:
    if os.geteuid() != 0:
        return "not root"
    missing = [name for name in ("unshare", "setpriv", "mount") if shutil.which(name) is None]
    if missing:
        return f"no {missing[0]}"
    tried = subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False)
    return None if tried.returncode == 0 else "unshare is refused"


@pytest.fixture
def template(tmp_path: Path) -> Iterator[tuple[Program, Path]]:
    with template_in(tmp_path, CODE) as started:
        yield started


@contextlib.contextmanager
def template_in(tmp_path: Path, code: str) -> Iterator[tuple[Program, Path]]:
    """A template as the agent starts it, uid 1000 with three ambient capabilities, in a throwaway mount namespace."""
    missing = _missing()
    if missing:
        if os.environ.get("SANDPOOL_REQUIRE_ROOT"):
            pytest.fail(f"{missing}, and SANDPOOL_REQUIRE_ROOT is set")
        pytest.skip(missing)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        folder = Path(place)
        folder.chmod(0o755)
        vendor(folder)
        (folder / "env.py").write_text(textwrap.dedent(code))
        rows = folder / "ws"
        script = f"""
            mkdir -p /workspace {rows} && mount -t tmpfs -o mode=0755 none /workspace
            mount -t tmpfs -o mode=0711 none {rows}
            mkdir {rows}/0 && mount -t tmpfs -o size=1m,nr_inodes=64,mode=0700 none {rows}/0
            mkdir -m 700 {rows}/0/workspace {rows}/0/tmp {rows}/0/shm && chown -R {ROW}:{ROW} {rows}/0
            mkdir -m 755 {folder}/memory && touch {folder}/memory/cgroup.procs && chmod 666 {folder}/memory/cgroup.procs
            exec setpriv --reuid 1000 --regid 1000 --clear-groups --no-new-privs \
                --inh-caps=-all,+sys_admin,+setuid,+setgid --ambient-caps=-all,+sys_admin,+setuid,+setgid \
                --bounding-set=-all,+sys_admin,+setuid,+setgid {sys.executable} -u {folder}/env.py
        """
        program = Program(["unshare", "-m", "--propagation", "private", "sh", "-ec", script], log=tmp_path / "log")
        try:
            yield program, folder
        finally:
            program.end()


def isolated(program: Program, folder: Path, tmp_path: Path, **members: Any) -> Child:
    settings = {
        "isolated": True,
        "workspace": str(folder / "ws" / "0"),
        "uid": ROW,
        "gid": ROW,
        "memory": str(folder / "memory"),
        "rlimits": {"as": None, "nproc": 7},
        "oom_score_adj": 500,
        **members,
    }
    return fork(program, 0, tmp_path, **settings)


def run(child: Child, code: str) -> Any:
    reply = child.call("call", "run", args=[code])
    assert "result" in reply, reply
    return reply["result"]


def test_the_child_becomes_its_row(template: tuple[Program, Path], tmp_path: Path) -> None:
    program, folder = template
    assert program.template()["template"] is True, program.log()
    child = isolated(program, folder, tmp_path)
    where = child.call("call", "where")["result"]
    assert (where["uid"], where["gid"], where["groups"]) == (ROW, ROW, [])
    assert [where["status"][name].split() for name in ("Uid", "Gid")] == [[str(ROW)] * 4] * 2
    assert (where["cwd"], where["home"], where["tmp"]) == ("/workspace", "/workspace", "/tmp")
    assert where["session"] == pid_in(child)
    assert (folder / "memory" / "cgroup.procs").read_text() == "0"
    assert run(child, "open('/proc/self/oom_score_adj').read()") == "500\n"
    limits = run(child, "open('/proc/self/limits').read()").splitlines()
    assert next(line for line in limits if line.startswith("Max processes")).split()[2:4] == ["7", "7"]
    assert run(child, "open('/proc/self/environ').read(1)") != ""  # it is dumpable again
    end(child)


def pid_in(child: Child) -> int:
    assert child.first is not None
    return int(child.first["pid"])


def test_its_three_folders_are_its_own_without_setuid_and_devices(template: tuple[Program, Path], tmp_path: Path) -> None:
    program, folder = template
    program.template()
    child = isolated(program, folder, tmp_path)
    mounts = [line.split() for line in run(child, "open('/proc/self/mounts').read()").splitlines()]
    for target in ("/workspace", "/tmp", "/dev/shm"):
        flags = [mount[3].split(",") for mount in mounts if mount[1] == target][-1]
        assert {"nosuid", "nodev", "size=1024k"} <= set(flags), (target, flags)
        assert run(child, f"os.listdir({target!r})") == []
    assert not [mount for mount in mounts if mount[1].startswith(str(folder / "ws"))]
    assert child.call("call", "run", args=["open('/workspace/x', 'wb').write(bytes(2 << 20))"])["error"]["type"] == "OSError"
    assert run(child, "os.path.getsize('/workspace/x')") <= 1 << 20
    end(child)


@pytest.mark.parametrize(("branching", "kept"), [(True, "00000000002000c0"), (False, "0000000000000000")])
def test_capabilities_are_out_of_reach_or_gone(template: tuple[Program, Path], tmp_path: Path, branching: bool, kept: str) -> None:
    program, folder = template
    program.template()
    child = isolated(program, folder, tmp_path, branching=branching)
    status = child.call("call", "where")["result"]["status"]
    assert {name: status[name].strip() for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {
        "CapInh": "0" * 16,
        "CapPrm": kept,
        "CapEff": "0" * 16,
        "CapAmb": "0" * 16,
    }
    listed = run(child, "subprocess.run(['grep', 'Cap', '/proc/self/status'], capture_output=True, text=True).stdout").split()
    of_child_program = dict(zip(listed[::2], listed[1::2], strict=True))
    assert {of_child_program[name] for name in ("CapInh:", "CapPrm:", "CapEff:", "CapAmb:")} == {"0" * 16}
    end(child)


def test_a_template_gives_its_child_programs_no_capability(template: tuple[Program, Path]) -> None:
    program, _ = template
    program.template()
    status = program.call("call", "run", args=["subprocess.run(['grep', 'CapPrm', '/proc/self/status'], capture_output=True).stdout"])
    assert status["result"] == {"$bytes": "Q2FwUHJtOgkwMDAwMDAwMDAwMDAwMDAwCg=="}  # CapPrm: 0


def test_a_workspace_that_is_not_the_rows_ends_the_fork_with_the_step_that_failed(template: tuple[Program, Path], tmp_path: Path) -> None:
    program, folder = template
    program.template()
    settings: dict[str, Any] = {"isolated": True, "uid": ROW, "gid": ROW, "branching": True}
    child = Child(program, 0, tmp_path, **settings, workspace=str(folder / "ws" / "1"))
    assert child.first is None
    assert f"bind {folder}/ws/1/workspace on /workspace: No such file or directory" in child.log()
    child.close_channel()

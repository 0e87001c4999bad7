"""A pool in gVisor, end to end: the calls of any other pool, in sandboxes with a kernel of their own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sandpool import RLPool

Write = Callable[[str], Path]
_CACHED = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sandpool/bin/runsc"
_RUNSC = os.environ.get("SANDPOOL_RUNSC") or shutil.which("runsc") or (_CACHED.exists() and _CACHED)

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not _RUNSC, reason="pools of the gvisor driver need root and runsc")

PROGRAM = """
    import os, sys
    from sandpool.env import serve

    class Environment:
        def reset(self, *, seed=None, options=None):
            self.steps = 0
            return [seed, 0], {"files": os.listdir("/workspace")}

        def step(self, action):
            if action == 91:
                os._exit(3)
            self.steps += 1
            with open("/workspace/steps", "a") as file:
                file.write("x")
            print("step", self.steps, file=sys.stderr, flush=True)
            return [0, self.steps], float(action), False, False, {}

        def kernel(self):
            return os.uname().release

        def user(self):
            return os.getuid()

    serve(make=lambda config: Environment())
"""


@pytest.mark.filterwarnings("ignore::sandpool.SandpoolWarning")
def test_a_pool_in_gvisor_does_what_any_other_does_and_leaves_nothing(write_environment: Write, server: dict[str, str]) -> None:
    folder = write_environment(PROGRAM)
    with RLPool(folder, 3, seed=5, isolation="gvisor", memory="256MiB", progress=False) as pool:
        assert pool.initial_obs[:, 1].tolist() == [0, 0, 0]
        assert all("gvisor" in kernel for kernel in pool.call("kernel"))
        assert len(set(pool.call("user"))) == 3

        assert pool.step([1, 2, 3]).rewards.tolist() == [1, 2, 3]
        failed = pool.step([1, 91, 1])
        assert list(failed.errors) == [1]
        assert (failed.errors[1]["kind"], failed.errors[1]["exit_code"]) == ("crash", 3)
        assert "step 2" in pool.logs(0)

        pool.reset()
        assert [info["files"] for info in pool.reset_infos] == [["steps"], [], ["steps"]]
        pool.reset(hard=True, where=[0])
        assert pool.reset_infos[0]["files"] == []

        pool.step([1, 1, 1])
        pool.fork(2, [0, 1])
        assert pool.step([1, 1, 1]).obs[:, 1].tolist() == [2, 2, 2]

        status = pool.status(memory=True)
        assert (status["isolation"], status["limits"]["memory_method"]) == ("gvisor", "watch")
        mark = status["id"].replace("_", "-")
    assert not [group for group in Path("/sys/fs/cgroup").glob("*/sandpool-*/*") if mark in group.name]
    assert not list(Path("/run/sandpool").glob(f"*/sandboxes/{mark}*"))

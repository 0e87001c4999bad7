"""The real agent, unisolated, runs the examples through the helper: forked, reset, stepped, called, closed.

Needs the built agent; SANDPOOL_REQUIRE_AGENT turns a skip into a failure.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from env.harness import EXAMPLES, vendor

AGENTS = sorted(Path(__file__).parents[3].glob("agent/target/*/release/sandpool-agent"))


class Agent:
    """The worker's side of the agent's channel."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sequence = 0
        self.seq = 0
        self.socket, far = socket.socketpair()
        self.socket.settimeout(60)
        redirect = 'exec 3<&"$1"; exec "$2"'
        self.process = subprocess.Popen(["bash", "-c", redirect, "agent", str(far.fileno()), str(AGENTS[-1])], pass_fds=[far.fileno()])
        far.close()

    def ask(self, head: dict[str, Any], body: bytes = b"{}") -> tuple[dict[str, Any], bytes]:
        self.sequence += 1
        text = json.dumps(head).encode()
        front = struct.pack("<4sIHHII", b"SPF1", self.sequence, 1, 0, len(text), len(body))
        self.socket.sendall(front + struct.pack("<I", zlib.crc32(front + text)) + text + body)
        while True:
            _, sequence, kind, _, head_bytes, body_bytes, _ = struct.unpack("<4sIHHIII", self.take(24))
            reply = json.loads(self.take(head_bytes)), self.take(body_bytes)
            if kind == 2:
                assert sequence == self.sequence
                return reply

    def take(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            assert piece, "the agent ended"
            data += piece
        return data

    def start(self, example: str, count: int, body: bytes = b"{}", **changes: Any) -> dict[str, Any]:
        program = EXAMPLES / example / "env"
        argv = [str(program)] if program.exists() else [sys.executable, "-u", str(EXAMPLES / example / "env.py")]
        deadlines = {"start": 60000, "reset": 60000, "step": 60000, "call": 60000, "close": 2000}
        variables = {"PATH": os.environ["PATH"], "PYTHONPATH": str(vendor(self.folder / "helper")), "OPENBLAS_NUM_THREADS": "1"}
        head = {
            "op": "start", "n": count, "first": 0, "count": count, "argv": argv, "cwd": str(self.folder), "environ": variables,
            "isolated": False, "workspaces": str(self.folder / "rows"), "way": "auto", "spawn_parallel": 4, "base_uid": 10000,
            "template_uid": 1000, "workspace_bytes": 1 << 20, "workspace_inodes": 1000, "memory_bytes": 1 << 40, "memory_dir": None,
            "processes": 256, "seed": 123, "seeds": "derived", "autoreset": None, "episode_offset": 0, "deadlines_ms": deadlines,
            "in_flight": None, "first_reset": True, "branching": True, "max_message_bytes": 1 << 24, "max_row_bytes": 1 << 22,
            **changes,
        }  # fmt: skip
        reply, _ = self.ask(head, body)
        assert reply["ok"], reply
        fixed, _ = self.ask({"op": "layout", "layout": reply["layout"]})
        assert fixed["ok"], fixed
        return reply

    def batch(self, operation: str, body: Any = None, **members: Any) -> dict[str, Any]:
        self.seq += 1
        head = {"op": operation, "seq": self.seq, "encoding": "json", "rows": None, "offset": 0, **members}
        reply, columns = self.ask(head, json.dumps(body or {}).encode())
        assert reply["ok"], reply
        known: dict[str, Any] = {"failed": reply["failed"]}
        for column in reply["columns"]:
            text, columns = columns[: column["length"]], columns[column["length"] :]
            known[column["name"]] = json.loads(b"[" + text + b"]")
        return known

    def step(self, actions: list[Any]) -> dict[str, Any]:
        return self.batch("step", {"actions": actions}, actions={"kind": "json"}, total=len(actions))


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    if not AGENTS:
        if os.environ.get("SANDPOOL_REQUIRE_AGENT"):
            pytest.fail("the agent is not built, and SANDPOOL_REQUIRE_AGENT is set")
        pytest.skip("the agent is not built")
    running = Agent(tmp_path)
    yield running
    running.ask({"op": "close"})
    assert running.process.wait(20) == 0
    running.socket.close()


def test_cartpole_is_forked_and_plays_as_gymnasium_does(agent: Agent) -> None:
    gymnasium = pytest.importorskip("gymnasium")
    started = agent.start("cartpole", 20)
    assert (started["way"], started["hello"]["spec"]) == ("fork", "CartPole-v1")
    assert started["layout"] == {"kind": "array", "fields": [{"dtype": "<f4", "shape": [4]}], "tree": {"field": 0}}
    seeds = list(range(100, 120))
    reset = agent.batch("reset", seeds=seeds, hard=False, total=20)
    environments = [gymnasium.make("CartPole-v1") for _ in seeds]
    assert reset["obs"] == [one.reset(seed=seed)[0].tolist() for one, seed in zip(environments, seeds, strict=True)]
    for number in range(5):
        actions = [(index + number) % 2 for index in range(20)]
        expected = [one.step(action) for one, action in zip(environments, actions, strict=True)]
        batch = agent.step(actions)
        assert batch["obs"] == [row[0].tolist() for row in expected]
        assert (batch["rewards"], batch["failed"]) == ([1.0] * 20, [])
    assert agent.batch("call", call="wrapped", name="gymnasium.wrappers.TimeLimit")["results"] == [True] * 20
    assert agent.batch("call", {"values": 9.5}, call="set", name="gravity")["results"] == [None] * 20
    assert agent.batch("call", call="get", name="gravity")["results"] == [9.5] * 20


def test_an_exception_is_a_row_and_its_neighbours_go_on(agent: Agent) -> None:
    assert agent.start("counter", 4)["way"] == "fork"
    batch = agent.step([1, 7, 1, -1])
    assert batch["failed"] == [1]
    error = batch["infos"][1]["sandpool_error"]
    assert (error["kind"], error["type"], error["message"]) == ("exception", "ValueError", "the action is 7; expected -1, 0 or 1")
    assert "raise ValueError" in error["traceback"]
    assert [batch["obs"][index][0] for index in (0, 2, 3)] == [1, 1, -1]
    assert agent.batch("reset", seeds=None, hard=False, total=4)["failed"] == []


def test_each_row_has_its_config_and_a_workspace_of_its_own(agent: Agent) -> None:
    agent.start("shell_task", 3)
    batch = agent.step(["pwd", "touch mine; ls | wc -l", "ls | wc -l"])
    assert batch["failed"] == []
    assert batch["obs"][0]["output"] == f"{agent.folder}/rows/0/workspace/task\n"
    assert [row["output"].strip() for row in batch["obs"][1:]] == ["2", "1"]


def test_a_program_in_perl_is_started_the_ordinary_way(agent: Agent) -> None:
    started = agent.start("guess_perl", 3)
    assert started["way"] == "spawn"
    batch = agent.step([50, 50, 50])
    assert batch["failed"] == []
    assert set(batch["rewards"]) <= {-0.1, 1.0}

"""Every environment answers the vectors, over either channel; every value goes through the helper and back unchanged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from env import make_vectors
from env.harness import EXAMPLES, VECTORS, Program, python, vendor

KNOWN = json.loads(VECTORS.read_text())

# What each environment is served as, over which channels, an action that it takes, and the packages it needs.
ENVIRONMENTS = {
    "counter": ({"any", "helper", "counter"}, ("stdio", "socket"), 1, ()),
    "cartpole": ({"any", "helper", "rows"}, ("socket",), 1, ("gymnasium",)),
    "shell_task": ({"any", "helper"}, ("socket",), "ls", ()),
    "guess_perl": ({"any"}, ("stdio",), 50, ()),
}


def test_the_committed_vectors_are_those_of_their_source() -> None:
    assert VECTORS.read_text() == make_vectors.text()


def _cases() -> Iterator[Any]:
    for name, (served_as, channels, action, needs) in ENVIRONMENTS.items():
        for over in channels:
            for talk in KNOWN["conversations"]:
                if talk["for"] in served_as:
                    yield pytest.param(name, over, talk, action, needs, id=f"{name}-{over}-{talk['name']}")


@pytest.mark.parametrize(("name", "over", "talk", "action", "needs"), list(_cases()))
def test_an_environment_holds_the_conversation(
    name: str, over: str, talk: dict[str, Any], action: Any, needs: tuple[str, ...], tmp_path: Path
) -> None:
    for package in needs:
        pytest.importorskip(package)
    program = _start(name, over, tmp_path)
    answers: list[dict[str, Any]] = []
    for turn in talk["turns"]:
        request = {**turn["send"], "workspace": str(tmp_path)} if "workspace" in turn.get("send", {}) else turn.get("send")
        line = turn["line"] if request is None else json.dumps(request, separators=(",", ":"))
        answers.append(program.ask(line.replace('"$ACTION"', json.dumps(action)).encode() + b"\n"))
        _check(turn["expect"], answers[-1], answers)
    program.outgoing.shutdown(1)
    assert program.wait() == talk["exit_code"], program.log()
    program.end()


def _start(name: str, over: str, tmp_path: Path) -> Program:
    folder = EXAMPLES / name
    log = tmp_path / "log"
    if (folder / "env").exists():
        return Program([str(folder / "env")], over=over, cwd=tmp_path, log=log)
    vendored = vendor(tmp_path / "helper")
    return Program(python(str(folder / "env.py")), over=over, cwd=tmp_path, environ={"PYTHONPATH": str(vendored)}, log=log)


def _check(expect: dict[str, Any], answer: dict[str, Any], answers: list[dict[str, Any]]) -> None:
    assert set(expect) <= {"equals", "has", "lacks", "number", "bool", "same_as"}
    for path, value in expect.get("equals", {}).items():
        found: Any = answer
        for name in path.split("."):
            found = found[name]
        assert found == value, answer
    assert all(name in answer for name in expect.get("has", ())), answer
    assert not any(name in answer for name in expect.get("lacks", ())), answer
    assert all(type(answer[name]) in (int, float) for name in expect.get("number", ())), answer
    assert all(type(answer[name]) is bool for name in expect.get("bool", ())), answer
    if "same_as" in expect:
        assert answer["obs"] == answers[expect["same_as"]]["obs"]


ECHO = """
    {imports}
    from sandpool.env import serve
    received = None
    def step(action):
        global received
        received = action
        return action, 0.0, False, False, {{}}
    def show():
        return repr(received), type(received).__name__
    serve(reset=lambda seed: 0, step=step)
"""


def test_values_come_back_as_they_were_sent_and_are_what_their_python_says(start: Any) -> None:
    program = start(ECHO.format(imports=""))
    program.hello()
    for value in KNOWN["values"]:
        assert program.step(value["json"])["obs"] == value["json"], value["name"]
        assert program.call("call", "show")["result"]["$tuple"][0] == value["python"], value["name"]


def test_arrays_come_back_bit_for_bit_with_numpy(start: Any) -> None:
    pytest.importorskip("numpy")
    program = start(ECHO.format(imports="import numpy"))
    program.hello()
    for array in KNOWN["arrays"]:
        dtype, shape, text = program.step(array["json"])["obs"]["$nd"]
        assert [re.sub("^[<|]", "", dtype), shape, text] == [re.sub("^[<|]", "", array["dtype"]), *array["json"]["$nd"][1:]], array["name"]


def test_arrays_are_lists_without_numpy(start: Any) -> None:
    program = start(ECHO.format(imports=""))
    program.hello()
    for array in (one for one in KNOWN["arrays"] if one["list"] is not None):
        assert program.step(array["json"])["obs"] == array["list"], array["name"]


def test_raw_bytes_after_a_request_are_the_same_array(start: Any) -> None:
    program = start(ECHO.format(imports=""))
    program.hello()
    for array in (one for one in KNOWN["arrays"] if one["list"] is not None):
        data = bytes.fromhex(array["bytes"])
        form = {"$nd": [array["dtype"], array["shape"], 3, len(data)]}
        line = json.dumps({"id": 3, "op": "step", "action": form, "raw": len(data) + 3}).encode() + b"\n"
        assert program.ask(line + b"\n\n\n" + data)["obs"] == array["list"], array["name"]

"""States of several environments in one process: each row's is its own, and so are its failures."""

from __future__ import annotations

from typing import Any

import pytest

from env.harness import Line

np = pytest.importorskip("numpy")

ROWS = """
    from sandpool.env import serve
    import numpy as np
    {more}
    class Env:
        def __init__(self, index, config):
            self.index, self.total, self.np_random, self.strict = index, 0, np.random.default_rng(index), False
        def reset(self, seed=None):
            self.total = 0
            return self.observe()
        def observe(self):
            return [self.index, self.total]
        def step(self, action):
            if action is None:
                raise ValueError("broken")
            self.total += action
            return self.observe(), self.np_random.random(), False, False, {{}}
        def attach(self):
            self.file = open("/dev/null")
    serve(make=lambda index, config: Env(index, config){given})
"""
PLAIN = ROWS.format(more="", given="")
CLOSURES = """
    import math, numpy
    from sandpool.env import serve

    def counter(step):
        count = 0
        def tick(by):
            nonlocal count
            count += step(by)
            return count
        return tick

    def recorder():
        kept, scale = [], numpy.ones(2)
        def record(value):
            kept.append(value)
            scale[0] *= 2
            return [len(kept), math.floor(scale[0])]
        def unset():
            return never
        if kept:
            never = 0
        return record, unset

    class Env:
        def __init__(self):
            self.tick, (self.record, self.unset), self.module = counter(lambda by: by * 2), recorder(), math
            self.whole = lambda: self
        def reset(self, seed=None):
            return [0, 0, 0]
        def step(self, action):
            return [self.tick(action), *self.record(action)], float(self.whole() is self), False, False, {}
        def lock(self):
            import threading
            held = threading.Lock()
            self.locked = lambda: held
    serve(make=lambda index, config: Env())
"""


def begin(start: Any, code: str = PLAIN) -> Any:
    program = start(code)
    assert "state" in program.hello(rows=3)["features"]
    program.reset_rows([1, 2, 3])
    return program


def save(program: Line, rows: list[int] | None = None) -> dict[str, Any]:
    return program.ask_rows({"op": "get_state", "rows": rows, "deadline_ms": 20000})


def put(program: Line, states: list[Any], rows: list[int] | None = None, **members: Any) -> dict[str, Any]:
    return program.ask_rows({"op": "set_state", "rows": rows, "states": states, "deadline_ms": 20000, **members})


def test_what_functions_in_attributes_hold_is_part_of_the_state_and_each_ones_own(start: Any) -> None:
    program = begin(start, CLOSURES)

    def observed(row: int, action: int) -> Any:
        reply = program.step_rows([action], [row])
        assert reply["reward"] == [1.0], reply
        return list(reply["obs"][0])

    assert [observed(0, 5), observed(0, 1)] == [[10, 1, 2], [12, 2, 4]]
    states = save(program, [0])["states"]
    assert [observed(0, 1), observed(1, 1)] == [[14, 3, 8], [2, 1, 2]]
    for row in (1, 0):
        assert put(program, states, [row]) == {"ok": True, "reseeded": [None]}
    assert [observed(1, 1), observed(1, 1), observed(0, 1)] == [[14, 3, 8], [16, 4, 16], [14, 3, 8]]
    program.call_rows("call", "lock", [0], args=[], kwargs={})
    assert "the closure of Env.lock.<locals>.<lambda>" in save(program, [0])["errors"]["0"]["message"]


def test_states_go_from_row_to_row(start: Any) -> None:
    program = begin(start)
    program.step_rows([1, 10, 100])
    states = save(program)["states"]
    expected = program.step_rows([1, 1, 1])
    assert put(program, [states[2], states[0]], [0, 2]) == {"ok": True, "reseeded": [None, None]}
    reply = program.step_rows([1, 1, 1])
    assert reply["obs"] == [[2, 101], [1, 12], [0, 2]]  # the attributes are the source's, the index among them
    assert [reply["reward"][0], reply["reward"][2]] == [expected["reward"][2], expected["reward"][0]]


def test_a_process_of_one_row_in_a_packed_pool_has_a_state_that_fits_the_others(start: Any) -> None:
    program, alone = begin(start), start(PLAIN)
    assert "state" in alone.hello(rows=1, packed=True)["features"]
    alone.ask({"op": "reset", "seed": 1})
    alone.ask({"op": "step", "action": 5})
    program.step_rows([1, 10, 100])
    own, states = alone.ask({"op": "get_state"})["state"], save(program)["states"]
    assert put(program, [own], [1]) == {"ok": True, "reseeded": [None]}
    assert alone.ask({"op": "set_state", "state": states[2]})["ok"]
    assert program.step_rows([0, 0, 0])["obs"] == [[0, 1], [0, 5], [2, 100]]
    assert alone.ask({"op": "step", "action": 1})["obs"] == [2, 101]


def test_functions_that_do_not_say_of_which_row_have_no_state_in_a_packed_pool(start: Any) -> None:
    alone = start(ROWS.format(more="", given=", get_state=lambda: 1, set_state=print"))
    assert "state" not in alone.hello(rows=1, packed=True)["features"]
    alone.ask({"op": "reset", "seed": 1})
    assert "expected get_state(environment)" in alone.ask({"op": "get_state"})["error"]["message"]


def test_a_row_may_be_given_a_stream_of_its_own(start: Any) -> None:
    program = begin(start)
    states = save(program)["states"]
    assert put(program, states, reseeds=[5, None, 6])["reseeded"] == [["np_random"], None, ["np_random"]]
    rewards = program.step_rows([0, 0, 0])["reward"].tolist()
    assert rewards == [np.random.default_rng(seed).random() for seed in (5, 1, 6)]


def test_a_state_that_fails_fails_its_row_alone(start: Any) -> None:
    program = begin(start)
    program.step_rows([1, 10, 100])
    states = save(program)["states"]
    program.call_rows("call", "attach", [1])
    reply = save(program)
    assert (reply["states"][1], reply["states"][0], reply["errors"].keys()) == (None, states[0], {"1"})
    assert "Env.file" in reply["errors"]["1"]["message"]
    reply = put(program, [states[0], {"$bytes": ""}, states[2]])
    assert reply["errors"].keys() == {"1"}
    reply = program.step_rows([1, 1, 1])
    assert reply["errors"]["1"]["message"] == "the row failed and was not reset since; reset it before its next step"
    assert [reply["obs"][0], reply["obs"][2]] == [[0, 2], [2, 101]]


def test_a_failed_row_has_no_state_but_takes_one(start: Any) -> None:
    program = begin(start)
    program.step_rows([1, 10, 100])
    states = save(program)["states"]
    program.step_rows([1, None, 1])
    reply = save(program, [1, 2])
    assert "the row failed" in reply["errors"]["1"]["message"]
    assert put(program, [states[0]], [1]) == {"ok": True, "reseeded": [None]}
    assert program.step_rows([1, 1, 1])["obs"] == [[0, 3], [0, 2], [2, 102]]


def test_functions_of_serve_are_given_the_environment(start: Any) -> None:
    given = ", get_state=lambda env: env.total, set_state=lambda env, state: setattr(env, 'total', state)"
    program = begin(start, ROWS.format(more="", given=given))
    program.step_rows([1, 10, 100])
    states = save(program)["states"]
    put(program, [states[2]], [0])
    assert program.step_rows([1, 1, 1])["obs"] == [[0, 101], [1, 11], [2, 101]]


def test_functions_that_know_no_environment_are_no_way_to_a_rows_state(start: Any) -> None:
    program = start(ROWS.format(more="", given=", get_state=lambda: 0, set_state=print"))
    assert "state" not in program.hello(rows=2)["features"]
    program.reset_rows([1, 2])
    assert "expected get_state(environment)" in save(program)["errors"]["0"]["message"]


@pytest.mark.parametrize("states", [None, [], [1, 2]])
def test_a_wrong_number_of_states_fails_the_message_whole(start: Any, states: Any) -> None:
    program = begin(start)
    assert "expected a list of 3, one for each row" in put(program, states)["error"]["message"]
    assert program.step_rows([1, 1, 1])["obs"] == [[0, 1], [1, 1], [2, 1]]

"""Several environments in one process: what they return is what each alone would, and one row's failure is its own."""

from __future__ import annotations

from typing import Any

import pytest

from env.faulty_rows import SERVED
from env.harness import Program

np = pytest.importorskip("numpy")
gymnasium = pytest.importorskip("gymnasium")

CARTPOLE = """
    from sandpool.env import serve
    import gymnasium
    serve(make=lambda config: gymnasium.make("CartPole-v1"))
"""


def begin(start: Any, code: str, rows: int, **members: Any) -> Program:
    program: Program = start(code)
    hello = program.hello(rows=rows, n=rows, **members)
    assert (hello["rows"], "batch" in hello["features"]) == (rows, True)
    return program


def test_rows_of_one_process_are_what_each_alone_is(start: Any) -> None:
    program = begin(start, CARTPOLE, 5)
    alone = [gymnasium.make("CartPole-v1") for _ in range(5)]
    seeds = [7, 8, 9, 10, 11]
    first = np.stack([one.reset(seed=seed)[0] for one, seed in zip(alone, seeds, strict=True)])
    reply = program.reset_rows(seeds)
    assert reply["obs"].dtype == np.float32
    assert (reply["obs"] == first).all()
    assert reply["infos"] == {}
    ended: set[int] = set()
    for actions in np.random.default_rng(3).integers(0, 2, (500, 5)):
        rows = [row for row in range(5) if row not in ended]
        if not rows:
            break
        expected = [alone[row].step(actions[row]) for row in rows]
        reply = program.step_array(actions[rows], rows)
        assert "errors" not in reply
        assert (reply["obs"] == np.array([one[0] for one in expected]).reshape(len(rows), 4)).all()
        assert reply["reward"].tolist() == [one[1] for one in expected]
        assert reply["terminated"].tolist() == [one[2] for one in expected]
        assert reply["truncated"].tolist() == [one[3] for one in expected]
        ended |= {row for row, one in zip(rows, expected, strict=True) if one[2]}
    assert ended == set(range(5))


def test_each_row_has_its_index_and_config(start: Any) -> None:
    program = begin(start, SERVED, 3, index=10, configs=[{"a": 1}, {"$tuple": [2]}, None])
    assert program.reset_rows()["obs"].tolist() == [[10, 1, 0], [11, 1, 0], [12, 1, 0]]
    assert program.call_rows("get", "config")["results"] == [{"a": 1}, (2,), None]
    program = begin(start, SERVED, 2, index=0, config={"shared": True})
    assert program.call_rows("get", "config")["results"] == [{"shared": True}] * 2


def test_only_the_rows_of_a_message_are_asked(start: Any) -> None:
    program = begin(start, SERVED, 4)
    program.reset_rows()
    assert program.step_rows(["", ""], [1, 3])["obs"].tolist() == [[1, 1, 1], [3, 1, 1]]
    reply = program.step_rows([""] * 4)
    assert reply["obs"][:, 2].tolist() == [1, 2, 1, 2]
    assert reply["reward"].tolist() == [1, 2, 1, 2]
    assert program.step_rows([""] * 2, [0, 1])["truncated"].tolist() == [False, True]
    assert program.reset_rows(rows=[3])["obs"].tolist() == [[3, 1, 0]]
    assert program.step_rows([], [])["obs"].shape == (0, 3)
    for rows in ([1, 1], [2, 1], [4], [-1], ["0"], 1, [True]):
        error = program.step_rows([""], rows)["error"]
        assert f"rows is {rows!r}; expected null or ascending numbers below 4" in error["message"]


def test_infos_are_those_that_are_not_empty_and_keep_their_dtypes(start: Any) -> None:
    program = begin(start, SERVED, 4)
    assert program.reset_rows([5, None, 6, None])["infos"] == {"0": {"seed": 5}, "2": {"seed": 6}}
    infos = program.step_rows(["", "text", "mask", ""])["infos"]
    assert infos["1"] == {"text": "grüße", "index": 1}
    assert (infos["2"]["action_mask"].dtype, infos["2"]["action_mask"].tolist()) == (np.int8, [1, 0, 1])
    assert infos.keys() == {"1", "2"}


@pytest.mark.parametrize(
    ("how", "kind", "said"),
    [
        ("raises", "exception", "broken"),
        ("memory", "oom", ""),
        ("wrong_info", "exception", "info is 7"),
        ("surrogate", "exception", "lone surrogate"),
        ("deep", "protocol", "nested deeper than 62"),
        ("large", "protocol", "more than a row's share of 16777216"),
        ("missing", "exception", "no attribute 'missing'"),
    ],
)
def test_a_row_that_raises_is_alone_and_its_next_reset_makes_it_anew(start: Any, how: str, kind: str, said: str) -> None:
    program = begin(start, SERVED, 3)
    program.reset_rows([1, 2, 3])
    reply = program.step_rows(["", how, ""])
    assert reply["obs"][[0, 2]].tolist() == [[0, 1, 1], [2, 1, 1]]
    assert reply["errors"].keys() == {"1"}
    error = reply["errors"]["1"]
    assert error["kind"] == kind
    assert said in error["message"]
    again = program.step_rows([""], [1])["errors"]["1"]
    assert "reset it before its next step" in again["message"]
    assert program.reset_rows([None, 4, None])["obs"].tolist() == [[0, 1, 0], [1, 2, 0], [2, 1, 0]]
    made, closed = program.call_rows("call", "tell")["results"][0]
    assert (made, closed) == ([(0, 1), (1, 2), (2, 1)], [[1, 1]])


def test_a_result_that_does_not_fit_a_line_is_its_rows_own(start: Any) -> None:
    program = begin(start, SERVED, 2)
    program.reset_rows([1, 2])
    deepest = program.step_rows(["", "just_as_deep_as_may_be"])
    assert "errors" not in deepest
    assert str(deepest["infos"]["1"]).count("'in'") == 61
    reply = program.call_rows("call", "deep", rows=[0])
    assert reply["errors"]["0"]["kind"] == "protocol"
    assert program.step_rows([""], [1])["reward"].tolist() == [2.0]


def test_an_exception_in_reset_is_answered_by_a_new_object_once(start: Any) -> None:
    program = begin(start, SERVED, 3)
    reply = program.reset_rows([1, 2, 3], options_each=[None, {"fail": 1}, {"fail": 2}])
    assert reply["obs"][:2].tolist() == [[0, 1, 0], [1, 2, 0]]
    assert reply["infos"] == {"0": {"seed": 1}, "1": {"seed": 2}}
    assert reply["errors"].keys() == {"2"}
    assert reply["errors"]["2"]["message"] == "no reset of 2"
    assert program.reset_rows(rows=[2])["obs"].tolist() == [[2, 3, 0]]


def test_a_hard_reset_makes_new_objects_and_keeps_the_process(start: Any) -> None:
    program = begin(start, SERVED, 3)
    program.reset_rows()
    assert program.reset_rows(rows=[0, 2], hard=True)["obs"].tolist() == [[0, 2, 0], [2, 2, 0]]
    assert program.step_rows([""] * 3)["obs"].tolist() == [[0, 2, 1], [1, 1, 1], [2, 2, 1]]


def test_calls_and_attributes_are_each_rows_own(start: Any) -> None:
    program = begin(start, SERVED, 3)
    program.reset_rows()
    reply = program.call_rows("call", "add", args=[10], kwargs={"times": 2})
    assert (reply["results"], reply["errors"]["1"]["message"]) == ([20, None, 22], "one does not add")
    assert program.call_rows("set", "steps", values=[5, 6], rows=[0, 2])["results"] == [None, None]
    assert program.call_rows("set", "config", value=[1])["results"] == [None] * 3
    assert program.call_rows("get", "steps")["results"] == [5, 0, 6]
    assert program.call_rows("has", "steps", rows=[1])["results"] == [True]
    assert program.call_rows("wrapped", "gymnasium.wrappers.TimeLimit")["results"] == [False] * 3
    assert program.call_rows("get", "nothing")["errors"].keys() == {"0", "1", "2"}
    assert "use the pool's own step()" in program.call_rows("call", "step", rows=[0])["errors"]["0"]["message"]
    # A failed call leaves the episode as it was.
    assert program.step_rows([""] * 3)["obs"][:, 1:].tolist() == [[1, 6], [1, 1], [1, 7]]


def test_what_is_wrong_with_the_message_itself_fails_it_whole(start: Any) -> None:
    program = begin(start, SERVED, 3)
    program.reset_rows()
    for actions, said in (
        (["", ""], "expected a list or $nd of 3"),
        (7, "expected a list or $nd of 3"),
        ({"$nd": ["<i8", [], "AAAAAAAAAAA="]}, "of 3"),
    ):
        assert said in program.step_rows(actions)["error"]["message"]
    assert "no member actions" in program.ask({"id": 1, "op": "step", "rows": None})["error"]["message"]
    assert "expected null or a list of 3" in program.reset_rows([1])["error"]["message"]
    assert "expected null or an integer from 0" in program.reset_rows([1, 2, -3])["error"]["message"]
    assert "options_each" in program.reset_rows(options_each=[{}])["error"]["message"]
    assert program.step_rows([""] * 3)["obs"][:, 2].tolist() == [1, 1, 1]


def test_the_generators_of_the_process_are_seeded_once_with_its_first_row(start: Any) -> None:
    program = begin(
        start,
        """
        from sandpool.env import serve
        import random, numpy as np
        class Draws:
            def reset(self, seed=None): return [random.random(), float(np.random.random())]
            def step(self, action): return 0, 0, False, False, {}
        serve(make=lambda config: Draws())
        """,
        2,
    )
    import random

    drawn = random.Random(11)
    numpy_drawn = np.random.RandomState(11)
    expected = [[drawn.random(), numpy_drawn.random()] for _ in range(4)]
    assert program.reset_rows([11, 12])["obs"] == expected[:2]
    assert program.reset_rows([13, 14])["obs"] == expected[2:]


def test_close_closes_every_environment_also_the_failed_ones(start: Any, tmp_path: Any) -> None:
    noted = tmp_path / "closed"
    note = f'open({str(noted)!r}, "a").write(f"{{self.index}}.{{self.number}} ")'
    program = begin(start, SERVED.replace("closed.append([self.index, self.number])", note), 3)
    program.reset_rows()
    program.step_rows(["", "raises", ""])
    assert program.ask({"id": 9, "op": "close"}) == {"id": 9, "ok": True}
    assert program.wait() == 0
    assert sorted(noted.read_text().split()) == ["0.1", "1.1", "2.1"]


def test_one_environment_that_exists_already_has_no_batch(start: Any) -> None:
    program = start("from sandpool.env import serve\nserve(reset=lambda seed: 0, step=lambda action: (0, 0, False, False, {}))")
    hello = program.hello(rows=4)
    assert (hello["rows"], hello["features"]) == (1, ["raw"])


def test_measure_steps_sampled_actions(start: Any) -> None:
    program = start(CARTPOLE)
    program.hello()
    program.reset(0)
    measured = program.ask({"id": 3, "op": "measure"})
    assert 0 < measured["steps"] <= 300
    assert measured["step_us"] > 0
    program = start("from sandpool.env import serve\nserve(reset=lambda seed: 0, step=lambda action: (0, 0, False, False, {}))")
    program.hello()
    assert program.ask({"id": 3, "op": "measure"}) == {"id": 3, "step_us": None, "reason": "no action space"}
    program = start(SERVED.replace("Text(40, min_length=0)", "Discrete(3)"))
    program.hello()
    program.reset(0)
    assert "TypeError" in program.ask({"id": 3, "op": "measure"})["reason"]

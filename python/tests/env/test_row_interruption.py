"""A row that runs out of time is interrupted alone, as far as Python code can be."""

from __future__ import annotations

from typing import Any

import pytest

from env.faulty_rows import FAULTY, SERVED
from env.test_rows import begin

pytest.importorskip("numpy")
pytest.importorskip("gymnasium")


@pytest.mark.parametrize("how", ["hang", "spin"])
def test_a_row_out_of_time_is_interrupted_and_the_others_are_answered(start: Any, how: str) -> None:
    program = begin(start, SERVED, 3)
    program.reset_rows()
    reply = program.step_rows(["", how, ""], deadline_ms=1500)
    assert reply["errors"].keys() == {"1"}
    error = reply["errors"]["1"]
    assert error["kind"] == "timeout"
    assert "its rows have 1.5 s together" in error["message"]
    assert f"in {how}" in error["traceback"]
    assert reply["obs"][[0, 2]].tolist() == [[0, 1, 1], [2, 1, 1]]
    assert program.reset_rows(rows=[1])["obs"].tolist() == [[1, 2, 0]]
    assert program.call_rows("call", "clock_is_free")["results"] == [False] * 3  # the clock of this very call
    assert program.call_rows("call", "clock_is_free", deadline_ms=None)["results"] == [True] * 3


def test_several_rows_out_of_time_share_what_is_left(start: Any) -> None:
    program = begin(start, SERVED, 6)
    program.reset_rows()
    reply = program.step_rows(["", "hang", "spin", "", "hang", ""], deadline_ms=3000)
    assert {row: error["kind"] for row, error in reply["errors"].items()} == dict.fromkeys("124", "timeout")
    assert reply["obs"][[0, 3, 5], 2].tolist() == [1, 1, 1]


def test_where_no_time_is_left_rows_fail_unasked(start: Any) -> None:
    program = begin(start, SERVED, 40)
    program.reset_rows()
    reply = program.step_rows(["hang"] * 39 + [""], deadline_ms=400)
    errors = reply["errors"]
    assert {error["kind"] for error in errors.values()} == {"timeout"}
    assert errors["39"]["message"] == "not asked: other rows of its process used up the time of the message"
    assert len(program.reset_rows()["obs"]) == 40


def test_a_reset_and_a_call_are_interrupted_too_and_not_tried_again(start: Any) -> None:
    program = begin(start, SERVED, 3)
    reply = program.reset_rows([1, 2, 3], options={"hang": [1]}, deadline_ms=1500)
    assert {row: error["kind"] for row, error in reply["errors"].items()} == {"1": "timeout"}
    assert reply["infos"] == {"0": {"seed": 1}, "2": {"seed": 3}}
    assert program.reset_rows()["obs"][:, 1].tolist() == [1, 2, 1]
    reply = program.call_rows("call", "hang", rows=[2], deadline_ms=1500)
    assert reply["errors"]["2"]["kind"] == "timeout"
    assert program.reset_rows()["obs"][:, 1].tolist() == [1, 2, 2]


def test_an_environment_with_its_own_use_of_the_alarm_keeps_it(start: Any) -> None:
    own = """
        def ring(number, frame):
            raise TimeoutError("its own")
        class Own(Faulty):
            def limited(self):
                before = signal.signal(signal.SIGALRM, ring)
                signal.setitimer(signal.ITIMER_REAL, 0.05)
                try:
                    time.sleep(30)
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    signal.signal(signal.SIGALRM, before)
    """
    code = FAULTY + "\n".join(line[4:] for line in own.splitlines()) + "\n    serve(make=lambda index, config: Own(index, config))\n"
    program = begin(start, code, 2)
    program.reset_rows()
    for _ in range(3):
        errors = program.step_rows(["limited", ""])["errors"]
        assert {row: (error["type"], error["message"]) for row, error in errors.items()} == {"0": ("TimeoutError", "its own")}
        program.reset_rows(rows=[0])
    # Found to be the environment's own from the first step on.
    assert program.call_rows("call", "clock_is_free")["results"] == [True, True]

    program = begin(start, code.replace("    class Own", "    signal.signal(signal.SIGALRM, ring)\n    class Own"), 2)
    program.reset_rows()
    assert program.call_rows("call", "clock_is_free")["results"] == [False, False]
    assert program.call_rows("call", "add", args=[1], deadline_ms=1)["results"] == [1, None]


def test_outside_the_main_thread_nothing_is_interrupted(start: Any) -> None:
    program = begin(
        start,
        SERVED.replace("    serve(make=", "    thread = threading.Thread(target=lambda: serve(make=").replace(
            "config))\n", "config)))\n    thread.start()\n    thread.join()\n"
        ),
        2,
    )
    program.reset_rows()
    assert program.step_rows(["", ""])["obs"][:, 2].tolist() == [1, 1]
    assert program.call_rows("call", "clock_is_free")["results"] == [True, True]

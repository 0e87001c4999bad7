"""What the environment's code does wrong comes back as an error reply that says what and where."""

from __future__ import annotations

from typing import Any

import pytest

PROGRAM = """
    import os, sys
    from sandpool.env import serve
    class Own(Exception): pass
    class Mute(Exception):
        def __str__(self): raise RuntimeError("no text")
    class Odd:
        def __repr__(self): return "Odd()"
    def fail(kind): raise kind
    def loop():
        value = []
        value.append(value)
        return value
    def step(action):
        return eval(action)
    serve(reset=lambda seed: 0, step=step)
"""
REST = "0, 0, False, False, {}"


@pytest.mark.parametrize(
    ("action", "kind", "name", "message"),
    [
        ("fail(ValueError('no'))", "exception", "ValueError", "no"),
        ("fail(Own('mine'))", "exception", "__main__.Own", "mine"),
        ("fail(Mute())", "exception", "__main__.Mute", "(its text cannot be shown: RuntimeError)"),
        ("fail(ValueError('\\ud800'))", "exception", "ValueError", "\\ud800"),
        ("fail(ValueError('x' * 100000))", "exception", "ValueError", "x" * 8192),
        ("fail(MemoryError())", "oom", "MemoryError", ""),
        ("bytearray(1 << 60)", "oom", "MemoryError", ""),
        (
            "loop()",
            "exception",
            "TypeError",
            "step returned 1 values: [[...]]; expected (observation, reward, terminated, truncated, info)",
        ),
        ("(loop(), 0, False, False, {})", "exception", "RecursionError", "maximum recursion depth"),
        ("None", "exception", "TypeError", "step returned a NoneType: None; expected (observation, reward"),
        ("(0, 0)", "exception", "TypeError", "step returned 2 values: (0, 0); expected"),
        ("(0, None, False, False, {})", "exception", "TypeError", "reward is None (NoneType); expected one number"),
        ("(0, '1', False, False, {})", "exception", "TypeError", "reward is '1' (str); expected one number"),
        ("(0, [1.0], False, False, {})", "exception", "TypeError", "reward is [1.0] (list); expected one number"),
        ("(0, 10 ** 400, False, False, {})", "exception", "OverflowError", "int too large"),
        ("(0, 0, False, False, [1])", "exception", "TypeError", "info is [1] (list); expected a dict"),
        ("(Odd(), 0, False, False, {})", "exception", "TypeError", "cannot send Odd() (__main__.Odd); expected numbers"),
        ("(10 ** 401, 0, False, False, {})", "exception", "ValueError", "an integer has 402 digits; at most 400"),
        ("([1, -10 ** 400], 0, False, False, {})", "exception", "ValueError", "an integer has 402 digits; at most 400"),
        ("('a\\ud800b', 0, False, False, {})", "exception", "ValueError", "text with a lone surrogate near"),
        ("(0, 0, False, False, {'a': '\\udcff'})", "exception", "ValueError", "text with a lone surrogate near"),
    ],
)
def test_a_failed_step_is_an_error_reply_and_the_process_goes_on(start: Any, action: str, kind: str, name: str, message: str) -> None:
    program = start(PROGRAM)
    program.hello()
    program.reset()
    error = program.step(action)["error"]
    assert (error["kind"], error["type"]) == (kind, name)
    assert error["message"].startswith(message)
    assert program.step(f"(7, {REST[3:]})")["obs"] == 7


def test_the_traceback_shows_the_environments_frames_and_not_the_helpers(start: Any) -> None:
    program = start(PROGRAM)
    program.hello()
    traceback = program.step("fail(ValueError('here'))")["error"]["traceback"]
    assert traceback.startswith("Traceback (most recent call last):")
    assert "in step" in traceback
    assert "in fail" in traceback
    assert "sandpool" not in traceback.replace("from sandpool.env", "")
    assert traceback.endswith("ValueError: here\n")


def test_leaving_is_leaving(start: Any) -> None:
    for action, code in (("sys.exit(3)", 3), ("os._exit(4)", 4)):
        program = start(PROGRAM)
        program.hello()
        program.send(b'{"id":3,"op":"step","action":"%s"}\n' % action.encode())
        assert program.read() is None
        assert program.wait() == code


def test_what_info_cannot_carry_travels_as_its_repr_with_one_warning(start: Any) -> None:
    program = start(PROGRAM)
    program.hello()
    for _ in range(3):
        reply = program.step("(0, 0, False, False, {'good': 1, 'odd': [Odd()], 3: {'type': int}})")
        assert reply["info"] == {"good": 1, "odd": ["Odd()"], "3": {"type": "<class 'int'>"}}
    assert program.log().count("__main__.Odd") == 1


def test_a_crash_in_native_code_leaves_its_python_stack_on_stderr(start: Any) -> None:
    program = start("""
        import ctypes
        from sandpool.env import serve
        serve(reset=lambda seed: ctypes.string_at(0), step=lambda action: None)
    """)
    program.hello()
    program.send(b'{"id":2,"op":"reset","seed":1,"options":null}\n')
    assert program.read() is None
    assert program.wait() == -11
    assert "Segmentation fault" in program.log()
    assert "string_at" in program.log()


def test_nonfinite_rewards_are_sent_bare(start: Any) -> None:
    program = start(PROGRAM)
    program.hello()
    for text in ("nan", "inf", "-inf"):
        assert repr(program.step(f"(0, float('{text}'), False, False, {{}})")["reward"]) == text

"""The state path: an environment's state as a value, for processes that cannot fork or hold several environments."""

from __future__ import annotations

import random
from typing import Any

import pytest

from env.harness import Line

np = pytest.importorskip("numpy")
gymnasium = pytest.importorskip("gymnasium")


def saved(program: Line) -> Any:
    reply = program.ask({"id": 9, "op": "get_state"})
    assert reply.keys() == {"id", "state"}, reply
    assert reply["state"].keys() == {"$bytes"}
    return reply["state"]


def restored(program: Line, state: Any, seed: int | None = None) -> Any:
    reply = program.ask({"id": 9, "op": "set_state", "state": state, "reseed": seed})
    assert reply.keys() == {"id", "ok", "reseeded"}, reply
    return reply["reseeded"]


def trajectory(program: Line, actions: list[Any]) -> list[Any]:
    replies = [program.step(action) for action in actions]
    return [{name: reply[name] for name in ("obs", "reward", "terminated", "truncated", "info")} for reply in replies]


PLAIN = """
    import random, numpy
    from sandpool.env import serve

    class Part:
        def __init__(self, owner):
            self.owner = owner

    class Env:
        def __init__(self, index):
            self.seen, self.rng, self.part, self.choose = [], numpy.random.default_rng(index), Part(self), lambda a: a * 2
        def reset(self, seed=None):
            self.seen = []
            return 0
        def step(self, action):
            self.part.owner.seen.append(self.choose(action))
            return [sum(self.seen), self.rng.random(), random.random(), numpy.random.random()], 1.0, False, False, {}
        def break_it(self):
            self.file = open("/dev/null")
        def same(self):
            return self.part.owner is self
    env = Env(5)
    serve(env, close=lambda: print("closing", env.seen))
"""


def test_a_plain_object_is_pickled_with_the_process_generators_and_keeps_its_identity(start: Any) -> None:
    source, target = start(PLAIN), start(PLAIN)
    assert source.hello()["features"] == ["state", "raw"]
    target.hello()
    source.reset(1)
    target.reset(2)
    trajectory(source, [1, 2])
    state = saved(source)
    expected = trajectory(source, [3, 4])
    assert expected[-1]["obs"][0] == 2 * (1 + 2 + 3 + 4)
    assert restored(target, state) is None
    assert trajectory(target, [3, 4]) == expected
    assert target.call("call", "same")["result"] is True
    restored(source, state)
    assert trajectory(source, [3, 4]) == expected
    assert target.ask({"id": 1, "op": "close"})["ok"] is True
    target.wait()
    assert target.log() == "closing [2, 4, 6, 8]\n"  # the object that the environment's own code knows


def test_a_restored_process_may_be_given_new_streams(start: Any) -> None:
    program = start(PLAIN)
    program.hello()
    program.reset(1)
    state = saved(program)
    assert restored(program, state, 2**33 + 7) == ["random", "numpy.random"]
    stream, legacy = random.Random(2**33 + 7), np.random.RandomState(7)
    assert program.step(1)["obs"] == [2, np.random.default_rng(5).random(), stream.random(), legacy.random_sample()]


def test_a_state_that_does_not_pickle_names_the_attribute_and_the_row_goes_on(start: Any) -> None:
    program = start(PLAIN)
    program.hello()
    program.reset(1)
    program.call("call", "break_it")
    error = program.ask({"id": 9, "op": "get_state"})["error"]
    assert (error["kind"], error["type"]) == ("exception", "TypeError")
    assert "in Env.file" in error["message"]
    assert program.step(1)["obs"][0] == 2


@pytest.mark.parametrize("wrong", [None, "text", {"$bytes": 3}, {"$nd": ["|u1", [0], ""]}])
def test_what_is_no_state_is_refused(start: Any, wrong: Any) -> None:
    program = start(PLAIN)
    program.hello()
    error = program.ask({"id": 9, "op": "set_state", "state": wrong})["error"]
    assert "expected the $bytes that get_state gave" in error["message"]


CARTPOLE = """
    import gymnasium
    from sandpool.env import serve
    serve(make=lambda index, config: gymnasium.make("CartPole-v1", max_episode_steps=6))
"""


def test_a_gymnasium_environment_is_pickled_with_its_wrappers_counters(start: Any) -> None:
    source, target = start(CARTPOLE), start(CARTPOLE)
    assert source.hello()["features"] == ["batch", "state", "raw"]
    target.hello()
    source.reset(3)
    trajectory(source, [0, 1, 0])
    state = saved(source)
    restored(target, state)  # which was never reset, as its own wrappers would complain of
    expected = trajectory(source, [1, 0, 1])
    assert [row["truncated"] for row in expected] == [False, False, True]
    assert trajectory(target, [1, 0, 1]) == expected
    assert source.reset(None)["obs"] == target.reset(None)["obs"]  # np_random too


def test_np_random_is_reseeded_as_a_reset_would(start: Any) -> None:
    program, other = start(CARTPOLE), start(CARTPOLE)
    for one in (program, other):
        one.hello()
        one.reset(3)
    assert restored(program, saved(program), 77)[-1] == "np_random"
    assert program.reset(None)["obs"] == other.reset(77)["obs"]
    if not gymnasium.__version__.startswith("0."):
        assert program.call("get", "np_random_seed")["result"] == other.call("get", "np_random_seed")["result"] == 77


METHODS = """
    import ctypes, gymnasium
    from gymnasium import spaces
    from gymnasium.utils import EzPickle
    from sandpool.env import serve

    class Core(gymnasium.Env, EzPickle):
        observation_space, action_space = spaces.Box(0, 1000, (2,), float), spaces.Discrete(9)
        def __init__(self):
            EzPickle.__init__(self)
            self.board = ctypes.pointer(ctypes.c_int(0))  # as a library's own memory: it has no pickle
        def observe(self):
            import numpy
            return numpy.array([self.board.contents.value, self.np_random.integers(1000)], float)
        def reset(self, seed=None, options=None):
            super().reset(seed=seed)
            self.board.contents.value = 0
            return self.observe(), {}
        def step(self, action):
            self.board.contents.value += int(action)
            return self.observe(), 1.0, False, False, {}
    class Plain(Core):
        def get_state(self):
            return {1: self.board.contents.value}
        def set_state(self, state):
            self.board.contents.value = state[1]
    class Arcade(Core):
        def clone_state(self, include_rng=False):
            return self.board.contents.value, include_rng
        def restore_state(self, state):
            assert state[1] is True
            self.board.contents.value = state[0]
    class Odd(Core):
        def get_state(self):
            return 1
        def set_state(self, positions, velocities):
            pass
    def make(kind):
        wrapped = gymnasium.wrappers.TimeLimit(gymnasium.wrappers.OrderEnforcing(kind()), 5)
        return gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.wrappers.TransformReward(wrapped, lambda reward: reward * 2))
"""


@pytest.mark.parametrize("kind", ["Plain", "Arcade"])
def test_an_environments_own_methods_are_joined_by_what_its_wrappers_and_np_random_hold(start: Any, kind: str) -> None:
    code = METHODS + f"    serve(make(lambda: {kind}()))\n"
    source, target = start(code), start(code)
    assert "state" in source.hello()["features"]
    target.hello()
    source.reset(1)
    trajectory(source, [1, 2])
    state = saved(source)
    expected = _timeless(trajectory(source, [3, 4, 5]))
    assert [row["truncated"] for row in expected] == [False, False, True]
    assert expected[0]["reward"] == 2.0
    restored(target, state)
    assert _timeless(trajectory(target, [3, 4, 5])) == expected


def _timeless(rows: list[Any]) -> list[Any]:
    """Without the seconds that an episode took."""
    for row in rows:
        row["info"].get("episode", {}).pop("t", None)
    return rows


@pytest.mark.parametrize(
    ("served", "reason"),
    [
        ("make(Core)", "Core derives from EzPickle, whose pickle forgets the state"),
        ("make(Odd)", "Odd derives from EzPickle, whose pickle forgets the state"),
        ("reset=lambda seed: 0, step=lambda action: (0, 0, False, {})", "plain functions have no state of their own"),
    ],
)
def test_what_would_forget_its_state_has_no_such_feature(start: Any, served: str, reason: str) -> None:
    program = start(METHODS + f"    serve({served})\n")
    assert "state" not in program.hello()["features"]
    program.reset(1)
    assert reason in program.ask({"id": 9, "op": "get_state"})["error"]["message"]
    assert "error" not in program.step(0)


def test_functions_given_to_serve_say_what_the_state_is(start: Any) -> None:
    code = """
        import random
        from sandpool.env import serve
        place = [0]
        def reset(seed):
            place[0] = 0
            return place
        def step(action):
            place[0] += action
            return [*place, random.random()], 0, False, {}
        def put(state):
            place[:] = state
        serve(reset=reset, step=step, get_state=lambda: list(place), set_state=put)
    """
    source, target = start(code), start(code)
    assert source.hello()["features"] == ["state", "raw"]
    target.hello()
    source.reset(1)
    source.step(40)
    state = saved(source)
    expected = trajectory(source, [1, 2])
    assert expected[-1]["obs"][0] == 43
    restored(target, state)
    assert trajectory(target, [1, 2]) == expected
    target.reset(9)  # the process was seeded already, as its source was
    source.reset(9)
    assert trajectory(target, [1]) == trajectory(source, [1])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("get_state=lambda: 0", "get_state= and set_state= together"),
        ("get_state=lambda a: 0, set_state=lambda s: 0", "received get_state(a) and set_state(s)"),
    ],
)
def test_state_functions_of_another_shape_are_refused(start: Any, given: str, message: str) -> None:
    program = start(f"from sandpool.env import serve; serve(reset=lambda seed: 0, step=print, {given})")
    assert program.wait() == 1
    assert message in program.log()


def test_a_large_state_is_compressed_and_one_too_large_is_an_error(start: Any) -> None:
    program = start("""
        import os
        from sandpool.env import serve
        class Env:
            cache = b""
            def reset(self, seed=None):
                return len(self.cache)
            def step(self, action):
                return len(self.cache), 0, False, {}
            def fill(self, size, noise):
                self.cache = os.urandom(size) if noise else bytes(size)
        serve(Env())
    """)
    program.hello()
    program.reset(1)
    program.call("call", "fill", args=[50_000_000, False])
    state = saved(program)
    assert len(state["$bytes"]) < 1_000_000
    program.call("call", "fill", args=[0, False])
    restored(program, state)
    assert program.step(0)["obs"] == 50_000_000
    program.call("call", "fill", args=[13_000_000, True])
    assert "at most 12000000 can be kept" in program.ask({"id": 9, "op": "get_state"})["error"]["message"]


def test_a_vectorised_environment_has_no_state_for_its_rows(start: Any) -> None:
    program = start("""
        import gymnasium
        from sandpool.env import serve
        serve(make_vec=lambda num_envs, config: gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * num_envs))
    """)
    assert "state" not in program.hello(rows=2)["features"]
    assert "vectorised" in program.ask({"id": 9, "op": "get_state", "rows": None})["error"]["message"]

"""serve() takes functions, Gymnasium environments, old gym's, and makers; calls go through wrappers."""

from __future__ import annotations

import sys
from typing import Any

import pytest

GYMNASIUM = """
    import gymnasium
    import numpy as np
    from sandpool.env import serve

    class Walk(gymnasium.Env):
        metadata = {"render_modes": ["ansi"], "render_fps": 4}
        observation_space = gymnasium.spaces.Box(-9, 9, (2,), np.float32)
        action_space = gymnasium.spaces.Discrete(3, start=-1)
        render_mode = "ansi"
        speed = 1
        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.at = float(self.np_random.integers(1000)) + (options or {}).get("shift", 0)
            return np.array([self.at, 0], np.float32), {"seed": seed}
        def step(self, action):
            self.at += float(action) * self.speed
            return np.array([self.at, 1], np.float32), np.float32(0.5), np.bool_(False), self.at > 2000, {"action": type(action).__name__}
        def render(self):
            return f"at {self.at}"
        def describe(self, greeting, *, mark="."):
            return greeting + mark

    def wrapped(length=100):
        return gymnasium.wrappers.TimeLimit(gymnasium.wrappers.OrderEnforcing(Walk()), length)
"""


@pytest.mark.parametrize("given", ["serve(wrapped())", "serve(make=lambda: wrapped())", "serve(make=lambda index, config: wrapped())"])
def test_a_gymnasium_environment_is_served_whole(start: Any, given: str) -> None:
    pytest.importorskip("gymnasium")
    program = start(GYMNASIUM + "    " + given)
    hello = program.hello()
    assert hello["action_space"] == {"type": "Discrete", "n": 3, "start": -1, "dtype": "<i8"}
    assert hello["observation_space"]["shape"] == [2]
    assert hello["observation_space"]["dtype"] == "<f4"
    assert hello["metadata"] == {"render_modes": ["ansi"], "render_fps": 4}
    assert (hello["render_mode"], hello["spec"]) == ("ansi", None)
    assert hello["features"] == [*(["batch"] if "make=" in given else []), "state", "raw", "render"]
    first = program.reset(7)
    assert first["info"] == {"seed": 7}
    assert first["obs"] == program.reset(7)["obs"]
    assert first["obs"] != program.reset(7, {"shift": 1})["obs"]
    reply = program.step(1)
    assert (reply["reward"], reply["terminated"], reply["truncated"]) == (0.5, False, False)
    assert reply["info"] == {"action": "int64"}


def test_calls_reach_through_the_wrappers(start: Any) -> None:
    pytest.importorskip("gymnasium")
    program = start(GYMNASIUM + "    serve(wrapped())")
    program.hello()
    program.reset(7)
    assert program.call("call", "render")["result"].startswith("at ")
    assert program.call("call", "describe", args=["hello"], kwargs={"mark": "!"})["result"] == "hello!"
    assert program.call("call", "speed")["result"] == 1
    assert program.call("call", "speed", args=[2])["error"]["type"] == "TypeError"
    assert program.call("get", "speed")["result"] == 1
    assert program.call("set", "speed", value=3) == {"id": 4, "result": None}
    assert program.call("get", "speed")["result"] == 3
    before = program.call("get", "at")["result"]
    program.step(1)
    assert program.call("get", "at")["result"] == before + 3
    assert program.call("has", "describe")["result"] is True
    assert program.call("has", "undescribed")["result"] is False
    assert program.call("wrapped", "gymnasium.wrappers.TimeLimit")["result"] is True
    defined_at = f"{sys.modules['gymnasium'].wrappers.TimeLimit.__module__}.TimeLimit"
    assert program.call("wrapped", defined_at)["result"] is True
    assert program.call("wrapped", "gymnasium.wrappers.ClipAction")["result"] is False
    assert program.call("wrapped", "gymnasium.core.Env")["result"] is True
    assert program.call("wrapped", "nowhere.Nothing")["result"] is False


def test_the_time_limit_of_a_wrapper_truncates(start: Any) -> None:
    pytest.importorskip("gymnasium")
    program = start(GYMNASIUM + "    serve(wrapped(length=2))")
    program.hello()
    program.reset(7)
    assert [program.step(0)["truncated"] for _ in range(2)] == [False, True]


def test_a_maker_gets_its_index_and_config(start: Any) -> None:
    code = """
        from sandpool.env import serve
        class Told:
            def __init__(self, *told): self.told = told
            def reset(self): return list(self.told)
            def step(self, action): return 0, 0, False, False, {}
        serve(make=%s)
    """
    settings = {"index": 5, "config": {"$$size": [1, {"$tuple": [2]}]}}
    heard = {"$$size": [1, {"$tuple": [2]}]}
    for make, expected in (
        ("lambda index, config: Told(index, config)", [5, heard]),
        ("lambda a, b: Told(a, b)", [5, heard]),
        ("lambda index: Told(index)", [5]),
        ("lambda config: Told(config)", [heard]),
        ("lambda: Told()", []),
        ("Told", []),
    ):
        program = start(code % make)
        program.hello(**settings)
        assert program.reset()["obs"] == expected, make


def test_old_gym_has_four_values_and_a_seed_method(start: Any) -> None:
    program = start("""
        from sandpool.env import serve
        class Old:
            seeds = []
            def seed(self, seed=None): self.seeds.append(seed)
            def reset(self): return 0
            def step(self, action): return action, 1, action > 0, {"TimeLimit.truncated": True} if action == 2 else {}
        serve(Old())
    """)
    program.hello()
    program.reset(11)
    program.reset(None)
    assert program.call("get", "seeds")["result"] == [11]
    flags = [(program.step(action)["terminated"], program.step(action)["truncated"]) for action in (0, 1, 2)]
    assert flags == [(False, False), (True, False), (False, True)]


@pytest.mark.parametrize(
    ("reset", "heard"),
    [
        ("def reset(seed, options): return [seed, options]", [3, {"a": 1}]),
        ("def reset(seed, options=None): return [seed, options]", [3, {"a": 1}]),
        ("def reset(s, o): return [s, o]", [3, {"a": 1}]),
        ("def reset(*, seed=None, options=None): return [seed, options]", [3, {"a": 1}]),
        ("def reset(**given): return [given['seed'], given['options']]", [3, {"a": 1}]),
        ("def reset(options, seed): return [seed, options]", [3, {"a": 1}]),
    ],
)
def test_a_reset_function_hears_seed_and_options_however_it_names_them(start: Any, reset: str, heard: list[Any]) -> None:
    program = start(f"from sandpool.env import serve\n{reset}\nserve(reset=reset, step=lambda action: (0, 0, False, {{}}))")
    program.hello()
    assert program.reset(3, {"a": 1})["obs"] == heard


@pytest.mark.parametrize(
    "reset", ["def reset(seed): return seed", "def reset(any_name): return any_name", "def reset(seed, size=2): return seed"]
)
def test_a_reset_function_without_options_refuses_them(start: Any, reset: str) -> None:
    program = start(f"from sandpool.env import serve\n{reset}\nserve(reset=reset, step=lambda action: (0, 0, False, {{}}))")
    program.hello()
    assert program.reset(3)["obs"] == 3
    assert "reset takes none" in program.reset(3, {"a": 1})["error"]["message"]


def test_a_pair_is_an_observation_unless_its_second_is_a_dict(start: Any) -> None:
    program = start("""
        from sandpool.env import serve
        results = [(1, 2), (1, {"a": 2}), [1, {"a": 2}]]
        serve(reset=lambda seed: results[seed], step=lambda action: (0, 0, False, False, None))
    """)
    program.hello()
    assert program.reset(0) == {"id": 2, "obs": {"$tuple": [1, 2]}, "info": {}}
    assert program.reset(1) == {"id": 2, "obs": 1, "info": {"a": 2}}
    assert program.reset(2) == {"id": 2, "obs": [1, {"a": 2}], "info": {}}
    assert program.step(0)["info"] == {}


def test_functions_call_get_and_set_their_module_or_their_object(start: Any) -> None:
    module = start("""
        from sandpool.env import serve
        size = 4
        def area(side): return side * side
        def step(action): return size, 0, False, False, {}
        serve(reset=lambda seed: size, step=step)
    """)
    module.hello()
    assert module.call("call", "area", args=[3])["result"] == 9
    module.call("set", "size", value=6)
    assert module.reset()["obs"] == 6
    bound = start("""
        from sandpool.env import serve
        class Owner:
            size = 4
            def begin(self, seed): return self.size
            def go(self, action): return 0, 0, False, False, {}
        owner = Owner()
        serve(reset=owner.begin, step=owner.go)
    """)
    bound.hello()
    bound.call("set", "size", value=6)
    assert bound.reset()["obs"] == 6


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("serve()", "exactly one of"),
        ("serve(reset=print)", "exactly one of"),
        ("serve(object(), make=print)", "exactly one of"),
        ("serve(object())", "without reset and step"),
        ("serve(dict)", "the class dict"),
        ("serve(make=lambda a, b, c: 1)", "expected make(index, config)"),
        ("serve(make_vec=lambda a, b, c: 1)", "expected make_vec(num_envs, config)"),
        ("serve(make=dict, row_seeds=True)", "give them with make_vec="),
    ],
)
def test_a_wrong_form_ends_the_program_with_what_is_wrong(start: Any, given: str, said: str) -> None:
    program = start(f"from sandpool.env import serve\n{given}")
    program.send(b'{"id":1,"op":"hello","protocol":1,"index":0,"n":1,"rows":1,"workspace":null,"config":null}\n')
    assert program.read() is None
    assert program.wait() == 1
    assert said in program.log()


@pytest.mark.parametrize(
    ("make", "kind", "name"),
    [
        ("lambda config: object()", "exception", "TypeError"),
        ("lambda index, config: 1 / 0", "exception", "ZeroDivisionError"),
        ("lambda index, config: bytearray(1 << 60)", "oom", "MemoryError"),
    ],
)
@pytest.mark.parametrize("template", [False, True])
def test_an_environment_that_cannot_be_made_answers_with_its_traceback_and_ends(
    start: Any, make: str, kind: str, name: str, template: bool
) -> None:
    make = make.replace("index, ", "") if template else make
    program = start(f"from sandpool.env import serve\nserve(make={make})")
    error = (program.template() if template else program.hello())["error"]
    assert (error["kind"], error["type"]) == (kind, name)
    assert error["traceback"].endswith(f"{name}\n") or f"{name}: " in error["traceback"]
    assert program.read() is None
    assert program.wait() == 1
    assert name in program.log()


def test_close_calls_the_environments_own_close_and_atexit(start: Any) -> None:
    for ending in ("request", "end of channel"):
        program = start("""
            import atexit
            from sandpool.env import serve
            class Closing:
                def reset(self): return 0
                def step(self, action): return 0, 0, False, False, {}
                def close(self): print("closed")
            atexit.register(print, "left")
            serve(Closing())
        """)
        program.hello()
        if ending == "request":
            assert program.ask({"id": 9, "op": "close"}) == {"id": 9, "ok": True}
        else:
            program.outgoing.shutdown(1)
        assert program.wait() == 0
        assert program.log() == "closed\nleft\n", ending


def test_operations_before_hello_are_answered(start: Any) -> None:
    program = start("from sandpool.env import serve\nserve(reset=lambda seed: seed, step=lambda action: (action, 0, False, False, {}))")
    assert program.step(4)["obs"] == 4
    assert program.reset(4)["obs"] == 4


def test_frames_and_action_masks_travel_as_they_are(start: Any) -> None:
    np = pytest.importorskip("numpy")
    pytest.importorskip("gymnasium")
    program = start("""
        from sandpool.env import serve
        import gymnasium, numpy as np
        class Masked(gymnasium.Env):
            metadata, render_mode = {"render_modes": ["rgb_array"], "render_fps": 30}, "rgb_array"
            observation_space, action_space = gymnasium.spaces.Discrete(5), gymnasium.spaces.Discrete(3)
            def reset(self, seed=None, options=None): return 0, {"action_mask": np.array([1, 0, 1], np.int8)}
            def step(self, action): return 1, 0.0, False, False, {"action_mask": np.array([0, 1, 1], np.int8)}
            def render(self): return np.arange(40 * 30 * 3, dtype=np.uint8).reshape(40, 30, 3)
        serve(Masked())
    """)
    hello = program.hello()
    assert (hello["render_mode"], "render" in hello["features"]) == ("rgb_array", True)
    for answer, expected in ((program.reset(), [1, 0, 1]), (program.step(1), [0, 1, 1])):
        mask = program.read_arrays(answer["info"])["action_mask"]
        assert (mask.dtype, mask.tolist()) == (np.int8, expected)
    frame = program.read_arrays(program.call("call", "render"))["result"]
    assert (frame.dtype, frame.shape) == (np.uint8, (40, 30, 3))
    assert (frame == np.arange(3600, dtype=np.uint8).reshape(40, 30, 3)).all()

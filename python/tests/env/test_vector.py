"""A vectorised environment answers for its rows what it answers in the trainer's own process."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from env.harness import Program
from sandpool.env.encoding import Output, encode
from sandpool.env.vector_infos import infos_of

np = pytest.importorskip("numpy")
gymnasium = pytest.importorskip("gymnasium")
vector = gymnasium.vector
if not hasattr(vector, "AutoresetMode"):
    pytest.skip("gymnasium before 1.1 is looked at in test_old_gymnasium.py", allow_module_level=True)
Mode = vector.AutoresetMode

COUNTING = """
    from sandpool.env import serve
    import gymnasium, numpy as np
    from gymnasium import spaces
    from gymnasium.vector import AutoresetMode, SyncVectorEnv

    class Counting(gymnasium.Env):
        observation_space = spaces.Dict({"count": spaces.Box(0, 100, (2,), np.float32), "last": spaces.Discrete(10)})
        action_space = spaces.Discrete(5)
        def __init__(self, number):
            self.number, self.count, self.limit = number, 0, 2 + number
        def observe(self, action=0):
            return {"count": np.array([self.number, self.count], np.float32), "last": np.int64(action)}
        def reset(self, seed=None, options=None):
            super().reset(seed=seed)
            self.count = 0
            return self.observe(), {"seed": -1 if seed is None else seed, "options": len(options or {})}
        def step(self, action):
            if action == 4:
                raise ValueError("four")
            self.count += 1
            ended = self.count >= self.limit
            info = {"twice": 2 * self.count, "nested": {"text": "é", "flag": True}} if self.count in (1, 3) else {}
            return self.observe(action), float(self.count), ended, False, info
        def render(self):
            return np.full((2, 2, 3), self.number, np.uint8)
        def answer(self, times):
            return self.number * times
    def sync(num_envs, mode):
        return SyncVectorEnv([lambda number=number: Counting(number) for number in range(num_envs)], autoreset_mode=mode)
"""


def begin(start: Any, code: str, rows: int, **members: Any) -> tuple[Program, dict[str, Any]]:
    program: Program = start(code)
    hello = program.hello(rows=rows, n=rows, **members)
    assert hello["rows"] == rows
    assert "batch" in hello["features"]
    return program, hello


def alone(mode: Any, rows: int) -> Any:
    """The same environment in this process."""
    namespace: dict[str, Any] = {}
    code = "\n".join(line[4:] for line in COUNTING.splitlines()).replace("from sandpool.env import serve", "")
    exec(code, namespace)
    return namespace["sync"](rows, mode)


@pytest.mark.parametrize("mode", list(Mode))
def test_every_mode_of_a_sync_vector_env_is_what_it_is_in_ones_own_process(start: Any, mode: Any) -> None:
    program, hello = begin(start, COUNTING + f"    serve(make_vec=lambda num_envs, config: sync(num_envs, {str(mode.value)!r}))\n", 3)
    named = {"NextStep": "next_step", "SameStep": "same_step", "Disabled": None}[mode.value]
    assert hello["vector"] == {"class": "SyncVectorEnv", "autoreset": named, "partial_reset": False, "row_seeds": False}
    assert [key for key, _ in hello["observation_space"]["spaces"]] == ["count", "last"]
    assert hello["action_space"] == {"type": "Discrete", "n": 5, "start": 0, "dtype": "<i8"}
    assert hello["metadata"]["autoreset_mode"] == mode.value
    own = alone(mode, 3)
    observations, _ = own.reset(seed=5)
    reply = program.reset_rows([5, 6, 7])
    assert same(reply["obs"], observations)
    assert {row: info["seed"].item() for row, info in reply["infos"].items()} == {"0": 5, "1": 6, "2": 7}
    for number in range(2 if mode is Mode.DISABLED else 9):
        actions = np.array([number % 4, 1, 2])
        observations, rewards, terminated, truncated, infos = own.step(actions)
        reply = program.step_array(actions)
        assert same(reply["obs"], observations)
        assert reply["reward"].tolist() == rewards.tolist()
        assert reply["reward"].dtype == np.float64
        assert (reply["terminated"].tolist(), reply["truncated"].tolist()) == (terminated.tolist(), truncated.tolist())
        for row in range(3):
            check_info(reply["infos"].get(str(row), {}), infos, row)


def same(left: Any, right: Any) -> bool:
    if isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in right)
    return left.dtype == right.dtype and np.array_equal(left, right)


def check_info(info: dict[str, Any], infos: dict[str, Any], row: int) -> None:
    """A row's info has what the batched infos have where the row is in the mask, and nothing else."""
    expected = {key for key in infos if not key.startswith("_") and infos[f"_{key}"][row]}
    assert info.keys() == expected
    for key in expected:
        value = infos[key]
        if isinstance(value, dict):
            check_info(info[key], value, row)
        elif isinstance(value[row], dict):
            assert same(info[key], value[row])
        else:
            assert info[key] == value[row]
            assert not isinstance(value[row], np.generic) or info[key].dtype == value.dtype


def test_cartpoles_own_vector_entry_point_is_served(start: Any) -> None:
    program, hello = begin(
        start,
        """
        from sandpool.env import serve
        import gymnasium
        serve(make_vec=lambda num_envs, config: gymnasium.make_vec("CartPole-v1", num_envs, vectorization_mode="vector_entry_point"))
        """,
        6,
    )
    assert hello["vector"] == {"class": "CartPoleVectorEnv", "autoreset": "next_step", "partial_reset": False, "row_seeds": False}
    assert (hello["observation_space"]["shape"], hello["spec"]) == ([4], "CartPole-v1")
    own = gymnasium.make_vec("CartPole-v1", 6, vectorization_mode="vector_entry_point")
    assert same(program.reset_rows([4, 5, 6, 7, 8, 9])["obs"], own.reset(seed=4)[0])
    for actions in np.random.default_rng(1).integers(0, 2, (40, 6)):
        observations, rewards, terminated, truncated, _ = own.step(actions)
        reply = program.step_array(actions)
        assert same(reply["obs"], observations)
        assert reply["reward"].tolist() == rewards.tolist()
        assert (reply["terminated"].tolist(), reply["truncated"].tolist()) == (terminated.tolist(), truncated.tolist())


def test_seeds_a_row_and_partial_resets_are_for_those_who_declare_them(start: Any) -> None:
    code = COUNTING + "    serve(make_vec=lambda num_envs, config: sync(num_envs, 'Disabled'), %s)\n"
    program, hello = begin(start, code % "partial_reset=True, row_seeds=True", 3)
    assert (hello["vector"]["partial_reset"], hello["vector"]["row_seeds"]) == (True, True)
    seeds = {row: info["seed"].item() for row, info in program.reset_rows([9, None, 4])["infos"].items()}
    assert seeds == {"0": 9, "1": -1, "2": 4}
    assert [info["options"].item() for info in program.reset_rows(options_each=[{"a": [1]}] * 3)["infos"].values()] == [1] * 3
    assert [info["options"].item() for info in program.reset_rows(options_each=[{}, {}, {"a": 1}])["infos"].values()] == [3] * 3
    assert "of a partial reset" in program.reset_rows(rows=[0, 1], options_each=[{}, {"a": 1}])["error"]["message"]
    program.step_array(np.array([1, 2, 3]))
    reply = program.reset_rows([7], [1], options={"mine": 1})
    assert reply["obs"]["count"].tolist() == [[1, 0]]
    assert {row: (info["seed"].item(), info["options"].item()) for row, info in reply["infos"].items()} == {"1": (7, 1)}
    assert program.step_array(np.array([1, 1, 1]))["obs"]["count"].tolist() == [[0, 2], [1, 1], [2, 2]]

    program, _ = begin(start, code % "close=None", 3)
    assert {row: info["seed"].item() for row, info in program.reset_rows([9, 20, 30])["infos"].items()} == {"0": 9, "1": 10, "2": 11}
    assert "does not declare" in program.reset_rows(rows=[1])["error"]["message"]
    assert "as it does not declare row_seeds=True" in program.reset_rows(options_each=[1, 2, 2])["error"]["message"]
    assert "stepped whole" in program.step_rows([1], [1])["error"]["message"]
    assert program.step_array(np.array([1, 1, 1]))["obs"]["count"][:, 1].tolist() == [1, 1, 1]


def test_an_exception_fails_all_rows_and_the_next_reset_makes_the_environment_anew(start: Any) -> None:
    program, _ = begin(start, COUNTING + "    serve(make_vec=lambda num_envs, config: sync(num_envs, 'NextStep'))\n", 2)
    program.reset_rows()
    program.step_array(np.array([1, 1]))
    error = program.step_array(np.array([1, 4]))["error"]
    assert (error["kind"], error["type"], error["message"]) == ("exception", "ValueError", "four")
    assert "reset it before its next step" in program.step_array(np.array([1, 1]))["error"]["message"]
    assert program.reset_rows()["obs"]["count"].tolist() == [[0, 0], [1, 0]]
    assert program.step_array(np.array([1, 1]))["obs"]["count"].tolist() == [[0, 1], [1, 1]]


def test_a_vectorised_environment_out_of_time_is_interrupted_as_one(start: Any) -> None:
    code = COUNTING.replace("if action == 4:", "while action == 4:").replace('raise ValueError("four")', "pass")
    program, _ = begin(start, code + "    serve(make_vec=lambda num_envs, config: sync(num_envs, 'NextStep'))\n", 2)
    program.reset_rows()
    error = program.step_rows([4, 1], deadline_ms=1000)["error"]
    assert error["kind"] == "timeout"
    assert program.reset_rows()["obs"]["count"].tolist() == [[0, 0], [1, 0]]


def test_calls_ask_the_object_once(start: Any) -> None:
    program, _ = begin(start, COUNTING + "    serve(make_vec=lambda num_envs, config: sync(num_envs, 'NextStep'))\n", 2)
    program.reset_rows()
    assert program.call_rows("call", "answer", args=[10])["results"] == [0, 10]
    frames = program.call_rows("call", "render")["results"]
    assert [(frame.dtype, frame.shape, int(frame.max())) for frame in frames] == [(np.uint8, (2, 2, 3), 0), (np.uint8, (2, 2, 3), 1)]
    assert program.call_rows("get", "limit")["results"] == [2, 3]
    assert program.call_rows("set", "limit", values=[7, 8])["results"] == [None, None]
    assert program.call_rows("get", "limit")["results"] == [7, 8]
    assert program.call_rows("get", "num_envs")["results"] == [2, 2]
    assert program.call_rows("has", "num_envs")["results"] == [True, True]
    assert "asked whole" in program.call_rows("get", "limit", rows=[0])["error"]["message"]
    measured = program.ask({"id": 3, "op": "measure"})
    assert measured["step_us"] is None  # a sampled action is one that it raises for
    assert "four" in measured["reason"]


def test_the_maker_gets_what_it_names(start: Any) -> None:
    body = "type('Own', (), dict(num_envs=num_envs, reset=None, step=None, told=[%s], metadata={'autoreset_mode': 'same_step'}))()"
    for make, told in (
        ("lambda num_envs, config: " + body % "num_envs, config", [2, {"a": 1}]),
        ("lambda num_envs, config, index: " + body % "num_envs, config, index", [2, {"a": 1}, 8]),
        ("lambda num_envs: " + body % "num_envs", [2]),
        ("lambda config, num_envs: " + body % "num_envs, config", [2, {"a": 1}]),
        ("lambda n, c, num_envs=2: " + body % "n, c", [2, {"a": 1}]),
    ):
        program, hello = begin(start, f"from sandpool.env import serve\nserve(make_vec={make})", 2, config={"a": 1}, index=8)
        assert hello["vector"]["autoreset"] == "same_step"
        result = program.call_rows("get", "told")["results"]
        assert result == (told if len(told) == 2 else [told] * 2), make
    for rows, made, said in (
        (2, "[]", "without num_envs and reset and step"),
        (2, body.replace("num_envs=num_envs", "num_envs=3") % "", "of 3 environments; expected a vectorised environment with num_envs=2"),
        (2, body.replace("'autoreset_mode': 'same_step'", "") % "", "says autoreset_mode=None; set its metadata['autoreset_mode']"),
    ):
        program = start(f"from sandpool.env import serve\nserve(make_vec=lambda num_envs, config: {made})")
        assert said in program.hello(rows=rows)["error"]["message"]


POOL = """
    from sandpool.env import serve
    import numpy as np
    from gymnasium import spaces
    class {name}:
        '''Answers as EnvPool does: arrays of one item a row without masks, float32 rewards, and for a partial reset its rows alone.'''
        observation_space, action_space = spaces.Box(-9, 9, (2,), np.float32), spaces.Discrete(3)
        metadata = {{"autoreset_mode": "NextStep"}}
        def __init__(self, num_envs):
            self.num_envs, self.total = num_envs, np.zeros(num_envs, np.int32)
        def infos(self, rows):
            return {{"env_id": rows, "players": {{"env_id": rows}}, "elapsed": self.total[rows], "wide": np.stack([rows, rows], 1),
                    "task": {{"done": self.total[rows] > 1}}, "all": "same"}}
        def reset(self, seed=None, options=None):
            if {envpool} and seed is not None: raise ValueError("seed")
            mask = (options or {{}}).get("reset_mask", np.ones(self.num_envs, bool))
            rows = np.flatnonzero(mask).astype(np.int32)
            self.total[rows] = 0
            return np.stack([rows, self.total[rows]], 1).astype(np.float32), self.infos(rows)
        def step(self, action):
            self.total += action.astype(np.int32)
            rows = np.arange(self.num_envs, dtype=np.int32)
            flags = np.zeros(self.num_envs, bool)
            return np.stack([rows, self.total], 1).astype(np.float32), self.total.astype(np.float32), flags, flags, self.infos(rows)
    {name}.__module__ = {module!r}
    serve(make_vec=lambda num_envs, config: {name}(num_envs), partial_reset=True)
"""


@pytest.mark.parametrize("module", ["envpool.classic", "ones_own"])
def test_arrays_without_masks_are_every_rows(start: Any, module: str) -> None:
    program, _ = begin(start, POOL.format(name="Pool", module=module, envpool=module != "ones_own"), 3)
    assert program.reset_rows([1, 2, 3])["obs"].tolist() == [[0, 0], [1, 0], [2, 0]]
    reply = program.step_array(np.array([0, 1, 2]))
    assert (reply["reward"].dtype, reply["reward"].tolist()) == (np.float64, [0, 1, 2])
    info = reply["infos"]["2"]
    assert (info["elapsed"].dtype, info["elapsed"].item()) == (np.int32, 2)
    assert (info["wide"].tolist(), info["task"]["done"].item(), info["all"]) == ([2, 2], True, "same")
    assert ("env_id" in info, "players" in info) == ((False, False) if module != "ones_own" else (True, True))
    reply = program.reset_rows(rows=[0, 2])
    assert reply["obs"].tolist() == [[0, 0], [2, 0]]
    assert {row: info["wide"].tolist() for row, info in reply["infos"].items()} == {"0": [0, 0], "2": [2, 2]}
    assert program.step_array(np.array([0, 1, 2]))["obs"][:, 1].tolist() == [0, 2, 2]


def test_envpool_itself_is_served(start: Any) -> None:
    envpool = pytest.importorskip("envpool")
    make = "envpool.make_gymnasium('CartPole-v1', num_envs=num_envs, seed=3)"
    program, hello = begin(
        start, f"import envpool\nfrom sandpool.env import serve\nserve(make_vec=lambda num_envs, config: {make}, partial_reset=True)", 4
    )
    assert hello["vector"] == {"class": "CartPoleGymnasiumEnvPool", "autoreset": "next_step", "partial_reset": True, "row_seeds": False}
    own = envpool.make_gymnasium("CartPole-v1", num_envs=4, seed=3)
    assert same(program.reset_rows([1, 2, 3, 4])["obs"], own.reset()[0])
    for actions in np.random.default_rng(1).integers(0, 2, (30, 4)):
        observations, rewards, terminated, _, infos = own.step(actions)
        reply = program.step_array(actions)
        assert same(reply["obs"], observations)
        assert (reply["reward"].tolist(), reply["terminated"].tolist()) == (rewards.tolist(), terminated.tolist())
        assert {row: info["elapsed_step"].item() for row, info in reply["infos"].items()} == {
            str(row): step for row, step in enumerate(infos["elapsed_step"].tolist())
        }
    assert program.reset_rows(rows=[1, 3])["obs"].shape == (2, 4)
    assert json.dumps(program.call_rows("get", "num_envs")["results"]) == "[4, 4, 4, 4]"


@pytest.mark.parametrize("dtype", ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", ">i4"])
def test_numbers_of_an_info_are_numpy_scalars_of_their_dtype(start: Any, dtype: str) -> None:
    values = np.array([0, 1, 5, 250 if dtype in ("u1",) else 100, 1], dtype)
    output = Output()
    members = infos_of(SimpleNamespace(is_envpool=False, output=output), {"x": values}, range(5), range(5), 5)
    assert members == [f'"{row}":{{"x":{encode(values[row], output)}}}' for row in range(5)]
    mask = np.array([0, 1, 0, 0, 1], bool)
    nested = {"x": {"y": values, "_y": mask}, "_x": mask}
    members = infos_of(SimpleNamespace(is_envpool=False, output=output), nested, range(5), range(5), 5)
    assert members == [f'"{row}":{{"x":{{"y":{encode(values[row], output)}}}}}' for row in (1, 4)]

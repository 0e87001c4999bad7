"""Methods, attributes, wrappers and rendering."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from sb3_environments import Drawing, box_space
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecEnv

from sandpool import EnvironmentFailedError, InvalidValueError, RLPool
from sandpool.sb3 import SB3VecEnv

N = 3

Open = Callable[..., SB3VecEnv]


@pytest.fixture
def vec_env(open_vec_env: Open) -> SB3VecEnv:
    return open_vec_env([partial(Drawing, box_space(), spaces.Discrete(2), "rgb_array")] * N)


def test_methods_are_called_with_their_arguments_in_the_order_of_the_indices(vec_env: SB3VecEnv) -> None:
    assert isinstance(vec_env, VecEnv)
    assert vec_env.env_method("scaled", 2.5) == [2.5] * N
    assert vec_env.env_method("scaled", 2.5, indices=[0, -1], factor=4.0) == [10.0, 10.0]
    assert vec_env.env_method("scaled", 1.0, indices=1) == [1.0]
    vec_env.set_attr("level", "first", indices=0)
    vec_env.set_attr("level", "others", indices=[1, 2])
    assert vec_env.get_attr("level", indices=[2, 0]) == ["others", "first"]


def test_attributes_are_set_to_one_value_a_list_too(vec_env: SB3VecEnv) -> None:
    assert not vec_env.has_attr("tasks")
    vec_env.set_attr("tasks", [1, 2, 3])
    assert vec_env.has_attr("tasks")
    assert vec_env.get_attr("tasks") == [[1, 2, 3]] * N
    vec_env.set_attr("tasks", (4, 5), indices=[1])
    assert vec_env.get_attr("tasks") == [[1, 2, 3], (4, 5), [1, 2, 3]]
    vec_env.set_attr("tasks", np.arange(3))
    np.testing.assert_array_equal(vec_env.get_attr("tasks")[2], np.arange(3))


def test_a_missing_attribute_is_an_attribute_error_and_a_raising_method_says_what_it_raised(vec_env: SB3VecEnv) -> None:
    with pytest.raises(AttributeError, match="absent"):
        vec_env.get_attr("absent")
    with pytest.raises(AttributeError, match="absent"):
        vec_env.env_method("absent", indices=1)
    with pytest.raises(EnvironmentFailedError, match="on purpose") as caught:
        vec_env.env_method("broken", indices=2)
    assert not isinstance(caught.value, AttributeError)
    assert (caught.value.row, caught.value.kind) == (2, "exception")
    assert vec_env.env_method("scaled", 1.0) == [1.0] * N


def test_wrappers_are_known_by_their_class_and_monitors_of_both_kinds_count(open_vec_env: Open, server: dict[str, str]) -> None:
    def plain() -> Any:
        return Drawing(box_space(), spaces.Discrete(2))

    mixed = open_vec_env([plain, lambda: Monitor(plain())])
    assert mixed.env_is_wrapped(Monitor) == [False, True]
    assert mixed.env_is_wrapped(Monitor, indices=[1]) == [True]
    assert mixed.env_is_wrapped(gymnasium.Wrapper) == [False, True]
    assert mixed.env_method("loaded", "torch") == [False, False]
    assert mixed.env_method("loaded", "stable_baselines3") == [False, False]
    with SB3VecEnv.from_gym("CartPole-v1", 2, progress=False) as monitored:
        assert monitored.env_is_wrapped(Monitor) == [True, True]
        assert monitored.env_is_wrapped(gymnasium.wrappers.TimeLimit, indices=0) == [True]
        assert monitored.env_is_wrapped(gymnasium.wrappers.ClipAction) == [False, False]
    with SB3VecEnv.from_gym("CartPole-v1", 2, monitor=False, progress=False) as bare:
        assert bare.env_is_wrapped(Monitor) == [False, False]


def test_frames_are_one_for_each_environment_and_render_tiles_them(vec_env: SB3VecEnv) -> None:
    assert vec_env.render_mode == "rgb_array"
    assert vec_env.metadata["render_modes"] == ["human", "rgb_array"]
    images = vec_env.get_images()
    assert [image.shape for image in images] == [(4, 6, 3)] * N
    assert {image.dtype for image in images} == {np.dtype(np.uint8)}
    tiled = vec_env.render()
    assert tiled is not None
    assert tiled.shape == (8, 12, 3)
    assert int(tiled.sum()) == 7 * N * 4 * 6 * 3
    with pytest.warns(UserWarning, match="something_else"):
        assert vec_env.render(mode="something_else") is None


def test_without_a_render_mode_there_are_no_frames(open_vec_env: Open) -> None:
    vec_env = open_vec_env([partial(Drawing, box_space(), spaces.Discrete(2))] * 2)
    with pytest.warns(UserWarning, match="render mode is None"):
        assert vec_env.get_images() == [None, None]


def test_spaces_given_by_hand_serve_a_program_that_announces_none(server: dict[str, str], tmp_path: Any) -> None:
    program = tmp_path / "plain.py"
    program.write_text(
        "from sandpool.env import serve\nserve(reset=lambda seed: [1, 2], step=lambda action: ([action, 2], 1.0, False, False, {}))\n"
    )
    known = {"observation_space": spaces.Box(0, 9, (2,), np.int16), "action_space": spaces.Discrete(5)}
    with pytest.raises(InvalidValueError, match="announce no observation_space"):
        SB3VecEnv(program, 2, progress=False)
    with SB3VecEnv(program, 2, progress=False, **known) as vec_env:
        assert vec_env.reset().tolist() == [[1, 2], [1, 2]]
        obs = vec_env.step(np.array([3, 4]))[0]
        assert (obs.dtype, obs.tolist()) == (np.int16, [[3, 2], [4, 2]])
        assert vec_env.render_mode is None
    with RLPool(program, 2, autoreset="same_step", progress=False) as pool:
        assert SB3VecEnv(pool=pool, **known).pool is pool

"""Every space there and back: observations are members of the batched space, actions arrive as iterating it gives them."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from assert_same import assert_same
from worlds import SPACES

from conftest import Make, sync
from sandpool.gymnasium import OpaqueSpace, SandpoolVecEnv


@pytest.mark.parametrize("space", SPACES)
def test_observations_and_actions_of_the_space_are_those_of_sync_vector_env(make: Make, space: str) -> None:
    ours, theirs = make("Echo-v0", 2, space=space), sync("Echo-v0", 2, space=space)
    assert ours.single_observation_space == theirs.single_observation_space
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    assert_same(ours.reset(seed=5), theirs.reset(seed=5))
    theirs.action_space.seed(11)
    for step in range(5):
        actions = theirs.action_space.sample()
        received, expected = ours.step(actions), theirs.step(actions)
        assert_same(received, expected, f"step {step}")
    theirs.close()


class Hidden(gymnasium.Space):
    """A space of the user's own."""

    def __init__(self) -> None:
        super().__init__()

    def contains(self, x: object) -> bool:
        return isinstance(x, list)

    def sample(self) -> list:
        return [int(self.np_random.integers(9))]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hidden)

    __hash__ = None


PROGRAM = """
from sandpool.env import serve
serve(reset=lambda seed: ["start"], step=lambda action: (["stepped", action], 1.0, False, False, {}))
"""


def test_a_space_that_is_not_announced_is_opaque_unless_the_client_gives_it(own_pool_server: dict, tmp_path_factory) -> None:
    folder = tmp_path_factory.mktemp("plain")
    (folder / "env.py").write_text(PROGRAM)
    with_none = SandpoolVecEnv(folder, 2, **own_pool_server)
    assert isinstance(with_none.single_observation_space, OpaqueSpace)
    assert with_none.reset()[0] == (["start"], ["start"])
    assert with_none.step([3, "x"])[0] == (["stepped", 3], ["stepped", "x"])
    assert len(with_none.action_space.spaces) == 2
    with pytest.raises(NotImplementedError, match="action_space="):
        with_none.action_space.sample()
    with_none.close()
    with_own = SandpoolVecEnv(folder, 2, observation_space=Hidden(), action_space=gymnasium.spaces.Discrete(3), **own_pool_server)
    assert with_own.observation_space == gymnasium.spaces.Tuple((Hidden(), Hidden()))
    assert with_own.step(np.array([1, 2]))[0] == (["stepped", 1], ["stepped", 2])
    with_own.close()


NUMBERS = """
from sandpool.env import serve
serve(reset=lambda seed: [1, 2], step=lambda action: ([3, 4], 1.0, False, False, {}))
"""


def test_unannounced_numbers_are_a_box_and_a_given_space_casts_them(own_pool_server: dict, tmp_path_factory) -> None:
    folder = tmp_path_factory.mktemp("numbers")
    (folder / "env.py").write_text(NUMBERS)
    envs = SandpoolVecEnv(folder, 2, **own_pool_server)
    assert envs.single_observation_space == gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    envs.close()
    given = gymnasium.spaces.Box(0, 9, (2,), np.uint8)
    envs = SandpoolVecEnv(folder, 2, observation_space=given, **own_pool_server)
    assert_same(envs.reset()[0], np.array([[1, 2], [1, 2]], np.uint8))
    envs.close()
    with pytest.raises(ValueError, match=r"does not fit the pool's observations, which are <f8 \(2,\)"):
        SandpoolVecEnv(folder, 2, observation_space=gymnasium.spaces.Box(0, 9, (3,)), **own_pool_server)

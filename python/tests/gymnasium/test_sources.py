"""Where the environments come from: a registered id with wrappers and code of one's own, functions, and gymnasium.make_vec."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from assert_same import assert_same
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.wrappers import TimeLimit

from conftest import BEFORE_1, FOLDER, Make, sync
from sandpool import EnvironmentFailedError
from sandpool.gymnasium import SandpoolVecEnv, register, vector_entry_point
from sandpool.sources.from_gym import write_gym_environment


def test_arguments_go_to_the_pool_or_to_make_by_their_names(make: Make) -> None:
    envs = make("CartPole-v1", 2, step_timeout=7, max_episode_steps=3, make_kwargs={"sutton_barto_reward": True} if not BEFORE_1 else None)
    assert envs.pool.description["limits"]["step_timeout"] == 7
    assert envs.pool.description["seeds"] == "continue"
    assert envs.pool.description["packing"]["requested"] == "auto"
    envs.reset(seed=0)
    ends = [envs.step([0, 1])[3].tolist() for _ in range(3)]
    assert ends == [[False, False], [False, False], [True, True]]


def test_a_config_for_each_row_goes_to_make(make: Make) -> None:
    envs = make("Walk-v0", 2, config=[{"stride": 5}, {"stride": 7}])
    assert envs.get_attr("stride") == (5, 7)


def test_wrappers_are_applied_inside_in_order(make: Make) -> None:
    wrappers = ["gymnasium.wrappers:FlattenObservation", ("gymnasium.wrappers:RecordEpisodeStatistics", {})]
    envs = make("Walk-v0", 2, wrappers=wrappers)
    assert envs.single_observation_space.shape == gymnasium.spaces.flatten_space(sync("Walk-v0", 1).single_observation_space).shape
    envs.reset(seed=0)
    lengths = []
    for _ in range(40):
        infos = envs.step(envs.action_space.sample())[4]
        if BEFORE_1:
            lengths += [int(info["episode"]["l"][0]) for info in infos.get("final_info", []) if info]
        elif "final_info" in infos:
            episode = infos["final_info"]["episode"]
            lengths += np.asarray(episode["l"])[infos["_final_info"]].tolist()
    assert len(lengths) >= 6
    assert all(1 <= length <= 12 for length in lengths)


@pytest.mark.parametrize("code", ["folder", "file"])
def test_code_of_ones_own_can_be_imported(make: Make, tmp_path: Path, code: str) -> None:
    folder = tmp_path / "my_code"
    folder.mkdir()
    text = (FOLDER / "worlds.py").read_text().replace("worlds:", "my_worlds:")
    (folder / "my_worlds.py").write_text(text)
    envs = make("my_worlds:Walk-v0", 2, code=folder if code == "folder" else folder / "my_worlds.py")
    assert envs.reset(seed=0)[0]["place"].shape == (2, 2)


def test_an_unknown_id_fails_with_what_make_said(make: Make) -> None:
    with pytest.raises(EnvironmentFailedError, match="Environment `Nothing` doesn't exist"):
        make("Nothing-v0")


def test_wrong_wrappers_and_requirements_are_refused_by_name(make: Make) -> None:
    for options, error, message in (
        ({"wrappers": [gymnasium.wrappers.TimeLimit]}, TypeError, "Classes are not sent"),
        ({"wrappers": ["TimeLimit"]}, ValueError, "expected 'module:Class'"),
        ({"wrappers": "gymnasium.wrappers:TimeLimit"}, TypeError, "expected a list"),
        ({"requirements": "gymnasium"}, TypeError, "expected a list"),
        ({"make_kwargs": {"thing": object()}}, TypeError, r"arguments\['make_kwargs'\]\['thing'\] is of type"),
    ):
        with pytest.raises(error, match=message):
            make("CartPole-v1", **options)


def test_requirements_are_the_clients_own_versions_by_default(tmp_path: Path) -> None:
    write_gym_environment(tmp_path, "CartPole-v1", make_kwargs={"bounds": np.array([1.5])})
    major = int(np.__version__.split(".")[0])
    expected = [f"gymnasium=={metadata.version('gymnasium')}", f"numpy>={major},<{major + 1}"]
    assert (tmp_path / "requirements.txt").read_text().splitlines() == expected
    assert json.loads((tmp_path / "sandpool_gym.json").read_text())["make_kwargs"]["bounds"]["$nd"][0] == "<f8"


def test_functions_are_rows(own_server: dict) -> None:
    options = {name: value for name, value in own_server.items() if name != "code"}
    # A class is imported with the functions, before the fork: a row's own /tmp may hide these packages.
    thunks = [lambda length=length: TimeLimit(CartPoleEnv(), length) for length in (2, 3)]
    envs = SandpoolVecEnv.from_fns(thunks, **options)
    envs.reset(seed=0)
    assert [envs.step([0, 1])[3].tolist() for _ in range(3)] == [[False, False], [True, False], [False, True]]
    envs.close()


def test_make_vec_reaches_the_pool(own_server: dict) -> None:
    name = register("CartPole-v1", max_episode_steps=4)
    assert name == "Sandpool/CartPole-v1"
    given = {key: value for key, value in own_server.items() if key != "code"}
    if BEFORE_1:
        envs = gymnasium.make_vec(name, num_envs=2, vectorization_mode="custom", vector_kwargs=given)
    else:
        envs = gymnasium.make_vec(name, num_envs=2, autoreset_mode="NextStep", **given)
        assert envs.metadata["autoreset_mode"] is gymnasium.vector.AutoresetMode.NEXT_STEP
    assert isinstance(envs, SandpoolVecEnv)
    assert envs.spec.id == name
    envs.reset(seed=0)
    assert [envs.step([0, 1])[3].all() for _ in range(4)] == [False, False, False, True]
    envs.close()
    del gymnasium.registry[name]


def test_the_vector_entry_point_is_found_by_its_text(own_server: dict) -> None:
    module, name = ["sandpool.gymnasium", "vector_entry_point"]
    assert getattr(__import__(module, fromlist=[name]), name) is vector_entry_point
    given = {key: value for key, value in own_server.items() if key != "code"}
    envs = vector_entry_point(2, env_id="CartPole-v1", **given)
    theirs = sync("CartPole-v1", 2)
    assert_same(envs.reset(seed=4), theirs.reset(seed=4))
    envs.close()
    theirs.close()


COUNTS = """
import gymnasium
from sandpool.env import serve

class Counts(gymnasium.Wrapper):
    resets = 0
    def reset(self, **kwargs):
        self.resets += 1
        return self.env.reset(**kwargs)

serve(make=lambda config: Counts(gymnasium.make("CartPole-v1")))
"""


def test_no_hidden_reset_comes_before_the_first(make: Make, own_pool_server: dict, tmp_path: Path) -> None:
    (tmp_path / "counting.py").write_text(COUNTS.replace("from sandpool.env import serve", "").split("serve(")[0])
    envs = make("CartPole-v1", 2, code=tmp_path / "counting.py", wrappers=["counting:Counts"])
    envs.reset(seed=0)
    assert envs.get_attr("resets") == (1, 1)
    (tmp_path / "env.py").write_text(COUNTS)
    envs = SandpoolVecEnv(tmp_path, 2, first_reset=False, **own_pool_server)
    envs.reset(seed=0)
    assert envs.get_attr("resets") == (1, 1)
    envs.close()


VECTORISED = """
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from sandpool.env import serve

serve(make_vec=lambda num_envs, config: CartPoleVectorEnv(num_envs))
"""


@pytest.mark.skipif(BEFORE_1, reason="it came with 1.0")
def test_a_vectorised_environment_brings_its_own_mode(own_pool_server: dict, tmp_path: Path) -> None:
    (tmp_path / "env.py").write_text(VECTORISED)
    envs = SandpoolVecEnv(tmp_path, 4, envs_per_process=4, **own_pool_server)
    assert envs.autoreset_mode is gymnasium.vector.AutoresetMode.NEXT_STEP
    theirs = gymnasium.make_vec("CartPole-v1", num_envs=4, vectorization_mode="vector_entry_point")
    assert_same(envs.reset(seed=3), theirs.reset(seed=3))
    for step in range(60):
        actions = np.full(4, step % 3 == 0, np.int64)
        observations, rewards, terminations, truncations, _ = theirs.step(actions)
        # Theirs are float32; a pool's are float64.
        assert_same(envs.step(actions)[:4], (observations, rewards.astype(np.float64), terminations, truncations), f"step {step}")
    envs.close()
    with pytest.raises(Exception, match="CartPoleVectorEnv"):
        SandpoolVecEnv(tmp_path, 4, autoreset_mode="SameStep", **own_pool_server)

"""Gymnasium before 1.0: same-step autoreset, `final_observation` and `final_info` as arrays of each row's own values."""

from __future__ import annotations

from typing import Any

import pytest

np = pytest.importorskip("numpy")
gymnasium = pytest.importorskip("gymnasium")
if not gymnasium.__version__.startswith("0."):
    pytest.skip("needs gymnasium 0.29", allow_module_level=True)

CARTPOLE = """
    from sandpool.env import serve
    import gymnasium
    serve(make_vec=lambda num_envs, config: gymnasium.vector.SyncVectorEnv([
        lambda: gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make("CartPole-v1"))] * num_envs))
"""


def test_the_same_step_of_a_sync_vector_env_is_the_pools(start: Any) -> None:
    program = start(CARTPOLE)
    hello = program.hello(rows=3)
    assert hello["vector"] == {"class": "SyncVectorEnv", "autoreset": "same_step", "partial_reset": False, "row_seeds": False}
    own = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make("CartPole-v1"))] * 3)
    assert program.reset_rows([3, 4, 5])["obs"].tolist() == own.reset(seed=3)[0].tolist()
    finals = 0
    for actions in np.random.default_rng(1).integers(0, 2, (80, 3)):
        observations, rewards, terminated, truncated, infos = own.step(actions)
        reply = program.step_array(actions)
        assert reply["obs"].tolist() == observations.tolist()
        assert (reply["reward"].tolist(), reply["terminated"].tolist()) == (rewards.tolist(), terminated.tolist())
        ended = terminated | truncated
        assert set(reply["infos"]) == {str(row) for row in np.flatnonzero(ended)}
        for row in np.flatnonzero(ended):
            info = reply["infos"][str(row)]
            assert info.keys() == {"final_obs", "final_info"}
            assert info["final_obs"].tolist() == infos["final_observation"][row].tolist()
            episode, expected = info["final_info"]["episode"], infos["final_info"][row]["episode"]
            assert (episode["r"].tolist(), episode["l"].tolist()) == (expected["r"].tolist(), expected["l"].tolist())
            finals += 1
    assert finals > 3

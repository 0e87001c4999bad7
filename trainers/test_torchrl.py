"""TorchRL's own wrapper takes a pool as any other vector environment."""

from __future__ import annotations

import gymnasium
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from tensordict import TensorDictBase
from torchrl.envs import GymWrapper

from sandpool.gymnasium import SandpoolVecEnv

ROWS = 3
STEPS = 1000


def rollout(envs: VectorEnv) -> TensorDictBase:
    """Make STEPS steps of random actions with a fixed seed."""
    torch.manual_seed(4)
    wrapped = GymWrapper(envs, device="cpu")
    try:
        wrapped.set_seed(9)
        return wrapped.rollout(STEPS, break_when_any_done=False)
    finally:
        wrapped.close()


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.DISABLED])
def test_a_rollout_is_that_of_sync_vector_env(mode: AutoresetMode) -> None:
    reference = rollout(SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * ROWS, autoreset_mode=mode))
    pooled = rollout(SandpoolVecEnv.from_gym("CartPole-v1", n=ROWS, autoreset_mode=mode, progress=False))
    assert pooled.batch_size == (ROWS, STEPS)
    assert int(reference["next", "done"].sum()) > 50
    for key in ("observation", "action", ("next", "observation"), ("next", "reward"), ("next", "done"), ("next", "terminated")):
        assert torch.equal(pooled[key], reference[key]), key

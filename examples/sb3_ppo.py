"""Stable-Baselines3's PPO through a pool. Needs stable-baselines3.

sandpool up &
python examples/sb3_ppo.py
"""

from __future__ import annotations

import argparse

from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy

from sandpool.sb3 import SB3VecEnv


def main() -> None:
    parser = argparse.ArgumentParser(description="SB3's PPO through a pool")
    parser.add_argument("--steps", type=int, default=50_000, help="environment steps")
    options = parser.parse_args()
    # In place of make_vec_env("CartPole-v1", 8, vec_env_cls=SubprocVecEnv); the episodes' statistics are made inside the sandbox.
    with_statistics = SB3VecEnv.from_gym("CartPole-v1", n=8, monitor=True)
    model = PPO("MlpPolicy", with_statistics, seed=1, n_steps=256, device="cpu", verbose=1)
    model.learn(options.steps)
    mean, spread = evaluate_policy(model, with_statistics, n_eval_episodes=20)
    print(f"mean return of 20 episodes: {mean:.1f} +- {spread:.1f}")
    with_statistics.close()


if __name__ == "__main__":
    main()

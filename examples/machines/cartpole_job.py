"""The job of train_in_a_sandbox.py: the cross-entropy method (Rubinstein, 1999) on CartPole-v1, with Gymnasium and NumPy alone.

The policy is a line through the observation: push right when w·obs > 0. Each generation draws candidates for w, lets each play one
episode, and moves the distribution towards the best. Progress goes to standard output, a JSON object a line.
"""

import argparse
import json
from pathlib import Path

import gymnasium
import numpy as np

CANDIDATES = 24
ELITE = 5
TEST_EPISODES = 10


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--generations", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--result", type=Path, required=True)
    options = parser.parse_args()
    environment = gymnasium.make("CartPole-v1")
    generator = np.random.default_rng(options.seed)
    mean, deviation, steps = np.zeros(4), np.ones(4), 0
    for generation in range(1, options.generations + 1):
        candidates = mean + deviation * generator.standard_normal((CANDIDATES, 4))
        returns = np.array([play(environment, weights, seed=int(generator.integers(2**31))) for weights in candidates])
        elite = candidates[np.argsort(returns)[-ELITE:]]
        mean, deviation = elite.mean(axis=0), elite.std(axis=0) + 0.1 / generation
        steps += int(returns.sum())
        print(json.dumps({"generation": generation, "mean_return": returns.mean(), "steps": steps}), flush=True)
    tested = [play(environment, mean, seed=episode) for episode in range(TEST_EPISODES)]
    options.result.mkdir(parents=True)
    policy = {"weights": mean.tolist(), "mean_return": float(np.mean(tested)), "episodes": TEST_EPISODES}
    (options.result / "policy.json").write_text(json.dumps(policy))


def play(environment: gymnasium.Env, weights: np.ndarray, seed: int) -> float:
    observation, _ = environment.reset(seed=seed)
    total = 0.0
    while True:
        observation, reward, terminated, truncated, _ = environment.step(int(weights @ observation > 0))
        total += float(reward)
        if terminated or truncated:
            return total


if __name__ == "__main__":
    main()

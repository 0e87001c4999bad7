"""PPO on CartPole through a pool, one file to read top to bottom. Needs torch and gymnasium.

    sandpool up &
    python examples/ppo.py --total-steps 100000

The line that makes the environments is the only one that knows of Sandpool; with SyncVectorEnv in its place the file runs the same.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from torch import nn

from sandpool.gymnasium import SandpoolVecEnv


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="PPO through a pool")
    parser.add_argument("--env", default="CartPole-v1", help="a registered id with a Box observation and Discrete actions")
    parser.add_argument("--envs", type=int, default=16, help="environments")
    parser.add_argument("--steps", type=int, default=128, help="steps of each environment between updates")
    parser.add_argument("--total-steps", type=int, default=100_000, help="environment steps in all")
    parser.add_argument("--epochs", type=int, default=4, help="passes over each rollout")
    parser.add_argument("--minibatches", type=int, default=4, help="parts of a pass")
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--gamma", type=float, default=0.99, help="discount")
    parser.add_argument("--lambda", dest="gae_lambda", type=float, default=0.95, help="of generalised advantage estimation")
    parser.add_argument("--clip", type=float, default=0.2, help="how far an update may move the policy's ratio")
    parser.add_argument("--entropy", type=float, default=0.01, help="weight of the entropy bonus")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


class ActorCritic(nn.Module):
    """Two small networks."""

    def __init__(self, observations: int, actions: int) -> None:
        super().__init__()
        self.actor = network(observations, actions, 0.01)
        self.critic = network(observations, 1, 1.0)

    def policy(self, observation: torch.Tensor) -> torch.distributions.Categorical:
        return torch.distributions.Categorical(logits=self.actor(observation))

    def value(self, observation: torch.Tensor) -> torch.Tensor:
        return self.critic(observation).squeeze(-1)


def network(inputs: int, outputs: int, last_gain: float) -> nn.Sequential:
    layers = [nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs)]
    for layer in layers:
        if isinstance(layer, nn.Linear):
            nn.init.orthogonal_(layer.weight, last_gain if layer is layers[-1] else np.sqrt(2))
            nn.init.zeros_(layer.bias)
    return nn.Sequential(*layers)


def main() -> None:
    options = parse()
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)

    # The one line. Without it: gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make(...)] * n, autoreset_mode=SAME_STEP).
    envs = SandpoolVecEnv.from_gym(options.env, n=options.envs)

    agent = ActorCritic(envs.single_observation_space.shape[0], int(envs.single_action_space.n))
    optimizer = torch.optim.Adam(agent.parameters(), lr=options.learning_rate, eps=1e-5)
    observation = tensor(envs.reset(seed=options.seed)[0])
    returns, recent = np.zeros(options.envs), []
    began, updates = time.perf_counter(), options.total_steps // (options.envs * options.steps)
    for update in range(1, updates + 1):
        rollout = {name: [] for name in ("observation", "action", "log_probability", "value", "reward", "done")}
        for _ in range(options.steps):
            with torch.no_grad():
                policy = agent.policy(observation)
                action = policy.sample()
                value = agent.value(observation)
            following, reward, terminated, truncated, infos = envs.step(action.numpy())
            returns += reward
            done = terminated | truncated
            recent += returns[done].tolist()
            returns[done] = 0
            reward = with_bootstrap(agent, reward, truncated & ~terminated, infos, options.gamma)
            step = (observation, action, policy.log_prob(action), value, tensor(reward), tensor(done))
            for name, part in zip(rollout, step, strict=True):
                rollout[name].append(part)
            observation = tensor(following)
        learn(agent, optimizer, {name: torch.stack(parts) for name, parts in rollout.items()}, observation, options)
        steps = update * options.envs * options.steps
        speed = steps / (time.perf_counter() - began)
        print(f"steps {steps:>8,}   mean return of the last 20 episodes {np.mean(recent[-20:] or [0]):6.1f}   {speed:,.0f} steps/s")
    envs.close()


def tensor(array: np.ndarray) -> torch.Tensor:
    return torch.as_tensor(array, dtype=torch.float32)


def with_bootstrap(agent: ActorCritic, reward: np.ndarray, truncated: np.ndarray, infos: dict, gamma: float) -> np.ndarray:
    """An episode that was only cut off goes on in theory: its last observation's value stands for what is missing."""
    if not truncated.any():
        return reward
    last = tensor(np.stack([infos["final_obs"][row] for row in np.flatnonzero(truncated)]))
    with torch.no_grad():
        reward[truncated] += gamma * agent.value(last).numpy()
    return reward


def learn(agent: ActorCritic, optimizer: torch.optim.Optimizer, rollout: dict, last: torch.Tensor, options: argparse.Namespace) -> None:
    """Generalised advantage estimation (arXiv:1506.02438), then the clipped surrogate objective (arXiv:1707.06347)."""
    with torch.no_grad():
        value, advantage = agent.value(last), torch.zeros(options.envs)
        advantages = torch.zeros_like(rollout["reward"])
        for step in reversed(range(options.steps)):
            going = 1 - rollout["done"][step]
            error = rollout["reward"][step] + options.gamma * value * going - rollout["value"][step]
            advantage = error + options.gamma * options.gae_lambda * going * advantage
            advantages[step], value = advantage, rollout["value"][step]
        targets = advantages + rollout["value"]
    flat = {name: parts.flatten(0, 1) for name, parts in rollout.items()}
    advantages, targets = advantages.flatten(), targets.flatten()
    for _ in range(options.epochs):
        for rows in torch.randperm(len(targets)).chunk(options.minibatches):
            policy = agent.policy(flat["observation"][rows])
            ratio = (policy.log_prob(flat["action"][rows]) - flat["log_probability"][rows]).exp()
            chosen = advantages[rows]
            chosen = (chosen - chosen.mean()) / (chosen.std() + 1e-8)
            gain = torch.min(ratio * chosen, ratio.clamp(1 - options.clip, 1 + options.clip) * chosen).mean()
            value_error = (agent.value(flat["observation"][rows]) - targets[rows]).pow(2).mean()
            loss = -gain + 0.5 * value_error - options.entropy * policy.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()


if __name__ == "__main__":
    main()

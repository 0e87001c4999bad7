"""Solves CartPole with 256 isolated environments and a policy search of thirty lines.

    .venv/bin/python examples/quickstart.py          (needs a server: bin/sandpool up)

The policy is a line through the observation: push right when w·obs > 0. The cross-entropy method (Rubinstein, 1999)
draws one candidate w for each environment, lets each play one episode, and moves the distribution towards the best.
"""

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.panel import Panel
from rich.table import Table

from sandpool import RLPool


@dataclass(frozen=True)
class Settings:
    environments: int = 256
    elite_share: float = 0.15
    generations: int = 12
    enough_return: float = 400.0  # mean of a generation at which its centre is tried on fresh episodes
    solved_return: float = 475.0  # Gymnasium's reward_threshold of CartPole-v1
    seed: int = 1


def main(settings: Settings) -> None:
    console = Console()
    environment = Path(__file__).parent / "cartpole"
    began = time.perf_counter()
    with RLPool(environment, settings.environments, seed=settings.seed) as pool:
        start_seconds = time.perf_counter() - began
        console.print(f"{pool.n} CartPole environments, each a process of its own in a sandbox, ready in {start_seconds:.1f} s\n")
        search_began = time.perf_counter()
        curve, env_steps = search(pool, settings, console)
        seconds = time.perf_counter() - search_began
        report(console, pool, curve, env_steps, seconds)


def search(pool: RLPool, settings: Settings, console: Console) -> tuple[list[float], int]:
    generator = np.random.default_rng(settings.seed)
    mean, deviation = np.zeros(4), np.ones(4)
    curve: list[float] = []
    total_steps = 0
    began = time.perf_counter()
    with Live(console=console, refresh_per_second=8) as live:
        for generation in range(settings.generations):
            candidates = mean + deviation * generator.standard_normal((settings.environments, 4))

            def show(alive: int, steps: int, number: int = generation + 1, before: int = total_steps) -> None:
                rate = (before + steps) / (time.perf_counter() - began)
                caption = f"generation {number}: {alive} of {settings.environments} still balance, {rate:,.0f} env steps/s"
                live.update(picture(curve, caption))

            returns, steps = play_episodes(pool, candidates, show)
            total_steps += steps
            elite = candidates[np.argsort(returns)[-int(settings.elite_share * settings.environments) :]]
            mean, deviation = elite.mean(axis=0), elite.std(axis=0) + 0.01
            curve.append(float(returns.mean()))
            live.update(picture(curve, f"generation {generation + 1}: mean return {curve[-1]:.1f}"))
            if curve[-1] >= settings.enough_return:
                break
    console.print(f"\nThe found policy, {pool.n} fresh episodes:", end=" ")
    returns, steps = play_episodes(pool, np.tile(mean, (settings.environments, 1)), lambda alive, steps: None)
    verdict = "solved" if returns.mean() >= settings.solved_return else "not solved"
    console.print(f"mean return {returns.mean():.1f}, worst {returns.min():.0f}")
    console.print(f"[bold]{verdict}[/bold]: the threshold is a mean of {settings.solved_return:.0f}")
    return curve, total_steps + steps


def play_episodes(pool: RLPool, weights: np.ndarray, show) -> tuple[np.ndarray, int]:
    """One episode a row, all rows at once; only the rows still playing are stepped."""
    observations = pool.reset()
    returns, alive, steps = np.zeros(pool.n), np.ones(pool.n, dtype=bool), 0
    while alive.any():
        actions = ((observations * weights).sum(axis=1) > 0).astype(np.int64)
        observations, rewards, dones, _ = pool.step(actions, where=alive)
        returns += rewards
        steps += int(alive.sum())
        alive &= ~dones
        show(int(alive.sum()), steps)
    return returns, steps


def picture(curve: list[float], caption: str, height: int = 10) -> Panel:
    """The learning curve as bars, eighths of a character exact."""
    blocks = " ▁▂▃▄▅▆▇█"
    lines = []
    for level in reversed(range(height)):
        bars = ""
        for value in curve:
            eighths = int(np.clip(value / 500 * height * 8 - level * 8, 0, 8))
            bars += blocks[eighths] * 4 + " "
        label = f"{int(500 * (level + 1) / height):>4} ┤" if level % 3 == 0 else "     │"
        lines.append(label + bars)
    lines.append("   0 ┼" + "".join(f"{number + 1:^4} " for number in range(len(curve))))
    return Panel("\n".join(lines), title="mean return by generation", subtitle=caption, title_align="left", subtitle_align="left")


def report(console: Console, pool: RLPool, curve: list[float], env_steps: int, seconds: float) -> None:
    timing = pool.timing.summary()
    rows = pool.status(memory=True)["rows"]
    table = Table(show_header=False, box=None, padding=(0, 2))
    table.add_row("environment steps", f"{env_steps:,} in {seconds:.1f} s: {env_steps / seconds:,.0f} a second")
    table.add_row("one batch", "p50 {p50:.2f} ms, p99 {p99:.2f} ms round trip".format(**timing["roundtrip_ms"]))
    table.add_row("", "p50 {p50:.2f} ms, p99 {p99:.2f} ms in the worker".format(**timing["worker_ms"]))
    table.add_row("stragglers", str(pool.timing.stragglers_total))
    table.add_row("memory", f"{sum(row['pss_bytes'] for row in rows) / len(rows) / 1e6:.1f} MB (PSS) an environment")
    console.print()
    console.print(table)


if __name__ == "__main__":
    main(Settings())

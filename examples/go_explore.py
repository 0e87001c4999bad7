"""Go-explore in a maze where nearly every wrong move is the last one, against the same steps without going back.

    sandpool up &
    python examples/go_explore.py

Each place that is met for the first time is saved; exploring starts again and again from saved places, the least explored ones first
(Ecoffet et al., "First return, then explore", Nature 590, 2021). Both halves walk alike and have the same budget of environment steps.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sandpool import RLPool

FOLDER = Path(__file__).parent / "maze"
START = (1, 1)
Cell = tuple[int, int]


class Walk:
    """Walks on in one direction, turns now and then, and whenever it is stuck."""

    def __init__(self, rows: int, seed: int) -> None:
        self.luck = np.random.default_rng(seed)
        self.direction = self.luck.integers(0, 4, rows)
        self.before = np.full((rows, 2), -1)

    def actions(self, places: np.ndarray) -> np.ndarray:
        turn = (self.luck.random(len(places)) < 0.3) | (places == self.before).all(axis=1)
        self.direction = np.where(turn, self.luck.integers(0, 4, len(places)), self.direction)
        self.before = places
        return self.direction


@dataclass
class Findings:
    """What a search met: cells, and after how many environment steps the exit."""

    cells: set[Cell] = field(default_factory=lambda: {START})
    steps: int = 0
    exit_after: int | None = None

    def note(self, places: np.ndarray, rewards: np.ndarray, alive: np.ndarray) -> None:
        self.steps += int(alive.sum())
        self.cells.update(cell_of(place) for place in places[alive])
        if self.exit_after is None and rewards.any():
            self.exit_after = self.steps


def cell_of(place: np.ndarray) -> Cell:
    return int(place[0]), int(place[1])


def without_restore(pool: RLPool, budget: int, seed: int) -> Findings:
    """Walk until the lava, reset, walk again."""
    findings, walk = Findings(), Walk(pool.n, seed)
    places, everyone = pool.reset(seed=seed), np.ones(pool.n, bool)
    while findings.steps < budget:
        places, rewards, dones, _ = pool.step(walk.actions(places))
        findings.note(places, rewards, everyone)
        if dones.any():
            places = pool.reset(where=dones)
    return findings


def with_restore(pool: RLPool, budget: int, seed: int, round_steps: int = 12) -> Findings:
    """Restore a saved place in each row, walk a few steps, save what is new."""
    findings, luck = Findings(), np.random.default_rng(seed)
    pool.reset(seed=seed)
    archive: dict[Cell, Any] = {START: pool.save(where=[0])[0]}
    visits: dict[Cell, int] = {START: 0}
    while findings.steps < budget:
        cells = list(archive)
        rarely = np.array([1 / np.sqrt(visits[cell] + 1) for cell in cells])
        chosen = [cells[number] for number in luck.choice(len(cells), pool.n, p=rarely / rarely.sum())]
        for cell in chosen:
            visits[cell] += 1
        # Without reseed=True every return to a cell would meet the same slips of the floor again.
        places = pool.restore([archive[cell] for cell in chosen], where=range(pool.n), reseed=True)
        walk, alive = Walk(pool.n, int(luck.integers(2**31))), np.ones(pool.n, bool)
        for _ in range(round_steps):
            if not alive.any():
                break
            places, rewards, dones, _ = pool.step(walk.actions(places)[alive], where=alive)
            findings.note(places, rewards, alive)
            alive &= ~dones
            save_new(pool, places, alive, archive, visits)
    pool.drop(list(archive.values()))
    return findings


def save_new(pool: RLPool, places: np.ndarray, alive: np.ndarray, archive: dict[Cell, Any], visits: dict[Cell, int]) -> None:
    """Save one row of each cell that is not in the archive; a row that ended in lava leads nowhere."""
    rows: dict[Cell, int] = {}
    for row in np.flatnonzero(alive):
        cell = cell_of(places[row])
        if cell not in archive:
            rows.setdefault(cell, int(row))
    if rows:
        by_row = sorted(rows, key=rows.__getitem__)
        for cell, state in zip(by_row, pool.save(where=sorted(rows.values())), strict=True):
            archive[cell], visits[cell] = state, 0


def main() -> None:
    parser = argparse.ArgumentParser(description="Go-explore in a maze")
    parser.add_argument("--envs", type=int, default=32, help="environments")
    parser.add_argument("--budget", type=int, default=30_000, help="environment steps of each half")
    parser.add_argument("--size", type=int, default=10, help="rooms along a side")
    parser.add_argument("--maze", type=int, default=4, help="number of the maze")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with RLPool(FOLDER, options.envs, config={"size": options.size, "maze": options.maze}, seed=0) as pool:
        picture = pool.call("picture", where=[0])[0]
        for name, search in (("without restore", without_restore), ("go-explore", with_restore)):
            began = time.monotonic()
            show(name, search(pool, options.budget, options.seed), picture, time.monotonic() - began)


def show(name: str, findings: Findings, picture: list[str], seconds: float) -> None:
    """Draw what was found of the maze, and say how much that is."""
    for y, line in enumerate(picture):
        drawn = ["." if (x, y) in findings.cells and what == " " else what for x, what in enumerate(line)]
        print("  " + "".join(drawn))
    floor = {(x, y) for y, line in enumerate(picture) for x, what in enumerate(line) if what in " E"}
    share, exit_found = len(findings.cells & floor) / len(floor), f"after {findings.exit_after:,} steps" if findings.exit_after else "no"
    print(f"{name}: {share:.0%} of {len(floor)} places in {findings.steps:,} steps and {seconds:.0f} s; exit found: {exit_found}\n")


if __name__ == "__main__":
    main()

"""Monte-Carlo tree search in Sokoban: every node of the tree is a saved state of a live environment, and expanding it is a restore.

    sandpool up &
    python examples/tree_search.py

Nothing is asked of the environment but reset and step: the search knows no rule of the game and has no model of it. Four rows expand a
leaf, one an action, then play on at random (Kocsis and Szepesvari, "Bandit based Monte-Carlo planning", 2006).
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sandpool import RLPool

FOLDER = Path(__file__).parent / "sokoban"
ACTIONS = 4
NAMES = "URDL"


@dataclass(eq=False)
class Node:
    """A board that the search met. `value` is the mean return from here on of what was played below it."""

    board: str
    state: Any
    parent: Node | None = None
    action: int = -1
    reward: float = 0.0
    visits: int = 0
    value: float = 0.0
    expanded: bool = False
    children: list[Node] = field(default_factory=list)

    def path(self) -> list[int]:
        return [] if self.parent is None else [*self.parent.path(), self.action]


@dataclass
class Search:
    """A tree, its pool, and what the search has cost so far."""

    pool: RLPool
    luck: np.random.Generator
    exploration: float
    rollout_steps: int
    root: Node
    boards: set[str]
    steps: int = 0
    replayed_steps: int = 0
    solution: list[int] | None = None

    @classmethod
    def begin(cls, pool: RLPool, seed: int, exploration: float, rollout_steps: int) -> Search:
        board = pool.reset()[0]
        root = Node(board, pool.save(where=[0])[0])
        return cls(pool, np.random.default_rng(seed), exploration, rollout_steps, root, {board})

    def iterate(self) -> None:
        """Expand as many leaves as the pool has rows for, all in one restore, one step and one save."""
        leaves: list[Node] = []
        while len(leaves) < self.pool.n // ACTIONS and (leaf := self.choose_leaf()):
            leaf.expanded = True  # so that the next choice is another one
            leaves.append(leaf)
        if not leaves:
            raise RuntimeError("every board that can be reached was searched, and none is solved")
        rows = np.arange(len(leaves) * ACTIONS)
        actions = rows % ACTIONS
        self.pool.restore([leaves[row // ACTIONS].state for row in rows], where=rows)
        boards, rewards, dones, _ = result = self.pool.step(actions, where=rows)
        self.steps += len(rows)
        self.replayed_steps += sum(len(leaves[row // ACTIONS].path()) + 1 for row in rows)
        if result.terminated.any():
            row = int(result.terminated.argmax())
            self.solution = [*leaves[row // ACTIONS].path(), row % ACTIONS]
            return
        self.grow(leaves, boards, rewards, dones)
        self.pool.drop([leaf.state for leaf in leaves])  # a node that has its children is never restored again

    def choose_leaf(self) -> Node | None:
        """Go down from the root by UCT to a node that was not expanded yet."""
        node = self.root
        while node.expanded:
            open_children = [child for child in node.children if not is_closed(child)]
            if not open_children:
                return None
            node = max(open_children, key=self.bound)
        for above in ancestors(node):
            above.visits += 1
        return node

    def bound(self, node: Node) -> float:
        assert node.parent is not None
        return node.reward + node.value + self.exploration * math.sqrt(math.log(node.parent.visits + 1) / (node.visits + 1))

    def grow(self, leaves: list[Node], boards: list[str], rewards: np.ndarray, dones: np.ndarray) -> None:
        """Add the boards nobody met before as nodes, play on from each at random, and report the returns upwards."""
        new: dict[int, Node] = {}
        for row in range(len(leaves) * ACTIONS):
            if not dones[row] and boards[row] not in self.boards:
                self.boards.add(boards[row])
                new[row] = Node(boards[row], None, leaves[row // ACTIONS], row % ACTIONS, float(rewards[row]))
        if not new:
            return
        for (row, node), state in zip(new.items(), self.pool.save(where=list(new)), strict=True):
            node.state = state
            leaves[row // ACTIONS].children.append(node)
        for node, value in zip(new.values(), self.play_on(list(new)), strict=True):
            report(node, value)

    def play_on(self, rows: list[int]) -> np.ndarray:
        """The return of each row under random actions."""
        returns, alive = np.zeros(self.pool.n), np.zeros(self.pool.n, bool)
        alive[rows] = True
        for _ in range(self.rollout_steps):
            if not alive.any():
                break
            result = self.pool.step(self.luck.integers(0, ACTIONS, int(alive.sum())), where=alive)
            self.steps += int(alive.sum())
            returns += result.rewards
            alive &= ~result.dones
        return returns[rows]


def is_closed(node: Node) -> bool:
    """Whether nothing below is left to expand."""
    return node.expanded and all(is_closed(child) for child in node.children)


def ancestors(node: Node) -> list[Node]:
    """The node and all above it."""
    return [node, *([] if node.parent is None else ancestors(node.parent))]


def report(node: Node, value: float) -> None:
    """Let the best return below count for a node: in a puzzle for one player the search may choose it."""
    node.value = value
    for above in ancestors(node)[1:]:
        above.value = max(child.reward + child.value for child in above.children)


def main() -> None:
    parser = argparse.ArgumentParser(description="Monte-Carlo tree search in Sokoban")
    parser.add_argument("--envs", type=int, default=16, help="environments, four for each leaf that is expanded at once")
    parser.add_argument("--level", type=int, default=1, help="0 is easy")
    parser.add_argument("--exploration", type=float, default=2.0)
    parser.add_argument("--rollout-steps", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    began = time.monotonic()
    with RLPool(FOLDER, options.envs, config={"level": options.level}) as pool:
        search = Search.begin(pool, options.seed, options.exploration, options.rollout_steps)
        print(search.root.board)
        while search.solution is None:
            search.iterate()
        seconds = time.monotonic() - began
        print(f"\nsolved in {len(search.solution)} moves: {''.join(NAMES[action] for action in search.solution)}")
        pool.reset()
        for action in search.solution:
            boards, _, dones, _ = pool.step([action], where=[0])
        print(f"{boards[0]}\n\nplayed from the start: {'solved' if dones[0] else 'not solved'}")
        print(f"{len(search.boards)} boards, {search.steps:,} steps in {seconds:.1f} s; without restore {search.replayed_steps:,} more")


if __name__ == "__main__":
    main()

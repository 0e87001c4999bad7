"""Random operations on a pool, each noted in the histories that are replayed afterwards."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from typing import Any

from branching.histories import Comparable, Histories, Moment, assert_same, plain, seen_in_reset, seen_in_step
from sandpool import RLPool

STATES_MAX = 6


class Rehearsal:
    """A pool whose rows' histories are known, and the calls that change both.

    `draw_action(random)` makes an action; `comparable(seen)` leaves out what differs between equal runs.
    """

    def __init__(self, pool: RLPool, seed: int, draw_action: Callable[[random.Random], Any], comparable: Comparable = lambda v: v) -> None:
        self.pool = pool
        self.random = random.Random(seed)
        self.draw_action = draw_action
        self.comparable = comparable
        self.histories = Histories()
        self.states: list[tuple[Any, Moment]] = []
        self.resets = [1 if pool.initial_obs is not None else 0] * pool.n
        self.log: list[str] = []
        obs = pool.reset(seed=list(range(100, 100 + pool.n)), hard=True)
        self._count(range(pool.n))
        self.rows = [self.histories.add(None, ("new", 100 + row), seen_in_reset(pool, obs, row)) for row in range(pool.n)]

    def run(self, operations: int) -> None:
        names = ["step"] * 8 + ["fork"] * 4 + ["save"] * 3 + ["restore"] * 4 + ["reset"] * 2 + ["hard_reset", "drop"]
        for _ in range(operations):
            getattr(self, self.random.choice(names))()

    # Operations. Without arguments they are random.

    def step(self, rows: Sequence[int] | None = None, actions: Sequence[Any] | None = None) -> None:
        rows = sorted(self._some_rows() if rows is None else rows)
        actions = [self.draw_action(self.random) for _ in rows] if actions is None else actions
        self.log.append(f"step {rows} {actions}")
        result = self.pool.step(actions, where=rows)
        assert result.errors == {}
        for row, action in zip(rows, actions, strict=True):
            self._note_step(row, action, seen_in_step(result, row))

    def reset(self, rows: Sequence[int] | None = None, hard: bool = False) -> None:
        rows = sorted(self._some_rows() if rows is None else rows)
        continues = self.pool.description["seeds"] == "continue"
        # A new process is seeded whatever the pool's rule; here always by a seed of ours.
        seeds = {row: self.random.randrange(1000) if hard or self.random.random() < 0.3 else None for row in rows}
        self.log.append(f"reset {seeds} hard={hard}")
        obs = self.pool.reset(seed=[seeds.get(row) for row in range(self.pool.n)], where=rows, hard=hard)
        for row, seed in seeds.items():
            told = seed if seed is not None or continues else self._derived(row)
            before = None if hard else self.rows[row]
            self.rows[row] = self.histories.add(before, ("new" if hard else "reset", told), seen_in_reset(self.pool, obs, row))
        self._count(rows)

    def hard_reset(self) -> None:
        self.reset(hard=True)

    def fork(self, pairs: Sequence[tuple[int, int]] | None = None) -> None:
        if pairs is None:
            pairs = [(self.random.randrange(self.pool.n), target) for target in self._some_rows()]
        self.log.append(f"fork {pairs}")
        sources = [self.rows[source] for source, _ in pairs]
        obs = self.pool.fork([source for source, _ in pairs], [target for _, target in pairs])
        self._take_copies(obs, [target for _, target in pairs], sources)

    def save(self, rows: Sequence[int] | None = None) -> None:
        rows = sorted(self._some_rows() if rows is None else rows)
        self.log.append(f"save {rows}")
        for row, state in zip(rows, self.pool.save(where=rows), strict=True):
            moment = self.rows[row]
            steps = len(moment.path()) - 1 - moment.path().index(moment.last_reset())
            way = "fork" if self.pool.description["packing"]["rows_per_process"] == 1 else "state"
            assert (state.row, state.step, state.pending, state.way) == (row, steps, moment.is_end, way), self.log[-1]
            self.states.append((state, moment))
        if len(self.states) > STATES_MAX:
            self.drop(len(self.states) - STATES_MAX)

    def restore(self, pairs: Sequence[tuple[int, int]] | None = None) -> None:
        """Pairs are of a number in `states` and a row."""
        if not self.states:
            return
        if pairs is None:
            pairs = [(self.random.randrange(len(self.states)), target) for target in self._some_rows()]
        chosen = [self.states[number] for number, _ in pairs]
        targets = [target for _, target in pairs]
        self.log.append(f"restore {[state.id for state, _ in chosen]} {targets}")
        obs = self.pool.restore([state for state, _ in chosen], where=targets)
        self._take_copies(obs, targets, [moment for _, moment in chosen])

    def drop(self, count: int = 1) -> None:
        self.random.shuffle(self.states)
        dropped, self.states = self.states[:count], self.states[count:]
        self.log.append(f"drop {[state.id for state, _ in dropped]}")
        self.pool.drop([state for state, _ in dropped])

    def verify(self, replayed: RLPool) -> int:
        """Replay everything in another pool of the same environment and the same `seeds`, without autoreset."""
        return self.histories.verify(replayed, self.comparable)

    def __repr__(self) -> str:
        return "\n".join(self.log)

    def _note_step(self, row: int, action: Any, seen: dict[str, Any]) -> None:
        before, mode = self.rows[row], self.pool.description["autoreset"]
        if mode == "next_step" and before.is_end:
            assert (seen.pop("reward"), seen.pop("terminated"), seen.pop("truncated")) == (0, False, False)
            self.rows[row] = self.histories.add(before, ("reset", self._next_seed(row)), seen)
        elif mode == "same_step" and (seen["terminated"] or seen["truncated"]):
            last = {"obs": seen["info"].pop("final_obs"), "info": seen["info"].pop("final_info")}
            ended = self.histories.add(before, ("step", action), {**seen, **last})
            self.rows[row] = self.histories.add(ended, ("reset", self._next_seed(row)), {"obs": seen["obs"], "info": seen["info"]})
        else:
            self.rows[row] = self.histories.add(before, ("step", action), seen)

    def _take_copies(self, obs: Any, targets: Sequence[int], sources: Sequence[Moment]) -> None:
        """The targets are now what their sources were: last observation, info of the last reset, and all that follows."""
        assert dict(self.pool.errors) == {}
        for target, source in zip(targets, sources, strict=True):
            self.rows[target] = source
        for row, moment in enumerate(self.rows):
            self._compare({"obs": plain(obs[row])}, {"obs": moment.seen["obs"]}, moment)
        for target in targets:
            moment = self.rows[target]
            self._compare({"info": plain(self.pool.reset_infos[target])}, {"info": moment.last_reset().seen["info"]}, moment)

    def _compare(self, received: dict[str, Any], expected: dict[str, Any], moment: Moment) -> None:
        assert_same(self.comparable(received), self.comparable(expected), moment)

    def _some_rows(self) -> list[int]:
        return self.random.sample(range(self.pool.n), self.random.randint(1, max(1, self.pool.n // 2)))

    def _count(self, rows: Sequence[int]) -> None:
        for row in rows:
            self.resets[row] += 1

    def _next_seed(self, row: int) -> int | None:
        """The seed of an autoreset of the row."""
        seed = None if self.pool.description["seeds"] == "continue" else self._derived(row)
        self._count([row])
        return seed

    def _derived(self, row: int) -> int:
        """The rule of docs/pools.md, section Seeds."""
        text = f"sandpool-seed/1:{self.pool.description['seed']}:{row}:{self.resets[row]}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1

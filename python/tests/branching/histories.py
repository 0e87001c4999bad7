"""The model that branching is held against: what each row has been through, replayed from scratch in another pool."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sandpool import RLPool

Comparable = Callable[[Any], Any]


@dataclass(eq=False)
class Moment:
    """One call that a process answered, and the moment before it.

    `call` is ("new", seed) for a hard reset, ("reset", seed) or ("step", action); `seen` what it answered.
    """

    before: Moment | None
    call: tuple[str, Any]
    seen: dict[str, Any]

    def path(self) -> list[Moment]:
        """Every moment from the new process to this one."""
        moments: list[Moment] = []
        moment: Moment | None = self
        while moment is not None:
            moments.append(moment)
            moment = moment.before
        return moments[::-1]

    def last_reset(self) -> Moment:
        return next(moment for moment in reversed(self.path()) if moment.call[0] != "step")

    @property
    def is_end(self) -> bool:
        return bool(self.seen.get("terminated") or self.seen.get("truncated"))


@dataclass
class Histories:
    """Every moment of a pool's rows, in a tree for each new process."""

    moments: list[Moment] = field(default_factory=list)

    def add(self, before: Moment | None, call: tuple[str, Any], seen: dict[str, Any]) -> Moment:
        moment = Moment(before, call, seen)
        self.moments.append(moment)
        return moment

    def ends(self) -> list[Moment]:
        """The moments that nothing followed."""
        followed = {id(moment.before) for moment in self.moments}
        return [moment for moment in self.moments if id(moment) not in followed]

    def verify(self, pool: RLPool, comparable: Comparable = lambda value: value) -> int:
        """Replay every path from scratch in the rows of `pool`, compare every answer on the way, and return how many were compared."""
        compared = 0
        paths = sorted((end.path() for end in self.ends()), key=len)
        for group in _groups(paths, pool.n):
            for tick in range(max(len(path) for path in group)):
                now = {row: path[tick] for row, path in enumerate(group) if tick < len(path)}
                for row, seen in _replay(pool, now).items():
                    expected, received = comparable(seen), comparable(now[row].seen)
                    assert_same(received, expected, now[row])
                    compared += 1
        return compared


def _groups(paths: list[list[Moment]], size: int) -> Iterator[Sequence[list[Moment]]]:
    yield from (paths[start : start + size] for start in range(0, len(paths), size))


def _replay(pool: RLPool, now: dict[int, Moment]) -> dict[int, dict[str, Any]]:
    """Make the calls of these moments, one a row, and return what the rows answered."""
    seen: dict[int, dict[str, Any]] = {}
    for kind in ("new", "reset"):
        rows = [row for row, moment in now.items() if moment.call[0] == kind]
        if rows:
            seeds = [now[row].call[1] if row in rows else None for row in range(pool.n)]
            obs = pool.reset(seed=seeds, where=rows, hard=kind == "new")
            seen |= {row: seen_in_reset(pool, obs, row) for row in rows}
    rows = [row for row, moment in now.items() if moment.call[0] == "step"]
    if rows:
        result = pool.step([now[row].call[1] for row in rows], where=rows)
        seen |= {row: seen_in_step(result, row) for row in rows}
    return seen


def seen_in_reset(pool: RLPool, obs: Any, row: int) -> dict[str, Any]:
    """What a row answered to a reset: its observation and info."""
    return {"obs": plain(obs[row]), "info": plain(pool.reset_infos[row])}


def seen_in_step(result: Any, row: int) -> dict[str, Any]:
    """What a row answered to a step."""
    return {
        "obs": plain(result.obs[row]),
        "reward": float(result.rewards[row]),
        "terminated": bool(result.terminated[row]),
        "truncated": bool(result.truncated[row]),
        "info": plain(result.infos[row]),
    }


def plain(value: Any) -> Any:
    """A value that compares by `==`."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def assert_same(received: Any, expected: Any, moment: Moment) -> None:
    path = [one.call for one in moment.path()]
    assert received == expected, f"the pool answered {received}, a replay from scratch {expected}, after {path}"

"""A reset of several rows. A row without an environment gets a new one; an exception is answered by one more try with a new one."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from sandpool.env.decoding import decode
from sandpool.env.generators import reseed_generators
from sandpool.env.row import check_seed
from sandpool.env.run_rows import Run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from sandpool.env.rows import Rows


def reset_rows(owner: Rows, rows: Any, identity: Any, request: dict[str, Any], raw: bytes) -> bytes | list[Any]:
    count = len(rows)
    seeds = seeds_of(request, count)
    options = options_of(request, raw, count)
    seed_generators_once(owner, seeds)
    run = ResetRun(owner, rows)
    if request.get("hard"):
        for row in rows:
            owner.lose(row)
    run.each(zip(range(count), seeds, options))
    owner.output.lenient = False
    return run.finish(identity, f',"obs":{owner.stack.text(count, owner.output)},"infos":{{{",".join(run.infos)}}}')


def seeds_of(request: dict[str, Any], count: int) -> list[int | None]:
    seeds = request.get("seeds")
    if seeds is None:
        return [None] * count
    if type(seeds) is not list or len(seeds) != count:
        raise ValueError(f"seeds is {seeds!r:.200}; expected null or a list of {count}, one for each row")
    for seed in seeds:
        check_seed(seed)
    return seeds


def options_of(request: dict[str, Any], raw: bytes, count: int) -> list[Any]:
    each = request.get("options_each")
    if each is None:
        text = request.get("options")
        return [decode(text, raw) for _ in range(count)] if text is not None else [None] * count  # a copy each: reset may change it
    if type(each) is not list or len(each) != count:
        raise ValueError(f"options_each is {each!r:.200}; expected a list of {count}, one for each row")
    return [decode(options, raw) for options in each]


def seed_generators_once(owner: Any, seeds: list[int | None]) -> None:
    """Seed the process's own generators with its first row's first seed."""
    if not owner.seeded and seeds and seeds[0] is not None:
        reseed_generators(seeds[0])
        owner.seeded = True


class ResetRun(Run):
    """A reset while its rows are asked."""

    def take(self, items: Iterator[tuple[int, Any, Any]]) -> None:
        owner, rows, put = self.owner, self.rows, self.owner.stack.put
        for place, seed, options in items:
            self.place = place
            row = rows[place]
            environment = owner.environments[row] or owner.renew(row)
            try:
                observation, info = environment.reset(seed, options)
            except MemoryError:
                raise
            except Exception:
                traceback.print_exc()
                observation, info = owner.renew(row).reset(seed, options)
            put(place, observation)
            if info:
                self.note(place, info)

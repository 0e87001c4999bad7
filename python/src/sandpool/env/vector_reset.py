"""A reset of a vectorised environment."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from sandpool.env.decoding import decode
from sandpool.env.encoding import Output, encode
from sandpool.env.reset_rows import options_of, seed_generators_once, seeds_of
from sandpool.env.vector_infos import infos_of
from sandpool.env.vector_observations import length_of, observations_text

if TYPE_CHECKING:
    from typing import Any

    from sandpool.env.vector import VectorRows


def reset_vector(owner: VectorRows, rows: Any, identity: Any, request: dict[str, Any], raw: bytes) -> bytes | list[Any]:
    count = len(owner.all)
    seeds = seeds_of(request, len(rows))
    options = _options(owner, request, raw, len(rows))
    if rows is not owner.all:
        _check_partial(owner, rows, request)
        mask = sys.modules["numpy"].zeros(count, bool)
        mask[rows] = True
        options = {**(options or {}), "reset_mask": mask}
    seed_generators_once(owner, seeds)
    if request.get("hard") or owner.environment is None:
        owner.ask(owner.renew)
    observations, infos = _ask(owner, _seed_of(owner, seeds, rows), options)
    places = rows
    if len(rows) < count and length_of(owner.observation_space, observations) == len(rows):
        places, count = range(len(rows)), len(rows)  # EnvPool answers for the rows of the mask alone
    lines = infos_of(owner, infos, rows, places, count)
    text = observations_text(owner.observation_space, observations, places, count, owner.output)
    return owner.output.finish(f'{{"id":{json.dumps(identity)},"obs":{text},"infos":{{{",".join(lines)}}}')


def _options(owner: VectorRows, request: dict[str, Any], raw: bytes, count: int) -> Any:
    """One dict for all rows or None; with row_seeds a list where they differ."""
    if request.get("options_each") is None:
        return decode(request.get("options"), raw)
    each = options_of(request, raw, count)
    if all(_alike(options, each[0]) for options in each):
        return each[0] if each else None
    if not owner.form.row_seeds:
        raise ValueError(f"options differ among the rows; {owner.name} takes one dict for all, as it does not declare row_seeds=True")
    if count < len(owner.all):
        raise ValueError(
            f"options differ among the {count} rows of a partial reset, which {owner.name} is told of in its options; pass one dict"
        )
    return each


def _alike(left: Any, right: Any) -> bool:
    output = Output()
    return encode(left, output) == encode(right, output)


def _check_partial(owner: VectorRows, rows: Any, request: dict[str, Any]) -> None:
    why = None
    if not owner.form.partial_reset:
        why = "it does not declare serve(make_vec=…, partial_reset=True)"
    elif request.get("hard"):
        why = "a hard reset makes the whole environment anew"
    elif owner.environment is None:
        why = "it failed, and all of its rows are to be reset"
    if why is not None:
        raise ValueError(f"reset of the rows {rows!r:.80} of {len(owner.all)} in one {owner.name}: {why}; reset all rows of the process")


def _seed_of(owner: VectorRows, seeds: list[int | None], rows: Any) -> Any:
    """What the environment's reset gets: None, the first row's seed, or with row_seeds one for each row (None for those that stay)."""
    if not seeds or all(seed is None for seed in seeds):
        return None
    if not owner.form.row_seeds:
        return seeds[0]
    each: list[int | None] = [None] * len(owner.all)
    for row, seed in zip(rows, seeds):
        each[row] = seed
    return each


def _ask(owner: VectorRows, seed: Any, options: Any) -> tuple[Any, Any]:
    named = {"seed": seed} if seed is not None and not owner.is_envpool else {}  # EnvPool's seed is make's; it warns of any other
    if options is not None:
        named["options"] = options
    result = owner.ask(owner.environment.reset, **named)
    if not isinstance(result, tuple) or len(result) != 2:
        raise TypeError(f"reset returned {result!r:.200}; expected (observations, infos)")
    return result

"""A step of a vectorised environment: its arrays are written out as they are."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from sandpool.env.describing import space_kind
from sandpool.env.encoding import bytes_of
from sandpool.env.step_rows import columns_of_step
from sandpool.env.vector_infos import infos_of
from sandpool.env.vector_observations import observations_text

if TYPE_CHECKING:
    from typing import Any

    from sandpool.env.vector import VectorRows


def step_vector(owner: VectorRows, rows: Any, identity: Any, request: dict[str, Any], raw: bytes) -> bytes | list[Any]:
    count = len(owner.all)
    if rows is not owner.all:
        raise ValueError(f"a step for {len(rows)} of {count} rows; a vectorised environment is stepped whole")
    if owner.environment is None:
        raise RuntimeError("the environment failed and was not reset since; reset it before its next step")
    actions = actions_of(owner, request.get("actions"), raw, count)
    result = owner.ask(owner.environment.step, actions)
    if not isinstance(result, (tuple, list)) or len(result) != 5:
        raise TypeError(f"step returned {result!r:.200}; expected (observations, rewards, terminations, truncations, infos)")
    observations, rewards, terminated, truncated, infos = result
    columns = [
        _column(owner, *one) for one in (("rewards", rewards, "<f8"), ("terminations", terminated, "?"), ("truncations", truncated, "?"))
    ]
    lines = infos_of(owner, infos, rows, rows, count)
    text = observations_text(owner.observation_space, observations, rows, count, owner.output)
    reply = columns_of_step(owner.output, text, count, columns[0], columns[1:], lines)
    return owner.output.finish(f'{{"id":{json.dumps(identity)}{reply}')


def actions_of(owner: VectorRows, form: Any, raw: bytes, count: int) -> Any:
    """The batch of actions, of the action space's dtypes."""
    array = owner.actions.batch(form, raw, count)
    if array is not None:
        return array
    actions, misfits = owner.actions.cast_rows(form, raw, count)
    if misfits:
        raise actions[misfits[0]]
    return batch(owner.action_space, actions)


def batch(space: Any, items: Any) -> Any:
    """Single actions as one batch, laid out as Gymnasium's batched space is."""
    kind = space_kind(space) if space is not None else "Custom"
    if kind == "Dict":
        return {key: batch(one, [item[key] for item in items]) for key, one in space.spaces.items()}
    if kind == "Tuple":
        return tuple(batch(one, [item[place] for item in items]) for place, one in enumerate(space.spaces))
    if kind in ("Box", "Discrete", "MultiDiscrete", "MultiBinary"):
        return sys.modules["numpy"].array(items, space.dtype)
    return tuple(items)


def _column(owner: VectorRows, name: str, values: Any, dtype: str) -> Any:
    numpy = sys.modules["numpy"]
    array = numpy.asarray(values)
    if array.shape != (len(owner.all),) or array.dtype.kind not in "biuf":
        raise TypeError(f"step returned the {name} {values!r:.200}; expected one number for each of {len(owner.all)} rows")
    return bytes_of(numpy.ascontiguousarray(array, numpy.dtype(dtype)))

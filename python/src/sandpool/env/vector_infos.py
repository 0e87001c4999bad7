"""The infos of a vectorised environment, which are dicts of arrays, as one info a row."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from sandpool.env.encoding import array_head, base64_text, encode, key_head

if TYPE_CHECKING:
    from typing import Any

    from sandpool.env.encoding import Output
    from sandpool.env.vector import VectorRows

_RENAMED = {"final_observation": "final_obs"}  # Gymnasium's name before 1.1
_BOOKKEEPING = frozenset(("env_id", "players"))  # EnvPool's own, of no row's episode


def infos_of(owner: VectorRows, infos: Any, rows: Any, places: Any, count: int) -> list[str]:
    """The members `"row":{…}` of the rows whose info is not empty; they stand at these places of arrays of `count`.

    An array with a mask `_key` holds for the rows of the mask; an array or sequence of one item a row for each; a dict holds such
    arrays again; anything else holds for every row.
    """
    if not isinstance(infos, dict):
        raise TypeError(f"infos is {infos!r:.200} ({type(infos).__name__}); expected a dict")
    if owner.is_envpool:
        infos = {key: value for key, value in infos.items() if key not in _BOOKKEEPING}
    if not infos:
        return []
    owner.output.lenient = True
    members = _members(infos, count, owner.output)
    owner.output.lenient = False
    return [f'"{row}":{{{",".join(members[place])}}}' for row, place in zip(rows, places) if members[place]]


def _members(infos: dict[Any, Any], count: int, output: Output) -> list[list[str]]:
    members: list[list[str]] = [[] for _ in range(count)]
    for key, value in infos.items():
        if isinstance(key, str) and key[:1] == "_" and key[1:] in infos:
            continue
        mask = infos.get(f"_{key}")
        places = range(count) if mask is None or len(mask) != count else [place for place in range(count) if mask[place]]
        texts = _texts(value, places, count, output, key_head(_RENAMED.get(key, key)))
        for place, text in zip(places, texts):
            members[place].append(text)
    return members


def _texts(value: Any, places: Any, count: int, output: Output, head: str) -> list[str]:
    """The JSON of a value's items at these places, each after the head."""
    if isinstance(value, dict):
        inner = _members(value, count, output)
        return [f"{head}{{{','.join(inner[place])}}}" for place in places]
    numpy = sys.modules["numpy"]
    if isinstance(value, numpy.ndarray) and value.shape == (count,) and value.dtype.kind in "biuf" and value.dtype.str[0] != ">":
        return _scalar_texts(value, places, head + array_head(value.dtype, ()))
    if isinstance(value, (numpy.ndarray, list, tuple)) and getattr(value, "shape", (0,)) != () and len(value) == count:
        return [head + encode(value[place], output) for place in places]
    return [head + encode(value, output)] * len(places)


def _scalar_texts(array: Any, places: Any, head: str) -> list[str]:
    """Each item of an array as a numpy scalar. All are encoded at once, padded to whole groups of base64, for each alone costs more."""
    numpy = sys.modules["numpy"]
    size = array.dtype.itemsize
    missing = -size % 3
    groups = numpy.zeros((len(array), size + missing), numpy.uint8)
    groups[:, :size] = numpy.ascontiguousarray(array).view(numpy.uint8).reshape(len(array), size)
    text = base64_text(groups.tobytes())
    width, tail = (size + missing) // 3 * 4, "=" * missing + '"]}'
    kept = width - missing
    return [f'{head}"{text[place * width : place * width + kept]}{tail}' for place in places]

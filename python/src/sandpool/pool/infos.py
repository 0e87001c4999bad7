"""The infos of a step: a list of n dicts, most of them empty."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, SupportsIndex

_ALL_MADE = object()


class Infos(list[dict[str, Any]]):
    """A list of n dicts in which an empty one is made when it is looked at: making all of them cost a fifth of a batch of 10,000 rows.

    Until then one empty dict stands in all of those places, so that code which reads the list's memory, as the json module does,
    reads what is true.
    """

    __slots__ = ("_stand_in",)

    def __init__(self, sparse: Mapping[int, dict[str, Any]], n: int) -> None:
        self._stand_in: object = {}
        super().__init__([self._stand_in] * n)
        for row, info in sparse.items():
            super().__setitem__(row, info)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            self._make_all()
            return super().__getitem__(index)
        info = super().__getitem__(index)
        if info is self._stand_in:
            info = {}
            super().__setitem__(index, info)
        return info

    def __iter__(self) -> Iterator[dict[str, Any]]:
        self._make_all()
        return super().__iter__()

    def __reversed__(self) -> Iterator[dict[str, Any]]:
        self._make_all()
        return super().__reversed__()

    def __add__(self, other: Any) -> Any:
        self._make_all()
        return super().__add__(other)

    def __mul__(self, times: SupportsIndex) -> list[dict[str, Any]]:
        self._make_all()
        return super().__mul__(times)

    __rmul__ = __mul__

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        return list, (list(self),)

    def copy(self) -> list[dict[str, Any]]:
        """Return a plain list of the same dicts."""
        return list(self)

    def pop(self, index: SupportsIndex = -1) -> dict[str, Any]:
        """Take out an info and return it."""
        info: dict[str, Any] = self[index]
        super().pop(index)
        return info

    def _make_all(self) -> None:
        stand_in = self._stand_in
        if stand_in is not _ALL_MADE:
            self[:] = [{} if info is stand_in else info for info in super().__iter__()]
            self._stand_in = _ALL_MADE

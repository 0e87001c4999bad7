"""What the server describes, as plain data: a dataclass with the members that this version knows, and all of them in `to_dict`."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from sandpool.errors import ReplyError

D = TypeVar("D", bound="Described")


@dataclass(frozen=True, kw_only=True)
class Described:
    """A description that came from the server."""

    wire: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of_wire(cls: type[D], members: object) -> D:
        """Make one of a decoded reply; raises ReplyError where a member is missing."""
        if not isinstance(members, dict):
            raise ReplyError(f"The server described a {cls.__name__} as {members!r:.100}; expected a JSON object.")
        known = {item.name for item in fields(cls)} - {"wire"}
        try:
            return cls(**{name: members[name] for name in known if name in members}, wire=members)
        except TypeError as error:
            raise ReplyError(f"The server's description of a {cls.__name__} is not complete: {error}.") from error

    def to_dict(self) -> dict[str, Any]:
        """Return everything the server said, as a dict of plain values that is the caller's own."""
        return copy.deepcopy(dict(self.wire))

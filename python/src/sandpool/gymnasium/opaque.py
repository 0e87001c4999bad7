"""What stands for a space that the pool does not describe."""

from __future__ import annotations

from typing import Any

import gymnasium

from sandpool.errors import NotSupportedError


class OpaqueSpace(gymnasium.Space[Any]):
    """A space of which only a text is known: a class of the environment's own, or one that it did not announce.

    Every value is a member, none can be sampled. Give the adapter `observation_space=` or `action_space=` to have the real one.
    """

    def __init__(self, written: str, seed: Any = None) -> None:
        self.written = written
        super().__init__(None, None, seed)

    @property
    def is_np_flattenable(self) -> bool:
        """Nothing is known of its members."""
        return False

    def contains(self, x: Any) -> bool:
        """Whatever it is, it may be one."""
        return True

    def sample(self, *args: Any, **kwargs: Any) -> Any:
        """Raise NotSupportedError: nothing is known of its members."""
        raise NotSupportedError(
            f"The space {self.written!r:.200} is known only by its text, so nothing can be sampled from it.",
            hint="Give the real one to the adapter: observation_space= or action_space=.",
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueSpace) and other.written == self.written

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"OpaqueSpace({self.written!r:.200})"

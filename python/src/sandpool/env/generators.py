"""Random generators of the process."""

from __future__ import annotations

import os
import sys


def import_generators() -> None:
    """Load numpy.random before the fork, so that its pages are shared, and not once more in every child."""
    if "numpy" in sys.modules:
        __import__("numpy.random")


def reseed_generators(seed: int) -> None:
    """Seed `random` and `numpy.random` where the environment imported them."""
    if "random" in sys.modules:
        sys.modules["random"].seed(seed)
    if "numpy" in sys.modules:
        __import__("numpy.random")
        sys.modules["numpy.random"].seed(seed % 2**32)


def freshen_generators() -> None:
    """Give a fork a numpy stream of its own until its first seed (Python itself does so for `random`).

    With a number, for seed() without one touches a hundred pages more, each of which the fork must copy.
    """
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed(int.from_bytes(os.urandom(4), "little"))

"""Random generators: the process's, and an environment's np_random."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any


def import_generators() -> None:
    """Load numpy.random before the fork, so that its pages are shared, and not once more in every child."""
    if "numpy" in sys.modules:
        __import__("numpy.random")


def reseed_generators(seed: int) -> list[str]:
    """Seed `random` and `numpy.random` where the environment imported them; returns the names of those."""
    done = []
    if "random" in sys.modules:
        sys.modules["random"].seed(seed)
        done.append("random")
    if "numpy" in sys.modules:
        __import__("numpy.random")
        sys.modules["numpy.random"].seed(seed % 2**32)
        done.append("numpy.random")
    return done


def freshen_generators() -> None:
    """Give a fork a numpy stream of its own until its first seed (Python itself does so for `random`).

    With a number, for seed() without one touches a hundred pages more, each of which the fork must copy.
    """
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed(int.from_bytes(os.urandom(4), "little"))


def generators_state() -> dict[str, Any]:
    """Where the streams of `random` and `numpy.random` stand; without those that nobody imported."""
    state = {}
    if "random" in sys.modules:
        state["random"] = sys.modules["random"].getstate()
    if "numpy.random" in sys.modules:
        state["numpy.random"] = sys.modules["numpy.random"].get_state()
    return state


def set_generators_state(state: dict[str, Any]) -> None:
    if "random" in state:
        __import__("random").setstate(state["random"])
    if "numpy.random" in state:
        __import__("numpy.random")
        sys.modules["numpy.random"].set_state(state["numpy.random"])


def reseed_np_random(core: Any, seed: int) -> list[str]:
    """Give an environment's `np_random` the stream that Gymnasium's reset gives it for the seed, in the object that others may hold too."""
    generator = getattr(core, "np_random", None)
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(generator, (numpy.random.Generator, numpy.random.RandomState)):
        return []
    if isinstance(generator, numpy.random.RandomState):  # old gym's
        generator.seed(seed % 2**32)
    else:
        generator.bit_generator.state = type(generator.bit_generator)(numpy.random.SeedSequence(seed)).state
    if hasattr(core, "_np_random_seed"):
        core._np_random_seed = seed
    return ["np_random"]


def np_random_state(core: Any) -> Any:
    """Where the stream of an environment's `np_random` stands, None where it has none."""
    generator = getattr(core, "np_random", None)
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(generator, (numpy.random.Generator, numpy.random.RandomState)):
        return None
    legacy = isinstance(generator, numpy.random.RandomState)
    return (generator.get_state() if legacy else generator.bit_generator.state), getattr(core, "_np_random_seed", None)


def set_np_random_state(core: Any, state: Any) -> None:
    if state is None:
        return
    stream, seed = state
    generator = core.np_random
    if isinstance(generator, sys.modules["numpy"].random.RandomState):
        generator.set_state(stream)
    else:
        generator.bit_generator.state = stream
    if hasattr(core, "_np_random_seed"):
        core._np_random_seed = seed

"""What an environment may return for an array of its space: the same alone in a process and packed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from worlds import Returns

from sandpool.gymnasium import SandpoolVecEnv

NUMBERS = {
    "float32": np.array([1, 2], np.float32),
    "float64": np.array([1, 2], np.float64),
    "int64": np.array([1, 2]),
    "int8": np.array([1, 2], np.int8),
    "big-endian": np.array([1, 2], ">f4"),
    "objects": np.array([1, 2], object),
    "list": [1, 2],
    "list of floats": [1.0, 2.0],
    "list of scalars": [np.float32(1), np.float64(2)],
    "list of integer scalars": [np.int64(1), 2],
    "list with a scalar": [np.float32(1), 2.0],
    "list of arrays": [np.array(1.0), np.array(2)],
    "fraction": [1.0, 2.5],
    "text": ["1", "2"],
    "objects that are text": np.array(["1", "2"], object),
    "scalar and None": [np.float32(1), None],
    "tuple": (1.0, 2.0),
    "another shape": [np.float32(1)],
    "not a number": [np.float32("nan"), 2],
    "too large": [2.0**70, 1.0],
    "None": None,
}
NO_FLOATS = ("text", "objects that are text", "scalar and None", "tuple", "another shape", "None")
NO_INTEGERS = (*NO_FLOATS, "float32", "float64", "big-endian", "fraction", "not a number", "too large")
MISFITS = {
    "Box": (spaces.Box(-9, 9, (2,), np.float32), NO_FLOATS),
    "big-endian Box": (spaces.Box(-9, 9, (2,), np.dtype(">f4")), NO_FLOATS),
    "MultiDiscrete": (spaces.MultiDiscrete([5, 5]), NO_INTEGERS),
    "Dict": (spaces.Dict({"a": spaces.Tuple([spaces.Box(-9, 9, (2,), np.float32)])}), NO_FLOATS),
}


@pytest.mark.parametrize("kind", MISFITS)
@pytest.mark.parametrize("together", [1, len(NUMBERS)])
def test_what_fits_does_not_depend_on_packing(own_server: dict[str, Any], kind: str, together: int) -> None:
    space, misfits = MISFITS[kind]
    fns = [lambda value=value: Returns(space, value) for value in NUMBERS.values()]
    with SandpoolVecEnv.from_fns(fns, **own_server, envs_per_process=together) as envs:
        envs.reset(seed=0)
        with pytest.warns(UserWarning, match="protocol"):
            observations, *_ = envs.step(np.zeros(len(fns), np.int64))
        assert {name for row, name in enumerate(NUMBERS) if row in envs.errors} == set(misfits)
        assert {error["kind"] for error in envs.errors.values()} == {"protocol"}
        array = observations["a"][0] if kind == "Dict" else observations
        for row in set(range(len(fns))) - set(envs.errors):
            given = np.asarray(list(NUMBERS.values())[row], np.float64)
            assert np.array_equal(array[row], given.astype(array.dtype), equal_nan=True)

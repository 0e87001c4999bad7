"""Equality of what two vector environments return: types, dtypes, shapes and every value."""

from __future__ import annotations

from typing import Any

import numpy as np


def assert_same(received: Any, expected: Any, path: str = "result") -> None:
    assert type(received) is type(expected), f"{path}: {type(received)} and not {type(expected)}"
    if isinstance(expected, dict):
        assert received.keys() == expected.keys(), path
        for name in expected:
            assert_same(received[name], expected[name], f"{path}[{name!r}]")
    elif isinstance(expected, (tuple, list)):
        assert len(received) == len(expected), path
        for place, (one, other) in enumerate(zip(received, expected, strict=True)):
            assert_same(one, other, f"{path}[{place}]")
    elif isinstance(expected, np.ndarray):
        assert (received.dtype, received.shape) == (expected.dtype, expected.shape), path
        if expected.dtype == object:
            for place, (one, other) in enumerate(zip(received, expected, strict=True)):
                assert_same(one, other, f"{path}[{place}]")
        else:
            np.testing.assert_array_equal(received, expected, path)
    else:
        assert received == expected or (received != received and expected != expected), path

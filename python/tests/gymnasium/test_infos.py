"""Batched infos: Gymnasium's own result where its method works, and none of its faults where it does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from assert_same import assert_same
from gymnasium.vector import VectorEnv

from conftest import BEFORE_1
from sandpool.gymnasium.infos import batch_infos


def gymnasiums(infos: dict[int, dict[str, Any]], n: int) -> dict[str, Any]:
    environment = VectorEnv.__new__(VectorEnv)
    environment.num_envs = n
    environment.closed = True
    batched: dict[str, Any] = {}
    for row, info in infos.items():
        batched = environment._add_info(batched, info, row)
    return batched


@pytest.mark.parametrize(
    "infos",
    [
        {},
        {0: {"a": 1}, 2: {"a": 5}},
        {1: {"a": 1.5, "b": True}, 2: {"b": False}},
        {0: {"a": np.float32(0.1)}, 1: {"a": 0.1}},
        {0: {"a": 2.5}, 1: {"a": 3}},
        {0: {"a": "x"}, 2: {"a": None}},
        {0: {"a": np.bool_(True)}, 2: {"a": [1, 2]}},
        {0: {"a": np.arange(3)}, 2: {"a": np.arange(3) * 2}},
        {1: {"a": np.zeros((2, 2), np.uint8)}},
        {0: {"a": {"b": 1, "c": {"d": "x"}}}, 2: {"a": {"b": 3}}},
        {0: {"a": {}}, 1: {"a": {"b": 1}}},
        {0: {"final_obs": np.zeros(2), "final_info": {"r": 1.0}}, 2: {"final_obs": np.ones(2), "final_info": {}}},
        {2: {"final_observation": np.zeros(2), "final_info": {"r": 1.0}}},
        {0: {"n": np.int8(3)}, 1: {"n": np.int8(4)}},
        {0: {"a": float("nan")}},
        {0: {"a": (1, 2)}, 1: {"a": b"x"}},
    ],
)
def test_infos_are_batched_as_gymnasium_does(infos: dict) -> None:
    assert_same(batch_infos(infos, 3), gymnasiums(infos, 3))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((1, 2.7), np.array([1.0, 2.7])),
        ((True, 5), np.array([1, 5])),
        ((np.uint8(3), 300), np.array([3, 300])),
        ((np.float32(0.5), np.complex64(1j)), np.array([0.5, 1j], np.complex64)),
    ],
)
def test_numbers_take_the_wider_type(values: tuple, expected: np.ndarray) -> None:
    assert_same(batch_infos({0: {"a": values[0]}, 1: {"a": values[1]}}, 2)["a"], expected)


@pytest.mark.parametrize(
    "values",
    [
        (1, "x"),
        ("x", 1),
        (1, None),
        (None, {"b": 1}),
        ({"b": 1}, None),
        ({"b": 1}, 3),
        (np.zeros(2), np.zeros(3)),
        (np.zeros(2), 1.0),
        (np.zeros(2), {"b": 1}),
        (1, 2**70),
        (2**70, 1),
        (np.array(["a"]), np.array([1])),
    ],
)
def test_values_that_do_not_go_together_are_kept_as_they_are(values: tuple) -> None:
    batched = batch_infos({0: {"a": values[0]}, 2: {"a": values[1]}}, 3)
    assert batched["_a"].tolist() == [True, False, True]
    assert batched["a"].dtype == object
    assert_same((batched["a"][0], batched["a"][1], batched["a"][2]), (values[0], None, values[1]))


def test_an_error_is_one_object_for_each_row() -> None:
    error = {"kind": "timeout", "deadline_s": 1.0}
    batched = batch_infos({1: {"sandpool_error": error, "final_info": {"sandpool_error": error}}}, 2)
    assert batched["sandpool_error"].tolist() == [None, error]
    inner = batched["final_info"][1] if BEFORE_1 else batched["final_info"]
    assert (inner["sandpool_error"] if BEFORE_1 else inner["sandpool_error"][1]) == error


def test_without_infos_nothing_is_made() -> None:
    assert batch_infos({}, 1000) == {}

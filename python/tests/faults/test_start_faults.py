"""A fault at creation fails the whole create, says which row and why, and leaves nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from faults.cases import START_FAULTS, Case
from faults.conftest import Marker
from sandpool import EnvironmentFailedError, RLPool

pytestmark = pytest.mark.filterwarnings("ignore::sandpool.SandpoolWarning")


@pytest.mark.parametrize("case", START_FAULTS, ids=lambda case: case.program)
def test_a_fault_at_start_fails_the_create(case: Case, environment: Callable[[str], Path], marker: Marker, server: Any) -> None:
    with pytest.raises(EnvironmentFailedError) as caught:
        RLPool(environment(case.program), 8, env=marker.variables, progress=False, **case.options)
    details = caught.value.details
    assert details["kind"] == case.kind
    assert isinstance(details["row"], int)
    assert case.message in details["stderr_tail"] + str(caught.value)
    assert marker.none_left(), f"processes left: {marker.processes()}"


def test_a_program_that_never_reads_is_a_timeout_row(environment: Callable[[str], Path], marker: Marker, server: Any) -> None:
    """Its channel fills with megabytes of actions; the batch still returns by the deadline, and the others are served."""
    folder, rows, deaf = environment("never_reads"), 8, 3

    def pool_with(never_reads: list[int]) -> RLPool:
        config = [{"never_reads": row in never_reads} for row in range(rows)]
        settings: dict[str, Any] = {"env": marker.variables, "progress": False, "first_reset": False, "step_timeout": 1, "reset_timeout": 1}
        return RLPool(folder, rows, config=config, **settings)

    with pool_with([deaf]) as pool, pool_with([]) as control:
        for step in range(3):
            actions: list[Any] = [(step + row) % 2 for row in range(rows)]
            expected = control.step(actions)
            actions[deaf] = "x" * (2 << 20)
            result = pool.step(actions)
            assert {row: error["kind"] for row, error in result.errors.items()} == {deaf: "timeout"}
            for row in set(range(rows)) - {deaf}:
                assert [column[row] for column in result] == [column[row] for column in expected]
    assert marker.none_left()


def test_every_dtype_arrives_as_it_was(environment: Callable[[str], Path], server: Any) -> None:
    with RLPool(environment("every_dtype"), 8, python=sys.executable, progress=False) as pool:
        observations, rewards, dones, infos = pool.step([0] * 8)
        for observation in [*pool.initial_obs, *observations]:
            for name in (
                "bool",
                "int8",
                "int16",
                "int32",
                "int64",
                "uint8",
                "uint16",
                "uint32",
                "uint64",
                "float16",
                "float32",
                "float64",
                "complex64",
                "complex128",
            ):
                expected = (np.arange(6).reshape(2, 3) % 2).astype(name)
                assert observation[name].dtype == expected.dtype
                np.testing.assert_array_equal(observation[name], expected)
                assert observation[f"{name}_scalar"].dtype == expected.dtype
                assert observation[f"{name}_scalar"] == 1
            assert observation["empty"].shape == (0, 4)
            np.testing.assert_array_equal(observation["big_endian"], [0, 1, 2])
            np.testing.assert_array_equal(observation["transposed"], np.arange(6).reshape(2, 3).T)
        assert rewards.dtype == np.float64
        assert (rewards == 0.5).all()
        assert not dones.any()
        assert all(info["value"] == 3 for info in infos)

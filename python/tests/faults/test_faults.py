"""Each fault costs one row: the others are bit-equal to a pool without it, and the next reset serves a fresh environment."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from faults.cases import RESET_FAULTS, STEP_FAULTS, Case
from faults.conftest import Marker
from sandpool import RLPool, RowsFailedError

ROWS, FAULTY, FAULT, FAULT_STEP, STEPS = 8, 3, 99, 2, 6

Environment = Callable[[str], Path]
pytestmark = pytest.mark.filterwarnings("ignore::sandpool.SandpoolWarning")


def actions_of(step: int) -> list[int]:
    return [(step + row) % 2 for row in range(ROWS)]


@pytest.mark.parametrize("case", STEP_FAULTS, ids=lambda case: case.program)
def test_a_fault_in_a_step_costs_its_row_alone(case: Case, environment: Environment, marker: Marker, server: Any) -> None:
    settings = {"seed": 7, "env": marker.variables, "progress": False, **case.options}
    folder = environment(case.program)
    with RLPool(folder, ROWS, **settings) as pool, RLPool(folder, ROWS, **settings) as control:
        others = np.arange(ROWS) != FAULTY
        np.testing.assert_array_equal(pool.initial_obs, control.initial_obs)
        for step in range(STEPS):
            actions = actions_of(step)
            expected = control.step(actions)
            if step == FAULT_STEP:
                actions[FAULTY] = FAULT
            result = pool.step(actions)
            assert_rows_equal(result, expected, others)
            if step == FAULT_STEP:
                assert_fault(case, result, pool)
            elif step > FAULT_STEP and case.kind is not None:
                assert result.errors[FAULTY]["repeated"] is True
                assert result.errors[FAULTY]["kind"] == case.kind
        assert_fresh_after_reset(pool, control)
        assert [row["state"] for row in pool.status(memory=False)["rows"]] == ["ready"] * ROWS
    assert marker.none_left(), f"processes left after close: {marker.processes()}"


@pytest.mark.parametrize("case", RESET_FAULTS, ids=lambda case: case.program)
def test_a_fault_in_a_reset_costs_its_row_alone(case: Case, environment: Environment, marker: Marker, server: Any) -> None:
    options: list[dict[str, bool] | None] = [None] * ROWS
    options[FAULTY] = {"fail": True}
    settings = {"seed": 7, "env": marker.variables, "progress": False, **case.options}
    folder = environment(case.program)
    with RLPool(folder, ROWS, **settings) as pool, RLPool(folder, ROWS, **settings) as control:
        expected = control.reset(seed=11)
        observations = pool.reset(seed=11, options=options)
        error = pool.reset_infos[FAULTY]["sandpool_error"]
        assert error["kind"] == case.kind
        assert case.expect.items() <= error.items()
        assert case.message in error["message"]
        others = np.arange(ROWS) != FAULTY
        np.testing.assert_array_equal(observations[others], expected[others])
        np.testing.assert_array_equal(observations[FAULTY], pool.initial_obs[FAULTY])
        assert_fresh_after_reset(pool, control)
    assert marker.none_left(), f"processes left after close: {marker.processes()}"


def assert_rows_equal(result: Any, expected: Any, rows: np.ndarray) -> None:
    np.testing.assert_array_equal(result[0][rows], expected[0][rows])
    np.testing.assert_array_equal(result[1][rows], expected[1][rows])
    np.testing.assert_array_equal(result.terminated[rows], expected.terminated[rows])
    np.testing.assert_array_equal(result.truncated[rows], expected.truncated[rows])
    for row in np.flatnonzero(rows):
        assert result[3][row] == expected[3][row]


def assert_fault(case: Case, result: Any, pool: RLPool) -> None:
    info = result[3][FAULTY]
    if case.kind is None:
        assert result.errors == {}
        assert "sandpool_error" not in info
        assert case.info.items() <= info.items()
        return
    error = result.errors[FAULTY]
    assert list(result.errors) == [FAULTY]
    assert error["kind"] == case.kind, error
    assert case.expect.items() <= error.items(), error
    assert case.message in error["message"], error
    assert info["sandpool_error"]["kind"] == case.kind
    assert result.terminated[FAULTY] == (case.kind == "exception")
    assert result.truncated[FAULTY] == (case.kind != "exception")
    assert result[1][FAULTY] == 0
    assert info.get("sandpool_straggler", False) is (case.kind == "timeout")
    assert (FAULTY in pool.timing.stragglers) is (case.kind == "timeout")
    assert np.isfinite(result[0]).all(), "an array pool holds the last good observation"


def assert_fresh_after_reset(pool: RLPool, control: RLPool) -> None:
    """The row serves the same new episode as the healthy pool's does."""
    mask = np.arange(ROWS) == FAULTY
    seeds = [5 if selected else None for selected in mask]
    observations = pool.reset(seed=seeds, where=mask)
    expected = control.reset(seed=seeds, where=mask)
    assert "sandpool_error" not in pool.reset_infos[FAULTY]
    np.testing.assert_array_equal(observations[FAULTY], expected[FAULTY])
    for step in range(3):
        result, wanted = pool.step(actions_of(step)), control.step(actions_of(step))
        assert result.errors == {}
        assert_rows_equal(result, wanted, np.ones(ROWS, dtype=bool))


def test_warnings_come_once_for_each_kind(environment: Environment, server: Any) -> None:
    with (
        RLPool(environment("raises_in_step"), ROWS, progress=False) as pool,
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        for _ in range(2):
            pool.step([FAULT] * ROWS)
            pool.reset()
    messages = [str(one.message) for one in caught]
    assert len(messages) == 1
    assert "exception" in messages[0]
    assert "on purpose" in messages[0]


def test_errors_raise_raises_the_first_failure(environment: Environment, server: Any) -> None:
    with (
        RLPool(environment("raises_in_step"), ROWS, errors="raise", progress=False) as pool,
        pytest.raises(RowsFailedError, match=r"environment 3.*on purpose"),
    ):
        pool.step([FAULT if row == FAULTY else 0 for row in range(ROWS)])

"""`fork`, `save`, `restore`, `drop` and `states`, awaited."""

from __future__ import annotations

import asyncio

import pytest

import sandpool
from sandpool import AsyncRLPool

from .conftest import Run


def test_the_verbs_of_branching_are_awaited(run: Run) -> None:
    async def test(pool: AsyncRLPool) -> None:
        await pool.reset(seed=10, options={"task": 1})
        await pool.step([1, 2, 3, 4])
        zero, three = await pool.save(where=[0, 3])
        assert (await pool.fork(1, [0, 2]))[:, 0].tolist() == [11, 11, 11, 13]
        assert pool.reset_infos == [{"task": 1}] * 4
        assert (await pool.step([1] * 4)).obs[:, 2].tolist() == [3, 3, 3, 5]
        # This environment has no randomness.
        with pytest.warns(sandpool.SandpoolWarning, match="nothing could be reseeded in row 1"):
            obs = await pool.restore([zero, three], where=[2, 1], reseed=[None, 5])
        assert obs[:, 2].tolist() == [3, 4, 1, 5]
        assert pool.reseeded == {1: []}
        assert await pool.states() == [zero, three]
        assert await pool.drop(zero) == [zero.id]
        assert [state.id for state in await pool.states(memory=True)] == [three.id]
        with pytest.raises(sandpool.StateNotFoundError):
            await pool.restore(zero)

    run(test, shards=1)


def test_rows_that_are_out_or_checked_out_hold_copies_off(run: Run) -> None:
    async def test(pool: AsyncRLPool) -> None:
        await pool.send([93], where=[0])
        with pytest.raises(sandpool.PoolBusyError, match="1 rows are out"):
            await pool.save(where=[1])
        with pytest.raises(sandpool.PoolBusyError, match="1 rows are out"):
            await pool.fork(1, 2)
        await pool.recv()
        async with pool.env() as env:
            await env.reset()
            await env.step(2)
            with pytest.raises(sandpool.PoolBusyError, match="checked out"):
                await pool.fork(1, 2)
            (state,) = await pool.save(where=[env.index])
        assert (await pool.restore(state, where=[3]))[3, 2] == 2

    run(test, shards=1)


def test_a_cancelled_save_is_over_before_the_next_call_and_its_states_are_found(run: Run) -> None:
    async def test(pool: AsyncRLPool) -> None:
        saving = asyncio.create_task(pool.save(where=[0]))
        await asyncio.sleep(0)
        saving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await saving
        await pool.step([1] * 4)
        states = await pool.states()
        assert all(state.step == 0 for state in states)
        assert await pool.drop() == [state.id for state in states]

    run(test, shards=1)

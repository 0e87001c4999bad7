"""Environments checked out by coroutines."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import numpy as np
import pytest

import sandpool
from sandpool import AsyncRLPool

from .conftest import Run, until


async def rollout(pool: AsyncRLPool, task: int) -> tuple[int, float]:
    async with pool.env() as e:
        obs = await e.reset(seed=task, options={"task": task})
        assert obs.tolist() == [task, 0, 0]
        assert e.info == {"task": task}
        total, terminated = 0.0, False
        while not terminated:
            obs, reward, terminated, truncated, info = await e.step(int(obs[1]) % 3)
            total += reward
            assert obs.tolist() == [task, obs[1], total]
            assert (truncated, info) == (False, {})
        assert obs[1] == 10
        return e.index, total


def test_five_hundred_coroutines_share_thirty_two_rows(run: Run) -> None:
    async def test(pool: AsyncRLPool) -> None:
        results = await asyncio.gather(*[rollout(pool, task) for task in range(500)])
        assert {total for _, total in results} == {9.0}
        assert len(Counter(index for index, _ in results)) == 32
        # Far fewer messages than the 5,500 resets and steps: what is sent in one turn goes together.
        assert pool._opened.session._number < 2_000

    run(test, n=32)


def test_who_waits_for_a_row_gets_one_in_order(run: Run) -> None:
    async def test(pool: AsyncRLPool) -> None:
        order: list[int] = []

        async def one(number: int) -> None:
            async with pool.env() as e:
                order.append(number)
                await e.reset()

        await asyncio.gather(*[one(number) for number in range(20)])
        assert order == list(range(20))

    run(test, n=2)


def test_a_step_needs_a_reset_of_its_own_checkout(run: Run) -> None:
    async def test(pool: AsyncRLPool) -> None:
        for _ in range(2):
            async with pool.env() as e:
                with pytest.raises(sandpool.InvalidValueError, match="expected a reset first"):
                    await e.step(1)
                await e.reset()
                await e.step(1)
        with pytest.raises(sandpool.InvalidValueError, match="after its block had ended"):
            await e.step(1)

    run(test, n=1)


def test_two_uses_of_one_row_at_once_are_refused(run: Run) -> None:
    async def test(pool: AsyncRLPool) -> None:
        async with pool.env() as e:
            await e.reset()
            first = asyncio.create_task(e.step(93))
            await asyncio.sleep(0)
            with pytest.raises(sandpool.SandpoolError):
                await e.step(1)
            assert (await first)[0][1] == 1

    run(test, n=1)


@pytest.mark.parametrize(
    ("action", "kind", "flags"), [(90, "exception", (True, False)), (91, "crash", (False, True)), (92, "timeout", (False, True))]
)
def test_a_failed_row_is_data_and_serves_the_next(run: Run, action: int, kind: str, flags: tuple[bool, bool]) -> None:
    async def test(pool: AsyncRLPool) -> None:
        async with pool.env() as e:
            obs = await e.reset(seed=4)
            with pytest.warns(sandpool.SandpoolWarning, match=f"failed in step with {kind}") as warned:
                last, reward, terminated, truncated, info = await e.step(action)
            assert warned[0].filename == __file__
            np.testing.assert_array_equal(last, obs)
            assert (reward, terminated, truncated) == (0.0, *flags)
            assert info["sandpool_error"]["kind"] == kind
            again = await e.step(1)
            assert again[4]["sandpool_error"]["repeated"] is True
            assert (await e.reset(seed=5)).tolist() == [5, 0, 0]
        async with pool.env() as e:
            assert (await e.reset(seed=6)).tolist() == [6, 0, 0]

    run(test, n=1, step_timeout=1)


def test_a_failure_is_raised_where_the_pool_was_told_to(run: Run) -> None:
    async def test(pool: AsyncRLPool) -> None:
        async with pool.env() as e:
            await e.reset()
            with pytest.raises(sandpool.RowsFailedError, match="on purpose") as caught:
                await e.step(90)
            assert (caught.value.row, caught.value.kind) == (e.index, "exception")
            assert caught.value.result[2] is True
            with pytest.raises(sandpool.RowsFailedError, match="no such task"):
                await e.reset(options={"fail": True})
            await e.reset()
            await e.step(1)

    run(test, n=2, errors="raise")


def test_an_action_the_pool_refuses_fails_its_own_coroutine_alone(run: Run) -> None:
    async def test(pool: AsyncRLPool) -> None:
        async def one(action: Any) -> Any:
            async with pool.env() as e:
                await e.reset()
                return await e.step(action)

        results = await asyncio.gather(*[one(10**500 if number == 1 else 3) for number in range(4)], return_exceptions=True)
        assert isinstance(results[1], sandpool.RequestRefusedError)
        assert [result[1] for number, result in enumerate(results) if number != 1] == [3.0] * 3
        assert await one(4)

    run(test)


def test_an_episode_goes_on_after_an_action_or_a_reset_that_the_pool_refused(run: Run) -> None:
    async def test(pool: AsyncRLPool) -> None:
        async with pool.env() as e:
            with pytest.raises(sandpool.RequestRefusedError):
                await e.reset(options={"task": 10**500})
            with pytest.raises(sandpool.InvalidValueError, match="expected a reset first"):
                await e.step(1)
            await e.reset()
            await e.step(1)
            for refused in (e.step(10**500), e.reset(options={"task": 10**500})):
                with pytest.raises(sandpool.RequestRefusedError):
                    await refused
            assert (await e.step(2))[0][1] == 2

    run(test, n=1)


def test_a_call_waits_for_what_is_out_and_holds_back_the_rest(run: Run) -> None:
    async def test(pool: AsyncRLPool) -> None:
        async def one(number: int) -> list[int]:
            async with pool.env() as e:
                await e.reset()
                counts = []
                for _ in range(5):
                    await e.step(number % 3)
                    counts.append(await e.call("count"))
                return counts

        assert await asyncio.gather(*[one(number) for number in range(8)]) == [[1, 2, 3, 4, 5]] * 8
        async with pool.env() as e:
            with pytest.raises(sandpool.RowsFailedError, match="'nothing'"):
                await e.call("nothing")

    run(test)


def test_a_cancelled_step_gives_its_row_back_when_it_has_come(run: Run) -> None:
    async def test(pool: AsyncRLPool) -> None:
        async def stuck() -> None:
            async with pool.env() as e:
                await e.reset()
                await e.step(93)

        task = asyncio.create_task(stuck())
        # With one row there is one message for the reset and one for the step.
        await until(lambda: pool._opened.session.is_busy and pool._opened.session._number == 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(pool._opened.owners) == 1
        async with pool.env() as e:
            assert (await e.reset(seed=9)).tolist() == [9, 0, 0]
            assert (await e.step(1))[0].tolist() == [9, 1, 1]

    run(test, n=1)


def test_a_reset_after_a_step_that_ran_out_of_time_waits_for_it(run: Run) -> None:
    async def test(pool: AsyncRLPool) -> None:
        async with pool.env() as e:
            await e.reset()
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(e.step(93), 0.05)
            with pytest.raises(sandpool.InvalidValueError, match="expected a reset first"):
                await e.step(1)
            assert (await e.reset(seed=9)).tolist() == [9, 0, 0]
            assert (await e.step(1))[0].tolist() == [9, 1, 1]

    run(test, n=1)


def test_a_batch_waits_for_what_a_cancelled_rollout_left_out(run: Run) -> None:
    async def test(pool: AsyncRLPool) -> None:
        async with pool.env() as e:
            await e.reset()
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(e.step(93), 0.05)
        assert len(pool._opened.owners) == 1
        assert (await pool.reset(seed=9)).tolist() == [[9, 0, 0]]
        assert (await pool.step([1])).obs.tolist() == [[9, 1, 1]]

    run(test, n=1)


def test_a_row_that_a_server_out_of_reach_keeps_out_is_an_error_and_no_endless_wait(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(pool: AsyncRLPool) -> None:
        async with pool.env() as e:
            await e.reset()
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(e.step(93), 0.05)
            hub = pool._opened
            with monkeypatch.context() as patch:
                # As the stream does once it has given up.
                patch.setattr(hub._stream, "wake", lambda: hub.owners.fail(sandpool.NoServerError("gone"), forget=False))
                with pytest.raises(sandpool.NoServerError, match="gone"):
                    await e.reset()
            assert (await e.reset(seed=9)).tolist() == [9, 0, 0]

    run(test, n=1)


def test_cancellation_at_any_moment_costs_no_row(run: Run) -> None:
    async def test(pool: AsyncRLPool) -> None:
        random = np.random.default_rng(0)

        async def one(task: int) -> None:
            async with pool.env() as e:
                obs = await e.reset(seed=task)
                assert obs.tolist() == [task, 0, 0]
                for step in range(1, 6):
                    obs, *_ = await e.step(1)
                    assert obs.tolist() == [task, step, step]

        for start in range(0, 120, 12):
            tasks = [asyncio.create_task(one(task)) for task in range(start, start + 12)]
            for _ in range(20):
                # Any number of turns of the loop later, each of the tasks may be at any of its awaits.
                for _ in range(random.integers(1, 12)):
                    await asyncio.sleep(0)
                tasks[random.integers(len(tasks))].cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert {type(result) for result in results} <= {type(None), asyncio.CancelledError}, results
        await until(lambda: len(pool._opened.owners) == 0)
        results = await asyncio.gather(*[rollout(pool, task) for task in range(8)])
        assert {index for index, _ in results} == {0, 1, 2, 3}
        assert (await pool.step([1] * 4)).errors == {}

    run(test)


def test_all_who_wait_are_told_that_the_pool_has_ended(run: Run) -> None:
    async def test(pool: AsyncRLPool) -> None:
        stepping: list[int] = []

        async def one() -> None:
            async with pool.env() as e:
                await e.reset()
                stepping.append(e.index)
                await e.step(92)

        tasks = [asyncio.create_task(one()) for _ in range(5)]
        await until(lambda: len(stepping) == 2 and not pool._opened.session.has_waiting)
        await asyncio.to_thread(sandpool.RLPool.attach(pool.id).close)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(result) for result in results] == [sandpool.PoolLostError] * 5

    run(test, n=2)


def test_a_lost_row_is_reset_hard_by_whoever_gets_it_next(run: Run) -> None:
    async def test(pool: AsyncRLPool) -> None:
        before = (await pool.status(memory=False))["rows"][0]["pid"]
        async with pool.env() as e:
            await e.reset()
            assert (await pool.status(memory=False))["rows"][0]["pid"] == before
            # As if three replacements running had failed.
            pool._opened.lost.add(e.index)
            await e.reset()
            assert pool._opened.lost == set()
        assert (await pool.status(memory=False))["rows"][0]["pid"] != before

    run(test, n=1)

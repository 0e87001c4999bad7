"""AsyncRLPool against a running server: the verbs of RLPool, awaited."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sandpool
from sandpool import AsyncRLPool, RLPool

from .conftest import Run, until


def test_the_verbs_of_a_pool_are_awaited(run: Run) -> None:
    async def test(pool: AsyncRLPool) -> None:
        assert (pool.n, len(pool), pool.closed) == (4, 4, False)
        assert pool.initial_obs.shape == (4, 3)
        assert (await pool.reset(seed=10, options={"task": 1}))[:, 0].tolist() == [10, 11, 12, 13]
        assert pool.reset_infos == [{"task": 1}] * 4
        result = await pool.step([1, 2, 3, 4])
        assert result.obs[:, 2].tolist() == [1, 2, 3, 4]
        assert await pool.call("count", where=[0, 2]) == [1, None, 1, None]
        await pool.set_attr("limit", 1)
        assert await pool.get_attr("limit") == [1] * 4
        assert await pool.has_attr("nothing") == [False] * 4
        assert (await pool.status(memory=False))["n"] == 4
        assert await pool.logs(0) == ""

    run(test)


def test_sending_and_receiving_equals_lock_step(run: Run, walk: Path, server: dict[str, str]) -> None:
    random = np.random.default_rng(0)
    actions = random.integers(0, 4, (30, 4))
    with RLPool(walk, 4, seed=3, progress=False) as lockstep:
        expected = [lockstep.reset()] + [lockstep.step(row).obs for row in actions]

    async def test(pool: AsyncRLPool) -> None:
        steps = [-1] * 4
        received: list[list[Any]] = [[] for _ in range(4)]
        await pool.send_reset()
        while len(pool.rows_out):
            result = await pool.recv()
            going = []
            for row, obs in zip(result.index.tolist(), result.obs, strict=True):
                steps[row] += 1
                received[row].append(obs)
                if steps[row] < 30:
                    going.append(row)
            await pool.send([actions[steps[row], row] for row in going], where=going)
        np.testing.assert_array_equal(np.stack(received, axis=1), np.stack(expected))

    run(test)


def test_a_slow_row_never_holds_the_others(run: Run) -> None:
    async def test(pool: AsyncRLPool) -> None:
        await pool.send_reset()
        await pool.recv(4)
        await pool.send([93, 1, 1, 1])
        fast = 0
        while True:
            result = await pool.recv()
            if 0 in result.index:
                break
            fast += len(result.index)
            await pool.send([1] * len(result.index), where=result.index)
        assert fast >= 9

    run(test)


def test_what_is_sent_in_one_turn_of_the_loop_is_one_message(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(pool: AsyncRLPool) -> None:
        await pool.send_reset()
        await pool.recv(4)
        number = pool._opened.session._number
        await asyncio.gather(*[pool.send([row], where=[row]) for row in range(4)])
        assert sorted((await pool.recv(4)).rewards.tolist()) == [0, 1, 2, 3]
        assert pool._opened.session._number == number + 1

    run(test)


def test_a_cancelled_batch_comes_to_its_end_and_what_follows_waits_for_it(run: Run) -> None:
    async def test(pool: AsyncRLPool) -> None:
        await pool.reset()
        for follow in ("step", "send", "env"):
            slow = asyncio.create_task(pool.step([93, 93, 93, 93]))
            while not pool._opened.turns._batches:
                await asyncio.sleep(0)
            await asyncio.sleep(0.05)
            slow.cancel()
            with pytest.raises(asyncio.CancelledError):
                await slow
            if follow == "step":
                assert (await pool.step([1] * 4)).obs[:, 1].tolist() == [2] * 4
            elif follow == "send":
                await pool.send([1] * 4)
                assert (await pool.recv(4)).obs[:, 1].tolist() == [4] * 4
            else:
                async with pool.env() as e:
                    assert (await e.reset(seed=1))[0] == 1
        assert (await pool.status(memory=False))["next_seq"] == 6

    run(test)


def test_a_cancelled_recv_loses_nothing(run: Run) -> None:
    async def test(pool: AsyncRLPool) -> None:
        await pool.send_reset()
        await pool.recv(4)
        await pool.send([93, 93, 1, 1])
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(pool.recv(4), 0.05)
        with pytest.raises(sandpool.NotReadyError):
            await pool.recv(4, timeout=0.01)
        result = await pool.recv(4)
        assert sorted(result.index.tolist()) == [0, 1, 2, 3]
        assert result.obs[:, 1].tolist() == [1] * 4

    run(test)


def test_batches_and_the_stream_take_turns(run: Run) -> None:
    async def test(pool: AsyncRLPool) -> None:
        await pool.send_reset(where=[0, 1])
        for refused in (pool.step([1] * 4), pool.reset(), pool.call("count")):
            with pytest.raises(sandpool.PoolBusyError, match="while 2 rows are out"):
                await refused
        with pytest.raises(sandpool.PoolBusyError, match="env\\(\\) was called while 2 rows are out"):
            async with pool.env():
                pass
        with pytest.raises(sandpool.PoolBusyError):
            await pool.send([1], where=[1])
        with pytest.raises(sandpool.InvalidValueError, match="2 rows are out"):
            await pool.recv(3)
        await pool.recv(2)
        async with pool.env() as e:
            with pytest.raises(sandpool.PoolBusyError, match="1 rows are checked out"):
                await pool.step([1] * 4)
            with pytest.raises(sandpool.PoolBusyError, match="checked out by env"):
                await pool.send([1], where=[e.index])
            assert await pool.call("count") == [0] * 4
        assert (await pool.step([1] * 4)).obs[:, 1].tolist() == [1] * 4

    run(test)


@pytest.mark.filterwarnings("ignore::sandpool.SandpoolWarning")
def test_failed_rows_are_rows(run: Run) -> None:
    async def test(pool: AsyncRLPool) -> None:
        await pool.send_reset(seed=20)
        await pool.recv(4)
        await pool.send([1, 90, 91, 92])
        result = await pool.recv(4)
        at = {row: place for place, row in enumerate(result.index.tolist())}
        assert {row: error["kind"] for row, error in result.errors.items()} == {1: "exception", 2: "crash", 3: "timeout"}
        assert result.index[-1] == 3
        assert [result.obs[at[row]].tolist() for row in range(4)] == [[20, 1, 1], [21, 0, 0], [22, 0, 0], [23, 0, 0]]
        assert [bool(result.truncated[at[row]]) for row in range(4)] == [False, False, True, True]
        await pool.send_reset(where=[1, 2, 3], seed=30)
        result = await pool.recv(3)
        assert sorted(result.obs[:, 0].tolist()) == [31, 32, 33]
        assert result.errors == {}

    run(test, step_timeout=1.5)


def test_a_pool_that_was_cancelled_while_it_was_made_is_closed(walk: Path, server: dict[str, str]) -> None:
    async def main() -> None:
        making = asyncio.create_task(AsyncRLPool.create(walk, 2, name="abandoned", progress=False))
        await until(lambda: any(thread.name.startswith("sandpool-batches") for thread in threading.enumerate()))
        making.cancel()
        with pytest.raises(asyncio.CancelledError):
            await making
        await until(lambda: not any(thread.name.startswith("sandpool-batches") for thread in threading.enumerate()))

    asyncio.run(main())
    with pytest.raises(sandpool.SandpoolError) as caught:
        RLPool.attach("abandoned")
    assert caught.value.code in ("pool_not_found", "pool_closed")


def test_another_object_attaches_and_detaches(run: Run) -> None:
    async def test(pool: AsyncRLPool) -> None:
        async with AsyncRLPool.attach(pool.id) as other:
            await other.send_reset(seed=5)
            assert sorted((await other.recv(4)).obs[:, 0].tolist()) == [5, 6, 7, 8]
        attached = await AsyncRLPool.attach(pool.id)
        await attached.send_reset()
        await attached.recv(4)
        await attached.detach()
        assert attached.closed
        await pool.send_reset(seed=5)
        assert len((await pool.recv(4)).index) == 4

    run(test)


def test_close_while_rows_are_out_raises_in_all_who_wait(walk: Path, server: dict[str, str]) -> None:
    async def main() -> None:
        pool = await AsyncRLPool(walk, 2, progress=False)
        await pool.send_reset()
        await pool.recv(2)
        await pool.send([93, 93])
        waiting = asyncio.create_task(pool.recv(2))
        await asyncio.sleep(0)
        await pool.close()
        with pytest.raises(sandpool.PoolClosedError):
            await waiting
        for use in (pool.step([1, 1]), pool.send([1, 1]), pool.recv(), pool.status(), pool.env().__aenter__()):
            with pytest.raises(sandpool.PoolClosedError):
                await use
        await pool.close()

    asyncio.run(main())


def test_a_pool_that_was_not_opened_says_so(walk: Path) -> None:
    async def main() -> None:
        pool = AsyncRLPool(walk, 2)
        assert pool.closed
        assert repr(pool) == "<AsyncRLPool, not opened>"
        with pytest.raises(sandpool.PoolClosedError, match="async with AsyncRLPool"):
            await pool.step([1, 1])
        await pool.close()

    asyncio.run(main())


def test_wrong_options_are_refused_by_name(walk: Path, server: dict[str, str]) -> None:
    async def main() -> None:
        with pytest.raises(TypeError, match="Did you mean 'step_timeout'"):
            await AsyncRLPool(walk, 2, step_timeot=3)

    asyncio.run(main())

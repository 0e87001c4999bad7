"""Branching with real environments: copies go on as their sources would, states stay what they were, refusals change nothing."""

from __future__ import annotations

import hashlib
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import sandpool
from faults.conftest import Marker
from sandpool import RLPool

TRAVELLER = """
    import os, random, socket, subprocess, threading
    from sandpool.env import serve

    class Traveller:
        def reset(self, *, seed=None, options=None):
            self.seed, self.steps, self.kept = seed % 1000, 0, []
            self.log = open(f"log{os.getpid()}", "w+")
            return [self.seed, 0, 0], {"seed": self.seed}

        def step(self, action):
            if action == 90:
                os._exit(3)
            if action == 91:
                event = threading.Event()
                self.kept = [event, threading.Thread(target=event.wait, daemon=True, name="ticker")]
                self.kept[1].start()
            if action == 92:
                self.kept = [subprocess.Popen(["sleep", "1000"])]
            if action == 93:
                self.kept = [socket.socket()]
            if action == 94:
                self.kept[0].close() if isinstance(self.kept[0], socket.socket) else None
            self.steps += 1
            print(action, file=self.log, flush=True)
            self.log.seek(0)
            written = self.log.read().split()
            return [self.seed, self.steps, random.randrange(10**6)], float(action), action == 7, False, {"written": written}

    serve(make=lambda config: Traveller())
"""
# An object of its own, which is pickled; its generator is its own too, for `random` belongs to the process.
PACKED = """
    import random
    from sandpool.env import serve

    class Counter:
        def reset(self, *, seed=None, options=None):
            self.luck, self.steps = random.Random(seed), 0
            return [seed % 1000, 0, 0], {"seed": seed}

        def step(self, action):
            self.steps += 1
            return [0, self.steps, self.luck.randrange(10**6)], float(action), action == 7, False, {}

    serve(make=lambda config: Counter())
"""
N = 4
Make = Callable[..., RLPool]


@pytest.fixture
def marker() -> Marker:
    return Marker()


@pytest.fixture
def make(server: dict[str, str], tmp_path: Path, marker: Marker) -> Iterator[Make]:
    """Makes pools of a program and closes them; then none of their processes is left."""
    pools: list[RLPool] = []

    def made(program: str = TRAVELLER, n: int = N, **options: Any) -> RLPool:
        folder = tmp_path / f"environment{len(pools)}"
        folder.mkdir()
        (folder / "env.py").write_text(textwrap.dedent(program))
        known = {"seed": 11, "python": sys.executable, "env": marker.variables, "progress": False, **options}
        pools.append(RLPool(folder, n, **known))
        return pools[-1]

    yield made
    for pool in pools:
        pool.close()
    assert marker.none_left(), f"processes left after close: {marker.processes()}"


def futures(pool: RLPool, steps: int = 5) -> list[list[Any]]:
    """What each row does with the same actions, by row."""
    results = [pool.step([step % 5] * pool.n) for step in range(steps)]
    return [[(result.obs[row].tolist(), result.infos[row]) for result in results] for row in range(pool.n)]


def test_a_copy_does_next_what_its_source_does_and_the_others_go_their_way(make: Make) -> None:
    pool = make()
    pool.step([1, 2, 3, 4])
    own = pool.step([2, 3, 4, 5]).obs
    obs = pool.fork(0, [1, 2])
    assert obs.tolist() == [own[0].tolist()] * 3 + [own[3].tolist()]
    assert [info["seed"] for info in pool.reset_infos] == [obs[0, 0]] * 3 + [obs[3, 0]]
    assert pool.reseeded == {}
    first, second, third, last = futures(pool)
    assert first == second == third
    assert first[0][1]["written"] == ["1", "2", "0"]
    assert last[0][1]["written"] == ["4", "5", "0"]
    assert last[0][0] != first[0][0]


def test_pairs_are_copied_at_one_instant(make: Make) -> None:
    pool = make(n=2)
    before = pool.step([1, 2]).obs
    assert pool.fork([0, 1], [1, 0]).tolist() == before[::-1].tolist()
    # In one target its source's file, whatever the other became.
    assert [row[0][1]["written"] for row in futures(pool, 1)] == [["2", "0"], ["1", "0"]]


def test_a_state_is_what_it_was_however_the_rows_went_on(make: Make) -> None:
    pool = make()
    pool.step([1, 2, 3, 4])
    three, one = pool.save(where=[3, 1])
    assert [(state.row, state.step, state.way, state.pending, state.lost) for state in (three, one)] == [
        (3, 1, "fork", False, None),
        (1, 1, "fork", False, None),
    ]
    expected = futures(pool)
    pool.reset()
    obs = pool.restore([three, one])
    assert obs[:, 1].tolist() == [0, 1, 0, 1]
    assert futures(pool)[1::2] == expected[1::2]
    pool.reset(hard=True)
    pool.restore([three, one], where=[0, 2])
    again = futures(pool)
    assert [again[0], again[2]] == [expected[3], expected[1]]
    pool.restore(one, where=[True] * N)
    assert futures(pool) == [expected[1]] * N
    assert set(pool.states()) == {three, one}


def test_states_in_the_order_of_where_go_back_where_they_were(make: Make) -> None:
    pool = make()
    pool.step([1, 2, 3, 4])
    where = [2, 0, 3, 1]
    states = pool.save(where=where)
    expected = futures(pool)
    pool.restore(states, where=where)
    assert futures(pool) == expected


@pytest.mark.filterwarnings("ignore::sandpool.SandpoolWarning")
def test_a_state_outlives_its_source_and_heals_it(make: Make) -> None:
    pool = make(n=2)
    pool.step([1, 2])
    (state,) = pool.save(where=[0])
    expected = futures(pool, 3)[0]
    assert pool.step([90, 0]).errors[0]["kind"] == "crash"
    with pytest.raises(sandpool.ForkUnsupportedError) as caught:
        pool.fork(0, 1)
    assert caught.value.sources == [(0, [{"failed": "crash"}])]
    pool.restore(state, where=[0, 1])
    assert pool.errors == {}
    assert futures(pool, 3) == [expected] * 2


def test_a_saved_end_of_an_episode_stays_pending(make: Make) -> None:
    pool = make(n=3, autoreset="next_step")
    pool.step([1, 7, 2])
    (ended,) = pool.save(where=[1])
    assert ended.pending
    pool.fork(1, 0)
    pool.restore(ended, where=[2])
    result = pool.step([3, 3, 3])
    assert result.rewards.tolist() == [0, 0, 0]
    assert result.obs[:, 1].tolist() == [0, 0, 0]
    # Each with the seed of its own index and count of resets.
    assert len(set(result.obs[:, 0].tolist())) == 3


def derived(pool_seed: int, row: int, count: int) -> int:
    """The rule of docs/internals/branching.md."""
    return int.from_bytes(hashlib.sha256(f"sandpool-reseed/1:{pool_seed}:{row}:{count}".encode()).digest()[:4], "big") >> 1


def test_reseeding_makes_copies_differ_as_asked_and_reproducibly(make: Make) -> None:
    pool = make()

    def draws(*reseeds: Any) -> list[int]:
        """What each row draws after copies of row 0."""
        # The first reset of a process seeds `random`; one of all rows sets the pool's seed.
        pool.reset(seed=3, hard=True)
        for reseed in reseeds:
            pool.fork(0, [1, 2, 3], reseed=reseed)
            asked = [] if reseed is False else [1, 3] if reseed == [41, None, 42] else [1, 2, 3]
            assert sorted(pool.reseeded) == asked
            assert all("random" in names for names in pool.reseeded.values())
        return [row[0][0][2] for row in futures(pool, 1)]

    exact = draws(False)
    assert exact == exact[:1] * N
    numbered = draws(40)  # row i gets 40 + i
    assert numbered[0] == exact[0]
    assert len(set(numbered)) == N
    assert draws([41, None, 42]) == [exact[0], numbered[1], exact[0], numbered[2]]
    assert draws([42, 41, 42]) == [exact[0], numbered[2], numbered[1], numbered[2]]
    assert draws(True) == draws([derived(3, row, 0) for row in (1, 2, 3)])
    assert draws(True, True) == draws([derived(3, row, 1) for row in (1, 2, 3)])


@pytest.mark.parametrize(("action", "blocker"), [(91, "threads"), (92, "processes"), (93, "sockets")])
def test_what_a_fork_would_lose_or_share_is_named_and_the_row_goes_on(make: Make, action: int, blocker: str) -> None:
    pool = make(n=2)
    pool.step([action, 1])
    with pytest.raises(sandpool.ForkUnsupportedError, match=f"row 0 cannot be copied: .*{blocker}") as caught:
        pool.fork([1, 0], [0, 1])
    ((row, blockers),) = caught.value.sources
    assert row == 0
    assert [name for item in blockers for name in item if name in ("threads", "processes", "sockets")] == [blocker]
    with pytest.raises(sandpool.ForkUnsupportedError):
        pool.save()
    assert pool.states() == []
    result = pool.step([94, 2])
    assert result.obs[:, 1].tolist() == [2, 2]
    assert [info["written"] for info in result.infos] == [[str(action), "94"], ["1", "2"]]
    assert pool.fork(1, 0)[:, 1].tolist() == [2, 2]


def test_dropped_states_are_gone_and_those_of_another_pool_refused(make: Make) -> None:
    pool, other = make(n=2), make(n=2)
    zero, one = pool.save()
    assert pool.drop(zero) == [zero.id]
    assert pool.drop([zero, one]) == [one.id]
    for states in (zero, [zero, one]):
        with pytest.raises(sandpool.StateNotFoundError) as caught:
            pool.restore(states)
        assert caught.value.states == ([zero] if states is zero else [zero, one])
    with pytest.raises(sandpool.InvalidValueError, match=f"of the pool {pool.id}; expected one of the pool {other.id}"):
        other.restore(zero)
    assert len(pool.save()) == 2
    assert len(pool.drop()) == 2
    assert pool.states() == []


def test_any_state_fits_any_row_by_default(make: Make) -> None:
    pool = make(n=130)
    pool.step([row % 5 for row in range(130)])
    assert pool.status(memory=False)["shards"] == 1
    (state,) = pool.save(where=[129])
    obs = pool.restore(state, where=[0, 64])
    assert obs[0].tolist() == obs[64].tolist() == obs[129].tolist()
    pool.fork([0, 129], [129, 1])
    results = futures(pool, 2)
    assert results[0] == results[1] == results[64] == results[129]


def test_a_pair_that_crosses_sandboxes_is_refused(make: Make) -> None:
    pool = make(n=2, shards=2)
    (state,) = pool.save(where=[0])
    with pytest.raises(sandpool.ForkUnsupportedError) as caught:
        pool.fork(1, 0)
    assert caught.value.sources == [(1, [{"shards": [1, 0]}])]
    with pytest.raises(sandpool.ForkUnsupportedError) as caught:
        pool.restore(state, where=[0, 1])
    assert caught.value.sources == [(state, [{"shards": [0, 1]}])]
    pool.restore(state)


def test_packed_rows_are_copied_by_their_state(make: Make) -> None:
    pool = make(PACKED, 6, envs_per_process=3)
    pool.step([1, 2, 3, 4, 5, 6])
    (state,) = pool.save(where=[1])
    assert state.way == "state"
    pool.fork([0, 0, 4], [3, 4, 0])
    first = futures(pool)
    assert first[3] == first[4]
    assert first[0] != first[3]
    pool.restore(state, where=[0, 4])
    again = futures(pool)
    assert again[0] == again[4] == first[1]


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_row_that_the_last_process_has_alone_is_copied_as_the_packed_ones(make: Make, start: str) -> None:
    pool = make(PACKED, 4, envs_per_process=3, start=start)
    pool.step([1, 2, 3, 4])
    packed, alone = pool.save(where=[1, 3])
    assert [state.way for state in (packed, alone)] == ["state", "state"]
    own = futures(pool)
    pool.restore([packed, alone, alone], where=[3, 1, 2])
    exchanged = futures(pool)
    assert exchanged[1:] == [own[3], own[3], own[1]]
    pool.fork([3, 1], [0, 3])
    first, second, third, last = futures(pool)
    assert (first, last) != (second, third)
    assert second == third == last


def test_functions_that_do_not_say_of_which_row_copy_none_of_a_packed_pool(make: Make) -> None:
    pool = make(PACKED.replace("Counter())", "Counter(), get_state=lambda: 1, set_state=print)"), 3, envs_per_process=2)
    pool.step([1, 2, 3])
    for row in (0, 2):
        with pytest.raises(sandpool.ForkUnsupportedError) as caught:
            pool.save(where=[row])
        assert caught.value.sources == [(row, [{"packed": 2}])]


def test_two_clients_share_a_pools_states(make: Make) -> None:
    pool = make(n=2)
    pool.step([1, 2])
    (state,) = pool.save(where=[0])
    with RLPool.attach(pool.id) as other:
        assert other.states() == [state]
        assert other.restore(state, where=[1])[1, 1] == 1
        with pytest.raises(sandpool.PoolSequenceError):
            pool.fork(0, 1)
        assert pool.fork(0, 1)[:, 1].tolist() == [1, 1]
        assert other.drop(state) == [state.id]
    assert pool.states() == []


def test_rows_that_are_out_hold_branching_off(make: Make) -> None:
    pool = make(n=2)
    (state, _) = pool.save()
    pool.send([1], where=[0])
    calls: list[Callable[[], Any]] = [lambda: pool.fork(1, 1), lambda: pool.save(where=[1]), lambda: pool.restore(state, where=[1])]
    for call in calls:
        with pytest.raises(sandpool.PoolBusyError) as caught:
            call()
        assert caught.value.details["out"] == 1
    assert pool.recv().obs[0, 1] == 1
    pool.fork(0, 1)
    pool.send([5], where=[1])
    assert pool.recv().obs[0, 1] == 2


def test_the_memory_of_states_is_sampled_and_all_ends_with_the_pool(make: Make, marker: Marker) -> None:
    pool = make(n=1)
    before = len(marker.processes())
    pool.save()
    pool.save()
    assert [state.pss_bytes is not None and state.pss_bytes > 0 for state in pool.states(memory=True)] == [True, True]
    assert [state.pss_bytes for state in pool.states()] == [None, None]
    assert len(marker.processes()) == before + 2
    pool.close()
    assert marker.none_left()

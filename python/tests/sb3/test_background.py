from __future__ import annotations

import gc
import threading

import pytest

from sandpool.sb3.background import Background


def test_functions_run_one_after_another_and_what_they_raise_is_the_callers() -> None:
    background = Background()
    told: list[int] = []
    futures = [background.run(lambda number=number: told.append(number)) for number in range(5)]
    failed = background.run(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        failed.result()
    assert told == [0, 1, 2, 3, 4]
    assert all(future.done() for future in futures)
    background.end()


def test_the_thread_ends_with_the_object() -> None:
    background = Background()
    background.run(lambda: None).result()
    thread = next(thread for thread in threading.enumerate() if thread.name == "sandpool-step" and thread is background._thread)
    del background
    gc.collect()
    thread.join(10)
    assert not thread.is_alive()

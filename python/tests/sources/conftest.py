from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sandpool import RLPool
from sandpool.sources.from_fns import open_fns_pool

Open = Callable[..., RLPool]


@pytest.fixture
def open_fns(server: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Opens pools of functions and closes them; their temporary folders must be gone by then."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    pools: list[RLPool] = []

    def open_pool(fns: Any, **options: Any) -> RLPool:
        pools.append(open_fns_pool(fns, progress=False, **options))
        return pools[-1]

    yield open_pool
    for pool in pools:
        pool.close()
    assert list(temporary.iterdir()) == []

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

# Stable-Baselines3 brings torch: these run only where it is installed, by `make test-trainers`.
collect_ignore = [] if find_spec("stable_baselines3") else sorted(path.name for path in Path(__file__).parent.glob("test_vec_env*.py"))


@pytest.fixture
def open_vec_env(server: dict[str, str]) -> Iterator[Callable[..., Any]]:
    """Makes SB3VecEnvs of functions whose classes are in `sb3_environments`, and closes them."""
    import sb3_environments

    from sandpool.sb3 import SB3VecEnv

    made: list[Any] = []

    def open_fns(fns: Any, **options: Any) -> Any:
        made.append(SB3VecEnv.from_fns(fns, code=sb3_environments, progress=False, **options))
        return made[-1]

    yield open_fns
    for vec_env in made:
        vec_env.close()

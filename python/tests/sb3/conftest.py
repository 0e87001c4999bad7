from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

# Stable-Baselines3 brings torch: these run only where it is installed, by `make test-trainers`.
collect_ignore = [] if find_spec("stable_baselines3") else sorted(path.name for path in Path(__file__).parent.glob("test_vec_env*.py"))

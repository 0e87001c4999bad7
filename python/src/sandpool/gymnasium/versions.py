"""What the installed gymnasium offers, read once."""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING

from sandpool.errors import NotSupportedError

try:
    import gymnasium
except ImportError as error:
    raise ImportError("sandpool.gymnasium needs gymnasium, which is not installed: pip install 'sandpool[gymnasium]'") from error

_NUMBERS = tuple(int(number) for number in re.findall(r"\d+", gymnasium.__version__)[:2])

if _NUMBERS < (0, 29):
    raise NotSupportedError(f"gymnasium {gymnasium.__version__} is installed; expected 0.29 or 1.0 and later.")

INSTALLED: str = gymnasium.__version__
BEFORE_1 = _NUMBERS < (1, 0)
"""0.29: only same-step autoreset, and infos that hold dicts and arrays as they are, one for each environment."""
FINAL_OBSERVATION = "final_observation" if BEFORE_1 else "final_obs"

if TYPE_CHECKING or hasattr(gymnasium.vector, "AutoresetMode"):
    from gymnasium.vector import AutoresetMode
else:

    class AutoresetMode(Enum):
        """Gymnasium's own since 1.1; the same members for older ones."""

        NEXT_STEP = "NextStep"
        SAME_STEP = "SameStep"
        DISABLED = "Disabled"


__all__ = ["BEFORE_1", "FINAL_OBSERVATION", "INSTALLED", "AutoresetMode"]

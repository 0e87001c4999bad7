"""What each fault program must come to, as pool-semantics.md says. `kind` None: the behaviour is legal and no error."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Case:
    program: str
    kind: str | None
    expect: dict[str, Any] = field(default_factory=dict)  # members of the row's error
    message: str = ""  # a part of the error's message
    options: dict[str, Any] = field(default_factory=dict)  # of RLPool
    info: dict[str, Any] = field(default_factory=dict)  # members of the row's info in a legal case


SHORT = {"step_timeout": 1.5}

STEP_FAULTS = [
    Case("raises_in_step", "exception", {"op": "step", "type": "ValueError"}, "on purpose"),
    Case("exits_0", "crash", {"op": "step", "exit_code": 0}),
    Case("exits_3", "crash", {"op": "step", "exit_code": 3}),
    Case("killed_by_signal", "crash", {"op": "step", "signal": 11}),
    Case("hangs_in_step", "timeout", {"op": "step", "deadline_s": 1.5}, options=SHORT),
    Case("spins_in_step", "timeout", {"op": "step", "deadline_s": 1.5}, options=SHORT),
    Case("ignores_sigterm", "timeout", {"op": "step"}, options=SHORT),
    Case("half_a_line", "timeout", {"op": "step"}, options=SHORT),
    Case("half_a_line_then_exit", "crash", {"op": "step", "exit_code": 1}),
    Case("answers_late", "timeout", {"op": "step"}, options=SHORT),
    Case("endless_line", "protocol", {"op": "step"}, "16777216"),
    Case("observation_too_large", "protocol", {"op": "step"}),
    Case("wrong_shape", "protocol", {"op": "step"}, "shape"),
    Case("wrong_id", "protocol", {"op": "step"}, "id"),
    Case("missing_id", "protocol", {"op": "step"}, "id"),
    Case("not_json", "protocol", {"op": "step"}),
    Case("missing_reward", "protocol", {"op": "step"}, "reward"),
    Case("too_deep", "protocol", {"op": "step"}, "64"),
    Case("huge_integer", "protocol", {"op": "step"}, "400"),
    Case("invalid_utf8", "protocol", {"op": "step"}, "UTF-8"),
    Case("lone_surrogate", "protocol", {"op": "step"}, "surrogate"),
    Case("eats_memory", "oom", {"op": "step"}, options={"memory": "128MiB"}),
    Case("eats_shared_memory", "oom", {"op": "step"}, options={"memory": "128MiB"}),
    Case("child_eats_memory_then_exit", "crash", {"op": "step", "exit_code": 3}, options={"memory": "128MiB"}),
    Case("child_eats_memory", None, options={"memory": "128MiB"}),
    Case(
        "fills_workspace",
        "exception",
        {"op": "step", "type": "OSError"},
        "No space left",
        options={"workspace": "8MiB"},
    ),
    Case("kills_pythons", "crash", {"op": "step", "signal": 9}),
    Case("prints_everywhere", None),
    Case("answers_twice", None),
    Case("daemonises", None),
    Case("fork_bomb", None),
    Case("nonfinite_rewards", None, info={"sandpool_warning": "nonfinite_reward"}),
    Case("infinite_rewards", None, info={"sandpool_warning": "nonfinite_reward"}),
]

# These can only show at creation, which fails whole and names the row.
START_FAULTS = [
    Case("import_error", "crash", message="ModuleNotFoundError"),
    Case("hangs_at_start", "timeout", options={"start_timeout": 2}),
]

RESET_FAULTS = [
    Case("raises_in_reset", "exception", {"op": "reset", "type": "RuntimeError"}, "on purpose"),
    Case("hangs_in_reset", "timeout", {"op": "reset"}, options={"reset_timeout": 1.5}),
]

"""The program of a pool of one registered Gymnasium environment: made once in the template, wrapped, then forked."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium

from sandpool.env import serve
from sandpool.env.decoding import decode

FOLDER = Path(__file__).parent
ABOUT = decode(json.loads((FOLDER / "sandpool_gym.json").read_text(encoding="utf-8")))


def make(config: Any) -> Any:
    """Make the environment; `config` are further arguments of `gymnasium.make`, a row's own if the pool was given a list."""
    environment: Any = gymnasium.make(ABOUT["id"], **{**ABOUT["make_kwargs"], **(config or {})})
    if ABOUT["monitor"]:
        environment = import_module("sandpool_monitor").Monitor(environment)
    for path, arguments in ABOUT["wrappers"]:
        environment = _found(path)(environment, **arguments)
    return environment


def _found(path: str) -> Any:
    module, _, names = path.partition(":")
    found: Any = import_module(module)
    for name in names.split("."):
        found = getattr(found, name)
    return found


if __name__ == "__main__":
    sys.path[1:1] = [str(FOLDER / name) for name in ABOUT["search"]]
    serve(make=make)

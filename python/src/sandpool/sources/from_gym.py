"""An environment's folder made from the id of a registered Gymnasium environment."""

from __future__ import annotations

import inspect
import re
import tempfile
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from sandpool.errors import InvalidTypeError, InvalidValueError
from sandpool.pool.rlpool import RLPool
from sandpool.sources.copy_code import Code, copy_code
from sandpool.values.encode import encode_json

_PROGRAMS = Path(__file__).parent / "programs"
_PATH = re.compile(r"[\w.]+:[\w.]+")

Wrapper = str | tuple[str, Mapping[str, Any]]


def open_gym_pool(
    id: str,  # noqa: A002
    *,
    n: int,
    wrappers: Sequence[Wrapper] = (),
    requirements: Sequence[str] | None = None,
    code: Code | None = None,
    make_kwargs: Mapping[str, Any] | None = None,
    monitor: bool = False,
    **kwargs: Any,
) -> RLPool:
    """Make a pool of n environments that `gymnasium.make` makes in the sandbox.

    Args:
        id: as for `gymnasium.make`; ``"module:Id-v0"`` imports a module first.
        n: number of environments.
        wrappers: applied inside, in order: ``"module:Class"``, or ``("module:Class", {"argument": value})``.
        requirements: packages for the sandbox; None: the client's version of gymnasium, and numpy of its major version. An empty list:
            whatever the interpreter has.
        code: files, folders or modules of your own that are sent along; modules in a plain folder can be imported too.
        make_kwargs: arguments of `gymnasium.make`, among them those whose names RLPool has too.
        monitor: whether the environment tells its episodes' statistics, as `sandpool.sources.programs.monitor.Monitor` does.
        kwargs: those named like an option of RLPool go there (`config` goes to `gymnasium.make`, a dict for all rows or a list of n);
            any other goes to `gymnasium.make`. `envs_per_process` is ``"auto"`` by default.

    Raises:
        InvalidValueError, InvalidTypeError: arguments that do not fit, before anything is made.
        EnvironmentFailedError: `gymnasium.make` or a wrapper raised in the sandbox; the message ends with its traceback.

    Example:
        >>> pool = open_gym_pool("CartPole-v1", n=64, max_episode_steps=200)  # doctest: +SKIP
    """
    known = _pool_options()
    options = {"envs_per_process": "auto", **{name: value for name, value in kwargs.items() if name in known}}
    arguments = {**{name: value for name, value in kwargs.items() if name not in known}, **(make_kwargs or {})}
    with tempfile.TemporaryDirectory(prefix="sandpool-gym-") as folder:
        path = Path(folder)
        write_gym_environment(path, id, wrappers, requirements=requirements, code=code, make_kwargs=arguments, monitor=monitor)
        return RLPool(path, n, **options)


def write_gym_environment(
    folder: Path,
    id: str,  # noqa: A002
    wrappers: Sequence[Wrapper] = (),
    *,
    requirements: Sequence[str] | None = None,
    code: Code | None = None,
    make_kwargs: Mapping[str, Any] | None = None,
    monitor: bool = False,
) -> None:
    """Write the environment into an empty folder; arguments as for `open_gym_pool`."""
    if type(id) is not str or not id:
        raise InvalidTypeError(f"id is {id!r:.80}; expected the id of a registered environment such as 'CartPole-v1'.")
    about = {
        "id": id,
        "wrappers": [_read_wrapper(wrapper) for wrapper in _as_list("wrappers", wrappers)],
        "make_kwargs": dict(make_kwargs or {}),
        "monitor": bool(monitor),
    }
    copy_code(() if code is None else code, folder)
    about["search"] = sorted(item.name for item in folder.iterdir() if item.is_dir() and not (item / "__init__.py").exists())
    (folder / "env.py").write_bytes((_PROGRAMS / "gym.py").read_bytes())
    if monitor:
        (folder / "sandpool_monitor.py").write_bytes((_PROGRAMS / "monitor.py").read_bytes())
    (folder / "sandpool_gym.json").write_bytes(encode_json(about, "arguments"))
    lines = _default_requirements() if requirements is None else _as_list("requirements", requirements)
    if lines:
        (folder / "requirements.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _pool_options() -> frozenset[str]:
    parameters = inspect.signature(RLPool.__init__).parameters.values()
    return frozenset(one.name for one in parameters if one.kind is one.KEYWORD_ONLY)


def _read_wrapper(wrapper: object) -> tuple[str, dict[str, Any]]:
    path, arguments = wrapper if isinstance(wrapper, (tuple, list)) and len(wrapper) == 2 else (wrapper, {})
    if not isinstance(path, str) or not isinstance(arguments, Mapping):
        raise InvalidTypeError(
            f"wrappers has {wrapper!r:.120}; expected 'module:Class' or ('module:Class', {{'argument': value}}).",
            hint="Classes are not sent. Name one that the sandbox can import, from a package in requirements= or from code=.",
        )
    if _PATH.fullmatch(path) is None:
        raise InvalidValueError(f"wrappers has {path!r:.120}; expected 'module:Class', such as 'gymnasium.wrappers:FlattenObservation'.")
    return path, dict(arguments)


def _as_list(name: str, items: Any) -> list[Any]:
    if isinstance(items, str) or not isinstance(items, Sequence):
        raise InvalidTypeError(f"{name}={items!r:.80} is of type {type(items).__name__}; expected a list.")
    return list(items)


def _default_requirements() -> list[str]:
    major = int(np.__version__.split(".")[0])
    try:
        gymnasium = f"gymnasium=={metadata.version('gymnasium')}"
    except metadata.PackageNotFoundError:
        gymnasium = "gymnasium"
    return [gymnasium, f"numpy>={major},<{major + 1}"]

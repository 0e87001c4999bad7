"""The program of a pool of thunks: reads them once, in the template, and serves row i what thunk i makes.

What it reads was pickled by the client for this sandbox; nothing that it sends back is pickled.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from sandpool.env import serve
from sandpool.env.describing import without_address

FOLDER = Path(__file__).parent


def main() -> None:
    """Serve the thunks' environments; what is wrong with them is told in hello, with its traceback."""
    try:
        make = _read_make()
    except Exception as error:  # noqa: BLE001
        failure = error

        def fail(config: Any) -> Any:
            raise failure

        serve(make=fail)
    serve(make=make)


def _read_make() -> Callable[[int, Any], Any]:
    about = json.loads((FOLDER / "sandpool_fns.json").read_text(encoding="utf-8"))
    _check_python(about["python"])
    thunks = _unpickle(FOLDER / "sandpool_fns.pickle")

    def make(index: int, config: Any) -> Any:
        with _import_errors_explained():
            environment = thunks[index]()
        if about["monitor"]:
            environment = import_module("sandpool_monitor").Monitor(environment)
        _announce_spaces(environment)
        return environment

    return make


def _check_python(expected: list[int]) -> None:
    """Compare the minor versions, for the byte code of another one may do anything."""
    if list(sys.version_info[:2]) != expected:
        here, there = ".".join(map(str, sys.version_info[:2])), ".".join(map(str, expected))
        raise RuntimeError(
            f"the thunks were pickled by Python {there}, and the sandbox runs Python {here} ({sys.executable}), which cannot read them; "
            f"give the pool python= with the path of a Python {there}, or make it from a client that runs Python {here}"
        )


def _unpickle(path: Path) -> Any:
    with _import_errors_explained():
        return import_module("cloudpickle").loads(path.read_bytes())


@contextlib.contextmanager
def _import_errors_explained() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise ImportError(
            f"the thunks need {error.name or 'a module'}, which the sandbox does not have ({error}); "
            "give a package in requirements=, and a file or folder of your own in code="
        ) from error


def _announce_spaces(environment: Any) -> None:
    """Let the client compare the rows' spaces by their text."""
    spaces = [_text_of(getattr(environment, name, None)) for name in ("observation_space", "action_space")]
    try:
        environment.sandpool_spaces = spaces
    except AttributeError:  # an object with slots: it is not compared
        return


def _text_of(space: Any) -> str:
    """Return the space's repr; bounds, which a repr shortens, as a hash."""
    parts: Any = getattr(space, "spaces", None)
    if hasattr(parts, "items"):
        return "Dict(" + ", ".join(f"{key!r}: {_text_of(part)}" for key, part in parts.items()) + ")"
    if isinstance(parts, (list, tuple)):
        return f"{type(space).__name__}({', '.join(map(_text_of, parts))})"
    low, high = getattr(space, "low", None), getattr(space, "high", None)
    if low is None or high is None:
        return without_address(repr(space))
    return f"{space!r} with bounds {hashlib.sha256(low.tobytes() + high.tobytes()).hexdigest()[:12]}"


if __name__ == "__main__":
    main()

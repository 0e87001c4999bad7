"""Code of the user's own, copied beside an environment's program so that it can be imported there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from sandpool.errors import InvalidTypeError, InvalidValueError

CodeItem = str | os.PathLike[str] | ModuleType
Code = CodeItem | Sequence[CodeItem]

_LEFT_OUT = shutil.ignore_patterns(".git", "__pycache__", ".venv", "node_modules", "*.pyc")


def copy_code(code: Code, folder: Path) -> None:
    """Copy files, folders and modules into an environment's folder, each under its own name.

    Args:
        code: paths, or imported modules of which a package is copied whole. One item, or a list.
        folder: the environment's folder; code in it is found by ``import``.

    Raises:
        InvalidValueError: a path that does not exist, a module without a file, or a name that is taken.
    """
    items = [code] if isinstance(code, (str, os.PathLike, ModuleType)) else list(code)
    for item in items:
        source = _path_of(item)
        target = folder / source.name
        if target.exists() or source.name in ("env.py", "env", "sandpool", "requirements.txt"):
            raise InvalidValueError(f"code= has {source}; the name {source.name} is taken in the environment's folder.", hint="Rename it.")
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True, ignore=_LEFT_OUT)
        else:
            shutil.copy2(source, target)


def _path_of(item: object) -> Path:
    if isinstance(item, ModuleType):
        return _path_of_module(item)
    if not isinstance(item, (str, os.PathLike)):
        raise InvalidTypeError(f"code= has an item of type {type(item).__name__}; expected the path of a file or folder, or a module.")
    path = Path(os.fspath(item)).resolve()
    if not path.exists():
        raise InvalidValueError(f"code= has the path {path}, which does not exist; expected a file or a folder.")
    return path


def _path_of_module(module: ModuleType) -> Path:
    if "." in module.__name__:
        raise InvalidValueError(f"code= has the module {module.__name__}, a part of a package; expected the package itself.")
    file = getattr(module, "__file__", None)
    if not file:
        raise InvalidValueError(f"code= has the module {module.__name__}, which has no file; expected one with a file, or a path.")
    path = Path(file)
    return path.parent if path.name == "__init__.py" else path

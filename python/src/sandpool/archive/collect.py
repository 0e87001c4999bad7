"""What of an environment's folder goes into its archive."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from sandpool.errors import InvalidValueError

_LEFT_OUT = frozenset({".git", "__pycache__", ".venv", "node_modules"})


@dataclass(frozen=True)
class Entry:
    """One entry: a folder, a file (with `source` or `content`) or a link (with `target`)."""

    path: str
    kind: str
    executable: bool = False
    source: Path | None = None
    content: bytes = b""
    target: str = ""


def find_entry_program(environment: Path) -> str:
    """Name the program of an environment: the file itself, or in a folder ``env.py``, else an executable ``env``."""
    if environment.is_file():
        if environment.suffix == ".py" or os.access(environment, os.X_OK):
            return environment.name
        raise _no_program(f"The environment {environment} is a file that is neither *.py nor executable", "chmod +x it")
    if not environment.is_dir():
        raise _no_program(f"The environment {environment} does not exist", "give the path of a folder or of a program")
    if (environment / "env.py").is_file():
        return "env.py"
    program = environment / "env"
    if program.is_file() and os.access(program, os.X_OK):
        return "env"
    what = "holds an env that is not executable" if program.is_file() else "holds neither env.py nor an executable env"
    raise _no_program(f"The folder {environment} {what}", "add env.py, or an executable named env")


def collect_entries(environment: Path) -> list[Entry]:
    """List the archive's entries in the order of the bytes of their paths, the Python helper `sandpool/env/` included.

    A folder that has a `sandpool/env.py` or `sandpool/env/` of its own keeps it.

    Left out: ``.git``, ``__pycache__``, ``.venv``, ``node_modules`` and ``*.pyc``. Refused by name: links that leave the folder,
    and whatever is neither file, folder nor link.
    """
    if environment.is_file():
        found = {environment.name: _file_entry(environment.resolve(), environment.name)}
    else:
        found = {entry.path: entry for entry in _walk(environment.resolve(), "")}
    if not found.keys() & {"sandpool/env.py", "sandpool/env"}:
        for entry in _helper_entries():
            found.setdefault(entry.path, entry)
    return sorted(found.values(), key=lambda entry: os.fsencode(entry.path))


def _walk(root: Path, folder: str) -> list[Entry]:
    with os.scandir(root / folder) as listing:
        items = list(listing)
    entries = []
    for item in items:
        if item.name in _LEFT_OUT or item.name.endswith(".pyc"):
            continue
        path = f"{folder}/{item.name}" if folder else item.name
        if item.is_symlink():
            entries.append(_link_entry(root, path))
        elif item.is_dir():
            entries.append(Entry(path, "folder"))
            entries.extend(_walk(root, path))
        elif item.is_file():
            entries.append(_file_entry(root / path, path))
        else:
            raise InvalidValueError(
                f"{root / path} is a device, socket or pipe; expected files, folders and links.",
                code="bad_environment",
                hint="Remove it from the environment's folder.",
            )
    return entries


def _file_entry(source: Path, path: str) -> Entry:
    return Entry(path, "file", executable=bool(source.stat().st_mode & stat.S_IXUSR), source=source)


def _link_entry(root: Path, path: str) -> Entry:
    # Read as text and followed on disk: a link through another link can look inner and lead out.
    target = (root / path).readlink()
    written = Path(os.path.normpath(Path(path).parent / target))
    followed = Path(os.path.realpath(root / path))
    if target.is_absolute() or written.parts[:1] == ("..",) or not followed.is_relative_to(root):
        raise InvalidValueError(
            f"The link {root / path} leads to {target}, outside the environment's folder.",
            code="bad_environment",
            hint="Copy what it points to into the folder, or make it a relative link inside.",
        )
    return Entry(path, "link", target=str(target))


def _helper_entries() -> list[Entry]:
    helper = files("sandpool").joinpath("env")
    modules = [one for one in helper.iterdir() if one.name.endswith(".py")]
    entries = [Entry("sandpool", "folder"), Entry("sandpool/__init__.py", "file"), Entry("sandpool/env", "folder")]
    return entries + [Entry(f"sandpool/env/{one.name}", "file", content=one.read_bytes()) for one in modules]


def _no_program(received: str, hint: str) -> InvalidValueError:
    return InvalidValueError(f"{received}; expected an environment's program.", code="bad_environment", hint=f"To go on, {hint}.")

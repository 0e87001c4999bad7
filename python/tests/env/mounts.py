"""Plays the agent's part in the mounts of a live fork: a quota mount for each copy, filled from the source's, handed over detached."""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path

OPEN_TREE, OPEN_TREE_CLONE, OPEN_TREE_CLOEXEC, AT_FDCWD = 428, 1, os.O_CLOEXEC, -100
TARGETS = {"workspace": "/workspace", "tmp": "/tmp", "shm": "/dev/shm"}


def copied_mounts(source: int, folder: Path, uid: int) -> tuple[int, ...]:
    """Three descriptors of detached mounts, with copies of what the process `source` has in its three folders."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,nr_inodes=64,mode=0700,nosuid,nodev", "none", folder], check=True)
    try:
        descriptors = []
        for name, target in TARGETS.items():
            subprocess.run(["cp", "-a", f"/proc/{source}/root{target}", folder / name], check=True)
            subprocess.run(["chown", "-hR", f"{uid}:{uid}", folder / name], check=True)
            descriptors.append(_open_tree(folder / name))
        return tuple(descriptors)
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def _open_tree(path: Path) -> int:
    library = ctypes.CDLL(None, use_errno=True)
    descriptor = library.syscall(OPEN_TREE, AT_FDCWD, str(path).encode(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), f"open_tree {path}: {os.strerror(ctypes.get_errno())}")
    return int(descriptor)

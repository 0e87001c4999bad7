"""An environment that can leave something of every kind behind, and looks for what is left.

`leave(kind)` leaves one thing; `look()` tells of every kind what there is.
"""

import fcntl
import gc
import locale
import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

from sandpool.env import serve

CHANGED = []


class Leftovers:
    def reset(self, seed=None, options=None):
        return [0.0]

    def step(self, action):
        return [0.0], 0.0, False, False, {}

    def leave(self, kind):
        LEAVE[kind]()

    def look(self):
        return {kind: look() for kind, look in LOOK.items()}


def start_sleeper(**options):
    return subprocess.Popen(["/bin/sleep", "3600"], **options)


def start_daemon():
    """A process of its own session whose parent has ended."""
    if os.fork() == 0:
        start_sleeper(start_new_session=True)
        os._exit(0)
    os.wait()


def sleepers():
    """Parents of the sleeping processes that can be seen: this one, or another."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and b"sleep" in (folder / "cmdline").read_bytes():
                found.append((folder / "stat").read_text().rpartition(")")[2].split()[1] == str(os.getpid()))
        except OSError:
            continue
    return found


def descriptors():
    """Open files by what they are; those of the helper have numbers that differ between processes."""
    return sorted(name for name in map(target, Path("/proc/self/fd").iterdir()) if name.startswith("/usr"))


def target(link):
    try:
        return str(link.readlink())
    except OSError:
        return ""


def lock_file():
    fcntl.flock(os.open("locked", os.O_CREAT | os.O_RDWR), fcntl.LOCK_EX)


def read_umask():
    return next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("Umask"))


def names(folder):
    return sorted(path.name for path in Path(folder).iterdir())


LEAVE = {
    "file in the workspace": lambda: Path("left").write_text("x"),
    "hidden folder in the workspace": lambda: Path("/workspace/.left/deep").mkdir(parents=True),
    "unwritable folder": lambda: Path("/workspace/closed/inner").mkdir(0o500, parents=True) or Path("/workspace/closed").chmod(0),
    "file in /tmp": lambda: Path("/tmp/left").write_text("x"),
    "file in /dev/shm": lambda: Path("/dev/shm/left").write_text("x"),
    "child process": start_sleeper,
    "daemon": start_daemon,
    "environment variable": lambda: os.environ.update(LEFT="1"),
    "open descriptor": lambda: os.open("/usr/bin/env", os.O_RDONLY),
    "file lock": lock_file,
    "module global": lambda: CHANGED.append(1),
    "patched module": lambda: setattr(os, "left", True),
    "import path": lambda: sys.path.append("/left"),
    "current directory": lambda: (Path("/workspace/inner").mkdir(), os.chdir("/workspace/inner")),
    "signal handler": lambda: signal.signal(signal.SIGUSR1, lambda *_: None),
    "ignored signal": lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN),
    "blocked signal": lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2]),
    "timer": lambda: signal.setitimer(signal.ITIMER_VIRTUAL, 3600),
    "locale": lambda: locale.setlocale(locale.LC_NUMERIC, "C.UTF-8"),
    "umask": lambda: os.umask(0o077),
    "limit": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100)),
    "priority": lambda: os.nice(3),
    "process name": lambda: Path("/proc/self/comm").write_text("left"),
    "thread": lambda: threading.Thread(target=threading.Event().wait, daemon=True).start(),
    "recursion limit": lambda: sys.setrecursionlimit(777),
    "collector": gc.disable,
}

LOOK = {
    "file in the workspace": lambda: names("/workspace"),
    "hidden folder in the workspace": lambda: Path("/workspace/.left").exists(),
    "unwritable folder": lambda: Path("/workspace/closed").exists(),
    "file in /tmp": lambda: names("/tmp"),
    "file in /dev/shm": lambda: names("/dev/shm"),
    "child process": lambda: sum(sleepers()),
    "daemon": lambda: len(sleepers()) - sum(sleepers()),
    "environment variable": lambda: sorted(os.environ),
    "open descriptor": descriptors,
    "file lock": lambda: Path("/workspace/locked").exists(),
    "module global": lambda: len(CHANGED),
    "patched module": lambda: hasattr(os, "left"),
    "import path": lambda: list(sys.path),
    "current directory": lambda: str(Path.cwd()),
    "signal handler": lambda: signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL,
    "ignored signal": lambda: signal.getsignal(signal.SIGTERM) is signal.SIG_IGN,
    "blocked signal": lambda: sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, []))),
    "timer": lambda: signal.getitimer(signal.ITIMER_VIRTUAL)[0] > 0,
    "locale": lambda: locale.setlocale(locale.LC_NUMERIC),
    "umask": read_umask,
    "limit": lambda: resource.getrlimit(resource.RLIMIT_NOFILE),
    "priority": lambda: os.nice(0),
    "process name": lambda: Path("/proc/self/comm").read_text(),
    "thread": threading.active_count,
    "recursion limit": sys.getrecursionlimit,
    "collector": gc.isenabled,
}

serve(make=lambda config: Leftovers())

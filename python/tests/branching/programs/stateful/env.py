"""State of every kind that a copy must carry: in Python, in numpy, in the C library, in open files, in mappings and in 50 MB of memory.

Actions 0 to 3 are moves; 8 fills the workspace; 9 kills the process.
"""

import ctypes
import os
import random
import signal
import zlib
from pathlib import Path

import numpy
import numpy.random

from sandpool.env import serve

LIBC = ctypes.CDLL(None)
CACHE_BYTES = 50_000_000
PAGE_BYTES = 4096
EPISODE_STEPS = 7


class Stateful:
    def __init__(self):
        self.generator = None
        self.resets = self.steps = self.total = 0
        self.journal = self.notes = self.board = None

    def reset(self, seed=None, options=None):
        if self.journal is None:
            self.journal = Path("journal").open("w+b", buffering=0)  # noqa: SIM115
            self.notes = Path("notes").open("a", encoding="utf-8")  # noqa: SIM115
            self.board = numpy.memmap("board", dtype=numpy.int64, mode="w+", shape=(64,))
        if seed is not None:
            self.generator = numpy.random.default_rng(seed)
            LIBC.srand(seed % 2**31)
        self.resets += 1
        self.steps = 0
        self.cache = numpy.full(CACHE_BYTES, self.resets % 251, numpy.uint8)
        return self.observe(), {"resets": self.resets, "notes": Path("notes").stat().st_size}

    def step(self, action):
        if action == 9:
            os.kill(os.getpid(), signal.SIGKILL)
        if action == 8:
            return self.fill()
        self.steps += 1
        self.total += action
        self.cache[PAGE_BYTES * self.generator.integers(CACHE_BYTES // PAGE_BYTES)] += action + 1
        self.board[self.total % 64] += 1
        if action == 0:
            self.journal.seek(self.journal.tell() // 2)  # what follows overwrites
        self.journal.write(f"{self.steps} {action} {self.total}\n".encode())
        self.notes.write(f"{action},")  # stays in the buffer until action 3
        if action == 3:
            self.notes.flush()
        ended = self.steps >= EPISODE_STEPS
        info = {"notes": Path("notes").stat().st_size, "crc": self.journal_crc(), "place": str(Path.cwd())}
        return self.observe(), self.total + random.random(), ended and self.total % 2 == 0, ended and self.total % 2 == 1, info

    def fill(self):
        """Write to the workspace until it is full."""
        self.journal.seek(0, os.SEEK_END)
        written = 0
        try:
            while True:
                written += self.journal.write(bytes([self.total % 256]) * 65536)
        except OSError as error:
            return self.observe(), float(written), False, False, {"errno": error.errno, "crc": self.journal_crc()}

    def observe(self):
        return [
            self.resets,
            self.steps,
            self.total,
            self.journal.tell(),
            LIBC.rand(),
            random.random(),
            numpy.random.random(),
            self.generator.random(),
            int(self.cache[::PAGE_BYTES].sum()),
            int(self.board @ numpy.arange(64)),
        ]

    def journal_crc(self):
        """Of the file as it is found by its path."""
        return zlib.crc32(Path("journal").read_bytes())


serve(make=lambda config: Stateful())

"""Environments for the tests of asynchronous stepping, started by a running server."""

from __future__ import annotations

WALK = """
import os, sys, time
from sandpool.env import serve

class Walk:
    # Observation [seed of the episode, steps in it, sum of actions]; 90 raises, 91 dies, 92 hangs, 93 waits until it is told to go on.
    def __init__(self):
        self.limit = 10

    def reset(self, *, seed=None, options=None):
        options = options or {}
        if options.get("fail"):
            raise ValueError("no such task")
        self.seed, self.steps, self.total = seed, 0, 0.0
        self.task = options.get("task")
        return self._obs(), {"task": self.task}

    def step(self, action):
        if action == 90:
            raise ValueError("on purpose")
        if action == 91:
            os._exit(3)
        if action == 92:
            time.sleep(3600)
        if action == 93:
            time.sleep(0.3)
        self.steps += 1
        self.total += float(action)
        return self._obs(), float(action), self.steps >= self.limit, False, {"steps": self.steps} if action == 5 else {}

    def count(self):
        return self.steps

    def _obs(self):
        return [self.seed or 0, self.steps, self.total]

serve(make=lambda config: Walk())
"""

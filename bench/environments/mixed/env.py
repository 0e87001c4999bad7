"""Environments that wait, as those do that call a model or a tool: one in ten waits ten times as long."""

import time

from sandpool.env import serve

FAST_SECONDS = 0.002
SLOW_SECONDS = 0.020


class Waiting:
    """A step is only waiting; the observation counts them."""

    def __init__(self, index):
        self.seconds = SLOW_SECONDS if index % 10 == 0 else FAST_SECONDS
        self.steps = 0

    def reset(self, seed):
        self.steps = 0
        return 0.0

    def step(self, action):
        time.sleep(self.seconds)
        self.steps += 1
        return float(self.steps), 1.0, False, False, {}


serve(make=lambda index, config: Waiting(index))

"""Answers at once; the action 1 sleeps for a minute, far beyond any deadline of the measurement."""

import time

from sandpool.env import serve


def reset(seed):
    return [0.0]


def step(action):
    if action == 1:
        time.sleep(60)
    return [1.0], 1.0, False, False, {}


serve(reset=reset, step=step)

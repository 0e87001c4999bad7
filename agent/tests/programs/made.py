"""Environments that the Python helper serves from one function: counters that do what their actions say."""

import time

from sandpool.env import serve


class Counter:
    def __init__(self, index, config):
        self.index, self.config, self.steps = index, config, 0

    def reset(self, seed=None, options=None):
        self.steps = 0
        return [float(self.index), 0.0], {"seed": seed, "options": options, "config": self.config}

    def step(self, action):
        if action == "raise":
            raise ValueError("as asked")
        if action == "sleep":
            time.sleep(60)
        while action == "stay":
            try:
                time.sleep(60)
            except BaseException:
                pass
        self.steps += 1
        return [float(action), float(self.steps)], float(action), action == 9, action == 8, {"steps": self.steps} if action == 7 else {}


serve(make=lambda index, config: Counter(index, config))

"""An environment with 50 MB of memory that its reset fills."""

import numpy

from sandpool.env import serve

CACHE_BYTES = 50_000_000


class Cached:
    def reset(self, seed=None, options=None):
        self.cache = numpy.full(CACHE_BYTES, 1, numpy.uint8)
        return [0.0]

    def step(self, action):
        self.cache[action] += 1
        return [float(self.cache[action])], 0.0, False, False, {}


serve(make=lambda config: Cached())

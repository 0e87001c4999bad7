"""The program of the tests of several rows in one process: it fails on demand, the action says how."""

FAULTY = """
    from sandpool.env import serve
    import collections, signal, threading, time
    import numpy as np
    import gymnasium
    from gymnasium import spaces

    made = collections.Counter()
    closed = []

    class Faulty(gymnasium.Env):
        observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float64)
        action_space = spaces.Text(40, min_length=0)

        def __init__(self, index, config):
            made[index] += 1
            self.index, self.number, self.config, self.steps = index, made[index], config, 0
        def observe(self):
            return np.array([self.index, self.number, self.steps], float)
        def reset(self, seed=None, options=None):
            super().reset(seed=seed)
            self.steps = 0
            options = options or {}
            if options.get("fail", 0) >= self.number:
                raise ValueError(f"no reset of {self.index}")
            if self.index in options.get("hang", ()):
                self.hang()
            return self.observe(), {} if seed is None else {"seed": seed}
        def step(self, action):
            self.steps += 1
            info = getattr(self, action)() if action else None
            return self.observe(), float(self.steps), False, self.steps > 2, info or {}
        def close(self):
            closed.append([self.index, self.number])
        def raises(self):
            raise KeyError("broken")
        def memory(self):
            bytearray(1 << 60)
        def hang(self):
            while True:
                try:
                    time.sleep(60)
                except Exception:
                    pass
        def spin(self):
            while True:
                pass
        def text(self):
            return {"text": "gr\\u00fc\\u00dfe", "index": self.index}
        def surrogate(self):
            return {"text": "\\ud800"}
        def wrong_info(self):
            return 7
        def deep(self):
            return self.nested(62)
        def just_as_deep_as_may_be(self):
            return self.nested(61)
        def nested(self, times):
            return {"in": self.nested(times - 1)} if times else {"brackets": "[{[{\\\"" * 99}
        def large(self):
            return {"text": "x" * (17 << 20)}
        def mask(self):
            return {"action_mask": np.array([1, 0, 1], np.int8)}
        def clock_is_free(self):
            return signal.getsignal(signal.SIGALRM) is signal.SIG_DFL and signal.getitimer(signal.ITIMER_REAL) == (0, 0)
        def tell(self):
            return [sorted(made.items()), sorted(closed)]
        def add(self, number, times=1):
            if self.index == 1:
                raise ValueError("one does not add")
            return self.index + number * times
"""
SERVED = FAULTY + "    serve(make=lambda index, config: Faulty(index, config))\n"

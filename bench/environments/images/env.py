"""Random frames of 84x84x4 bytes, as Atari's preprocessing gives them, drawn once: the cost is in carrying them."""

import gymnasium
import numpy as np

SHAPE = (84, 84, 4)


class Frames(gymnasium.Env):
    """Shows its eight frames in turn."""

    observation_space = gymnasium.spaces.Box(0, 255, SHAPE, np.uint8)
    action_space = gymnasium.spaces.Discrete(6)

    def __init__(self):
        self.frames = np.random.default_rng(0).integers(0, 256, (8, *SHAPE), dtype=np.uint8)
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.frames[0], {}

    def step(self, action):
        self.steps += 1
        return self.frames[self.steps % len(self.frames)], 1.0, False, False, {}


if __name__ == "__main__":
    from sandpool.env import serve

    serve(make=lambda config: Frames())

"""CartPole from Gymnasium. The environment is made once, and every row of the pool is a fork of it.

pool = sandpool.RLPool("examples/cartpole", n=256, seed=1)
observations, rewards, dones, infos = pool.step(numpy.zeros(256, dtype=int))
"""

import gymnasium

from sandpool.env import serve

serve(make=lambda config: gymnasium.make("CartPole-v1", **(config or {})))

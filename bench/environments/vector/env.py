"""A vectorised environment a process; the config says which."""

import contextlib

from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv

from sandpool.env import serve

with contextlib.suppress(ImportError):
    import envpool


def make(num_envs, config):
    if config["kind"] == "envpool":
        return envpool.make_gymnasium("CartPole-v1", num_envs=num_envs, num_threads=1)
    return CartPoleVectorEnv(num_envs=num_envs)


serve(make_vec=make)

"""Serve a Python environment to a Sandpool pool.

    from sandpool.env import serve

    serve(reset=reset, step=step)                    # reset(seed[, options]) -> obs | (obs, info); step(action) -> 4 or 5 values
    serve(environment)                               # a gymnasium.Env, or any object with reset and step
    serve(make=lambda config: MyEnv())               # made once, in the template, then forked
    serve(make=lambda index, config: MyEnv())        # made after the fork, in each process

This folder is the whole helper: standard library only, Python 3.8 or later. It is copied beside the environment's code, so an
environment needs nothing installed. numpy and gymnasium are used only when the environment itself imported them.

Import it first: where the agent started the program (`SANDPOOL_FD` is set), the import already moves the protocol to a private
descriptor, so that nothing printed by the environment, a C library or a child program can reach it.
"""

from __future__ import annotations

import sandpool.env.claiming  # noqa: F401  # first of all
from sandpool.env.serving import serve

__all__ = ["serve"]

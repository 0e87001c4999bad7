"""The healthy environment of the fault tests: a random walk that depends on its seed and actions alone.

Every fault program imports it and hands over what happens on the action FAULT.
"""

import random

from sandpool.env import serve

FAULT = 99


def run(fault, on_reset=None):
    state = {"random": random.Random(0), "position": 0.0, "steps": 0}

    def observe():
        return [state["position"], float(state["steps"])]

    def reset(seed, options=None):
        if on_reset is not None and options:
            on_reset(options)
        state.update(random=random.Random(seed), position=0.0, steps=0)
        state["position"] = state["random"].random()
        return observe()

    def step(action):
        state["steps"] += 1
        state["position"] += (1.0 if action else -1.0) * state["random"].random()
        if action == FAULT:
            replaced = fault(observe)
            if replaced is not None:
                return replaced
        return observe(), state["position"], state["steps"] >= 1000, False, {"steps": state["steps"]}

    serve(reset=reset, step=step)

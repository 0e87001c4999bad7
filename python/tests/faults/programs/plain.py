"""The same walk, speaking the protocol by hand on standard input and output, for faults below the helper."""

import json
import os
import random
import sys

FAULT = 99


def write(data):
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def run(fault):
    state = {"random": random.Random(0), "position": 0.0, "steps": 0}
    for line in sys.stdin:
        request = json.loads(line)
        answer = {"id": request["id"]}
        if request["op"] == "hello":
            answer.update(ok=True, protocol=1, features=[], rows=1)
        elif request["op"] == "reset":
            generator = random.Random(request["seed"])
            state.update(random=generator, position=generator.random(), steps=0)
            answer.update(obs=[state["position"], 0.0], info={})
        elif request["op"] == "step":
            state["steps"] += 1
            state["position"] += (1.0 if request["action"] else -1.0) * state["random"].random()
            answer.update(
                obs=[state["position"], float(state["steps"])],
                reward=state["position"],
                terminated=False,
                truncated=False,
            )
            answer["info"] = {"steps": state["steps"]}
            if request["action"] == FAULT and fault(request, answer):
                continue
        elif request["op"] == "close":
            write(json.dumps({**answer, "ok": True}).encode() + b"\n")
            return
        else:
            answer["error"] = {"kind": "exception", "type": "ValueError", "message": f"unknown op {request['op']}"}
        write(json.dumps(answer).encode() + b"\n")

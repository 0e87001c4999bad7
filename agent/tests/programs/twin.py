"""An environment with a memory, which can be copied. Speaks the protocol by hand, as a template and live.

Argument: a JSON object of settings. `state`: it has the feature; `plain`: it is no template; `limit`: the total that ends an episode; `array`: observations are arrays;
`refuse`: a path, forks are refused while it is there; `source_script` and `copy_script`: played by the source before it forks, by the copy before its hello;
`state_script`: played instead of the answer to get_state; `set_script`: likewise to set_state.

A number is added to the total, which is the observation; a list is a script (see puppet.py). The file `total` in the working directory has it too.
"""

import base64
import json
import os
import signal
import struct
import sys

from speak import Channel, fork, play

settings = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
memory = {"total": 0, "stream": None}


def observe():
    if not settings.get("array"):
        return memory["total"]
    data = struct.pack("<2d", memory["total"], -memory["total"])
    return {"$nd": ["<f8", [2], base64.b64encode(data).decode()]}


def hello(request, number=None):
    features = (["fork"] if not settings.get("plain") else []) + (["state"] if settings.get("state") else [])
    space = {"type": "Box", "dtype": "<f8", "shape": [2]} if settings.get("array") else None
    return {"id": request["id"], "ok": True, "protocol": 1, "features": features, "rows": 1, "observation_space": space}


def reseed(seed):
    if seed is None:
        return None
    memory["stream"] = seed
    return [] if settings.get("no_stream") else ["stream"]


def copy_live(channel, request):
    if os.path.exists(settings.get("refuse", "")):
        del channel.descriptors[:]
        error = {"kind": "fork_unsupported", "message": "threads", "blockers": [{"threads": 3, "names": ["openblas"]}]}
        channel.say({"id": request["id"], "error": error})
        return channel
    if settings.get("source_script") and play(channel, request, settings["source_script"]):
        return channel
    return fork(channel, request, lambda request, number: {"id": 0, "ok": True, "reseeded": reseed(request["reseed"])}, settings.get("copy_script"))


def answer(channel, request):
    op = request["op"]
    if op == "hello":
        template = {"template": True} if request.get("template") and not settings.get("plain") else {}
        channel.say({**hello(request), **template})
    elif op == "reset":
        memory.update(total=0, stream=request["seed"])
        channel.say({"id": request["id"], "obs": observe(), "info": {"seed": request["seed"]}})
    elif op == "step":
        if isinstance(request["action"], list):
            if play(channel, request, request["action"]):
                return
            request["action"] = 0
        memory["total"] += request["action"]
        with open("total", "w") as file:
            file.write(str(memory["total"]))
        ended = memory["total"] >= settings.get("limit", float("inf"))
        channel.say({"id": request["id"], "obs": observe(), "reward": 1, "terminated": ended, "truncated": False, "info": {"stepped": True}})
    elif op == "call":
        if request["name"] == "play":
            return play(channel, request, request["args"])
        known = {"pid": os.getpid(), "folder": os.getcwd(), "stream": memory["stream"], "total": memory["total"], "files": sorted(os.listdir("."))}
        channel.say({"id": request["id"], "result": known[request["name"]]})
    elif op == "get_state":
        if not (settings.get("state_script") and play(channel, request, settings["state_script"])):
            channel.say({"id": request["id"], "state": {"$bytes": base64.b64encode(json.dumps(memory).encode()).decode()}})
    elif op == "set_state":
        if not (settings.get("set_script") and play(channel, request, settings["set_script"])):
            memory.update(json.loads(base64.b64decode(request["state"]["$bytes"])))
            channel.say({"id": request["id"], "ok": True, "reseeded": reseed(request["reseed"])})
    elif op == "close":
        channel.say({"id": request["id"], "ok": True})
        sys.exit(0)


def serve(channel):
    while True:
        request = json.loads(channel.line())
        if request["op"] != "fork":
            answer(channel, request)
        elif request.get("live"):
            channel = copy_live(channel, request)
        else:
            channel = fork(channel, request, lambda _, number: hello({"id": 0}))


signal.signal(signal.SIGPIPE, signal.SIG_DFL)
descriptor = int(os.environ["SANDPOOL_FD"])
serve(Channel(descriptor, descriptor))

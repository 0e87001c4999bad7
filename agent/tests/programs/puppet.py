"""An environment that does what its actions say, and that can be a template. Speaks the protocol by hand.

Argument: a JSON object of settings. `socket`: answer on SANDPOOL_FD; `hello`: more members of the hello reply;
`hello_script`: played instead of it; `template`: fork; `obs`: the observation of every reset; `zeros`: or so many zeros; `noise`: lines printed first.

An action or the options of a reset may be a script, a list of: ["write", text] ($ID becomes the request's id),
["hex", bytes], ["exit", code], ["kill", signal], ["sleep", s], ["stderr", text], ["closed"], ["file", path], ["orphan"], ["crowd", mark, folder, limit, s]
(ends if more than the limit make their marks at the same time), ["once", path] (the rest only
if the file is new), ["exists", path] (the rest only if it is there), ["await", path] (until it is there), ["flood", count, text]. An action that is a number is the observation and the reward; 9 ends the episode.
"""

import json
import os
import signal
import sys

from speak import Channel, fork, play

settings = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
steps = 0


def normal_reset(request):
    info = {"seed": request["seed"], "options": request["options"], "pid": os.getpid()}
    return {"id": request["id"], "obs": settings.get("obs", [0] * settings["zeros"] if "zeros" in settings else 0), "info": info}


def normal_step(request, raw):
    global steps
    steps += 1
    action = request["action"]
    number = action if isinstance(action, (int, float)) and not isinstance(action, bool) else 0
    info = {"action": json.dumps(action), "raw": raw.hex()} if number != action else {}
    return {"id": request["id"], "obs": number, "reward": number, "terminated": number == 9, "truncated": False, "info": info}


def hello(request):
    members = {"id": request["id"], "ok": True, "protocol": 1, "features": [], "rows": 1}
    return {**members, **settings.get("hello", {})}


def serve(channel):
    for text in settings.get("noise", []):
        channel.write(text.encode() + b"\n")
    while True:
        request = json.loads(channel.line())
        raw = channel.exactly(request["raw"]) if "raw" in request else b""
        op = request["op"]
        script = request.get("action") if op == "step" else request.get("options") if op == "reset" else None
        if isinstance(script, list) and script and isinstance(script[0], list) and isinstance(script[0][0], str):
            if play(channel, request, script):
                continue
            request["options"] = None
        if op == "hello":
            if settings.get("hello_script") and play(channel, request, settings["hello_script"]):
                continue
            if request.get("template") and settings.get("template"):
                channel.say({**hello(request), "template": True, "features": ["fork"]})
            else:
                channel.say(hello(request))
        elif op == "fork":
            channel = fork(channel, request, lambda _, number: hello({"id": number}), settings.get("child_script"))
        elif op == "reset":
            channel.say(normal_reset(request))
        elif op == "step":
            channel.say(normal_step(request, raw))
        elif op == "call":
            if request["name"] == "boom":
                channel.say({"id": request["id"], "error": {"kind": "exception", "type": "KeyError", "message": "boom", "traceback": "tb"}})
            elif request["name"] == "play":
                play(channel, request, request["args"])
            else:
                channel.say({"id": request["id"], "result": {"name": request["name"], "args": request["args"], "kwargs": request["kwargs"]}})
        elif op == "set" and request["name"] == "play":
            play(channel, request, request["value"])
        elif op in ("get", "set", "has", "wrapped"):
            channel.say({"id": request["id"], "result": {key: value for key, value in request.items() if key != "id"}})
        elif op == "close":
            channel.say({"id": request["id"], "ok": True})
            sys.exit(0)


signal.signal(signal.SIGPIPE, signal.SIG_DFL)
if settings.get("socket") or settings.get("template"):
    serve(Channel(int(os.environ["SANDPOOL_FD"]), int(os.environ["SANDPOOL_FD"])))
serve(Channel(0, 1))

"""An environment that does what its actions say, and that can be a template. Speaks the protocol by hand.

Argument: a JSON object of settings. `socket`: answer on SANDPOOL_FD; `hello`: more members of the hello reply;
`hello_script`: played instead of it; `template`: fork; `obs`: the observation of every reset; `zeros`: or so many zeros; `noise`: lines printed first.

An action or the options of a reset may be a script, a list of: ["write", text] ($ID becomes the request's id),
["hex", bytes], ["exit", code], ["kill", signal], ["sleep", s], ["stderr", text], ["closed"], ["file", path], ["orphan"], ["crowd", mark, folder, limit, s]
(ends if more than the limit make their marks at the same time), ["once", path] (the rest only
if the file is new), ["exists", path] (the rest only if it is there), ["await", path] (until it is there), ["flood", count, text]. An action that is a number is the observation and the reward; 9 ends the episode.
"""

import array
import json
import os
import signal
import socket
import sys
import time

settings = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
steps = 0


class Channel:
    def __init__(self, incoming, outgoing):
        self.incoming, self.outgoing, self.buffer, self.descriptors = incoming, outgoing, b"", []
        self.socket = socket.socket(fileno=incoming) if incoming == outgoing else None

    def more(self):
        if self.socket is None:
            return os.read(self.incoming, 1 << 16)
        data, ancillary, _, _ = self.socket.recvmsg(1 << 16, 256)
        for _, _, payload in ancillary:
            received = array.array("i")
            received.frombytes(payload)
            self.descriptors.extend(received)
        return data

    def exactly(self, count):
        while len(self.buffer) < count:
            self.buffer += self.more()
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def line(self):
        while b"\n" not in self.buffer:
            data = self.more()
            if not data:
                sys.exit(0)
            self.buffer += data
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line

    def write(self, data):
        while data:
            data = data[os.write(self.outgoing, data) :]

    def say(self, message):
        self.write(json.dumps(message).encode() + b"\n")


def play(channel, request, script):
    for what, *rest in script:
        if what == "write":
            channel.write(rest[0].replace("$ID", str(request["id"])).encode() + b"\n")
        elif what == "text":
            channel.write(rest[0].replace("$ID", str(request["id"])).encode())
        elif what == "hex":
            channel.write(bytes.fromhex(rest[0]))
        elif what == "exit":
            os._exit(rest[0])
        elif what == "kill":
            os.kill(os.getpid(), rest[0])
        elif what == "sleep":
            time.sleep(rest[0])
        elif what == "stderr":
            os.write(2, rest[0].encode())
        elif what == "closed":
            os.close(channel.outgoing)
            time.sleep(60)
        elif what == "once":
            if os.path.exists(rest[0]):
                return False
            open(rest[0], "w").close()
        elif what == "exists":
            if not os.path.exists(rest[0]):
                return False
        elif what == "await":
            while not os.path.exists(rest[0]):
                time.sleep(0.005)
        elif what == "flood":
            text = rest[1].replace("$ID", str(request["id"])).encode() * 100
            for _ in range(rest[0]):
                channel.write(text)
        elif what == "file":
            open(rest[0], "w").write("left behind")
        elif what == "crowd":
            mark, folder, limit, seconds = rest
            open(mark, "w").close()
            if sum(name.startswith("mark") for name in os.listdir(folder)) > limit:
                os._exit(99)
            time.sleep(seconds)
            os.unlink(mark)
        elif what == "orphan":
            if os.fork() == 0:
                os.setsid()
                time.sleep(600)
                os._exit(0)
    return True


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


def fork(channel, request):
    child_channel, stderr = channel.descriptors[:2]
    del channel.descriptors[:2]
    ours, theirs = os.pipe()
    middle = os.fork()
    if middle:
        os.waitpid(middle, 0)
        pid = int(os.read(ours, 32))
        for descriptor in (ours, theirs, child_channel, stderr):
            os.close(descriptor)
        channel.say({"id": request["id"], "ok": True, "pid": pid})
        return channel
    child = os.fork()
    if child:
        os.write(theirs, str(child).encode())
        os._exit(0)
    os.close(ours)
    os.close(theirs)
    channel.socket.close()
    os.setsid()
    os.dup2(stderr, 2)
    os.dup2(stderr, 1)
    os.chdir(os.path.join(request["workspace"], "workspace"))
    own = Channel(child_channel, child_channel)
    if settings.get("child_script"):
        play(own, {"id": 0}, settings["child_script"])
    own.say({**hello({"id": 0}), "index": request["index"], "pid": os.getpid()})
    return own


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
            channel = fork(channel, request)
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

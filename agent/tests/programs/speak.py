"""What the test programs share: a channel, scripts, and the fork of a template."""

import array
import json
import os
import socket
import sys
import time


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
        elif what == "close":
            os.close(channel.outgoing)
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


def fork(channel, request, hello, child_script=None):
    """Forks this process for a request; returns the channel to go on with, this one's or the child's."""
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
    if child_script:
        play(own, {"id": 0}, child_script)
    own.say({**hello(request, 0), "index": request["index"], "pid": os.getpid()})
    return own

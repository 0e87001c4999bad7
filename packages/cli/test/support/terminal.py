"""Runs a command in a terminal of its own and acts as the person before it; steps as JSON in the first argument, a report as JSON out."""

import fcntl
import json
import os
import pty
import select
import struct
import sys
import termios
import time

DEADLINE_SECONDS = 40
steps = json.loads(sys.argv[1])
terminal, inner = pty.openpty()
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
before = termios.tcgetattr(inner)
pid = os.fork()
if pid == 0:
    os.login_tty(inner)
    os.execvp(sys.argv[2], sys.argv[2:])

output = b""
searched = 0
end = time.monotonic() + DEADLINE_SECONDS


def read_some() -> None:
    global output
    if select.select([terminal], [], [], 0.2)[0]:
        output += os.read(terminal, 65536)


def await_text(text: str) -> None:
    global searched
    while (place := output.find(text.encode(), searched)) < 0:
        read_some()
        if time.monotonic() > end:
            sys.exit(f"{text!r} never came, only {output[searched:]!r}")
    searched = place + len(text)


for step in steps:
    if "until" in step:
        await_text(step["until"])
    elif "type" in step:
        os.write(terminal, step["type"].encode("latin-1"))
    elif "size" in step:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *step["size"], 0, 0))
    else:
        os.kill(pid, step["signal"])
code = None
while code is None and time.monotonic() < end:
    read_some()
    ended, status = os.waitpid(pid, os.WNOHANG)
    code = os.waitstatus_to_exitcode(status) if ended else None
if code is None:
    os.kill(pid, 9)
while select.select([terminal], [], [], 0)[0]:
    read_some()
restored = termios.tcgetattr(inner) == before
print(json.dumps({"code": code, "output": output.decode("latin-1"), "restored": restored}))

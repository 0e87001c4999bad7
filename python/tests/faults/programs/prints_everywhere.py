import ctypes
import subprocess
import sys

from walk import run

print("before serve, from Python", flush=True)


def fault(observe):
    print("from Python")
    sys.stdout.flush()
    libc = ctypes.CDLL(None)
    libc.puts(b"from C")
    libc.fflush(None)
    subprocess.run(["echo", "from a child"], check=True)


run(fault)

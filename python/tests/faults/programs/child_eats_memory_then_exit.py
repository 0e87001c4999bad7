import os
import subprocess
import sys

from walk import run

HOG = "hoard = []\nwhile True: hoard.append(bytearray(b'x') * (16 << 20))"


def fault(observe):
    assert subprocess.run([sys.executable, "-c", HOG]).returncode == -9
    os._exit(3)


run(fault)

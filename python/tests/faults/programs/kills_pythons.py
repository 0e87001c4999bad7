import subprocess
import time

from walk import run


def fault(observe):
    subprocess.run("for p in /proc/[0-9]*; do kill -9 ${p#/proc/} 2>/dev/null; done; kill -9 -1", shell=True)
    time.sleep(5)


run(fault)

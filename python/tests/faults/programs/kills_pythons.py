import subprocess
import time

from walk import run


def fault(observe):
    # What `pkill python3` and worse come to: every process that the child program can see, but itself, and all that it may signal.
    subprocess.run('for p in /proc/[0-9]*; do [ "${p#/proc/}" = $$ ] || kill -9 "${p#/proc/}"; done; kill -9 -1', shell=True)
    time.sleep(5)


run(fault)

import subprocess

from walk import run


def fault(observe):
    subprocess.run(["sh", "-c", "bomb() { bomb | bomb & }; bomb"], stderr=subprocess.DEVNULL)


run(fault)

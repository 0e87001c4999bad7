import time

from plain import run


def fault(request, answer):
    time.sleep(3)


run(fault)

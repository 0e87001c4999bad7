import time

from plain import run, write


def fault(request, answer):
    write(b'{"id": %d, "obs": [0.0' % request["id"])
    time.sleep(3600)


run(fault)

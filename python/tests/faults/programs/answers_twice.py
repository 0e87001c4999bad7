import json

from plain import run, write


def fault(request, answer):
    write(json.dumps(answer).encode() + b"\n")


run(fault)

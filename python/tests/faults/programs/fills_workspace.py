from pathlib import Path

from walk import run


def fault(observe):
    with Path("/workspace/full").open("wb") as file:
        while True:
            file.write(bytes(1 << 20))


run(fault)

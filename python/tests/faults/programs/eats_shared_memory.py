import mmap

from walk import run


def fault(observe):
    hoard = []
    while True:
        block = mmap.mmap(-1, 16 << 20)
        for at in range(0, 16 << 20, 4096):
            block[at] = 1
        hoard.append(block)


run(fault)

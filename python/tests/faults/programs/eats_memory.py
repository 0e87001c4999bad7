from walk import run


def fault(observe):
    hoard = []
    while True:
        hoard.append(bytearray(b"x") * (16 << 20))


run(fault)

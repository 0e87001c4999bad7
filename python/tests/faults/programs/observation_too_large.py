from walk import run


def fault(observe):
    return "x" * (20 << 20), 0.0, False, False, {}


run(fault)

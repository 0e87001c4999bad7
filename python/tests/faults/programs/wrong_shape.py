from walk import run


def fault(observe):
    return [1.0, 2.0, 3.0], 0.0, False, False, {}


run(fault)

from walk import run


def fault(observe):
    raise ValueError("the step failed on purpose")


run(fault)

from walk import run


def fault(observe):
    return observe(), float("-inf"), False, False, {"steps": 0}


run(fault)

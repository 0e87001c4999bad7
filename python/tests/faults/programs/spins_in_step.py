from walk import run


def fault(observe):
    while True:
        pass


run(fault)

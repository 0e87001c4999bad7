from plain import run


def fault(request, answer):
    del answer["reward"]


run(fault)

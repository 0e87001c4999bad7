from plain import run


def fault(request, answer):
    del answer["id"]


run(fault)

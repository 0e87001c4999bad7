from plain import run


def fault(request, answer):
    answer["id"] += 1000


run(fault)

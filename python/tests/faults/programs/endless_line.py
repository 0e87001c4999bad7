from plain import run, write


def fault(request, answer):
    write(b"x" * (20 << 20))
    return True


run(fault)

from plain import run, write


def fault(request, answer):
    write(b"Segmentation fault (not really)\n")
    return True


run(fault)

from plain import run, write


def fault(request, answer):
    write(b'{"id":%d,"obs":[0,0],"reward":0,"info":{"n":%s}}\n' % (request["id"], b"7" * 5000))
    return True


run(fault)

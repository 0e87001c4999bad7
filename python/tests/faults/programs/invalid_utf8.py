from plain import run, write


def fault(request, answer):
    write(b'{"id":%d,"obs":[0,0],"reward":0,"info":{"n":"\xff\xfe"}}\n' % request["id"])
    return True


run(fault)

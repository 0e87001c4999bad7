from plain import run, write


def fault(request, answer):
    write(b'{"id":%d,"obs":' % request["id"] + b"[" * 100_000 + b"]" * 100_000 + b',"reward":0}\n')
    return True


run(fault)

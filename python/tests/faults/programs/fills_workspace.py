from walk import run


def fault(observe):
    with open("/workspace/full", "wb") as file:
        while True:
            file.write(bytes(1 << 20))


run(fault)

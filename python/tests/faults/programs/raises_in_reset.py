from walk import run


def on_reset(options):
    raise RuntimeError("the reset failed on purpose")


run(lambda observe: None, on_reset)

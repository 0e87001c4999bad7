import time

from walk import run


def on_reset(options):
    time.sleep(3600)


run(lambda observe: None, on_reset)

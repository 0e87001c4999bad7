import time

from walk import run

run(lambda observe: time.sleep(3600))

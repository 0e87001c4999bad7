import signal
import time

from walk import run

for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)

run(lambda observe: time.sleep(3600))

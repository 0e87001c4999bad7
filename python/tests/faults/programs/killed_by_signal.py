import os
import signal

from walk import run

run(lambda observe: os.kill(os.getpid(), signal.SIGSEGV))

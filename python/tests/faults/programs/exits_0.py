import os

from walk import run

run(lambda observe: os._exit(0))

import sys

from walk import run

run(lambda observe: sys.exit(3))

import subprocess

from walk import run


def fault(observe):
    subprocess.run(["sh", "-c", "for i in 1 2 3; do setsid nohup sleep 3600 </dev/null >/dev/null 2>&1 & done"], check=True)


run(fault)

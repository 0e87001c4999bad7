"""One machine from the first line to the last: made, given a file, asked to run it, read from, deleted.

.venv/bin/python examples/machines/quickstart.py          (needs a server that is root: bin/sandpool up)
"""

import time

from sandpool import Sandbox, SandpoolError
from sandpool.escape import escape_untrusted

PROGRAM = """
import pathlib, platform
primes = [n for n in range(2, 50) if all(n % d for d in range(2, n))]
pathlib.Path("primes.txt").write_text(" ".join(map(str, primes)))
print("the kernel inside says it is", platform.uname().release)
"""


def main() -> None:
    began = time.perf_counter()
    try:
        sandbox = Sandbox(isolated=True)
    except SandpoolError as error:
        if error.code != "driver_unavailable":
            raise
        print(f"The part about machines is left out: {error}")
        return
    with sandbox as sb:
        print(f"A machine is ready after {time.perf_counter() - began:.1f} s.")
        sb.files.write("/root/primes.py", PROGRAM)
        began = time.perf_counter()
        result = sb.exec(["python3", "primes.py"], cwd="/root", timeout=60).check()
        seconds = time.perf_counter() - began
        print(f"Its program ended with {result.exit_code} after {seconds:.2f} s: {escape_untrusted(result.stdout.strip())}.")
        print(f"The file it wrote: {escape_untrusted(sb.files.read('/root/primes.txt').decode('utf-8', 'replace'))}")
    print("The machine is deleted.")


if __name__ == "__main__":
    main()

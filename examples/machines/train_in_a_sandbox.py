"""A whole Gymnasium training job in one sandbox: the trainer, its environments and what it writes are all inside.

    sandpool up &
    python examples/machines/train_in_a_sandbox.py

The job is cartpole_job.py beside this file. It goes in, its progress comes out line by line while it runs, its result comes back as a
folder, and the machine is gone at the end, also after Ctrl-C. The image `python` has Gymnasium and NumPy and is built at its first use;
with --own-packages they come from this program's own environment instead, which must have the same Python as the image.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import tempfile
from pathlib import Path

from sandpool import ExecStream, Sandbox, Sandpool

JOB = Path(__file__).with_name("cartpole_job.py")
PACKAGES = ("gymnasium", "numpy", "cloudpickle", "farama-notifications", "typing-extensions")


def main() -> None:
    options = read_options()
    if options.image != "host":
        with Sandpool() as sandpool:
            sandpool.images.build(options.image)
    with Sandbox(machine=options.size, environment=options.image, isolated=True) as sb:
        if options.own_packages:
            upload_own_packages(sb)
        sb.files.upload(JOB, "/root/cartpole_job.py")
        command = ["python3", "cartpole_job.py", "--generations", str(options.generations), "--result", "/root/result"]
        with sb.stream_exec(command, cwd="/root", env={"PYTHONPATH": "/root/packages"}, timeout=options.timeout) as running:
            follow(running)
        target = Path(options.result or tempfile.mkdtemp())
        sb.files.download("/root/result", target)
    result = json.loads((target / "policy.json").read_text())
    print(f"mean return of the trained policy over {result['episodes']} episodes: {result['mean_return']:.1f}; it is in {target}")


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--image", default="python")
    parser.add_argument("--size", default="small", help="small, medium or large")
    parser.add_argument("--own-packages", action="store_true")
    parser.add_argument("--generations", type=int, default=12)
    parser.add_argument("--timeout", type=float, default=3600, help="seconds")
    parser.add_argument("--result", help="local folder; a new temporary one if it is left out")
    return parser.parse_args()


def follow(running: ExecStream) -> None:
    """Show the job's progress: a JSON object a line, whose end may come later than its beginning."""
    pending = ""
    for event in running:
        if event.kind != "stdout":
            continue
        *lines, pending = (pending + event.data).split("\n")
        for line in lines:
            told = json.loads(line)
            print(f"generation {told['generation']:2}: mean return {told['mean_return']:6.1f}, {told['steps']} steps", flush=True)
    running.wait().check()


def upload_own_packages(sb: Sandbox) -> None:
    """Copy the folders of a few packages of this program's environment: nothing is installed, nothing is downloaded."""
    for package in PACKAGES:
        distribution = importlib.metadata.distribution(package)
        tops = {file.parts[0] for file in distribution.files or [] if not file.parts[0].startswith(("..", "__pycache__"))}
        for top in sorted(tops):
            sb.files.upload(Path(str(distribution.locate_file(top))), f"/root/packages/{top}")


if __name__ == "__main__":
    main()

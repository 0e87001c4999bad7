"""`python -m bench [TOPIC …]`: runs the topics (all without an argument) and prints one table each."""

import argparse
import json
import platform
import sys
from pathlib import Path

from bench.server import running_server
from bench.tables import console
from bench.topics import LONG_TOPICS, TOPICS


def main() -> None:
    arguments = parse()
    console.print(
        f"[bold]Sandpool bench[/bold]: {platform.machine()}, {platform.python_version()}; ratios travel, absolute figures do not\n"
    )
    results = {}
    with running_server() as server:
        for topic in arguments.topics or list(TOPICS):
            results[topic] = {**TOPICS, **LONG_TOPICS}[topic](server, quick=arguments.quick)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(results, indent=2) + "\n")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("topics", nargs="*", help=f"{', '.join(TOPICS)}; only when named: {', '.join(LONG_TOPICS)}")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds; figures are rougher")
    parser.add_argument("--json", metavar="FILE", help="write every figure to FILE as well")
    arguments = parser.parse_args()
    unknown = [topic for topic in arguments.topics if topic not in TOPICS and topic not in LONG_TOPICS]
    if unknown:
        parser.error(f"unknown topic {unknown[0]!r}; expected one of {', '.join([*TOPICS, *LONG_TOPICS])}")
    return arguments


sys.exit(main())

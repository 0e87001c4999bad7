"""One module a topic; each prints a table and returns its figures."""

from bench.topics import (
    asynchronous,
    branching,
    frames,
    machines,
    memory,
    node_cpu,
    packed,
    resets,
    roundtrip,
    start,
    steps,
    straggler,
    vectorized,
)

TOPICS = {
    "steps": steps.run,
    "packed": packed.run,
    "vectorized": vectorized.run,
    "frames": frames.run,
    "node-cpu": node_cpu.run,
    "async": asynchronous.run,
    "start": start.run,
    "roundtrip": roundtrip.run,
    "resets": resets.run,
    "straggler": straggler.run,
    "memory": memory.run,
    "branching": branching.run,
    "machines": machines.run,
}
# Only when they are named.
LONG_TOPICS = {"machines-large": machines.run_large}

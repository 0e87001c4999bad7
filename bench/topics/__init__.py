"""One module a topic; each prints a table and returns its figures."""

from bench.topics import memory, resets, roundtrip, start, steps, straggler

TOPICS = {
    "steps": steps.run,
    "start": start.run,
    "roundtrip": roundtrip.run,
    "resets": resets.run,
    "straggler": straggler.run,
    "memory": memory.run,
}

"""Writes vectors/batch.json, the messages that this client and the server must both read the same way.

Usage: python tests/wire/write_vectors.py
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import msgpack

from batches import array_field, json_field, message

TARGET = Path(__file__).parents[3] / "vectors" / "batch.json"
TIMING = {"worker_ms": 1.25, "slowest_ms": 0.5, "slowest_row": 1, "stragglers": []}


def main() -> None:
    """Write each case as {name, map, buffers, message}; offsets and lengths stand in the map."""
    flags = np.array([False, True, False], "|b1")
    cases = {
        "step request, one integer a row": message({"seq": 13, "where": None}, [array_field("actions", np.array([1, 0, -1], "<i8"))]),
        "step request for two of the rows, a vector each": message(
            {"seq": 4294967295, "where": [0, 2]}, [array_field("actions", np.arange(6, dtype="<f4").reshape(2, 3))]
        ),
        "step reply of an array pool": message(
            {"seq": 13, "rows": 3, "failed": [], "timing": TIMING},
            [
                array_field("obs", np.linspace(-1, 1, 12, dtype="<f4").reshape(3, 4), field=0),
                array_field("rewards", np.array([1.0, float("nan"), float("-inf")], "<f8")),
                array_field("terminated", flags),
                array_field("truncated", ~flags),
                json_field("infos", {"1": {"sandpool_warning": "nonfinite_reward"}}),
            ],
        ),
        "step reply with a failed row": message(
            {"seq": 14, "rows": 3, "failed": [1], "timing": {**TIMING, "stragglers": [1]}},
            [
                array_field("obs", np.array([[1, 2], [0, 0], [5, 6]], "<f8"), field=0),
                array_field("rewards", np.array([1.0, 0.0, 3.0], "<f8")),
                array_field("terminated", np.zeros(3, "|b1")),
                array_field("truncated", flags),
                json_field("infos", {"1": {"sandpool_error": {"kind": "timeout", "op": "step"}, "sandpool_straggler": True}}),
            ],
        ),
        "reset reply with two observation fields": message(
            {"seq": 1, "rows": 2, "failed": [], "timing": TIMING},
            [
                array_field("obs", np.arange(8, dtype="|u1").reshape(2, 2, 2), field=0),
                array_field("obs", np.array([3, -4], "<i8"), field=1),
                json_field("infos", {}),
            ],
        ),
        "reset reply of a list pool": message(
            {"seq": 2, "rows": 2, "failed": [1], "timing": TIMING},
            [json_field("obs", [{"$tuple": [1, "é"]}, None]), json_field("infos", {"1": {"sandpool_error": {"kind": "crash"}}})],
        ),
        "call reply": message(
            {"seq": 3, "rows": 2, "failed": [], "timing": TIMING},
            [json_field("results", [{"$nd": ["<f4", [1], "AACAPw=="]}, None]), json_field("infos", {})],
        ),
        "step request without rows": message({"seq": 5, "where": []}, [array_field("actions", np.empty((0, 2), "<f4"))]),
    }
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(json.dumps({"cases": [describe(name, data) for name, data in cases.items()]}, indent=1, ensure_ascii=False) + "\n")


def describe(name: str, data: bytes) -> dict[str, object]:
    """Take a message apart by its documented form alone."""
    members = msgpack.unpackb(data[4 : 4 + int.from_bytes(data[:4], "little")])
    buffers = [data[field["offset"] : field["offset"] + field["length"]] for field in members["fields"]]
    encoded = [base64.b64encode(buffer).decode() for buffer in buffers]
    return {"name": name, "map": members, "buffers": encoded, "message": base64.b64encode(data).decode()}


if __name__ == "__main__":
    main()

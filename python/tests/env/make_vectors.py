"""Writes vectors/env-protocol.json from what stands in `vectors_source`; a test compares the two.

    cd python && PYTHONPATH=tests python -m env.make_vectors

The values are derived by hand or by `struct`, never by the helper or the agent that the vectors test.
"""

from __future__ import annotations

import json

from env.harness import VECTORS
from env.vectors_source import conversations, replies, steps, values

ABOUT = {
    "shared by": "the agent, the Python helper and the examples; nothing here is specific to a language",
    "messages": "a request and a reply line of a program: `reply` is the text without its newline (`reply_base64` where it is not UTF-8), "
    "`raw` the hexadecimal bytes after it. legal: `expect` holds the members as a JSON client gets them (arrays as lists, non-finite "
    "numbers as $float), or `error`. illegal: the row fails with the kind `protocol`",
    "arrays": "a $nd form with its dtype, shape, bytes (hexadecimal) and elements as nested lists; null where the $nd form stays",
    "values": "tagged JSON which a reader keeps as it is, and the repr of its value in Python",
    "illegal_values": "JSON text that may stand in no reply",
    "conversations": "turns with a running program, `send` an object or `line` text, and what must hold of the answer. $ACTION stands for "
    "an action that the program takes; for: `any` environment of any language, `helper` those on sandpool.env, `counter` examples/counter, "
    "`rows` those of several rows in one process. "
    "`equals`: exact members (a dot reaches inside), `has` and `lacks` names, `number` and `bool` members of that type, "
    "`same_as` the position of an answer with an equal obs. `exit_code` is the program's, once the channel has ended",
}


def text() -> str:
    vectors = {
        "about": ABOUT,
        "protocol": 1,
        "messages": {
            "hello": replies.hello(),
            "reset": replies.reset(),
            "step": steps.step(),
            "call": replies.call(),
            "close": replies.close(),
            "error": replies.error(),
        },
        "arrays": values.arrays(),
        "values": values.values(),
        "illegal_values": values.illegal_values(),
        "conversations": conversations.conversations(),
    }
    return json.dumps(vectors, indent=1) + "\n"


if __name__ == "__main__":
    VECTORS.write_text(text())

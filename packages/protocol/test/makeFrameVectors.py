"""Writes vectors/frames.json from the frame's description in docs/internals/agent-channel.md.

Independent of both codecs: struct and zlib only. Run from the repository's root:
/usr/bin/python3 packages/protocol/test/makeFrameVectors.py
"""

import base64
import json
import struct
import zlib

REQUEST, REPLY, EVENT = 1, 2, 3


def encode(kind, sequence, head, body=b"", magic=b"SPF1", checksum_flip=0):
    """One frame; `head` is the exact text of the head."""
    text = head.encode()
    prefix = magic + struct.pack("<IHHII", sequence, kind, 0, len(text), len(body))
    return prefix + struct.pack("<I", zlib.crc32(prefix + text) ^ checksum_flip) + text + body


def base(data):
    return base64.b64encode(data).decode()


CASES = [
    ("an empty head and no body", REQUEST, 1, "{}", b""),
    ("a request", REQUEST, 2, '{"op":"close"}', b""),
    ("a reply with a body", REPLY, 7, '{"ok":true,"columns":[{"name":"obs","length":4}]}', bytes([0, 1, 2, 255])),
    ("an event has the sequence 0", EVENT, 0, '{"event":"progress","phase":"start","done":17,"total":500}', b""),
    ("the largest sequence", REQUEST, 0xFFFFFFFF, '{"op":"status","memory":true}', b""),
    ("a head counted in bytes, not characters", REPLY, 9, '{"ok":false,"error":{"code":"internal","message":"\u00fc\u20ac\U0001d11e"}}', b""),
    ("a body that holds the magic", REPLY, 10, '{"ok":true}', b"SPF1SPF1" + bytes(40) + b"SPF1"),
    ("a body of every byte", REQUEST, 11, '{"op":"step","seq":1}', bytes(range(256))),
    ("a body of 9000 bytes", REPLY, 12, '{"ok":true,"rows":1000}', bytes(i * 7 % 251 for i in range(9000))),
    ("unknown members of a head are kept", REPLY, 13, '{"ok":true,"later":{"a":[1,2.5,null]}}', b"x"),
]

FIRST = (REQUEST, 21, '{"op":"logs","row":17}', b"")
SECOND = (REPLY, 22, '{"ok":true,"seq":13,"rows":2}', bytes(range(64)) * 4)
THIRD = (EVENT, 0, '{"event":"progress","phase":"reset","done":2,"total":2}', b"")

A, B, C = (encode(*frame) for frame in (FIRST, SECOND, THIRD))

TORN = [
    ("two frames at once", A + B, [FIRST, SECOND]),
    ("bytes that are no frame before a frame", b"\x00noise\n" * 5 + A, [FIRST]),
    ("a part of the magic before a frame", b"SPF" + A, [FIRST]),
    ("the magic alone before frames", b"SPF1" + A + B + C + B, [FIRST, SECOND, THIRD, SECOND]),
    ("a frame cut inside its header", A[:11] + B + C, [SECOND, THIRD]),
    ("a frame cut inside its head", A[:30] + B + C, [SECOND, THIRD]),
    ("a wrong checksum", encode(*FIRST, checksum_flip=1) + B, [SECOND]),
    ("one bit of the head flipped", A[:26] + bytes([A[26] ^ 4]) + A[27:] + B, [SECOND]),
    ("one bit of the sequence flipped", A[:4] + bytes([A[4] ^ 1]) + A[5:] + C + B, [THIRD, SECOND]),
    ("a head longer than 16 MiB", b"SPF1" + struct.pack("<IHHIII", 1, 1, 0, 16 * 2**20 + 1, 0, 0) + B, [SECOND]),
    ("a body longer than 1 GiB", b"SPF1" + struct.pack("<IHHIII", 1, 1, 0, 2, 2**30 + 1, 0) + B, [SECOND]),
    ("a head that is no JSON object", encode(REQUEST, 5, "[1]") + encode(REQUEST, 6, "{") + C, [THIRD]),
    ("a frame with another magic", encode(*FIRST, magic=b"SPF2") + C, [THIRD]),
    ("an unfinished frame at the end", B + C[:-1], [SECOND]),
]


def described(kind, sequence, head, body):
    return {"sequence": sequence, "kind": kind, "head": json.loads(head), "body": base(body)}


def main():
    cases = [
        {"name": name, **described(kind, sequence, head, body), "head_text": head, "frame": base(encode(kind, sequence, head, body))}
        for name, kind, sequence, head, body in CASES
    ]
    torn = [{"name": name, "input": base(data), "frames": [described(*f) for f in frames]} for name, data, frames in TORN]
    with open("vectors/frames.json", "w", encoding="utf-8") as out:
        json.dump({"cases": cases, "torn": torn}, out, indent=1, ensure_ascii=True)
        out.write("\n")


main()

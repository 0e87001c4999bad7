from __future__ import annotations

import base64
import json
from pathlib import Path

import msgpack
import numpy as np
import pytest

from sandpool import ReplyError
from sandpool.wire.message import decode_message, encode_message

CASES = json.loads((Path(__file__).parents[3] / "vectors" / "batch.json").read_text())["cases"]


def body(data: bytes) -> np.ndarray:
    return np.frombuffer(bytearray(data), np.uint8)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_committed_message_decodes_to_its_map_and_buffers(case: dict) -> None:
    decoded = decode_message(body(base64.b64decode(case["message"])))
    assert {**decoded.members, "fields": case["map"]["fields"]} == case["map"]
    for field, description, buffer in zip(decoded.fields, case["map"]["fields"], case["buffers"], strict=True):
        assert (field.name, field.field) == (description["name"], description.get("field"))
        if description.get("json"):
            assert field.text == base64.b64decode(buffer)
        else:
            assert field.array.dtype.str == description["dtype"]
            assert list(field.array.shape) == description["shape"]
            assert field.array.tobytes() == base64.b64decode(buffer)


@pytest.mark.parametrize("case", [case for case in CASES if "request" in case["name"]], ids=lambda case: case["name"])
def test_a_request_encodes_to_the_same_map_and_buffer_as_the_committed_one(case: dict) -> None:
    (field,) = case["map"]["fields"]
    array = np.frombuffer(base64.b64decode(case["buffers"][0]), field["dtype"]).reshape(field["shape"])
    members = {name: value for name, value in case["map"].items() if name != "fields"}
    data = b"".join(encode_message(members, "actions", array))
    decoded = msgpack.unpackb(data[4 : 4 + int.from_bytes(data[:4], "little")])
    (encoded,) = decoded.pop("fields")
    assert decoded == members
    assert encoded["offset"] % 64 == 0
    assert {**encoded, "offset": 0} == {**field, "offset": 0}
    assert data[encoded["offset"] :] == array.tobytes()


@pytest.mark.parametrize("rows", [0, 1, 7, 500])
def test_the_buffer_starts_after_the_map_however_long_the_map_is(rows: int) -> None:
    members = {"seq": 1, "where": list(range(rows))}
    data = b"".join(encode_message(members, "actions", np.arange(rows, dtype="<i8")))
    decoded = decode_message(body(data))
    assert decoded.members == members
    np.testing.assert_array_equal(decoded.fields[0].array, np.arange(rows))


@pytest.mark.parametrize("dtype", ["|b1", "|i1", "<f2", "<f8", "<c8", "<c16", "<u8"])
def test_every_numeric_dtype_survives(dtype: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(dtype)
    decoded = decode_message(body(b"".join(encode_message({}, "actions", array))))
    assert decoded.fields[0].array.dtype == array.dtype
    np.testing.assert_array_equal(decoded.fields[0].array, array)


def malformed(**field: object) -> bytes:
    packed = msgpack.packb({"fields": [{"name": "obs", "dtype": "<f4", "shape": [2], "offset": 128, "length": 8, **field}]})
    return (len(packed).to_bytes(4, "little") + packed).ljust(136, b"\0")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x01",
        (1000).to_bytes(4, "little") + b"\x80",
        (1).to_bytes(4, "little") + b"\xc1",
        (1).to_bytes(4, "little") + b"\x80",
        (2).to_bytes(4, "little") + b"\x80\x80",
        malformed(offset=-8),
        malformed(length=16),
        malformed(offset=4096),
        malformed(shape=[3]),
        malformed(shape=[-2]),
        malformed(dtype="|O"),
        malformed(dtype="f4,f4"),
        malformed(dtype=7),
    ],
)
def test_a_message_out_of_form_is_refused(data: bytes) -> None:
    with pytest.raises(ReplyError, match="The server sent a message"):
        decode_message(body(data))

"""Arrays and other tagged values."""

from __future__ import annotations

import base64
import struct
from typing import Any


def array(name: str, dtype: str, shape: list[int], data: bytes, elements: Any) -> dict[str, Any]:
    form = {"$nd": [dtype, shape, base64.b64encode(data).decode()]}
    return {"name": name, "json": form, "dtype": dtype, "shape": shape, "bytes": data.hex(), "list": elements}


def arrays() -> list[dict[str, Any]]:
    numbers = [
        array("boolean", "|b1", [2], b"\x01\x00", [True, False]),
        array("int8", "|i1", [2], struct.pack("<2b", -128, 127), [-128, 127]),
        array("int16", "<i2", [2], struct.pack("<2h", -32768, 32767), [-32768, 32767]),
        array("int32", "<i4", [2], struct.pack("<2i", -(2**31), 2**31 - 1), [-(2**31), 2**31 - 1]),
        array("int64 beyond what a double holds", "<i8", [2], struct.pack("<2q", -(2**63), 2**63 - 1), [-(2**63), 2**63 - 1]),
        array("uint8", "|u1", [3], bytes([0, 1, 255]), [0, 1, 255]),
        array("uint16", "<u2", [1], struct.pack("<H", 65535), [65535]),
        array("uint32", "<u4", [1], struct.pack("<I", 2**32 - 1), [2**32 - 1]),
        array("uint64", "<u8", [1], struct.pack("<Q", 2**64 - 1), [2**64 - 1]),
        array("float16", "<f2", [2], struct.pack("<2e", 1.5, -0.25), [1.5, -0.25]),
        array("float32", "<f4", [2], struct.pack("<2f", 1.5, -0.25), [1.5, -0.25]),
        array("float64", "<f8", [2], struct.pack("<2d", 0.1, -1e300), [0.1, -1e300]),
        array(
            "not a number and infinities",
            "<f4",
            [3],
            bytes.fromhex("0000c07f0000807f000080ff"),
            [{"$float": "nan"}, {"$float": "inf"}, {"$float": "-inf"}],
        ),
    ]
    shapes = [
        array("a scalar has the shape []", "<f4", [], struct.pack("<f", 2.5), 2.5),
        array("an integer scalar", "<i8", [], struct.pack("<q", -7), -7),
        array("a boolean scalar", "|b1", [], b"\x01", True),
        array("two dimensions, the last one fastest", "<i2", [2, 3], struct.pack("<6h", *range(6)), [[0, 1, 2], [3, 4, 5]]),
        array("no elements", "<f4", [0], b"", []),
        array("no elements in two dimensions", "<f4", [2, 0], b"", [[], []]),
        array("uint8 may be written with either sign of order", "<u1", [1], b"\x07", [7]),
    ]
    others = [
        array("dates stay as they are", "<M8[s]", [1], struct.pack("<q", 86400), None),
        array("bytes stay as they are", "|S2", [1], b"ab", None),
    ]
    return numbers + shapes + others


def values() -> list[dict[str, Any]]:
    pairs: list[tuple[str, Any, Any]] = [
        ("null", None, None),
        ("a boolean", True, True),
        ("an integer beyond 64 bits", 2**70, 2**70),
        ("a float", 0.1, 0.1),
        ("text", "x\n\u00e9\U0001f600", "x\n\u00e9\U0001f600"),
        ("a list", [1, [2.5, "x"], []], [1, [2.5, "x"], []]),
        ("a dict", {"a": {"b": 1}, "": 2}, {"a": {"b": 1}, "": 2}),
        ("a tuple", {"$tuple": [1, {"$tuple": []}]}, (1, ())),
        ("bytes", {"$bytes": "AAH/"}, b"\x00\x01\xff"),
        ("a non-finite number", {"$float": "-inf"}, float("-inf")),
        ("a key that begins with a dollar sign", {"$$nd": 1, "a$": 2}, {"$nd": 1, "a$": 2}),
        ("a key that begins with two", {"$$$x": 1}, {"$$x": 1}),
        ("tags inside of containers", [{"a": {"$float": "inf"}}, {"$tuple": [{"$bytes": ""}]}], [{"a": float("inf")}, (b"",)]),
    ]
    return [{"name": name, "json": tagged, "python": repr(value)} for name, tagged, value in pairs]


def illegal_values() -> list[dict[str, str]]:
    texts = {
        "an unknown tag": '{"$money":1}',
        "a tag with a companion": '{"$float":"nan","x":1}',
        "a tag as companion": '{"x":1,"$float":"nan"}',
        "an array without bytes": '{"$nd":["<f4",[1]]}',
        "an array with too few bytes": '{"$nd":["<f4",[2],"AAAAAA=="]}',
        "an array with too many bytes": '{"$nd":["<f4",[1],"AAAAAAAAAAA="]}',
        "an array of big-endian numbers": '{"$nd":[">f4",[1],"AAAAAA=="]}',
        "an array of objects": '{"$nd":["|O",[1],"AAAAAAAAAAA="]}',
        "an array of an unknown type": '{"$nd":["<x4",[1],"AAAAAA=="]}',
        "a negative size": '{"$nd":["<f4",[-1],""]}',
        "a size that is no integer": '{"$nd":["<f4",[1.0],"AAAAAA=="]}',
        "bytes that are not base64": '{"$bytes":"%%%"}',
        "a float of another name": '{"$float":"infinity"}',
        "a tuple that is no list": '{"$tuple":{}}',
    }
    return [{"name": name, "json": text} for name, text in texts.items()]

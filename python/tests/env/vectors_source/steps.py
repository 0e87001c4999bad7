"""Replies to step."""

from __future__ import annotations

import struct
from typing import Any

from env.vectors_source.cases import STEP, ended, illegal


def step() -> list[dict[str, Any]]:
    return step_legal() + step_illegal()


def step_legal() -> list[dict[str, Any]]:
    flags = '"terminated":false,"truncated":false,"info":{}'
    return [
        ended("the ordinary reply", 0.5, '{"id":3,"obs":0.5,"reward":1.0,' + flags + "}"),
        ended("truncated and info may be left out", 0, '{"id":3,"obs":0,"reward":1,"terminated":false}'),
        ended("old gym's done", 0, '{"id":3,"obs":0,"reward":1.0,"done":true}', terminated=True),
        ended(
            "old gym's done at a time limit",
            0,
            '{"id":3,"obs":0,"reward":1.0,"done":true,"info":{"TimeLimit.truncated":true}}',
            truncated=True,
            info={"TimeLimit.truncated": True},
        ),
        ended(
            "old gym's done, not at a time limit",
            0,
            '{"id":3,"obs":0,"reward":1.0,"done":true,"info":{"TimeLimit.truncated":false}}',
            terminated=True,
            info={"TimeLimit.truncated": False},
        ),
        ended(
            "members in any order, with spaces",
            [1],
            ' {"info": {}, "truncated": false, "reward": 1.0, "obs": [ 1 ], "terminated": false, "id": 3 } ',
        ),
        ended("unknown members are ignored", 0, '{"id":3,"obs":0,"reward":1.0,' + flags + ',"mood":"good"}'),
        ended("a bare NaN reward", 0, '{"id":3,"obs":0,"reward":NaN,' + flags + "}", reward={"$float": "nan"}),
        ended("a bare infinite reward", 0, '{"id":3,"obs":0,"reward":-Infinity,' + flags + "}", reward={"$float": "-inf"}),
        ended("a tagged infinite reward", 0, '{"id":3,"obs":0,"reward":{"$float":"inf"},' + flags + "}", reward={"$float": "inf"}),
        ended(
            "bare NaN and Infinity in an observation",
            [{"$float": "nan"}, {"$float": "inf"}],
            '{"id":3,"obs":[NaN,Infinity],"reward":1.0,' + flags + "}",
        ),
        ended("an array in base64", [1.0, -2.0], '{"id":3,"obs":{"$nd":["<f4",[2],"AACAPwAAAMA="]},"reward":1.0,' + flags + "}"),
        ended(
            "an array in raw bytes",
            [1.0, -2.0],
            '{"id":3,"obs":{"$nd":["<f4",[2],0,8]},"reward":1.0,' + flags + ',"raw":8}',
            raw=struct.pack("<2f", 1, -2).hex(),
        ),
        ended(
            "two arrays in raw bytes, the second first",
            {"a": [3], "b": [1, 2]},
            '{"id":3,"obs":{"a":{"$nd":["|u1",[1],2,1]},"b":{"$nd":["|i1",[2],0,2]}},"reward":1.0,' + flags + ',"raw":3}',
            raw="010203",
        ),
        ended("raw bytes may hold a newline", [10], '{"id":3,"obs":{"$nd":["|u1",[1],0,1]},"reward":1.0,' + flags + ',"raw":1}', raw="0a"),
        ended("a doubled dollar sign stays doubled on the wire", {"$$x": 1}, '{"id":3,"obs":{"$$x":1},"reward":1.0,' + flags + "}"),
        ended("an integer of 400 digits", 10**399, '{"id":3,"obs":1' + "0" * 399 + ',"reward":1.0,' + flags + "}"),
        ended("text with a pair of surrogates", "\U0001f600", '{"id":3,"obs":"\\ud83d\\ude00","reward":1.0,' + flags + "}"),
        ended(
            "nested 64 deep, the line's own object counted",
            nested(63),
            '{"id":3,"obs":' + "[" * 63 + "]" * 63 + ',"reward":1.0,' + flags + "}",
        ),
    ]


def step_illegal() -> list[dict[str, Any]]:
    flags = '"terminated":false,"truncated":false,"info":{}}'
    return [
        illegal("a missing reward", STEP, '{"id":3,"obs":0,' + flags),
        illegal("a null reward", STEP, '{"id":3,"obs":0,"reward":null,' + flags),
        illegal("a reward that is text", STEP, '{"id":3,"obs":0,"reward":"1.0",' + flags),
        illegal("a reward that is a list", STEP, '{"id":3,"obs":0,"reward":[1.0],' + flags),
        illegal("a flag that is a number", STEP, '{"id":3,"obs":0,"reward":1.0,"terminated":1,"truncated":false,"info":{}}'),
        illegal("an info that is a list", STEP, '{"id":3,"obs":0,"reward":1.0,"terminated":false,"info":[]}'),
        illegal("a wrong id", STEP, '{"id":4,"obs":0,"reward":1.0,' + flags),
        illegal("a missing id", STEP, '{"obs":0,"reward":1.0,' + flags),
        illegal("an id that is text", STEP, '{"id":"3","obs":0,"reward":1.0,' + flags),
        illegal("not JSON", STEP, "step 3 done"),
        illegal("an empty line", STEP, ""),
        illegal("JSON but no object", STEP, "[3]"),
        illegal("two objects", STEP, '{"id":3,"obs":0,"reward":1.0,"terminated":false}{"id":4}'),
        illegal("half a line", STEP, '{"id":3,"obs":0,"rew'),
        illegal("a trailing comma", STEP, '{"id":3,"obs":[0,],"reward":1.0,' + flags),
        illegal("a number with a leading zero", STEP, '{"id":3,"obs":01,"reward":1.0,' + flags),
        illegal("a control character in text", STEP, '{"id":3,"obs":"\x01","reward":1.0,' + flags),
        illegal("invalid UTF-8", STEP, b'{"id":3,"obs":"\xff","reward":1.0,' + flags.encode()),
        illegal("a lone surrogate", STEP, '{"id":3,"obs":"\\ud800","reward":1.0,' + flags),
        illegal("a surrogate encoded in UTF-8", STEP, b'{"id":3,"obs":"\xed\xa0\x80","reward":1.0,' + flags.encode()),
        illegal("an integer of 401 digits", STEP, '{"id":3,"obs":1' + "0" * 400 + ',"reward":1.0,' + flags),
        illegal("nested 65 deep", STEP, '{"id":3,"obs":' + "[" * 64 + "]" * 64 + ',"reward":1.0,' + flags),
        illegal(
            "raw bytes that an array does not fit in",
            STEP,
            '{"id":3,"obs":{"$nd":["<f4",[2],4,8]},"reward":1.0,"terminated":false,"raw":8}',
            raw="00" * 8,
        ),
    ]


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return value

"""Replies to hello, reset, call, close, and errors."""

from __future__ import annotations

import json
from typing import Any

from env.vectors_source.cases import CALL, HELLO, RESET, STEP, illegal, legal


def hello() -> list[dict[str, Any]]:
    discrete = '{"type":"Discrete","n":2,"start":0,"dtype":"<i8"}'
    return [
        legal("the smallest", HELLO, '{"id":1,"ok":true,"protocol":1}', ok=True, features=[]),
        legal("a plain program", HELLO, '{"id":1,"ok":true,"protocol":1,"features":[],"rows":1}', ok=True, features=[]),
        legal(
            "a Gymnasium environment",
            HELLO,
            '{"id":1,"ok":true,"protocol":1,"features":["raw"],"rows":1,"observation_space":{"type":"Box","dtype":"<f4","shape":[2],'
            '"low":{"$nd":["<f4",[2],"AACAvwAAgL8="]},"high":{"$nd":["<f4",[2],"AACAPwAAgD8="]}},"action_space":' + discrete + ","
            '"metadata":{"render_modes":["human"]},"render_mode":null,"spec":"Some-v0"}',
            ok=True,
            features=["raw"],
            action_space=json.loads(discrete),
            spec="Some-v0",
        ),
        legal(
            "a template",
            {**HELLO, "template": True, "index": None, "workspace": None, "config_per_row": False},
            '{"id":1,"ok":true,"template":true,"protocol":1,"features":["fork","raw"],"rows":1}',
            ok=True,
            template=True,
            features=["fork", "raw"],
        ),
        legal(
            "a program that cannot fork names what is in the way",
            {**HELLO, "template": True, "index": None, "workspace": None, "config_per_row": False},
            '{"id":1,"error":{"kind":"fork_unsupported","type":"RuntimeError","message":"threads","traceback":null,"blockers":[{"threads":3,"names":["openblas"]}]}}',
            error={"kind": "fork_unsupported", "type": "RuntimeError", "message": "threads"},
        ),
        legal(
            "a program that does not know hello is served with reset and step",
            HELLO,
            '{"id":1,"error":{"kind":"exception","type":"UnknownOperation","message":"no hello here"}}',
            error={"kind": "exception", "type": "UnknownOperation", "message": "no hello here"},
        ),
    ]


def reset() -> list[dict[str, Any]]:
    return [
        legal("with info", RESET, '{"id":2,"obs":[0.0,1.0],"info":{"task":3}}', obs=[0.0, 1.0], info={"task": 3}),
        legal("info may be left out", RESET, '{"id":2,"obs":null}', obs=None, info={}),
        legal("a dict", RESET, '{"id":2,"obs":{"a":1,"b":[true,null,"x"]},"info":{}}', obs={"a": 1, "b": [True, None, "x"]}, info={}),
        legal("an array", RESET, '{"id":2,"obs":{"$nd":["<i4",[2],"AQAAAAIAAAA="]},"info":{}}', obs=[1, 2], info={}),
        illegal("a wrong id", RESET, '{"id":9,"obs":0,"info":{}}'),
        illegal("no observation", RESET, '{"id":2,"info":{}}'),
    ]


def call() -> list[dict[str, Any]]:
    return [
        legal("no result", CALL, '{"id":4,"result":null}', result=None),
        legal("a frame", CALL, '{"id":4,"result":{"$nd":["|u1",[1,2],"AP8="]}}', result=[[0, 255]]),
        legal("a frame in raw bytes", CALL, '{"id":4,"result":{"$nd":["|u1",[1,2],0,2]},"raw":2}', raw="00ff", result=[[0, 255]]),
        legal("get", {"id": 4, "op": "get", "name": "spec"}, '{"id":4,"result":"x"}', result="x"),
        legal("set carries value", {"id": 4, "op": "set", "name": "gravity", "value": 9.8}, '{"id":4,"result":null}', result=None),
        legal("has", {"id": 4, "op": "has", "name": "gravity"}, '{"id":4,"result":true}', result=True),
        legal("wrapped", {"id": 4, "op": "wrapped", "name": "gymnasium.wrappers.TimeLimit"}, '{"id":4,"result":false}', result=False),
        illegal("no result and no error", CALL, '{"id":4}'),
    ]


def close() -> list[dict[str, Any]]:
    return [legal("ok", {"id": 5, "op": "close"}, '{"id":5,"ok":true}', ok=True)]


def error() -> list[dict[str, Any]]:
    def said(name: str, reply: str, **known: Any) -> dict[str, Any]:
        return legal(name, STEP, reply, error=known)

    return [
        said(
            "an exception",
            '{"id":3,"error":{"kind":"exception","type":"ValueError","message":"no","traceback":"Traceback …"}}',
            kind="exception",
            type="ValueError",
            message="no",
        ),
        said(
            "without a traceback",
            '{"id":3,"error":{"kind":"exception","type":"E","message":"no"}}',
            kind="exception",
            type="E",
            message="no",
        ),
        said(
            "out of memory",
            '{"id":3,"error":{"kind":"oom","type":"MemoryError","message":"","traceback":null}}',
            kind="oom",
            type="MemoryError",
            message="",
        ),
        illegal("an error of a wrong id", STEP, '{"id":7,"error":{"kind":"exception","type":"E","message":"no"}}'),
    ]

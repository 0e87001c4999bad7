"""What is said to a running program and what it must answer."""

from __future__ import annotations

import base64
import struct
from typing import Any

from env.vectors_source.cases import CALL, HELLO, RESET


def conversation(name: str, serves: str, *turns: tuple[Any, dict[str, Any]], ends: int | None = None) -> dict[str, Any]:
    """Each turn: what is sent (an object, or a line as text) and what its answer must be."""
    told = [({"line": said} if isinstance(said, str) else {"send": said}) | {"expect": expect} for said, expect in turns]
    return {"name": name, "for": serves, "turns": told, "exit_code": ends}


def conversations() -> list[dict[str, Any]]:
    return conversations_of_any() + conversations_of_helper() + conversations_of_counter() + conversations_of_rows()


HELLO_TURN = (HELLO, {"has": ["id"], "equals": {"id": 1}})
CLOSE_TURN = ({"id": 99, "op": "close"}, {"equals": {"id": 99, "ok": True}})
STEP_REPLY = {"has": ["obs", "info"], "number": ["reward"], "bool": ["terminated", "truncated"], "lacks": ["error"]}
A_STEP = {"id": 3, "op": "step", "action": "$ACTION"}


def conversations_of_any() -> list[dict[str, Any]]:
    observed = {"has": ["obs"], "lacks": ["error"]}

    def seeded(request_id: int, seed: int | None) -> dict[str, Any]:
        return {"id": request_id, "op": "reset", "seed": seed, "options": None}

    return [
        conversation(
            "an episode",
            "any",
            HELLO_TURN,
            (RESET, {"equals": {"id": 2}, **observed}),
            (A_STEP, {"equals": {"id": 3}, **STEP_REPLY}),
            CLOSE_TURN,
            ends=0,
        ),
        conversation("close right after hello", "any", HELLO_TURN, CLOSE_TURN, ends=0),
        conversation("the end of the channel ends the program", "any", HELLO_TURN, (RESET, observed), ends=0),
        conversation(
            "an unknown operation is answered with an error of its id, and the program goes on",
            "any",
            HELLO_TURN,
            ({"id": 7, "op": "levitate"}, {"equals": {"id": 7}, "has": ["error"], "lacks": ["ok", "result"]}),
            (RESET, observed),
            CLOSE_TURN,
            ends=0,
        ),
        conversation(
            "ids come back unchanged",
            "any",
            HELLO_TURN,
            (seeded(2**53 - 1, 1), {"equals": {"id": 2**53 - 1}}),
            (seeded(0, 1), {"equals": {"id": 0}}),
            CLOSE_TURN,
            ends=0,
        ),
        conversation(
            "the same seed gives the same observation",
            "any",
            HELLO_TURN,
            (seeded(2, 5), observed),
            (seeded(3, 5), {**observed, "same_as": 1}),
            CLOSE_TURN,
            ends=0,
        ),
        conversation(
            "every seed from null to the largest is taken",
            "any",
            HELLO_TURN,
            (seeded(2, None), observed),
            (seeded(3, 0), observed),
            (seeded(4, 2**53 - 1), observed),
            CLOSE_TURN,
            ends=0,
        ),
    ]


def conversations_of_helper() -> list[dict[str, Any]]:
    def fails(request_id: Any, kind: str = "exception") -> dict[str, Any]:
        return {"equals": {"id": request_id, "error.kind": kind}, "has": ["error"], "lacks": ["result", "obs"]}

    return [
        conversation(
            "hello says what it is",
            "helper",
            (HELLO, {"equals": {"id": 1, "ok": True, "protocol": 1, "rows": 1}, "has": ["features", "observation_space", "metadata"]}),
            CLOSE_TURN,
            ends=0,
        ),
        conversation(
            "reset, step and close cannot be called",
            "helper",
            HELLO_TURN,
            (dict(CALL, name="reset"), fails(4)),
            (dict(CALL, name="step"), fails(4)),
            (dict(CALL, name="close"), fails(4)),
            CLOSE_TURN,
            ends=0,
        ),
        conversation(
            "what has no attribute says so",
            "helper",
            HELLO_TURN,
            ({"id": 4, "op": "has", "name": "no_such_thing"}, {"equals": {"id": 4, "result": False}}),
            ({"id": 5, "op": "get", "name": "no_such_thing"}, fails(5)),
            ({"id": 6, "op": "set", "name": "such_a_thing", "value": {"$tuple": [1]}}, {"equals": {"id": 6, "result": None}}),
            ({"id": 7, "op": "get", "name": "such_a_thing"}, {"equals": {"id": 7, "result": {"$tuple": [1]}}}),
            ({"id": 8, "op": "set", "name": "such_a_thing"}, fails(8)),
            ({"id": 9, "op": "get", "name": 3}, fails(9)),
            CLOSE_TURN,
            ends=0,
        ),
        conversation(
            "a line that is not JSON is answered without an id",
            "helper",
            HELLO_TURN,
            ("no JSON", fails(None, "protocol")),
            ("[1]", fails(None, "protocol")),
            ('{"id":1', fails(None, "protocol")),
            CLOSE_TURN,
            ends=0,
        ),
        conversation(
            "an illegal seed is refused",
            "helper",
            HELLO_TURN,
            (dict(RESET, seed=-1), fails(2)),
            (dict(RESET, seed=2**53), fails(2)),
            (dict(RESET, seed=1.5), fails(2)),
            CLOSE_TURN,
            ends=0,
        ),
        conversation(
            "a step without an action is refused",
            "helper",
            HELLO_TURN,
            (RESET, {"has": ["obs"]}),
            ({"id": 3, "op": "step"}, fails(3)),
            CLOSE_TURN,
            ends=0,
        ),
        conversation(
            "a running environment forks live alone, and only where a helper forked it",
            "helper",
            HELLO_TURN,
            ({"id": 3, "op": "fork", "index": 1}, fails(3, "fork_unsupported")),
            ({"id": 4, "op": "fork", "live": True, "index": 1, "isolated": False}, fails(4)),
            CLOSE_TURN,
            ends=0,
        ),
    ]


def conversations_of_counter() -> list[dict[str, Any]]:
    def moved(position: int, reward: float, terminated: bool) -> dict[str, Any]:
        return {
            "equals": {
                "obs": [position, 2],
                "reward": reward,
                "terminated": terminated,
                "truncated": False,
                "info": {"distance": 2 - position},
            }
        }

    return [
        conversation(
            "two steps to the target",
            "counter",
            HELLO_TURN,
            ({"id": 2, "op": "reset", "seed": 1, "options": {"target": 2}}, {"equals": {"id": 2, "obs": [0, 2], "info": {"distance": 2}}}),
            ({"id": 3, "op": "step", "action": 1}, moved(1, -0.01, terminated=False)),
            ({"id": 4, "op": "step", "action": 1}, moved(2, 1.0, terminated=True)),
            ({"id": 5, "op": "get", "name": "position"}, {"equals": {"id": 5, "result": 2}}),
            (
                {"id": 6, "op": "step", "action": 7},
                {"equals": {"id": 6, "error.type": "ValueError", "error.message": "the action is 7; expected -1, 0 or 1"}},
            ),
            CLOSE_TURN,
            ends=0,
        )
    ]


def conversations_of_rows() -> list[dict[str, Any]]:
    """A program whose feature is `batch`, served three rows; each step of it gives the reward 1."""

    def hello(rows: int) -> tuple[Any, dict[str, Any]]:
        return ({**HELLO, "n": rows, "rows": rows}, {"equals": {"id": 1, "ok": True, "rows": rows}, "has": ["features", "action_space"]})

    def rewards(*values: float) -> list[Any]:
        return ["<f8", [len(values)], base64.b64encode(struct.pack(f"<{len(values)}d", *values)).decode()]

    def flags(count: int) -> list[Any]:
        return ["|b1", [count], base64.b64encode(bytes(count)).decode()]

    def stepped(request_id: int, count: int) -> dict[str, Any]:
        columns = {"reward.$nd": rewards(*[1.0] * count), "terminated.$nd": flags(count), "truncated.$nd": flags(count), "infos": {}}
        return {"equals": {"id": request_id, **columns}, "has": ["obs"], "lacks": ["errors", "error"]}

    reset = {"id": 2, "op": "reset", "rows": None, "seeds": [1, 2, 3], "options": None, "hard": False, "deadline_ms": 60000}
    step = {"id": 3, "op": "step", "rows": None, "actions": [1, 0, 1], "deadline_ms": 30000}
    answered = {"equals": {"id": 2, "infos": {}}, "has": ["obs"], "lacks": ["errors", "error"]}
    nd = {"$nd": ["<i8", [3], base64.b64encode(struct.pack("<3q", 1, 0, 1)).decode()]}
    part = {**step, "id": 4, "rows": [0, 2], "actions": [1, 1]}
    return [
        conversation(
            "several rows are reset and stepped by one message, and seeds are each row's own",
            "rows",
            hello(3),
            (reset, answered),
            (step, stepped(3, 3)),
            ({**reset, "rows": [0, 1, 2]}, {**answered, "same_as": 1}),
            ({**step, "actions": nd}, {**stepped(3, 3), "same_as": 2}),
            (part, stepped(4, 2)),
            CLOSE_TURN,
            ends=0,
        ),
        conversation(
            "a row's error is its own, and its next reset makes it good",
            "rows",
            hello(3),
            (reset, answered),
            (
                {**step, "actions": [1, "left", 1]},
                {
                    "equals": {"id": 3, "errors.1.kind": "exception", "errors.1.type": "ValueError"},
                    "has": ["obs", "reward"],
                    "lacks": ["error"],
                },
            ),
            (part, stepped(4, 2)),
            ({**reset, "rows": [1], "seeds": [None]}, answered),
            (step, stepped(3, 3)),
            CLOSE_TURN,
            ends=0,
        ),
        conversation(
            "what is wrong with the message itself fails it whole",
            "rows",
            hello(3),
            (reset, answered),
            ({**step, "actions": [1, 1]}, {"equals": {"id": 3, "error.kind": "exception"}, "lacks": ["obs"]}),
            ({**step, "rows": [2, 1], "actions": [1, 1]}, {"equals": {"id": 3, "error.kind": "exception"}, "lacks": ["obs"]}),
            (step, stepped(3, 3)),
            CLOSE_TURN,
            ends=0,
        ),
        conversation(
            "calls give one result a row",
            "rows",
            hello(2),
            ({**reset, "seeds": None}, answered),
            ({"id": 5, "op": "has", "name": "render", "rows": None}, {"equals": {"id": 5, "results": [True, True]}}),
            ({"id": 6, "op": "has", "name": "levitate", "rows": [1]}, {"equals": {"id": 6, "results": [False]}}),
            ({"id": 7, "op": "set", "name": "mark", "rows": None, "values": [1, "b"]}, {"equals": {"id": 7, "results": [None, None]}}),
            ({"id": 8, "op": "get", "name": "mark", "rows": None}, {"equals": {"id": 8, "results": [1, "b"]}}),
            ({"id": 9, "op": "call", "name": "step", "rows": [0]}, {"equals": {"id": 9, "results": [None], "errors.0.type": "ValueError"}}),
            CLOSE_TURN,
            ends=0,
        ),
        conversation(
            "each row has a state, and only a state is taken for one",
            "rows",
            hello(3),
            (reset, answered),
            ({"id": 5, "op": "get_state", "rows": [0, 2]}, {"equals": {"id": 5}, "has": ["states"], "lacks": ["errors", "error"]}),
            ({"id": 6, "op": "set_state", "rows": [0], "states": []}, {"equals": {"id": 6, "error.kind": "exception"}, "lacks": ["ok"]}),
            (step, stepped(3, 3)),
            (
                {"id": 7, "op": "set_state", "rows": [1], "states": [7]},
                {"equals": {"id": 7, "ok": True, "reseeded": [None], "errors.1.type": "ValueError"}},
            ),
            (part, stepped(4, 2)),
            CLOSE_TURN,
            ends=0,
        ),
    ]

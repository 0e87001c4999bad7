"""Environments that do what their actions say, several in one process or as one vectorised environment; alone they speak the plain messages.

Argument: a JSON object of settings. `form`: "array" (an announced Box of two float32), "dict", "list" (texts, no space) or "plain" (lists of
numbers, no space); `raw`: stacked values as raw bytes; `lists`: rewards, flags and infos as lists; `template`: fork; `features`: instead of
batch; `vector`: be a vectorised environment of that description; `measure`: the answer to it; `lying_rows`: announce so many; `dies_if`: end at hello if that file is there; `fails`: the row whose resets raise;
`mute` and `deaf`: rows whose state is not told, and not taken.

An action is a number (the observation's first element and the reward; 9 terminates, 8 truncates) or an object: `fail` (kind of an error of that
row), `info` (goes into the info), `reward`, `play` (a script of speak.py for the whole message; "$ID" as there). The options of a reset may be such an object.
"""

import base64
import json
import os
import signal
import struct
import sys

from speak import Channel, fork, play

settings = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
form = settings.get("form", "array")
vector = settings.get("vector")
tail = b""


class FailureError(Exception):
    pass


class Member:
    """One environment: its steps, and how many were made in its place."""

    def __init__(self, index, number):
        self.index, self.number, self.steps, self.ended = index, number, 0, False

    def reset(self, seed, options):
        self.steps = 0
        fail(options)
        if self.index == settings.get("fails"):
            raise FailureError("exception")
        return [float(self.index), 0.0], {"seed": seed, "options": options, "object": self.number}

    def step(self, action):
        fail(action)
        self.steps += 1
        asked = action if isinstance(action, dict) else {}
        number = asked.get("number", 1) if asked else action
        reward = asked.get("reward", number)
        return [float(number), float(self.steps)], reward, number == 9, number == 8, asked.get("info", {})


def fail(asked):
    if isinstance(asked, dict) and asked.get("once"):
        if os.path.exists(asked["once"]):
            return
        open(asked["once"], "w").close()
    if isinstance(asked, dict) and asked.get("fail"):
        raise FailureError(asked["fail"])


def error_of(failure):
    return {"kind": str(failure), "type": "FailureError", "message": "as asked", "traceback": "tb"}


def nd(code, shape, data):
    global tail
    if not settings.get("raw"):
        return {"$nd": [code, shape, base64.b64encode(data).decode()]}
    tail += data
    return {"$nd": [code, shape, len(tail) - len(data), len(data)]}


def stacked(observations):
    count = len(observations)
    if form == "list":
        return [None if one is None else {"text": f"{one[0]} {one[1]}"} for one in observations]
    if form == "plain":
        return observations
    pairs = [one or [0.0, 0.0] for one in observations]
    if form == "array":
        return nd("<f4", [count, 2], b"".join(struct.pack("<2f", *pair) for pair in pairs))
    first = nd("<i8", [count], b"".join(struct.pack("<q", int(pair[0])) for pair in pairs))
    return {"both": nd("<f4", [count, 2], b"".join(struct.pack("<2f", *pair) for pair in pairs)), "more": {"$tuple": [first]}}


def single(observation):
    if form == "list":
        return {"text": f"{observation[0]} {observation[1]}"}
    if form == "plain":
        return observation
    both = nd("<f4", [2], struct.pack("<2f", *observation))
    return both if form == "array" else {"both": both, "more": {"$tuple": [int(observation[0])]}}


def rewards_of(rewards):
    return rewards if settings.get("lists") else nd("<f8", [len(rewards)], struct.pack(f"<{len(rewards)}d", *(one or 0 for one in rewards)))


def flags_of(flags):
    return flags if settings.get("lists") else nd("|b1", [len(flags)], bytes(map(bool, flags)))


def infos_of(rows, infos):
    return infos if settings.get("lists") else {row: info for row, info in zip(rows, infos) if info}


def space():
    box = {"type": "Box", "dtype": "<f4", "shape": [2]}
    if form == "array":
        return {"observation_space": box}
    if form == "dict":
        return {"observation_space": {"type": "Dict", "spaces": [["both", box], ["more", {"type": "Tuple", "spaces": [{"type": "Discrete", "n": 99}]}]]}}
    return {}


def hello(request, identity):
    global members, configs
    if os.path.exists(settings.get("dies_if", "")):
        os._exit(6)
    count = request.get("rows", 1)
    configs = request.get("configs") or [request.get("config")] * count
    members = [Member(request.get("index") or 0, 0) for _ in range(count)]
    for row, member in enumerate(members):
        member.index += row
    features = settings.get("features", ["batch"] + (["raw"] if settings.get("raw") else []))
    known = {"id": identity, "ok": True, "protocol": 1, "features": features, "rows": settings.get("lying_rows", count), **space()}
    return {**known, "vector": vector} if vector else known


def renew(row):
    old = members[row]
    members[row] = Member(old.index, old.number + 1)
    return members[row]


def attempt(errors, row, work):
    """The result of a row, or none and its error; a row that failed gets a new environment object."""
    try:
        return work()
    except FailureError as failure:
        if vector:
            for number in range(len(members)):
                renew(number)
            raise
        renew(row)
        errors[row] = error_of(failure)
        return None


def reset_member(row, seed, options):
    try:
        return members[row].reset(seed, options)
    except FailureError:
        return renew(row).reset(seed, options)


def reset_rows(request, rows):
    seeds = request["seeds"] or [None] * len(rows)
    if vector and not vector.get("row_seeds"):
        seeds = [None if seeds[0] is None else seeds[0] + place for place in range(len(rows))]
    each = request.get("options_each") or [request["options"]] * len(rows)
    errors = {}
    if request["hard"]:
        for row in rows:
            renew(row)
    results = [attempt(errors, row, lambda: reset_member(row, seed, options)) for row, seed, options in zip(rows, seeds, each)]
    infos = [result and {**result[1], "config": configs[row], "message": len(rows)} for row, result in zip(rows, results)]
    for row in rows:
        members[row].ended = False
    return {"obs": stacked([result and result[0] for result in results]), "infos": infos_of(rows, infos), **({"errors": errors} if errors else {})}


def step_vector(row, action):
    """A row that resets itself, in the mode of the vectorised environment."""
    member = members[row]
    if vector.get("autoreset") == "next_step" and member.ended:
        member.ended = False
        observation, info = member.reset(None, None)
        return observation, 0, False, False, info
    observation, reward, terminated, truncated, info = member.step(action)
    member.ended = terminated or truncated
    if vector.get("autoreset") == "same_step" and member.ended:
        last = {"final_obs": single(observation), "final_info": info}
        observation, info = member.reset(None, None)
        info = {**info, **last}
    return observation, reward, terminated, truncated, info


def step_rows(request, rows, raw):
    actions = numbers_of(request["actions"], raw)
    errors = {}
    step = step_vector if vector else lambda row, action: members[row].step(action)
    results = [attempt(errors, row, lambda: step(row, action)) for row, action in zip(rows, actions)]
    columns = [[result and result[place] for result in results] for place in range(5)]
    observations, rewards, terminated, truncated, infos = columns
    answer = {"obs": stacked(observations), "reward": rewards_of(rewards), "terminated": flags_of(terminated)}
    if any(truncated) or not settings.get("lists"):
        answer["truncated"] = flags_of(truncated)
    return {**answer, "infos": infos_of(rows, infos), **({"errors": errors} if errors else {})}


def numbers_of(value, raw):
    """Actions as a list, from a list or from an array of which only some dtypes are known here."""
    if not isinstance(value, dict) or "$nd" not in value:
        return value
    code, shape, offset, length = value["$nd"]
    size, letter = {"<i8": (8, "q"), "<f4": (4, "f")}[code]
    numbers = struct.unpack(f"<{length // size}{letter}", raw[offset : offset + length])
    width = length // size // shape[0] if shape and shape[0] else 1
    return list(numbers) if width == 1 else [numbers[at * width] for at in range(shape[0])]


def call_rows(request, rows):
    op, name = request["op"], request["name"]
    errors = {}

    def result_of(place, row):
        if name == "boom" and row == rows[-1]:
            raise FailureError(request.get("kwargs", {}).get("kind", "exception"))
        if op == "set":
            return {"row": row, "value": request["values"][place] if "values" in request else request["value"]}
        return {"op": op, "row": row, "args": request.get("args"), "rows": len(rows)}

    results = [attempt(errors, row, lambda: result_of(place, row)) for place, row in enumerate(rows)]
    return {"results": results, **({"errors": errors} if errors else {})}


def state_of(row):
    if members[row].index == settings.get("mute"):
        raise FailureError("exception")
    return nd("<i8", [2], struct.pack("<2q", members[row].steps, members[row].index))


def take_state(row, state, seed):
    if members[row].index == settings.get("deaf"):
        raise FailureError("exception")
    members[row].steps = struct.unpack("<2q", base64.b64decode(state["$nd"][2]))[0] + (seed or 0)
    return None if seed is None else ["steps"]


def states(request, rows):
    errors = {}
    if request["op"] == "get_state":
        told = [attempt(errors, row, lambda: state_of(row)) for row in rows]
        return {"states": told, "errors": errors}
    pairs = zip(rows, request["states"], request["reseeds"])
    done = [attempt(errors, row, lambda: take_state(row, state, seed)) for row, state, seed in pairs]
    return {"ok": True, "reseeded": done, "errors": errors}


def plain(request, raw):
    op = request["op"]
    member = members[0]
    try:
        if op == "get_state":
            return {"state": state_of(0)}
        if op == "set_state":
            return {"ok": True, "reseeded": take_state(0, request["state"], request["reseed"])}
        if op == "reset":
            observation, info = member.reset(request["seed"], request["options"])
            return {"obs": single(observation), "info": {**info, "config": configs[0], "message": 1}}
        if op == "step":
            action = request["action"]
            action = numbers_of(action, raw)[0] if isinstance(action, dict) and "$nd" in action else action
            observation, reward, terminated, truncated, info = member.step(action)
            return {"obs": single(observation), "reward": reward, "terminated": terminated, "truncated": truncated, "info": info}
        return {"result": {"op": op, "args": request.get("args")}}
    except FailureError as failure:
        renew(0)
        return {"error": error_of(failure)}


def script_of(request):
    asked = [request.get("action"), request.get("options"), *(request.get("options_each") or ()), *(request.get("args") or ())]
    actions = request.get("actions")
    asked += actions if isinstance(actions, list) else []
    return next((one["play"] for one in asked if isinstance(one, dict) and "play" in one), None)


def answer(request, raw):
    op = request["op"]
    if op == "measure":
        return settings.get("measure", {"step_us": 4.5, "steps": 300})
    if len(members) == 1 and not vector:
        return plain(request, raw)
    rows = list(range(len(members))) if request["rows"] is None else request["rows"]
    try:
        if op in ("get_state", "set_state"):
            return states(request, rows)
        if op == "step":
            return step_rows(request, rows, raw)
        return reset_rows(request, rows) if op == "reset" else call_rows(request, rows)
    except FailureError as failure:
        return {"error": error_of(failure)}


def serve(channel):
    global tail
    while True:
        request = json.loads(channel.line())
        raw = channel.exactly(request["raw"]) if "raw" in request else b""
        op = request["op"]
        if op == "hello":
            if request.get("template"):
                channel.say({"id": request["id"], "ok": True, "template": True, "features": ["fork", "batch"]})
            else:
                channel.say(hello(request, request["id"]))
        elif op == "fork":
            channel = fork(channel, request, hello)
        elif op == "close":
            channel.say({"id": request["id"], "ok": True})
            sys.exit(0)
        else:
            script = script_of(request)
            if script and play(channel, request, script):
                continue
            tail = b""
            said = {"id": request["id"], **answer(request, raw)}
            if tail:
                said["raw"] = len(tail)
            channel.write(json.dumps(said).encode() + b"\n" + tail)


signal.signal(signal.SIGPIPE, signal.SIG_DFL)
if settings.get("template"):
    serve(Channel(int(os.environ["SANDPOOL_FD"]), int(os.environ["SANDPOOL_FD"])))
serve(Channel(0, 1))

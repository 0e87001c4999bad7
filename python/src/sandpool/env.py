"""Serve a Python environment to a Sandpool pool.

    from sandpool.env import serve

    serve(reset=reset, step=step)                    # reset(seed[, options]) -> obs | (obs, info); step(action) -> 4 or 5 values
    serve(environment)                               # a gymnasium.Env, or any object with reset and step
    serve(make=lambda config: MyEnv())               # made once, in the template, then forked
    serve(make=lambda index, config: MyEnv())        # made after the fork, in each process

This one file is the whole helper: standard library only, Python 3.8 or later. It is copied beside the environment's code, so an
environment needs nothing installed. numpy and gymnasium are used only when the environment itself imported them.

Import it first: where the agent started the program (`SANDPOOL_FD` is set), the import already moves the protocol to a private
descriptor, so that nothing printed by the environment, a C library or a child program can reach it.

Sections: serving, the environment behind one shape, values out, values in, spaces, errors, fork and identity, the channel.
"""

# One file for old Pythons that starts in milliseconds: no pathlib. User code may raise anything, and every reply answers for it.
# ruff: noqa: PTH112, PTH118, PTH120, PTH123, PTH208, D401, BLE001, S108, B905

from __future__ import annotations

import atexit
import binascii
import collections.abc
import contextlib
import errno
import faulthandler
import fcntl
import gc
import inspect
import json
import os
import resource
import socket
import stat
import struct
import sys
import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # annotations are never evaluated, so their forms may be newer than the oldest Python served
    from collections.abc import Callable, Iterator
    from typing import Any, NoReturn

    _Encoder = Callable[[Any, "_Output"], str]
    _Caster = Callable[[Any, bytes], Any]

__all__ = ["serve"]

PROTOCOL = 1


# ---------------------------------------------------------------------------------------------------------------------
# Serving
# ---------------------------------------------------------------------------------------------------------------------


def serve(
    environment: Any = None,
    *,
    reset: Callable[..., Any] | None = None,
    step: Callable[[Any], Any] | None = None,
    make: Callable[..., Any] | None = None,
    make_vec: Callable[..., Any] | None = None,
    close: Callable[[], Any] | None = None,
    reseed: Callable[[int], Any] | None = None,
    partial_reset: bool = False,
    row_seeds: bool = False,
) -> NoReturn:
    """Answer the agent's requests until it closes the channel, then exit; never returns.

    Give exactly one of: an environment object with `reset` and `step`; the functions `reset` and `step`; `make`.
    `make(config)` runs once, before the pool forks the process; `make(index, config)` runs in each process.
    `close()` is called at the end (an object's own `close` otherwise). `reseed(seed)` is called when a fork or a restore asks
    for a new random stream. `make_vec`, `partial_reset` and `row_seeds` are reserved for vectorised environments.

    Raises TypeError for another combination, NotImplementedError for `make_vec`.

    Example: `serve(make=lambda config: gymnasium.make("CartPole-v1"))`.
    """
    if make_vec is not None or partial_reset or row_seeds:
        raise NotImplementedError("serve(make_vec=…) is not available in this version; give make=… and one environment a process instead")
    forms = [environment is not None, reset is not None or step is not None, make is not None]
    if sum(forms) != 1 or (forms[1] and (reset is None or step is None)):
        raise TypeError(
            "serve() takes exactly one of: an environment object, reset= with step=, or make=; "
            f"received environment={environment!r:.80}, reset={reset!r:.80}, step={step!r:.80}, make={make!r:.80}"
        )
    if environment is not None:
        ready = _environment_of(environment)
        session = _Session(lambda index, config: ready, False, close, reseed)
    elif make is not None:
        maker, in_each_process = _maker_of(make)
        session = _Session(lambda index, config: _environment_of(maker(index, config)), in_each_process, close, reseed)
    else:
        functions = _environment_of_functions(reset, step)
        session = _Session(lambda index, config: functions, False, close, reseed)
    session.run(_open_channel())


def _maker_of(make: Callable[..., Any]) -> tuple[Callable[[Any, Any], Any], bool]:
    """`make` as a function of index and config, and whether it is run in each process rather than in the template."""
    parameters = inspect.signature(make).parameters
    places = [p.name for p in parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [name for name in places if parameters[name].default is inspect.Parameter.empty]
    if len(required) > 2:
        raise TypeError(f"make takes {', '.join(required)}; expected make(index, config), make(config) or make()")
    if places[:2] == ["index", "config"] or len(required) == 2:
        return make, True
    if places[:1] == ["index"]:
        return lambda index, config: make(index), True
    if required or places[:1] == ["config"]:
        return lambda index, config: make(config), False
    return lambda index, config: make(), False


class _Session:
    """One process's conversation with the agent."""

    def __init__(
        self,
        make: Callable[[Any, Any], _Environment],
        in_each_process: bool,
        close: Callable[[], Any] | None,
        reseed: Callable[[int], Any] | None,
    ) -> None:
        self.make = make
        self.in_each_process = in_each_process
        self.user_close = close
        self.user_reseed = reseed
        self.environment: _Environment | None = None
        self.is_template = False
        self.config: Any = None
        self.seeded = False
        self.output = _Output()

    def run(self, channel: _Channel) -> NoReturn:
        self.channel = channel
        while True:
            line = self.channel.read_line()
            if not line:
                self.leave()
            # A fork answers in the child too: by then self.channel is the child's own.
            reply = self.answer(line)
            self.channel.write(reply)

    def answer(self, line: bytes) -> bytes:
        """The reply to one request line, newline included."""
        identity = None
        try:
            request = _parse_line(line)
            identity = request.get("id")
            operation = request.get("op")
            raw = self.channel.read_exactly(request["raw"]) if "raw" in request else b""
            if operation == "step":
                return self.step(identity, request, raw)
            handler = _HANDLERS.get(operation) if isinstance(operation, str) else None
            if handler is None:
                raise ValueError(f"op {operation!r:.80} is unknown; this environment answers {', '.join(sorted(_HANDLERS))}, step")
            return handler(self, identity, request, raw)
        except _BadLineError as error:
            return _error_line(None, "protocol", error)
        except MemoryError as error:
            return _error_line(identity, "oom", error)
        except Exception as error:
            return _error_line(identity, "exception", error)

    def step(self, identity: Any, request: dict[str, Any], raw: bytes) -> bytes:
        environment = self.environment or self.made(identity)
        if "action" not in request:
            raise ValueError(f"step has no member action; received the members {', '.join(request)}")
        result = environment.step(environment.cast(request["action"], raw))
        if type(result) is tuple and len(result) == 5:
            observation, reward, terminated, truncated, info = result
        else:
            observation, reward, terminated, truncated, info = _five_values(result)
        if type(reward) is not float:
            reward = _plain_reward(reward)
        output = self.output
        output.start()
        text = (
            f'{{"id":{identity if type(identity) is int else json.dumps(identity)}'
            f',"obs":{_encode(observation, output)}'
            f',"reward":{repr(reward) if reward - reward == 0.0 else _NON_FINITE[repr(reward)]}'
            f',"terminated":{"true" if terminated else "false"},"truncated":{"true" if truncated else "false"}'
        )
        return output.finish(text, info)

    def reset(self, identity: Any, request: dict[str, Any], raw: bytes) -> bytes:
        environment = self.made(identity)
        seed = request.get("seed")
        if seed is not None and (type(seed) is not int or not 0 <= seed < 2**53):
            raise ValueError(f"seed is {seed!r:.80}; expected null or an integer from 0 to 2**53-1")
        if not self.seeded and seed is not None:
            _reseed_generators(seed)
            self.seeded = True
        observation, info = environment.reset(seed, _decode(request.get("options"), raw))
        output = self.output
        output.start()
        return output.finish(f'{{"id":{json.dumps(identity)},"obs":{_encode(observation, output)}', info)

    def hello(self, identity: Any, request: dict[str, Any], raw: bytes) -> bytes:
        if request.get("template"):
            return self.hello_of_template(identity, request, raw)
        self.is_template = False
        workspace = request.get("workspace")
        if isinstance(workspace, str) and os.path.isdir(workspace):
            os.chdir(_home_in(workspace))  # a spawned program starts where its code is
        environment = self.environment or self.begin(identity, request.get("index"), _decode(request.get("config"), raw))
        return f'{{"id":{json.dumps(identity)},"ok":true,{environment.description}}}\n'.encode()

    def hello_of_template(self, identity: Any, request: dict[str, Any], raw: bytes) -> bytes:
        """Make what every environment shares, then stand still, ready to be forked."""
        self.is_template = True
        self.config = _decode(request.get("config"), raw)
        if self.environment is None and not self.in_each_process and not request.get("config_per_row"):
            self.begin(identity, None, self.config)
        _import_generators()
        blockers = _fork_blockers(self.channel)
        if blockers:
            return _refuse_fork(identity, blockers)
        gc.collect()
        gc.freeze()
        known = self.environment.description if self.environment else _describe(None)
        known = known.replace('"features":[', '"features":["fork",', 1)
        return f'{{"id":{json.dumps(identity)},"ok":true,"template":true,{known}}}\n'.encode()

    def begin(self, identity: Any, index: Any, config: Any) -> _Environment:
        """Make the environment. A program that cannot says so with its traceback, which tells it from one that has no hello, and ends."""
        try:
            self.environment = self.make(0 if index is None else index, config)
        except Exception as error:
            traceback.print_exc()
            self.channel.write(_error_line(identity, "oom" if isinstance(error, MemoryError) else "exception", error))
            _flush_and_exit(1)
        return self.environment

    def made(self, identity: Any) -> _Environment:
        """The environment, made now if the program was asked for something before hello."""
        return self.environment or self.begin(identity, None, None)

    def fork(self, identity: Any, request: dict[str, Any], raw: bytes) -> bytes:
        """Copy this process; the parent answers the request, the child says hello on its own channel."""
        descriptors = self.channel.take_descriptors(2)
        if not self.is_template:
            _close_all(descriptors)
            return _refuse_fork(identity, [{"reason": "this process is a running environment; only a template forks"}])
        if len(descriptors) != 2:
            _close_all(descriptors)
            raise ValueError(f"fork came with {len(descriptors)} descriptors; expected 2: the child's channel and its stderr")
        try:
            pid = _fork_orphan()
        except OSError:
            _close_all(descriptors)
            raise
        if pid:
            _close_all(descriptors)
            return f'{{"id":{json.dumps(identity)},"ok":true,"pid":{pid}}}\n'.encode()
        return self.become_child(request, raw, *descriptors)

    def become_child(self, request: dict[str, Any], raw: bytes, channel: int, stderr: int) -> bytes:
        """In the forked child: take its identity and give its first line; end without it where that fails, with the reason on stderr."""
        try:
            self.channel.close()
            self.channel = _Channel(channel, channel)
            atexit._clear()  # what the template registered is not the child's to clean up
            _enter_identity(request, stderr)
        except BaseException:
            os.dup2(stderr, 2)
            traceback.print_exc()
            _flush_and_exit(1)
        try:
            self.is_template = False
            self.seeded = False
            _freshen_generators()
            if request.get("reseed") is not None:
                self.reseed(request["reseed"])
            config = _decode(request["config"], raw) if "config" in request else self.config
            environment = self.environment or self.begin(0, request["index"], config)
            return f'{{"id":0,"ok":true,"index":{request["index"]},"pid":{os.getpid()},{environment.description}}}\n'.encode()
        except BaseException:
            traceback.print_exc()
            _flush_and_exit(1)

    def reseed(self, seed: int) -> None:
        _reseed_generators(seed)
        if self.environment is not None:
            self.environment.reseed(seed)
        if self.user_reseed is not None:
            self.user_reseed(seed)

    def call(self, identity: Any, request: dict[str, Any], raw: bytes) -> bytes:
        environment = self.made(identity)
        name = _name_of(request)
        if name in ("reset", "step", "close"):
            raise ValueError(f"call of {name!r}: use the pool's own {name}() instead, which keeps its seeds and episodes right")
        args = _decode(request.get("args") or [], raw)
        kwargs = _decode(request.get("kwargs") or {}, raw)
        found = _get_attribute(environment.target, name)
        if callable(found):
            found = found(*args, **kwargs)
        elif args or kwargs:
            raise TypeError(f"{name!r} is a {type(found).__name__}, not a function; call it without arguments to read it")
        return self.result(identity, found)

    def get_attribute(self, identity: Any, request: dict[str, Any], raw: bytes) -> bytes:
        environment = self.made(identity)
        return self.result(identity, _get_attribute(environment.target, _name_of(request)))

    def set_attribute(self, identity: Any, request: dict[str, Any], raw: bytes) -> bytes:
        environment = self.made(identity)
        if "value" not in request:
            raise ValueError("set has no member value; expected the attribute's new value there")
        _set_attribute(environment.target, _name_of(request), _decode(request["value"], raw))
        return self.result(identity, None)

    def has_attribute(self, identity: Any, request: dict[str, Any], raw: bytes) -> bytes:
        environment = self.made(identity)
        name = _name_of(request)
        return self.result(identity, any(hasattr(layer, name) for layer in _layers(environment.target)))

    def is_wrapped(self, identity: Any, request: dict[str, Any], raw: bytes) -> bytes:
        environment = self.made(identity)
        path = _name_of(request)
        wrappers = [layer for layer in _layers(environment.target) if hasattr(layer, "env")]
        return self.result(identity, any(_is_instance(layer, path) for layer in wrappers))

    def result(self, identity: Any, value: Any) -> bytes:
        output = self.output
        output.start()
        return output.finish(f'{{"id":{json.dumps(identity)},"result":{_encode(value, output)}')

    def close(self, identity: Any, request: dict[str, Any], raw: bytes) -> bytes:
        reply = f'{{"id":{json.dumps(identity)},"ok":true}}\n'.encode()
        try:
            self.close_environment()
        except Exception as error:
            reply = _error_line(identity, "exception", error)
        self.channel.write(reply)
        self.exit()

    def leave(self) -> NoReturn:
        """The agent is gone."""
        try:
            self.close_environment()
        except Exception:
            traceback.print_exc()
        self.exit()

    def exit(self) -> NoReturn:
        if self.is_template:
            atexit._clear()  # its forks still use what it would clean up
        _flush_and_exit(0)

    def close_environment(self) -> None:
        if self.is_template or self.environment is None:
            return
        if self.user_close is not None:
            self.user_close()
        elif self.environment.close is not None:
            self.environment.close()


_HANDLERS: dict[str, Callable[[_Session, Any, dict[str, Any], bytes], bytes]] = {
    "hello": _Session.hello,
    "reset": _Session.reset,
    "call": _Session.call,
    "get": _Session.get_attribute,
    "set": _Session.set_attribute,
    "has": _Session.has_attribute,
    "wrapped": _Session.is_wrapped,
    "fork": _Session.fork,
    "close": _Session.close,
}


def _flush_and_exit(status: int) -> NoReturn:
    """Exit without the interpreter's teardown, which would touch, and so copy, most pages a fork shares with its template."""
    try:
        atexit._run_exitfuncs()
    finally:
        _flush_standard_streams()
        os._exit(status)


def _flush_standard_streams() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # the environment may have closed or replaced it
            stream.flush()


class _BadLineError(ValueError):
    """A request line that is not one JSON object."""


_scan: Any = json.JSONDecoder().scan_once  # type: ignore[attr-defined]


def _parse_line(line: bytes) -> dict[str, Any]:
    try:
        text = line.decode()
        try:
            request, end = _scan(text, 0)
        except StopIteration:
            request, end = None, 0
        if text[end:] != "\n":
            request = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _BadLineError(f"received {line[:80]!r}, which is not JSON ({error}); expected one JSON object a line") from None
    if type(request) is not dict:
        raise _BadLineError(f"received {line[:80]!r}; expected one JSON object a line")
    return request


def _name_of(request: dict[str, Any]) -> str:
    name = request.get("name")
    if type(name) is not str:
        raise ValueError(f"name is {name!r:.80}; expected the name of an attribute")
    return name


# ---------------------------------------------------------------------------------------------------------------------
# The environment behind one shape
# ---------------------------------------------------------------------------------------------------------------------


class _Environment:
    """reset(seed, options) -> (observation, info) and step(action) -> 4 or 5 values, whatever the user gave."""

    def __init__(self, target: Any, reset: Callable[[Any, Any], tuple[Any, Any]], step: Callable[[Any], Any]) -> None:
        self.target = target
        self.reset = reset
        self.step = step
        self.close: Callable[[], Any] | None = None
        self.cast: Callable[[Any, bytes], Any] = _decode
        self.description = _describe(None)

    def reseed(self, seed: int) -> None:
        core = getattr(self.target, "unwrapped", self.target)
        seeding = sys.modules.get("gymnasium.utils.seeding")
        if seeding is not None and hasattr(core, "np_random"):
            core.np_random = seeding.np_random(seed)[0]


def _environment_of(given: Any) -> _Environment:
    """The environment for an object with `reset` and `step`: Gymnasium's, old gym's or one's own."""
    if inspect.isclass(given):
        raise TypeError(f"the environment is the class {given.__qualname__}; expected an object: serve({given.__qualname__}(…))")
    missing = [name for name in ("reset", "step") if not callable(getattr(given, name, None))]
    if missing:
        raise TypeError(f"the environment is {given!r:.200}, without {' and '.join(missing)}; expected an object with reset and step")
    gymnasium = sys.modules.get("gymnasium")
    strict = gymnasium is not None and isinstance(given, gymnasium.Env)
    environment = _Environment(given, _reset_of(given.reset, False, strict, getattr(given, "seed", None)), given.step)
    close = getattr(given, "close", None)
    environment.close = close if callable(close) else None
    action_space = getattr(given, "action_space", None)
    if action_space is not None:
        environment.cast = _caster_of(action_space)
    environment.description = _describe(given)
    return environment


def _environment_of_functions(reset: Any, step: Any) -> _Environment:
    """The environment for two functions; `call`, `get` and `set` see the object they are bound to, or their module."""
    owner = getattr(step, "__self__", None)
    target = owner if owner is not None else sys.modules.get(getattr(step, "__module__", None) or "__main__")
    return _Environment(target, _reset_of(reset, True, False, None), step)


def _reset_of(function: Any, by_place: bool, strict: bool, seed_method: Any) -> Callable[[Any, Any], tuple[Any, Any]]:
    """Look at the signature once and return reset(seed, options) -> (observation, info)."""
    takes_seed, takes_options, in_order, always_options = _reset_parameters(function, by_place)

    def call(seed: Any, options: Any) -> tuple[Any, Any]:
        if options is not None and not takes_options:
            raise TypeError(
                f"reset received options {options!r:.200}, but the environment's reset takes none; add a parameter named options"
            )
        if in_order:
            result = function(seed, options) if takes_options else function(seed)
        else:
            named = {"seed": seed} if takes_seed else {}
            if options is not None or always_options:
                named["options"] = options
            if not takes_seed and seed is not None and callable(seed_method):
                seed_method(seed)
            result = function(**named)
        if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict):
            return result
        if strict:
            raise TypeError(f"reset returned {result!r:.200}; expected (observation, info), as gymnasium.Env does")
        return result, None

    return call


def _reset_parameters(function: Any, by_place: bool) -> tuple[bool, bool, bool, bool]:
    """Whether reset takes a seed, takes options, is told them by their places rather than by name, and needs options each time."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return True, True, False, False
    kind = inspect.Parameter
    any_keyword = any(p.kind is kind.VAR_KEYWORD for p in parameters.values())
    named = [n for n in ("seed", "options") if any_keyword or (n in parameters and parameters[n].kind is not kind.POSITIONAL_ONLY)]
    places = [p for p in parameters.values() if p.kind in (kind.POSITIONAL_ONLY, kind.POSITIONAL_OR_KEYWORD)]
    required = [p.name for p in places if p.default is kind.empty]
    if by_place and places and (places[0].name not in named or set(required) - set(named)):
        return True, len(places) > 1 and (places[1].name == "options" or len(required) > 1), True, False
    always_options = "options" in parameters and parameters["options"].default is kind.empty
    return "seed" in named, "options" in named, False, always_options


def _five_values(result: Any) -> tuple[Any, Any, Any, Any, Any]:
    """A step's result as five values; the four of old gym's are told apart by `TimeLimit.truncated`."""
    if isinstance(result, (tuple, list)) and len(result) == 5:
        return tuple(result)
    if isinstance(result, (tuple, list)) and len(result) == 4:
        observation, reward, done, info = result
        truncated = bool(done) and bool((info or {}).get("TimeLimit.truncated"))
        return observation, reward, bool(done) and not truncated, truncated, info
    size = f"{len(result)} values" if isinstance(result, (tuple, list)) else f"a {type(result).__name__}"
    raise TypeError(
        f"step returned {size}: {result!r:.200}; expected (observation, reward, terminated, truncated, info) "
        "or old gym's (observation, reward, done, info)"
    )


def _plain_reward(reward: Any) -> float:
    value = reward.item() if hasattr(reward, "item") and getattr(reward, "size", 1) == 1 else reward
    if isinstance(value, (str, bytes)) or not hasattr(value, "__float__") or getattr(value, "size", 1) != 1:
        raise TypeError(f"reward is {reward!r:.200} ({type(reward).__name__}); expected one number")
    return float(value)


def _layers(target: Any) -> Iterator[Any]:
    """The object and what it wraps, outermost first."""
    seen: list[Any] = []
    while target is not None and not any(target is one for one in seen):
        yield target
        seen.append(target)
        target = getattr(target, "env", None) if not inspect.ismodule(target) else None


def _get_attribute(target: Any, name: str) -> Any:
    if hasattr(target, "get_wrapper_attr"):
        return target.get_wrapper_attr(name)
    for layer in _layers(target):
        if hasattr(layer, name):
            return getattr(layer, name)
    raise AttributeError(f"neither {type(target).__name__} nor what it wraps has an attribute {name!r}")


def _set_attribute(target: Any, name: str, value: Any) -> None:
    """Set it where it stands (a wrapper that only forwards it does not count), else on the outermost wrapper, as Gymnasium does."""
    for layer in _layers(target):
        if name in getattr(layer, "__dict__", {}) or hasattr(type(layer), name):
            setattr(layer, name, value)
            return
    setattr(target, name, value)


def _is_instance(layer: Any, path: str) -> bool:
    """Whether the layer is of the class with that path: the one it is defined at or one it is imported from."""
    module, _, name = path.rpartition(".")
    known = getattr(sys.modules.get(module), name, None)
    if isinstance(known, type) and isinstance(layer, known):
        return True
    return any(f"{cls.__module__}.{cls.__qualname__}" == path for cls in type(layer).__mro__)


def _describe(environment: Any) -> str:
    """The members of a hello reply that say what the environment is, as JSON text without the braces."""
    spec = getattr(environment, "spec", None)
    metadata = getattr(environment, "metadata", None)
    render_mode = getattr(environment, "render_mode", None)
    known = {
        "observation_space": _space_of(getattr(environment, "observation_space", None)),
        "action_space": _space_of(getattr(environment, "action_space", None)),
        "metadata": dict(metadata) if isinstance(metadata, dict) else {},
        "render_mode": render_mode if isinstance(render_mode, str) else None,
        "spec": getattr(spec, "id", None) if not isinstance(spec, str) else spec,
    }
    output = _Output()
    output.lenient = True
    features = '["raw","render"]' if known["render_mode"] is not None else '["raw"]'
    members = ",".join(f'"{name}":{_encode(value, output)}' for name, value in known.items())
    return f'"protocol":{PROTOCOL},"features":{features},"rows":1,{members}'


# ---------------------------------------------------------------------------------------------------------------------
# Values out: everything an environment may return, as tagged JSON
# ---------------------------------------------------------------------------------------------------------------------

RAW_FROM_BYTES = 1024  # below it base64 in the line is cheaper for both sides than a second piece
DIGITS_MAX = 400
_TOO_BIG: int = 10**DIGITS_MAX
HEADS_MAX = 4096
_NON_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


class _Output:
    """One reply while it is built: the arrays that follow its line, and how strict it is."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.size = 0
        self.lenient = False  # in info and metadata: what cannot be sent becomes its repr, and no array goes raw
        self.warned: Any = set()

    def start(self) -> None:
        if self.chunks:
            self.chunks = []
            self.size = 0
        self.lenient = False

    def finish(self, text: str, info: Any = False) -> bytes:
        """Close the reply `text`, with its info where there is one, and append the raw bytes."""
        if info is not False:
            text += ',"info":' + (self.encode_info(info) if info else "{}")
        try:
            if not self.chunks:
                return (text + "}\n").encode()
            return b"".join([f'{text},"raw":{self.size}}}\n'.encode(), *self.chunks])
        except UnicodeEncodeError as error:
            around = ascii(text[max(0, error.start - 20) : error.end + 20])
            raise ValueError(
                f"text with a lone surrogate near {around} cannot be sent; decode with errors='replace' or send bytes"
            ) from None

    def encode_info(self, info: Any) -> str:
        if not isinstance(info, dict):
            raise TypeError(f"info is {info!r:.200} ({type(info).__name__}); expected a dict")
        self.lenient = True
        return _encode(info, self)


def _encode(value: Any, output: _Output) -> str:
    """The value as tagged JSON text. Raises TypeError for what has no form."""
    encoder = _ENCODERS.get(type(value))
    if encoder is None:
        encoder = _ENCODERS[type(value)] = _find_encoder(type(value))
    return encoder(value, output)


def _find_encoder(kind: type) -> _Encoder:
    """The encoder of a type met for the first time."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and issubclass(kind, (numpy.ndarray, numpy.generic)) and not issubclass(kind, (str, bytes)):
        return _encode_array
    if issubclass(kind, tuple):
        return _encode_graph if getattr(kind, "_fields", None) == ("nodes", "edges", "edge_links") else _encode_tuple
    for base, encoder in _ENCODERS_OF_BASES:
        if issubclass(kind, base):
            return encoder
    return _encode_foreign


def _encode_int(value: int, output: _Output) -> str:
    text = int.__repr__(value)
    if len(text) > DIGITS_MAX:
        raise ValueError(f"an integer has {len(text)} digits; at most {DIGITS_MAX} can be sent, so send it as text")
    return text


def _encode_float(value: float, output: _Output) -> str:
    text = float.__repr__(value)
    return text if value - value == 0.0 else f'{{"$float":"{text}"}}'


def _encode_text(value: str, output: _Output) -> str:
    return _quote(value)  # a lone surrogate is found in _Output.finish


def _encode_bytes(value: Any, output: _Output) -> str:
    return f'{{"$bytes":"{_base64(bytes(value))}"}}'


def _encode_list(value: Any, output: _Output) -> str:
    kinds = set(map(type, value))
    if kinds <= _PLAIN_TYPES and not (int in kinds and _has_huge(value)):
        try:
            return _encode_plain(value if type(value) is list else list(value))
        except ValueError:  # a NaN or an infinity
            pass
    return "[" + ",".join([_encode(item, output) for item in value]) + "]"


def _has_huge(value: Any) -> bool:
    numbers: list[int] = [item for item in value if type(item) is int]
    return max(numbers) >= _TOO_BIG or min(numbers) <= -_TOO_BIG


def _encode_tuple(value: Any, output: _Output) -> str:
    return '{"$tuple":[' + ",".join([_encode(item, output) for item in value]) + "]}"


def _encode_graph(value: Any, output: _Output) -> str:
    members = ",".join(f'"{name}":{_encode(getattr(value, name), output)}' for name in ("nodes", "edges", "edge_links"))
    return f'{{"$graph":{{{members}}}}}'


def _encode_dict(value: Any, output: _Output) -> str:
    parts = []
    for key, item in value.items():
        head = _KEY_HEADS.get(key) if type(key) is str else None
        parts.append((head or _key_head(key)) + _encode(item, output))
    return "{" + ",".join(parts) + "}"


def _key_head(key: Any) -> str:
    text = key if isinstance(key, str) else str(key)
    head = _quote("$" + text if text[:1] == "$" else text) + ":"
    if type(key) is str and len(key) < 64 and len(_KEY_HEADS) < HEADS_MAX:
        _KEY_HEADS[key] = head
    return head


def _encode_array(value: Any, output: _Output) -> str:
    """A numpy array or scalar: dtype, shape and little-endian C-order bytes."""
    key = (value.dtype, value.shape)
    head = _ARRAY_HEADS.get(key)
    if head is None:
        if _is_odd(value.dtype):
            return _encode_odd_array(value, output)
        if len(_ARRAY_HEADS) >= HEADS_MAX:
            _ARRAY_HEADS.clear()
        head = _ARRAY_HEADS[key] = f'{{"$nd":["{value.dtype.str}",{json.dumps(list(value.shape))},'.replace(" ", "")
    data = value.tobytes()
    if len(data) < RAW_FROM_BYTES or output.lenient:
        return f'{head}"{_base64(data)}"]}}'
    offset = output.size
    output.chunks.append(data)
    output.size += len(data)
    return f"{head}{offset},{len(data)}]}}"


def _is_odd(dtype: Any) -> bool:
    """Whether the dtype is not sent as it is: objects, variable text, records, extension types, big-endian numbers."""
    return dtype.kind in "OT" or dtype.names is not None or dtype.str[0] == ">" or (dtype.kind == "V" and _is_extension(dtype))


def _is_extension(dtype: Any) -> bool:
    return bool(dtype.type is not sys.modules["numpy"].void)


def _encode_odd_array(value: Any, output: _Output) -> str:
    if value.dtype.names is not None:
        return _encode_dict({name: value[name] for name in value.dtype.names}, output)
    if value.dtype.kind in "OT":
        return _encode(value.tolist() if hasattr(value, "tolist") else value, output)
    if value.dtype.str[0] == ">":
        return _encode_array(value.astype(value.dtype.newbyteorder("<")), output)
    return _encode_array(value.astype("<f4"), output)  # bfloat16 and its kin: exact in float32


def _encode_foreign(value: Any, output: _Output) -> str:
    """Another library's array through numpy; anything else has no form."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and hasattr(value, "__array__"):
        return _encode_array(numpy.asarray(value), output)
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if not output.lenient:
        raise TypeError(
            f"cannot send {ascii(value)[:200]} ({kind}); expected numbers, text, bytes, None, lists, tuples, dicts, numpy arrays or scalars"
        )
    if kind not in output.warned:
        output.warned.add(kind)
        print(f"sandpool: info holds a {kind}, which cannot be sent; its repr is sent instead", file=sys.stderr)
    return _quote(ascii(value)[:1000])


def _base64(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode()


_quote = json.encoder.encode_basestring
_encode_plain = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")).encode
_PLAIN_TYPES = frozenset((int, float, str, bool, type(None)))
_KEY_HEADS: dict[str, str] = {}
_ARRAY_HEADS: dict[Any, str] = {}
_ENCODERS: dict[type, _Encoder] = {
    type(None): lambda value, output: "null",
    bool: lambda value, output: "true" if value else "false",
    int: _encode_int,
    float: _encode_float,
    str: _encode_text,
    bytes: _encode_bytes,
    list: _encode_list,
    tuple: _encode_tuple,
    dict: _encode_dict,
}
_ENCODERS_OF_BASES: list[tuple[Any, _Encoder]] = [
    (int, _encode_int),
    (float, _encode_float),
    (str, lambda value, output: _quote(str.__str__(value))),
    ((bytes, bytearray, memoryview), _encode_bytes),
    (collections.abc.Mapping, _encode_dict),
    ((collections.abc.Sequence, collections.abc.Set), _encode_list),
]


# ---------------------------------------------------------------------------------------------------------------------
# Values in: tagged JSON as Python values. Nothing is evaluated or unpickled.
# ---------------------------------------------------------------------------------------------------------------------


def _decode(value: Any, raw: bytes = b"") -> Any:
    """The value of tagged JSON; `raw` is what followed the line."""
    if type(value) is list:
        return [_decode(item, raw) for item in value]
    if type(value) is not dict:
        return value
    if len(value) == 1:
        ((key, inner),) = value.items()
        reader = _READERS.get(key)
        if reader is not None:
            return reader(inner, raw)
    return {(key[1:] if key[:2] == "$$" else key): _decode(item, raw) for key, item in value.items()}


def _read_array(form: Any, raw: bytes) -> Any:
    """`$nd`: a writable numpy array or a numpy scalar; nested lists or a number in a process without numpy."""
    try:
        dtype, shape, data = _array_parts(form, raw)
        count = 1
        for size in shape:
            count *= size
        numpy = sys.modules.get("numpy")
        if numpy is None:
            code = _STRUCT_CODES[dtype[1:]]
            items = struct.unpack(f"{'>' if dtype[0] == '>' else '<'}{count}{code}", data)
            return _nest(list(items), shape)
        kind = numpy.dtype(dtype)
        if kind.kind not in "biufcmMSUV":
            raise ValueError("its dtype is not one of plain numbers, dates or text")
        array = numpy.frombuffer(bytearray(data), kind, count).reshape(shape) if count else numpy.zeros(shape, kind)
        if array.nbytes != len(data):
            raise ValueError(f"its shape needs {array.nbytes} bytes, it has {len(data)}")
        return array if shape else array[()]
    except (TypeError, ValueError, KeyError, IndexError, struct.error) as error:
        raise ValueError(
            f"received $nd {form!r:.120} ({error}); expected [dtype, shape, base64] or [dtype, shape, offset, length]"
        ) from None


def _array_parts(form: Any, raw: bytes) -> tuple[str, tuple[int, ...], bytes]:
    dtype, shape = form[0], tuple(form[1])
    if type(dtype) is not str or any(type(size) is not int or size < 0 for size in shape):
        raise ValueError("dtype must be text and shape a list of sizes")
    if len(form) == 3:
        return dtype, shape, binascii.a2b_base64(form[2])
    offset, length = form[2:]
    if type(offset) is not int or type(length) is not int or offset < 0 or length < 0 or offset + length > len(raw):
        raise ValueError(f"bytes {offset}+{length} are outside the {len(raw)} raw bytes")
    return dtype, shape, raw[offset : offset + length]


_STRUCT_CODES = {
    "b1": "?", "i1": "b", "i2": "h", "i4": "i", "i8": "q", "u1": "B", "u2": "H", "u4": "I", "u8": "Q", "f2": "e", "f4": "f", "f8": "d",
}  # fmt: skip


def _nest(items: list[Any], shape: tuple[int, ...]) -> Any:
    if not shape:
        return items[0]
    if len(shape) == 1:
        return items
    width = len(items) // shape[0] if shape[0] else 0
    return [_nest(items[row * width : (row + 1) * width], shape[1:]) for row in range(shape[0])]


def _read_tuple(items: Any, raw: bytes) -> Any:
    return tuple(_decode(item, raw) for item in items)


def _read_float(text: Any, raw: bytes) -> float:
    if text not in ("nan", "inf", "-inf"):
        raise ValueError(f"received $float {text!r:.80}; expected nan, inf or -inf")
    return float(text)


def _read_graph(members: Any, raw: bytes) -> Any:
    parts = {name: _decode(members.get(name), raw) for name in ("nodes", "edges", "edge_links")}
    gymnasium = sys.modules.get("gymnasium")
    return gymnasium.spaces.GraphInstance(**parts) if gymnasium is not None else parts


_READERS: dict[str, Callable[[Any, bytes], Any]] = {
    "$nd": _read_array,
    "$tuple": _read_tuple,
    "$bytes": lambda text, raw: binascii.a2b_base64(text),
    "$float": _read_float,
    "$graph": _read_graph,
}


# ---------------------------------------------------------------------------------------------------------------------
# Spaces: their JSON, and the cast of an action to what iterating Gymnasium's batched space gives
# ---------------------------------------------------------------------------------------------------------------------


def _space_kind(space: Any) -> str:
    """The name of the Gymnasium (or old gym) space class it is or derives from, else `Custom`."""
    for cls in type(space).__mro__:
        if cls.__module__.split(".")[0] in ("gymnasium", "gym") and cls.__name__ in _SPACES:
            return cls.__name__
    return "Custom"


def _space_of(space: Any) -> Any:
    """The space as JSON-like values, None for None."""
    if space is None:
        return None
    kind = _space_kind(space)
    if kind == "Custom":
        return {"type": "Custom", "repr": ascii(space)[:4000]}
    return dict({"type": kind}, **_SPACES[kind](space))


def _box_of(space: Any) -> dict[str, Any]:
    return {"dtype": space.dtype.str, "shape": list(space.shape), "low": space.low, "high": space.high}


def _integer(value: Any) -> int:
    return int(value)


_SPACES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "Box": _box_of,
    "Discrete": lambda s: {"n": _integer(s.n), "start": _integer(getattr(s, "start", 0)), "dtype": s.dtype.str},
    "MultiDiscrete": lambda s: {
        "nvec": s.nvec.tolist(),
        "start": s.start.tolist() if hasattr(s, "start") else (s.nvec * 0).tolist(),
        "dtype": s.dtype.str,
    },
    "MultiBinary": lambda s: {"n": _integer(s.n) if not hasattr(s.n, "__len__") else [_integer(n) for n in s.n]},
    "Text": lambda s: {"min": s.min_length, "max": s.max_length, "charset": s.characters},
    "Dict": lambda s: {"spaces": [[str(key), _space_of(one)] for key, one in s.spaces.items()]},
    "Tuple": lambda s: {"spaces": [_space_of(one) for one in s.spaces]},
    "Sequence": lambda s: {"space": _space_of(s.feature_space), "stack": bool(getattr(s, "stack", False))},
    "Graph": lambda s: {"node": _space_of(s.node_space), "edge": _space_of(s.edge_space)},
    "OneOf": lambda s: {"spaces": [_space_of(one) for one in s.spaces]},
}


def _caster_of(space: Any) -> _Caster:
    """cast(tagged JSON, raw bytes) -> action, for the environment's action space."""
    build = _CASTERS.get(_space_kind(space))
    return build(space) if build is not None else _decode


def _does_not_fit(value: Any, space: Any, reason: Any) -> ValueError:
    return ValueError(f"the action {value!r:.200} does not fit {ascii(space)[:200]}: {reason}")


def _cast_discrete(space: Any) -> _Caster:
    kind = space.dtype.type

    def cast(value: Any, raw: bytes) -> Any:
        if type(value) is not int:
            plain = _decode(value, raw)
            try:
                whole = int(plain)
                if isinstance(plain, (str, bytes)) or whole != plain or getattr(plain, "shape", ()) != ():
                    raise ValueError("expected one integer")
            except (TypeError, ValueError, OverflowError) as error:
                raise _does_not_fit(value, space, error) from None
            value = whole
        return kind(value)

    return cast


def _cast_array(space: Any) -> _Caster:
    numpy = sys.modules["numpy"]
    dtype, shape, whole = space.dtype, tuple(space.shape), space.dtype.kind in "iub"

    def cast(value: Any, raw: bytes) -> Any:
        try:
            if type(value) is list and not whole:
                try:
                    array = numpy.array(value, dtype)
                except (TypeError, ValueError):
                    array = numpy.asarray(_decode(value, raw), dtype)
            else:
                source = numpy.asarray(_decode(value, raw))
                array = source.astype(dtype, copy=False)
                if whole and source.dtype != dtype and not numpy.array_equal(array, source):
                    raise ValueError("expected integers in its range")
        except (TypeError, ValueError, OverflowError) as error:
            raise _does_not_fit(value, space, error) from None
        if array.shape != shape:
            raise _does_not_fit(value, space, f"its shape is {array.shape}, expected {shape}")
        return array if shape else array[()]

    return cast


def _items_of(value: Any) -> Any:
    return value["$tuple"] if type(value) is dict and len(value) == 1 and "$tuple" in value else value


def _cast_tuple(space: Any) -> _Caster:
    casts = [_caster_of(one) for one in space.spaces]

    def cast(value: Any, raw: bytes) -> Any:
        items = _items_of(value)
        if type(items) is not list or len(items) != len(casts):
            raise _does_not_fit(value, space, f"expected a tuple of {len(casts)}")
        return tuple(one(item, raw) for one, item in zip(casts, items))

    return cast


def _cast_dict(space: Any) -> _Caster:
    casts = {}
    for key, one in space.spaces.items():
        text = str(key)
        casts["$" + text if text[:1] == "$" else text] = (key, _caster_of(one))

    def cast(value: Any, raw: bytes) -> Any:
        if type(value) is not dict or value.keys() != casts.keys():
            raise _does_not_fit(value, space, f"expected exactly the keys {', '.join(casts)}")
        return {key: one(value[text], raw) for text, (key, one) in casts.items()}

    return cast


def _cast_sequence(space: Any) -> _Caster:
    one = _caster_of(space.feature_space)
    stacked = getattr(space, "stack", False)

    def cast(value: Any, raw: bytes) -> Any:
        items = _items_of(value)
        if stacked or type(items) is not list:
            plain = _decode(value, raw)
            dtype = getattr(space.feature_space, "dtype", None)
            return sys.modules["numpy"].asarray(plain, dtype) if isinstance(plain, list) and dtype is not None else plain
        return tuple(one(item, raw) for item in items)

    return cast


def _cast_one_of(space: Any) -> _Caster:
    casts = [_caster_of(one) for one in space.spaces]
    number = sys.modules["numpy"].int64

    def cast(value: Any, raw: bytes) -> Any:
        items = _items_of(value)
        which = _decode(items[0], raw) if type(items) is list and len(items) == 2 else None
        if which is None or isinstance(which, (bool, str)) or which not in range(len(casts)):
            raise _does_not_fit(value, space, f"expected (index below {len(casts)}, value)")
        return number(which), casts[int(which)](items[1], raw)

    return cast


def _cast_graph(space: Any) -> _Caster:
    numpy = sys.modules["numpy"]

    def cast(value: Any, raw: bytes) -> Any:
        plain = _decode(value, raw)
        if not hasattr(plain, "edge_links"):
            raise _does_not_fit(value, space, "expected a $graph")
        dtypes = (space.node_space.dtype, getattr(space.edge_space, "dtype", None), numpy.dtype("int32"))
        arrays = [None if part is None else numpy.asarray(part, dtype) for part, dtype in zip(plain, dtypes)]
        return type(plain)(*arrays)

    return cast


_CASTERS: dict[str, Callable[[Any], _Caster]] = {
    "Box": _cast_array,
    "Discrete": _cast_discrete,
    "MultiDiscrete": _cast_array,
    "MultiBinary": _cast_array,
    "Dict": _cast_dict,
    "Tuple": _cast_tuple,
    "Sequence": _cast_sequence,
    "OneOf": _cast_one_of,
    "Graph": _cast_graph,
}


# ---------------------------------------------------------------------------------------------------------------------
# Errors
# ---------------------------------------------------------------------------------------------------------------------

MESSAGE_MAX = 8 * 1024
TRACEBACK_MAX = 32 * 1024


def _error_line(identity: Any, kind: str, error: BaseException) -> bytes:
    """An error reply. Memory may be short, so it has a form that needs almost none."""
    try:
        cls = type(error)
        name = cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        known = {
            "kind": kind,
            "type": name,
            "message": _text_of(error)[:MESSAGE_MAX],
            "traceback": _without_surrogates("".join(traceback.format_exception(cls, error, trace)))[-TRACEBACK_MAX:],
        }
        return (json.dumps({"id": identity, "error": known}).encode()) + b"\n"
    except MemoryError:
        head = b'{"id":%d' % identity if type(identity) is int else b'{"id":null'
        return head + b',"error":{"kind":"oom","type":"MemoryError","message":"out of memory","traceback":null}}\n'


def _text_of(error: BaseException) -> str:
    try:
        return _without_surrogates(str(error))
    except Exception as second:
        return f"(its text cannot be shown: {type(second).__name__})"


def _without_surrogates(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _refuse_fork(identity: Any, blockers: list[dict[str, Any]]) -> bytes:
    known = {
        "kind": "fork_unsupported",
        "type": "RuntimeError",
        "message": f"this process cannot fork: {json.dumps(blockers)}; start no thread and no child program before serve()",
        "traceback": None,
        "blockers": blockers,
    }
    return json.dumps({"id": identity, "error": known}).encode() + b"\n"


# ---------------------------------------------------------------------------------------------------------------------
# Random generators
# ---------------------------------------------------------------------------------------------------------------------


def _import_generators() -> None:
    """Load numpy.random before the fork, so that its pages are shared, and not once more in every child."""
    if "numpy" in sys.modules:
        __import__("numpy.random")


def _reseed_generators(seed: int) -> None:
    """Seed `random` and `numpy.random` where the environment imported them."""
    if "random" in sys.modules:
        sys.modules["random"].seed(seed)
    if "numpy" in sys.modules:
        __import__("numpy.random")
        sys.modules["numpy.random"].seed(seed % 2**32)


def _freshen_generators() -> None:
    """Give a fork a numpy stream of its own until its first seed (Python itself does so for `random`).

    With a number, for seed() without one touches a hundred pages more, each of which the fork must copy.
    """
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed(int.from_bytes(os.urandom(4), "little"))


# ---------------------------------------------------------------------------------------------------------------------
# Fork and identity
# ---------------------------------------------------------------------------------------------------------------------

CLONE_PARENT, CLONE_CHILD_CLEARTID, CLONE_CHILD_SETTID, CLONE_NEWNS = 0x8000, 0x200000, 0x1000000, 0x20000
SIGCHLD = 17
MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MNT_DETACH = 2, 4, 32, 4096, 2
PR_SET_DUMPABLE, PR_GET_TID_ADDRESS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 4, 40, 47, 4
CAPABILITY_VERSION_3 = 0x20080522
CLONE_NUMBERS = {"x86_64": 56, "aarch64": 220}


def _fork_blockers(channel: _Channel) -> list[dict[str, Any]]:
    """Why a fork of this process would not be a whole copy of it: other threads, child programs, no socket to pass descriptors on."""
    blockers: list[dict[str, Any]] = []
    if not channel.is_socket:
        blockers.append({"reason": "the channel is not a unix socket; SANDPOOL_FD was not given"})
    own = str(os.getpid())
    threads = [number for number in os.listdir("/proc/self/task") if number != own]
    if threads:
        blockers.append({"threads": len(threads), "names": sorted({_read_name(f"/proc/self/task/{n}/comm") for n in threads})})
    children = _child_programs()
    if children:
        blockers.append({"children": len(children), "names": sorted({_read_name(f"/proc/{pid}/comm") for pid in children})})
    return blockers


def _child_programs() -> list[str]:
    """Live children; one that exited and was not waited for is no obstacle."""
    children = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", "rb") as file:
                    state, parent = file.read().rpartition(b")")[2].split()[:2]
            except OSError:
                continue
            if int(parent) == os.getpid() and state not in (b"Z", b"X"):
                children.append(entry)
    return children


def _read_name(path: str) -> str:
    try:
        with open(path, errors="replace") as file:
            return file.read().strip()
    except OSError:
        return "(gone)"


def _fork_orphan() -> int:
    """Fork so that the child's parent is this process's own parent at once, which can then wait for it: 0 in the child, else its pid.

    One raw clone does it (fork itself has no such flag); where the kernel or the machine refuses, two forks do.
    """
    _flush_standard_streams()
    native = _native()
    number = CLONE_NUMBERS.get(os.uname().machine)
    if number is None or not native.can_clone:
        return _fork_twice()
    flags = CLONE_PARENT | SIGCHLD
    address = native.thread_id_address()
    if address:  # keeps the C library's own copy of the thread's number right in the child
        flags |= CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID
    places = (0, address, 0) if number == CLONE_NUMBERS["x86_64"] else (0, 0, address)
    native.before_fork()
    pid = native.syscall(number, flags, 0, *places)
    if pid == 0:
        native.after_fork_child()
        return 0
    number_of_error = native.last_errno()
    native.after_fork_parent()
    if pid > 0:
        return int(pid)
    if number_of_error in (errno.EAGAIN, errno.ENOMEM):  # a limit, which two forks would meet as well
        raise OSError(number_of_error, f"cannot fork: {os.strerror(number_of_error)}")
    native.can_clone = False
    return _fork_twice()


def _fork_twice() -> int:
    incoming, outgoing = os.pipe()
    middle = os.fork()
    if middle == 0:
        pid = -1
        try:
            pid = os.fork()
            if pid:
                os.write(outgoing, b"%d" % pid)
        finally:
            if pid:
                os._exit(0)
        os.close(incoming)
        os.close(outgoing)
        return 0
    os.close(outgoing)
    text = os.read(incoming, 32)
    os.close(incoming)
    os.waitpid(middle, 0)
    if not text:
        raise OSError(errno.EAGAIN, "cannot fork: the second of two forks failed")
    return int(text)


class _Native:
    """The calls of the interpreter and the C library that Python itself does not offer. They are made with the interpreter's lock held."""

    def __init__(self) -> None:
        import ctypes

        self.ctypes = ctypes
        self.library = ctypes.PyDLL(None, use_errno=True)
        self.can_clone = all(hasattr(self.library, f"PyOS_{name}") for name in ("BeforeFork", "AfterFork_Child", "AfterFork_Parent"))
        if self.can_clone:
            self.before_fork, self.after_fork_child = self.library.PyOS_BeforeFork, self.library.PyOS_AfterFork_Child
            self.after_fork_parent = self.library.PyOS_AfterFork_Parent
            for function in (self.before_fork, self.after_fork_child, self.after_fork_parent):
                function.restype, function.argtypes = None, []
        long = ctypes.c_long
        self.syscall = self.library.syscall
        self.syscall.restype, self.syscall.argtypes = long, [long] * 6
        self.prctl = self.library.prctl
        self.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
        self.library.mount.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_void_p]

    def last_errno(self) -> int:
        return int(self.ctypes.get_errno())

    def thread_id_address(self) -> int:
        address = self.ctypes.c_void_p()
        failed = self.prctl(PR_GET_TID_ADDRESS, self.ctypes.addressof(address), 0, 0, 0)
        return 0 if failed else (address.value or 0)

    def check(self, result: int, what: str) -> None:
        if result != 0:
            raise OSError(self.last_errno(), f"{what}: {os.strerror(self.last_errno())}")

    def unshare_mounts(self) -> None:
        self.check(self.library.unshare(CLONE_NEWNS), "unshare(CLONE_NEWNS)")

    def bind(self, source: str, target: str) -> None:
        """Show a folder at another place, without setuid programs and devices; bind and flags take two calls."""
        flags = MS_BIND | MS_REMOUNT | MS_NOSUID | MS_NODEV
        self.check(self.library.mount(source.encode(), target.encode(), None, MS_BIND, None), f"bind {source} on {target}")
        self.check(self.library.mount(None, target.encode(), None, flags, None), f"remount {target}")

    def detach(self, target: str) -> None:
        """Let go of the mount where the agent keeps all rows' quotas: held here too, they would outlive their rows."""
        if self.library.umount2(target.encode(), MNT_DETACH) != 0 and self.last_errno() != errno.EINVAL:
            raise OSError(self.last_errno(), f"umount {target}: {os.strerror(self.last_errno())}")

    def set_dumpable(self) -> None:
        self.check(self.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), "prctl(PR_SET_DUMPABLE)")

    def clear_ambient(self) -> None:
        self.check(self.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), "prctl(PR_CAP_AMBIENT_CLEAR_ALL)")

    def set_capabilities(self, effective: bool, permitted: bool) -> None:
        """Keep what is permitted or drop it for ever, make all of it effective or nothing; nothing stays inheritable."""
        header = (self.ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
        data = (self.ctypes.c_uint32 * 6)()  # twice: effective, permitted, inheritable
        self.check(self.library.capget(header, data), "capget")
        for place in (0, 3):
            kept = data[place + 1] if permitted else 0
            data[place], data[place + 1], data[place + 2] = (kept if effective else 0), kept, 0
        self.check(self.library.capset(header, data), "capset")


_native_once: list[_Native] = []


def _native() -> _Native:
    if not _native_once:
        _native_once.append(_Native())
    return _native_once[0]


def _enter_identity(request: dict[str, Any], stderr: int) -> None:
    """Become environment `index`: its memory group, user, mounts, limits, folders, session and descriptors.

    The order matters: the group is written to with the template's rights, ids come before mounts, capabilities go after them.
    """
    workspace = request["workspace"]
    if request.get("isolated"):
        native = _native()
        if request.get("memory"):
            with open(os.path.join(request["memory"], "cgroup.procs"), "w") as file:
                file.write("0")
        native.set_capabilities(effective=True, permitted=True)
        os.setgroups([])
        os.setresgid(request["gid"], request["gid"], request["gid"])
        os.setresuid(request["uid"], request["uid"], request["uid"])
        native.unshare_mounts()
        for folder, target in (("workspace", "/workspace"), ("tmp", "/tmp"), ("shm", "/dev/shm")):
            native.bind(os.path.join(workspace, folder), target)
        native.detach(os.path.dirname(workspace))
        native.set_capabilities(effective=False, permitted=bool(request.get("branching")))
        _set_limits(request.get("rlimits") or {}, ("as", "nproc"))
        native.set_dumpable()  # also gives back /proc/self, which changing ids took
        home, temporary = "/workspace", "/tmp"
    else:
        _set_limits(request.get("rlimits") or {}, ("as",))  # processes are counted by user, and all share one here
        home, temporary = _home_in(workspace), _home_in(workspace, "tmp")
    _raise_oom_score(request.get("oom_score_adj"))
    os.chdir(home)
    os.environ.update(HOME=home, TMPDIR=temporary, PWD=home)
    if "tempfile" in sys.modules:
        vars(sys.modules["tempfile"])["tempdir"] = None
    os.setsid()
    _redirect_standard_streams(stderr)
    os.close(stderr)


def _home_in(workspace: str, folder: str = "workspace") -> str:
    """A row's folder: inside what the agent made for it where nothing is mounted over /workspace, else that itself."""
    inside = os.path.join(workspace, folder)
    return inside if os.path.isdir(inside) else workspace


def _raise_oom_score(score: Any) -> None:
    """Be killed before the agent and the template when memory runs out; where that cannot be said, the order stays as it is."""
    if score is not None:
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
            file.write(str(score))


def _set_limits(limits: dict[str, Any], names: tuple[str, ...]) -> None:
    for name in names:
        if limits.get(name) is not None:
            resource.setrlimit(getattr(resource, f"RLIMIT_{name.upper()}"), (limits[name], limits[name]))


def _hide_ambient_capabilities() -> None:
    """Put the few capabilities that a template's forks need out of reach of every program that the environment's code starts.

    They stay permitted, which the fork's child makes use of; the agent gave them as ambient ones, which child programs would inherit.
    """
    with open("/proc/self/status") as file:
        ambient = next((line.split()[1] for line in file if line.startswith("CapAmb:")), "0")
    if int(ambient, 16):
        native = _native()
        native.clear_ambient()
        native.set_capabilities(effective=False, permitted=True)
        native.set_dumpable()


# ---------------------------------------------------------------------------------------------------------------------
# The channel
# ---------------------------------------------------------------------------------------------------------------------

READ_BYTES = 64 * 1024


class _Channel:
    """Lines in, replies out, and descriptors that came with the lines."""

    def __init__(self, incoming: int, outgoing: int) -> None:
        os.set_blocking(incoming, True)
        os.set_blocking(outgoing, True)
        self.incoming = incoming
        self.outgoing = outgoing
        self.is_socket = stat.S_ISSOCK(os.fstat(incoming).st_mode)
        self.buffer = b""
        self.descriptors: list[int] = []
        self.socket = socket.socket(fileno=incoming) if self.is_socket else None

    def read_line(self) -> bytes:
        """The next line with its newline; empty at the end of the channel. The ordinary line comes whole, in one read."""
        data = self.buffer or self.receive()
        end = data.find(b"\n") + 1
        if end == len(data):
            self.buffer = b""
            return data
        chunks = []
        while not end:
            chunks.append(data)
            data = self.receive()
            if not data:
                return b""
            end = data.find(b"\n") + 1
        self.buffer = data[end:]
        chunks.append(data[:end])
        return b"".join(chunks)

    def read_exactly(self, size: Any) -> bytes:
        if type(size) is not int or size < 0:
            raise ValueError(f"raw is {size!r:.80}; expected the number of bytes that follow the line")
        chunks, missing = [], size
        while missing:
            data = self.buffer or self.receive()
            if not data:
                raise EOFError(f"the channel ended {missing} bytes before the end of a request of {size} raw bytes")
            chunks.append(data[:missing])
            self.buffer = data[missing:]
            missing -= len(chunks[-1])
        return b"".join(chunks)

    def receive(self) -> bytes:
        try:
            if self.socket is None:
                return os.read(self.incoming, READ_BYTES)
            # recvmsg and not recv: descriptors that nobody has room for would be lost. It costs 0.3 µs more.
            data, ancillary, _, _ = self.socket.recvmsg(READ_BYTES, ANCILLARY_BYTES, socket.MSG_CMSG_CLOEXEC)
        except ConnectionResetError:
            return b""
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                self.descriptors.extend(struct.unpack(f"{len(payload) // 4}i", payload[: len(payload) // 4 * 4]))
        return data

    def take_descriptors(self, count: int) -> list[int]:
        taken, self.descriptors = self.descriptors[:count], self.descriptors[count:]
        return taken

    def write(self, data: bytes) -> None:
        try:
            sent = os.write(self.outgoing, data)
            if sent < len(data):
                rest = memoryview(data)[sent:]
                while rest:
                    rest = rest[os.write(self.outgoing, rest) :]
        except (BrokenPipeError, ConnectionResetError):
            _flush_and_exit(0)  # the agent is gone

    def close(self) -> None:
        """Let go of it in a forked child, with the descriptors meant for the child's siblings."""
        _close_all(self.descriptors)
        self.descriptors = []
        if self.socket is not None:
            self.socket.close()
        else:
            os.close(self.incoming)
        if self.outgoing != self.incoming:
            os.close(self.outgoing)


ANCILLARY_BYTES = socket.CMSG_SPACE(8 * 4)


def _close_all(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _claim_channel(given: str | None) -> _Channel:
    """Move the protocol to descriptors of its own, which child programs do not inherit, and leave 0 and 1 harmless."""
    if given is None:
        if os.isatty(0):
            print(
                "sandpool: this program is an environment; it waits for requests on standard input, one JSON object a line", file=sys.stderr
            )
        incoming, outgoing = _private_copy(0), _private_copy(1)
    else:
        try:
            number = int(given)
            if not stat.S_ISSOCK(os.fstat(number).st_mode):
                raise ValueError("not a socket")
        except (ValueError, OSError) as error:
            raise RuntimeError(f"SANDPOOL_FD is {given!r} ({error}); expected the number of an open unix stream socket") from None
        incoming = outgoing = _private_copy(number)
        if number > 2:
            os.close(number)
    _redirect_standard_streams(2)
    return _Channel(incoming, outgoing)


def _private_copy(descriptor: int) -> int:
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)


def _redirect_standard_streams(stderr: int) -> None:
    """0 reads nothing; 1 and 2 are stderr."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(stderr, 1)
    if stderr != 2:
        os.dup2(stderr, 2)


_claimed: list[_Channel] = []


def _open_channel() -> _Channel:
    """The channel, claimed at import or now; the environment's code ran in between, so look again."""
    if not _claimed:
        _claimed.append(_claim_channel(None))
    channel = _claimed[0]
    try:
        private = os.fstat(channel.incoming)
    except OSError:
        raise RuntimeError("the environment's code closed the protocol's descriptor before serve(); close only what it opened") from None
    for descriptor in (0, 1):
        try:
            exposed = os.path.samestat(os.fstat(descriptor), private)
        except OSError:
            exposed = True
        if exposed:
            _redirect_standard_streams(2)
    return channel


if "SANDPOOL_FD" in os.environ:
    _claimed.append(_claim_channel(os.environ.pop("SANDPOOL_FD")))
    _hide_ambient_capabilities()
    faulthandler.enable()  # a crash in native code leaves its Python stack on stderr

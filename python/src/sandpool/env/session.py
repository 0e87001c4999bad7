"""One process's conversation with the agent."""

from __future__ import annotations

import atexit
import gc
import json
import os
import traceback
from typing import TYPE_CHECKING

from sandpool.env.channel import Channel, close_all
from sandpool.env.decoding import decode
from sandpool.env.describing import describe
from sandpool.env.errors import error_line, kind_of, refuse_fork
from sandpool.env.exiting import flush_and_exit, flush_standard_streams
from sandpool.env.folders import Folders, home_in
from sandpool.env.forking import fork_blockers, fork_orphan
from sandpool.env.generators import freshen_generators, import_generators, reseed_generators
from sandpool.env.identity import enter_identity
from sandpool.env.lines import BadLineError, parse_line
from sandpool.env.memory_group import MemoryGroup

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from sandpool.env.environments import Environment
    from sandpool.env.forms import Form, Served
    from sandpool.env.saving import Saver


class Session:
    """Answers one request after another; a fork goes on with the same conversation on a channel of its own."""

    def __init__(self, form: Form, saver: Saver) -> None:
        self.form = form
        self.saver = saver
        self.served: Served | None = None
        self.packed = False  # whether states must fit processes of several environments, though this one may have one
        self.is_template = False
        self.shared: Environment | None = None
        self.config: Any = None
        self.folders: Folders | None = None  # of a process that a helper forked

    def run(self, channel: Channel) -> NoReturn:
        self.channel = channel
        while True:
            line = self.channel.read_line()
            if not line:
                self.leave()
            # A fork answers in the child too: by then self.channel is the child's own.
            reply = self.answer(line)
            self.channel.write(reply)

    def answer(self, line: bytes) -> bytes | list[Any]:
        """The reply to one request line, newline included."""
        identity = None
        try:
            request = parse_line(line)
            identity = request.get("id")
            operation = request.get("op")
            raw = self.channel.read_exactly(request["raw"]) if "raw" in request else b""
            handler = _HANDLERS.get(operation) if isinstance(operation, str) else None
            if handler is not None:
                return handler(self, identity, request, raw)
            served = self.served or self.begin(identity, request)
            if operation not in served.operations:
                known = ", ".join(sorted([*_HANDLERS, *served.operations]))
                raise ValueError(f"op {operation!r:.80} is unknown; this environment answers {known}")
            return served.answer(operation, identity, request, raw)
        except BadLineError as error:
            return error_line(None, "protocol", error)
        except Exception as error:
            return error_line(identity, kind_of(error), error)

    def hello(self, identity: Any, request: dict[str, Any], raw: bytes) -> bytes:
        if request.get("template"):
            return self.hello_of_template(identity, request, raw)
        self.is_template = False
        workspace = request.get("workspace")
        if isinstance(workspace, str) and os.path.isdir(workspace):
            os.chdir(home_in(workspace))  # a spawned program starts where its code is
        self.config = decode(request.get("config"), raw)
        served = self.served or self.begin(identity, request, raw)
        return f'{{"id":{json.dumps(identity)},"ok":true,{served.describe(self.features_of(served))}}}\n'.encode()

    def hello_of_template(self, identity: Any, request: dict[str, Any], raw: bytes) -> bytes:
        """Make what every environment shares, then stand still, ready to be forked."""
        self.is_template = True
        self.config = decode(request.get("config"), raw)
        if self.shared is None and self.form.is_shared and not request.get("config_per_row"):
            try:
                self.shared = self.form.make(0, self.config)
            except Exception as error:
                self.give_up(identity, error)
        import_generators()
        import sandpool.env.live_fork  # noqa: F401  # here, so that its pages are shared

        blockers = fork_blockers(self.channel)
        if blockers:
            return refuse_fork(identity, blockers)
        gc.collect()
        gc.freeze()
        known = describe(self.shared.announced if self.shared else None, ("fork", *self.form.features))
        return f'{{"id":{json.dumps(identity)},"ok":true,"template":true,{known}}}\n'.encode()

    def begin(self, identity: Any, request: dict[str, Any], raw: bytes = b"") -> Served:
        """Make what is served, by the members of hello or fork; by their defaults if the program was asked for something else first."""
        try:
            configs = decode(request["configs"], raw) if "configs" in request else None
            self.served = self.form.begin(request.get("index") or 0, request.get("rows") or 1, self.config, configs, self.shared)
        except Exception as error:
            self.give_up(identity, error)
        self.packed = self.served.packed or request.get("packed") is True
        return self.served

    def give_up(self, identity: Any, error: Exception) -> NoReturn:
        """An environment that cannot be made: say so with its traceback, which tells it from a program that has no hello, and end."""
        traceback.print_exc()
        self.channel.write(error_line(identity, kind_of(error), error))
        flush_and_exit(1)

    def fork(self, identity: Any, request: dict[str, Any], raw: bytes) -> bytes:
        """Copy this process; the parent answers the request, the child says hello on its own channel."""
        if request.get("live"):
            from sandpool.env.live_fork import fork_live

            return fork_live(self, request)
        descriptors = self.channel.take_descriptors(2)
        if not self.is_template:
            close_all(descriptors)
            return refuse_fork(identity, [{"reason": "this process is a running environment, which forks live alone"}])
        if len(descriptors) != 2:
            close_all(descriptors)
            raise ValueError(f"fork came with {len(descriptors)} descriptors; expected 2: the child's channel and its stderr")
        flush_standard_streams()
        held = [*descriptors]
        try:
            group = MemoryGroup(request)
            held += group.descriptors
            pid = fork_orphan(group)
        except OSError:
            close_all(held)
            raise
        if pid:
            close_all(held)
            return f'{{"id":{json.dumps(identity)},"ok":true,"pid":{pid}}}\n'.encode()
        return self.become_child(request, raw, group, *descriptors)

    def become_child(self, request: dict[str, Any], raw: bytes, group: MemoryGroup, channel: int, stderr: int) -> bytes:
        """In the forked child: take its identity and give its first line; end without it where that fails, with the reason on stderr."""
        try:
            self.channel.close()
            self.channel = Channel(channel, channel)
            atexit._clear()  # what the template registered is not the child's to clean up
            group.check()
            self.folders = Folders(request, stderr)
            enter_identity(request, stderr)
        except BaseException:
            os.dup2(stderr, 2)
            traceback.print_exc()
            flush_and_exit(1)
        try:
            self.is_template = False
            freshen_generators()
            if request.get("reseed") is not None:
                self.reseed(request["reseed"])
            if "config" in request:
                self.config = decode(request["config"], raw)
            served = self.begin(0, request, raw)
            known = served.describe(self.features_of(served))
            return f'{{"id":0,"ok":true,"index":{request["index"]},"pid":{os.getpid()},{known}}}\n'.encode()
        except BaseException:
            traceback.print_exc()
            flush_and_exit(1)

    def reseed(self, seed: int) -> list[str]:
        """Give the process and its environment new random streams; returns the names of what was reseeded."""
        done = reseed_generators(seed)
        environment = self.served or self.shared
        if environment is not None:
            done += environment.reseed(seed)
        if self.form.reseed is not None:
            self.form.reseed(seed)
            done.append("reseed")
        return done

    def features_of(self, served: Served) -> tuple[str, ...]:
        """What this process can do besides: `fork` means live."""
        live = self.folders is not None and self.folders.branching
        one = served.first
        saved = one is not None and self.saver.refusal(one, packed=self.packed) is None
        # Where its process can be forked, attributes alone are no copy of an environment: they lose its files and child programs.
        if one is not None and live and not self.packed and not self.saver.is_told(one):
            saved = False
        return (*(("fork",) if live else ()), *self.form.features, *(("state",) if saved else ()))

    def get_state(self, identity: Any, request: dict[str, Any], raw: bytes) -> bytes | list[Any]:
        from sandpool.env.states import get_state

        return get_state(self, identity, request, raw)

    def set_state(self, identity: Any, request: dict[str, Any], raw: bytes) -> bytes | list[Any]:
        from sandpool.env.states import set_state

        return set_state(self, identity, request, raw)

    def close(self, identity: Any, request: dict[str, Any], raw: bytes) -> bytes:
        reply = f'{{"id":{json.dumps(identity)},"ok":true}}\n'.encode()
        try:
            self.close_environment()
        except Exception as error:
            reply = error_line(identity, "exception", error)
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
        flush_and_exit(0)

    def close_environment(self) -> None:
        if self.is_template or self.served is None:
            return
        if self.form.close is not None:
            self.form.close()
        else:
            self.served.close()


_HANDLERS: dict[str, Callable[[Session, Any, dict[str, Any], bytes], bytes | list[Any]]] = {
    "hello": Session.hello,
    "fork": Session.fork,
    "get_state": Session.get_state,
    "set_state": Session.set_state,
    "close": Session.close,
}

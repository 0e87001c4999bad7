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
from sandpool.env.errors import error_line, refuse_fork
from sandpool.env.exiting import flush_and_exit
from sandpool.env.forking import fork_blockers, fork_orphan
from sandpool.env.generators import freshen_generators, import_generators, reseed_generators
from sandpool.env.identity import enter_identity, home_in
from sandpool.env.lines import BadLineError, parse_line
from sandpool.env.row import Row

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from sandpool.env.environments import Environment


class Session:
    """Answers one request after another; a fork goes on with the same conversation on a channel of its own."""

    def __init__(
        self,
        make: Callable[[Any, Any], Environment],
        in_each_process: bool,
        close: Callable[[], Any] | None,
        reseed: Callable[[int], Any] | None,
    ) -> None:
        self.make = make
        self.in_each_process = in_each_process
        self.user_close = close
        self.user_reseed = reseed
        self.row: Row | None = None
        self.is_template = False
        self.config: Any = None

    def run(self, channel: Channel) -> NoReturn:
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
            request = parse_line(line)
            identity = request.get("id")
            operation = request.get("op")
            raw = self.channel.read_exactly(request["raw"]) if "raw" in request else b""
            if operation == "step":
                return (self.row or self.made(identity)).step(identity, request, raw)
            handler = _HANDLERS.get(operation) if isinstance(operation, str) else None
            if handler is not None:
                return handler(self, identity, request, raw)
            if operation in Row.HANDLERS:
                return Row.HANDLERS[operation](self.made(identity), identity, request, raw)
            known = sorted([*_HANDLERS, *Row.HANDLERS])
            raise ValueError(f"op {operation!r:.80} is unknown; this environment answers {', '.join(known)}, step")
        except BadLineError as error:
            return error_line(None, "protocol", error)
        except MemoryError as error:
            return error_line(identity, "oom", error)
        except Exception as error:
            return error_line(identity, "exception", error)

    def hello(self, identity: Any, request: dict[str, Any], raw: bytes) -> bytes:
        if request.get("template"):
            return self.hello_of_template(identity, request, raw)
        self.is_template = False
        workspace = request.get("workspace")
        if isinstance(workspace, str) and os.path.isdir(workspace):
            os.chdir(home_in(workspace))  # a spawned program starts where its code is
        row = self.row or self.begin(identity, request.get("index"), decode(request.get("config"), raw))
        return f'{{"id":{json.dumps(identity)},"ok":true,{row.environment.description}}}\n'.encode()

    def hello_of_template(self, identity: Any, request: dict[str, Any], raw: bytes) -> bytes:
        """Make what every environment shares, then stand still, ready to be forked."""
        self.is_template = True
        self.config = decode(request.get("config"), raw)
        if self.row is None and not self.in_each_process and not request.get("config_per_row"):
            self.begin(identity, None, self.config)
        import_generators()
        blockers = fork_blockers(self.channel)
        if blockers:
            return refuse_fork(identity, blockers)
        gc.collect()
        gc.freeze()
        known = self.row.environment.description if self.row else describe(None)
        known = known.replace('"features":[', '"features":["fork",', 1)
        return f'{{"id":{json.dumps(identity)},"ok":true,"template":true,{known}}}\n'.encode()

    def begin(self, identity: Any, index: Any, config: Any) -> Row:
        """Make the environment. A program that cannot says so with its traceback, which tells it from one that has no hello, and ends."""
        try:
            self.row = Row(self.make(0 if index is None else index, config))
        except Exception as error:
            traceback.print_exc()
            self.channel.write(error_line(identity, "oom" if isinstance(error, MemoryError) else "exception", error))
            flush_and_exit(1)
        return self.row

    def made(self, identity: Any) -> Row:
        """The environment, made now if the program was asked for something before hello."""
        return self.row or self.begin(identity, None, None)

    def fork(self, identity: Any, request: dict[str, Any], raw: bytes) -> bytes:
        """Copy this process; the parent answers the request, the child says hello on its own channel."""
        descriptors = self.channel.take_descriptors(2)
        if not self.is_template:
            close_all(descriptors)
            return refuse_fork(identity, [{"reason": "this process is a running environment; only a template forks"}])
        if len(descriptors) != 2:
            close_all(descriptors)
            raise ValueError(f"fork came with {len(descriptors)} descriptors; expected 2: the child's channel and its stderr")
        try:
            pid = fork_orphan()
        except OSError:
            close_all(descriptors)
            raise
        if pid:
            close_all(descriptors)
            return f'{{"id":{json.dumps(identity)},"ok":true,"pid":{pid}}}\n'.encode()
        return self.become_child(request, raw, *descriptors)

    def become_child(self, request: dict[str, Any], raw: bytes, channel: int, stderr: int) -> bytes:
        """In the forked child: take its identity and give its first line; end without it where that fails, with the reason on stderr."""
        try:
            self.channel.close()
            self.channel = Channel(channel, channel)
            atexit._clear()  # what the template registered is not the child's to clean up
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
            config = decode(request["config"], raw) if "config" in request else self.config
            row = self.row or self.begin(0, request["index"], config)
            return f'{{"id":0,"ok":true,"index":{request["index"]},"pid":{os.getpid()},{row.environment.description}}}\n'.encode()
        except BaseException:
            traceback.print_exc()
            flush_and_exit(1)

    def reseed(self, seed: int) -> None:
        reseed_generators(seed)
        if self.row is not None:
            self.row.environment.reseed(seed)
        if self.user_reseed is not None:
            self.user_reseed(seed)

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
        if self.is_template or self.row is None:
            return
        if self.user_close is not None:
            self.user_close()
        elif self.row.environment.close is not None:
            self.row.environment.close()


_HANDLERS: dict[str, Callable[[Session, Any, dict[str, Any], bytes], bytes]] = {
    "hello": Session.hello,
    "fork": Session.fork,
    "close": Session.close,
}

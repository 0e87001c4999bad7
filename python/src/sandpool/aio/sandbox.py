"""A machine of its own for one block of an asyncio program."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Generator, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Literal

from sandpool.aio.exec_stream import AsyncExecStream
from sandpool.aio.threads import Threaded, Threads, awaited
from sandpool.errors import InvalidValueError
from sandpool.execs.request import Command, Stdin
from sandpool.execs.result import ExecResult
from sandpool.machines.description import Machine
from sandpool.machines.ports import PortLink
from sandpool.sandbox.bound_files import SandboxFiles
from sandpool.sandbox.run_code import prepare_code
from sandpool.sandbox.sandbox import Sandbox


class AsyncSandboxFiles(Threaded):
    """Files of one machine; see `SandboxFiles`."""

    upload = awaited(SandboxFiles.upload)
    download = awaited(SandboxFiles.download)
    read = awaited(SandboxFiles.read)
    read_text = awaited(SandboxFiles.read_text)
    write = awaited(SandboxFiles.write)
    list = awaited(SandboxFiles.list)
    stat = awaited(SandboxFiles.stat)
    make = awaited(SandboxFiles.make)
    move = awaited(SandboxFiles.move)
    remove = awaited(SandboxFiles.remove)


class AsyncSandbox:
    """Makes a machine and deletes it at the end of the ``async with`` block; see `Sandbox` for the arguments.

    Attributes:
        machine: the `Machine`, as it was when it was made.
        files: its files.

    Example:
        >>> async with AsyncSandbox(environment="python") as sb:  # doctest: +SKIP
        ...     print((await sb.run("print(6 * 7)")).check().stdout)
    """

    machine: Machine
    files: AsyncSandboxFiles

    def __init__(self, machine: str | Mapping[str, Any] = "small", environment: str = "host", **options: Any) -> None:
        self._make = functools.partial(Sandbox, machine, environment, **options)
        self._threads = Threads()
        self._sandbox: Sandbox | None = None

    @property
    def id(self) -> str:
        """Of the machine."""
        return self._opened.id

    @property
    def name(self) -> str:
        """Of the machine."""
        return self._opened.name

    async def exec(
        self,
        command: Command,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        stdin: Stdin = None,
        timeout: float | None = None,
        check: bool = False,
    ) -> ExecResult:
        """Run a program and return how it ended and what it wrote; see `Sandbox.exec`. A cancelled one is ended inside."""
        sandbox = self._opened
        prepared = sandbox.machines.prepare(sandbox.id, command, cwd=cwd, environment=env, user=user, stdin=stdin, timeout=timeout)
        result = await self._end_if_cancelled(prepared)
        return result.check() if check else result

    async def run(
        self,
        code: str,
        language: Literal["python", "bash", "node"] = "python",
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        timeout: float | None = 3600.0,
    ) -> ExecResult:
        """Run a piece of code; see `Sandbox.run`. A cancelled one is ended inside."""
        sandbox = self._opened
        prepared = prepare_code(sandbox.machines, sandbox.id, code, language, cwd=cwd, environment=env, user=user, timeout=timeout)
        return await self._end_if_cancelled(prepared)

    def stream_exec(self, command: Command, **options: Any) -> AsyncExecStream:
        """Run a program and iterate over its output as it comes: use it with ``async with``; see `Sandbox.stream_exec`."""
        return AsyncExecStream(functools.partial(self._opened.stream_exec, command, **options), self._threads)

    def url(self, port: int, *, form: Literal["path", "host"] = "path") -> str:
        """Return the address of a port; see `Ports.url`."""
        return self._opened.url(port, form=form)

    async def link(self, port: int, expires: float = 3600.0) -> PortLink:
        """Make a signed address of a port that needs no key; see `Ports.link`."""
        return await self._threads.run(self._opened.link, port, expires)

    async def wait_until_ready(self, port: int | None = None, *, timeout: float = 60.0) -> Machine:
        """Wait until something inside listens on a port; see `Life.wait_until_ready`."""
        return await self._threads.run(functools.partial(self._opened.wait_until_ready, port, timeout=timeout))

    async def close(self) -> None:
        """Delete the machine and wait until nothing of it is left. Who is cancelled meanwhile leaves it to its end."""
        if self._sandbox is not None:
            await asyncio.shield(self._threads.run(self._sandbox.close))
        await self._threads.close()

    def __await__(self) -> Generator[Any, None, AsyncSandbox]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> AsyncSandbox:
        if self._sandbox is None:
            making = self._threads.submit(self._make)
            try:
                self._sandbox = await asyncio.wrap_future(making)
            except asyncio.CancelledError:
                self._threads.clean_up(_close_late, making)
                raise
            self.machine = self._sandbox.machine
            self.files = AsyncSandboxFiles(self._sandbox.files, self._threads)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self._sandbox is not None:
            await asyncio.shield(self._threads.run(self._sandbox.__exit__, kind, error, None))
        await self._threads.close()

    @property
    def _opened(self) -> Sandbox:
        if self._sandbox is None:
            raise InvalidValueError("The sandbox was not opened; expected `async with AsyncSandbox(…) as sb:` or `sb = await …`.")
        return self._sandbox

    async def _end_if_cancelled(self, prepared: Any) -> ExecResult:
        try:
            result: ExecResult = await self._threads.run(prepared.run)
        except asyncio.CancelledError:
            self._threads.clean_up(prepared.end)
            raise
        return result


def _close_late(making: Future[Sandbox]) -> None:
    """Delete a machine that came to be after its maker was cancelled."""
    if making.exception() is None:
        making.result().close()

"""Machines, images and files for asyncio: the calls of the blocking client, awaited."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from sandpool.aio.exec_stream import AsyncExecStream
from sandpool.aio.threads import Threaded, Threads, awaited
from sandpool.execs.request import Command, Stdin
from sandpool.execs.result import ExecResult
from sandpool.files.files import Files
from sandpool.images.images import Images
from sandpool.machines.create import delete_quietly
from sandpool.machines.description import Machine, MachineRef
from sandpool.machines.machines import Machines


class AsyncFiles(Threaded):
    """Calls about files; see `Files`."""

    upload = awaited(Files.upload)
    download = awaited(Files.download)
    read = awaited(Files.read)
    read_text = awaited(Files.read_text)
    write = awaited(Files.write)
    list = awaited(Files.list)
    stat = awaited(Files.stat)
    make = awaited(Files.make)
    move = awaited(Files.move)
    remove = awaited(Files.remove)


class AsyncImages(Threaded):
    """Calls about images; see `Images`."""

    list = awaited(Images.list)
    build = awaited(Images.build)
    pull = awaited(Images.pull)
    import_tar = awaited(Images.import_tar)
    remove = awaited(Images.remove)


class AsyncMachines(Threaded):
    """Calls about machines; see `Machines`. Whoever is cancelled while he awaits a creation or an exec ends what it began.

    Attributes:
        files: calls about their files.
    """

    _blocking: Machines

    def __init__(self, machines: Machines, threads: Threads) -> None:
        super().__init__(machines, threads)
        self.files = AsyncFiles(machines.files, threads)

    get = awaited(Machines.get)
    list = awaited(Machines.list)
    update = awaited(Machines.update)
    delete = awaited(Machines.delete)
    stop = awaited(Machines.stop)
    start = awaited(Machines.start)
    renew_lease = awaited(Machines.renew_lease)
    logs = awaited(Machines.logs)
    wait_until_ready = awaited(Machines.wait_until_ready)
    ports = awaited(Machines.ports)
    url = awaited(Machines.url)
    link = awaited(Machines.link)
    revoke_links = awaited(Machines.revoke_links)
    set_public = awaited(Machines.set_public)
    start_exec = awaited(Machines.start_exec)
    list_execs = awaited(Machines.list_execs)
    get_exec = awaited(Machines.get_exec)
    wait_exec = awaited(Machines.wait_exec)
    signal_exec = awaited(Machines.signal_exec)
    end_exec = awaited(Machines.end_exec)

    async def create(self, name: str | None = None, **options: Any) -> Any:
        """Make a machine, or with `count` several; see `Machines.create` for arguments and result."""
        making = self._threads.submit(functools.partial(self._blocking.create, name, **options))
        try:
            return await asyncio.wrap_future(making)
        except asyncio.CancelledError:
            self._threads.clean_up(self._delete_late, making)
            raise

    async def exec(
        self,
        machine: MachineRef,
        command: Command,
        *,
        cwd: str | None = None,
        environment: Mapping[str, str] | None = None,
        user: str | None = None,
        stdin: Stdin = None,
        timeout: float | None = None,
        check: bool = False,
    ) -> ExecResult:
        """Run a program and return how it ended and what it wrote; see `Machines.exec`. A cancelled one is ended inside."""
        prepared = self._blocking.prepare(machine, command, cwd=cwd, environment=environment, user=user, stdin=stdin, timeout=timeout)
        try:
            result = await self._threads.run(prepared.run)
        except asyncio.CancelledError:
            self._threads.clean_up(prepared.end)
            raise
        return result.check() if check else result

    def stream_exec(self, machine: MachineRef, command: Command, **options: Any) -> AsyncExecStream:
        """Run a program and iterate over its output as it comes: use it with ``async with``; see `Machines.stream_exec`."""
        return AsyncExecStream(functools.partial(self._blocking.stream_exec, machine, command, **options), self._threads)

    def attach(self, machine: MachineRef, exec_id: str, **options: Any) -> AsyncExecStream:
        """Attach to a program: use it with ``async with``; see `Machines.attach`."""
        return AsyncExecStream(functools.partial(self._blocking.attach, machine, exec_id, **options), self._threads)

    def _delete_late(self, making: Future[Any]) -> None:
        """Delete what came to be after its maker was cancelled."""
        if making.exception() is not None:
            return
        made = making.result()
        for machine in [made] if isinstance(made, Machine) else [fate.machine for fate in made]:
            if machine is not None:
                delete_quietly(self._blocking.calls, machine.id)

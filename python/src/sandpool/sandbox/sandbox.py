"""A machine of its own for one block of a program."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Literal

from sandpool.client.sandpool import Sandpool
from sandpool.errors import NotFoundError, SandpoolError
from sandpool.execs.request import Command, Stdin
from sandpool.execs.result import ExecResult
from sandpool.execs.stream import ExecStream
from sandpool.machines.description import Machine
from sandpool.machines.errors import MachineLostError
from sandpool.machines.ports import PortLink
from sandpool.pool.options import check_seconds
from sandpool.sandbox.bound_files import SandboxFiles
from sandpool.sandbox.lease import MachineLease
from sandpool.sandbox.run_code import prepare_code


class Sandbox:
    """Makes a machine and deletes it at the end of the ``with`` block, after an exception and at the interpreter's exit too.

    Should this process be killed, its lease ends the machine.

    Args:
        machine: its size: ``"small"``, ``"medium"``, ``"large"``, or a dict with any of ``vcpu``, ``memory`` and ``disk``.
        environment: its image, by name or id; ``"host"`` has the host's own programs.
        name: None: one is made.
        env: variables of its programs.
        isolated: no network at all.
        egress: the only hosts it may reach; None: the internet.
        driver: ``"gvisor"`` or ``"namespace"``; None: gvisor where the host has it.
        labels: names and texts of your own.
        lifetime: seconds after which it is deleted, whatever happens.
        lease: seconds it outlives this process.
        progress: a bar on stderr while it is made: True, False, or ``"auto"`` for a terminal.
        url: of the server; None: as `Sandpool` finds it.
        api_key: its key.

    Attributes:
        machine: the `Machine`, as it was when it was made.
        id: its id.
        name: its name.
        files: its files.
        machines: all calls about machines, of the server where this one is.

    Example:
        >>> with Sandbox(machine="large", environment="pytorch") as sb:  # doctest: +SKIP
        ...     sb.exec("nproc").check()
        ...     print(sb.run("print(6 * 7)").check().stdout)
    """

    def __init__(
        self,
        machine: str | Mapping[str, Any] = "small",
        environment: str = "host",
        *,
        name: str | None = None,
        env: Mapping[str, str] | None = None,
        isolated: bool = False,
        egress: Sequence[str] | None = None,
        driver: str | None = None,
        labels: Mapping[str, str] | None = None,
        lifetime: float | None = None,
        lease: float = 300.0,
        progress: str | bool = "auto",
        url: str | None = None,
        api_key: str | None = None,
    ) -> None:
        check_seconds("lease", lease)
        self._client = Sandpool(url, api_key)
        self.machines = self._client.machines
        try:
            self.machine: Machine = self.machines.create(
                name,
                image=environment,
                size=machine,
                driver=driver,
                isolated=isolated,
                egress=egress,
                environment=env,
                labels=labels,
                lifetime=lifetime,
                lease=lease,
                progress=progress,
            )
        except BaseException:
            self._client.close()
            raise
        self.id = self.machine.id
        self.name = self.machine.name
        self.files = SandboxFiles(self.machines.files, self.id)
        self._lease = MachineLease(self._client.calls, self.id, lease)
        self._finalizer = weakref.finalize(self, self._lease.abandon)

    @property
    def closed(self) -> bool:
        """Whether the machine was deleted, or let go, by this object."""
        return not self._finalizer.alive

    def exec(
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
        """Run a program and return how it ended and what it wrote; see `Execs.exec`, whose `environment` is `env` here."""
        given = {"cwd": cwd, "environment": env, "user": user, "stdin": stdin, "timeout": timeout, "check": check}
        return self.machines.exec(self.id, command, **given)  # type: ignore[arg-type]

    def stream_exec(
        self,
        command: Command,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        stdin: Stdin | Literal["open"] = None,
        timeout: float | None = None,
        tty: Mapping[str, int] | None = None,
    ) -> ExecStream:
        """Run a program and iterate over its output as it comes; see `Execs.stream_exec`, whose `environment` is `env` here."""
        given = {"cwd": cwd, "environment": env, "user": user, "stdin": stdin, "timeout": timeout, "tty": tty}
        return self.machines.stream_exec(self.id, command, **given)  # type: ignore[arg-type]

    def run(
        self,
        code: str,
        language: Literal["python", "bash", "node"] = "python",
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        timeout: float | None = 3600.0,
    ) -> ExecResult:
        """Run a piece of code with the interpreter that the machine has, and return how it ended and what it wrote.

        Args:
            code: a whole program. In Python, modules in `cwd` can be imported.
            language: ``"python"``, ``"bash"`` or ``"node"``.
            cwd: as in `exec`.
            env: as in `exec`.
            user: as in `exec`.
            timeout: seconds; None: none.
        """
        given = {"cwd": cwd, "environment": env, "user": user, "timeout": timeout}
        return prepare_code(self.machines, self.id, code, language, **given).run()  # type: ignore[arg-type]

    def url(self, port: int, *, form: Literal["path", "host"] = "path") -> str:
        """Return the address of a port; see `Ports.url`."""
        return self.machines.url(self.machine, port, form=form)

    def link(self, port: int, expires: float = 3600.0) -> PortLink:
        """Make a signed address of a port that needs no key; see `Ports.link`."""
        return self.machines.link(self.id, port, expires)

    def wait_until_ready(self, port: int | None = None, *, timeout: float = 60.0) -> Machine:
        """Wait until something inside listens on a port; see `Life.wait_until_ready`."""
        return self.machines.wait_until_ready(self.id, port, timeout=timeout)

    def close(self) -> None:
        """Delete the machine and wait until nothing of it is left. Closing twice is allowed; a forked process only lets go of it."""
        was_open = self._finalizer.detach() is not None
        self._lease.end()
        if was_open and not self._lease.inherited:
            # One that its lifetime or another client has ended is as closed as it can be.
            with contextlib.suppress(NotFoundError, MachineLostError):
                self.machines.delete(self.id)
        self._client.close()

    def detach(self) -> None:
        """Let go of the machine without deleting it; it lives on for its lease, unless `Sandpool().machines.renew_lease` renews that."""
        self._finalizer.detach()
        self._lease.end()
        self._client.close()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        # What ended the block says more than a close that fails too, most often because the server is gone.
        with contextlib.nullcontext() if error is None else contextlib.suppress(SandpoolError):
            self.close()

    def __repr__(self) -> str:
        return f"<Sandbox {self.name} ({self.id}), {'closed' if self.closed else self.machine.driver}>"

"""The life of machines: made, listed, changed, stopped, started, deleted."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, overload

from sandpool.errors import ReplyError, SandpoolError, ServerTimeoutError, error_from_reply
from sandpool.machines.create import create_machines, create_request
from sandpool.machines.description import Machine, MachineFate, MachineList, MachineRef, Quota, checked_mapping, path_of
from sandpool.machines.errors import MachineStateError, PortRefusedError
from sandpool.machines.ports import Ports
from sandpool.pool.options import check_seconds

# Saving a disk of 50 GiB takes minutes.
_DISK_S = 1800.0
_DELETE_S = 300.0
_UNSET: Any = object()
Fates: TypeAlias = "list[MachineFate]"
_ENDED = frozenset({"stopped", "failed", "deleting", "stopping"})
_POLL_S = (0.05, 1.0)


class Life(Ports):
    """Calls that make and end machines. A machine is given as its name, its id, or a `Machine`."""

    @overload
    def create(
        self,
        name: str | None = None,
        *,
        image: str = "host",
        size: str | Mapping[str, Any] = "small",
        driver: str | None = None,
        isolated: bool = False,
        egress: Sequence[str] | None = None,
        environment: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        lifetime: float | None = None,
        lease: float | None = None,
        count: None = None,
        progress: str | bool = "auto",
    ) -> Machine: ...

    @overload
    def create(
        self,
        name: str | None = None,
        *,
        image: str = "host",
        size: str | Mapping[str, Any] = "small",
        driver: str | None = None,
        isolated: bool = False,
        egress: Sequence[str] | None = None,
        environment: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        lifetime: float | None = None,
        lease: float | None = None,
        count: int,
        progress: str | bool = "auto",
    ) -> Fates: ...

    def create(
        self,
        name: str | None = None,
        *,
        image: str = "host",
        size: str | Mapping[str, Any] = "small",
        driver: str | None = None,
        isolated: bool = False,
        egress: Sequence[str] | None = None,
        environment: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        lifetime: float | None = None,
        lease: float | None = None,
        count: int | None = None,
        progress: str | bool = "auto",
    ) -> Machine | Fates:
        """Make a machine and return it once it runs; with `count` several, NAME-1, NAME-2 …, and the fate of each in order.

        Args:
            name: ``[a-z][a-z0-9-]{0,39}``, unique among your machines; None: one is made.
            image: name or id; ``"host"`` has the host's own programs, read-only.
            size: ``"small"`` (1 vCPU, 1 GiB, 5 GiB disk), ``"medium"`` (2, 4, 20), ``"large"`` (4, 8, 50), or a dict with any of
                ``vcpu``, ``memory`` and ``disk``, the latter in bytes or as text such as ``"2GiB"``.
            driver: ``"gvisor"`` or ``"namespace"``; None: gvisor where the host has it.
            isolated: no network at all.
            egress: the only hosts it may reach, such as ``["api.example.com", "*.example.org"]``; None: the internet.
            environment: variables of its programs.
            labels: names and texts of your own, to find it by.
            lifetime: seconds after which it is deleted, whatever it does.
            lease: seconds without a `renew_lease` after which it is deleted.
            count: how many, up to 100.
            progress: a bar on stderr: True, False, or ``"auto"`` for a terminal.

        Raises:
            LimitError: the quota is used up; `details` has the figures.
            RequestRefusedError, ImageNotFoundError: an argument cannot be used; nothing was made.
        """
        request = create_request(name, image, size, driver, isolated, egress, environment, labels, lifetime, lease, count)
        last = create_machines(self.calls, request, progress)
        if count is None:
            return Machine.of_wire(last.get("machine"))
        fates = last.get("machines", [last])
        if not isinstance(fates, list) or len(fates) != count:
            raise ReplyError(f"{count} machines were asked for, and the server told the fate of {fates!r:.100}.")
        return [_fate_of(fate) for fate in fates]

    def get(self, machine: MachineRef) -> Machine:
        """Return a machine as it is now. Looking changes nothing of it."""
        return Machine.of_wire(self.calls.json("GET", path_of(machine)))

    def list(self, labels: Mapping[str, str] | None = None, state: str | None = None) -> MachineList:
        """Return your machines that have all these labels, and are in this state; the list's `quota` says how many you may have."""
        wanted = checked_mapping("labels", labels)
        query = [("label", f"{key}={value}") for key, value in wanted.items()] + ([] if state is None else [("state", state)])
        reply = self.calls.json("GET", ("machines",), query=query)
        quota = reply.get("quota", {})
        if not isinstance(reply, dict) or not isinstance(reply.get("machines"), Sequence):
            raise ReplyError(f"The server answered with {reply!r:.100}; expected a list of machines.")
        return MachineList([Machine.of_wire(item) for item in reply["machines"]], Quota(quota.get("used", 0), quota.get("limit", 0)))

    def update(
        self, machine: MachineRef, *, name: str = _UNSET, labels: Mapping[str, str] = _UNSET, lifetime: float | None = _UNSET
    ) -> Machine:
        """Change a machine's name, all its labels, or its lifetime (seconds from its creation; None: none); what is not given stays."""
        given = {"name": name, "labels": labels, "lifetime": lifetime}
        body = {key: value for key, value in given.items() if value is not _UNSET}
        return Machine.of_wire(self.calls.json("PATCH", path_of(machine), body=body))

    def delete(self, machine: MachineRef) -> None:
        """Delete a machine, from any state; returns once nothing of it is left.

        Raises:
            MachineNotFoundError: there is none.
        """
        self.calls.json("DELETE", path_of(machine), timeout_s=_DELETE_S)

    def stop(self, machine: MachineRef) -> Machine:
        """End a machine's programs and keep its disk; `start` brings it back."""
        return Machine.of_wire(self.calls.json("POST", path_of(machine, "stop"), body={}, timeout_s=_DISK_S))

    def start(self, machine: MachineRef) -> Machine:
        """Start a stopped machine, with the disk it had."""
        return Machine.of_wire(self.calls.json("POST", path_of(machine, "start"), body={}, timeout_s=_DISK_S))

    def renew_lease(self, machine: MachineRef) -> Machine:
        """Let a machine live for another lease."""
        return Machine.of_wire(self.calls.json("POST", path_of(machine, "lease"), body={}))

    def logs(self, machine: MachineRef) -> bytes:
        """Return the last words of the machine's agent and runtime, raw: `sandpool.escape.escape_untrusted` makes them printable."""
        with self.calls.open("GET", path_of(machine, "logs")) as reply:
            return b"".join(self.calls.server.pieces(reply))

    def wait_until_ready(self, machine: MachineRef, port: int | None = None, *, timeout: float = 60.0) -> Machine:
        """Wait until a machine runs, and with `port` until something inside listens there.

        Raises:
            MachineStateError: it has ended, or was stopped.
            ServerTimeoutError: it was not ready in time.
        """
        check_seconds("timeout", timeout)
        until, pause_s = time.monotonic() + timeout, _POLL_S[0]
        while True:
            found = self.get(machine)
            if found.state in _ENDED:
                why = f", {found.reason}" if found.reason else ""
                raise MachineStateError(f"The machine {found.name} is {found.state}{why}; expected one that runs or will.")
            if found.state == "running" and (port is None or self._listens(found, port)):
                return found
            if time.monotonic() + pause_s > until:
                awaited = "nothing listens on port " + str(port) if found.state == "running" else f"it is {found.state}"
                raise ServerTimeoutError(f"The machine {found.name} was not ready after {timeout:g} s: {awaited}.", code="deadline_passed")
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, _POLL_S[1])

    def _listens(self, machine: Machine, port: int) -> bool:
        entry = next((entry for entry in self.ports(machine) if entry.port == port), None)
        if entry is None or not entry.public or entry.pid is not None:
            return entry is not None
        # A public port is listed though nobody listens, and who does cannot always be known: it answers, or it refuses.
        try:
            with self.calls.open("GET", path_of(machine, "ports", str(port), "")):
                return True
        except PortRefusedError:
            return False
        except SandpoolError:
            return True


def _fate_of(fate: object) -> MachineFate:
    if isinstance(fate, dict) and isinstance(fate.get("machine"), dict):
        return MachineFate(Machine.of_wire(fate["machine"]), None)
    return MachineFate(None, error_from_reply(422, fate))

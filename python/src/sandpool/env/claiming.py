"""The claim on the channel. Imported before anything of the environment runs, so that nothing it prints can reach the protocol."""

from __future__ import annotations

import faulthandler
import fcntl
import os
import stat
import sys

from sandpool.env.channel import Channel, redirect_standard_streams
from sandpool.env.identity import hide_ambient_capabilities


def claim_channel(given: str | None) -> Channel:
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
    redirect_standard_streams(2)
    return Channel(incoming, outgoing)


def _private_copy(descriptor: int) -> int:
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)


_claimed: list[Channel] = []


def open_channel() -> Channel:
    """The channel, claimed at import or now; the environment's code ran in between, so look again."""
    if not _claimed:
        _claimed.append(claim_channel(None))
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
            redirect_standard_streams(2)
    return channel


if "SANDPOOL_FD" in os.environ:
    _claimed.append(claim_channel(os.environ.pop("SANDPOOL_FD")))
    hide_ambient_capabilities()
    faulthandler.enable()  # a crash in native code leaves its Python stack on stderr

"""Errors of machines, their execs, files, ports and images; a class for each that a program would handle by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sandpool.errors import NotFoundError, RequestRefusedError, SandpoolError
from sandpool.escape import escape_untrusted

if TYPE_CHECKING:
    from sandpool.execs.result import ExecResult


class MachineNotFoundError(NotFoundError):
    """No machine of this key's owner has that id or name."""

    default_code = "machine_not_found"


class MachineStateError(SandpoolError):
    """The call does not fit the state that the machine is in; the message names both."""

    default_code = "machine_state"


class MachineLostError(SandpoolError):
    """The machine ended, or was deleted, while the call ran."""

    default_code = "machine_lost"


class ExecNotFoundError(NotFoundError):
    """The machine has no exec of that id: never, or no longer."""

    default_code = "exec_not_found"


class ExecFailedError(SandpoolError):
    """A program could not be started, or `ExecResult.check` found that it failed.

    Attributes:
        result: what the program left, output included; None if it never started, `details` then has `errno` and `what`.
    """

    default_code = "exec_failed"

    def __init__(self, message: str, *, result: ExecResult | None = None, **extras: Any) -> None:
        super().__init__(message, **extras)
        self.result = result

    @classmethod
    def of_result(cls, result: ExecResult) -> ExecFailedError:
        """Make the error of a program that ended otherwise than with exit code 0."""
        said = _last_words(result.stderr) or _last_words(result.stdout)
        return cls(_how_it_ended(result) + said, result=result, hint=_hint_of(result), details={"exec": result.id})


class MachineFileNotFoundError(NotFoundError, FileNotFoundError):
    """There is no such path inside the machine."""

    default_code = "file_not_found"


class MachineFileExistsError(RequestRefusedError, FileExistsError):
    """The path exists already inside the machine."""

    default_code = "file_exists"


class MachineFileError(RequestRefusedError, OSError):
    """The path, or what is there, does not fit the call; `details` has `path` and `errno`."""

    default_code = "file_invalid"


class MachinePermissionError(SandpoolError, PermissionError):
    """Inside the machine, the user may not do this. The key is not in question."""

    default_code = "permission_denied"


class PortRefusedError(SandpoolError, ConnectionError):
    """Nothing inside the machine listens on that port."""

    default_code = "port_refused"


class ImageNotFoundError(NotFoundError):
    """The image is not on the server's host; the hint says how it is made."""

    default_code = "image_not_found"


class ImageFailedError(SandpoolError):
    """The image could not be built, pulled or imported."""

    default_code = "image_failed"


class ImageInUseError(SandpoolError):
    """Machines still use the image; `details` names them."""

    default_code = "image_in_use"


BY_CODE: dict[str, type[SandpoolError]] = {
    kind.default_code: kind
    for kind in (
        MachineNotFoundError,
        MachineStateError,
        MachineLostError,
        ExecNotFoundError,
        ExecFailedError,
        MachineFileNotFoundError,
        MachineFileExistsError,
        MachineFileError,
        MachinePermissionError,
        PortRefusedError,
        ImageNotFoundError,
        ImageFailedError,
        ImageInUseError,
    )
}

_LAST_WORDS_CHARS = 2_000


def _how_it_ended(result: ExecResult) -> str:
    if result.timed_out:
        return f"The program ran into its timeout after {result.duration_ms / 1000:.1f} s and was ended"
    if result.oom_killed:
        return f"The program used up the machine's memory and was killed (exit code {result.exit_code})"
    if result.signal is not None:
        return f"The program was ended by signal {escape_untrusted(result.signal)} (exit code {result.exit_code})"
    if result.state == "lost":
        return "The program went away with its machine before it ended"
    return f"The program ended with exit code {result.exit_code}"


def _hint_of(result: ExecResult) -> str | None:
    if result.timed_out:
        return "Its output so far is in `.result`. Give a longer timeout=, or none."
    if result.oom_killed:
        return "Its output so far is in `.result`. Make the machine with more memory: size={'memory': '4GiB'}, or 'large'."
    return "All its output is in `.result`." if not result.truncated else "The head and tail of its output are in `.result`."


def _last_words(text: str) -> str:
    said = text[-_LAST_WORDS_CHARS:].strip()
    return ":\n    " + said.replace("\n", "\n    ") if said else ""

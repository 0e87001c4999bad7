"""A progress bar on stderr while a pool is made."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_LABELS = {
    "upload": "Uploading the environment",
    "layer": "Installing dependencies",
    "template": "Starting the template",
    "start": "Starting environments",
    "reset": "First reset",
}


class ProgressDisplay:
    """Shows a bar for each phase; shows nothing when switched off, or with ``"auto"`` when stderr is no terminal."""

    def __init__(self, progress: str | bool, labels: Mapping[str, str] = _LABELS) -> None:
        self._labels = labels
        self._shown = sys.stderr.isatty() if progress == "auto" else bool(progress)
        self._bars: Progress | None = None
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> ProgressDisplay:
        if self._shown:
            # Imported only here: it takes longer to import than the rest of the client.
            from rich.console import Console
            from rich.progress import Progress

            self._bars = Progress(console=Console(stderr=True), transient=True)
            self._bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self._bars is not None:
            self._bars.stop()

    def update(self, phase: object, done: object, total: object) -> None:
        """Show that `done` of `total` is reached in a phase; a phase or figures that this version does not know are ignored.

        A total of 0 is one that nobody knows.
        """
        if self._bars is None or not isinstance(phase, str) or phase not in self._labels:
            return
        if not isinstance(done, (int, float)) or not isinstance(total, (int, float)):
            return
        if phase not in self._tasks:
            self._tasks[phase] = self._bars.add_task(self._labels[phase], total=total or None)
        self._bars.update(self._tasks[phase], completed=done, total=total or None)

"""One way to print a measurement."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

_LEAST_WIDTH = 100  # columns; a pipe has none of its own

console = Console()
if console.width < _LEAST_WIDTH:
    console = Console(width=_LEAST_WIDTH)


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> None:
    """Prints a table; the first column is text, the others are figures."""
    table = Table(title=title, title_justify="left", title_style="bold")
    for position, column in enumerate(columns):
        table.add_column(column, justify="left" if position == 0 else "right", no_wrap=position == 0)
    for row in rows:
        table.add_row(*row)
    console.print(table)
    if note:
        console.print(note, style="dim")
    console.print()


def ratio(value: float, reference: float | None) -> str:
    return "" if not reference else f"{value / reference:.2f}x"

"""Tables that fit.

Laws: a table never wraps: it leaves out what it can do without, the last to go first named, and
shortens names before it cuts anything else; numbers are never cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from deepsea_referee.cli.output import draw, fit, shown, width

if TYPE_CHECKING:
    from rich.table import Table

GAP: Final = 2
READABLE: Final = 14
"""A name is shortened to this before a column is left out,"""
SHORTEST: Final = 8
"""and to this if nothing can be left out any more."""


class Column(NamedTuple):
    """One column; texts may be shortened, numbers stand to the right."""

    head: str
    cells: Sequence[str]
    text: bool = False
    spare: int = 0
    """0: always there. The higher, the sooner it is left out."""


def grid(columns: Sequence[Column], room: int | None = None) -> None:
    """Print a table in `room` columns, or as many as there are."""
    draw(table(columns, width() if room is None else room))


def table(columns: Sequence[Column], room: int) -> Table:
    """The table that fits."""
    from rich.table import Table

    kept = list(columns)
    while _needed(kept, READABLE) > room and (spare := max(kept, key=lambda c: c.spare)).spare:
        kept.remove(spare)
    sizes = [_size(column) for column in kept]
    # The widest name gives way first.
    while sum(sizes) + GAP * (len(kept) - 1) > room:
        texts = [i for i, column in enumerate(kept) if column.text and sizes[i] > SHORTEST]
        if not texts:
            break
        sizes[max(texts, key=lambda i: sizes[i])] -= 1
    drawn = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold")
    for column in kept:
        drawn.add_column(column.head, justify="left" if column.text else "right", no_wrap=True)
    cells = [
        [fit(cell, size) if column.text else cell for cell in column.cells]
        for column, size in zip(kept, sizes, strict=True)
    ]
    for row in zip(*cells, strict=True):
        drawn.add_row(*row)
    return drawn


def _size(column: Column) -> int:
    from rich.cells import cell_len

    return max(cell_len(shown(cell)) for cell in (column.head, *column.cells))


def _needed(columns: Sequence[Column], readable: int) -> int:
    sizes = [min(_size(c), readable) if c.text else _size(c) for c in columns]
    return sum(sizes) + GAP * (len(columns) - 1)

"""Tables that fit the width of the output.

Invariants: a table never wraps: it leaves out the least important columns, and shortens names
before it cuts anything else; numbers are never cut. It does not use rich's tables, which take
longer to import than a table of results should take to appear.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import click
from rich.cells import cell_len

from deepsea_cli.output import fit, width
from deepsea_rules.printable import printable

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


def span(first: int | None, last: int | None) -> str:
    """Ranks in a few characters: "2", "2-4", or "-" where they are not known."""
    if first is None:
        return "-"
    return f"{first}" if first == last else f"{first}-{last}"


def grid(columns: Sequence[Column]) -> None:
    """Print a table as wide as the terminal."""
    head, *rows = table(columns, width())
    click.echo(click.style(head, bold=True))
    for row in rows:
        click.echo(row)


def table(columns: Sequence[Column], room: int) -> list[str]:
    """The lines of the table that fits, the head first."""
    kept = [(column, _size(column)) for column in columns]
    while _needed(kept) > room and (spare := max(kept, key=lambda c: c[0].spare))[0].spare:
        kept.remove(spare)
    sizes = [size for _, size in kept]
    # The widest name gives way first.
    while sum(sizes) + GAP * (len(kept) - 1) > room:
        texts = [i for i, (column, _) in enumerate(kept) if column.text and sizes[i] > SHORTEST]
        if not texts:
            break
        sizes[max(texts, key=lambda i: sizes[i])] -= 1
    cells = [
        _aligned([column.head, *column.cells], size if column.text else None)
        for (column, _), size in zip(kept, sizes, strict=True)
    ]
    return [(" " * GAP).join(row).rstrip() for row in zip(*cells, strict=True)]


def _aligned(cells: Sequence[str], most: int | None) -> list[str]:
    """The cells of a column, all of one width: texts of at most this many columns, or numbers."""
    cells = [printable(cell) if most is None else fit(cell, most) for cell in cells]
    size = max(map(cell_len, cells))
    rooms = [" " * (size - cell_len(cell)) for cell in cells]
    if most is None:
        return [room + cell for room, cell in zip(rooms, cells, strict=True)]
    return [cell + room for room, cell in zip(rooms, cells, strict=True)]


def _size(column: Column) -> int:
    return max([cell_len(printable(cell)) for cell in (column.head, *column.cells)])


def _needed(sized: Sequence[tuple[Column, int]]) -> int:
    sizes = [min(size, READABLE) if column.text else size for column, size in sized]
    return sum(sizes) + GAP * (len(sized) - 1)

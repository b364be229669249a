"""Output of commands: width, colours, tables, and untrusted text.

Invariants: names from bots and records pass through `printable` before they reach a terminal; what
goes into a pipe is plain text; rich is imported only when something is drawn with it.
"""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from deepsea_cli.lazy import PROGRAM
from deepsea_rules.printable import printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

TAB = "\t"
GAP = 2
NOTE = " " * 4
"""The indent of a text below its row."""
READABLE = 14
"""A name is shortened to this before a column is left out,"""
SHORTEST = 8
"""and to this if nothing can be left out any more."""


def width() -> int:
    """The width of output in columns: COLUMNS, the terminal's, or 80."""
    return max(20, shutil.get_terminal_size((80, 24)).columns)


def cells(text: str) -> int:
    """How many columns a text takes; characters may be two columns wide."""
    from rich.cells import cell_len

    return cell_len(text)


def fit(text: str, columns: int) -> str:
    """The text shortened to that many columns, but not padded."""
    from rich.cells import set_cell_size

    safe = printable(text)
    if cells(safe) <= columns:
        return safe
    return f"{set_cell_size(safe, columns - 1).rstrip()}…"


def column(text: str, columns: int) -> str:
    """The text shortened or padded to that many columns."""
    from rich.cells import set_cell_size

    return set_cell_size(fit(text, columns), columns)


def console() -> Console:
    """A rich console on stdout; it respects NO_COLOR and the terminal's abilities."""
    from rich.console import Console

    return Console(file=sys.stdout, width=width(), highlight=False, markup=False)


def draw(renderable: RenderableType) -> None:
    """Write a rich renderable to stdout, with colours only on a terminal."""
    screen = console()
    with screen.capture() as capture:
        screen.print(renderable)
    # Through click, so that a closed pipe looks the same whatever was drawn.
    for line in capture.get().splitlines():
        click.echo(line.rstrip(), color=True)


def echo(line: str) -> None:
    """Write one line to stdout, wrapped on a terminal, between words alone: paths stay whole."""
    line = printable(line)
    click.echo(_wrapped(line, width()) if sys.stdout.isatty() else line)


def _wrapped(line: str, room: int, indent: str = "") -> str:
    """A line in lines of that many columns."""
    return textwrap.fill(
        line,
        room,
        initial_indent=indent,
        subsequent_indent=f"{indent}{' ' * 6}",
        break_on_hyphens=False,
        break_long_words=False,
    )


def echo_lines(text: str, indent: str = "") -> None:
    """Lines of text on stdout as they are, such as a traceback: not wrapped."""
    for line in text.splitlines():
        click.echo(f"{indent}{printable(line, keep=TAB)}".rstrip())


def print_check(ok: bool, needed: bool, line: str, remedy: str, error: str = "") -> None:
    """Print the outcome of one check; `needed` is False for advice."""
    echo(f"{'ok' if ok else 'FAIL' if needed else 'note':<5}{line}")
    echo_lines(error, "     ")
    if not ok:
        echo(f"     to do: {remedy}")


def print_error(line: str) -> None:
    click.echo(f"deepsea-referee: {printable(line)}", err=True)


def count(number: int, what: str) -> str:
    """`1 game`, `2 games`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def print_command(program: str, *words: str) -> None:
    """Print a command to be copied, not wrapped; this program is named as it was called.

    `python` and `pip` are those of the environment that this program runs in.
    """
    if program == PROGRAM:
        program = called()
    elif program in ("python", "pip") and not _is_entered():
        words = words if program == "python" else ("-m", "pip", *words)
        program = sys.executable
    click.echo(f"  {printable(shlex.join((program, *words)))}")


def _is_entered() -> bool:
    """Whether `python` is found where the one is that runs this program."""
    found = shutil.which("python")
    return found is not None and Path(found).parent.samefile(Path(sys.executable).parent)


def called() -> str:
    """How to call this program: by its name if that finds it, else by the path that was used."""
    path = Path(sys.argv[0])
    if path.name != PROGRAM:  # python -m deepsea_cli
        return PROGRAM
    found = shutil.which(PROGRAM)
    return PROGRAM if found and path.exists() and path.samefile(found) else str(path)


def print_json(document: object) -> None:
    click.echo(json.dumps(document, indent=2))


def print_document(value: object) -> None:
    """Write what the ladder's API gives as one JSON document."""
    from deepsea_arena.documents import to_json

    print_json(to_json(value))


class Column(NamedTuple):
    """One column; texts may be shortened, numbers stand to the right."""

    head: str
    cells: Sequence[str]
    text: bool = False
    spare: int = 0
    """0: always there. The higher, the sooner it is left out."""
    is_note: bool = False
    """True if its texts are whole, on lines below their rows, where the table is too wide."""


def number(value: float | None, digits: int = 1, *, sign: bool = False) -> str:
    """A number, or `-` where there is none."""
    if value is None:
        return "-"
    text = f"{value:{'+' if sign else ''}.{digits}f}"
    # What is rounded to nothing has no sign.
    return text if float(text) else f"{0.0:.{digits}f}"


def shared_wins(wins: Sequence[int], games: int) -> str:
    """A line on wins of a table that add up to more than its games; else ""."""
    if sum(wins) <= games:
        return ""
    in_all = f"{sum(wins)} wins in {count(games, 'game')}"
    return f"a tie for the first place is a win for each: {in_all}"


def percent(share: float | None, digits: int = 0) -> str:
    """A share of one, in percent."""
    return "-" if share is None else f"{100 * share:.{digits}f} %"


def span(first: int | None, last: int | None) -> str:
    """Ranks in a few characters: "2", "2-4", or "-" where they are not known."""
    if first is None:
        return "-"
    return f"{first}" if first == last else f"{first}-{last}"


def grid(*columns: Column) -> None:
    """Print a table as wide as the terminal."""
    head, *rows = table(columns, width())
    click.echo(click.style(head, bold=True))
    for row in rows:
        click.echo(row)


def table(columns: Sequence[Column], room: int) -> list[str]:
    """The lines of the table that fits, the head first."""
    kept = [(column, _size(column)) for column in columns]
    notes: list[Column] = []
    if sum(size for _, size in kept) + GAP * (len(kept) - 1) > room:
        notes = [column for column, _ in kept if column.is_note]
        kept = [sized for sized in kept if sized[0] not in notes]
    while _needed(kept) > room and (spare := max(kept, key=lambda c: c[0].spare))[0].spare:
        kept.remove(spare)
    sizes = [size for _, size in kept]
    # The widest name gives way first.
    while sum(sizes) + GAP * (len(kept) - 1) > room:
        texts = [i for i, (column, _) in enumerate(kept) if column.text and sizes[i] > SHORTEST]
        if not texts:
            break
        sizes[max(texts, key=lambda i: sizes[i])] -= 1
    aligned = [
        _aligned([column.head, *column.cells], size if column.text else None)
        for (column, _), size in zip(kept, sizes, strict=True)
    ]
    head, *rows = [(" " * GAP).join(row).rstrip() for row in zip(*aligned, strict=True)]
    lines = [head]
    for number, row in enumerate(rows):
        lines.append(row)
        for note in notes:
            if (cell := note.cells[number]) != "-":
                lines += _wrapped(f"{note.head}: {printable(cell)}", room, NOTE).splitlines()
    return lines


def _aligned(column: Sequence[str], most: int | None) -> list[str]:
    """The cells of a column, all of one width: texts of at most this many columns, or numbers."""
    column = [printable(cell) if most is None else fit(cell, most) for cell in column]
    size = max(map(cells, column))
    rooms = [" " * (size - cells(cell)) for cell in column]
    if most is None:
        return [room + cell for room, cell in zip(rooms, column, strict=True)]
    return [cell + room for room, cell in zip(rooms, column, strict=True)]


def _size(column: Column) -> int:
    return max([cells(printable(cell)) for cell in (column.head, *column.cells)])


def _needed(sized: Sequence[tuple[Column, int]]) -> int:
    sizes = [min(size, READABLE) if column.text else size for column, size in sized]
    return sum(sizes) + GAP * (len(sized) - 1)

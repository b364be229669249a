"""Output of commands: width, colours, and untrusted text.

Invariants: names from bots and records pass through `printable` before they reach a terminal; what
goes into a pipe is plain text; rich is imported only when something is drawn with it.
"""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, Final

import click

from deepsea_rules.printable import printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


TAB: Final = "\t"


def width() -> int:
    """The width of output in columns: COLUMNS, the terminal's, or 80."""
    return max(20, shutil.get_terminal_size((80, 24)).columns)


def fit(text: str, columns: int) -> str:
    """The text shortened to that many columns, but not padded."""
    from rich.cells import cell_len, set_cell_size

    safe = printable(text)
    if cell_len(safe) <= columns:
        return safe
    return f"{set_cell_size(safe, columns - 1).rstrip()}…"


def column(text: str, columns: int) -> str:
    """The text shortened or padded to that many columns; characters may be two columns wide."""
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
    """Write one line to stdout, wrapped between words on a terminal."""
    line = printable(line)
    if sys.stdout.isatty():
        line = textwrap.fill(line, width(), subsequent_indent=" " * 6, break_on_hyphens=False)
    click.echo(line)


def echo_lines(text: str, indent: str = "") -> None:
    """Lines of text on stdout as they are, such as a traceback: not wrapped."""
    for line in text.splitlines():
        click.echo(f"{indent}{printable(line, keep=TAB)}".rstrip())


def print_error(line: str) -> None:
    """Print a line to stderr."""
    click.echo(f"deepsea-referee: {printable(line)}", err=True)


def print_json(document: object) -> None:
    """Write one JSON document to stdout."""
    click.echo(json.dumps(document, indent=2))

"""Output of commands: width, colours, tables, and untrusted text.

Invariants: names from bots and records pass through `printable` before they reach a terminal; what
goes into a pipe is plain text; rich is imported only when something is drawn with it.

Progress of commands that play many games: one line on stderr.

Invariants: where stderr is no terminal rich is not loaded, and a line is printed from time to time
if that is asked for; lines are drawn after a game and by no thread, so that nothing runs beside a
bot's clock; what is drawn on a terminal vanishes at the end.
What is printed on stderr meanwhile stands above it.

Times and standings, as the commands of the ladder show them.

Invariant: rounding, units and widths only; what is shown, in which columns and in which order,
comes from the arena.
"""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from deepsea_cli.lazy import PROGRAM
from deepsea_rules.printable import printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress as RichProgress
    from rich.progress import ProgressColumn

    from deepsea_arena.documents import TableColumn
    from deepsea_arena.seasons import SeasonInfo
    from deepsea_arena.standings import Standings
    from deepsea_ladder.model import Extension
    from deepsea_ladder.standings import StandingLine


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


_T = TypeVar("_T")
PATIENCE_US = 1_000_000
"""A command that is shorter shows no progress."""
REDRAW_US = 200_000
PRINT_US = 30_000_000
"""How often a line is printed where stderr is no terminal."""
ROOMY = 80
"""Columns of a terminal that is wide enough for a bar and the speed, too."""


class Progress(AbstractContextManager["Progress"]):
    """A counter up to `total`, or without an end, shown until `close` or the end of `with`.

    unit     what is counted, in the plural
    wanted   False draws nothing
    printed  print lines where stderr is no terminal
    now_us   a clock's; the system's unless another is given
    """

    def __init__(
        self,
        total: int | None,
        unit: str = "games",
        *,
        wanted: bool = True,
        printed: bool = False,
        now_us: Callable[[], int] | None = None,
    ) -> None:
        self._total = total
        self._unit = unit
        self._done = 0
        self._bar: RichProgress | None = None
        self._prints = False
        if not wanted or not (sys.stderr.isatty() or printed):
            return
        from deepsea_referee.clock import SystemClock

        self._now_us = now_us or SystemClock().now_us
        self._began_us = self._now_us()
        if sys.stderr.isatty():
            from rich.console import Console

            # Without a width of its own it follows the terminal's.
            console = Console(stderr=True, highlight=False, markup=False)
            if console.is_interactive:  # not with TERM=dumb
                self._due_us = self._began_us + PATIENCE_US
                self._bar = self._drawn_on(console)
                self._task = self._bar.add_task("", total=total, count="", rate="", note="")
                return
        self._prints = printed
        self._due_us = self._began_us + PRINT_US

    def _drawn_on(self, console: Console) -> RichProgress:
        from rich import progress
        from rich.table import Column

        columns: list[ProgressColumn] = [
            progress.TextColumn("{task.fields[count]}", markup=False),
            progress.TextColumn("{task.fields[rate]}", markup=False),
            progress.TextColumn(
                "{task.fields[note]}",
                markup=False,
                table_column=Column(no_wrap=True, overflow="ellipsis"),
            ),
        ]
        if self._total is not None:
            bar, rest = progress.BarColumn(bar_width=20), progress.TimeRemainingColumn()
            roomy = console.width >= ROOMY
            columns[1:2] = [bar, rest, columns[1]] if roomy else [rest]
        return progress.Progress(
            *columns,
            console=console,
            auto_refresh=False,
            transient=True,
            # stdout may be a pipe, and would come out on stderr.
            redirect_stdout=False,
            get_time=lambda: self._now_us() / 1_000_000,
        )

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, steps: int = 1, note: str = "", *, at_once: bool = False) -> None:
        """Add to the count, and redraw the line if it is due; the note is at its end.

        at_once  redraw it on a terminal in any case, since there may be no news for long
        """
        self.reach(self._done + steps, note, at_once=at_once)

    def reach(self, done: int, note: str = "", *, at_once: bool = False) -> None:
        """The same, with the count that is reached; it never goes back."""
        self._done = max(self._done, done)
        if self._bar is None and not self._prints:
            return
        now_us = self._now_us()
        if now_us < self._due_us and not (at_once and self._bar is not None):
            return
        count = f"{self._done}" if self._total is None else f"{self._done}/{self._total}"
        rate = f"{self._done * 1_000_000 / max(1, now_us - self._began_us):.1f} {self._unit}/s"
        note = printable(note)
        if self._bar is None:
            self._due_us = now_us + PRINT_US
            click.echo(f"{count} {self._unit}, {rate}  {note}".rstrip(), err=True)
            return
        self._due_us = now_us + REDRAW_US
        self._bar.update(self._task, completed=self._done, count=count, rate=rate, note=note)
        if self._bar.live.is_started:
            self._bar.refresh()
        else:
            self._bar.start()


@contextmanager
def counting(games: int) -> Iterator[Callable[[int], object]]:
    """Show the progress of work on so many games, which calls this with how many more are done."""
    with Progress(games, printed=True) as counter:
        yield counter.advance


def counted(games: Sequence[_T], doing: str) -> Iterator[_T]:
    """The games, one after the other, with the progress of what is done with each of them."""
    with Progress(len(games), printed=True) as progress:
        for game in games:
            yield game
            progress.advance(note=doing)


def minute(time: datetime | None) -> str:
    """A time in UTC, to the minute."""
    return "-" if time is None else time.strftime("%Y-%m-%d %H:%M")


def beginning(digest: str) -> str:
    """The first characters of a SHA-256 in hex, as pages show it."""
    return f"{digest[:16]}..."


def skill(mu: float, high: float) -> str:
    return f"{mu:.1f} ±{high - mu:4.1f}"


def closed_or_paused(season: SeasonInfo) -> str:
    """What follows the name of a season that is not played."""
    return ", closed" if season.closed_at else ", paused" if season.paused_at else ""


def peculiarities(season: SeasonInfo) -> Iterator[str]:
    """What a season has that others do not have, a line each."""
    from deepsea_ladder.season import BotLimits

    if season.same_author:
        yield "bots of one author meet"
    if season.former_versions:
        yield "former versions play on"
    if season.best_of_author:
        yield "the standings have the best bot of each author"
    usual = BotLimits()
    if (season.memory_mib, season.processes) != (usual.memory_mib, usual.processes):
        yield f"a bot may take {season.memory_mib} MiB and {season.processes} processes"
    if season.require_cgroups:
        yield "it is played only where there are control groups"
    if season.submissions_until is not None and season.closed_at is None:
        yield f"takes in bots until {minute(season.submissions_until)} UTC"
    if season.packages:
        yield f"its bots may count on {', '.join(season.packages)}"
    if season.missing_packages:
        missing = ", ".join(season.missing_packages)
        yield f"note: not installed here: {missing}; install them before games are played"


def print_extensions(extensions: Sequence[Extension]) -> None:
    """Print who may submit after the deadline, a line each."""
    for one in extensions:
        echo(f"  {one.author} may submit until {minute(one.until)} UTC")


def columns_of(
    columns: Iterable[TableColumn],
    lines: Sequence[Any],
    cells: Mapping[str, Callable[[Any], str]] | None = None,
) -> Iterator[Column]:
    """The columns of a table of structs; if it is too wide, less important ones are left out.

    cells  what is shown of a line in the column of a field, where that is more than its value
    """
    for column in columns:
        shown = (cells or {}).get(column.field) or partial(_cell, column)
        yield Column(
            column.head,
            [shown(line) for line in lines],
            text=column.form in ("text", "note"),
            spare=column.spare,
            is_note=column.form == "note",
        )


def _cell(column: TableColumn, line: object) -> str:
    """The value of a line in a column, in few characters."""
    value = getattr(line, column.field)
    match value:
        case None | "" | ():
            return "-"
        case datetime():
            return minute(value)
        case tuple():
            return ", ".join(value)
        case int() | float() if column.form == "percent":
            return percent(value, column.digits)
        case float():
            return number(value, column.digits, sign=column.form == "change")
    return str(value)


def standing_columns(lines: Sequence[StandingLine]) -> list[Column]:
    """The columns of the standings; versions of one bot differ by their numbers."""
    from deepsea_arena.standings import COLUMNS

    several = len({line.bot for line in lines}) < len(lines)
    return list(
        columns_of(
            [
                one._replace(spare=0) if one.field == "version" and several else one
                for one in COLUMNS
            ],
            lines,
            {"mu": lambda line: skill(line.mu, line.high)},
        )
    )


def print_table(page: Standings, *, whole_head: bool = False) -> None:
    """Print the standings of a season as a table, and the head of its chain or its beginning."""
    season = page.season
    closed = closed_or_paused(season)
    echo(
        f"season {season.name}{closed}: {count(page.games, 'game')}, "
        f"rules {season.rules!r}, clock {season.clock}"
    )
    if season.submissions_until is not None and season.closed_at is None:
        echo(f"takes in bots until {minute(season.submissions_until)} UTC")
    click.echo()
    grid(*standing_columns(page.standings))
    if page.not_listed:
        click.echo()
        echo(f"not shown: {count(page.not_listed, 'bot')} taken out; --all shows them")
    click.echo()
    head = season.head if whole_head else f"{beginning(season.head)} (--json has all of it)"
    echo(f"head {season.place}: {head}")

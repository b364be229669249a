"""Output of commands: lines, tables, numbers, the line of progress, and a ladder's standings.

Invariants: names from bots and records pass through `printable` before they reach a terminal; a
pipe gets plain text; rich is imported only when something is drawn with it. Progress is one line on
stderr, which is drawn after a game and by no thread, so that nothing runs beside a bot's clock; a
terminal shows it until the end, and below other lines of stderr. The columns of tables of a ladder
and their order come from the arena; this module only rounds numbers and chooses widths.
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
"""Number of spaces between columns."""
NOTE = " " * 4
"""Indent of a text below its row."""
READABLE = 14
"""Width to which a text column is shortened before another column is left out,"""
SHORTEST = 8
"""and to which it is shortened if no column can be left out any more."""


def width() -> int:
    """Return the width of output in columns: that of COLUMNS, of the terminal, or 80."""
    return max(20, shutil.get_terminal_size((80, 24)).columns)


def cells(text: str) -> int:
    """Return how many columns of a terminal a text takes; some characters take two."""
    from rich.cells import cell_len

    return cell_len(text)


def fit(text: str, columns: int) -> str:
    """Return the text, shortened with an ellipsis if it is wider than that many columns."""
    from rich.cells import set_cell_size

    safe = printable(text)
    if cells(safe) <= columns:
        return safe
    return f"{set_cell_size(safe, columns - 1).rstrip()}…"


def column(text: str, columns: int) -> str:
    """Return the text, shortened or padded to exactly that many columns."""
    from rich.cells import set_cell_size

    return set_cell_size(fit(text, columns), columns)


def console() -> Console:
    """Return a rich console on stdout, which respects NO_COLOR and the terminal's abilities."""
    from rich.console import Console

    return Console(file=sys.stdout, width=width(), highlight=False, markup=False)


def draw(renderable: RenderableType) -> None:
    """Write a rich renderable to stdout, with colours only on a terminal."""
    screen = console()
    with screen.capture() as capture:
        screen.print(renderable)
    # Written by click, so that a closed pipe raises the same error as for other output.
    for line in capture.get().splitlines():
        click.echo(line.rstrip(), color=True)


def echo(line: str) -> None:
    """Write a line to stdout; on a terminal it is wrapped between words, so paths stay whole."""
    line = printable(line)
    click.echo(_wrapped(line, width()) if sys.stdout.isatty() else line)


def _wrapped(line: str, room: int, indent: str = "") -> str:
    """Return a line wrapped to so many columns; all lines but the first are indented further."""
    return textwrap.fill(
        line,
        room,
        initial_indent=indent,
        subsequent_indent=f"{indent}{' ' * 6}",
        break_on_hyphens=False,
        break_long_words=False,
    )


def echo_lines(text: str, indent: str = "") -> None:
    """Write lines to stdout without wrapping them, such as those of a traceback."""
    for line in text.splitlines():
        click.echo(f"{indent}{printable(line, keep=TAB)}".rstrip())


def print_check(ok: bool, needed: bool, line: str, remedy: str, error: str = "") -> None:
    """Print the outcome of one check.

    needed  False for a check whose failure is only a note, as advice
    line    name of the check and what it observed
    remedy  what to do if the check failed
    error   lines of an error that belongs to it
    """
    failure = "FAIL" if needed else "note"
    outcome = "ok" if ok else failure
    echo(f"{outcome:<5}{line}")
    echo_lines(error, "     ")
    if not ok:
        echo(f"     to do: {remedy}")


def print_error(line: str) -> None:
    """Print a line of an error on stderr, after the program's name."""
    click.echo(f"deepsea-referee: {printable(line)}", err=True)


def count(number: int, noun: str) -> str:
    """Return `1 game`, `2 games`, and so on; the plural of the noun ends in s."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def print_command(program: str, *words: str) -> None:
    """Print a command for the user to copy, in one line, so that it works as it is printed.

    This program is named as the user called it. `python` and `pip` are replaced by those of the
    environment in which this program runs, if the shell would start others.
    """
    command = [program, *words]
    if program == PROGRAM:
        command[0] = program_call()
    elif program == "python" and not _is_environment_active():
        command[0] = sys.executable
    elif program == "pip" and not _is_environment_active():
        command[:1] = [sys.executable, "-m", "pip"]
    click.echo(f"  {printable(shlex.join(command))}")


def _is_environment_active() -> bool:
    """Return True if a shell finds `python` in the folder of the Python that runs this program."""
    path = shutil.which("python")
    return path is not None and Path(path).parent.samefile(Path(sys.executable).parent)


def program_call() -> str:
    """Return the word that calls this program in the user's shell.

    That is its name, or its path if the shell finds no or another program by the name.
    """
    own_path = Path(sys.argv[0])
    if own_path.name != PROGRAM:  # called as python -m deepsea_cli
        return PROGRAM
    path_in_shell = shutil.which(PROGRAM)
    if path_in_shell and own_path.exists() and own_path.samefile(path_in_shell):
        return PROGRAM
    return str(own_path)


def print_json(document: object) -> None:
    """Print one JSON document, indented."""
    click.echo(json.dumps(document, indent=2))


def print_document(value: object) -> None:
    """Print a value of the ladder's API as one JSON document."""
    from deepsea_arena.documents import to_json

    print_json(to_json(value))


class Column(NamedTuple):
    """A column of a table: its head and its cells from top to bottom."""

    head: str
    cells: Sequence[str]
    text: bool = False
    """True for texts, which stand to the left and may be shortened; numbers stand to the right."""
    spare: int = 0
    """Order in which columns are left out of a table that is too wide, highest first; 0: never."""
    is_note: bool = False
    """True if a table that is too wide shows the texts uncut, on lines below their rows."""


def number(value: float | None, digits: int = 1, *, sign: bool = False) -> str:
    """Return a number with so many digits after the point, or `-` for None.

    sign  True to write a plus before positive numbers
    """
    if value is None:
        return "-"
    text = f"{value:+.{digits}f}" if sign else f"{value:.{digits}f}"
    if float(text) == 0:
        return f"{0.0:.{digits}f}"  # a value that is rounded to 0 has no sign
    return text


def shared_wins(wins: Sequence[int], games: int) -> str:
    """Return a line that explains wins that add up to more than the games, otherwise ""."""
    if sum(wins) <= games:
        return ""
    in_all = f"{sum(wins)} wins in {count(games, 'game')}"
    return f"a tie for the first place is a win for each: {in_all}"


def percent(share: float | None, digits: int = 0) -> str:
    """Return a share from 0 to 1 in percent, or `-` for None."""
    return "-" if share is None else f"{100 * share:.{digits}f} %"


def rank_range(first: int | None, last: int | None) -> str:
    """Return a range of ranks in few characters: "2", "2-4", or "-" if it is not known."""
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
    """Return the lines of a table, its head first, made to fit into so many columns.

    In a table that is too wide notes go below their rows first, then spare columns are left out,
    then the widest texts are shortened.
    """
    shown = [(column, _width_of(column)) for column in columns]
    notes: list[Column] = []
    if _total_width([size for _, size in shown]) > room:
        notes = [column for column, _ in shown if column.is_note]
        shown = [(column, size) for column, size in shown if column not in notes]
    while _least_width(shown) > room:
        most_spare = max(shown, key=lambda column_and_size: column_and_size[0].spare)
        if most_spare[0].spare == 0:
            break
        shown.remove(most_spare)
    sizes = [size for _, size in shown]
    while _total_width(sizes) > room:
        texts = [i for i, (column, _) in enumerate(shown) if column.text and sizes[i] > SHORTEST]
        if not texts:
            break
        widest = max(texts, key=lambda i: sizes[i])
        sizes[widest] -= 1
    aligned = [
        _aligned([column.head, *column.cells], size if column.text else None)
        for (column, _), size in zip(shown, sizes, strict=True)
    ]
    head, *rows = [(" " * GAP).join(row).rstrip() for row in zip(*aligned, strict=True)]
    lines = [head]
    for index, row in enumerate(rows):
        lines.append(row)
        for note in notes:
            cell = note.cells[index]
            if cell != "-":
                lines += _wrapped(f"{note.head}: {printable(cell)}", room, NOTE).splitlines()
    return lines


def _aligned(column: Sequence[str], text_width: int | None) -> list[str]:
    """Return the cells of a column with spaces, so that all are as wide as the widest one.

    column      the head and the cells
    text_width  largest width of the texts, which are shortened and stand to the left; None for
                numbers, which stand to the right
    """
    if text_width is None:
        numbers = [printable(cell) for cell in column]
        size = max(map(cells, numbers))
        return [" " * (size - cells(cell)) + cell for cell in numbers]
    texts = [fit(cell, text_width) for cell in column]
    size = max(map(cells, texts))
    return [cell + " " * (size - cells(cell)) for cell in texts]


def _width_of(column: Column) -> int:
    """Return the width of a column's widest cell."""
    return max([cells(printable(cell)) for cell in (column.head, *column.cells)])


def _total_width(sizes: Sequence[int]) -> int:
    """Return the width of a table whose columns have these widths."""
    return sum(sizes) + GAP * (len(sizes) - 1)


def _least_width(columns: Sequence[tuple[Column, int]]) -> int:
    """Return the width of a table of columns with their widths, after texts are shortened."""
    return _total_width([min(size, READABLE) if column.text else size for column, size in columns])


# ----- Progress

_T = TypeVar("_T")
PATIENCE_US = 1_000_000
"""Time after which a terminal shows progress; a command that is shorter shows none."""
REDRAW_US = 200_000
"""Shortest time between two drawings."""
PRINT_US = 30_000_000
"""Time between two lines if stderr is no terminal."""
ROOMY = 80
"""Number of columns of a terminal that has room for a bar and the speed, too."""


class Progress(AbstractContextManager["Progress"]):
    """A counter of games or other steps, shown on stderr until `close` or the end of `with`.

    total    number of steps in all; None if it is not known
    unit     noun for the steps, in the plural
    wanted   False to show nothing
    printed  True to print a line from time to time if stderr is no terminal
    now_us   the time in microseconds of a clock; None for the system's
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

            # Made without a width, so that it follows changes of the terminal's width.
            console = Console(stderr=True, highlight=False, markup=False)
            if console.is_interactive:  # not with TERM=dumb
                self._due_us = self._began_us + PATIENCE_US
                self._bar = self._make_bar(console)
                self._task = self._bar.add_task("", total=total, count="", rate="", note="")
                return
        self._prints = printed
        self._due_us = self._began_us + PRINT_US

    def _make_bar(self, console: Console) -> RichProgress:
        """Return rich's bar with count, speed and note; a wide terminal shows more of them."""
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
            count, rate, note = columns
            bar, time_left = progress.BarColumn(bar_width=20), progress.TimeRemainingColumn()
            if console.width >= ROOMY:
                columns = [count, bar, time_left, rate, note]
            else:
                columns = [count, time_left, note]
        return progress.Progress(
            *columns,
            console=console,
            auto_refresh=False,
            transient=True,
            # rich would print what goes to stdout on stderr, also if stdout is a pipe.
            redirect_stdout=False,
            get_time=lambda: self._now_us() / 1_000_000,
        )

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, steps: int = 1, note: str = "", *, at_once: bool = False) -> None:
        """Add steps that are done to the count, and show it if that is due.

        note     text at the end of the line
        at_once  True to show it on a terminal in any case, before a long time without news
        """
        self.reach(self._done + steps, note, at_once=at_once)

    def reach(self, done: int, note: str = "", *, at_once: bool = False) -> None:
        """Set the number of steps that are done, and show it if that is due.

        note     text at the end of the line
        at_once  True to show it on a terminal in any case, before a long time without news
        """
        self._done = max(self._done, done)  # it never decreases
        has_terminal = self._bar is not None
        if not has_terminal and not self._prints:
            return
        now_us = self._now_us()
        if now_us >= self._due_us or (at_once and has_terminal):
            self._show(now_us, printable(note))

    def _show(self, now_us: int, note: str) -> None:
        """Redraw the bar on a terminal, or print a line, and set the time when that is due again.

        now_us  the present time
        note    text at the end of the line
        """
        count = f"{self._done}" if self._total is None else f"{self._done}/{self._total}"
        elapsed_us = max(1, now_us - self._began_us)
        rate = f"{self._done * 1_000_000 / elapsed_us:.1f} {self._unit}/s"
        if self._bar is None:
            self._due_us = now_us + PRINT_US
            click.echo(f"{count} {self._unit}, {rate}  {note}".rstrip(), err=True)
            return
        self._due_us = now_us + REDRAW_US
        self._bar.update(self._task, completed=self._done, count=count, rate=rate, note=note)
        if self._bar.live.is_started:
            self._bar.refresh()
        else:
            self._bar.start()  # not before it is due first, because most runs are short


@contextmanager
def games_progress(games: int) -> Iterator[Callable[[int], object]]:
    """Show progress on so many games; yield a function that takes the number of further games."""
    with Progress(games, printed=True) as counter:
        yield counter.advance


def with_progress(games: Sequence[_T], doing: str) -> Iterator[_T]:
    """Yield the games one after the other, and show progress.

    doing  words for what the caller does with each game, such as "reading the records"
    """
    with Progress(len(games), printed=True) as progress:
        for game in games:
            yield game
            progress.advance(note=doing)


# ----- Times and standings of a ladder


def minute(time: datetime | None) -> str:
    """Return a time to the minute, or `-` for None."""
    return "-" if time is None else time.strftime("%Y-%m-%d %H:%M")


def short_digest(digest: str) -> str:
    """Return the first characters of a SHA-256 in hex, as pages show it."""
    return f"{digest[:16]}..."


def skill_text(mu: float, high: float) -> str:
    """Return a skill with half the width of its interval; `high` is the interval's upper end."""
    return f"{mu:.1f} ±{high - mu:4.1f}"


def closed_or_paused(season: SeasonInfo) -> str:
    """Return `, closed` or `, paused` for the line of a season that is not played, otherwise ""."""
    return ", closed" if season.closed_at else ", paused" if season.paused_at else ""


def unusual_settings(season: SeasonInfo) -> Iterator[str]:
    """Yield a line for each setting of a season that differs from the usual one."""
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
    """Print a line for each author who may submit after the deadline."""
    for extension in extensions:
        echo(f"  {extension.author} may submit until {minute(extension.until)} UTC")


def columns_of(
    columns: Iterable[TableColumn],
    lines: Sequence[Any],
    cells: Mapping[str, Callable[[Any], str]] | None = None,
) -> Iterator[Column]:
    """Yield the columns of a table whose rows are structs.

    columns  columns of the arena, each for a field of the structs
    lines    structs, one for each row
    cells    functions that make the cells of certain columns from a struct, by the column's field;
             the cells of other columns show the value of the field
    """
    cell_makers = cells or {}
    for column in columns:
        make_cell = cell_makers.get(column.field) or partial(_cell, column)
        yield Column(
            column.head,
            [make_cell(line) for line in lines],
            text=column.form in ("text", "note"),
            spare=column.spare,
            is_note=column.form == "note",
        )


def _cell(column: TableColumn, line: object) -> str:
    """Return the value of a struct's field as the column shows it, in few characters."""
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
    """Return the columns of a table of standings, with a row for each of these lines."""
    from deepsea_arena.standings import COLUMNS

    has_former_versions = len({line.bot for line in lines}) < len(lines)
    columns = []
    for column in COLUMNS:
        if column.field == "version" and has_former_versions:
            # Lines of one bot differ by the version alone: a narrow terminal shows it, too.
            columns.append(column._replace(spare=0))
        else:
            columns.append(column)
    skill_cell = {"mu": lambda line: skill_text(line.mu, line.high)}
    return list(columns_of(columns, lines, skill_cell))


def print_table(page: Standings, *, whole_head: bool = False) -> None:
    """Print the standings of a season as a table, and the digest that all its games add up to.

    whole_head  True to print all digits of this digest, the head of the season's chain of games
    """
    season = page.season
    state = closed_or_paused(season)
    echo(
        f"season {season.name}{state}: {count(page.games, 'game')}, "
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
    head = season.head if whole_head else f"{short_digest(season.head)} (--json has all of it)"
    echo(f"head {season.place}: {head}")

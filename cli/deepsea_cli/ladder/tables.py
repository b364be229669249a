"""Times and standings, as the commands of the ladder show them.

Invariant: rounding, units and widths only; what is shown, in which columns and in which order,
comes from the arena.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from deepsea_cli.output import Column, count, echo, grid, number, percent

if TYPE_CHECKING:
    from deepsea_arena.documents import TableColumn
    from deepsea_arena.reports.standings import Standings
    from deepsea_arena.seasons import SeasonInfo
    from deepsea_ladder.model import Extension
    from deepsea_ladder.standings import StandingLine


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
    from deepsea_arena.reports.standings import COLUMNS

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

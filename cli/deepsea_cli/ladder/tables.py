"""Times and standings, as the commands of the ladder show them.

Invariant: rounding, units and widths only; what is shown, and in which order, comes from the arena.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click

from deepsea_cli.output import Column, count, echo, grid, number, percent

if TYPE_CHECKING:
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


def standing_columns(lines: Sequence[StandingLine]) -> list[Column]:
    """The table; if it is too wide, less important columns are left out."""
    several = len({line.bot for line in lines}) < len(lines)  # versions of a bot, told by number
    return [
        Column("rank", [number(line.rank, 0) for line in lines]),
        Column("bot", [line.bot for line in lines], text=True),
        Column("ver", [str(line.version) for line in lines], spare=0 if several else 7),
        Column("author", [line.author for line in lines], text=True, spare=8),
        Column("rating", [number(line.rating) for line in lines]),
        Column("skill", [skill(line.mu, line.high) for line in lines], spare=3),
        Column("games", [str(line.games) for line in lines], spare=1),
        Column("wins", [str(line.wins) for line in lines], spare=5),
        Column("placement", [number(line.mean_placement, 2) for line in lines], spare=2),
        Column("points", [number(line.mean_points) for line in lines], spare=4),
        Column("faults", [percent(line.fault_rate, 1) for line in lines], spare=6),
        Column("trend", [number(line.trend, sign=True) for line in lines], spare=9),
        Column("last game", [minute(line.last_played_at) for line in lines], spare=10),
    ]


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

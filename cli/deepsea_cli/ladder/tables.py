"""Formats numbers, times and standings for the commands of the ladder.

Invariant: rounding, units and widths only; what is shown, and in which order, comes from the arena.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from deepsea_cli.output import echo
from deepsea_cli.text_table import Column, grid

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from deepsea_arena.reports.seasons import SeasonInfo
    from deepsea_arena.reports.standings import Standings
    from deepsea_ladder.standings import StandingLine


def minute(time: datetime | None) -> str:
    """A time in UTC, to the minute."""
    return "-" if time is None else time.strftime("%Y-%m-%d %H:%M")


def number(value: float | None, digits: int = 1, *, sign: bool = False) -> str:
    """A number, or `-` where there is none."""
    if value is None:
        return "-"
    text = f"{value:{'+' if sign else ''}.{digits}f}"
    # What is rounded to nothing has no sign.
    return text if float(text) else f"{0.0:.{digits}f}"


def percent(share: float | None, digits: int = 0) -> str:
    """A share of one, in percent."""
    return "-" if share is None else f"{100 * share:.{digits}f} %"


def whole(value: int | None) -> str:
    """A whole number, or `-` where there is none."""
    return "-" if value is None else str(value)


def count(number: int, what: str) -> str:
    """`1 game`, `2 games`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def skill(mu: float, high: float) -> str:
    """A skill and its uncertainty."""
    return f"{mu:.1f} ±{high - mu:4.1f}"


def peculiarities(season: SeasonInfo) -> list[str]:
    """What a season has that others do not have, a line each."""
    lines: list[str] = []
    if season.same_author:
        lines.append("bots of one author meet")
    if season.former_versions:
        lines.append("former versions play on")
    if season.best_of_author:
        lines.append("the standings have the best bot of each author")
    from deepsea_ladder.bot_limits import BotLimits

    usual = BotLimits()
    if (season.memory_mib, season.processes) != (usual.memory_mib, usual.processes):
        lines.append(f"a bot may take {season.memory_mib} MiB and {season.processes} processes")
    if season.require_cgroups:
        lines.append("it is played only where there are control groups")
    if season.embargo_until is not None:
        lines.append(f"under embargo until {minute(season.embargo_until)} UTC")
    if season.packages:
        lines.append(f"its bots may count on {', '.join(season.packages)}")
    if season.missing_packages:
        missing = ", ".join(season.missing_packages)
        lines.append(f"note: not installed here: {missing}; install them before games are played")
    return lines


def standing_columns(lines: Sequence[StandingLine]) -> list[Column]:
    """The table; if it is too wide, less important columns are left out."""
    several = len({line.bot for line in lines}) < len(lines)  # versions of a bot, told by number
    return [
        Column("rank", [whole(line.rank) for line in lines]),
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


def print_table(page: Standings, columns: Sequence[Column] | None = None) -> None:
    """Print the standings of a season as a table, with other columns if given."""
    season = page.season
    closed = ", closed" if season.closed_at else ""
    echo(
        f"season {season.name}{closed}: {count(page.games, 'game')}, "
        f"rules {season.rules!r}, clock {season.clock}"
    )
    click.echo()
    grid(columns or standing_columns(page.standings))
    if page.not_listed:
        click.echo()
        echo(f"not shown: {count(page.not_listed, 'bot')} taken out; --all shows them")
    click.echo()
    echo(f"head {season.place}: {season.head}")

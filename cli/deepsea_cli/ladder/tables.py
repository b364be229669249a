"""Times, standings and their check, as the commands of the ladder show them.

Invariant: rounding, units and widths only; what is shown, and in which order, comes from the arena.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click

from deepsea_cli.output import Column, count, echo, grid, number, percent, span

if TYPE_CHECKING:
    from deepsea_arena.reports.standings import Standings
    from deepsea_arena.season_check import CheckLine, SeasonCheck
    from deepsea_arena.seasons import SeasonInfo
    from deepsea_ladder.model.games import Extension
    from deepsea_ladder.standings import StandingLine

MATRIX = 12
"""Bots of a matrix; it then fits 80 columns. JSON has all."""
_MARKS = {"same": "= same", "within": "~ within", "differs": "! differs", None: "-"}


def minute(time: datetime | None) -> str:
    """A time in UTC, to the minute."""
    return "-" if time is None else time.strftime("%Y-%m-%d %H:%M")


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
    if season.embargo_until is not None:
        yield f"under embargo until {minute(season.embargo_until)} UTC"
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


def print_table(page: Standings, columns: Sequence[Column] | None = None) -> None:
    """Print the standings of a season as a table, with other columns if given."""
    season = page.season
    closed = closed_or_paused(season)
    echo(
        f"season {season.name}{closed}: {count(page.games, 'game')}, "
        f"rules {season.rules!r}, clock {season.clock}"
    )
    if season.submissions_until is not None and season.closed_at is None:
        echo(f"takes in bots until {minute(season.submissions_until)} UTC")
    click.echo()
    grid(*(columns or standing_columns(page.standings)))
    if page.not_listed:
        click.echo()
        echo(f"not shown: {count(page.not_listed, 'bot')} taken out; --all shows them")
    click.echo()
    echo(f"head {season.place}: {season.head}")


def print_check(page: Standings, check: SeasonCheck) -> None:
    """Print the standings with the batch's ranks beside them, and what it does not foretell."""
    lines = page.standings
    several = len({line.bot for line in lines}) < len(lines)
    print_table(
        page,
        [
            Column("rank", [number(line.rank, 0) for line in lines]),
            Column("bot", [line.bot for line in lines], text=True),
            Column("ver", [str(line.version) for line in lines], spare=0 if several else 4),
            Column("rating", [number(line.rating) for line in lines]),
            *batch_columns(check.lines),
            Column("games", [str(line.games) for line in lines], spare=3),
        ],
    )
    click.echo()
    print_agreement(check)
    _print_unforetold(check, several=several)


def print_final_check(check: SeasonCheck) -> None:
    """Print what the batch says about the final ranks of a season, if it had games."""
    if not check.games:
        return
    lines = [line for line in check.lines if line.rank is not None]
    several = len({line.bot for line in lines}) < len(lines)
    print_agreement(check)
    click.echo()
    grid(
        Column("rank", [number(line.rank, 0) for line in lines]),
        Column("bot", [line.bot for line in lines], text=True),
        Column("ver", [str(line.version) for line in lines], spare=0 if several else 4),
        *batch_columns(lines),
    )
    click.echo()


def batch_columns(lines: Sequence[CheckLine]) -> list[Column]:
    return [
        Column("batch", [number(line.batch_rank, 0) for line in lines]),
        Column("ranks", [span(line.best_rank, line.worst_rank) for line in lines]),
        Column("batch rating", [number(line.rating) for line in lines], spare=1),
        Column("batch skill", [_skill(line) for line in lines], spare=2),
        Column("check", [_MARKS[line.verdict] for line in lines], text=True),
    ]


def print_agreement(check: SeasonCheck) -> None:
    """Say in a line how many ranks differ."""
    found = [line.verdict for line in check.lines if line.verdict is not None]
    if not found:
        echo("no games to check with")
        return
    words = [f"{found.count('same')} of {count(len(found), 'rank')} the same"]
    if within := found.count("within"):
        words.append(f"{within} within the joint uncertainty (~)")
    if differs := found.count("differs"):
        words.append(f"{differs} beyond the joint uncertainty (!)")
    echo(f"all games at once, in no order: {', '.join(words)}")
    if not check.settled:
        echo(f"note: it has not settled after {count(check.sweeps, 'sweep')}")


def _print_unforetold(check: SeasonCheck, *, several: bool) -> None:
    if not check.pairs:
        return
    pairs = count(check.pairs, "pair")
    if not check.unforetold:
        echo(f"results of {pairs}: as the ratings foretell, within 3 standard errors")
        return

    def name(bot: str, version: int) -> str:
        return f"{bot} v{version}" if several else bot

    found = check.unforetold
    echo(
        f"results of {pairs}: the ratings do not foretell {len(found)} by 3 standard errors "
        f"or more; by chance it would be {check.by_chance:.1f}"
    )
    click.echo()
    grid(
        Column("bot", [name(one.bot, one.version) for one in found], text=True),
        Column("against", [name(one.other, one.other_version) for one in found], text=True),
        Column("games", [str(one.games) for one in found]),
        Column("share", [percent(one.share) for one in found]),
        Column("foretold", [percent(one.foretold) for one in found]),
        Column("errors", [number(one.standard_errors, sign=True) for one in found]),
    )


def print_matrix(check: SeasonCheck) -> None:
    """Print the probabilities that one bot is more skilled than another."""
    shown = [i for i, line in enumerate(check.lines) if line.batch_rank is not None][:MATRIX]
    lines = [check.lines[i] for i in shown]
    echo("probability in % that the line's bot is more skilled than the column's")
    click.echo()
    several = len({line.bot for line in lines}) < len(lines)
    names = [f"{line.bot} v{line.version}" if several else line.bot for line in lines]
    grid(
        Column("", [str(place) for place in range(1, len(shown) + 1)]),
        Column("bot", names, text=True),
        *(
            Column(str(place), [_chance(check.stronger[i][j]) for i in shown])
            for place, j in enumerate(shown, 1)
        ),
    )
    if (more := sum(line.batch_rank is not None for line in check.lines) - len(shown)) > 0:
        click.echo()
        echo(f"not shown: {count(more, 'bot')}; --json has all")


def _skill(line: CheckLine) -> str:
    return "-" if line.mu is None or line.high is None else skill(line.mu, line.high)


def _chance(chance: float | None) -> str:
    if chance is None:
        return "-"
    # 99.9 % is not certain.
    if chance > 0.99:
        return ">99"
    return "<1" if chance < 0.01 else f"{100 * chance:.0f}"

"""Tables of a season's check: the batch rating beside the standings, who is stronger, surprises.

Invariant: a mark is a word and a sign, never a colour alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from deepsea_cli.ladder.tables import count, number, percent, print_table, skill, whole
from deepsea_cli.output import echo
from deepsea_cli.text_table import Column, grid, span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deepsea_arena.reports.standings import Standings
    from deepsea_arena.season_close import CheckLine, SeasonCheck

MATRIX: Final = 12
"""Bots of a matrix; it then fits 80 columns. JSON has all."""
_MARKS: Final = {"same": "= same", "within": "~ within", "differs": "! differs", None: "-"}


def print_check(page: Standings, check: SeasonCheck) -> None:
    """Print the standings with the batch's ranks beside them, and what it does not foretell."""
    lines = page.standings
    several = len({line.bot for line in lines}) < len(lines)
    print_table(
        page,
        [
            Column("rank", [whole(line.rank) for line in lines]),
            Column("bot", [line.bot for line in lines], text=True),
            Column("ver", [str(line.version) for line in lines], spare=0 if several else 4),
            Column("rating", [number(line.rating) for line in lines]),
            *batch_columns(check.lines),
            Column("games", [str(line.games) for line in lines], spare=3),
        ],
    )
    click.echo()
    print_verdict(check)
    _print_unforetold(check, several=several)


def print_final_check(check: SeasonCheck) -> None:
    """Print what the batch says about the final ranks of a season, if it had games."""
    if not check.games:
        return
    lines = [line for line in check.lines if line.rank is not None]
    several = len({line.bot for line in lines}) < len(lines)
    print_verdict(check)
    click.echo()
    grid(
        [
            Column("rank", [whole(line.rank) for line in lines]),
            Column("bot", [line.bot for line in lines], text=True),
            Column("ver", [str(line.version) for line in lines], spare=0 if several else 4),
            *batch_columns(lines),
        ]
    )
    click.echo()


def batch_columns(lines: Sequence[CheckLine]) -> list[Column]:
    """The columns of the batch."""
    return [
        Column("batch", [whole(line.batch_rank) for line in lines]),
        Column("ranks", [span(line.best_rank, line.worst_rank) for line in lines]),
        Column("batch rating", [number(line.rating) for line in lines], spare=1),
        Column("batch skill", [_skill(line) for line in lines], spare=2),
        Column("check", [_MARKS[line.verdict] for line in lines], text=True),
    ]


def print_verdict(check: SeasonCheck) -> None:
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
        [
            Column("bot", [name(one.bot, one.version) for one in found], text=True),
            Column("against", [name(one.other, one.other_version) for one in found], text=True),
            Column("games", [str(one.games) for one in found]),
            Column("share", [percent(one.share) for one in found]),
            Column("foretold", [percent(one.foretold) for one in found]),
            Column("errors", [number(one.standard_errors, sign=True) for one in found]),
        ]
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
        [
            Column("", [str(place) for place in range(1, len(shown) + 1)]),
            Column("bot", names, text=True),
            *(
                Column(str(place), [_chance(check.stronger[i][j]) for i in shown])
                for place, j in enumerate(shown, 1)
            ),
        ]
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

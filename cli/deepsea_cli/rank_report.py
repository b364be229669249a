"""What a ranking came to: for people, in Markdown, and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any, NamedTuple

import click

from deepsea_cli.match_report import explain_faults
from deepsea_cli.output import Column, echo, grid, span
from deepsea_referee.workbench.ranking import Ranking, RankSettings
from deepsea_rules.printable import printable

_SIGNS = {"better": ">", "worse": "<", "level": "=", None: "?"}
_MOST_SHOWN = 20
"""Open pairs that are listed."""
_KEY = "> better, = level, ? open, < worse, each against the bot of that rank"


class Run(NamedTuple):
    """What was asked for."""

    names: Sequence[str]
    settings: RankSettings
    seed: str
    alpha: float
    margin: float
    top: int | None


def report(ranking: Ranking, run: Run, *, markdown: bool) -> None:
    """Print the order, the verdicts on pairs, and what open pairs still take."""
    names = [printable(name) for name in run.names]
    echo(_facts(ranking, run))
    click.echo()
    columns = _columns(ranking, names, "·" if markdown else " ")
    if markdown:
        _print_markdown(columns)
    else:
        grid(columns)
    click.echo()
    if any(ranking.faults):
        explain_faults(ranking.fault_kinds, names)
    echo(_KEY)
    _print_missing(ranking, names)
    decided, pairs = ranking.counts
    echo(
        f"{decided} of {pairs} pairs decided, {_counted(len(ranking.open_pairs), 'open pair')}"
        + (f" among those that may be in the top {run.top}" if run.top else "")
        + f"; all verdicts hold together with {100 * (1 - run.alpha):.4g} %"
    )


def _facts(ranking: Ranking, run: Run) -> str:
    settings = run.settings
    duels = f" and {_counted(ranking.duels, 'duel')}" if ranking.duels else ""
    freezing = "" if settings.hosting.freeze else "bots not frozen, "
    return (
        f"{len(run.names)} bots: {_counted(ranking.games, 'game')} in "
        f"{_counted(ranking.rounds, 'round')}{duels}, {settings.players} seats, "
        f"{settings.rules.name} rules, clock {settings.time_control.format()}, {freezing}"
        f"seed {shlex.quote(run.seed)}"
    )


def _columns(ranking: Ranking, names: Sequence[str], empty: str) -> list[Column]:
    order = ranking.order
    verdicts = [
        [
            _SIGNS[ranking.verdict(bot, other)] if column > row else ""
            for row, bot in enumerate(order)
        ]
        for column, other in enumerate(order)
    ]
    columns = [
        Column("", [f"{place}" for place in range(1, len(order) + 1)]),
        Column("bot", [names[bot] for bot in order], text=True),
        Column("score", [f"{ranking.score(bot):.3f}" for bot in order]),
        Column("points", [f"{ranking.points(bot):.1f}" for bot in order], spare=2),
        Column("faults", [f"{ranking.faults[bot]}" for bot in order], spare=1),
        Column("ranks", [span(*ranking.ranks(bot)) for bot in order]),
    ]
    if not any(ranking.faults):
        del columns[4]
    triangle = [" ".join(sign or empty for sign in row[1:]) for row in zip(*verdicts, strict=True)]
    head = " ".join(f"{place % 10}" for place in range(2, len(order) + 1))
    return [*columns, Column(head, [line.ljust(len(head)) for line in triangle])]


def _print_markdown(columns: Sequence[Column]) -> None:
    def row(cells: Sequence[str]) -> None:
        click.echo(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")

    row([column.head for column in columns])
    row(["---" if column.text else "---:" for column in columns])
    for cells in zip(*[column.cells for column in columns], strict=True):
        row(cells)


def _print_missing(ranking: Ranking, names: Sequence[str]) -> None:
    """Print the open pairs, those first that take the fewest games."""
    missing = sorted(ranking.missing(), key=lambda one: one[1] or 0)
    if not missing:
        return
    shown = missing[:_MOST_SHOWN]
    intervals = [ranking.interval(*pair) for pair, _ in shown]
    click.echo()
    grid(
        [
            Column("open pair", [names[a] for (a, _), _ in shown], text=True),
            Column("", [names[b] for (_, b), _ in shown], text=True),
            Column("interval", [f"{low:+.3f} to {high:+.3f}" for low, high in intervals]),
            Column("games missing", [_rounded(games) for _, games in shown]),
        ]
    )
    click.echo()
    if len(missing) > len(shown):
        echo(f"{_counted(len(missing) - len(shown), 'more open pair')}; --json has all")


def _rounded(games: int | None) -> str:
    """Two digits: it is a guess."""
    return "-" if games is None else f"{int(float(f'{games:.1e}')):,}"


def _counted(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number:,} {what}s"


def document(ranking: Ranking, run: Run) -> dict[str, Any]:
    """The same as data, for --json."""
    missing = dict(ranking.missing())
    order = ranking.order
    return {
        "seats": run.settings.players,
        "rules": run.settings.rules.name,
        "clock": run.settings.time_control.format(),
        "seed": run.seed,
        "alpha": run.alpha,
        "margin": run.margin,
        "top": run.top,
        "games": ranking.games,
        "rounds": ranking.rounds,
        "duels": ranking.duels,
        "order": [
            {
                "name": run.names[bot],
                "placement_score": ranking.score(bot),
                "points": ranking.points(bot),
                "faults": ranking.faults[bot],
                "ranks": list(ranking.ranks(bot)),
            }
            for bot in order
        ],
        "pairs": [
            {
                "a": run.names[a],
                "b": run.names[b],
                "interval": list(ranking.interval(a, b)),
                "verdict": ranking.verdict(a, b) or "open",
                "games_missing": missing.get((a, b)),
            }
            for place, a in enumerate(order)
            for b in order[place + 1 :]
        ],
        "decided": ranking.decided,
    }

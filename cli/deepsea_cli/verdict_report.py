"""The verdicts of `compare` and `rank`: for people, in Markdown, and as JSON.

Invariant: the numbers are those of the comparison or the ranking, nothing is estimated here.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deepsea_cli.errors import DONE, NEGATIVE, EndedEarly, raise_early_end
from deepsea_cli.match_report import explain_faults
from deepsea_cli.output import Column, count, echo, grid, span
from deepsea_referee.errors import UserError
from deepsea_rules.printable import printable

if TYPE_CHECKING:
    from deepsea_referee.workbench.blocks import BlockSettings, CompareGames, GroupSettings
    from deepsea_referee.workbench.comparison import Comparison
    from deepsea_referee.workbench.confidence import ConfidenceSequence, Elo, Interval
    from deepsea_referee.workbench.ranking import RankGames, Ranking

_SIGNS = {"better": ">", "worse": "<", "level": "=", None: "?"}
SCORE_DIGITS = 3
"""Digits of a placement score."""
NEAR_ZERO = 0.01
"""Ends of an interval that are nearer to 0 have a line."""
LONGEST_NAME = 16
"""How much of a bot's name heads its column."""
_MOST_SHOWN = 20
"""Open pairs that are listed."""
_KEY = "> better, = level, ? open, < worse, each against the bot of that rank"


# Both


def verdict_status(
    counted: int, unit: str, out: Path | None, *, ended: EndedEarly, decided: bool
) -> int:
    """The exit status; `counted` is how many blocks or rounds count, and `unit` what they are.

    Raises what ended it early, and UserError if nothing counts.
    """
    kept = f"; they are in {out}, from where the same command goes on" if out else ""
    raise_early_end(ended, f"{count(counted, unit)}{kept}")
    if not counted:
        raise UserError(f"no {unit} counts: every one had a void game")
    return DONE if decided else NEGATIVE


def _terms(settings: GroupSettings, also: str = "") -> str:
    """Seats, rules, clock and seed, for the line of facts."""
    freezing = "" if settings.hosting.freeze else "bots not frozen, "
    return (
        f"{len(settings.line_up(0))} seats, {settings.rules.name} rules, "
        f"clock {settings.time_control.format()}, {freezing}{also}"
        f"seed {shlex.quote(settings.seed_text)}"
    )


def _terms_document(settings: GroupSettings) -> dict[str, Any]:
    return {
        "seats": len(settings.line_up(0)),
        "rules": settings.rules.name,
        "clock": settings.time_control.format(),
        "seed": settings.seed_text,
        "alpha": settings.alpha,
        "margin": settings.margin,
    }


def _percent(alpha: float) -> str:
    return f"{100 * (1 - alpha):.4g} %"


def _rounded(number: int | None) -> str:
    """Two digits, as it is a guess; rounded up, since what was played is not enough."""
    if number is None:
        return "-"
    unit = 10 ** max(0, len(str(number)) - 2)
    return f"{-(-number // unit) * unit:,}"


def _elo_document(elo: Elo | None) -> dict[str, Any] | None:
    """The Elo difference as data; null where it is infinite, which JSON has no number for."""
    if elo is None:
        return None
    difference, *interval = (
        number if math.isfinite(number) else None for number in (elo.difference, *elo.interval)
    )
    return {"difference": difference, "interval": interval}


# A comparison


def report_comparison(games: CompareGames) -> None:
    comparison, settings = games.comparison, games.settings
    a, b = (printable(name) for name in settings.names)
    echo(f"{a} against {b}: {comparison_facts(games)}")
    click.echo()
    _print_figures(comparison, (a, b), settings.alpha)
    click.echo()
    for kinds in comparison.fault_kinds:
        explain_faults(kinds, (a, b))
    if comparison.clean_blocks < comparison.blocks:
        mean = comparison.clean_mean
        suffix = f", where the difference is {mean:+.3f}" if mean is not None else ""
        echo(f"blocks without a fault of either: {comparison.clean_blocks}{suffix}")
        echo("the figures above count all games as they were ranked, forfeited ones too")
        click.echo()
    if _same_program(settings):
        echo("A and B are the same program")
    if line := _near_zero(comparison, until_decided=settings.until_decided):
        echo(line)
    if comparison.blocks_needed is not None:
        fewer = "" if settings.luck_adjusted else "; about half as many with --luck-adjusted"
        echo(f"a verdict takes about {_rounded(comparison.blocks_needed)} blocks in all{fewer}")
    echo(_verdict(comparison, (a, b), settings.margin))


def comparison_facts(games: CompareGames) -> str:
    """Blocks, seats, rules, clock and seed in one line."""
    settings = games.settings
    adjusted = f"luck-adjusted by {settings.luck_by}, " if settings.luck_adjusted else ""
    blocks = count(games.comparison.blocks, "block")
    return f"{blocks} of {settings.size} games, {_terms(settings, adjusted)}"


def _near_zero(comparison: Comparison, *, until_decided: bool) -> str:
    """A line on an interval that a stronger bot's is, and that ends next to 0; else ""."""
    if comparison.verdict not in ("A", "B"):
        return ""
    low, high = comparison.deciding.interval
    verb, bound = ("begins", low) if low > 0 else ("ends", high)
    if abs(bound) >= NEAR_ZERO:
        return ""
    is_zero = not round(bound, SCORE_DIGITS)
    place = f"{bound:+.1e}" if is_zero else f"{bound:+.{SCORE_DIGITS}f}"
    if until_decided and comparison.is_just_decided:
        return (
            f"The interval {verb} at {place}, next to 0, because the run stopped as soon as it was "
            "sure; the verdict is just as reliable."
        )
    return f"The interval {verb} at {place}, next to 0 and without it." if is_zero else ""


def _print_figures(comparison: Comparison, names: Sequence[str], alpha: float) -> None:
    # The end of a long name has its parameters, in which A and B may differ alone.
    heads = [
        name if len(name) <= LONGEST_NAME else f"…{name[1 - LONGEST_NAME :]}" for name in names
    ]
    rows = [
        ("placement score", 0, SCORE_DIGITS, comparison.placement),
        ("points", 1, 1, comparison.points),
    ]
    lines: list[tuple[str, ...]] = []
    for title, which, digits, sequence in rows:
        ours, theirs = (mean[which] for mean in comparison.means)
        figures = (f"{ours:.{digits}f}", f"{theirs:.{digits}f}", f"{ours - theirs:+.{digits}f}")
        lines.append((title, *figures, _range(sequence.interval, digits)))
        if sequence is comparison.placement and (adjusted := comparison.adjusted) is not None:
            mean = f"{adjusted.mean:+.{SCORE_DIGITS}f}"
            lines.append(("  without luck", "", "", mean, _range(adjusted.interval, SCORE_DIGITS)))
        if sequence is comparison.placement and (elo := comparison.elo) is not None:
            lines.append(("  in Elo", "", "", f"{elo.difference:+.0f}", _range(elo.interval, 0)))
    lines.append(("faults", *(str(side.total()) for side in comparison.faults), "", ""))
    titles, *numbers = zip(*lines, strict=True)
    columns = [
        *(Column(head, cells) for head, cells in zip(heads, numbers, strict=False)),
        # Narrow terminals do without it: it is what stands before it, subtracted.
        Column("difference", numbers[2], spare=1),
        Column(f"{_percent(alpha)} interval", numbers[3]),
    ]
    grid(Column("", titles, text=True), *columns)


def _range(interval: Interval, digits: int) -> str:
    low, high = interval
    return f"{low:+.{digits}f} to {high:+.{digits}f}"


def _verdict(comparison: Comparison, names: Sequence[str], margin: float) -> str:
    match comparison.verdict:
        case "A":
            return f"{names[0]} is stronger"
        case "B":
            return f"{names[1]} is stronger"
        case "same":
            return f"no difference larger than {margin:g}"
        case None:
            return f"undecided after {count(comparison.blocks, 'block')}"


def comparison_note(comparison: Comparison) -> str:
    """The lead so far, for the line of progress."""
    low, high = comparison.deciding.interval
    lead = f"{comparison.deciding.mean:+.3f} [{low:+.3f}, {high:+.3f}]"
    return f"{lead} {comparison.verdict or 'undecided'}"


def _same_program(settings: BlockSettings) -> bool:
    a, b = settings.pair
    return a.digest == b.digest


def comparison_document(games: CompareGames) -> dict[str, Any]:
    """The same as data, for --json."""
    comparison, settings, names = games.comparison, games.settings, games.settings.names

    def figures(which: int, sequence: ConfidenceSequence) -> dict[str, Any]:
        a, b = (mean[which] for mean in comparison.means)
        return {"a": a, "b": b, "difference": a - b, "interval": list(sequence.interval)}

    def faults(side: int) -> dict[str, Any]:
        kinds = comparison.fault_kinds[side]
        return {
            "faults": dict(sorted(comparison.faults[side].items())),
            "first": next((kind.line(names[side]) for kind in kinds), None),
            "forfeits": comparison.forfeits[side],
        }

    without_luck = {}
    if comparison.adjusted is not None:
        without_luck["placement_score_without_luck"] = {
            "difference": comparison.adjusted.mean,
            "interval": list(comparison.adjusted.interval),
            "luck_by": settings.luck_by,
        }
    return {
        "a": names[0],
        "b": names[1],
        **_terms_document(settings),
        "blocks": comparison.blocks,
        "games": comparison.games,
        "placement_score": figures(0, comparison.placement),
        **without_luck,
        "elo": _elo_document(comparison.elo),
        "points": figures(1, comparison.points),
        "faults": {"a": faults(0), "b": faults(1)},
        "same_program": _same_program(settings),
        "blocks_needed": comparison.blocks_needed,
        "blocks_without_faults": comparison.clean_blocks,
        "verdict": comparison.verdict or "undecided",
    }


# A ranking


def report_ranking(games: RankGames, *, markdown: bool) -> None:
    """Print the order, the verdicts on pairs, and what open pairs still take."""
    ranking, settings = games.ranking, games.settings
    names = [printable(bot.name) for bot in settings.named]
    echo(
        f"{len(names)} bots: {_many(ranking.games, 'game')} in "
        f"{_many(ranking.rounds, 'round')}, {_terms(settings)}"
    )
    click.echo()
    columns = _columns(ranking, names, "·" if markdown else " ")
    if settings.players == 2:
        columns.insert(3, _elo_column(ranking))
    if markdown:
        _print_markdown(columns)
    else:
        grid(*columns)
    click.echo()
    if any(ranking.faults):
        explain_faults(ranking.fault_kinds, names)
    echo(_KEY)
    _print_missing(ranking, names)
    echo(
        f"{ranking_note(ranking)}, {_many(len(ranking.open_pairs), 'open pair')}"
        + (f" among those that may be in the top {settings.top}" if settings.top else "")
        + f"; all verdicts hold together with {_percent(settings.alpha)}"
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


def _elo_column(ranking: Ranking) -> Column:
    """The Elo difference of each bot to the first one, with its interval."""
    first, *others = ranking.order
    cells = ["0"]
    for bot in others:
        elo = ranking.elo(bot, first)
        cells.append(f"{elo.difference:+.0f} ({_range(elo.interval, 0)})")
    return Column("Elo to the first", cells, spare=3)


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
        Column("open pair", [names[a] for (a, _), _ in shown], text=True),
        Column("", [names[b] for (_, b), _ in shown], text=True),
        Column("interval", [f"{low:+.3f} to {high:+.3f}" for low, high in intervals]),
        Column("games missing", [_rounded(games) for _, games in shown]),
    )
    click.echo()
    if len(missing) > len(shown):
        echo(f"{_many(len(missing) - len(shown), 'more open pair')}; --json has all")


def _many(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number:,} {what}s"


def ranking_note(ranking: Ranking) -> str:
    """How far it is, for the line of progress."""
    decided, pairs = ranking.counts
    return f"{decided} of {pairs} pairs decided"


def ranking_document(games: RankGames) -> dict[str, Any]:
    """The same as data, for --json."""
    ranking, names = games.ranking, [bot.name for bot in games.settings.named]
    missing = dict(ranking.missing())
    order = ranking.order
    return {
        **_terms_document(games.settings),
        "top": games.settings.top,
        "games": ranking.games,
        "rounds": ranking.rounds,
        "order": [
            {
                "name": names[bot],
                "placement_score": ranking.score(bot),
                "points": ranking.points(bot),
                "faults": ranking.faults[bot],
                "ranks": list(ranking.ranks(bot)),
            }
            for bot in order
        ],
        "pairs": [
            {
                "a": names[a],
                "b": names[b],
                "interval": list(ranking.interval(a, b)),
                "elo": _elo_document(ranking.elo(a, b)) if games.settings.players == 2 else None,
                "verdict": ranking.verdict(a, b) or "open",
                "games_missing": missing.get((a, b)),
            }
            for place, a in enumerate(order)
            for b in order[place + 1 :]
        ],
        "decided": ranking.decided,
    }

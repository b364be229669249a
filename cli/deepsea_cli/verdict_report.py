"""Output of the verdicts of `compare` and `rank`: for people, in Markdown, and as JSON.

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
from deepsea_cli.output import Column, count, echo, grid, rank_range
from deepsea_referee.errors import UserError
from deepsea_rules.printable import printable

if TYPE_CHECKING:
    from deepsea_referee.workbench.blocks import BlockSettings, CompareGames, GroupSettings
    from deepsea_referee.workbench.comparison import Comparison
    from deepsea_referee.workbench.confidence import ConfidenceSequence, Elo, Interval
    from deepsea_referee.workbench.ranking import RankGames, Ranking

_SIGNS = {"better": ">", "worse": "<", "level": "=", None: "?"}
SCORE_DIGITS = 3
"""Digits after the point of a placement score."""
NEAR_ZERO = 0.01
"""An end of an interval that is nearer to 0 than this is explained in a line."""
LONGEST_NAME = 16
"""Largest number of characters of a bot's name at the head of its column."""
_OPEN_PAIRS_SHOWN = 20
"""Largest number of open pairs that are listed."""
_KEY = "> better, = level, ? open, < worse, each against the bot of that rank"


# Both


def verdict_status(
    complete: int, unit: str, out: Path | None, *, ended: EndedEarly, decided: bool
) -> int:
    """Return the exit status of a comparison or a ranking, or raise an error if it ended early.

    UserError is raised if no block or round counts.

    complete  number of blocks or rounds without a void game
    unit      "block" or "round"
    out       folder with the records, if they are written
    ended     cause of an early end, or False
    decided   True if there is a verdict, or one on each pair
    """
    where = f"; they are in {out}, from where the same command goes on" if out else ""
    raise_early_end(ended, f"{count(complete, unit)}{where}")
    if not complete:
        raise UserError(f"no {unit} counts: every one had a void game")
    return DONE if decided else NEGATIVE


def _terms(settings: GroupSettings, also: str = "") -> str:
    """Return seats, rules, clock and seed for the line of facts; `also` goes before the seed."""
    freezing = "" if settings.hosting.freeze else "bots not frozen, "
    return (
        f"{len(settings.line_up(0))} seats, {settings.rules.name} rules, "
        f"clock {settings.time_control.format()}, {freezing}{also}"
        f"seed {shlex.quote(settings.seed_text)}"
    )


def _terms_document(settings: GroupSettings) -> dict[str, Any]:
    """Return the fields of the JSON document that `compare` and `rank` have in common."""
    return {
        "seats": len(settings.line_up(0)),
        "rules": settings.rules.name,
        "clock": settings.time_control.format(),
        "seed": settings.seed_text,
        "alpha": settings.alpha,
        "margin": settings.margin,
    }


def _confidence(alpha: float) -> str:
    """Return the confidence that leaves the probability `alpha` of an error, such as "95 %"."""
    return f"{100 * (1 - alpha):.4g} %"


def _rounded_up(estimate: int | None) -> str:
    """Return an estimated number of games or blocks, such as "1,300" for 1234; "-" for None.

    It is rounded up to two significant digits, so that it is never less than what was played.
    """
    if estimate is None:
        return "-"
    rounding_unit = 10 ** max(0, len(str(estimate)) - 2)
    return f"{math.ceil(estimate / rounding_unit) * rounding_unit:,}"


def _elo_document(elo: Elo | None) -> dict[str, Any] | None:
    """Return an Elo difference for a JSON document, or None if there is none.

    Infinite numbers become null, since JSON has no infinity.
    """
    if elo is None:
        return None

    def finite(number: float) -> float | None:
        return number if math.isfinite(number) else None

    low, high = elo.interval
    return {"difference": finite(elo.difference), "interval": [finite(low), finite(high)]}


# A comparison


def report_comparison(games: CompareGames) -> None:
    """Print the figures of a comparison, the faults, and the verdict in its last line."""
    comparison, settings = games.comparison, games.settings
    a, b = (printable(name) for name in settings.names)
    echo(f"{a} against {b}: {comparison_facts(games)}")
    click.echo()
    _print_figures(comparison, (a, b), settings.alpha)
    click.echo()
    for faults_of_bot in comparison.fault_groups:
        explain_faults(faults_of_bot, (a, b))
    if comparison.clean_blocks < comparison.blocks:
        _print_clean_blocks(comparison)
    if _same_program(settings):
        echo("A and B are the same program")
    explanation = _near_zero(comparison, until_decided=settings.until_decided)
    if explanation:
        echo(explanation)
    if comparison.blocks_needed is not None:
        fewer = "" if settings.luck_adjusted else "; about half as many with --luck-adjusted"
        echo(f"a verdict takes about {_rounded_up(comparison.blocks_needed)} blocks in all{fewer}")
    echo(_verdict(comparison, (a, b), settings.margin))


def _print_clean_blocks(comparison: Comparison) -> None:
    """Print in how many blocks no bot had a fault, and the difference between A and B in these."""
    mean = comparison.clean_mean
    difference = "" if mean is None else f", where the difference is {mean:+.3f}"
    echo(f"blocks without a fault of either: {comparison.clean_blocks}{difference}")
    echo("the figures above count all games as they were ranked, forfeited ones too")
    click.echo()


def comparison_facts(games: CompareGames) -> str:
    """Return blocks, seats, rules, clock and seed in one line."""
    settings = games.settings
    adjusted = f"luck-adjusted by {settings.luck_by}, " if settings.luck_adjusted else ""
    blocks = count(games.comparison.blocks, "block")
    return f"{blocks} of {settings.size} games, {_terms(settings, adjusted)}"


def _near_zero(comparison: Comparison, *, until_decided: bool) -> str:
    """Return a line that explains a winner although its interval nearly contains 0, otherwise "".

    until_decided  True if the run stops at the first verdict, when the interval has just left 0
    """
    if comparison.verdict not in ("A", "B"):
        return ""
    low, high = comparison.deciding.interval
    # With a winner the whole interval is above or below 0: look at its end that is nearer to 0.
    verb, nearest = ("begins", low) if low > 0 else ("ends", high)
    if abs(nearest) >= NEAR_ZERO:
        return ""
    # The table rounds such an end to 0, so it is written with its power of ten here.
    is_rounded_to_0 = round(nearest, SCORE_DIGITS) == 0
    place = f"{nearest:+.1e}" if is_rounded_to_0 else f"{nearest:+.{SCORE_DIGITS}f}"
    if until_decided and comparison.is_just_decided:
        return (
            f"The interval {verb} at {place}, next to 0, because the run stopped as soon as it was "
            "sure; the verdict is just as reliable."
        )
    if is_rounded_to_0:
        return f"The interval {verb} at {place}, next to 0 and without it."
    return ""


def _print_figures(comparison: Comparison, names: Sequence[str], alpha: float) -> None:
    """Print the table of means, differences and intervals for the bots A and B.

    names  names of A and B
    alpha  probability of a wrong verdict
    """
    # The end of a long name has its parameters, in which A and B may differ alone.
    heads = [
        name if len(name) <= LONGEST_NAME else f"…{name[1 - LONGEST_NAME :]}" for name in names
    ]
    # Title, index in the means of a bot, digits after the point, and the interval's source.
    measures = [
        ("placement score", 0, SCORE_DIGITS, comparison.placement),
        ("points", 1, 1, comparison.points),
    ]
    # Title, A, B, difference, interval.
    lines: list[tuple[str, ...]] = []
    for title, index, digits, sequence in measures:
        a, b = (mean[index] for mean in comparison.means)
        figures = (f"{a:.{digits}f}", f"{b:.{digits}f}", f"{a - b:+.{digits}f}")
        lines.append((title, *figures, _range(sequence.interval, digits)))
        if sequence is comparison.placement and (adjusted := comparison.adjusted) is not None:
            mean = f"{adjusted.mean:+.{SCORE_DIGITS}f}"
            lines.append(("  without luck", "", "", mean, _range(adjusted.interval, SCORE_DIGITS)))
        if sequence is comparison.placement and (elo := comparison.elo) is not None:
            lines.append(("  in Elo", "", "", f"{elo.difference:+.0f}", _range(elo.interval, 0)))
    lines.append(("faults", *(str(side.total()) for side in comparison.faults), "", ""))
    titles, of_a, of_b, differences, intervals = zip(*lines, strict=True)
    grid(
        Column("", titles, text=True),
        Column(heads[0], of_a),
        Column(heads[1], of_b),
        # Narrow terminals omit the difference, which follows from the two columns before it.
        Column("difference", differences, spare=1),
        Column(f"{_confidence(alpha)} interval", intervals),
    )


def _range(interval: Interval, digits: int) -> str:
    """Return an interval in words, with so many digits after the point."""
    low, high = interval
    return f"{low:+.{digits}f} to {high:+.{digits}f}"


def _verdict(comparison: Comparison, names: Sequence[str], margin: float) -> str:
    """Return the verdict on A and B as a sentence; `names` are those of A and B."""
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
    """Return the lead so far with its interval and the verdict, for the line of progress."""
    low, high = comparison.deciding.interval
    lead = f"{comparison.deciding.mean:+.3f} [{low:+.3f}, {high:+.3f}]"
    return f"{lead} {comparison.verdict or 'undecided'}"


def _same_program(settings: BlockSettings) -> bool:
    a, b = settings.pair
    return a.digest == b.digest


def comparison_document(games: CompareGames) -> dict[str, Any]:
    """Return the result of a comparison as the document that `--json` prints."""
    comparison, settings, names = games.comparison, games.settings, games.settings.names

    def figures(index: int, sequence: ConfidenceSequence) -> dict[str, Any]:
        """Return both means, placement score (0) or points (1), with their difference."""
        a, b = (mean[index] for mean in comparison.means)
        return {"a": a, "b": b, "difference": a - b, "interval": list(sequence.interval)}

    def faults(side: int) -> dict[str, Any]:
        """Return the faults of A (0) or B (1) by kind, with the first one, and its forfeits."""
        lines = [group.line(names[side]) for group in comparison.fault_groups[side]]
        return {
            "faults": dict(sorted(comparison.faults[side].items())),
            "first": lines[0] if lines else None,
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
    """Print the ranks of the bots, the verdicts on pairs, and how many games open pairs need.

    markdown  True to print the table in Markdown
    """
    ranking, settings = games.ranking, games.settings
    names = [printable(bot.name) for bot in settings.named]
    echo(
        f"{len(names)} bots: {_many(ranking.games, 'game')} in "
        f"{_many(ranking.rounds, 'round')}, {_terms(settings)}"
    )
    click.echo()
    columns = _columns(ranking, names, empty="·" if markdown else " ")
    if settings.players == 2:
        columns.insert(3, _elo_column(ranking))  # after the placement score
    if markdown:
        _print_markdown(columns)
    else:
        grid(*columns)
    click.echo()
    if any(ranking.faults):
        explain_faults(ranking.fault_groups, names)
    echo(_KEY)
    _print_missing(ranking, names)
    open_pairs = _many(len(ranking.open_pairs), "open pair")
    if settings.top:
        open_pairs += f" among those that may be in the top {settings.top}"
    confidence = _confidence(settings.alpha)
    echo(f"{ranking_note(ranking)}, {open_pairs}; all verdicts hold together with {confidence}")


def _columns(ranking: Ranking, names: Sequence[str], *, empty: str) -> list[Column]:
    """Return the columns of the ranking, with a row for each bot, the best one first.

    names  names of the bots by their index
    empty  sign in the last column for a pair that another row shows
    """
    order = ranking.order
    ranks = range(1, len(order) + 1)
    columns = [
        Column("", [f"{rank}" for rank in ranks]),
        Column("bot", [names[bot] for bot in order], text=True),
        Column("score", [f"{ranking.score(bot):.3f}" for bot in order]),
        Column("points", [f"{ranking.points(bot):.1f}" for bot in order], spare=2),
    ]
    if any(ranking.faults):
        columns.append(Column("faults", [f"{ranking.faults[bot]}" for bot in order], spare=1))
    columns.append(Column("ranks", [rank_range(*ranking.ranks(bot)) for bot in order]))
    columns.append(_verdicts_column(ranking, empty))
    return columns


def _verdicts_column(ranking: Ranking, empty: str) -> Column:
    """Return the column with the verdicts on all pairs, a sign for each.

    A sign stands in the row of the better bot, below the last digit of the other one's rank. The
    best bot has no digit in the head, because no bot is ranked above it.

    empty  sign for a pair that the row of the better bot shows already
    """
    order = ranking.order
    rows = []
    for index, bot in enumerate(order):
        signs = [empty] * index
        signs += [_SIGNS[ranking.verdict(bot, worse)] for worse in order[index + 1 :]]
        rows.append(" ".join(signs))
    last_digits = [str(rank % 10) for rank in range(2, len(order) + 1)]
    return Column(" ".join(last_digits), rows)


def _elo_column(ranking: Ranking) -> Column:
    """Return the column with the Elo difference of each bot to the best, with its interval."""
    best, *others = ranking.order
    cells = ["0"]
    for bot in others:
        elo = ranking.elo(bot, best)
        cells.append(f"{elo.difference:+.0f} ({_range(elo.interval, 0)})")
    return Column("Elo to the first", cells, spare=3)


def _print_markdown(columns: Sequence[Column]) -> None:
    """Print columns as a table in Markdown; numbers stand to the right."""

    def print_row(cells: Sequence[str]) -> None:
        escaped = (cell.replace("|", r"\|") for cell in cells)
        click.echo(f"| {' | '.join(escaped)} |")

    print_row([column.head for column in columns])
    print_row(["---" if column.text else "---:" for column in columns])
    for cells in zip(*[column.cells for column in columns], strict=True):
        print_row(cells)


def _print_missing(ranking: Ranking, names: Sequence[str]) -> None:
    """Print the pairs of bots without a verdict, first those that need the fewest further games.

    names  names of the bots by their index
    """
    open_pairs = sorted(ranking.missing(), key=lambda pair_and_games: pair_and_games[1] or 0)
    if not open_pairs:
        return
    shown = open_pairs[:_OPEN_PAIRS_SHOWN]
    pairs = [pair for pair, _ in shown]
    missing_games = [games for _, games in shown]
    click.echo()
    grid(
        Column("open pair", [names[a] for a, _ in pairs], text=True),
        Column("", [names[b] for _, b in pairs], text=True),
        Column("interval", [_range(ranking.interval(a, b), SCORE_DIGITS) for a, b in pairs]),
        Column("games missing", [_rounded_up(games) for games in missing_games]),
    )
    click.echo()
    not_shown = len(open_pairs) - len(shown)
    if not_shown:
        echo(f"{_many(not_shown, 'more open pair')}; --json has all")


def _many(number: int, noun: str) -> str:
    """Return `1 game`, or `1,000 games` with commas between thousands."""
    return f"1 {noun}" if number == 1 else f"{number:,} {noun}s"


def ranking_note(ranking: Ranking) -> str:
    """Return how many pairs have a verdict, for the line of progress."""
    decided, pairs = ranking.counts
    return f"{decided} of {pairs} pairs decided"


def ranking_document(games: RankGames) -> dict[str, Any]:
    """Return the result of a ranking as the document that `--json` prints."""
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
            for rank, a in enumerate(order, 1)
            for b in order[rank:]
        ],
        "decided": ranking.decided,
    }

"""What a comparison came to: for people, and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from deepsea_cli.match_report import explain_faults
from deepsea_cli.output import echo
from deepsea_referee.workbench.comparison import Comparison
from deepsea_referee.workbench.confidence import ConfidenceSequence
from deepsea_referee.workbench.paired_blocks import BlockSettings
from deepsea_rules.printable import printable
from deepsea_sdk.coach.formula import VERSION

if TYPE_CHECKING:
    from deepsea_web.live.news import Standing


@dataclass(frozen=True, slots=True)
class Run:
    """A comparison, and what was asked for."""

    comparison: Comparison
    settings: BlockSettings
    names: Sequence[str]
    """Of A and B."""
    seed: str
    margin: float
    alpha: float


def report(run: Run, *, sequential: bool) -> None:
    """Print the figures, faults and verdict; `sequential` is whether a verdict ended the run."""
    comparison = run.comparison
    a, b = (printable(name) for name in run.names)
    echo(f"{a} against {b}: {facts(run)}")
    click.echo()
    wide = [max(8, min(len(name), 16)) for name in (a, b)]
    # The end of a long name has its parameters, in which A and B may differ alone.
    heads = [
        f"{name if len(name) <= w else '…' + name[1 - w :]:>{w}}"
        for name, w in zip((a, b), wide, strict=True)
    ]
    click.echo(f"{'':15}  {'  '.join(heads)}  difference  {_percent(run.alpha)} interval")
    rows: tuple[tuple[str, int, int, ConfidenceSequence], ...] = (
        ("placement score", 0, 3, comparison.placement),
        ("points", 1, 1, comparison.points),
    )
    for title, which, digits, sequence in rows:
        means = [
            f"{mean[which]:{w}.{digits}f}" for mean, w in zip(comparison.means, wide, strict=True)
        ]
        difference = comparison.means[0][which] - comparison.means[1][which]
        low, high = sequence.interval
        click.echo(
            f"{title:15}  {'  '.join(means)}  {difference:+10.{digits}f}  "
            f"{low:+.{digits}f} to {high:+.{digits}f}"
        )
        if sequence is comparison.placement and comparison.adjusted is not None:
            low, high = comparison.adjusted.interval
            click.echo(
                f"{'  without luck':15}  {'  '.join(' ' * w for w in wide)}  "
                f"{comparison.adjusted.mean:+10.3f}  {low:+.3f} to {high:+.3f}"
            )
    counts = [f"{side.total():{w}}" for side, w in zip(comparison.faults, wide, strict=True)]
    click.echo(f"{'faults':15}  {'  '.join(counts)}")
    click.echo()
    _explain_faults(comparison, (a, b))
    if _same_program(run.settings):
        echo("A and B are the same program")
    if sequential and comparison.verdict in ("A", "B"):
        echo("a run that stops at its verdict has a bound near 0: the verdict is no less certain")
    if comparison.blocks_needed is not None:
        echo(f"a verdict takes about {_rounded(comparison.blocks_needed)} blocks in all")
    echo(_verdict(comparison, (a, b), run.margin))


def facts(run: Run) -> str:
    """Blocks, seats, rules, clock and seed in one line."""
    comparison, settings = run.comparison, run.settings
    size, players = len(settings.line_ups), len(settings.line_ups[0])
    freezing = "" if settings.hosting.freeze else "bots not frozen, "
    adjusted = "" if comparison.adjusted is None else f"luck-adjusted by {VERSION}, "
    return (
        f"{_counted(comparison.blocks)} of {size} games, {players} seats, "
        f"{settings.rules.name} rules, clock {settings.time_control.format()}, {freezing}"
        f"{adjusted}seed {shlex.quote(run.seed)}"
    )


def _explain_faults(comparison: Comparison, names: Sequence[str]) -> None:
    for kinds in comparison.fault_kinds:
        explain_faults(kinds, names)
    if comparison.clean_blocks < comparison.blocks:
        mean = comparison.clean_mean
        suffix = f", where the difference is {mean:+.3f}" if mean is not None else ""
        echo(f"blocks without a fault of either: {comparison.clean_blocks}{suffix}")
        echo("the figures above count all games as they were ranked, forfeited ones too")
        click.echo()


def _verdict(comparison: Comparison, names: Sequence[str], margin: float) -> str:
    match comparison.verdict:
        case "A":
            return f"{names[0]} is stronger"
        case "B":
            return f"{names[1]} is stronger"
        case "same":
            return f"no difference larger than {margin:g}"
        case None:
            return f"undecided after {_counted(comparison.blocks)}"


def live_standing(run: Run) -> Standing:
    """The figures so far, for a page."""
    comparison, rows = run.comparison, []
    figures = ((0, 3, comparison.placement), (1, 1, comparison.points))
    for side in (0, 1):
        means = [f"{comparison.means[side][which]:.{digits}f}" for which, digits, _ in figures]
        rows.append([run.names[side], *means, str(comparison.faults[side].total())])
    leads = [
        f"{s.mean:+.{digits}f} [{s.interval.low:+.{digits}f}, {s.interval.high:+.{digits}f}]"
        for _, digits, s in figures
    ]
    if comparison.blocks:
        rows.append(["lead", *leads, ""])
    if comparison.blocks and (adjusted := comparison.adjusted) is not None:
        low, high = adjusted.interval
        rows.append(
            ["lead without luck", f"{adjusted.mean:+.3f} [{low:+.3f}, {high:+.3f}]", "", ""]
        )
    return {
        "facts": facts(run),
        "table": {"head": ["bot", "placement score", "points", "faults"], "rows": rows},
    }


def _same_program(settings: BlockSettings) -> bool:
    a, b = settings.line_ups[0][:2]
    return settings.bots[a].digest == settings.bots[b].digest


def _counted(blocks: int) -> str:
    return "1 block" if blocks == 1 else f"{blocks} blocks"


def _rounded(blocks: int) -> str:
    """Two digits: it is a guess."""
    return f"{int(float(f'{blocks:.1e}')):,}"


def _percent(alpha: float) -> str:
    return f"{100 * (1 - alpha):.4g} %"


def document(run: Run) -> dict[str, Any]:
    """The same as data, for --json."""
    comparison, settings, names = run.comparison, run.settings, run.names

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

    return {
        "a": names[0],
        "b": names[1],
        "seats": len(settings.line_ups[0]),
        "rules": settings.rules.name,
        "clock": settings.time_control.format(),
        "seed": run.seed,
        "alpha": run.alpha,
        "margin": run.margin,
        "blocks": comparison.blocks,
        "games": comparison.games,
        "placement_score": figures(0, comparison.placement),
        **_without_luck(comparison),
        "points": figures(1, comparison.points),
        "faults": {"a": faults(0), "b": faults(1)},
        "same_program": _same_program(settings),
        "blocks_needed": comparison.blocks_needed,
        "blocks_without_faults": comparison.clean_blocks,
        "verdict": comparison.verdict or "undecided",
    }


def _without_luck(comparison: Comparison) -> dict[str, Any]:
    adjusted = comparison.adjusted
    if adjusted is None:
        return {}
    figures = {
        "difference": adjusted.mean,
        "interval": list(adjusted.interval),
        "luck_by": VERSION,
    }
    return {"placement_score_without_luck": figures}

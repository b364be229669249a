"""`deepsea-referee compare`: is bot A stronger than bot B?

Converts arguments to blocks; comparison.py computes the verdict. stdout has the result only;
progress goes to stderr.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from deepsea_cli.errors import DONE, NEGATIVE, Interrupted
from deepsea_cli.options import RULES_HELP, load_rules
from deepsea_cli.output import print_json, say
from deepsea_cli.progress import Progress
from deepsea_referee.errors import UserError
from deepsea_rules.printable import printable
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deepsea_referee.results.summary import GameResult
    from deepsea_referee.sandbox.probe import IsolationLevel
    from deepsea_referee.workbench.comparison import Comparison
    from deepsea_referee.workbench.confidence import ConfidenceSequence
    from deepsea_referee.workbench.paired_blocks import BlockSettings

BLOCKS = 100
BLOCKS_UNTIL_DECIDED = 2000


@click.command("compare")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option("--field", metavar="C,D,...", default="", help="Bots in the other seats.")
@click.option(
    "--seats",
    metavar="N",
    type=int,
    help="Seats at the table.  [default: one for each named bot]",
)
@click.option(
    "--blocks",
    metavar="MAX",
    type=click.IntRange(1),
    help=f"Largest number of blocks.  [default: {BLOCKS}; --until-decided: {BLOCKS_UNTIL_DECIDED}]",
)
@click.option("--until-decided", is_flag=True, help="Stop as soon as there is a verdict.")
@click.option(
    "--margin",
    metavar="X",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.05,
    show_default=True,
    help="The largest difference in placement score that counts as none.",
)
@click.option(
    "--alpha",
    metavar="P",
    type=click.FloatRange(0, 0.5, min_open=True),
    default=0.05,
    show_default=True,
    help="The probability of a wrong verdict that you accept.",
)
@click.option("--rules", "rules_text", metavar="NAME|FILE.toml", default=DEFAULT, help=RULES_HELP)
@click.option(
    "--seed", metavar="TEXT", help="Seed text: the same text gives the same deals and dice."
)
@click.option(
    "--clock",
    metavar="TIME+BANK",
    default="100ms+2s",
    show_default=True,
    help="Time for each decision, and a bank for each game for longer ones.",
)
@click.option(
    "--in-process", is_flag=True, help="Run Python bots that you trust in this process: faster."
)
@click.option(
    "--isolation",
    type=click.Choice(["auto", "sandbox", "process"]),
    default="auto",
    show_default=True,
    help="Run bots in a sandbox, as plain processes, or (auto) in the sandbox where it works.",
)
@click.option(
    "--workers",
    metavar="N",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Worker processes, each with its own bots.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def command(
    ctx: click.Context,
    *,
    a: str,
    b: str,
    field: str,
    seats: int | None,
    blocks: int | None,
    until_decided: bool,
    margin: float,
    alpha: float,
    rules_text: str,
    seed: str | None,
    clock: str,
    in_process: bool,
    isolation: IsolationLevel,
    workers: int,
    as_json: bool,
) -> None:
    """Compare bots A and B on the same deals and dice, with seats swapped.

    Without --field, A and B share all seats. The intervals are valid however often you look and
    whenever you stop.

    Exit status: 0 with any verdict, 1 undecided.
    """
    rules = load_rules(rules_text)
    from deepsea_referee.bots.process import Hosting
    from deepsea_referee.bots.resolve import resolve, with_unique_names
    from deepsea_referee.sandbox.probe import choose
    from deepsea_referee.workbench.comparison import Comparison
    from deepsea_referee.workbench.paired_blocks import BlockSettings, play_blocks, seated
    from deepsea_rules.time_control import TimeControl
    from deepsea_sdk.entropy import fresh_seed

    seed_text = fresh_seed().hex()[:16] if seed is None else seed
    pair = [resolve(a), resolve(b)]
    names = [bot.name for bot in with_unique_names(pair)]
    others = [resolve(name.strip()) for name in field.split(",") if name.strip()]
    bots, line_ups, ours, theirs = seated(pair[0], pair[1], others, seats)
    most = blocks or (BLOCKS_UNTIL_DECIDED if until_decided else BLOCKS)
    settings = BlockSettings(
        bots=bots,
        hosting=Hosting(isolation=choose("process" if in_process else isolation)),
        games=most * len(line_ups),
        rules=rules,
        time_control=TimeControl.parse(clock),
        seed=seed_from_text(seed_text),
        line_ups=line_ups,
    )
    comparison = Comparison(line_ups, ours, theirs, margin=margin, alpha=alpha)
    with Progress(most, "blocks") as progress:

        def on_block(_number: int, games: Sequence[GameResult]) -> bool:
            comparison.add(games)
            progress.advance(note=_standing(comparison))
            return until_decided and comparison.verdict is not None

        interrupted = play_blocks(settings, on_block, workers=workers, in_process=in_process)
    if as_json:
        print_json(_document(comparison, settings, names, seed_text, alpha, margin))
    elif comparison.blocks:
        _report(comparison, settings, names, seed_text, alpha, margin)
    if interrupted:
        raise Interrupted(f"after {comparison.blocks} blocks")
    if not comparison.blocks:
        raise UserError("no block counts: every one had a void game")
    ctx.exit(DONE if comparison.verdict else NEGATIVE)


def _standing(comparison: Comparison) -> str:
    mean, (low, high) = comparison.placement.mean, comparison.placement.interval
    return f"{mean:+.3f} [{low:+.3f}, {high:+.3f}] {comparison.verdict or 'undecided'}"


def _report(
    comparison: Comparison,
    settings: BlockSettings,
    names: Sequence[str],
    seed: str,
    alpha: float,
    margin: float,
) -> None:
    a, b = (printable(name) for name in names)
    size, players = len(settings.line_ups), len(settings.line_ups[0])
    say(
        f"{a} against {b}: {comparison.blocks} blocks of {size} games, {players} seats, "
        f"{settings.rules.name} rules, clock {settings.time_control.format()}, "
        f"seed {shlex.quote(seed)}"
    )
    click.echo()
    wide = [max(8, min(len(name), 16)) for name in (a, b)]
    heads = [f"{name[:w]:>{w}}" for name, w in zip((a, b), wide, strict=True)]
    click.echo(f"{'':15}  {'  '.join(heads)}  difference  {_percent(alpha)} interval")
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
    counts = [f"{side.total():{w}}" for side, w in zip(comparison.faults, wide, strict=True)]
    click.echo(f"{'faults':15}  {'  '.join(counts)}")
    click.echo()
    _explain_faults(comparison, (a, b))
    say(_verdict(comparison, (a, b), margin))


def _explain_faults(comparison: Comparison, names: Sequence[str]) -> None:
    from deepsea_cli.report import explain_faults

    for kinds in comparison.fault_kinds:
        explain_faults(kinds, names)
    if comparison.clean_blocks < comparison.blocks:
        mean = comparison.clean_mean
        told = f", where the difference is {mean:+.3f}" if mean is not None else ""
        say(f"blocks without a fault of either: {comparison.clean_blocks}{told}")
        say("the figures above count all games as they were ranked, forfeited ones too")
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
            return f"undecided after {comparison.blocks} blocks"


def _percent(alpha: float) -> str:
    return f"{100 * (1 - alpha):.4g} %"


def _document(
    comparison: Comparison,
    settings: BlockSettings,
    names: Sequence[str],
    seed: str,
    alpha: float,
    margin: float,
) -> dict[str, Any]:
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
        "seed": seed,
        "alpha": alpha,
        "margin": margin,
        "blocks": comparison.blocks,
        "games": comparison.games,
        "placement_score": figures(0, comparison.placement),
        "points": figures(1, comparison.points),
        "faults": {"a": faults(0), "b": faults(1)},
        "blocks_without_faults": comparison.clean_blocks,
        "verdict": comparison.verdict or "undecided",
    }

"""`deepsea-referee compare`: is bot A stronger than bot B?

Converts arguments to blocks; comparison.py computes the verdict. stdout has the result only;
progress goes to stderr.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from deepsea_cli.errors import DONE, NEGATIVE, Interrupted
from deepsea_cli.options import (
    bot_uids_option,
    browser_option,
    clock_option,
    freeze_option,
    in_process_option,
    isolation_option,
    load_record,
    load_rules,
    rules_option,
    workers_option,
)
from deepsea_cli.output import echo, print_json
from deepsea_cli.plot_file import PlotFile, plot_option
from deepsea_cli.progress import Progress
from deepsea_referee.errors import UserError
from deepsea_rules.randomness import seed_from_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deepsea_cli.compare_report import Run
    from deepsea_referee.bots.resolve import BotSpec
    from deepsea_referee.results.summary import GameResult
    from deepsea_referee.sandbox.interface import IsolationLevel
    from deepsea_referee.workbench.comparison import Comparison
    from deepsea_referee.workbench.paired_blocks import PlayedBlock
    from deepsea_rules.record import GameRecord

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
@click.option(
    "--luck-adjusted",
    is_flag=True,
    help="Decide by the lead less the luck in it: fewer blocks between bots that are nearly equal.",
)
@rules_option
@click.option(
    "--seed", metavar="TEXT", help="Seed text: the same text gives the same deals and dice."
)
@clock_option
@in_process_option
@isolation_option
@bot_uids_option
@freeze_option
@workers_option(64, "Worker processes, each with its own bots.", default=1)
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder for the records; continues a comparison that is there.",
)
@plot_option
@browser_option
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
    luck_adjusted: bool,
    rules_text: str,
    seed: str | None,
    clock: str,
    in_process: bool,
    isolation: IsolationLevel,
    freeze: bool,
    workers: int,
    out: Path | None,
    plot: Path | None,
    browser: bool,
    as_json: bool,
) -> None:
    """Compare bots A and B on the same deals and dice, with seats swapped.

    Without --field, A and B share all seats. The intervals are valid however often you look and
    whenever you stop.

    Exit status: 0 with any verdict, 1 undecided.
    """
    rules = load_rules(rules_text)
    drawn = PlotFile(plot) if plot else None
    from deepsea_cli.compare_report import Run, document, facts, live_standing, report
    from deepsea_referee.bots.process import Hosting
    from deepsea_referee.bots.resolve import resolve, split_list, with_unique_names
    from deepsea_referee.system import SYSTEM
    from deepsea_referee.workbench.comparison import Comparison
    from deepsea_referee.workbench.paired_blocks import BlockSettings, play_blocks, seated
    from deepsea_rules.time_control import TimeControl
    from deepsea_sdk.entropy import fresh_seed

    if out is not None:
        from deepsea_referee.workbench.comparison_folder import kept_seed

        seed = kept_seed(out) if seed is None else seed
    seed_text = fresh_seed().hex()[:16] if seed is None else seed
    pair = [resolve(a), resolve(b)]
    names = [bot.name for bot in with_unique_names(pair)]
    others = [resolve(bot) for bot in split_list(field)]
    bots, line_ups, ours, theirs = seated(pair[0], pair[1], others, seats)
    most = blocks or (BLOCKS_UNTIL_DECIDED if until_decided else BLOCKS)
    settings = BlockSettings(
        bots=bots,
        hosting=Hosting(
            SYSTEM.choose("process" if in_process else isolation), freeze=freeze
        ).for_one_of(workers),
        games=most * len(line_ups),
        rules=rules,
        time_control=TimeControl.parse(clock),
        seed=seed_from_text(seed_text),
        line_ups=line_ups,
    )
    comparison = Comparison(
        line_ups, ours, theirs, margin=margin, alpha=alpha, luck_adjusted=luck_adjusted
    )
    block_luck = None
    if luck_adjusted:
        from deepsea_referee.workbench.block_luck import BlockLuck

        block_luck = BlockLuck(line_ups, ours, theirs)
    if drawn is not None:
        drawn.begin_pair(bots, pair, ours, theirs)
    run = Run(comparison, settings, names, seed_text, margin, alpha)
    interrupted = False
    with ExitStack() as opened:
        folder = None
        if out is not None:
            from deepsea_referee.workbench.comparison_folder import ComparisonFolder

            luck_by = "no" if block_luck is None else block_luck.version
            folder = opened.enter_context(ComparisonFolder(out, _asked(run, pair, others, luck_by)))
            for block in folder.blocks:
                games = block.games
                comparison.add(games, block.luck)
                if drawn is not None:
                    drawn.add_block(comparison, [(game, _kept_record(out, game)) for game in games])
            settings = replace(settings, done=folder.next_block)
        page, standing = None, partial(live_standing, run)
        if browser:
            from deepsea_cli.live_page import LiveCommand

            page = ctx.with_resource(LiveCommand(" against ".join(names), standing()))

        def on_block(number: int, played: PlayedBlock) -> bool:
            luck = block_luck.of(played) if block_luck is not None else None
            comparison.add([result for result, _ in played], luck)
            if page is not None:
                for result, record in played:
                    page.add(result, record, standing)
            if drawn is not None:
                drawn.add_block(comparison, played)
            if folder is not None:
                folder.add(number, played, {} if luck is None else {"luck": luck})
            progress.advance(note=_standing(comparison))
            return until_decided and comparison.verdict is not None

        if settings.done < most and not (until_decided and comparison.verdict):
            with Progress(most - settings.done, "blocks", printed=True) as progress:
                interrupted = play_blocks(
                    settings, on_block, workers=workers, in_process=in_process
                )
    if drawn is not None and comparison.blocks:
        drawn.write(facts(run), settings.time_control, margin=margin, alpha=alpha)
    if as_json:
        print_json(document(run))
    elif comparison.blocks:
        report(run, sequential=until_decided)
        if drawn is not None:
            echo(f"plots: {plot}")
    if page is not None:
        page.stay("interrupted" if interrupted else "over", standing())
    if interrupted:
        kept = f"; they are in {out}, from where the same command goes on" if out else ""
        raise Interrupted(f"after {comparison.blocks} blocks{kept}")
    if not comparison.blocks:
        raise UserError("no block counts: every one had a void game")
    ctx.exit(DONE if comparison.verdict else NEGATIVE)


def _kept_record(folder: Path, game: GameResult) -> GameRecord:
    from deepsea_referee.results.summary import record_name

    return load_record(folder / record_name(game.game))


def _asked(
    run: Run, pair: Sequence[BotSpec], field: Sequence[BotSpec], luck_by: str
) -> dict[str, object]:
    """What has to be the same for a comparison to go on."""
    (a, b), settings = pair, run.settings
    return {
        "bot_A": a.name,
        "bot_B": b.name,
        "field": [bot.name for bot in field],
        "program_of_A": a.digest,
        "program_of_B": b.digest,
        "programs_of_the_field": [bot.digest for bot in field],
        "seats": len(settings.line_ups[0]),
        "rules": {"name": settings.rules.name, **settings.rules.options()},
        "seed": run.seed,
        "clock": settings.time_control.format(),
        "margin": run.margin,
        "alpha": run.alpha,
        "luck_adjusted": luck_by,
    }


def _standing(comparison: Comparison) -> str:
    mean, (low, high) = comparison.deciding.mean, comparison.deciding.interval
    return f"{mean:+.3f} [{low:+.3f}, {high:+.3f}] {comparison.verdict or 'undecided'}"

"""`deepsea-referee compare`: is bot A stronger than bot B?

Converts arguments to `BlockSettings`; `CompareGames` plays them.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import click

from deepsea_cli.options import (
    GroupPlay,
    alpha_option,
    browser_option,
    complete_bot,
    group_options,
    looked_at,
    margin_option,
    number_option,
    path_option,
    seats_option,
    seed_text,
)
from deepsea_cli.output import print_json
from deepsea_cli.pages import PlayedGamesPage, PlotFile, plot_games_option
from deepsea_cli.progress import Progress

BLOCKS = 100
BLOCKS_UNTIL_DECIDED = 2000


@click.command("compare")
@click.argument("a", metavar="A", shell_complete=complete_bot)
@click.argument("b", metavar="B", shell_complete=complete_bot)
@click.option(
    "--field",
    metavar="C,D,...",
    default="",
    shell_complete=complete_bot,
    help="Bots in the other seats.",
)
@seats_option("4; with --field one for each named bot")
@number_option(
    "--blocks",
    metavar="MAX",
    help=f"Largest number of blocks.  [default: {BLOCKS}; --until-decided: {BLOCKS_UNTIL_DECIDED}]",
)
@click.option("--until-decided", is_flag=True, help="Stop as soon as there is a verdict.")
@margin_option("none")
@alpha_option("The probability of a wrong verdict that you accept.")
@click.option(
    "--luck-adjusted",
    is_flag=True,
    help="Decide by the lead without the luck in it: half the blocks if bots are nearly equal.",
)
@group_options("deals and dice")
@path_option(
    "--out", metavar="DIR", help="Folder for the records; continues a comparison that is there."
)
@plot_games_option
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
    play: GroupPlay,
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
    drawn = PlotFile(plot)
    from deepsea_cli import verdict_report
    from deepsea_referee.bots.resolve import resolve, split_list
    from deepsea_referee.workbench.blocks import BlockSettings, CompareGames, PlayedBlock
    from deepsea_referee.workbench.folder import kept_folder

    text = seed_text(play.seed, out, BlockSettings.kind)
    settings = BlockSettings.of(
        looked_at(resolve(a)),
        looked_at(resolve(b)),
        [looked_at(resolve(bot)) for bot in split_list(field)],
        seats,
        blocks=blocks or (BLOCKS_UNTIL_DECIDED if until_decided else BLOCKS),
        seed_text=text,
        margin=margin,
        alpha=alpha,
        until_decided=until_decided,
        luck_adjusted=luck_adjusted,
        **play.settings(text),
    )
    drawn.begin_pair(settings)
    page = PlayedGamesPage(wanted=browser)
    with ExitStack() as opened:
        folder = kept_folder(opened, out, settings.fields_to_match(), settings.kind, settings.bots)
        if folder is None:
            games = CompareGames(settings)
        else:
            games = CompareGames(settings, folder.blocks, folder.add)
            drawn.add_kept(folder)
        progress = opened.enter_context(Progress(games.left, "blocks", printed=True))

        def on_block(played: PlayedBlock) -> None:
            for result, record in played:
                drawn.add(result, record)
                page.add(result, record)
            progress.advance(note=verdict_report.comparison_note(games.comparison))

        ended = play.run(games.play, on_block)
    comparison = games.comparison
    drawn.write(verdict_report.comparison_facts(games), settings.time_control, games)
    if as_json:
        print_json(verdict_report.comparison_document(games))
    elif comparison.blocks:
        verdict_report.report_comparison(games)
        drawn.say_where()
    page.open()
    blocks, decided = comparison.blocks, comparison.verdict is not None
    status = verdict_report.verdict_status
    ctx.exit(status(blocks, "block", out, ended=ended, decided=decided))

"""`deepsea-referee rank`: the order of many bots, as far as it can be known.

Converts arguments to `RankSettings`; `RankGames` plays them.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import click

from deepsea_cli.options import (
    GroupPlay,
    alpha_option,
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
from deepsea_cli.progress import Progress
from deepsea_referee.errors import UserError

GAMES = 1000
GAMES_UNTIL_DECIDED = 20_000


@click.command("rank")
@click.argument("bots", metavar="A B C...", nargs=-1, required=True, shell_complete=complete_bot)
@seats_option("one for each bot, 4 at most")
@number_option(
    "--games",
    metavar="MAX",
    help=f"Largest number of games.  [default: {GAMES}; --until-decided: {GAMES_UNTIL_DECIDED}]",
)
@click.option("--until-decided", is_flag=True, help="Stop as soon as every pair has a verdict.")
@number_option("--top", metavar="K", help="Decide only between bots that may be among the best K.")
@margin_option("level")
@alpha_option("The probability that you accept of any wrong verdict at all.")
@group_options("tables and luck")
@path_option(
    "--out", metavar="DIR", help="Folder for the records; continues a ranking that is there."
)
@click.option("--markdown", is_flag=True, help="Print the table in Markdown.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def command(
    ctx: click.Context,
    *,
    bots: tuple[str, ...],
    seats: int | None,
    games: int | None,
    until_decided: bool,
    top: int | None,
    margin: float,
    alpha: float,
    play: GroupPlay,
    out: Path | None,
    markdown: bool,
    as_json: bool,
) -> None:
    """Put bots in order by their placement scores in each other's company.

    For each bot it shows which ranks are still possible. All verdicts on all pairs hold together,
    however often you look and whenever you stop.

    Exit status: 0 if every pair has a verdict, 1 if pairs are open.
    """
    if markdown and as_json:
        raise click.UsageError("--markdown and --json exclude each other")
    from deepsea_cli import verdict_report
    from deepsea_referee.bots.resolve import resolve
    from deepsea_referee.workbench.blocks import PlayedBlock
    from deepsea_referee.workbench.folder import kept_folder
    from deepsea_referee.workbench.ranking import RankGames, RankSettings, seats_for

    text = seed_text(play.seed, out, RankSettings.kind)
    most = games or (GAMES_UNTIL_DECIDED if until_decided else GAMES)
    settings = RankSettings(
        bots=[looked_at(resolve(bot)) for bot in bots],
        players=seats_for(len(bots), seats),
        games=most,
        seed_text=text,
        margin=margin,
        alpha=alpha,
        until_decided=until_decided,
        top=top,
        **play.settings(text),
    )
    if most < settings.size:
        raise UserError(
            f"--games {most}: a round of {settings.size} bots has {settings.size} games"
        )
    with ExitStack() as opened:
        folder = kept_folder(opened, out, settings.fields_to_match(), settings.kind, settings.bots)
        played = RankGames(settings, folder)
        ranking = played.ranking
        progress = opened.enter_context(Progress(max(played.left, 1), printed=True))

        def on_round(games: PlayedBlock) -> None:
            progress.advance(len(games), note=verdict_report.ranking_note(ranking))

        ended = play.run(played.play, on_round)
    if as_json:
        print_json(verdict_report.ranking_document(played))
    elif ranking.games:
        verdict_report.report_ranking(played, markdown=markdown)
    rounds, decided = ranking.rounds, ranking.decided
    status = verdict_report.verdict_status
    ctx.exit(status(rounds, "round", out, ended=ended, decided=decided))

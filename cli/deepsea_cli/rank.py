"""`deepsea-referee rank`: the order of many bots, as far as it can be known.

Converts arguments to rounds and duels; ranking.py computes the order. stdout has the result only;
progress goes to stderr.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from deepsea_cli.errors import DONE, NEGATIVE, Interrupted
from deepsea_cli.options import (
    bot_uids_option,
    clock_option,
    freeze_option,
    in_process_option,
    isolation_option,
    load_rules,
    rules_option,
    workers_option,
)
from deepsea_cli.output import print_json
from deepsea_cli.progress import Progress
from deepsea_referee.errors import UserError
from deepsea_rules.randomness import seed_from_text

if TYPE_CHECKING:
    from deepsea_referee.sandbox.interface import IsolationLevel
    from deepsea_referee.workbench.paired_blocks import PlayedBlock
    from deepsea_referee.workbench.ranking import Pair, Ranking

GAMES = 1000
GAMES_UNTIL_DECIDED = 20_000
NAME = "rank.jsonl"
FORMAT = "deepsea-rank/1"


@click.command("rank")
@click.argument("bots", metavar="A B C...", nargs=-1, required=True)
@click.option(
    "--seats",
    metavar="N",
    type=int,
    help="Seats at the table.  [default: one for each bot, 4 at most]",
)
@click.option(
    "--games",
    metavar="MAX",
    type=click.IntRange(1),
    help=f"Largest number of games.  [default: {GAMES}; --until-decided: {GAMES_UNTIL_DECIDED}]",
)
@click.option("--until-decided", is_flag=True, help="Stop as soon as every pair has a verdict.")
@click.option(
    "--top",
    metavar="K",
    type=click.IntRange(1),
    help="Decide only between bots that may be among the best K.",
)
@click.option(
    "--margin",
    metavar="X",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.05,
    show_default=True,
    help="The largest difference in placement score that counts as level.",
)
@click.option(
    "--alpha",
    metavar="P",
    type=click.FloatRange(0, 0.5, min_open=True),
    default=0.05,
    show_default=True,
    help="The probability that you accept of any wrong verdict at all.",
)
@rules_option
@click.option(
    "--seed", metavar="TEXT", help="Seed text: the same text gives the same tables and luck."
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
    help="Folder for the records; continues a ranking that is there.",
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
    rules_text: str,
    seed: str | None,
    clock: str,
    in_process: bool,
    isolation: IsolationLevel,
    freeze: bool,
    workers: int,
    out: Path | None,
    markdown: bool,
    as_json: bool,
) -> None:
    """Put bots in order by their placement scores in each other's company.

    Each bot has a set of ranks that it may have. All verdicts on all pairs hold together, however
    often you look and whenever you stop.

    Exit status: 0 if every pair has a verdict, 1 if pairs are open.
    """
    if markdown and as_json:
        raise click.UsageError("--markdown and --json exclude each other")
    rules = load_rules(rules_text)
    from deepsea_cli.rank_report import Run, document, report
    from deepsea_referee.bots.process import Hosting
    from deepsea_referee.bots.resolve import resolve, with_unique_names
    from deepsea_referee.system import SYSTEM
    from deepsea_referee.workbench.ranking import RankGames, Ranking, RankSettings, seats_for
    from deepsea_rules.time_control import TimeControl
    from deepsea_sdk.entropy import fresh_seed

    if out is not None:
        from deepsea_referee.workbench.comparison_folder import kept_seed

        seed = kept_seed(out, NAME) if seed is None else seed
    seed_text = fresh_seed().hex()[:16] if seed is None else seed
    named = [resolve(bot) for bot in bots]
    settings = RankSettings(
        bots=named,
        players=seats_for(len(named), seats),
        hosting=Hosting(
            SYSTEM.choose("process" if in_process else isolation), freeze=freeze
        ).for_one_of(workers),
        rules=rules,
        time_control=TimeControl.parse(clock),
        seed=seed_from_text(seed_text),
    )
    most = games or (GAMES_UNTIL_DECIDED if until_decided else GAMES)
    if most < settings.size:
        raise UserError(
            f"--games {most}: a round of {settings.size} bots has {settings.size} games"
        )
    ranking = Ranking(len(named), alpha=alpha, margin=margin, top=top)
    playing = RankGames(settings, ranking, most, until_decided=until_decided)
    names = [bot.name for bot in with_unique_names(named)]
    run = Run(names, settings, seed_text, alpha, margin, top)
    with ExitStack() as opened:
        folder = None
        if out is not None:
            from deepsea_referee.workbench.comparison_folder import ComparisonFolder

            asked = {
                "bots": [bot.name for bot in named],
                "programs": [bot.digest for bot in named],
                "seats": settings.players,
                "rules": {"name": rules.name, **rules.options()},
                "seed": seed_text,
                "clock": settings.time_control.format(),
                "margin": margin,
                "alpha": alpha,
            }
            folder = opened.enter_context(ComparisonFolder(out, asked, NAME, FORMAT))
            for block in folder.blocks:
                playing.count(block.number, block.games, block.pair)
        done = ranking.games

        def on_group(number: int, played: PlayedBlock, pair: Pair | None) -> None:
            if folder is not None:
                folder.add(number, played, {} if pair is None else {"pair": pair})
            progress.advance(len(played), note=_standing(ranking))

        with Progress(max(most - done, 1), printed=True) as progress:
            interrupted = playing.play(on_group, workers=workers, in_process=in_process)
    if as_json:
        print_json(document(ranking, run))
    elif ranking.games:
        report(ranking, run, markdown=markdown)
    if interrupted:
        kept = f"; they are in {out}, from where the same command goes on" if out else ""
        raise Interrupted(f"after {ranking.games} games{kept}")
    if not ranking.games:
        raise UserError("no round counts: every one had a void game")
    ctx.exit(DONE if ranking.decided else NEGATIVE)


def _standing(ranking: Ranking) -> str:
    decided, pairs = ranking.counts
    return f"{decided} of {pairs} pairs decided"

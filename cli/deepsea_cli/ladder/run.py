"""`ladder run`: plays the ladder's games."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import click

from deepsea_cli.ladder.options import make_workers, season_option, store_option
from deepsea_cli.ladder.run_output import RunOutput, TalkingStop, print_report
from deepsea_cli.ladder.tables import count
from deepsea_cli.options import bot_uids_option, cluster_option, needs_linux, workers_option
from deepsea_cli.output import echo
from deepsea_referee.errors import UserError

if TYPE_CHECKING:
    from deepsea_arena.settled import OrderReport


@click.command("run")
@season_option
@click.option("--games", metavar="N", type=click.IntRange(1), help="Number of games to play.")
@click.option(
    "--until-settled",
    is_flag=True,
    help="Play until the order of the standings is settled (the default).",
)
@click.option(
    "--forever", is_flag=True, help="Play without end; wait for bots if there are too few."
)
@click.option(
    "--confidence",
    metavar="P",
    type=click.FloatRange(0.5, 0.9999, min_open=True),
    default=0.95,
    show_default=True,
    help="The confidence with which the order is settled.",
)
@workers_option(256, "Worker processes: games at once, each with its own bots.")
@cluster_option
@bot_uids_option
@store_option
@click.pass_context
def run(
    ctx: click.Context,
    *,
    store_text: str,
    season_name: str | None,
    games: int | None,
    until_settled: bool,
    forever: bool,
    confidence: float,
    workers: int | None,
    cluster: str | None,
) -> None:
    """Play rated games: the bot that needs one most, against bots of about its strength.

    Ctrl-C finishes the games that are being played, a second one gives up their leases. Several
    runs may work on one ladder.

    Exit status: 0 done, 1 too many games failed, 130 interrupted.
    """
    needs_linux("ladder run")
    if (games is not None) + until_settled + forever > 1:
        raise UserError("--games, --until-settled and --forever exclude each other")
    from deepsea_arena import runs

    request = runs.RunRequest(
        season=season_name, games=games, forever=forever, confidence=confidence
    )
    with (
        closing(TalkingStop()) as stop,
        closing(RunOutput()) as output,
        runs.open_ladder(store_text, output, stop) as store,
    ):
        make_pool = make_workers(store, workers, cluster)
        report = runs.run(store, request, make_pool, output, stop)
    status = print_report(report)
    if report.order is not None:
        _print_order(report.order)
    click.echo(f"  deepsea-referee ladder standings --season {report.season}")
    ctx.exit(status)


def _print_order(order: OrderReport) -> None:
    if order.settled:
        echo(f"the order is settled: each neighbour with {order.confidence:.4g} or more")
    else:
        pairs = count(order.open_pairs, "pair")
        echo(f"the order is open between {pairs} of neighbours")

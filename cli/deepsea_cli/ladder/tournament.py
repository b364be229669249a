"""`ladder tournament`: round-robin, gauntlet and elimination."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import click

from deepsea_cli.ladder.options import make_workers, read_time, store_option
from deepsea_cli.ladder.run_output import RunOutput, TalkingStop, print_report
from deepsea_cli.ladder.tables import count, number, percent
from deepsea_cli.options import bot_uids_option, cluster_option, needs_linux, workers_option
from deepsea_cli.output import echo, print_json
from deepsea_cli.text_table import Column, grid, span

if TYPE_CHECKING:
    from datetime import datetime

    from deepsea_arena.runs import RunReport
    from deepsea_arena.tournament_scores import Kind
    from deepsea_arena.tournaments import TournamentResult


@click.command("tournament")
@click.argument("kind", type=click.Choice(["round-robin", "gauntlet", "elimination"]))
@click.argument("name", metavar="NAME")
@click.argument("bots", metavar="[BOT]...", nargs=-1)
@click.option(
    "--seats",
    metavar="N",
    type=click.IntRange(2, 6),
    default=2,
    show_default=True,
    help="Seats at a table.",
)
@click.option(
    "--meetings",
    metavar="N",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Meetings of every two bots, or rotations of each table of an elimination.",
)
@click.option(
    "--season",
    "season_name",
    metavar="NAME",
    help="The season whose rules, clock and isolation it uses.  [default: the open one]",
)
@click.option(
    "--embargo-until",
    metavar="TIME",
    callback=read_time,
    help="Show strangers nothing of it before this time, such as 2027-01-31T18:00Z.",
)
@workers_option(256, "Worker processes: games at once.")
@cluster_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@bot_uids_option
@store_option
def tournament(
    *,
    store_text: str,
    kind: Kind,
    name: str,
    bots: tuple[str, ...],
    seats: int,
    meetings: int,
    season_name: str | None,
    embargo_until: datetime | None,
    workers: int | None,
    cluster: str | None,
    as_json: bool,
) -> None:
    """Play the tournament NAME between these bots, or all active ones.

    A meeting is a game from every seat for each. In a gauntlet the first bot meets all others; an
    elimination seeds the bots in their order. The same command goes on after a stop.
    """
    needs_linux("ladder tournament")
    from deepsea_arena.documents import to_json
    from deepsea_arena.runs import RunStopped, open_ladder
    from deepsea_arena.tournaments import TournamentRequest, play_tournament

    request = TournamentRequest(
        kind=kind,
        name=name,
        bots=bots,
        seats=seats,
        meetings=meetings,
        season=season_name,
        embargo_until=embargo_until,
    )
    try:
        with (
            closing(TalkingStop()) as stop,
            closing(_TournamentOutput(quiet=as_json)) as output,
            open_ladder(store_text, output, stop) as store,
        ):
            make_pool = make_workers(store, workers, cluster)
            result = play_tournament(store, request, make_pool, output, stop)
    except RunStopped as stopped:
        print_report(stopped.report)
        return
    if as_json:
        print_json(to_json(result))
    else:
        _show(result)


class _TournamentOutput(RunOutput):
    """Prints a tournament's progress to stdout, unless `quiet`."""

    def __init__(self, *, quiet: bool) -> None:
        super().__init__()
        self._quiet = quiet

    def round_begins(self, number: int, tables: int, bots: int) -> None:
        """Report a new round of an elimination."""
        if not self._quiet:
            echo(f"round {number}: {count(tables, 'table')}, {bots} bots")

    def played(self, report: RunReport) -> None:
        """Report games that were played."""
        self.close()
        if report.accepted and not self._quiet:
            print_report(report)


def _show(result: TournamentResult) -> None:
    lines = result.scores
    click.echo()
    grid(
        [
            Column("", [str(line.rank) for line in lines]),
            Column("bot", [f"{line.bot} v{line.version}" for line in lines], text=True),
            Column("games", [str(line.games) for line in lines]),
            Column("placement score", [percent(line.placement_score) for line in lines]),
            Column("wins", [str(line.wins) for line in lines]),
            Column("points", [number(line.mean_points) for line in lines]),
            Column("ranks", [span(line.best_rank, line.worst_rank) for line in lines]),
        ]
    )
    click.echo()
    echo("ranks: by skill, those that these games leave open")
    if result.champion is not None:
        echo(f"{result.champion} wins the tournament {result.tournament}")
    echo(f"season {result.tournament} is closed; seed {result.seed}")

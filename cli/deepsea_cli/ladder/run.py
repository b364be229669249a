"""`ladder run` and `tournament`: commands that play the ladder's games.

They print the summary to stdout, and progress (on a terminal) and problems (always) to stderr.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from deepsea_arena.run_report import RunEnd, RunReport, RunWatcher, Stop, StopRequest
from deepsea_cli.errors import DONE, NEGATIVE, Interrupted
from deepsea_cli.ladder.options import (
    SETTLED,
    Location,
    location_option,
    make_workers,
    refuse_if_elsewhere,
    season_option,
    store_option,
    until_option,
)
from deepsea_cli.options import (
    bot_uids_option,
    cluster_option,
    decimal_option,
    number_option,
    prepare_machine,
    workers_option,
)
from deepsea_cli.output import (
    Column,
    Progress,
    count,
    echo,
    grid,
    number,
    percent,
    print_document,
    print_error,
    shared_wins,
)
from deepsea_ladder.model import Job, Receipt, ReceiptStatus, TaskState
from deepsea_ladder.standings import CONFIDENCE
from deepsea_ladder.tournament import FINAL_GAMES
from deepsea_referee.errors import UserError
from deepsea_rules.ruleset import MAX_PLAYERS, MIN_PLAYERS

if TYPE_CHECKING:
    from deepsea_arena.standings import OrderReport
    from deepsea_arena.tournament_run import TournamentResult
    from deepsea_arena.tournament_state import FinalReport, TournamentKind
    from deepsea_arena.tournaments import TournamentLine
    from deepsea_ladder.model import StoredComparison


class RunOutput(RunWatcher):
    """Prints a run's progress (on a terminal) and its problems (always) to stderr.

    The rounds of a tournament go to stdout, unless it is quiet.
    """

    def __init__(self, *, quiet: bool = True) -> None:
        self._quiet = quiet
        self._progress: Progress | None = None
        self._void = 0
        """Games that were void in this run."""

    def begins(self, season: str, games: int | None) -> None:
        self.close()
        self._progress = Progress(games)

    def expects(self, order: OrderReport) -> None:
        """Say about how many games a run until the order is settled will take."""
        from deepsea_arena.standings import games_in_words

        games = games_in_words(order.least_games, order.most_games)
        print_error(f"until the order is settled: about {games} (by the ratings' uncertainty)")

    def taken_back(self, tasks: int) -> None:
        print_error(f"{count(tasks, 'task')} of a run that was killed will be done again")

    def checked(self, bot: str, author: str, state: TaskState, note: str) -> None:
        print_error(f"submission of {author}, {bot or 'a bot'}: {state}, {note}")

    def analysed(self, game_id: str, state: TaskState, note: str) -> None:
        print_error(f"analysis of game {game_id}: {state}, {note}")

    def compared(self, comparison: StoredComparison) -> None:
        from deepsea_arena.bots import verdict_line

        print_error(f"{comparison.version.label}: {verdict_line(comparison).words}")

    def finished(self, job: Job, receipt: Receipt) -> None:
        """Show the outcome of a game whose result was given to the ladder.

        The game counts in the progress if the ladder accepted the result. Problems are printed: the
        reason of a refusal, and bots that the ladder suspended because of this game.
        """
        if receipt.status is ReceiptStatus.REFUSED:
            print_error(f"the result of game {job.game_id} was refused: {receipt.reason}")
        for bot_name in receipt.suspended:
            print_error(f"{bot_name} is suspended")
        if self._progress is not None:
            accepted_games = 1 if receipt.status is ReceiptStatus.ACCEPTED else 0
            note = f"{self._void} void" if self._void else ""
            self._progress.advance(accepted_games, note)

    def failed(self, job: Job, reason: str) -> None:
        self._void += 1
        print_error(f"game {job.game_id} is void: {reason}")

    def trouble(self, message: str) -> None:
        print_error(message)

    def round_begins(self, number: int, tables: int, bots: int) -> None:
        if not self._quiet:
            echo(f"round {number}: {count(tables, 'table')}, {bots} bots")

    def played(self, report: RunReport) -> None:
        """Report a round of a tournament."""
        self.close()
        if report.accepted and not self._quiet:
            print_report(report)

    def close(self) -> None:
        if self._progress is not None:
            self._progress.close()


class TalkingStop(Stop):
    """A request to stop that is confirmed on stderr.

    It is confirmed in `clear`, which the run calls after each wait: in the signal's handler nothing
    may be written.
    """

    def __init__(self) -> None:
        super().__init__()
        self._confirmed = StopRequest.GO_ON

    def clear(self) -> None:
        """Forget the signals that ended a wait, and print what a new request to stop does."""
        super().clear()
        if self.requested is StopRequest.FINISH and self._confirmed is StopRequest.GO_ON:
            print_error("finishing the games that are being played; Ctrl-C hands them back")
        self._confirmed = self.requested


def print_report(report: RunReport, *, has_no_end: bool = False) -> int:
    """Print a run's summary, and return the command's exit status.

    Raises Interrupted if the run was stopped, unless it has no other end than that, as a service.
    """
    counts = (
        (report.void, "void"),
        (report.refused, "refused"),
        (report.duplicates, "played by others too"),
    )
    games = f"{count(report.accepted, 'game')} of season {report.season}"
    if report.ended is RunEnd.STOPPED:
        handed_back = f", {report.handed_back} handed back" if report.handed_back else ""
        ending = f"after {games}{handed_back}; nothing is lost"
        if not has_no_end:
            raise Interrupted(ending)
        echo(f"ended {ending}")
        return DONE
    other_games = [f"{number} {words}" for number, words in counts if number]
    echo(", ".join([f"{games} played", *other_games]))
    for name in report.suspended:
        echo(f"{name} was suspended: see `ladder bot {name}` for the reason")
    match report.ended:
        case RunEnd.TOO_MANY_FAILURES:
            echo("too many games in a row failed: see `ladder status` for the reasons")
            return NEGATIVE
        case RunEnd.HOST:
            echo(f"this machine cannot play now: {report.trouble}")
            return NEGATIVE
        case RunEnd.CLOSED:
            echo(f"season {report.season} was closed")
        case RunEnd.NOTHING_LEFT if not report.accepted:
            echo("there was nothing to play")
            return NEGATIVE
    return DONE


@click.command("run")
@season_option
@number_option("--games", help="Number of games to play.")
@until_option
@click.option(
    "--forever",
    is_flag=True,
    help="Wait for bots if there are too few, and after --until for more to play, without end.",
)
@decimal_option(
    "--confidence",
    least=0.5,
    most=0.9999,
    over=True,
    metavar="P",
    default=CONFIDENCE,
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
    until: str | datetime | None,
    forever: bool,
    confidence: float,
    workers: int | None,
    cluster: str | None,
) -> None:
    """Play rated games.

    Next is always the bot whose rating is least certain, against opponents of similar strength.

    Ctrl-C finishes the games that are being played, a second one gives up their leases. Several
    runs may work on one ladder.

    Exit status: 0 done, or with --forever ended by SIGTERM, 1 too many games failed, 130
    interrupted.
    """
    prepare_machine("ladder run")
    refuse_if_elsewhere(store_text)
    if games is not None and (forever or until is not None):
        raise UserError("--games excludes --until and --forever")
    from deepsea_arena import runner
    from deepsea_arena.tournament_run import play_begun

    request = runner.RunRequest(
        season=season_name,
        games=games,
        forever=forever,
        settled=until == SETTLED,
        until=until if isinstance(until, datetime) else None,
        confidence=confidence,
    )
    with (
        closing(TalkingStop()) as stop,
        closing(RunOutput()) as output,
        runner.open_ladder(store_text, output, stop) as store,
    ):
        make_pool = make_workers(store, workers, cluster)
        begun = partial(play_begun, store, make_pool, output, stop)
        try:
            report = runner.run(store, request, make_pool, output, stop, play_tournament=begun)
        except runner.RunStopped as stopped:
            report = stopped.report
        except KeyboardInterrupt:
            if not (forever and stop.is_terminated):
                raise
            report = RunReport()
        # A service is stopped by SIGTERM.
        ends_well = forever and stop.is_terminated
    status = print_report(report, has_no_end=ends_well)
    if (order := report.order) is not None and order.settled:
        echo(f"the order is settled: each neighbour with {order.confidence:.4g} or more")
    elif order is not None:
        echo(f"the order is open between {count(order.open_pairs, 'pair')} of neighbours")
    click.echo(f"  deepsea-referee ladder standings --season {report.season}")
    ctx.exit(status)


@click.command("tournament")
@click.argument("kind", type=click.Choice(["round-robin", "gauntlet", "elimination", "final"]))
@click.argument("name", metavar="NAME")
@click.argument("bots", metavar="[BOT]...", nargs=-1)
@number_option("--seats", least=MIN_PLAYERS, most=MAX_PLAYERS, default=2, help="Seats at a table.")
@number_option(
    "--meetings",
    default=1,
    help="Meetings of every two bots, or rotations of each table of an elimination.",
)
@number_option("--top", help="Of a final: the number of winners.  [default: 1]")
@number_option(
    "--games", help=f"Of a final: the games that it has at most.  [default: {FINAL_GAMES}]"
)
@click.option(
    "--season",
    "season_name",
    metavar="NAME",
    help="The season whose rules, clock and isolation it uses.  [default: the open one]",
)
@workers_option(256, "Worker processes: games at once.")
@cluster_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@bot_uids_option
@location_option
def tournament(
    *,
    location: Location,
    kind: TournamentKind,
    name: str,
    bots: tuple[str, ...],
    seats: int,
    meetings: int,
    top: int | None,
    games: int | None,
    season_name: str | None,
    workers: int | None,
    cluster: str | None,
    as_json: bool,
) -> None:
    """Play the tournament NAME between these bots, or all active ones.

    A meeting is a game from every seat for each. In a gauntlet the first bot meets all others; an
    elimination seeds the bots in their order. A final is a race: a bot that is surely not among the
    best leaves, until the winner is known with 95 % or the games are played. After a stop, the same
    command continues the tournament.

    On another machine, the ladder's runner plays it with its own workers, before it plays on in the
    season.
    """
    arguments: dict[str, Any] = {"kind": kind, "name": name, "bots": bots}
    arguments |= {"seats": seats, "meetings": meetings, "top": top or 0, "games": games or 0}
    if location.remote is not None:
        location.refuse_options(workers=workers, cluster=cluster)
        with location.open_ladder(needs_token=True) as ladder:
            report = ladder.begin_tournament(**arguments, season=season_name or "")
        if as_json:
            print_document(report)
        else:
            _print_begun(report.tournament, location.remote.url)
        return
    prepare_machine("ladder tournament")
    from deepsea_arena.runner import RunStopped, open_ladder
    from deepsea_arena.tournament_run import TournamentRequest, play_tournament

    request = TournamentRequest(**arguments, season=season_name)
    try:
        with (
            closing(TalkingStop()) as stop,
            closing(RunOutput(quiet=as_json)) as output,
            open_ladder(location.store_text, output, stop) as store,
        ):
            make_pool = make_workers(store, workers, cluster)
            result = play_tournament(store, request, make_pool, output, stop)
    except RunStopped as stopped:
        print_report(stopped.report)
        return
    if as_json:
        print_document(result)
    else:
        print_result(result)


def _print_begun(line: TournamentLine, url: str) -> None:
    """Print that a tournament of a ladder on another machine is begun, and where to watch it."""
    games = f", {line.played} of {count(line.games, 'game')} played" if line.games else ""
    echo(f"{line.kind} {line.name} of {count(line.bots, 'bot')} is begun{games}")
    echo(f"the ladder's runner plays it, and shows it at {url}/tournaments/{line.name}")


def print_result(result: TournamentResult) -> None:
    """Print the result of a tournament: a table of the bots, how it was decided, and the winner."""
    _print_scores(result)
    if result.final is not None:
        _print_final(result.final, result.games)
    _print_ties(result)
    # A final that is not decided has no winner.
    if result.champion is not None or result.final is None:
        echo(_winners(result))
    if result.certainty is not None:
        echo(f"{result.certainty.words}; a `tournament final` names a sure winner sooner")
    echo(f"season {result.tournament} is closed; seed {result.seed}")


def _print_scores(result: TournamentResult) -> None:
    """Print a table of the bots by their ranks in a tournament, and how many wins were shared."""
    bots = result.scores
    click.echo()
    grid(
        Column("", [str(bot.rank) for bot in bots]),
        Column("bot", [f"{bot.bot} v{bot.version}" for bot in bots], text=True),
        Column("games", [str(bot.games) for bot in bots]),
        Column("placement score", [percent(bot.placement_score) for bot in bots]),
        Column("wins", [str(bot.wins) for bot in bots]),
        Column("points", [number(bot.mean_points) for bot in bots]),
    )
    click.echo()
    shared = shared_wins([bot.wins for bot in bots], result.games)
    if shared:
        echo(shared)


def _print_ties(result: TournamentResult) -> None:
    """Print the ties at tables of an elimination, from each of which the best seed advanced."""
    for round_number, tables in enumerate(result.rounds, 1):
        for tied_bots in [table.level for table in tables if table.level]:
            best_seed = tied_bots[0]
            echo(
                f"round {round_number}: {_joined(tied_bots)} were level; the best seed, "
                f"{best_seed}, advances"
            )


def _joined(names: Sequence[str]) -> str:
    """Return two or more names as `a, b and c`."""
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _winners(result: TournamentResult) -> str:
    """Return the sentence that names a tournament's winner, or those who share it."""
    match result.winners:
        case ():
            return f"nobody wins the tournament {result.tournament}"
        case (winner,):
            return f"{winner} wins the tournament {result.tournament}"
        case winners:
            return f"{_joined(winners)} are level and share the tournament {result.tournament}"


def _print_final(final: FinalReport, games: int) -> None:
    """Print which bots left a final and behind which bot, and who won it or can still win.

    games  number of games that were played
    """
    leavers = final.left
    click.echo()
    grid(
        Column("left", [leaver.bot for leaver in leavers], text=True),
        Column("after games", [f"{leaver.after_games:,}" for leaver in leavers]),
        Column("behind", [leaver.behind or "(withdrawn)" for leaver in leavers], text=True),
        Column("by", ["" if leaver.lead is None else percent(leaver.lead) for leaver in leavers]),
    )
    click.echo()
    names = ", ".join(final.winners)
    has_several_winners = final.top > 1
    if not names:
        echo("all bots have left")
    elif final.decided:
        best = f"the best {final.top} are" if has_several_winners else "the best is"
        echo(f"sure with {percent(final.confidence)}: {best} {names}")
    else:
        best = f"among the best {final.top}" if has_several_winners else "the best"
        echo(f"not decided after {count(games, 'game')}: {best} may be {names}")

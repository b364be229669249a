"""`ladder run`: plays the ladder's games.

This process looks after the store and plays nothing; workers play, each with bots of its own.
Whatever dies, the store has whole games or nothing, and the next run goes on from there.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import click

from deepsea_arena.shutdown import Stop, StopRequest
from deepsea_cli.errors import NEGATIVE, Interrupted
from deepsea_cli.ladder.options import (
    open_store,
    season_option,
    store_option,
)
from deepsea_cli.ladder.tables import count
from deepsea_cli.output import say
from deepsea_cli.progress import Progress
from deepsea_referee.errors import UserError
from deepsea_rules.printable import printable

if TYPE_CHECKING:
    from deepsea_arena.runner import RunGoal, RunSummary, Source
    from deepsea_arena.workers.local import WorkerPool
    from deepsea_ladder.model import Job, Receipt, StoredSeason
    from deepsea_ladder.rating.convergence import OrderConfidence
    from deepsea_ladder.season import Isolation
    from deepsea_ladder.store import Store

LOOKS: Final = 4
"""The order is looked at after so many games of a table each; on a large ladder less often."""


@click.command("run")
@season_option
@click.option("--games", metavar="N", type=click.IntRange(1), help="Play so many games.")
@click.option(
    "--until-settled",
    is_flag=True,
    help="Play until the order of neighbours is sure (the default).",
)
@click.option("--forever", is_flag=True, help="Play on, and wait for bots if there are too few.")
@click.option(
    "--confidence",
    metavar="P",
    type=click.FloatRange(0.5, 0.9999, min_open=True),
    default=0.95,
    show_default=True,
    help="How sure is settled.",
)
@click.option(
    "--jobs",
    metavar="J",
    type=click.IntRange(1, 256),
    show_default="1",
    help="How many games are played at once, each by a process with bots of its own.",
)
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Play on the workers of the Dask scheduler at ADDRESS, such as tcp://host:8786.",
)
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
    jobs: int | None,
    cluster: str | None,
) -> None:
    """Play rated games: who needs one most, against bots of about its strength.

    Ctrl-C finishes the games that are being played, a second one hands them back. Several runs
    may work on one ladder.

    Exit status: 0 done, 1 games came to nothing, 130 stopped before that.
    """
    if (games is not None) + until_settled + forever > 1:
        raise UserError("--games, --until-settled and --forever exclude each other")
    if cluster is not None and jobs is not None:
        raise UserError("a cluster plays as many games as its workers have threads: omit --jobs")
    from deepsea_arena.runner import RunGoal
    from deepsea_arena.seasons import find_season
    from deepsea_ladder.scheduling.matchmaker import Matchmaker

    with open_store(store_text) as store:
        season = find_season(store, season_name)
        settled = Settled(store, season, confidence)
        if games is not None:
            goal = RunGoal(games=games)
        elif forever:
            goal = RunGoal(wait_for_work=True)
        else:
            goal = RunGoal(settled=settled)
        if goal.settled and settled.order().settled:
            goal = RunGoal(games=0)  # it was so already
        source = Matchmaker(store, season)
        summary = play(store, season, store_text, jobs or 1, source, goal, cluster)
        status = report(summary, season)
        if games is None and not forever:
            say(settled.words())
    click.echo(f"  deepsea-referee ladder standings --season {season.name}")
    ctx.exit(status)


class Settled:
    """Whether a season's order is settled, asked after every game."""

    def __init__(self, store: Store, season: StoredSeason, confidence: float) -> None:
        self._store = store
        self._season = season
        self._confidence = confidence
        self._asked = 0
        self._every = 1

    def __call__(self) -> bool:
        self._asked += 1
        if self._asked % self._every:
            return False
        order = self.order()
        self._every = max(1, len(order.neighbours) // LOOKS)
        return order.settled

    def order(self) -> OrderConfidence:
        """How settled it is now; a bot that has not had its trial games leaves it open."""
        from deepsea_ladder.model import BotState
        from deepsea_ladder.rating.convergence import order

        season = self._season.season
        entries = [
            entry
            for entry in self._store.ratings.entries(self._season)
            if entry.is_current and entry.state is BotState.ACTIVE
        ]
        found = order(
            season.rating,
            {entry.version.id: entry.tally.rating for entry in entries},
            self._confidence,
        )
        tried = all(entry.tally.games >= season.pairing.trial_games for entry in entries)
        return found._replace(settled=found.settled and tried)

    def words(self) -> str:
        """What is to be said about it."""
        order = self.order()
        if order.settled:
            return f"the order is settled: each neighbour with {self._confidence:.4g} or more"
        unsure = sum(pair.verdict == "open" for pair in order.neighbours)
        return f"the order is open between {count(unsure, 'pair')} of neighbours"


def play(
    store: Store,
    season: StoredSeason,
    target: str,
    jobs: int,
    source: Source,
    goal: RunGoal,
    cluster: str | None = None,
) -> RunSummary:
    """Play with workers until the goal is reached or somebody stops it.

    There are `jobs` workers on this machine, or else those of the Dask scheduler at `cluster`.
    """
    from deepsea_arena.lease_owner import own_name, take_back
    from deepsea_arena.runner import Runner
    from deepsea_referee.timing.clock import SystemClock

    isolation = season.season.isolation
    crew = _crew_at(cluster, target, isolation) if cluster else _crew_here(jobs, target, isolation)
    clock = SystemClock()
    if games := take_back(store, season):
        _tell(f"{count(games, 'game')} of a run that was killed will be played again")
    watcher = RunProgress(Progress(goal.games))
    stop = _Told()
    runner = Runner(
        store,
        season,
        crew,
        owner=own_name(),
        clock=lambda: clock.now_us() / 1_000_000,
        stop=stop,
        source=source,
        goal=goal,
        listener=watcher,
    )
    try:
        with stop.on_signals():
            return runner.run()
    finally:
        watcher.finish()
        stop.close()


def _crew_here(jobs: int, target: str, isolation: Isolation) -> WorkerPool:
    from deepsea_arena.rated_games import hosting, worker
    from deepsea_arena.workers.local import LocalWorkers

    hosting(isolation)  # refused here, in one line, rather than by every worker
    return LocalWorkers(partial(worker, target), jobs)


def _crew_at(address: str, target: str, isolation: Isolation) -> WorkerPool:
    from deepsea_arena.rated_games import fetch

    try:
        from deepsea_arena.workers.dask import Cluster
    except ModuleNotFoundError as error:
        if error.name != "distributed":
            raise
        raise UserError(
            "--cluster needs the package distributed: pip install 'deepsea-referee[cluster]'"
        ) from None
    return Cluster(address, partial(fetch, target), isolation, _tell)


def report(summary: RunSummary, season: StoredSeason) -> int:
    """Say what a run did; the exit status."""
    from deepsea_arena.runner import RunEnd

    extra = [
        f"{number} {words}"
        for number, words in (
            (summary.void, "void"),
            (summary.refused, "refused"),
            (summary.duplicates, "played by others too"),
        )
        if number
    ]
    played = f"{count(summary.accepted, 'game')} of season {season.name}"
    if summary.ended is RunEnd.STOPPED:
        back = f", {summary.handed_back} handed back" if summary.handed_back else ""
        raise Interrupted(f"after {played}{back}; nothing is lost")
    say(", ".join([f"{played} played", *extra]))
    for name in summary.disabled:
        say(f"{name} was disabled: `ladder bot {name}` says why")
    match summary.ended:
        case RunEnd.IN_VAIN:
            say("one game after another came to nothing: `ladder status` has the reasons")
            return NEGATIVE
        case RunEnd.NOTHING_LEFT if not summary.accepted:
            say("there was nothing to play")
            return NEGATIVE
    return 0


class RunProgress:
    """Tells on stderr what a run does: progress on a terminal, trouble always."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._void = 0

    def finished(self, job: Job, receipt: Receipt) -> None:
        """A result was taken in or refused."""
        from deepsea_ladder.model import ReceiptStatus

        if receipt.verdict is ReceiptStatus.REFUSED:
            _tell(f"the result of game {job.game_id} was refused: {receipt.reason}")
        for name in receipt.disabled:
            _tell(f"{name} is disabled")
        note = f"{self._void} void" if self._void else ""
        self._progress.advance(receipt.verdict is ReceiptStatus.ACCEPTED, note)

    def failed(self, job: Job, reason: str) -> None:
        """A game was void."""
        self._void += 1
        _tell(f"game {job.game_id} is void: {reason}")

    def trouble(self, message: str) -> None:
        """The store is away."""
        _tell(message)

    def finish(self) -> None:
        """Wipe the progress."""
        self._progress.close()


class _Told(Stop):
    """Says that it was heard: not in the signal's handler, where nothing may be written."""

    def __init__(self) -> None:
        super().__init__()
        self._said = StopRequest.GO_ON

    def clear(self) -> None:
        super().clear()
        if self.wish is StopRequest.FINISH and self._said is StopRequest.GO_ON:
            _tell("finishing the games that are being played; Ctrl-C hands them back")
        self._said = self.wish


def _tell(line: str) -> None:
    click.echo(f"deepsea-referee: {printable(line)}", err=True)

"""Runs: rated games are chosen, played by workers, and taken in, until a goal is reached.

Invariants: this process looks after the store and plays nothing, its workers do; whatever dies, the
store has whole games or nothing, and the next run goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from deepsea_arena.lease_owner import own_name, take_back
from deepsea_arena.rated_games import hosting, worker
from deepsea_arena.runner import RunEnd, RunGoal, RunListener, Runner, RunSummary, Source
from deepsea_arena.seasons import find_season
from deepsea_arena.settled import OrderReport, UntilSettled
from deepsea_arena.shutdown import Stop
from deepsea_arena.worker_protocol import WorkerPool
from deepsea_arena.workers.local import LocalWorkers, StartWorker
from deepsea_ladder.model import StoredSeason
from deepsea_ladder.rating.convergence import CONFIDENCE
from deepsea_ladder.scheduling.matchmaker import Matchmaker
from deepsea_ladder.season import Isolation
from deepsea_ladder.store import Store
from deepsea_referee.errors import UserError
from deepsea_referee.timing.clock import SystemClock


class RunWatcher(RunListener, Protocol):
    """Somebody who watches runs from their beginning."""

    def begins(self, season: str, games: int | None) -> None:
        """A run begins; it is to play so many games, None if that is open."""

    def expects(self, order: OrderReport) -> None:
        """A run begins that is to go on until the order is settled, which stands like this."""

    def taken_back(self, games: int) -> None:
        """So many games of a run that was killed will be played again."""


MakePool = Callable[[Isolation, RunWatcher], WorkerPool]
"""Starts the workers for a season's games; the watcher hears of trouble with them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What a run is for; without a number of games, until the order is settled."""

    season: str | None = None
    games: int | None = None
    forever: bool = False
    """Whether to play on, and to wait for bots if there are too few."""
    confidence: float = CONFIDENCE
    """How sure the order of two neighbours has to be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """What a run did."""

    season: str
    ended: RunEnd
    accepted: int
    """Games with a result."""
    duplicates: int
    """Results that another run had reported already."""
    refused: int
    """Results that the store did not believe."""
    void: int
    handed_back: int
    """Games that were being played at the end, and wait again."""
    disabled: tuple[str, ...]
    """Bots that were taken out because they did not come, or did not stay."""
    order: OrderReport | None
    """At the end of a run until the order is settled."""


class RunStopped(Exception):
    """Somebody asked a run to stop that is a part of something larger."""

    def __init__(self, report: RunReport) -> None:
        super().__init__("stopped")
        self.report = report


def local_workers(store: Store, workers: int, launch: StartWorker | None = None) -> MakePool:
    """So many worker processes on this machine, which get bots from this store through here."""

    def make(isolation: Isolation, watcher: RunWatcher) -> WorkerPool:
        hosting(isolation)  # refused here, in one line, rather than by every worker
        return LocalWorkers(worker, workers, launch, fetch=store.bots.archive)

    return make


def cluster_workers(store: Store, address: str) -> MakePool:
    """The workers of the Dask scheduler at `address`, which get bots from this store."""

    def make(isolation: Isolation, watcher: RunWatcher) -> WorkerPool:
        try:
            from deepsea_arena.workers.dask import Cluster
        except ModuleNotFoundError as error:
            if error.name != "distributed":
                raise
            raise UserError(
                "--cluster needs the package distributed: pip install 'deepsea-referee[cluster]'"
            ) from None
        return Cluster(address, store.bots.archive, isolation, watcher.trouble)

    return make


def run(
    store: Store, request: RunRequest, make_pool: MakePool, watcher: RunWatcher, stop: Stop
) -> RunReport:
    """Play rated games: who needs one most, against bots of about its strength."""
    season = find_season(store, request.season)
    until = UntilSettled(store, season, request.confidence)
    if request.games is not None:
        goal = RunGoal(games=request.games)
    elif request.forever:
        goal = RunGoal(wait_for_work=True)
    elif (order := until.report()).settled:
        goal = RunGoal(games=0)
    else:
        watcher.expects(order)
        goal = RunGoal(settled=until)
    summary = play(store, season, Matchmaker(store, season), goal, make_pool, watcher, stop)
    open_end = request.games is None and not request.forever
    return run_report(season, summary, until.report() if open_end else None)


def play(
    store: Store,
    season: StoredSeason,
    source: Source,
    goal: RunGoal,
    make_pool: MakePool,
    watcher: RunWatcher,
    stop: Stop,
) -> RunSummary:
    """Play what is queued and what the source gives, until the goal is reached or `stop` asks.

    Meanwhile Ctrl-C and SIGTERM ask to stop, so this is for the main thread.
    """
    if games := take_back(store, season):
        watcher.taken_back(games)
    pool = make_pool(season.season.isolation, watcher)
    clock = SystemClock()
    watcher.begins(season.name, goal.games)
    runner = Runner(
        store,
        season,
        pool,
        owner=own_name(),
        clock=lambda: clock.now_us() / 1_000_000,
        stop=stop,
        source=source,
        goal=goal,
        listener=watcher,
    )
    with stop.on_signals():
        return runner.run()


def run_report(
    season: StoredSeason, summary: RunSummary, order: OrderReport | None = None
) -> RunReport:
    """What people and programs learn of a run."""
    return RunReport(
        season=season.name,
        ended=summary.ended,
        accepted=summary.accepted,
        duplicates=summary.duplicates,
        refused=summary.refused,
        void=summary.void,
        handed_back=summary.handed_back,
        disabled=tuple(summary.disabled),
        order=order,
    )

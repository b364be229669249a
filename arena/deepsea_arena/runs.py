"""Runs: chooses rated games, plays them on workers, and stores results, until a goal is reached.

Invariants: this process accesses the store and plays nothing, its workers play; whatever process
dies, the store has complete games only, and the next run continues from there.
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
    """Callbacks of runs from their start."""

    def begins(self, season: str, games: int | None) -> None:
        """A run starts, with its number of games; None if that is open."""

    def expects(self, order: OrderReport) -> None:
        """A run begins that is to go on until the order is settled, which stands like this."""

    def taken_back(self, games: int) -> None:
        """Games of a killed run will be played again; their number."""


MakePool = Callable[[Isolation, RunWatcher], WorkerPool]
"""Starts the workers for a season's games; the callback reports problems with them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """The request of a run; without a number of games, until the order is settled."""

    season: str | None = None
    games: int | None = None
    forever: bool = False
    """Whether to play without end, and to wait for bots if there are too few."""
    confidence: float = CONFIDENCE
    """The confidence for the order of two neighbours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """The report of a run."""

    season: str
    ended: RunEnd
    accepted: int
    """Games with a result."""
    duplicates: int
    """Results that another run had already reported."""
    refused: int
    """Results that the store refused."""
    void: int
    handed_back: int
    """Games whose leases were given back at the end."""
    disabled: tuple[str, ...]
    """Bots that were disabled because they did not start, or crashed, too often."""
    order: OrderReport | None
    """The order, for a run until it is settled."""


class RunStopped(Exception):
    """A run that is part of something larger was stopped."""

    def __init__(self, report: RunReport) -> None:
        super().__init__("stopped")
        self.report = report


def local_workers(store: Store, workers: int, launch: StartWorker | None = None) -> MakePool:
    """Worker processes on this machine, which get bots from this store through this process."""

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
                "--cluster needs the package distributed: pip install distributed"
            ) from None
        return Cluster(address, store.bots.archive, isolation, watcher.trouble)

    return make


def run(
    store: Store, request: RunRequest, make_pool: MakePool, watcher: RunWatcher, stop: Stop
) -> RunReport:
    """Play rated games: the bot that needs one most, against bots of about its strength."""
    season = find_season(store, request.season)
    until = UntilSettled(store, season, request.confidence)
    expected = None
    if request.games is not None:
        goal = RunGoal(games=request.games)
    elif request.forever:
        goal = RunGoal(wait_for_work=True)
    elif (order := until.report()).settled:
        goal = RunGoal(games=0)
    else:
        goal, expected = RunGoal(settled=until), order
    source = Matchmaker(store, season)
    summary = play(store, season, source, goal, make_pool, watcher, stop, expected)
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
    expected: OrderReport | None = None,
) -> RunSummary:
    """Play queued games and those of the source, until the goal is reached or `stop` is requested.

    Ctrl-C and SIGTERM request a stop meanwhile, so call this in the main thread.
    """
    if games := take_back(store, season):
        watcher.taken_back(games)
    pool = make_pool(season.season.isolation, watcher)
    clock = SystemClock()
    if expected is not None:
        watcher.expects(expected)
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
    """The report of a run for people and programs."""
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

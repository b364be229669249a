"""Runs: chooses rated games, plays them on workers, and stores results, until a goal is reached.

Invariants: this process accesses the store and plays nothing, its workers play; whatever process
dies, the store has complete games only, and the next run continues from there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeVar

from deepsea_arena.lease_owner import own_name, take_back
from deepsea_arena.play.analyst import AnalystListener, analysing, local_analyst
from deepsea_arena.play.rated_games import hosting, worker
from deepsea_arena.play.runner import RunEnd, RunGoal, RunListener, Runner, RunSummary, Source
from deepsea_arena.play.shutdown import Stop, StopRequest
from deepsea_arena.play.tasks import WorkerPool
from deepsea_arena.play.validation import ValidationListener, local_checker, validating
from deepsea_arena.reports.seasons import find_season, open_seasons, without_cgroups
from deepsea_arena.retry import insist
from deepsea_arena.settled import OrderReport, UntilSettled
from deepsea_arena.workers import dask_workers
from deepsea_arena.workers.jobs import JobWorkers
from deepsea_ladder.errors import SeasonClosed
from deepsea_ladder.model.seasons import StoredSeason
from deepsea_ladder.rating.convergence import CONFIDENCE
from deepsea_ladder.scheduling.matchmaker import Matchmaker
from deepsea_ladder.season import Season
from deepsea_ladder.store import Store
from deepsea_referee.errors import UserError
from deepsea_referee.system.interface import equal_shares
from deepsea_referee.timing.clock import SystemClock
from deepsea_referee.workers import LocalWorkers, Workers

_T = TypeVar("_T")
_IDLE_S: Final = 5.0
"""The wait for a season."""
_OPENING: Final = 8
"""How often a store that is busy is opened: within about a minute."""


class RunWatcher(RunListener, ValidationListener, AnalystListener, Protocol):
    """Callbacks of runs from their start."""

    def begins(self, season: str, games: int | None) -> None:
        """A run starts, with its number of games; None if that is open."""

    def expects(self, order: OrderReport) -> None:
        """A run begins that is to go on until the order is settled, which stands like this."""

    def taken_back(self, games: int) -> None:
        """Games of a killed run will be played again; their number."""


MakePool = Callable[[Season, RunWatcher], WorkerPool]
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
    """Bots that were disabled for their strikes."""
    trouble: str
    """Why this machine could not play last."""
    order: OrderReport | None
    """The order, for a run until it is settled."""


class RunStopped(Exception):
    """A run that is part of something larger was stopped."""

    def __init__(self, report: RunReport) -> None:
        super().__init__("stopped")
        self.report = report


def local_workers(store: Store, workers: int) -> MakePool:
    """Worker processes on this machine, which get bots from this store through this process."""

    def make(season: Season, watcher: RunWatcher) -> WorkerPool:
        # Refused here, in one line, rather than by every worker.
        settings = hosting(season.isolation, season.limits).for_one_of(workers)
        if note := without_cgroups(season.isolation):
            watcher.trouble(note)
        setup = partial(worker, starts_at_once=settings.starts_at_once)
        cpus = equal_shares(workers)
        pool = LocalWorkers(setup, workers, fetch=store.bots.archive, ahead=1, cpus=cpus)
        return JobWorkers(pool)

    return make


def cluster_workers(store: Store, address: str) -> MakePool:
    """The workers of the Dask scheduler at `address`, which get bots from this store."""

    def make(season: Season, watcher: RunWatcher) -> WorkerPool:
        check, fetch = partial(hosting, season.isolation, season.limits), store.bots.archive
        pool = dask_workers()(address, worker, check, fetch=fetch, report=watcher.trouble)
        return JobWorkers(pool)

    return make


def open_ladder(target: str, watcher: RunWatcher, stop: Stop) -> Store:
    """Open a ladder for a run; waits a while if it is busy, and then raises StoreUnavailable."""
    return insist(lambda: Store.open(target), stop, watcher.trouble, tries=_OPENING)


def run(
    store: Store,
    request: RunRequest,
    make_pool: MakePool,
    watcher: RunWatcher,
    stop: Stop,
    make_checker: Callable[[], Workers] = local_checker,
    make_analyst: Callable[[], Workers] = local_analyst,
) -> RunReport:
    """Play rated games: the bot that needs one most, against bots of about its strength.

    Submissions are checked beside the games; a run with an end first checks those that wait, and
    one without end goes on checking while no season is open. Analyses are done beside the games
    with what these leave of the CPU; a run with an end then does those that still wait.
    """
    first = not request.forever
    if not request.forever or request.season is not None:
        season = _playable(store, request, watcher, stop)
        with (
            analysing(store, make_analyst, watcher, stop, to_end=first),
            validating(store, make_checker, watcher, stop, first=first),
        ):
            return _run(store, season, request, make_pool, watcher, stop)
    with (
        analysing(store, make_analyst, watcher, stop, to_end=False),
        validating(store, make_checker, watcher, stop, first=False),
    ):
        while (found := _await_season(store, watcher, stop)) is not None:
            report = _run(store, found, request, make_pool, watcher, stop)
            if report.ended is not RunEnd.CLOSED:
                return report
    return run_report("none", RunSummary(ended=RunEnd.STOPPED))


def _await_season(store: Store, watcher: RunWatcher, stop: Stop) -> StoredSeason | None:
    """Wait until a season is open; the newest one, or None at a request to stop."""
    waits = False
    with stop.on_signals():
        while stop.wish is StopRequest.GO_ON:
            opened = open_seasons(insist(store.seasons.all, stop, watcher.trouble))
            if len(opened) > 1:
                others = ", ".join(one.name for one in opened[:-1])
                watcher.trouble(
                    f"this run plays {opened[-1].name}, the newest season; {others} too, with "
                    "another `ladder run --season NAME`"
                )
            if opened:
                return opened[-1]
            if not waits:
                watcher.trouble("no season is open; waiting for one: `ladder season NAME`")
            waits = True
            stop.pause(_IDLE_S)
    return None


def _playable(store: Store, request: RunRequest, watcher: RunWatcher, stop: Stop) -> StoredSeason:
    """The season to be played. Raises for one that gets no games of a run."""
    season = insist(lambda: find_season(store, request.season), stop, watcher.trouble)
    if season.closed_at is not None:
        raise SeasonClosed(f"the season {season.name!r} is closed and gets no new games")
    if season.tournament is not None:
        raise UserError(f"season {season.name!r} is a tournament's: continue that instead")
    return season


def _run(
    store: Store,
    season: StoredSeason,
    request: RunRequest,
    make_pool: MakePool,
    watcher: RunWatcher,
    stop: Stop,
) -> RunReport:
    def insisted(call: Callable[[], _T]) -> _T:
        return insist(call, stop, watcher.trouble)

    until = UntilSettled(store, season, request.confidence)
    expected = None
    if request.games is not None:
        goal = RunGoal(games=request.games)
    elif request.forever:
        goal = RunGoal(wait_for_work=True)
    elif (order := insisted(until.report)).settled:
        goal = RunGoal(games=0)
    else:
        goal, expected = RunGoal(settled=until), order
    source = Matchmaker(store, season)
    summary = play(store, season, source, goal, make_pool, watcher, stop, expected)
    open_end = request.games is None and not request.forever
    return run_report(season.name, summary, insisted(until.report) if open_end else None)


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
    if games := insist(lambda: take_back(store, season), stop, watcher.trouble):
        watcher.taken_back(games)
    pool = make_pool(season.season, watcher)
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


def run_report(season: str, summary: RunSummary, order: OrderReport | None = None) -> RunReport:
    """The report of a run for people and programs; without a season it is "none"."""
    return RunReport(
        season=season,
        ended=summary.ended,
        accepted=summary.accepted,
        duplicates=summary.duplicates,
        refused=summary.refused,
        void=summary.void,
        handed_back=summary.handed_back,
        disabled=tuple(summary.disabled),
        trouble=summary.trouble,
        order=order,
    )

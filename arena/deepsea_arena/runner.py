"""The runner: leases jobs, gives them to workers, renews leases, and reports the outcomes.

Invariants: whatever process dies at any moment, a job ends in exactly one result or in quarantine;
while the store is unavailable results wait and are reported later (retry); trouble of this machine
counts against no job and no bot; a runner that stops gives its leases back. Several runners may
work on one store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from itertools import count
from typing import TypeVar

from deepsea_arena.background_work import in_background
from deepsea_arena.handlers import ANALYSES, CHECKS, COMPARISONS, STEPS
from deepsea_arena.lease_owner import own_name, take_back
from deepsea_arena.run_report import (
    RunEnd,
    RunReport,
    RunWatcher,
    Stop,
    StopRequest,
    nth_pause,
    retry_until_available,
)
from deepsea_arena.seasons import find_season, open_seasons, own_cgroups
from deepsea_arena.standings import OrderReport, UntilSettled
from deepsea_arena.tasks import (
    FinishedGame,
    HostTrouble,
    Outcome,
    Times,
    VoidOutcome,
    game_seconds,
)
from deepsea_arena.tournaments import for_runner
from deepsea_arena.workers import JobWorkers, MakePool
from deepsea_ladder.accounts import AuditKind
from deepsea_ladder.errors import (
    LadderError,
    PairingError,
    SeasonClosed,
    SeasonPaused,
    StoreUnavailable,
)
from deepsea_ladder.matchmaker import Matchmaker
from deepsea_ladder.model import (
    Job,
    ReceiptStatus,
    Rotation,
    SeatLog,
    StoredSeason,
    milliseconds,
)
from deepsea_ladder.standings import CONFIDENCE
from deepsea_ladder.store import Store
from deepsea_referee.clock import PULSE, SystemClock
from deepsea_referee.errors import UserError

_T = TypeVar("_T")
Source = Callable[[int, int], Sequence[Rotation]]
"""The source of new games: given the number of the season's last job and how many games are
wanted at least, rotations of line-ups. None at all means that there is nothing to play now; a
`PairingError` says why. The same store and number should give the same rotations."""
_IDLE_S = 5.0
"""The wait for a season."""
_OPENING = 8
"""The number of tries to open a store that is busy: within about a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGoal:
    games: int | None = None
    """The number of results; None is no limit."""
    settled: Callable[[], bool] | None = None
    """Called after every result; True starts no more games."""
    until: int | None = None
    """The time after which no games are started, in milliseconds since 1970."""
    wait_for_work: bool = False
    """True to wait when there is nothing to play, or the goal is reached, instead of ending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerSettings(Times):
    """Timeouts and limits of a run; times in seconds."""

    game: float | None = None
    """Timeout of a game: after it the game is void, and its worker is killed. None: by the season's
    clock."""
    max_failures_in_a_row: int = 50
    """The number of games in a row without a result after which the run ends."""
    host_pause: float = 1.0
    host_troubles: int = 6
    """The number of times in a row that it cannot, after which the run ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """The request of a run; without a number of games, until the order is settled."""

    season: str | None = None
    games: int | None = None
    forever: bool = False
    """True to wait for bots if there are too few, and play without end, or with an end wait
    there until there is more to play."""
    settled: bool = False
    """True to play until the order is settled, as a run does that has no other end."""
    until: datetime | None = None
    """When to end."""
    confidence: float = CONFIDENCE
    """The confidence for the order of two neighbours."""


class RunStopped(Exception):
    """A run that is part of something larger was stopped."""

    def __init__(self, report: RunReport) -> None:
        super().__init__("stopped")
        self.report = report


def no_source(number: int, wanted: int) -> Sequence[Rotation]:
    """For tournaments, whose jobs are all there from the start."""
    return ()


@dataclass
class Runner:
    """One run. `owner` names its leases and must be unique; `clock` counts seconds."""

    store: Store
    season: StoredSeason
    pool: JobWorkers
    _: KW_ONLY
    owner: str
    clock: Callable[[], float]
    stop: Stop
    watcher: RunWatcher
    source: Source = no_source
    goal: RunGoal = field(default_factory=RunGoal)
    settings: RunnerSettings = field(default_factory=RunnerSettings)
    gives_way: Callable[[], bool] = lambda: False

    def __post_init__(self) -> None:
        self._gives_way = False  # to a tournament
        self._playing: dict[str, tuple[Job, float]] = {}
        """Jobs by their games' ids, and when they time out."""
        self._renewed = self._paused_until = self.clock()
        self._settled = self._closed = self._paused = False
        self._waits = False  # for more to play than the goal asked for
        self._unplayable = ""  # why there are no games, as was reported
        self._failures_in_a_row = 0  # games in a row without a result
        self._troubles = 0  # in a row, of this machine
        self._damaged: list[str] = []  # the bots without games, as was said
        self._newest = self.season.name  # the season that the pages show, as far as it was said
        self._report = RunReport(season=self.season.name)

    def run(self) -> RunReport:
        """Play until the goal is reached, nothing is left to play, or `stop` is requested."""
        try:
            self._say_damaged()
            self._report.ended = self._loop()
        finally:
            self.pool.close()
            try:
                self._report.handed_back = self.store.jobs.hand_back(self.owner)
                self.store.tasks.end_rest(self.owner)
            except StoreUnavailable as error:
                self.watcher.trouble(f"{error}; leases were not handed back and will run out")
        return self._report

    def _loop(self) -> RunEnd:
        while True:
            if self.stop.requested is StopRequest.HAND_BACK:
                return RunEnd.STOPPED
            if self._failures_in_a_row >= self.settings.max_failures_in_a_row:
                return RunEnd.TOO_MANY_FAILURES
            anybody = self._fill() if self.stop.requested is StopRequest.GO_ON else True
            if self._playing:
                self._take_in(self.pool.wait(self._until_due(), self.stop))
                self._look_after()
            elif (ended := self._end()) is not None:
                return ended
            elif not self._idle(anybody=anybody):
                return RunEnd.NOTHING_LEFT

    def _end(self) -> RunEnd | None:
        """The reason for which the run ends now that no game is played; None if it goes on."""
        if self.stop.requested is not StopRequest.GO_ON:
            return RunEnd.STOPPED
        if self._wanted() == 0 or (self._is_over() and not self.goal.wait_for_work):
            return RunEnd.GOAL
        if self._closed:
            return RunEnd.CLOSED
        if self._gives_way or self._retry(self.gives_way):
            return RunEnd.TOURNAMENT
        return RunEnd.HOST if self._gave_up() else None

    def _idle(self, *, anybody: bool) -> bool:
        """Wait until a game may be started; returns whether that may happen."""
        season, idle = f"season {self.season.name}", self.settings.idle
        if self._is_over():
            why = "its order is settled" if self._settled else "its time is over"
            self._await_more(f"{season} is not played on: {why}")
        elif self._paused:
            self._rest(f"{season} is paused", idle)
        elif (pause := self._paused_until - self.clock()) > 0:
            self._rest(self._report.trouble, pause)
        elif not anybody:  # the pool knows for how long to wait for somebody
            self._note_rest("no worker is free")
            self.pool.wait(self._until_due(), self.stop)
            self._look_after()
        elif self._retry(lambda: self.store.queue.leased(self.season)):
            self._rest(f"the last games of {season} are played by other runs", idle)
        elif self.goal.wait_for_work:
            self._rest(self._unplayable or f"{season} has no games to play", idle)
        else:
            return False
        return True

    def _rest(self, words: str, seconds: float) -> None:
        """Pause, and note why."""
        self._note_rest(words)
        self.stop.pause(min(seconds, self.settings.beat))

    def _note_rest(self, words: str) -> None:
        """Note why no game is played: without a lease this run would count as lost."""
        self._retry(lambda: self.store.tasks.rest(self.owner, words, self.settings.lease))

    def _is_over(self) -> bool:
        """True if the order is settled, or the time has come."""
        until = self.goal.until
        return self._settled or (until is not None and self._retry(self.store.now) >= until)

    def _await_more(self, words: str) -> None:
        """Wait, and look whether somebody has unsettled the order or closed the season."""
        if not self._waits:
            self.watcher.trouble(words)
        self._waits = True
        self._rest(words, self.settings.idle)
        if self.goal.settled is not None:
            self._settled = self._retry(self.goal.settled)
        season = self._retry(lambda: self.store.seasons.get(self.season.name))
        self._closed = season.closed_at is not None
        self._waits = self._is_over()

    def _wanted(self) -> int | None:
        """The number of games that may still be started for the goal; None is no limit."""
        if self.goal.games is None:
            return None
        return max(0, self.goal.games - self._report.accepted - len(self._playing))

    def _fill(self) -> bool:
        """Give jobs to free workers; returns whether any was free."""
        workers = self.pool.free()
        ends = self._closed or self._gives_way or self._gave_up() or self._is_over()
        free = [] if ends or self.clock() < self._paused_until else workers[: self._wanted()]
        if not free:
            return bool(workers)
        jobs = self._claim(free)
        if self._paused:
            return True
        if len(jobs) < len(free) and self._pair(len(free) - len(jobs)):
            jobs += self._claim(free[len(jobs) :])
        started = [self._start(job) for job in jobs]
        return all(started)

    def _start(self, job: Job) -> bool:
        """Give a job to a worker, or back if the worker that was free has left."""
        if is_started := self.pool.start(job):
            self._playing[job.game_id] = (job, self.clock() + self._limit(job))
        else:
            self._hand_back(job, "its worker has left")
        return is_started

    def _claim(self, prefer: Sequence[int | None]) -> list[Job]:
        jobs, tries = self.store.jobs, count()
        before = self._paused

        def claim() -> list[Job]:
            if next(tries):  # an earlier try was perhaps stored, and its answer lost
                jobs.hand_back(self.owner, besides=[job for job, _ in self._playing.values()])
            return jobs.claim(self.season, self.owner, self.settings.lease, prefer)

        try:
            found = self._retry(claim)
            self._paused = False
        except SeasonPaused:
            found, self._paused = [], True
        if self._paused != before:
            state = "paused: no game is started" if self._paused else "resumed"
            self.watcher.trouble(f"season {self.season.name} is {state}")
        return found

    def _pair(self, wanted: int) -> bool:
        """Get more jobs from the source; returns whether to lease again."""
        number = self._retry(lambda: self.store.queue.last_number(self.season))
        try:
            rotations = self._retry(lambda: self.source(number, wanted))
        except PairingError as error:
            # Games of others may go on, and somebody may submit a bot.
            if not self._playing and not self.goal.wait_for_work:
                raise
            if not self._playing and not self._unplayable:
                self._unplayable = f"season {self.season.name} waits for bots: {error}"
                self.watcher.trouble(self._unplayable)
            return False
        self._unplayable = ""
        try:
            # If another runner was quicker, its jobs are there instead.
            self._retry(lambda: self.store.jobs.add(self.season, rotations, after=number))
        except SeasonClosed:
            self._closed = True
            return False
        return bool(rotations)

    def _take_in(self, outcomes: Sequence[tuple[Job, Outcome]]) -> None:
        for job, outcome in outcomes:
            match outcome:
                case FinishedGame() as game:
                    self._store_result(job, game)
                case VoidOutcome(reason, seat, shortage):
                    self._fail(job, reason, seat, shortage)
                case HostTrouble(reason):
                    self._set_aside(job, reason)
            # Only now: whatever is left here is handed back at the end.
            self._playing.pop(job.game_id, None)

    def _store_result(self, job: Job, played: FinishedGame) -> None:
        receipt = self._retry(lambda: self.store.games.report(job, played.record, played.machine))
        match receipt.status:
            case ReceiptStatus.ACCEPTED:
                self._failures_in_a_row = self._troubles = 0
                self._report.accepted += 1
                self._report.suspended += receipt.suspended
                if played.logs and receipt.seq is not None:
                    self._keep_logs(receipt.seq, played.logs)
                if self.goal.settled is not None:
                    self._settled = self._retry(self.goal.settled)
            case ReceiptStatus.DUPLICATE:
                self._report.duplicates += 1
            case ReceiptStatus.REFUSED:
                self._failures_in_a_row += 1
                self._report.refused += 1
                if played.machine and not receipt.is_late:
                    self._dismiss(played.machine, f"its result of {job.game_id} was refused")
        self.watcher.finished(job, receipt)

    def _dismiss(self, machine: str, why: str) -> None:
        if self.pool.dismiss(machine, why):
            self.watcher.trouble(f"{machine} is used no more: {why}")

    def _keep_logs(self, seq: int, logs: Sequence[SeatLog]) -> None:
        try:
            self.store.logs.add(seq, logs)
        except LadderError as error:  # the result is stored, and counts for more
            self.watcher.trouble(f"{error}; the output of bots in game {seq} is not kept")

    def _fail(self, job: Job, reason: str, seat: int | None, shortage: AuditKind | None) -> None:
        if shortage is not None:
            self._retry(lambda: self.store.audit.note_shortage(shortage, job.game_id, reason))
        receipt = self._retry(lambda: self.store.jobs.fail(job, reason, seat))
        self._failures_in_a_row += 1
        self._report.void += 1
        self._report.suspended += receipt.suspended
        self.watcher.failed(job, reason)
        for name in receipt.suspended:
            self.watcher.trouble(f"{name} is suspended")

    def _set_aside(self, job: Job, reason: str) -> None:
        """Give a job back that this machine cannot play now, and start no other for a while."""
        self._hand_back(job, reason)
        if (now := self.clock()) < self._paused_until:
            return  # another worker met the same trouble
        pause = nth_pause(self.settings.host_pause, self._troubles)
        self._paused_until = now + pause
        self._troubles += 1
        if reason != self._report.trouble:
            seconds = f"{pause:g} second" if pause == 1 else f"{pause:g} seconds"
            words = f"{reason}; no game counts as failed, trying again in {seconds}"
            self.watcher.trouble(words)
        self._report.trouble = reason

    def _hand_back(self, job: Job, reason: str) -> None:
        self._retry(lambda: self.store.jobs.hand_back(self.owner, job, reason))

    def _gave_up(self) -> bool:
        """True if this machine could not play for so long that the run ends."""
        return self._troubles >= self.settings.host_troubles and not self.goal.wait_for_work

    def _limit(self, job: Job) -> float:
        limit = self.settings.game
        return game_seconds(job.season, len(job.seats)) if limit is None else limit

    def _look_after(self) -> None:
        """Heartbeat: renew the leases when it is due, and void games that time out."""
        now = self.clock()
        for job, due in list(self._playing.values()):
            if self.pool.waits(job):
                self._playing[job.game_id] = (job, now + self._limit(job))
            elif now >= due:
                self.pool.abandon(job)
                reason = f"no result after {self._limit(job):g} seconds"
                self._take_in([(job, VoidOutcome(reason))])
        if now - self._renewed >= self.settings.beat:
            held = [job for job, _ in self._playing.values()]
            self._retry(lambda: self.store.jobs.renew(held, self.settings.lease))
            self._renewed = now
            self._say_newest()
            self._say_damaged()
            self._gives_way = self._retry(self.gives_way)

    def _say_newest(self) -> None:
        """Say so when pages show another season than the one that is played."""
        if self.season.tournament is not None:
            return
        opened = open_seasons(self._retry(self.store.seasons.all))
        newest = opened[-1].name if opened else self._newest
        if newest not in (self._newest, self.season.name):
            self.watcher.trouble(
                f"season {newest} is open and is what pages show, but this run plays "
                f"{self.season.name} until that is closed: `ladder close {self.season.name}`"
            )
        self._newest = newest

    def _say_damaged(self) -> None:
        """Say which bots get no games, since they cannot be read."""
        damage = self._retry(self.store.bots.damages)
        for line in damage if damage != self._damaged else ():
            self.watcher.trouble(f"{line}; that bot gets no games")
        self._damaged = damage

    def _until_due(self) -> float:
        """The time until the next heartbeat or timeout."""
        due = [due for _, due in self._playing.values()]
        due.append(self._renewed + self.settings.beat)
        return max(0.0, min(due) - self.clock())

    def _retry(self, call: Callable[[], _T]) -> _T:
        """Call the store, with retries while it is unavailable; every call may be repeated."""
        return retry_until_available(call, self.stop, self.watcher.trouble)


def open_ladder(target: str, watcher: RunWatcher, stop: Stop) -> Store:
    """Open a ladder for a run; waits a while if it is busy, and then raises StoreUnavailable."""
    return retry_until_available(lambda: Store.open(target), stop, watcher.trouble, tries=_OPENING)


def run(
    store: Store,
    request: RunRequest,
    make_pool: MakePool,
    watcher: RunWatcher,
    stop: Stop,
    play_tournament: Callable[[StoredSeason], bool] | None = None,
) -> RunReport:
    """Play rated games: always the bot whose rating is least certain, against bots of its strength.

    Submissions are checked beside the games; a run with an end first checks those that wait, and
    one without end goes on checking while no season is open. Analyses are done beside the games
    with what these leave of the CPU; a run with an end then does those that still wait. Games of
    people are played and new versions compared beside the games as long as these go on.

    play_tournament  plays one that was begun from afar, before all else; returns whether to try
                     again if it is still open then. A run with an end or of a given season plays
                     none.
    """
    to_end, season = not request.forever, None
    if to_end or request.season is not None:
        season = _playable(store, request, watcher, stop)
    _take_back(store, watcher, stop)
    groups = own_cgroups()
    retry_until_available(lambda: store.audit.note_runner(groups), stop, watcher.trouble)
    with (
        in_background(ANALYSES, store, watcher, stop, to_end=to_end),
        in_background(CHECKS, store, watcher, stop, first=to_end),
        in_background(STEPS, store, watcher, stop),
        in_background(COMPARISONS, store, watcher, stop),
    ):
        if season is not None:
            return _run(store, season, request, make_pool, watcher, stop)
        given_up: set[int] = set()

        def tournament() -> StoredSeason | None:
            return None if play_tournament is None else for_runner(store, given_up)

        def gives_way() -> bool:
            return tournament() is not None

        before = ""
        while (found := _await_season(store, watcher, stop, tournament, before)) is not None:
            before = found.name
            if found.tournament is None or play_tournament is None:
                report = _run(store, found, request, make_pool, watcher, stop, gives_way)
                if report.ended not in (RunEnd.CLOSED, RunEnd.TOURNAMENT):
                    return report
            elif not play_tournament(found):
                given_up.add(found.id)
        with suppress(StoreUnavailable):
            store.tasks.end_rest(own_name())
    return RunReport()


def _await_season(
    store: Store,
    watcher: RunWatcher,
    stop: Stop,
    tournament: Callable[[], StoredSeason | None],
    before: str,
) -> StoredSeason | None:
    """Wait until a season is open; a tournament's, the newest one, or None at a request to stop.

    before  the season that this run played last, if any: another one is named
    """
    waits, named = False, list[str]()
    with stop.on_signals():
        while stop.requested is StopRequest.GO_ON:
            opened = open_seasons(retry_until_available(store.seasons.all, stop, watcher.trouble))
            if (first := retry_until_available(tournament, stop, watcher.trouble)) is not None:
                opened = [first]
            damage = retry_until_available(store.seasons.damages, stop, watcher.trouble)
            for line in damage if damage != named else ():
                watcher.trouble(f"{line}; that season is not played")
            named = damage
            if len(opened) > 1:
                others = ", ".join(one.name for one in opened[:-1])
                watcher.trouble(
                    f"this run plays {opened[-1].name}, the newest season; {others} too, with "
                    "another `ladder run --season NAME`"
                )
            elif opened and (waits or before not in ("", opened[-1].name)):
                after = f", after {before}" if before else ""
                watcher.trouble(f"this run plays season {opened[-1].name} now{after}")
            if opened:
                return opened[-1]
            if not waits:
                watcher.trouble("no season is open; waiting for one: `ladder season NAME`")
            waits = True
            retry_until_available(
                lambda: store.tasks.rest(own_name(), "no season is open", Times().lease),
                stop,
                watcher.trouble,
            )
            stop.pause(_IDLE_S)
    return None


def _playable(store: Store, request: RunRequest, watcher: RunWatcher, stop: Stop) -> StoredSeason:
    """The season to be played. Raises for one that gets no games of a run."""
    season = retry_until_available(
        lambda: find_season(store, request.season), stop, watcher.trouble
    )
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
    gives_way: Callable[[], bool] = lambda: False,
) -> RunReport:
    def retried(call: Callable[[], _T]) -> _T:
        return retry_until_available(call, stop, watcher.trouble)

    until = UntilSettled(store, season, request.confidence)
    expected = None
    until_ms = None if request.until is None else milliseconds(request.until)
    if request.games is not None:
        goal = RunGoal(games=request.games)
    elif request.forever:
        settled = (lambda: until.report().settled) if request.settled else None
        goal = RunGoal(settled=settled, until=until_ms, wait_for_work=True)
    elif until_ms is not None:
        goal = RunGoal(until=until_ms)
    elif (order := retried(until.report)).settled:
        goal = RunGoal(games=0)
    else:
        goal, expected = RunGoal(settled=until), order
    source = Matchmaker(store, season)
    report = play(store, season, source, goal, make_pool, watcher, stop, expected, gives_way)
    if request.games is None and not request.forever and until_ms is None:
        report.order = retried(until.report)
    return report


def _take_back(store: Store, watcher: RunWatcher, stop: Stop) -> None:
    if tasks := retry_until_available(lambda: take_back(store), stop, watcher.trouble):
        watcher.taken_back(tasks)


def play(
    store: Store,
    season: StoredSeason,
    source: Source,
    goal: RunGoal,
    make_pool: MakePool,
    watcher: RunWatcher,
    stop: Stop,
    expected: OrderReport | None = None,
    gives_way: Callable[[], bool] = lambda: False,
) -> RunReport:
    """Play queued games and those of the source, until the goal is reached or `stop` is requested.

    Ctrl-C and SIGTERM request a stop meanwhile, so call this in the main thread.
    """
    _take_back(store, watcher, stop)
    pool = make_pool(season.settings, watcher)
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
        watcher=watcher,
        gives_way=gives_way,
    )
    with PULSE.beating(), stop.on_signals():
        return runner.run()

"""The runner: leases jobs, gives them to workers, renews leases, and reports the outcomes.

Start reading at `run`, which plays a ladder's seasons, and `Runner`, which plays one season.

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
"""The source of new games.

It is called with the number of the season's last job and the least number of games, and returns
rotations of line-ups. An empty result means that there is nothing to play now; a `PairingError` has
the reason. The same store and number should give the same rotations.
"""
_IDLE_S = 5.0
"""Pause between two looks for an open season."""
_OPENING_TRIES = 8
"""Number of tries to open a busy store. They take about a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGoal:
    """The end of a run: whatever comes first of these."""

    games: int | None = None
    """Number of games with a result after which the run ends; None is no limit."""
    settled: Callable[[], bool] | None = None
    """Called after every result; when it returns True, no more games are started."""
    until: int | None = None
    """The time after which no games are started, in milliseconds since 1970."""
    wait_for_work: bool = False
    """True to wait for more games, instead of ending, when there is nothing to play."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerSettings(Times):
    """Timeouts and limits of a run; times in seconds."""

    game: float | None = None
    """Timeout of a game, after which it is void and its worker is killed.

    None takes a timeout that follows from the season's clock.
    """
    max_failures_in_a_row: int = 50
    """Number of games in a row without a result after which the run ends."""
    host_pause: float = 1.0
    """First pause after trouble of this machine; each further one is twice as long."""
    host_troubles: int = 6
    """Number of troubles of this machine in a row after which the run ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """The request of a run. Without a number of games it lasts until the order is settled."""

    season: str | None = None
    """The season to play; None takes the open one."""
    games: int | None = None
    """Number of games with a result."""
    forever: bool = False
    """True to go on after the end: the run waits there until there is more to play."""
    settled: bool = False
    """True to play until the order is settled, as a run without another end does."""
    until: datetime | None = None
    """The time after which no games are started."""
    confidence: float = CONFIDENCE
    """The confidence with which the order of two neighbours has to be settled."""


class RunStopped(Exception):
    """A request to stop ended the run of a tournament.

    `tournament_run` raises it; the games that were leased wait again.
    """

    def __init__(self, report: RunReport) -> None:
        super().__init__("stopped")
        self.report = report


def no_source(last_number: int, games: int) -> Sequence[Rotation]:
    """Return no games: the source for tournaments, whose jobs are all in the store."""
    return ()


@dataclass
class Runner:
    """A run that plays the jobs of one season.

    owner      the name of its leases, which no other run has
    clock      returns seconds
    gives_way  returns True when a tournament has to be played first
    """

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
        """Set the state of a run that has not begun."""
        self._gives_way = False  # to a tournament
        self._playing: dict[str, tuple[Job, float]] = {}
        """The jobs that are being played and the times of their timeouts, by game."""
        self._renewed_s = self._paused_until_s = self.clock()
        self._settled = self._closed = self._paused = False
        self._awaits_more = False  # after the goal, with `wait_for_work`
        self._reported_unplayable = ""  # the last reported reason why there are no games
        self._failures_in_a_row = 0  # games without a result
        self._troubles_in_a_row = 0  # of this machine
        self._reported_damage: list[str] = []
        self._reported_newest = self.season.name  # the newest season
        self._report = RunReport(season=self.season.name)

    def run(self) -> RunReport:
        """Play until the goal is reached, nothing is left to play, or a stop is requested.

        At the end the workers are stopped, and the leases of games that are not finished are given
        back.
        """
        try:
            self._report_damage()
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
        """Start games and take in their outcomes until the run ends; return why it ends."""
        while True:
            if self.stop.requested is StopRequest.HAND_BACK:
                return RunEnd.STOPPED
            if self._failures_in_a_row >= self.settings.max_failures_in_a_row:
                return RunEnd.TOO_MANY_FAILURES
            has_free_worker = True
            if self.stop.requested is StopRequest.GO_ON:
                has_free_worker = self._fill()
            if self._playing:
                self._take_in(self.pool.wait(self._seconds_until_due(), self.stop))
                self._look_after()
                continue
            run_end = self._end_when_idle()
            if run_end is not None:
                return run_end
            if not self._idle(has_free_worker=has_free_worker):
                return RunEnd.NOTHING_LEFT

    def _end_when_idle(self) -> RunEnd | None:
        """Return why the run ends now that it plays no game; None if it goes on."""
        if self.stop.requested is not StopRequest.GO_ON:
            return RunEnd.STOPPED
        if self._games_to_start() == 0 or (self._is_over() and not self.goal.wait_for_work):
            return RunEnd.GOAL
        if self._closed:
            return RunEnd.CLOSED
        if self._gives_way or self._retry(self.gives_way):
            return RunEnd.TOURNAMENT
        return RunEnd.HOST if self._gave_up() else None

    def _idle(self, *, has_free_worker: bool) -> bool:
        """Wait a while for a game to play, and note why none is played.

        Return False if no game can come any more.
        """
        season, pause_s = f"season {self.season.name}", self.settings.idle
        if self._is_over():
            reason = "its order is settled" if self._settled else "its time is over"
            self._await_more(f"{season} is not played on: {reason}")
        elif self._paused:
            self._rest(f"{season} is paused", pause_s)
        elif (host_pause_s := self._paused_until_s - self.clock()) > 0:
            self._rest(self._report.trouble, host_pause_s)
        elif not has_free_worker:  # the pool wakes this run when a worker comes
            self._note_rest("no worker is free")
            self.pool.wait(self._seconds_until_due(), self.stop)
            self._look_after()
        elif self._retry(lambda: self.store.queue.leased(self.season)):
            self._rest(f"the last games of {season} are played by other runs", pause_s)
        elif self.goal.wait_for_work:
            self._rest(self._reported_unplayable or f"{season} has no games to play", pause_s)
        else:
            return False
        return True

    def _rest(self, reason: str, seconds: float) -> None:
        """Pause, and note why; `seconds` is the longest pause."""
        self._note_rest(reason)
        self.stop.pause(min(seconds, self.settings.beat))

    def _note_rest(self, reason: str) -> None:
        """Store why no game is played. Without it a run that has no lease would count as dead."""
        self._retry(lambda: self.store.tasks.rest(self.owner, reason, self.settings.lease))

    def _is_over(self) -> bool:
        """Return True if the order is settled, or the time of the goal is over."""
        until = self.goal.until
        return self._settled or (until is not None and self._retry(self.store.now) >= until)

    def _await_more(self, reason: str) -> None:
        """Wait a while after the goal, and look whether there is more to play.

        New games may have unsettled the order, and somebody may have closed the season.
        """
        if not self._awaits_more:
            self.watcher.trouble(reason)
        self._awaits_more = True
        self._rest(reason, self.settings.idle)
        if self.goal.settled is not None:
            self._settled = self._retry(self.goal.settled)
        season = self._retry(lambda: self.store.seasons.get(self.season.name))
        self._closed = season.closed_at is not None
        self._awaits_more = self._is_over()

    def _games_to_start(self) -> int | None:
        """Return how many games may still be started for the goal; None is no limit."""
        if self.goal.games is None:
            return None
        return max(0, self.goal.games - self._report.accepted - len(self._playing))

    def _fill(self) -> bool:
        """Give jobs to free workers. Return False if no worker was free."""
        workers = self.pool.free()
        is_ending = self._closed or self._gives_way or self._gave_up() or self._is_over()
        may_start = not is_ending and self.clock() >= self._paused_until_s
        free = workers[: self._games_to_start()] if may_start else []
        if not free:
            return bool(workers)
        jobs = self._claim(free)
        if self._paused:
            return True
        if len(jobs) < len(free) and self._add_jobs(len(free) - len(jobs)):
            jobs += self._claim(free[len(jobs) :])
        started = [self._start(job) for job in jobs]
        return all(started)

    def _start(self, job: Job) -> bool:
        """Give a job to a worker. If the worker has left, give the job back, and return False."""
        if is_started := self.pool.start(job):
            self._playing[job.game_id] = (job, self.clock() + self._timeout_s(job))
        else:
            self._hand_back(job, "its worker has left")
        return is_started

    def _claim(self, prefer: Sequence[int | None]) -> list[Job]:
        """Lease a job for each of these workers, as far as there are any.

        `prefer` has the rotation of each worker's last job, whose bots it still runs. Report when
        the season was paused, or resumed.
        """
        jobs = self.store.jobs
        was_paused = self._paused
        try_numbers = count()

        def claim() -> list[Job]:
            is_retry = next(try_numbers) > 0
            if is_retry:  # an earlier try was perhaps stored, and its answer lost
                jobs.hand_back(self.owner, besides=[job for job, _ in self._playing.values()])
            return jobs.claim(self.season, self.owner, self.settings.lease, prefer)

        try:
            leased = self._retry(claim)
            self._paused = False
        except SeasonPaused:
            leased, self._paused = [], True
        if self._paused != was_paused:
            state = "paused: no game is started" if self._paused else "resumed"
            self.watcher.trouble(f"season {self.season.name} is {state}")
        return leased

    def _add_jobs(self, games: int) -> bool:
        """Store new jobs from the source, for at least this number of games.

        Return True if there may be jobs to lease now, of this run or of another that was quicker.
        """
        last_number = self._retry(lambda: self.store.queue.last_number(self.season))
        try:
            rotations = self._retry(lambda: self.source(last_number, games))
        except PairingError as error:
            # Games of others may go on, and somebody may submit a bot.
            if not self._playing and not self.goal.wait_for_work:
                raise
            if not self._playing and not self._reported_unplayable:
                self._reported_unplayable = f"season {self.season.name} waits for bots: {error}"
                self.watcher.trouble(self._reported_unplayable)
            return False
        self._reported_unplayable = ""
        try:
            # If another run was quicker, its jobs are stored instead.
            self._retry(lambda: self.store.jobs.add(self.season, rotations, after=last_number))
        except SeasonClosed:
            self._closed = True
            return False
        return bool(rotations)

    def _take_in(self, outcomes: Sequence[tuple[Job, Outcome]]) -> None:
        """Store the outcomes of jobs, and forget these jobs."""
        for job, outcome in outcomes:
            match outcome:
                case FinishedGame() as game:
                    self._store_result(job, game)
                case VoidOutcome(reason, seat, shortage):
                    self._fail(job, reason, seat, shortage)
                case HostTrouble(reason):
                    self._set_aside(job, reason)
            # Only after it was stored: jobs that are still listed are handed back at the end.
            self._playing.pop(job.game_id, None)

    def _store_result(self, job: Job, game: FinishedGame) -> None:
        """Store the result of a game, and take in the receipt.

        A machine whose result is refused is used no more, unless the result only came too late.
        """
        receipt = self._retry(lambda: self.store.games.report(job, game.record, game.machine))
        match receipt.status:
            case ReceiptStatus.ACCEPTED:
                self._failures_in_a_row = self._troubles_in_a_row = 0
                self._report.accepted += 1
                self._report.suspended += receipt.suspended
                if game.logs and receipt.seq is not None:
                    self._keep_logs(receipt.seq, game.logs)
                if self.goal.settled is not None:
                    self._settled = self._retry(self.goal.settled)
            case ReceiptStatus.DUPLICATE:
                self._report.duplicates += 1
            case ReceiptStatus.REFUSED:
                self._failures_in_a_row += 1
                self._report.refused += 1
                if game.machine and not receipt.is_late:
                    self._dismiss(game.machine, f"its result of {job.game_id} was refused")
        self.watcher.finished(job, receipt)

    def _dismiss(self, machine: str, why: str) -> None:
        """Stop using a machine, and report why."""
        if self.pool.dismiss(machine, why):
            self.watcher.trouble(f"{machine} is used no more: {why}")

    def _keep_logs(self, seq: int, logs: Sequence[SeatLog]) -> None:
        """Store the logs of a game.

        A failure is only reported: the result is stored already, and counts for more.
        """
        try:
            self.store.logs.add(seq, logs)
        except LadderError as error:
            self.watcher.trouble(f"{error}; the output of bots in game {seq} is not kept")

    def _fail(self, job: Job, reason: str, seat: int | None, shortage: AuditKind | None) -> None:
        """Store that a game was void, and report it with the bots that were suspended for it.

        seat      the seat that could not be timed, if that was the reason
        shortage  the kind of note for the operator if the machine lacked something
        """
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
        """Give back a job that this machine cannot play now, and start no game for a while."""
        self._hand_back(job, reason)
        if (now_s := self.clock()) < self._paused_until_s:
            return  # another worker met the same trouble
        pause_s = nth_pause(self.settings.host_pause, self._troubles_in_a_row)
        self._paused_until_s = now_s + pause_s
        self._troubles_in_a_row += 1
        if reason != self._report.trouble:
            seconds = f"{pause_s:g} second" if pause_s == 1 else f"{pause_s:g} seconds"
            message = f"{reason}; no game counts as failed, trying again in {seconds}"
            self.watcher.trouble(message)
        self._report.trouble = reason

    def _hand_back(self, job: Job, reason: str) -> None:
        """Give a job back to the queue, with the reason."""
        self._retry(lambda: self.store.jobs.hand_back(self.owner, job, reason))

    def _gave_up(self) -> bool:
        """Return True if this machine could not play for so long that the run ends."""
        return (
            self._troubles_in_a_row >= self.settings.host_troubles and not self.goal.wait_for_work
        )

    def _timeout_s(self, job: Job) -> float:
        """Return the timeout of a job's game, in seconds."""
        timeout_s = self.settings.game
        return game_seconds(job.season, len(job.seats)) if timeout_s is None else timeout_s

    def _look_after(self) -> None:
        """Void games that take too long, and renew the leases when it is time.

        A job that waits behind another one at its worker has not begun, so that its timeout starts
        anew.
        """
        now_s = self.clock()
        for job, due_s in list(self._playing.values()):
            if self.pool.waits(job):
                self._playing[job.game_id] = (job, now_s + self._timeout_s(job))
            elif now_s >= due_s:
                self.pool.abandon(job)
                reason = f"no result after {self._timeout_s(job):g} seconds"
                self._take_in([(job, VoidOutcome(reason))])
        if now_s - self._renewed_s >= self.settings.beat:
            leased = [job for job, _ in self._playing.values()]
            self._retry(lambda: self.store.jobs.renew(leased, self.settings.lease))
            self._renewed_s = now_s
            self._report_newest()
            self._report_damage()
            self._gives_way = self._retry(self.gives_way)

    def _report_newest(self) -> None:
        """Report when a newer season is open than the one that is played, since pages show that."""
        if self.season.tournament is not None:
            return
        opened = open_seasons(self._retry(self.store.seasons.all))
        newest = opened[-1].name if opened else self._reported_newest
        if newest not in (self._reported_newest, self.season.name):
            self.watcher.trouble(
                f"season {newest} is open and is what pages show, but this run plays "
                f"{self.season.name} until that is closed: `ladder close {self.season.name}`"
            )
        self._reported_newest = newest

    def _report_damage(self) -> None:
        """Report which bots get no games, since they cannot be read."""
        damage = self._retry(self.store.bots.damage_lines)
        if damage != self._reported_damage:
            for line in damage:
                self.watcher.trouble(f"{line}; that bot gets no games")
            self._reported_damage = damage

    def _seconds_until_due(self) -> float:
        """Return the seconds until the next renewal of leases, or the next timeout."""
        due_s = [due_s for _, due_s in self._playing.values()]
        due_s.append(self._renewed_s + self.settings.beat)
        return max(0.0, min(due_s) - self.clock())

    def _retry(self, call: Callable[[], _T]) -> _T:
        """Call the store, and again while it is unavailable; `call` must bear repetition."""
        return retry_until_available(call, self.stop, self.watcher.trouble)


def open_ladder(target: str, watcher: RunWatcher, stop: Stop) -> Store:
    """Open a ladder for a run.

    If it is busy, wait for about a minute, and then raise StoreUnavailable.
    """
    return retry_until_available(
        lambda: Store.open(target), stop, watcher.trouble, tries=_OPENING_TRIES
    )


def run(
    store: Store,
    request: RunRequest,
    make_pool: MakePool,
    watcher: RunWatcher,
    stop: Stop,
    play_tournament: Callable[[StoredSeason], bool] | None = None,
) -> RunReport:
    """Play rated games of a ladder, and do its other tasks beside them.

    Submissions, analyses, games of people and comparisons are done in threads while games are
    played. A run with an end checks waiting submissions first, and does waiting analyses at the
    end. A run without end waits for a season while none is open.

    play_tournament  plays a tournament that was begun from afar, before other games; True means
                     that it may be tried again while it is open. A run with an end, or of a given
                     season, plays no tournaments.
    """
    to_end = not request.forever
    season: StoredSeason | None = None
    if to_end or request.season is not None:
        season = _playable(store, request, watcher, stop)
    _take_back(store, watcher, stop)
    groups = own_cgroups()
    retry_until_available(lambda: store.audit.note_control_groups(groups), stop, watcher.trouble)
    with (
        in_background(ANALYSES, store, watcher, stop, to_end=to_end),
        in_background(CHECKS, store, watcher, stop, first=to_end),
        in_background(STEPS, store, watcher, stop),
        in_background(COMPARISONS, store, watcher, stop),
    ):
        if season is not None:
            return _run(store, season, request, make_pool, watcher, stop)
        given_up: set[int] = set()  # ids of tournaments' seasons

        def next_tournament() -> StoredSeason | None:
            return None if play_tournament is None else for_runner(store, given_up)

        def gives_way() -> bool:
            return next_tournament() is not None

        last_name = ""
        while True:
            season = _await_season(store, watcher, stop, next_tournament, last_name)
            if season is None:
                break
            last_name = season.name
            if season.tournament is None or play_tournament is None:
                report = _run(store, season, request, make_pool, watcher, stop, gives_way)
                if report.ended not in (RunEnd.CLOSED, RunEnd.TOURNAMENT):
                    return report
            elif not play_tournament(season):
                given_up.add(season.id)
        with suppress(StoreUnavailable):
            store.tasks.end_rest(own_name())
    return RunReport()


def _await_season(
    store: Store,
    watcher: RunWatcher,
    stop: Stop,
    tournament: Callable[[], StoredSeason | None],
    last_name: str,
) -> StoredSeason | None:
    """Wait until a season is open, and return it; None at a request to stop.

    A tournament comes first, then the newest season. Report which season is played, and others.

    tournament  returns the tournament's season that has to be played now, if any
    last_name   the season that this run has played last; "" if it has played none
    """
    has_waited = False
    reported_damage: list[str] = []
    with stop.on_signals():
        while stop.requested is StopRequest.GO_ON:
            opened = open_seasons(retry_until_available(store.seasons.all, stop, watcher.trouble))
            urgent = retry_until_available(tournament, stop, watcher.trouble)
            if urgent is not None:
                opened = [urgent]
            damage = retry_until_available(store.seasons.damage_lines, stop, watcher.trouble)
            if damage != reported_damage:
                for line in damage:
                    watcher.trouble(f"{line}; that season is not played")
                reported_damage = damage
            if len(opened) > 1:
                others = ", ".join(season.name for season in opened[:-1])
                watcher.trouble(
                    f"this run plays {opened[-1].name}, the newest season; {others} too, with "
                    "another `ladder run --season NAME`"
                )
            elif opened and (has_waited or last_name not in ("", opened[-1].name)):
                after = f", after {last_name}" if last_name else ""
                watcher.trouble(f"this run plays season {opened[-1].name} now{after}")
            if opened:
                return opened[-1]
            if not has_waited:
                watcher.trouble("no season is open; waiting for one: `ladder season NAME`")
            has_waited = True
            retry_until_available(
                lambda: store.tasks.rest(own_name(), "no season is open", Times().lease),
                stop,
                watcher.trouble,
            )
            stop.pause(_IDLE_S)
    return None


def _playable(store: Store, request: RunRequest, watcher: RunWatcher, stop: Stop) -> StoredSeason:
    """Return the season that is requested.

    Raises SeasonClosed if it is closed, UserError if it is a tournament's.
    """
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
    """Play one season until the goal of the request is reached; see `Runner.run`.

    gives_way  returns True when a tournament has to be played first
    """

    def retry(call: Callable[[], _T]) -> _T:
        return retry_until_available(call, stop, watcher.trouble)

    until_settled = UntilSettled(store, season, request.confidence)
    present_order = None
    deadline_ms = None if request.until is None else milliseconds(request.until)
    if request.games is not None:
        goal = RunGoal(games=request.games)
    elif request.forever:
        is_settled = (lambda: until_settled.report().settled) if request.settled else None
        goal = RunGoal(settled=is_settled, until=deadline_ms, wait_for_work=True)
    elif deadline_ms is not None:
        goal = RunGoal(until=deadline_ms)
    elif (order := retry(until_settled.report)).settled:
        goal = RunGoal(games=0)
    else:
        goal, present_order = RunGoal(settled=until_settled), order
    source = Matchmaker(store, season)
    report = play(store, season, source, goal, make_pool, watcher, stop, present_order, gives_way)
    if request.games is None and not request.forever and deadline_ms is None:
        report.order = retry(until_settled.report)
    return report


def _take_back(store: Store, watcher: RunWatcher, stop: Stop) -> None:
    """End leases of runs that were killed, and report their number."""
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
    """Play queued games and those of the source, until the goal is reached or a stop is requested.

    Ctrl-C and SIGTERM request a stop meanwhile, so that only the main thread may call this.

    expected   the present order, for a run until it is settled; it is reported
    gives_way  returns True when a tournament has to be played first
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

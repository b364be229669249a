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
from deepsea_arena.lease_owner import own_run_name, take_back
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
    JobOutcome,
    Times,
    VoidOutcome,
    game_seconds,
)
from deepsea_arena.tournaments import next_for_runner
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
        self._waits_after_goal = False  # with `wait_for_work`
        self._reported_unplayable = ""  # the last reported reason why there are no games
        self._failures_in_a_row = 0  # games without a result
        self._troubles_in_a_row = 0  # of this machine
        self._reported_damage: list[str] = []
        self._reported_newest = self.season.name  # the newest season
        self._report = RunReport(season=self.season.name)

    def run(self) -> RunReport:
        """Play games until the goal is reached, nothing is left to play, or a stop is requested.

        Return the summary of the run. At the end the workers are stopped, and the leases of games
        that are not finished are given back.
        """
        try:
            self._report_damage()
            self._report.ended = self._play_games()
        finally:
            self.pool.close()
            try:
                self._report.handed_back = self.store.jobs.hand_back(self.owner)
                self.store.tasks.end_rest(self.owner)
            except StoreUnavailable as error:
                self.watcher.trouble(f"{error}; leases were not handed back and will run out")
        return self._report

    def _play_games(self) -> RunEnd:
        """Start games and store their outcomes until the run ends; return why it ends.

        After a request to finish no game is started, but those that are being played go on.
        """
        while True:
            if self.stop.requested is StopRequest.HAND_BACK:
                return RunEnd.STOPPED
            if self._failures_in_a_row >= self.settings.max_failures_in_a_row:
                return RunEnd.TOO_MANY_FAILURES
            has_free_worker = True
            if self.stop.requested is StopRequest.GO_ON:
                has_free_worker = self._start_games()
            if self._playing:
                outcomes = self.pool.wait(self._seconds_until_due(), self.stop)
                self._store_outcomes(outcomes)
                self._check_timeouts_and_leases()
                continue
            run_end = self._end_when_idle()
            if run_end is not None:
                return run_end
            may_get_games = self._wait_for_games(has_free_worker=has_free_worker)
            if not may_get_games:
                return RunEnd.NOTHING_LEFT

    def _end_when_idle(self) -> RunEnd | None:
        """Return why the run ends now, when it plays no game; None if it waits for games."""
        if self.stop.requested is not StopRequest.GO_ON:
            return RunEnd.STOPPED
        if self._games_to_start() == 0 or (self._is_over() and not self.goal.wait_for_work):
            return RunEnd.GOAL
        if self._closed:
            return RunEnd.CLOSED
        if self._gives_way or self._retry(self.gives_way):
            return RunEnd.TOURNAMENT
        if self._gave_up():
            return RunEnd.HOST
        return None

    def _wait_for_games(self, *, has_free_worker: bool) -> bool:
        """Wait a while when no game is played, and store the reason for others to see.

        Return False, and do not wait, if there will be no more games for this run.
        """
        season = f"season {self.season.name}"
        if self._is_over():
            reason = "its order is settled" if self._settled else "its time is over"
            self._wait_after_goal(f"{season} is not played on: {reason}")
            return True
        if self._paused:
            self._pause(f"{season} is paused", self.settings.idle)
            return True
        host_pause_s = self._paused_until_s - self.clock()
        if host_pause_s > 0:
            self._pause(self._report.trouble, host_pause_s)
            return True
        if not has_free_worker:
            self._store_idle_reason("no worker is free")
            # The pool ends this wait when there is a worker.
            self.pool.wait(self._seconds_until_due(), self.stop)
            self._check_timeouts_and_leases()
            return True
        if self._retry(lambda: self.store.queue.leased(self.season)):
            reason = f"the last games of {season} are played by other runs"
            self._pause(reason, self.settings.idle)
            return True
        if self.goal.wait_for_work:
            reason = self._reported_unplayable or f"{season} has no games to play"
            self._pause(reason, self.settings.idle)
            return True
        return False

    def _pause(self, reason: str, longest_s: float) -> None:
        """Pause for at most `longest_s` seconds, and store the reason why no game is played."""
        self._store_idle_reason(reason)
        self.stop.pause(min(longest_s, self.settings.beat))

    def _store_idle_reason(self, reason: str) -> None:
        """Store why no game is played. Without it a run that has no lease would count as dead."""
        self._retry(lambda: self.store.tasks.note_rest(self.owner, reason, self.settings.lease))

    def _is_over(self) -> bool:
        """Return True if the order is settled, or the time of the goal is over."""
        until = self.goal.until
        return self._settled or (until is not None and self._retry(self.store.now) >= until)

    def _wait_after_goal(self, reason: str) -> None:
        """Pause after the goal was reached, and then look whether there are games to play again.

        New results may have unsettled the order, and somebody may have closed the season. The
        reason is reported only once for each time that the goal is reached.
        """
        if not self._waits_after_goal:
            self.watcher.trouble(reason)
        self._waits_after_goal = True
        self._pause(reason, self.settings.idle)
        if self.goal.settled is not None:
            self._settled = self._retry(self.goal.settled)
        season = self._retry(lambda: self.store.seasons.get(self.season.name))
        self._closed = season.closed_at is not None
        self._waits_after_goal = self._is_over()

    def _games_to_start(self) -> int | None:
        """Return how many games may still be started for the goal; None is no limit."""
        if self.goal.games is None:
            return None
        return max(0, self.goal.games - self._report.accepted - len(self._playing))

    def _start_games(self) -> bool:
        """Give jobs to all free workers, as far as there are jobs and the goal needs them.

        Return False if no worker was free, or one has left before its job.
        """
        last_rotations = self.pool.free()  # one for each free worker; see `_claim`
        has_free_worker = bool(last_rotations)
        if not self._may_start_games():
            return has_free_worker
        jobs = self._lease_jobs(last_rotations[: self._games_to_start()])
        for job in jobs:
            if not self._start(job):
                has_free_worker = False
        return has_free_worker

    def _lease_jobs(self, last_rotations: Sequence[int | None]) -> list[Job]:
        """Lease a job for each of some free workers, and add jobs if the queue has too few.

        Return fewer jobs, or none, if the season is paused or has no more games. See `_claim` for
        the argument.
        """
        if not last_rotations:
            return []
        jobs = self._claim(last_rotations)
        missing_jobs = len(last_rotations) - len(jobs)
        if self._paused or missing_jobs == 0:
            return jobs
        if self._add_jobs(missing_jobs):
            jobs += self._claim(last_rotations[len(jobs) :])
        return jobs

    def _may_start_games(self) -> bool:
        """Return True unless the run is ending, or pauses after trouble of this machine."""
        is_ending = self._closed or self._gives_way or self._gave_up() or self._is_over()
        return not is_ending and self.clock() >= self._paused_until_s

    def _start(self, job: Job) -> bool:
        """Give a job to a worker; if the worker has left meanwhile, give it back to the store.

        Return True if a worker has it now.
        """
        is_started = self.pool.start(job)
        if is_started:
            due_s = self.clock() + self._timeout_s(job)
            self._playing[job.game_id] = (job, due_s)
        else:
            self._hand_back(job, "its worker has left")
        return is_started

    def _claim(self, last_rotations: Sequence[int | None]) -> list[Job]:
        """Lease a job for each of some free workers; return fewer if there are not enough jobs.

        `last_rotations` has the rotation of each worker's last job, or None. A job of that rotation
        suits the worker best, since its bots run there already. If the season is paused, return no
        jobs and set `_paused`.
        """
        jobs = self.store.jobs
        was_paused = self._paused
        try_numbers = count()

        def claim() -> list[Job]:
            """Lease the jobs; `_retry` repeats this call while the store is unavailable."""
            is_retry = next(try_numbers) > 0
            if is_retry:
                # The store may have leased jobs to an earlier call whose answer was lost.
                playing_jobs = [job for job, _ in self._playing.values()]
                jobs.hand_back(self.owner, besides=playing_jobs)
            return jobs.claim(self.season, self.owner, self.settings.lease, last_rotations)

        try:
            leased_jobs = self._retry(claim)
            self._paused = False
        except SeasonPaused:
            leased_jobs = []
            self._paused = True
        if self._paused != was_paused:
            state = "paused: no game is started" if self._paused else "resumed"
            self.watcher.trouble(f"season {self.season.name} is {state}")
        return leased_jobs

    def _add_jobs(self, least_games: int) -> bool:
        """Add jobs from the source to the queue, for at least this number of games.

        Return False if there is nothing to add: the source has no games, or the season is closed.
        Otherwise there may be jobs to lease now, added by this run or by another that was quicker.
        """
        last_number = self._retry(lambda: self.store.queue.last_number(self.season))
        try:
            rotations = self._retry(lambda: self.source(last_number, least_games))
        except PairingError as error:
            self._wait_for_bots(error)
            return False
        self._reported_unplayable = ""
        try:
            # If another run was quicker, its jobs are stored instead.
            self._retry(lambda: self.store.jobs.add(self.season, rotations, after=last_number))
        except SeasonClosed:
            self._closed = True
            return False
        return bool(rotations)

    def _wait_for_bots(self, error: PairingError) -> None:
        """Report that the season has too few bots for a game, unless that was reported before.

        Raise the error if nothing can change that: this run plays no game, and waits for none.
        """
        if self._playing:
            return
        if not self.goal.wait_for_work:
            raise error
        if not self._reported_unplayable:
            self._reported_unplayable = f"season {self.season.name} waits for bots: {error}"
            self.watcher.trouble(self._reported_unplayable)

    def _store_outcomes(self, outcomes: Sequence[tuple[Job, JobOutcome]]) -> None:
        """Store the outcomes of jobs, which are not being played any more."""
        for job, outcome in outcomes:
            match outcome:
                case FinishedGame() as game:
                    self._store_result(job, game)
                case VoidOutcome(reason, seat, shortage):
                    self._store_void_game(job, reason, seat, shortage)
                case HostTrouble(reason):
                    self._set_aside(job, reason)
            # Not before the outcome is stored: at the end of the run listed jobs are given back.
            self._playing.pop(job.game_id, None)

    def _store_result(self, job: Job, game: FinishedGame) -> None:
        """Store the result of a game, and count whether the store has accepted it.

        A machine whose result is refused is not used any more, unless the result was only late.
        """
        receipt = self._retry(lambda: self.store.games.report(job, game.record, game.machine))
        match receipt.status:
            case ReceiptStatus.ACCEPTED:
                self._failures_in_a_row = self._troubles_in_a_row = 0
                self._report.accepted += 1
                self._report.suspended += receipt.suspended
                if game.logs and receipt.seq is not None:
                    self._store_logs(receipt.seq, game.logs)
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

    def _store_logs(self, seq: int, logs: Sequence[SeatLog]) -> None:
        """Store the logs of the game with this sequence number.

        A failure is only reported, since the result of the game is stored already.
        """
        try:
            self.store.logs.add(seq, logs)
        except LadderError as error:
            self.watcher.trouble(f"{error}; the output of bots in game {seq} is not kept")

    def _store_void_game(
        self, job: Job, reason: str, seat: int | None, shortage: AuditKind | None
    ) -> None:
        """Store that a game was void, and report that, and which bots were suspended for it.

        seat      the seat whose delay made the game void; None if there was another reason
        shortage  the kind of note for the operator if the machine lacked something, otherwise None
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
        """Give back a job that this machine cannot play now, and start no game for a while.

        The pause is longer each time. It does not start anew for the other workers, which meet the
        same trouble.
        """
        self._hand_back(job, reason)
        now_s = self.clock()
        if now_s < self._paused_until_s:
            return
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
        """Return True if the run ends because this machine could not play too many times."""
        if self.goal.wait_for_work:
            return False
        return self._troubles_in_a_row >= self.settings.host_troubles

    def _timeout_s(self, job: Job) -> float:
        """Return the timeout of a job's game, in seconds."""
        timeout_s = self.settings.game
        return game_seconds(job.season, len(job.seats)) if timeout_s is None else timeout_s

    def _check_timeouts_and_leases(self) -> None:
        """Void games that take too long; if it is time for that, renew leases and look for news."""
        now_s = self.clock()
        self._void_late_games(now_s)
        if now_s - self._renewed_s >= self.settings.beat:
            leased_jobs = [job for job, _ in self._playing.values()]
            self._retry(lambda: self.store.jobs.renew(leased_jobs, self.settings.lease))
            self._renewed_s = now_s
            self._report_newer_season()
            self._report_damage()
            self._gives_way = self._retry(self.gives_way)

    def _void_late_games(self, now_s: float) -> None:
        """Make games void that have no result by their deadlines, and stop playing them.

        The deadline of a job that waits behind another one of its worker is put off, since its own
        time has not begun yet.
        """
        for job, due_s in list(self._playing.values()):
            if self.pool.has_not_begun(job):
                self._playing[job.game_id] = (job, now_s + self._timeout_s(job))
            elif now_s >= due_s:
                self.pool.abandon(job)
                reason = f"no result after {self._timeout_s(job):g} seconds"
                self._store_outcomes([(job, VoidOutcome(reason))])

    def _report_newer_season(self) -> None:
        """Report, once, that a newer season is open than the one that this run plays.

        Pages show the newest season, so that people would wait for games there in vain.
        """
        if self.season.tournament is not None:
            return
        opened = open_seasons(self._retry(self.store.seasons.all))
        if not opened:
            return
        newest = opened[-1].name
        if newest not in (self._reported_newest, self.season.name):
            self.watcher.trouble(
                f"season {newest} is open and is what pages show, but this run plays "
                f"{self.season.name} until that is closed: `ladder close {self.season.name}`"
            )
        self._reported_newest = newest

    def _report_damage(self) -> None:
        """Report which bots cannot be read, and get no games, if that has changed."""
        damage = self._retry(self.store.bots.damage_lines)
        if damage != self._reported_damage:
            for line in damage:
                self.watcher.trouble(f"{line}; that bot gets no games")
            self._reported_damage = damage

    def _seconds_until_due(self) -> float:
        """Return the seconds until the next renewal of leases, or the next timeout."""
        due_times_s = [due_s for _, due_s in self._playing.values()]
        due_times_s.append(self._renewed_s + self.settings.beat)
        return max(0.0, min(due_times_s) - self.clock())

    def _retry(self, call: Callable[[], _T]) -> _T:
        """Return the result of `call`, which is repeated until the store is available."""
        return retry_until_available(call, self.stop, self.watcher.trouble)


def open_ladder(target: str, watcher: RunWatcher, stop: Stop) -> Store:
    """Open the ladder at `target`, a file or the address of a server.

    While it is busy, try again for about a minute, and then raise StoreUnavailable.
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
        season = _requested_season(store, request, watcher, stop)
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
            return None if play_tournament is None else next_for_runner(store, given_up)

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
            store.tasks.end_rest(own_run_name())
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
                lambda: store.tasks.note_rest(own_run_name(), "no season is open", Times().lease),
                stop,
                watcher.trouble,
            )
            stop.pause(_IDLE_S)
    return None


def _requested_season(
    store: Store, request: RunRequest, watcher: RunWatcher, stop: Stop
) -> StoredSeason:
    """Return the season that a run is requested to play.

    Raises SeasonClosed if the season is closed, UserError if it is that of a tournament.
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
    tasks = retry_until_available(lambda: take_back(store), stop, watcher.trouble)
    if tasks:
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
        owner=own_run_name(),
        clock=lambda: clock.now_us() / 1_000_000,
        stop=stop,
        source=source,
        goal=goal,
        watcher=watcher,
        gives_way=gives_way,
    )
    with PULSE.beating(), stop.on_signals():
        return runner.run()

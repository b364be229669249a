"""The runner: plays what there is to play, survives everybody, and hands back what it held."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest

from deepsea_arena.run_report import RunEnd, RunReport, Stop, StopRequest
from deepsea_arena.runner import RunGoal, RunnerSettings, Source, no_source
from deepsea_arena.tasks import FinishedGame, HostTrouble, JobOutcome, VoidOutcome, game_seconds
from deepsea_ladder.accounts import MACHINE
from deepsea_ladder.errors import PairingError, SeasonClosed, StoreUnavailable, WorkerError
from deepsea_ladder.matchmaker import Matchmaker
from deepsea_ladder.model import (
    AttemptEnd,
    Job,
    LadderCounts,
    Receipt,
    Rotation,
    SeatLog,
    StoredSeason,
    TaskState,
)
from deepsea_ladder.store import RetryPolicy, Store
from deepsea_rules import game
from deepsea_rules.game import GameRecord
from helpers import ladder, submissions
from helpers.inline import InlineWorker, Watcher, run_with

EMPTY = pytest.mark.parametrize("contents", [ladder.nothing], ids=["empty"])


def _contents(store: Store) -> None:
    """A season with four bots and six games to play."""
    season = ladder.stocked(store)
    store.jobs.add(season, ladder.rotations(ladder.ids(store), 6))


KINDS = ["sqlite"]  # who plays does not know the database
CONTENTS = _contents


def play(job: Job) -> JobOutcome:
    return FinishedGame(ladder.play(job))


def run(
    store: Store, stop: Stop, playing: Callable[[Job], JobOutcome] = play, **words: Any
) -> RunReport:
    """A run in this thread, by a clock that stands still."""
    return run_with(InlineWorker(playing), store, stop, **words)


def test_what_waits_is_played(store: Store, season: StoredSeason, stop: Stop) -> None:
    watcher = Watcher()
    summary = run(store, stop, watcher=watcher)
    assert summary == RunReport(season="s1", accepted=6, ended=RunEnd.NOTHING_LEFT)
    assert [receipt.seq for receipt in watcher.receipts] == [1, 2, 3, 4, 5, 6]
    assert store.queue.counts(season).done == 6
    assert store.ratings.differences(season) == []


def test_a_record_is_read_and_replayed_once_on_its_way_into_the_store(
    store: Store, stop: Stop, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, replayed = Mock(wraps=GameRecord.from_json), Mock(wraps=game.replay)
    monkeypatch.setattr(GameRecord, "from_json", read)
    monkeypatch.setattr(game, "replay", replayed)
    assert run(store, stop).accepted == read.call_count == replayed.call_count == 6


def crashes(job: Job) -> JobOutcome:
    """Play a game in which the bot in seat A crashes."""
    log = SeatLog(0, "anna v1", f"error of {job.game_id}", "printed")
    return FinishedGame(ladder.play(job, [job.seats[0].bot]), (log,))


def test_what_bots_at_fault_left_is_kept_with_the_result(store: Store, stop: Stop) -> None:
    run(store, stop, crashes, goal=RunGoal(games=1))
    assert store.logs.of_game("s1-1") == (SeatLog(0, "anna v1", "error of s1-1", "printed"),)


def test_a_log_that_cannot_be_kept_costs_no_result(
    store: Store, stop: Stop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(seq: int, logs: Sequence[SeatLog]) -> None:
        raise StoreUnavailable("the store is away")

    monkeypatch.setattr(store.logs, "add", away)
    watcher = Watcher()
    summary = run(store, stop, crashes, watcher=watcher, goal=RunGoal(games=1))
    assert summary.accepted == 1
    assert watcher.troubles == ["the store is away; the output of bots in game 1 is not kept"]


def test_a_number_of_games_is_exact(store: Store, season: StoredSeason, stop: Stop) -> None:
    assert run(store, stop, goal=RunGoal(games=4)) == RunReport(
        season="s1", accepted=4, ended=RunEnd.GOAL
    )
    assert store.queue.counts(season).waiting == 2
    assert run(store, stop, goal=RunGoal(games=0)) == RunReport(season="s1", ended=RunEnd.GOAL)


def test_it_goes_on_until_the_order_is_settled(store: Store, stop: Stop) -> None:
    goal = RunGoal(settled=lambda: store.ratings.last_seq() >= 3)
    assert run(store, stop, goal=goal) == RunReport(season="s1", accepted=3, ended=RunEnd.GOAL)


@EMPTY
def test_the_source_is_asked_when_nothing_waits(store: Store, stop: Stop) -> None:
    ladder.stocked(store)
    asked: list[tuple[int, int]] = []

    def source(number: int, wanted: int) -> Sequence[list[list[int]]]:
        asked.append((number, wanted))
        return ladder.rotations(ladder.ids(store), 2) if number < 6 else ()

    summary = run(store, stop, source=source)
    assert summary == RunReport(season="s1", accepted=6, ended=RunEnd.NOTHING_LEFT)
    assert asked == [(0, 1), (2, 1), (4, 1), (6, 1)]


@EMPTY
def test_the_matchmaker_is_a_source(store: Store, stop: Stop) -> None:
    season = ladder.stocked(store, bots=6, seats=(2, 3, 4))
    source = Matchmaker(store, season)
    run(store, stop, source=source, goal=RunGoal(games=20))
    tallies = [entry.tally for entry in store.ratings.entries(season)]
    assert min(tally.games for tally in tallies) > 6
    assert store.ratings.differences(season, records=True) == []


@EMPTY
def test_too_few_bots_are_said_unless_somebody_waits(store: Store, stop: Stop) -> None:
    season = ladder.stocked(store, bots=3)
    source = Matchmaker(store, season)
    with pytest.raises(PairingError, match="submit more"):
        run(store, stop, source=source)

    submitted: list[str] = []

    def late(number: int, wanted: int) -> Sequence[Sequence[Sequence[int]]]:
        if submitted:
            return source(number, wanted)
        submitted.append("dan")
        try:
            return source(number, wanted)
        finally:
            ladder.submit(store, "dan")

    goal, watcher = RunGoal(games=1, wait_for_work=True), Watcher()
    assert run(store, stop, source=late, goal=goal, watcher=watcher).accepted == 1
    (said,) = watcher.troubles
    assert said.startswith("season s1 waits for bots: the smallest game needs 4 bots")


def test_void_games_are_tried_again(store: Store, stop: Stop) -> None:
    void = iter([True, False, True])

    def playing(job: Job) -> JobOutcome:
        if next(void, False):
            raise RuntimeError("the sandbox\nis gone")
        return play(job)

    watcher = Watcher()
    summary = run(store, stop, playing, watcher=watcher)
    assert (summary.accepted, summary.void) == (6, 2)
    assert watcher.failures[0][1] == "RuntimeError: the sandbox is gone"


def test_a_job_that_is_always_void_is_set_aside(
    store: Store, season: StoredSeason, stop: Stop
) -> None:
    def playing(job: Job) -> JobOutcome:
        return VoidOutcome("a bad omen") if job.game_id == "s1-1" else play(job)

    summary = run(store, stop, playing)
    assert (summary.accepted, summary.void, summary.ended) == (5, 5, RunEnd.NOTHING_LEFT)
    (job,) = store.queue.listed(season, TaskState.QUARANTINED)
    assert job.note == "failed 5 times, last: a bad omen"


def test_a_run_in_vain_ends(store: Store, stop: Stop) -> None:
    settings = RunnerSettings(max_failures_in_a_row=4)
    summary = run(store, stop, lambda job: VoidOutcome("no sandbox"), settings=settings)
    assert (summary.void, summary.ended) == (4, RunEnd.TOO_MANY_FAILURES)
    summary = run(store, stop, lambda job: FinishedGame("{}"), settings=settings)
    assert (summary.refused, summary.ended) == (4, RunEnd.TOO_MANY_FAILURES)


def test_trouble_of_the_host_is_no_games_and_no_bots_fault(
    store: Store, season: StoredSeason, stop: Stop
) -> None:
    """Too few file descriptors: about ten good games were set aside at each start of a run."""
    troubles = iter([True, False, True, True])
    time = 0.0
    pauses: list[float] = []

    def playing(job: Job) -> JobOutcome:
        if next(troubles, False):
            return HostTrouble("OSError: too many open files")
        return play(job)

    def pause(seconds: float) -> None:
        nonlocal time
        pauses.append(seconds)
        time += seconds

    watcher = Watcher()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stop, "pause", pause)
        settings = RunnerSettings(idle=0, host_pause=1.0)
        clock = lambda: time  # noqa: E731
        summary = run(store, stop, playing, watcher=watcher, settings=settings, clock=clock)
    assert (summary.accepted, summary.void, summary.ended) == (6, 0, RunEnd.NOTHING_LEFT)
    assert pauses == [1.0, 1.0, 2.0]
    assert watcher.troubles[0] == (
        "OSError: too many open files; no game counts as failed, trying again in 1 second"
    )
    lost = [(one.ended, one.reason) for one in store.queue.lost(season)]
    assert lost == [(AttemptEnd.HANDED_BACK, "OSError: too many open files")] * 3
    assert store.bots.strikes([season])[season.id] == []


def test_a_host_that_cannot_play_ends_the_run(
    store: Store, season: StoredSeason, stop: Stop
) -> None:
    trouble = HostTrouble("OSError: no space left on device")
    settings = RunnerSettings(host_pause=0, host_troubles=3)
    summary = run(store, stop, lambda job: trouble, settings=settings)
    assert (summary.accepted, summary.void, summary.ended) == (0, 0, RunEnd.HOST)
    assert summary.trouble == trouble.reason
    counts = store.queue.counts(season)
    assert (counts.waiting, counts.quarantined) == (6, 0)
    # A run without an end waits until it can go on.
    left = iter([trouble] * 10)
    goal = RunGoal(games=1, wait_for_work=True)
    again = run(store, stop, lambda job: next(left, play(job)), settings=settings, goal=goal)
    assert (again.accepted, again.ended) == (1, RunEnd.GOAL)


def test_games_in_play_count_when_their_season_is_closed(
    store: Store, season: StoredSeason, stop: Stop
) -> None:
    def playing(job: Job) -> JobOutcome:
        if job.game_id == "s1-3":
            store.seasons.close("s1")
        return play(job)

    for goal in (RunGoal(), RunGoal(wait_for_work=True)):
        summary = run(store, stop, playing, source=Matchmaker(store, season), goal=goal)
        assert summary.ended is RunEnd.CLOSED
    counts = store.queue.counts(season)
    assert (counts.done, counts.cancelled, counts.leased) == (3, 3, 0)


def test_a_bot_that_makes_games_void_is_suspended_and_that_is_said(
    store: Store, stop: Stop
) -> None:
    asked: list[tuple[str, tuple[int, ...]]] = []

    def playing(job: Job) -> JobOutcome:
        asked.append((job.game_id, job.void_seats))
        seat = [version.bot for version in job.seats].index("dan")
        return play(job) if job.void_seats else VoidOutcome("the host was too busy", seat)

    watcher = Watcher()
    summary = run(store, stop, playing, watcher=watcher)
    assert asked[:3] == [("s1-1", ()), ("s1-1", (3,)), ("s1-2", ())]
    assert (summary.accepted, summary.void, summary.suspended) == (4, 5, ["dan"])
    assert watcher.troubles == ["dan is suspended"]


def test_voids_by_a_busy_host_set_no_game_aside(store: Store, stop: Stop) -> None:
    """Each seat has one, and the next one is its timeout: that ends."""

    def playing(job: Job) -> JobOutcome:
        free = [seat for seat in range(4) if seat not in job.void_seats]
        return VoidOutcome("the host was too busy", free[0]) if free else play(job)

    patient = Store(store.database, RetryPolicy(failures=2))
    summary = run(patient, stop, playing, goal=RunGoal(games=1))
    assert (summary.accepted, summary.void) == (1, 4)


def test_the_limit_of_a_game_follows_its_clock(
    store: Store, season: StoredSeason, stop: Stop
) -> None:
    waits: list[float] = []

    class Slow(InlineWorker):
        """Notes for how long it may be waited for."""

        def wait(self, seconds: float, stop: Stop) -> Sequence[tuple[Job, JobOutcome]]:
            waits.append(seconds)
            return super().wait(seconds, stop)

    settings = RunnerSettings(lease=1e9)
    run_with(Slow(play), store, stop, settings=settings)
    assert set(waits) == {game_seconds(season.settings, 4)}


def test_a_wish_to_finish_ends_the_run_after_the_game(
    store: Store, season: StoredSeason, stop: Stop
) -> None:
    def playing(job: Job) -> JobOutcome:
        stop.ask(StopRequest.FINISH)
        return play(job)

    summary = run(store, stop, playing, goal=RunGoal(wait_for_work=True))
    assert summary == RunReport(season="s1", accepted=1, ended=RunEnd.STOPPED)
    assert store.queue.counts(season).waiting == 5


def test_an_interrupt_in_the_middle_hands_back(
    store: Store, season: StoredSeason, stop: Stop
) -> None:
    def playing(job: Job) -> JobOutcome:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(store, stop, playing)
    counts = store.queue.counts(season)
    assert (counts.waiting, counts.leased) == (6, 0)
    job = ladder.claim(store, season)
    assert (job.game_id, job.attempt) == ("s1-1", 2)
    (info,) = store.queue.listed(season, TaskState.RUNNING)
    assert info.failures == 0


def test_a_result_is_reported_when_the_store_is_back(
    store: Store, stop: Stop, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = StoreUnavailable("the ladder is away")
    real, left = store.games.report, 3

    def report(job: Job, record: str, machine: str) -> Receipt:
        nonlocal left
        left -= 1
        if left >= 0:
            raise away
        return real(job, record, machine)

    monkeypatch.setattr(store.games, "report", report)
    pauses: list[float] = []
    monkeypatch.setattr(stop, "pause", pauses.append)
    watcher = Watcher()
    summary = run(store, stop, watcher=watcher)
    assert (summary.accepted, summary.handed_back) == (6, 0)
    assert watcher.troubles == ["the ladder is away; trying again"]
    assert pauses == [0.5, 1.0, 2.0]


def test_a_goal_is_looked_at_when_the_store_is_back(
    store: Store, stop: Stop, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([None, False, True])

    def settled() -> bool:
        answer = next(answers)
        if answer is None:
            raise StoreUnavailable("the ladder is busy")
        return answer

    monkeypatch.setattr(stop, "pause", lambda seconds: None)
    summary = run(store, stop, goal=RunGoal(settled=settled))
    assert (summary.accepted, summary.ended) == (2, RunEnd.GOAL)


def test_while_the_store_is_away_a_second_wish_ends_the_run(
    store: Store, season: StoredSeason, stop: Stop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> Receipt:
        raise StoreUnavailable("the ladder is away")

    monkeypatch.setattr(store.games, "report", away)
    watcher = Watcher(lambda: stop.ask(StopRequest.HAND_BACK))
    with pytest.raises(StoreUnavailable):
        run(store, stop, watcher=watcher)
    assert store.queue.counts(season).leased == 0


def test_it_waits_for_games_of_others_in_case_they_come_back(
    store: Store, season: StoredSeason, stop: Stop
) -> None:
    other = ladder.claim(store, season, "other")

    def playing(job: Job) -> JobOutcome:
        if store.ratings.last_seq() == 4:
            store.jobs.hand_back("other")
        return play(job)

    assert other.game_id == "s1-1"
    assert run(store, stop, playing).accepted == 6


@pytest.mark.parametrize("goal", [RunGoal(), RunGoal(games=6)])
def test_it_waits_for_workers_that_are_still_to_come(
    store: Store, stop: Stop, goal: RunGoal
) -> None:
    class Late(InlineWorker):
        """Comes when it was waited for."""

        here = False

        def free(self) -> Sequence[int | None]:
            return super().free() if self.here else []

        def wait(self, seconds: float, stop: Stop) -> Sequence[tuple[Job, JobOutcome]]:
            if self.here:
                return super().wait(seconds, stop)
            assert seconds > 0
            self.here = True
            return []

    settings = RunnerSettings()
    assert run_with(Late(play), store, stop, goal=goal, settings=settings).accepted == 6


def test_a_run_whose_workers_are_gone_hands_back(
    store: Store, season: StoredSeason, stop: Stop
) -> None:
    class Gone(InlineWorker):
        """Is lost in the middle of a game."""

        def wait(self, seconds: float, stop: Stop) -> Sequence[tuple[Job, JobOutcome]]:
            raise WorkerError("all workers have left")

    with pytest.raises(WorkerError):
        run_with(Gone(play), store, stop)
    counts = store.queue.counts(season)
    assert (counts.waiting, counts.leased) == (6, 0)


def test_leases_are_renewed_in_time_and_games_that_take_too_long_given_up(
    store: Store, stop: Stop
) -> None:
    """By a clock that the worker moves: no time passes in this test."""
    time = 0.0
    held: list[int] = []
    abandoned: list[str] = []

    class Slow(InlineWorker):
        """Plays the first game never, and the others at once."""

        def wait(self, seconds: float, stop: Stop) -> Sequence[tuple[Job, JobOutcome]]:
            nonlocal time
            assert self._job is not None
            if self._job.attempt == 1 and self._job.game_id == "s1-1":
                held.append(store.jobs.renew([self._job], 60))
                time += seconds
                assert seconds > 0
                return []
            return super().wait(seconds, stop)

        def abandon(self, job: Job) -> None:
            abandoned.append(job.game_id)
            super().abandon(job)

    renewed: list[float] = []
    real = store.jobs.renew

    def renew(jobs: Sequence[Job], seconds: float) -> int:
        renewed.append(time)
        return real(jobs, seconds)

    settings, watcher = RunnerSettings(lease=60, game=100, idle=0), Watcher()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store.jobs, "renew", renew)
        summary = run_with(
            Slow(play), store, stop, clock=lambda: time, settings=settings, watcher=watcher
        )
    assert [moment for moment in renewed if moment in (20, 40, 60, 80)] != []
    assert abandoned == ["s1-1"]
    assert watcher.failures == [("s1-1", "no result after 100 seconds")]
    assert (summary.accepted, summary.void) == (6, 1)


def test_a_paused_season_is_not_played_until_it_is_resumed(store: Store, stop: Stop) -> None:
    def play_and_pause(job: Job) -> JobOutcome:
        if job.game_id == "s1-2":
            store.seasons.set_paused("s1", MACHINE, paused=True)
        return play(job)

    played: list[int] = []

    def resume() -> None:
        played.append(store.ratings.last_seq())
        store.seasons.set_paused("s1", MACHINE, paused=False)

    watcher = Watcher(resume)
    summary = run(store, stop, play_and_pause, watcher=watcher)
    assert summary == RunReport(season="s1", accepted=6, ended=RunEnd.NOTHING_LEFT)
    assert watcher.troubles == ["season s1 is paused: no game is started", "season s1 is resumed"]
    assert played == [2, 2]
    notes = [entry.note for entry in store.audit.latest(2)]
    assert notes == ["resumed", "paused"]


def close(store: Store) -> None:
    store.seasons.close("s1")


def test_a_paused_season_that_is_closed_ends_the_run(store: Store, stop: Stop) -> None:
    store.seasons.set_paused("s1", MACHINE, paused=True)
    watcher = Watcher(partial(close, store))
    summary = run(store, stop, watcher=watcher)
    assert summary == RunReport(season="s1", ended=RunEnd.CLOSED)
    with pytest.raises(SeasonClosed, match="gets no games"):
        store.seasons.set_paused("s1", MACHINE, paused=True)


def test_a_run_starts_no_game_after_its_time(store: Store, stop: Stop) -> None:
    until = RunGoal(until=store.now())
    assert run(store, stop, goal=until) == RunReport(season="s1", ended=RunEnd.GOAL)
    until = RunGoal(until=store.now() + 10**9)
    assert run(store, stop, goal=until) == RunReport(
        season="s1", accepted=6, ended=RunEnd.NOTHING_LEFT
    )


def test_a_run_without_end_waits_as_long_as_the_order_is_settled(store: Store, stop: Stop) -> None:
    answers = iter([True, False, True])  # after a game, while it waits, after the next game
    waits: list[int] = []

    def waiting() -> None:
        waits.append(store.ratings.last_seq())
        if len(waits) == 2:
            stop.ask(StopRequest.FINISH)

    watcher = Watcher(waiting)
    goal = RunGoal(settled=lambda: next(answers, True), wait_for_work=True)
    summary = run(store, stop, goal=goal, watcher=watcher)
    assert summary == RunReport(season="s1", accepted=2, ended=RunEnd.STOPPED)
    assert waits == [1, 2]
    assert watcher.troubles == ["season s1 is not played on: its order is settled"] * 2


def test_a_run_without_end_that_waits_notices_that_its_season_is_closed(
    store: Store, stop: Stop
) -> None:
    goal = RunGoal(until=store.now(), wait_for_work=True)
    watcher = Watcher(partial(close, store))
    summary = run(store, stop, goal=goal, watcher=watcher)
    assert summary == RunReport(season="s1", ended=RunEnd.CLOSED)
    assert watcher.troubles == ["season s1 is not played on: its time is over"]


class NobodyComes(InlineWorker):
    """A pool in which no worker is ever free."""

    def free(self) -> Sequence[int | None]:
        return []


def host_is_full(job: Job) -> JobOutcome:
    return HostTrouble("OSError: no space left on device")


def pause(store: Store) -> None:
    store.seasons.set_paused("s1", MACHINE, paused=True)


def others_play(store: Store) -> None:
    for _ in range(6):
        ladder.claim(store, store.seasons.get("s1"), "elsewhere")


def end_games(store: Store) -> None:
    ladder.write(store, "UPDATE tasks SET state = 'done' WHERE kind = 'game'")


def too_few(number: int, wanted: int) -> Sequence[Rotation]:
    raise PairingError("it needs 4 bots")


ENDLESS = RunGoal(wait_for_work=True)
SETTLED = RunGoal(settled=lambda: True, wait_for_work=True)
OVER = RunGoal(until=0, wait_for_work=True)


@pytest.mark.parametrize(
    ("change", "goal", "pool", "source", "reason"),
    [
        (ladder.nothing, SETTLED, InlineWorker(play), no_source, "its order is settled"),
        (ladder.nothing, OVER, InlineWorker(play), no_source, "its time is over"),
        (pause, ENDLESS, InlineWorker(play), no_source, "season s1 is paused"),
        (ladder.nothing, ENDLESS, InlineWorker(host_is_full), no_source, "no space left on device"),
        (ladder.nothing, ENDLESS, NobodyComes(play), no_source, "no worker is free"),
        (others_play, ENDLESS, InlineWorker(play), no_source, "are played by other runs"),
        (end_games, ENDLESS, InlineWorker(play), no_source, "season s1 has no games to play"),
        (end_games, ENDLESS, InlineWorker(play), too_few, "waits for bots: it needs 4 bots"),
    ],
)
def test_a_run_that_rests_is_not_missed_until_it_has_ended(
    store: Store,
    stop: Stop,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Store], None],
    goal: RunGoal,
    pool: InlineWorker,
    source: Source,
    reason: str,
) -> None:
    """While a submission waits, which nobody checks here."""
    submissions.add(store, store.authors.id_of("anna-senior"), "mine")
    change(store)
    looks: list[LadderCounts] = []

    def look(seconds: float) -> None:
        looks.append(store.counts.read())
        if len(looks) == 3:
            stop.ask(StopRequest.FINISH)

    monkeypatch.setattr(stop, "pause", look)
    run_with(pool, store, stop, goal=goal, source=source)
    for counts in looks:
        (line,) = counts.resting_runners
        assert line.startswith("the runner runner rests: ")
        assert line.endswith(reason)
        assert not counts.is_stalled
    assert store.counts.read().resting_runners == ()
    assert store.counts.is_stalled() == (change is not others_play)


def test_a_run_gives_way_to_a_tournament_with_its_next_heartbeat(store: Store, stop: Stop) -> None:
    seconds = itertools.count(0, 10)
    waits = [False, True]  # as the first two heartbeats find it
    summary = run(store, stop, clock=lambda: next(seconds), gives_way=lambda: waits.pop(0))
    assert (summary.ended, waits) == (RunEnd.TOURNAMENT, [])
    assert 0 < summary.accepted < 6


def test_a_run_says_that_pages_show_another_season(
    store: Store, season: StoredSeason, stop: Stop
) -> None:
    seconds = iter(range(0, 10_000, 30))
    names = iter(("s2", "s3"))

    def play_and_open(job: Job) -> JobOutcome:
        if job.game_id in ("s1-2", "s1-4"):
            store.seasons.open(ladder.a_season(next(names)), ladder.SEED)
        return play(job)

    watcher = Watcher()
    run(store, stop, play_and_open, watcher=watcher, clock=lambda: next(seconds))
    assert watcher.troubles == [
        f"season {name} is open and is what pages show, but this run plays s1 until that is "
        "closed: `ladder close s1`"
        for name in ("s2", "s3")
    ]

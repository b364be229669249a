"""Runs and tournaments as use cases: goals, reports, rounds, and what is left after a stop."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from sqlalchemy import Engine, event

from deepsea_arena import lease_owner
from deepsea_arena import tournament_run as tournaments_module
from deepsea_arena.documents import to_json
from deepsea_arena.run_report import RunEnd, RunReport, RunWatcher, Stop, StopRequest
from deepsea_arena.runner import RunRequest, RunStopped, run
from deepsea_arena.seasons import ClosedSeason, close_season
from deepsea_arena.standings import OrderReport, order_report, show_standings
from deepsea_arena.tasks import FinishedGame, JobOutcome, VoidOutcome
from deepsea_arena.tournament_run import (
    TournamentRequest,
    TournamentResult,
    begin_tournament,
    play_begun,
    play_tournament,
)
from deepsea_arena.tournament_state import TournamentKind
from deepsea_arena.tournaments import tournament_report, tournaments
from deepsea_arena.workers import MakePool
from deepsea_ladder.accounts import MACHINE
from deepsea_ladder.errors import PairingError, SeasonClosed, StoreGone, StoreUnavailable
from deepsea_ladder.model import Job, Receipt, ReceiptStatus, StoredSeason, TaskState
from deepsea_ladder.store import Store
from deepsea_referee.errors import RefereeError, UserError
from deepsea_rules.game import GameRecord
from helpers import ladder
from helpers.background import gone_owner
from helpers.inline import InlineWorker
from helpers.programs import hide
from helpers.tiers import daily

KINDS = ["sqlite"]  # who plays does not know the database
CONTENTS = partial(ladder.stocked, bots=3, seats=(2,))


def pool(play: Callable[[Job], JobOutcome]) -> MakePool:
    """One worker without a process that plays like this."""
    return lambda season, watcher: InlineWorker(play)


def fairly(job: Job) -> JobOutcome:
    """Play a game as it should be."""
    return FinishedGame(ladder.play(job))


def for_anna(job: Job) -> JobOutcome:
    """Play a game that everybody but anna leaves at once."""
    others = [seat.bot for seat in job.seats if seat.bot != "anna"]
    return FinishedGame(ladder.play(job, others[: len(job.seats) - 1]))


class Watcher(RunWatcher):
    """Notes what happens."""

    def __init__(
        self, on_result: Callable[[], None] = lambda: None, *, troubles: bool = False
    ) -> None:
        self._troubles = troubles
        self.seen: list[str] = []
        self.expected: list[tuple[int, int | None]] = []
        self.reports: list[RunReport] = []
        self._on_result = on_result

    def begins(self, season: str, games: int | None) -> None:
        self.seen.append(f"{season} begins: {games}")

    def expects(self, order: OrderReport) -> None:
        self.expected.append((order.least_games, order.most_games))

    def taken_back(self, games: int) -> None:
        self.seen.append(f"{games} taken back")

    def finished(self, job: Job, receipt: Receipt) -> None:
        self._on_result()

    def failed(self, job: Job, reason: str) -> None:
        self.seen.append(f"{job.game_id} {reason}")

    def trouble(self, message: str) -> None:
        """Note it, if it is expected."""
        assert self._troubles, message
        self.seen.append(f"trouble: {message}")

    def round_begins(self, number: int, tables: int, bots: int) -> None:
        self.seen.append(f"round {number}: {tables} tables, {bots} bots")

    def played(self, report: RunReport) -> None:
        self.reports.append(report)


# Runs


def test_a_run_plays_so_many_games(store: Store, stop: Stop) -> None:
    watcher = Watcher()
    report = run(store, RunRequest(games=5), pool(fairly), watcher, stop)
    assert (report.season, report.ended, report.accepted) == ("s1", RunEnd.GOAL, 5)
    assert report.order is None
    assert watcher.seen == ["s1 begins: 5"]
    json.dumps(to_json(report), allow_nan=False)


def test_a_run_without_a_number_ends_when_the_order_is_settled(store: Store, stop: Stop) -> None:
    store.bots.withdraw("cleo")
    request = RunRequest(confidence=0.55)
    watcher = Watcher()
    report = run(store, request, pool(fairly), watcher, stop)
    ((least, most),) = watcher.expected
    assert least == 12  # two newcomers, twelve games each, two at a table
    assert most is not None
    assert least <= report.accepted <= most
    assert report.ended is RunEnd.GOAL
    assert report.accepted >= 12
    assert report.order is not None
    assert report.order.settled
    again = run(store, request, pool(fairly), watcher, stop)
    assert (again.ended, again.accepted) == (RunEnd.GOAL, 0)
    run(store, RunRequest(games=1), pool(fairly), watcher, stop)
    assert len(watcher.expected) == 1  # nothing is expected where there is an order, or a number


def test_a_run_without_end_waits_for_a_season_and_for_the_next(store: Store, stop: Stop) -> None:
    store.seasons.close("s1")
    waits = "no season is open; waiting for one: `ladder season NAME`"

    class Keeper(Watcher):
        def trouble(self, message: str) -> None:
            self.seen.append(message)
            if "s2 begins: None" in self.seen:
                stop.ask(StopRequest.FINISH)
            elif message == waits:
                store.seasons.open(ladder.a_season("s2", (2,)), ladder.SEED)
                stop.ring()

    def close() -> None:
        store.seasons.close("s2")

    watcher = Keeper(close)
    report = run(store, RunRequest(forever=True), pool(fairly), watcher, stop)
    assert watcher.seen == [waits, "this run plays season s2 now", "s2 begins: None", waits]
    assert (report.ended, report.season) == (RunEnd.STOPPED, "none")
    assert len(list(store.history.games())) == 1


def test_a_run_without_end_says_that_it_goes_over_to_another_season(
    store: Store, stop: Stop
) -> None:
    def change() -> None:
        match len(list(store.history.games())):
            case 2:
                store.seasons.open(ladder.a_season("s2", (2,)), ladder.SEED)
                store.seasons.close("s1")
            case 4:
                stop.ask(StopRequest.FINISH)

    watcher = Watcher(change, troubles=True)
    report = run(store, RunRequest(forever=True), pool(fairly), watcher, stop)
    assert (report.season, report.accepted) == ("s2", 2)
    goes_over = "trouble: this run plays season s2 now, after s1"
    assert watcher.seen == ["s1 begins: None", goes_over, "s2 begins: None"]


def test_a_run_without_end_plays_the_newest_season_and_says_so(store: Store, stop: Stop) -> None:
    store.seasons.open(ladder.a_season("s2", (2,)), ladder.SEED)
    watcher = Watcher(lambda: stop.ask(StopRequest.FINISH), troubles=True)
    report = run(store, RunRequest(forever=True), pool(fairly), watcher, stop)
    assert report.season == "s2"
    assert watcher.seen[0].startswith("trouble: this run plays s2, the newest season; s1 too")


def test_a_run_without_end_stops_while_it_waits_for_a_season(store: Store, stop: Stop) -> None:
    store.seasons.close("s1")
    watcher = Watcher(troubles=True)
    stop.ask(StopRequest.FINISH)
    report = run(store, RunRequest(forever=True), pool(fairly), watcher, stop)
    assert (report.ended, report.accepted) == (RunEnd.STOPPED, 0)
    assert watcher.seen == []


def test_a_run_that_waits_for_a_season_is_not_missed_until_it_has_ended(
    store: Store, stop: Stop, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.seasons.close("s1")
    looks: list[tuple[str, ...]] = []

    def look(seconds: float) -> None:
        looks.append(store.counts.read().resting_runners)
        stop.ask(StopRequest.FINISH)

    monkeypatch.setattr(stop, "pause", look)
    run(store, RunRequest(forever=True), pool(fairly), Watcher(troubles=True), stop)
    assert looks == [(f"the runner {lease_owner.own_run_name()} rests: no season is open",)]
    assert store.counts.read().runners == 0


def test_games_of_a_run_that_was_killed_are_taken_back(store: Store, stop: Stop) -> None:
    season = store.seasons.get("s1")
    store.jobs.add(season, ladder.rotations(ladder.ids(store)[:2], 2))
    ladder.claim(store, season, gone_owner())
    watcher = Watcher()
    run(store, RunRequest(games=2), pool(fairly), watcher, stop)
    assert watcher.seen == ["1 taken back", "s1 begins: 2"]


# Whether the order is settled


def test_a_provisional_bot_leaves_the_order_open(store: Store, stop: Stop) -> None:
    season = store.seasons.get("s1")
    run(store, RunRequest(games=24), pool(fairly), Watcher(), stop)
    ladder.submit(store, "dan")
    report = order_report(store, season, 0.51)
    assert report.provisional == ("dan",)
    assert not report.settled
    assert {pair.upper for pair in report.neighbours} <= {*ladder.ids(store)}
    assert report.open_pairs <= len(report.neighbours)


# Tournaments


def tournament(
    store: Store,
    stop: Stop,
    request: TournamentRequest,
    play: Callable[[Job], JobOutcome] = fairly,
    watcher: Watcher | None = None,
) -> TournamentResult:
    return play_tournament(
        store, request, pool(play), watcher or Watcher(), stop, fresh=lambda: ladder.SEED
    )


def stopped(store: Store, stop: Stop, request: TournamentRequest) -> RunReport:
    """Begin it, and stop it after its first game."""
    with pytest.raises(RunStopped) as ended:
        tournament(store, stop, request, watcher=Watcher(lambda: stop.ask(StopRequest.FINISH)))
    stop.requested = StopRequest.GO_ON
    return ended.value.report


@pytest.mark.parametrize(
    ("request_", "games"),
    [
        (TournamentRequest(kind="round-robin", name="cup"), 6),
        (TournamentRequest(kind="gauntlet", name="cup"), 4),
        (TournamentRequest(kind="round-robin", name="cup", meetings=2), 12),
    ],
)
def test_a_tournament_is_a_closed_season_of_its_own(
    store: Store, stop: Stop, request_: TournamentRequest, games: int
) -> None:
    watcher = Watcher()
    result = tournament(store, stop, request_, watcher=watcher)
    assert (result.games, result.champion, result.seed) == (games, None, ladder.SEED.hex())
    assert [line.rank for line in result.scores] == [1, 2, 3]
    shares = [line.placement_score for line in result.scores]
    assert shares == sorted(shares, reverse=True)
    assert sum(line.games for line in result.scores) == 2 * games
    assert [report.accepted for report in watcher.reports] == [games]
    assert store.seasons.get("cup").closed_at is not None
    assert store.queue.counts(store.seasons.get("s1")).done == 0
    json.dumps(to_json(result), allow_nan=False)
    with pytest.raises(UserError, match="closed"):
        tournament(store, stop, request_)


def test_an_elimination_has_rounds_and_a_champion(store: Store, stop: Stop) -> None:
    request = TournamentRequest(kind="elimination", name="cup", bots=("cleo", "anna", "ben"))
    watcher = Watcher()
    result = tournament(store, stop, request, for_anna, watcher)
    assert result.champion == result.scores[0].bot == "anna"
    rounds = [line for line in watcher.seen if line.startswith("round")]
    assert rounds == ["round 1: 1 tables, 3 bots", "round 2: 1 tables, 2 bots"]
    assert result.games == 4


@pytest.mark.parametrize("after", daily([1, 2, 3], [2]))
def test_an_elimination_goes_on_without_a_bot_that_is_withdrawn(
    store: Store, stop: Stop, after: int
) -> None:
    """Anna wins every game until she is withdrawn, in the first round, at its end, in the last."""
    results = iter(range(1, 5))

    def withdraw() -> None:
        if next(results) == after:
            store.bots.withdraw("anna")

    request = TournamentRequest(kind="elimination", name="cup", bots=("cleo", "anna", "ben"))
    result = tournament(store, stop, request, for_anna, Watcher(withdraw))
    assert result.champion in (("ben", "cleo") if after == 1 else ("cleo",))
    assert result.champion == tournament_report(store, "cup").champion


def won_by(*favourites: str) -> Callable[[Job], JobOutcome]:
    """Games that the first of these bots at the table wins alone, without a fault of anybody."""

    def play(job: Job) -> JobOutcome:
        seats = [seat.bot for seat in job.seats]
        best = seats.index(next(bot for bot in favourites if bot in seats))
        for number in count():
            text = ladder.play(job, choices=str(number))
            placements = GameRecord.from_json(text).placements
            if placements[best] == 1 and placements.count(1) == 1:
                return FinishedGame(text)
        raise AssertionError

    return play


class Leaving(Watcher):
    """Withdraws bots, each after the first game at a table, and perhaps stops the run then."""

    def __init__(self, store: Store, exits: dict[frozenset[str], str], stop: Stop | None) -> None:
        super().__init__()
        self._store, self._exits, self._stop = store, exits, stop

    def finished(self, job: Job, receipt: Receipt) -> None:
        if (bot := self._exits.pop(frozenset(seat.bot for seat in job.seats), None)) is not None:
            self._store.bots.withdraw(bot)
            if self._stop is not None:
                self._stop.ask(StopRequest.FINISH)


def to_its_end(
    store: Store,
    stop: Stop,
    request: TournamentRequest,
    play: Callable[[Job], JobOutcome],
    watcher: Watcher,
) -> TournamentResult:
    """Repeat the request after each stop."""
    while True:
        try:
            return tournament(store, stop, request, play, watcher)
        except RunStopped:
            stop.requested = StopRequest.GO_ON


@pytest.mark.parametrize("stops", [False, True])
def test_who_leaves_a_later_round_has_won_the_former_one(
    store: Store, stop: Stop, *, stops: bool
) -> None:
    """Eve leaves the first round, anna, who had won that table, the second: finn is left."""
    for name in ladder.NAMES[3:]:
        ladder.submit(store, name)
    request = TournamentRequest(kind="elimination", name="cup", bots=ladder.NAMES, seats=3)
    exits = {frozenset({"anna", "dan", "eve"}): "eve", frozenset({"anna", "finn"}): "anna"}
    watcher = Leaving(store, exits, stop if stops else None)
    result = to_its_end(store, stop, request, won_by("anna", "finn", "dan", "eve"), watcher)
    report = tournament_report(store, "cup")
    assert result.champion == report.champion == "finn"
    assert result.games == 1 + 3 + 1
    advanced = [[line.bot for t in r for line in t.lines if line.advances] for r in report.rounds]
    assert advanced == [["anna", "finn"], ["finn"]]
    assert report.tournament.winners == result.winners == ("finn",)


def test_a_round_robin_says_how_many_games_its_ranks_need(store: Store, stop: Stop) -> None:
    """Also later, when its bots have other versions."""
    request = TournamentRequest(kind="round-robin", name="cup")
    certainty = tournament(store, stop, request).certainty
    assert certainty is not None
    assert (certainty.pairs, certainty.open_pairs) == (2, 2)
    assert certainty.least_games > 6
    assert re.fullmatch(
        r"ranks are sure with 95 % for 0 of 2 pairs of neighbours; for all it takes more games, "
        r"about (at least )?[\d,]+ .*",
        certainty.words,
    )
    ladder.submit(store, "anna", "better", author="anna-senior")
    assert tournament_report(store, "cup").certainty == certainty
    few = replace(request, kind="elimination", name="few")
    assert tournament(store, stop, few).certainty is None


def test_who_was_enabled_again_stays_out_of_a_tournament(store: Store, stop: Stop) -> None:
    request = TournamentRequest(kind="elimination", name="cup", bots=("cleo", "anna", "ben"))
    stopped(store, stop, request)
    store.bots.withdraw("cleo")  # who is to be in the second round
    store.bots.enable("cleo")
    result = tournament(store, stop, request, won_by("anna"))
    assert {line.bot for line in result.scores} == {"anna", "ben"}
    assert result.champion in ("anna", "ben")


def test_who_was_out_before_a_tournament_has_no_game_in_it(store: Store, stop: Stop) -> None:
    store.bots.withdraw("ben")
    request = TournamentRequest(kind="elimination", name="cup", bots=("cleo", "anna", "ben"))
    result = tournament(store, stop, request, won_by("anna"))
    assert ([line.bot for line in result.scores], result.champion) == (["anna", "cleo"], "anna")


def test_when_all_leave_nobody_wins(store: Store, stop: Stop) -> None:
    request = TournamentRequest(kind="elimination", name="cup", bots=("anna", "ben"))
    stopped(store, stop, request)
    for bot in request.bots:
        store.bots.withdraw(bot)
    result = tournament(store, stop, request)
    assert (result.champion, result.winners, result.games) == (None, (), 1)


def test_a_result_of_a_game_that_was_cancelled_comes_too_late(store: Store, stop: Stop) -> None:
    """The tournament has gone on without it."""
    request = TournamentRequest(kind="round-robin", name="cup")
    season = begin_tournament(store, request, lambda: ladder.SEED)
    store.jobs.add(season, ladder.rotations(ladder.ids(store)[:2], 2))
    job = ladder.claim(store, season)
    store.bots.withdraw("anna")
    store.jobs.hand_back("worker")
    receipt = store.games.report(job, ladder.play(job))
    assert (receipt.status, receipt.reason) == (ReceiptStatus.REFUSED, "anna is withdrawn")


@pytest.mark.parametrize("kind", ["round-robin", "elimination", "final"])
def test_bots_that_never_move_are_level(store: Store, stop: Stop, kind: TournamentKind) -> None:
    request = TournamentRequest(kind=kind, name="cup", games=20 * (kind == "final"))
    result = tournament(store, stop, request, idle)
    report = tournament_report(store, "cup")
    ranks = [line.rank for line in report.scores]
    levels = [table.level for tables in report.rounds for table in tables]
    match kind:
        case "elimination":
            assert (ranks[0], report.champion, ranks[1:]) == (1, "anna", [2, 2])
            assert (levels, result.winners) == ([("ben", "cleo"), ("anna", "ben")], ("anna",))
        case "round-robin":
            assert (ranks, result.winners) == ([1, 1, 1], ("anna", "ben", "cleo"))
        case _:
            assert (ranks, result.winners) == ([1, 1, 1], ())
    assert report.tournament.winners == result.winners


def idle(job: Job) -> JobOutcome:
    """Play a game in which nobody ever takes a treasure."""
    return FinishedGame(ladder.idle(job))


FINAL = TournamentRequest(kind="final", name="cup", games=400)


def anna_first(job: Job) -> JobOutcome:
    """Play a game that anna wins without a fault of anybody; several tests have the same games."""
    seats = [seat.bot for seat in job.seats]
    if (key := (job.game_id, *seats)) not in _WON:
        for number in count():
            _WON[key] = ladder.play(job, choices=str(number))
            placements = GameRecord.from_json(_WON[key]).placements
            if "anna" not in seats or placements[seats.index("anna")] == 1:
                break
    return FinishedGame(_WON[key])


_WON: dict[tuple[str, ...], str] = {}


def test_a_final_ends_with_a_winner_and_says_who_left(store: Store, stop: Stop) -> None:
    watcher = Watcher()
    result = tournament(store, stop, FINAL, anna_first, watcher)
    report = tournament_report(store, "cup")
    assert result.champion == report.champion == result.scores[0].bot == "anna"
    assert result.final == report.final
    assert result.final is not None
    assert (result.final.decided, result.final.winners) == (True, ("anna",))
    assert {(line.bot, line.behind) for line in result.final.left} == {
        ("ben", "anna"),
        ("cleo", "anna"),
    }
    assert watcher.seen.count("round 1: 30 tables, 3 bots") == 1
    (line,) = tournaments(store)
    assert (line.winners, line.played) == (("anna",), result.games)
    assert result.games < 400


# Other tournaments that are stopped go on below in every run.
@pytest.mark.release
def test_a_final_that_is_stopped_goes_on_to_the_same_end(store: Store, stop: Stop) -> None:
    results = iter(range(1, 1000))

    def finish() -> None:
        if next(results) in (5, 40):
            stop.ask(StopRequest.FINISH)

    for _ in range(2):
        with pytest.raises(RunStopped):
            tournament(store, stop, FINAL, anna_first, Watcher(finish))
        stop.requested = StopRequest.GO_ON
    with pytest.raises(PairingError, match="begun with other bots or tables"):
        tournament(store, stop, replace(FINAL, games=300))
    result = tournament(store, stop, FINAL, anna_first)
    assert (result.champion, result.games) == ("anna", 60)


def test_a_final_without_a_winner_names_those_who_may_be(store: Store, stop: Stop) -> None:
    result = tournament(store, stop, replace(FINAL, games=30), fairly)
    assert (result.champion, result.games) == (None, 30)
    assert result.final is not None
    assert not result.final.decided
    assert sorted(result.final.winners) == ["anna", "ben", "cleo"]
    (line,) = tournaments(store)
    assert line.winners == ()


def test_a_final_goes_on_without_a_bot_that_is_withdrawn(store: Store, stop: Stop) -> None:
    results = iter(range(1, 1000))

    def withdraw() -> None:
        if next(results) == 9:
            store.bots.withdraw("anna")

    result = tournament(store, stop, replace(FINAL, games=45), anna_first, Watcher(withdraw))
    assert result.final is not None
    assert ("anna", None) in [(line.bot, line.behind) for line in result.final.left]
    assert "anna" not in result.final.winners
    assert result.final == tournament_report(store, "cup").final


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        (TournamentRequest(kind="gauntlet", name="cup", top=1), "are for a final"),
        (TournamentRequest(kind="round-robin", name="cup", games=9), "are for a final"),
        (replace(FINAL, top=3), "3 of 3 bots"),
        (replace(FINAL, games=100_001), "100,001 games, and a tournament 100,000 at most"),
        (
            TournamentRequest(kind="round-robin", name="cup", meetings=20_000),
            "round-robin of 3 bots with 20,000 meetings has 120,000 games",
        ),
        (TournamentRequest(kind="gauntlet", name="cup", meetings=30_000), "has 120,000 games"),
        (TournamentRequest(kind="elimination", name="cup", meetings=30_000), "has 120,000 games"),
        (TournamentRequest(kind="gauntlet", name="cup", bots=("anna", "Anna", "ben")), "once"),
    ],
)
def test_what_is_no_tournament_opens_no_season(
    store: Store, stop: Stop, request_: TournamentRequest, problem: str
) -> None:
    with pytest.raises((UserError, PairingError), match=problem):
        tournament(store, stop, request_)
    assert [season.name for season in store.seasons.all()] == ["s1"]


@pytest.mark.parametrize("kind", ["round-robin", "elimination"])
def test_games_of_a_tournament_are_queued_in_portions(
    store: Store, stop: Stop, monkeypatch: pytest.MonkeyPatch, kind: TournamentKind
) -> None:
    """A run that is killed between two of them goes on where it was."""
    add, portions = store.jobs.add, list[int]()

    def add_and_count(*words: Any, **options: Any) -> list[str]:
        if len(portions) == 1:
            portions.append(0)
            raise KeyboardInterrupt
        portions.append(len(added := add(*words, **options)))
        return added

    monkeypatch.setattr(tournaments_module, "PORTION", 5)
    monkeypatch.setattr(store.jobs, "add", add_and_count)
    request = TournamentRequest(kind=kind, name="cup", meetings=4)
    with pytest.raises(KeyboardInterrupt):
        tournament(store, stop, request)
    result = tournament(store, stop, request)
    assert max(portions) == 4
    assert sum(portions) == result.games == {"round-robin": 24, "elimination": 16}[kind]
    assert store.ratings.differences(store.seasons.get("cup"), records=True) == []


def test_a_tournament_is_between_the_best_bot_of_each_author_where_the_season_says_so(
    store: Store, stop: Stop
) -> None:
    settings = structs.replace(ladder.a_season("s2", (2,)), best_of_author=True)
    season = store.seasons.open(settings, ladder.SEED)
    _, ben, cleo = ladder.ids(store)
    andy, amos = (ladder.submit(store, name, author="anna-senior").id for name in ("andy", "amos"))
    tables = ([andy, cleo], [amos, ben], [andy, ben])
    store.jobs.add(season, [ladder.rotations(table, 2)[0] for table in tables])
    losers = ("cleo", "cleo", "amos", "amos", "andy", "andy")
    ladder.play_all(store, season, {f"s2-{n}": [bot] for n, bot in enumerate(losers, 1)})
    store.bots.withdraw("cleo")
    ladder.submit(store, "dan")
    request = TournamentRequest(kind="elimination", name="cup", season="s2")
    result = tournament(store, stop, request, for_anna)
    report = tournament_report(store, "cup")
    assert [bot for bot, _ in report.entrants] == ["ben", "andy", "dan"]
    assert len(result.scores) == 3
    named = TournamentRequest(kind="gauntlet", name="two", season="s2", bots=("amos", "andy"))
    assert len(tournament(store, stop, named).scores) == 2
    assert len(show_standings(store, "two").standings) == 2


def test_a_tournament_is_listed_with_its_progress_and_its_winner(store: Store, stop: Stop) -> None:
    request = TournamentRequest(kind="round-robin", name="cup")
    stopped(store, stop, request)
    (line,) = tournaments(store)
    assert 0 < line.played < line.games == 6
    assert line.winners == ()
    result = tournament(store, stop, request)
    (line,) = tournaments(store)
    report = tournament_report(store, "cup")
    assert (line.played, line.games, line.winners) == (6, 6, (result.scores[0].bot,))
    assert report.tournament == line
    assert report.scores == result.scores
    assert {score.author for score in report.scores} >= {"anna-senior"}


def test_a_stopped_tournament_goes_on_with_the_same_bots_only(store: Store, stop: Stop) -> None:
    request = TournamentRequest(kind="round-robin", name="cup")
    report = stopped(store, stop, request)
    assert (report.accepted, report.season) == (1, "cup")
    others = TournamentRequest(kind="round-robin", name="cup", bots=("anna", "ben"), season="s1")
    with pytest.raises(PairingError, match="other bots"):
        tournament(store, stop, others)
    watcher = Watcher()
    result = tournament(store, stop, request, watcher=watcher)
    assert ([report.accepted for report in watcher.reports], result.games) == ([5], 6)


def test_a_tournament_goes_on_with_the_bots_that_it_began_with(store: Store, stop: Stop) -> None:
    request = TournamentRequest(kind="round-robin", name="cup")
    stopped(store, stop, request)
    ladder.submit(store, "anna", "better")
    ladder.submit(store, "late")
    result = tournament(store, stop, request)
    assert {(line.bot, line.version) for line in result.scores} == {
        ("anna", 1),
        ("ben", 1),
        ("cleo", 1),
    }


def test_a_tournament_takes_no_season_over_that_it_did_not_open(store: Store, stop: Stop) -> None:
    for name in ("s1", "s2"):
        if name == "s2":
            store.seasons.open(ladder.a_season("s2"), ladder.SEED)
        with pytest.raises(UserError, match=f"season '{name}' is no tournament's"):
            tournament(store, stop, TournamentRequest(kind="round-robin", name=name))
        assert store.seasons.get(name).closed_at is None


def test_a_run_leaves_the_seasons_of_tournaments_alone(store: Store, stop: Stop) -> None:
    request = TournamentRequest(kind="round-robin", name="cup")
    stopped(store, stop, request)
    games = RunRequest(games=1)
    assert run(store, games, pool(fairly), Watcher(), stop).season == "s1"
    cup = RunRequest(season="cup", games=1)
    with pytest.raises(UserError, match="'cup' is a tournament's"):
        run(store, cup, pool(fairly), Watcher(), stop)


def test_a_run_waits_for_a_busy_store(
    store: Store, stop: Stop, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, left = store.seasons.all, iter([True, True])

    def busy() -> list[StoredSeason]:
        if next(left, False):
            raise StoreUnavailable("the ladder is busy")
        return real()

    monkeypatch.setattr(store.seasons, "all", busy)
    monkeypatch.setattr(stop, "pause", lambda seconds: None)
    watcher = Watcher(troubles=True)
    assert run(store, RunRequest(games=1), pool(fairly), watcher, stop).accepted == 1
    assert "trouble: the ladder is busy; trying again" in watcher.seen


def test_a_run_waits_for_room_on_a_full_disk(
    store: Store, stop: Stop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk has room again after the third pause."""
    connections: list[sqlite3.Connection] = []

    def limit(connection: sqlite3.Connection, _: object) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages + 1}")
        connections.append(connection)

    with closing(sqlite3.connect(str(store.database))) as file:
        ((pages,),) = file.execute("PRAGMA page_count")
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            event.remove(Engine, "connect", limit)
            for connection in connections:
                with suppress(sqlite3.ProgrammingError):  # it is closed
                    connection.execute("PRAGMA max_page_count = 1000000")

    monkeypatch.setattr(stop, "pause", pause)
    watcher = Watcher(troubles=True)
    event.listen(Engine, "connect", limit)
    try:
        with Store.open(str(store.database)) as limited:
            run(limited, RunRequest(games=24), pool(fairly), watcher, stop)
            season = limited.seasons.get("s1")
            assert limited.ratings.differences(season, records=True) == []
    finally:
        if event.contains(Engine, "connect", limit):
            event.remove(Engine, "connect", limit)
    (trouble,) = (line for line in watcher.seen if line.startswith("trouble: "))
    full = "the disk is full; nothing was changed, free some space; trying again"
    assert trouble.endswith(full)
    assert pauses == [0.5, 1.0, 2.0]
    assert store.queue.counts(store.seasons.get("s1")).done == 24


def test_a_run_ends_when_its_ladder_is_removed(store: Store, stop: Stop) -> None:
    def removing(job: Job) -> JobOutcome:
        Path(str(store.database)).unlink()
        return fairly(job)

    with pytest.raises(StoreGone, match="was removed or replaced while"):
        run(store, RunRequest(games=8), pool(removing), Watcher(), stop)


def test_a_closed_season_gets_no_run(store: Store, stop: Stop) -> None:
    store.seasons.close("s1")
    with pytest.raises(SeasonClosed, match="'s1' is closed"):
        run(store, RunRequest(games=1), pool(fairly), Watcher(), stop)


def test_a_tournament_without_results_says_what_to_do(store: Store, stop: Stop) -> None:
    request = TournamentRequest(kind="round-robin", name="cup", bots=("anna", "ben"))
    with pytest.raises(RefereeError, match="requeue"):
        tournament(store, stop, request, lambda job: VoidOutcome("no luck"))
    assert store.seasons.get("cup").closed_at is None


@pytest.mark.parametrize("fails", [False, True])
def test_the_ladders_runner_plays_a_tournament_that_was_begun_before_its_season(
    store: Store, stop: Stop, *, fails: bool
) -> None:
    """If its games fail the season goes on, until somebody has them tried again."""
    lucky = not fails

    def play_if_lucky(job: Job) -> JobOutcome:
        unlucky = job.season.name == "cup" and not lucky
        return VoidOutcome("no luck") if unlucky else fairly(job)

    class Keeper(Watcher):
        def finished(self, job: Job, receipt: Receipt) -> None:
            nonlocal lucky
            if job.season.name == "s1":
                lucky = True
                store.jobs.requeue_all(actor=MACHINE)
                store.seasons.close("s1")

        def trouble(self, message: str) -> None:
            self.seen.append(message.partition(":")[0])
            if message.startswith("no season"):
                stop.ask(StopRequest.FINISH)

    watcher = Keeper()
    request = TournamentRequest(kind="round-robin", name="cup")
    begin_tournament(store, request, lambda: ladder.SEED, MACHINE)
    begun = partial(play_begun, store, pool(play_if_lucky), watcher, stop)
    run(store, RunRequest(forever=True), pool(fairly), watcher, stop, play_tournament=begun)
    said = [line for line in watcher.seen if "no luck" not in line]
    played = ["cup begins: None", "this run plays season s1 now, after cup", "s1 begins: None"]
    if fails:
        played.insert(1, "tournament cup")
        played += ["this run plays season cup now, after s1", "cup begins: None"]
    assert said == [*played, "no season is open; waiting for one"]
    assert store.queue.counts(cup := store.seasons.get("cup")).done == 6
    assert cup.closed_at is not None


# Owners of leases


def test_only_a_run_that_has_certainly_ended_is_gone() -> None:
    own = lease_owner.own_run_name()
    place, pid, began = own.rsplit("/", 2)
    assert not lease_owner.is_gone(own)
    assert lease_owner.is_gone(f"{place}/{pid}/1")
    assert lease_owner.is_gone(f"{place}/{2**22 + 1}/{began}")
    assert not lease_owner.is_gone(f"elsewhere/1/{pid}/1")
    assert not lease_owner.is_gone("worker")


def test_a_run_that_proc_hides_is_not_gone_and_its_games_count(
    played: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As from the service of the pages, which has PrivateUsers= and ProtectProc=.
    own = lease_owner.own_run_name()
    hide(monkeypatch, os.getpid())
    season = played.seasons.get("s1")
    played.jobs.add(season, ladder.rotations(ladder.ids(played), 1))
    alive = ladder.claim(played, season, own)
    assert close_season(played, "s1") == ClosedSeason("s1", None, 1)
    assert played.games.report(alive, ladder.play(alive)).status is ReceiptStatus.ACCEPTED
    assert lease_owner.is_gone(gone_owner())


def test_games_of_a_killed_run_wait_again_at_once(played: Store) -> None:
    season = played.seasons.get("s1")
    played.jobs.add(season, ladder.rotations(ladder.ids(played), 2))
    ladder.claim(played, season, gone_owner())
    ladder.claim(played, season, "somebody else")
    assert lease_owner.take_back(played) == 1
    (left,) = played.queue.listed(season, TaskState.RUNNING)
    assert left.owner == "somebody else"
    with pytest.raises(UserError, match="'nobody' has leases; there are somebody else"):
        lease_owner.release_leases(played, "nobody")
    assert lease_owner.release_leases(played, "somebody else") == 1
    assert played.queue.counts(season).waiting == 2


def test_a_season_that_is_closed_does_not_wait_for_killed_runs(played: Store) -> None:
    season = played.seasons.get("s1")
    played.jobs.add(season, ladder.rotations(ladder.ids(played), 2))
    ladder.claim(played, season, gone_owner())
    alive = ladder.claim(played, season, "somebody else")
    assert close_season(played, "s1") == ClosedSeason("s1", None, 1)
    played.games.report(alive, ladder.play(alive))
    assert close_season(played, "s1") == ClosedSeason("s1", ladder.SEED.hex(), 0)

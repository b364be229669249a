"""The loop: who is asked what, what a fault costs, and whose trouble voids a game."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from deepsea_referee.errors import RefereeError
from deepsea_referee.play_game import play_by_requests
from deepsea_rules.faults import FAULTS_TO_FORFEIT, Fault, FaultReport
from deepsea_rules.game import Game, GameRecord, verify
from deepsea_rules.randomness import game_seed, seed_from_text
from deepsea_rules.ruleset import PRESETS
from deepsea_rules.time_control import TimeControl
from deepsea_rules.view import View
from deepsea_sdk._pb import play_pb2 as pb
from deepsea_sdk.table import RefereedGame
from helpers.streams import Decide, Table, first_legal, last_legal

SEED = seed_from_text("match")
MANUAL = PRESETS["manual"]


def new_game(players: int, number: int = 0, rules: str = "manual") -> Game:
    return Game(PRESETS[rules], players, game_seed(SEED, number))


def at_decision(number: int, deed: Callable[[], object], decide: Decide = last_legal) -> Decide:
    """A bot that does something at one of its decisions, counted from 0."""
    count = -1

    def decided(request: pb.DecisionRequest) -> str:
        nonlocal count
        count += 1
        if count == number:
            deed()
        return decide(request)

    return decided


@pytest.mark.parametrize("rules", PRESETS)
@pytest.mark.parametrize("players", range(2, 7))
async def test_a_game_ends_and_its_record_is_accepted(rules: str, players: int) -> None:
    game = new_game(players, rules=rules)
    faults = await Table([last_legal] * players).play(game)
    assert faults == []
    record = GameRecord.of(game, game_id="g", clock="1s", seats=[("bot", "00")] * players)
    verify(GameRecord.from_json(record.to_json()))


async def test_every_seat_is_told_the_start_the_questions_and_the_end_in_this_order() -> None:
    game = new_game(3)
    table = Table([last_legal, first_legal, last_legal])
    await table.play(game)
    for seat, stream in enumerate(table.streams):
        (start,), (over,), requests = map(stream.all, ("starts", "results", "requests"))
        assert (start.game_id, start.seat, start.seats) == (game.commitment[:16], seat, 3)
        assert start.commitment == game.commitment
        assert (start.clock.budget_us, start.clock.bank_us) == (100_000, 2_000_000)
        assert len(requests) == sum(decision.seat == seat for decision in game.decisions)
        assert all(request.view.seat == seat for request in requests)
        # Nobody is asked where there is no choice.
        assert all(len(request.legal) > 1 for request in requests)
        # Each event comes once, at the latest with the end.
        told = [event for request in requests for event in request.events] + [*over.events]
        assert len(told) == len(game.events)
        assert over.seed == game.seed
        assert tuple(over.values) == game.state.values[1:]
        assert tuple(over.placements) == game.result().placements
        kinds = [
            kind
            for message in stream.messages()
            for kind in ("starts", "requests", "results")
            if len(getattr(message, kind))
        ]
        assert kinds == ["starts", *["requests"] * len(requests), "results"]


async def test_a_bot_that_reads_no_events_gets_none() -> None:
    game = new_game(3)
    table = Table([last_legal, first_legal, last_legal])
    table.sessions[1].features = frozenset({"no_events"})
    await table.play(game)
    for seat, stream in enumerate(table.streams):
        parts = [*stream.all("requests"), *stream.all("results")]
        events = [event for part in parts for event in part.events]
        assert len(events) == (0 if seat == 1 else len(game.events))


async def test_a_game_whose_events_nobody_reads_keeps_none() -> None:
    game = new_game(2)
    table = Table([last_legal, last_legal])
    for session in table.sessions:
        session.features = frozenset({"no_events"})
    await table.play(game)
    assert game.events == []
    record = GameRecord.of(game, game_id="g", clock="1s", seats=[("bot", "00")] * 2)
    assert len(verify(record).events) > len(game.decisions) / 2


NONSENSE = ["", "fly", "take ", "TAKE", "drop:", "drop:9", "order:1", "\0", "täke", "x" * 5_000]


@pytest.mark.parametrize("text", NONSENSE, ids=range(len(NONSENSE)))
async def test_an_answer_that_is_not_legal_is_counted_and_the_default_played(text: str) -> None:
    game = new_game(2)
    asked = 0

    def wrong_once(request: pb.DecisionRequest) -> str:
        nonlocal asked
        asked += 1
        return text if asked == 3 else last_legal(request)

    table = Table([wrong_once, last_legal])
    (report,) = await table.play(game)
    own = [decision for decision in game.decisions if decision.seat == 0]
    assert report == FaultReport(
        seat=0,
        decision=game.decisions.index(own[2]),
        fault=Fault.ILLEGAL_ACTION,
        kind=report.kind,
        legal=report.legal,
        came=report.came,
        us=0,
        played=report.legal[0],
        forfeit=False,
    )
    assert game.decisions[report.decision].fault is Fault.ILLEGAL_ACTION
    assert game.decisions[report.decision].action == report.legal[0]
    assert report.came.isascii()
    assert report.came.isprintable()
    assert len(report.came) < 120
    # The bot gets the notice before its next question.
    (notice,) = table.streams[0].all("faults")
    assert notice.fault == pb.FAULT_ILLEGAL_ACTION
    assert notice.message == report.explanation()
    assert report.came in notice.message
    assert not notice.forfeit
    # The others hear nothing of it.
    assert table.streams[1].all("faults") == []


async def test_the_third_fault_forfeits_and_the_seat_is_not_asked_again() -> None:
    game = new_game(3)
    table = Table([last_legal, lambda request: "win", last_legal])
    faults = await table.play(game)
    assert [report.forfeit for report in faults] == [False, False, True]
    assert len(faults) == FAULTS_TO_FORFEIT
    own = [decision for decision in game.decisions if decision.seat == 1]
    assert len(own) == FAULTS_TO_FORFEIT
    assert game.result().placements[1] == 3
    (forfeit,) = game.forfeits
    assert (forfeit.seat, forfeit.fault) == (1, Fault.ILLEGAL_ACTION)
    # It still sees the game through.
    stream = table.streams[1]
    assert [notice.forfeit for notice in stream.all("faults")] == [False, False, True]
    assert len(stream.all("results")) == 1


async def test_overruns_are_drawn_from_the_bank_and_each_question_says_what_is_left() -> None:
    game = new_game(2)
    left: list[int] = []

    def slow(request: pb.DecisionRequest) -> str:
        left.append(request.bank_us)
        table.clock.jump(1_000 if len(left) == 2 else 130 if len(left) < 5 else 100)
        return last_legal(request)

    table = Table([slow, last_legal])
    assert await table.play(game, TimeControl(100, 1_000)) == []
    assert left == [1_000, 970, 70, 40, 10, *[10] * (len(left) - 5)]
    times = [decision.us for decision in game.decisions if decision.seat == 0]
    assert times[:5] == [130, 1_000, 130, 130, 100]
    assert {decision.us for decision in game.decisions if decision.seat == 1} == {0}


async def test_a_timeout_plays_the_default_and_its_late_answer_changes_nothing() -> None:
    game = new_game(2)
    table = Table([at_decision(4, lambda: table.clock.jump(1_101)), last_legal])
    (report,) = await table.play(game, TimeControl(100, 1_000))
    assert report.fault is Fault.TIMEOUT
    assert report.us == 1_101
    assert report.played == report.legal[0]
    late = game.decisions[report.decision]
    assert (late.action, late.us, late.fault) == (report.legal[0], 1_101, Fault.TIMEOUT)
    # The bank is used up, the budget is not: the bot plays on.
    requests = table.streams[0].all("requests")
    assert [request.bank_us for request in requests[:6]] == [1_000] * 5 + [0]
    assert len([d for d in game.decisions if d.fault]) == 1


async def test_a_crash_forfeits_at_once_and_the_others_play_on() -> None:
    game = new_game(3)
    table = Table([last_legal, last_legal, last_legal])
    table.streams[1]._decide = at_decision(2, table.streams[1].end)
    (report,) = await table.play(game)
    assert (report.seat, report.fault, report.forfeit) == (1, Fault.CRASH, True)
    assert sum(decision.seat == 1 for decision in game.decisions) == 3
    assert game.result().placements[1] == 3
    assert all(len(table.streams[seat].all("results")) == 1 for seat in (0, 2))


async def test_trouble_on_the_referees_side_voids_the_game_and_nobody_is_at_fault() -> None:
    class Broken(Game):
        def view(self, seat: int | None) -> View:
            if len(self.decisions) == 7:
                raise ZeroDivisionError("a bug")
            return super().view(seat)

    game = Broken(MANUAL, 2, SEED)
    table = Table([last_legal, last_legal])
    with pytest.raises(RefereeError, match="ZeroDivisionError: a bug"):
        await table.play(game)
    await table.close()
    assert all(decision.fault is None for decision in game.decisions)
    for stream in table.streams:
        (over,) = stream.all("results")
        assert over.is_void
        assert not over.seed
        assert not over.points


async def test_many_games_share_the_same_streams() -> None:
    together = Table([last_legal, last_legal, last_legal])
    games = [new_game(3, number) for number in range(8)]
    control = TimeControl(100_000)
    refereed = [RefereedGame(game, f"g{n}", control) for n, game in enumerate(games)]
    await asyncio.gather(*(play_by_requests(game, together.sessions) for game in refereed))
    await together.close()
    batches = [
        len(message.requests) for stream in together.streams for message in stream.messages()
    ]
    assert max(batches) > 1
    for number, game in enumerate(games):
        alone = new_game(3, number)
        await Table([last_legal] * 3).play(alone, control)
        assert game.decisions == alone.decisions
        assert game.result() == alone.result()


async def test_a_bot_that_fails_in_one_game_fails_in_all_that_run() -> None:
    table = Table([last_legal, last_legal])
    table.streams[0]._decide = at_decision(9, table.streams[0].end)
    games = [new_game(2, number) for number in range(3)]
    control = TimeControl(100_000)
    refereed = [RefereedGame(game, f"g{n}", control) for n, game in enumerate(games)]
    await asyncio.gather(*(play_by_requests(game, table.sessions) for game in refereed))
    await table.close()
    for game, outcome in zip(games, refereed, strict=True):
        (report,) = outcome.faults
        assert (report.seat, report.fault) == (0, Fault.CRASH)
        assert game.result().placements == (2, 1)

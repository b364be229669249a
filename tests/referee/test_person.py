"""The seat of a person: another clock, an answer from a thread, and nothing that a bot has not."""

from __future__ import annotations

import asyncio
import threading

import pytest

from deepsea_referee.errors import RefereeError
from deepsea_referee.person import LATE, PersonRequest, PersonSeat
from deepsea_referee.play_game import play_by_requests
from deepsea_referee.workbench.checks import RandomSeat
from deepsea_rules.faults import Fault
from deepsea_rules.game import Game, verify
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import PRESETS
from deepsea_rules.time_control import TimeControl
from deepsea_sdk.bot import NO_CLOCK
from deepsea_sdk.table import RefereedGame
from helpers.manual_clock import ManualClock

BOTS_CLOCK = TimeControl(1_000)
SEAT = 1


class Somebody:
    """Plays the last of the legal actions."""

    def __init__(self) -> None:
        self.asked: list[PersonRequest] = []
        self.woken = ""

    def begin(self, game: RefereedGame, seat: int) -> None:
        assert (game.names, seat) == (["bot", "you"], SEAT)

    def decide(self, request: PersonRequest) -> str | None:
        self.asked.append(request)
        return request.view.legal[-1]

    def wake(self, why: str) -> None:
        self.woken = why


def refereed() -> RefereedGame:
    game = Game(PRESETS["manual"], 2, seed_from_text("demo"))
    return RefereedGame(game, "demo", BOTS_CLOCK, [("bot", "0"), ("you", "")])


async def play(
    game: RefereedGame,
    person: Somebody,
    clock: ManualClock | None = None,
    control: TimeControl | None = None,
) -> None:
    seat = PersonSeat(person, control, clock or ManualClock(), game, SEAT)
    await play_by_requests(game, [RandomSeat(game.game, 0), seat])


async def test_a_person_gets_what_its_seat_is_sent_and_has_no_clock() -> None:
    game, person = refereed(), Somebody()
    await play(game, person)
    played = game.played()
    verify(played.record)
    assert not played.faults
    assert played.record.clock == BOTS_CLOCK.format()
    own = [decision for decision in played.record.decisions if decision.seat == SEAT]
    assert [request.view.legal[-1] for request in person.asked] == [one.action for one in own]
    assert {request.time_left for request in person.asked} == {NO_CLOCK}
    assert game.game_info(SEAT).budget_us == NO_CLOCK.budget_us
    assert game.game_info(0).budget_us == BOTS_CLOCK.budget_us
    told = [event for request in person.asked for event in request.events]
    assert told == game.game.events_for(SEAT)[: len(told)]


async def test_a_person_who_is_late_is_woken_and_an_answer_after_that_is_dropped() -> None:
    class Late(Somebody):
        def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
            super().__init__()
            self.loop = loop
            self.is_over = threading.Event()

        def decide(self, request: PersonRequest) -> str | None:
            if not self.asked:
                super().decide(request)
                # Exactly the limit is still in time, by the clock of the event loop.
                self.loop.call_soon_threadsafe(clock.jump, 5_000)
                self.loop.call_soon_threadsafe(lambda: clock.jump(1))
                assert self.is_over.wait(60)
                assert not request.is_wanted()
                return request.view.legal[-1]
            return super().decide(request)

        def wake(self, why: str) -> None:
            super().wake(why)
            self.is_over.set()

    game, clock = refereed(), ManualClock()
    person = Late(asyncio.get_running_loop())
    await play(game, person, clock, TimeControl(2_000, 3_000))
    assert person.woken == LATE
    [report] = game.faults
    assert (report.seat, report.fault, report.us) == (SEAT, Fault.TIMEOUT, 5_001)
    first = next(one for one in game.game.decisions if one.seat == SEAT)
    assert first.action == person.asked[0].view.legal[0]
    assert person.asked[1].time_left == (2_000, 0)
    assert game.time_left(0) == (1_000, 0)


async def test_an_error_of_what_asks_the_person_voids_the_game() -> None:
    class Broken(Somebody):
        def decide(self, request: PersonRequest) -> str | None:
            raise ValueError("broken")

    with pytest.raises(RefereeError, match="ValueError: broken"):
        await play(refereed(), Broken())

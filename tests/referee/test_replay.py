"""A recorded game seen from a seat: the views, events and times that the seat had."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from deepsea_referee.errors import UserError
from deepsea_referee.workbench.replay import Replay, deciding_line
from deepsea_rules.errors import InvalidRecord
from deepsea_rules.events import Event
from deepsea_rules.faults import Fault
from deepsea_rules.game import Game, GameRecord
from deepsea_rules.time_control import TimeControl
from deepsea_rules.view import View
from deepsea_sdk.bot import NO_CLOCK, Bot, GameEnd, GameInfo, TimeLeft
from deepsea_sdk.table import play


class Heard(NamedTuple):
    """One call that a bot got."""

    what: str
    value: object
    limits: tuple[float, float]


class Diary(Bot):
    """Writes down the messages that it gets, and takes up to two units."""

    def __init__(self) -> None:
        self.heard: list[Heard] = []

    def hear(self, what: str, value: object) -> None:
        self.heard.append(Heard(what, value, (self.clock.budget, self.clock.bank)))

    def on_game_start(self, info: GameInfo) -> None:
        self.hear("start", info)

    def on_event(self, event: Event) -> None:
        self.hear("event", event)

    def on_game_end(self, end: GameEnd) -> None:
        self.hear("end", end)

    def decide(self, view: View) -> str:
        self.hear("decide", view)
        return super().decide(view)

    def search(self, view: View) -> str:
        return "take" if "take" in view.legal and view.me.load < 2 else "leave"

    def turn_back(self, view: View) -> bool:
        return view.me.load >= 2


def recorded(game: Game, clock: str = "10us+30us") -> GameRecord:
    seats = [("diary", "00")] * game.players
    return GameRecord.of(game, game_id="local", clock=clock, seats=seats)


def timed(*seats: Bot) -> Game:
    """A game in which the n-th look at the clock comes n microseconds after the one before."""
    ticks = 0
    now = 0

    def now_us() -> int:
        nonlocal ticks, now
        ticks += 1
        now += ticks % 14
        return now

    return play(seats, seed="course", clock=TimeControl(10, 30), now_us=now_us)


@pytest.mark.parametrize("seat", range(3))
def test_a_bot_is_told_what_the_seat_was_told(seat: int) -> None:
    bots = [Diary(), Diary(), Diary()]
    game = timed(*bots)
    again = Diary()
    steps = list(Replay(recorded(game), seat).feed(again))
    assert again.heard == bots[seat].heard
    own = [d for d in game.decisions if d.seat == seat]
    assert [moment.decision for moment, *_ in steps] == own
    assert all(action == moment.decision.action for moment, action, *_ in steps)
    for moment, *_ in steps:
        assert game.decisions[moment.number] is not None
        assert moment.decision == game.decisions[moment.number]


def test_the_bank_is_what_was_left_of_it() -> None:
    game = timed(Diary(), Diary())
    moments = list(Replay(recorded(game), 0).moments())
    bank = 30
    for moment in moments:
        assert moment.time_left == TimeLeft(10, bank)
        bank = max(0, bank - max(0, moment.decision.us - 10))
        assert moment.bank_us == bank
    assert moments[-1].bank_us < 30


def test_what_the_bot_answers_now_changes_nothing() -> None:
    game = play([Diary(), Diary()], seed="course")

    class Other(Bot):
        pass

    steps = list(Replay(recorded(game), 1).feed(Other()))
    assert {action for _, action, *_ in steps} <= {"down", "leave"} | {
        action for _, action, *_ in steps if action.startswith("order:")
    }
    assert [m.decision for m, *_ in steps] == [d for d in game.decisions if d.seat == 1]


def test_faulty_decisions_are_told_as_they_were() -> None:
    class Wrong(Diary):
        def search(self, view: View) -> str:
            return "fly"

    game = play([Wrong(), Diary()], seed="course", on_error="forfeit")
    moments = list(Replay(recorded(game), 0).moments())
    assert [m.decision.fault for m in moments if m.decision.fault] == [Fault.ILLEGAL_ACTION] * 3
    assert moments[-1].decision.fault is Fault.ILLEGAL_ACTION  # forfeited: it was not asked again


def test_a_clock_that_cannot_be_read_is_none() -> None:
    record = recorded(play([Diary(), Diary()]), clock="by the sun")
    assert {m.time_left for m in Replay(record, 0).moments()} == {NO_CLOCK}


def test_seats_and_records_that_are_not_there() -> None:
    record = recorded(play([Diary(), Diary()]))
    with pytest.raises(UserError, match="A to B"):
        Replay(record, 2)
    with pytest.raises(InvalidRecord):
        Replay(replace(record, points=(1, 2)), 0)


class Turned(Diary):
    """Decides otherwise than it did."""

    def decide(self, view: View) -> str:
        return view.legal[view.legal.index(super().decide(view)) - 1]


class Broken(Diary):
    """Ends its program."""

    def decide(self, view: View) -> str:
        raise SystemExit(3)


def test_the_line_that_decided_is_known_while_the_bot_decides_so() -> None:
    record = play([Diary, Bot], seed="demo").record()
    number = next(n for n, one in enumerate(record.decisions) if one.seat == 0)
    home = Path(__file__).parent
    line = deciding_line(record, number, Diary, home)
    assert line is not None
    assert (line.file, line.function.split(".")[0]) == (__file__, "Diary")
    assert deciding_line(record, number, Turned, home) is None
    assert deciding_line(record, number, Broken, home) is None
    assert deciding_line(record, number, Diary, home / "elsewhere") is None


class Searching(Bot):
    """Leaves the decision itself to the SDK, which calls this method."""

    def search(self, view: View) -> str:
        return view.legal[-1]


def test_the_line_that_decided_is_not_one_of_the_sdk_beside_a_single_file() -> None:
    record = play([Searching, Bot], seed="demo").record()
    number = next(
        n for n, one in enumerate(record.decisions) if one.seat == 0 and one.action == "take"
    )
    line = deciding_line(record, number, Searching, Path(__file__))
    assert line is not None
    assert (line.file, line.function) == (__file__, "Searching.search")

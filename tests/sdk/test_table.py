"""In-process games: the same calls, faults and records as over the wire, and no own clock."""

from __future__ import annotations

import gc
import math
import re
import weakref
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import deepsea_sdk
from deepsea_rules.events import Event
from deepsea_rules.faults import Fault
from deepsea_rules.game import Decision, Game, GameRecord, verify
from deepsea_rules.ruleset import PRESETS
from deepsea_rules.time_control import TimeControl
from deepsea_rules.view import View
from deepsea_sdk.bot import AnyBot, Bot, FaultNotice, GameEnd, GameInfo
from deepsea_sdk.errors import IllegalAnswer
from deepsea_sdk.table import LocalGame, RefereedGame, play_by_calls


def play(
    bots: Sequence[AnyBot], rules: str = "manual", seed: str | bytes = "table", **options: Any
) -> LocalGame:
    return deepsea_sdk.play(bots, rules, seed, **options)


class Taker(Bot):
    """Takes up to two units and goes home."""

    def search(self, view: View) -> str:
        return "take" if "take" in view.legal and view.me.load < 2 else "leave"

    def turn_back(self, view: View) -> bool:
        return view.me.load >= 2


class Odd(Taker):
    """Does something at one of its decisions."""

    at = 2
    deed: Callable[[], str]

    def __init__(self) -> None:
        self.asked = -1
        self.notices: list[FaultNotice] = []

    def on_fault(self, notice: FaultNotice) -> None:
        self.notices.append(notice)

    def decide(self, view: View) -> str:
        self.asked += 1
        return type(self).deed() if self.asked == self.at else super().decide(view)


def odd(deed: Callable[[], str]) -> type[Odd]:
    return type("Made", (Odd,), {"deed": staticmethod(deed)})


def boom() -> str:
    raise OSError("no such\nfile")


def ticking(us: int) -> Callable[[], int]:
    """A clock that goes on by so much whenever it is read."""
    ticks: Iterator[int] = count(0, us)
    return lambda: next(ticks)


def faults(game: Game) -> list[Decision]:
    return [decision for decision in game.decisions if decision.fault is not None]


def test_a_bot_hears_of_the_game_its_events_and_its_end() -> None:
    class Listener(Taker):
        def __init__(self) -> None:
            self.heard: list[object] = []
            self.events: list[Event] = []

        def on_game_start(self, info: GameInfo) -> None:
            self.heard.append(info)

        def on_event(self, event: Event) -> None:
            self.events.append(event)

        def on_game_end(self, end: GameEnd) -> None:
            self.heard.append(end)

    bots = [Listener(), Listener()]
    game = play(bots, "guide", "heard", game_id="a game")
    for seat, bot in enumerate(bots):
        info, end = bot.heard
        assert isinstance(info, GameInfo)
        assert isinstance(end, GameEnd)
        assert (info.game_id, info.seat, info.players) == (game.commitment[:16], seat, 2)
        assert (info.rules, info.commitment) == (PRESETS["guide"], game.commitment)
        assert (end.points, end.placements) == tuple(game.result())
        assert (end.seat, end.seed, end.values) == (seat, game.seed, game.state.values)
        assert end.is_void is False
        assert [event["event"] for event in bot.events] == [
            event["event"] for event in game.events_for(seat)
        ]


def test_a_hook_that_was_put_on_an_object_is_called() -> None:
    heard: list[object] = []
    bot = Taker()
    for name in ("on_game_start", "on_event", "on_game_end"):
        setattr(bot, name, heard.append)
    game = play([Taker, bot], seed="put on")
    assert isinstance(heard[0], GameInfo)
    assert heard[1:-1] == game.events_for(1)
    assert isinstance(heard[-1], GameEnd)


def test_a_table_is_gone_with_its_game() -> None:
    bots = [Taker(), Taker()]
    gc.disable()
    try:
        gone = weakref.ref(play(bots, seed="gone"))
        assert gone() is None
    finally:
        gc.enable()


def test_an_illegal_answer_comes_out_with_the_method_that_returned_it() -> None:
    class Flying(Taker):
        def search(self, view: View) -> str:
            return "fly"

    with pytest.raises(IllegalAnswer, match=r"Flying\.search returned 'fly', which is not one of "):
        play([Taker, Flying])


def test_or_is_a_fault_and_the_default_is_played() -> None:
    bot = odd(lambda: "fly")()
    (decision,) = faults(play([bot, Taker], on_error="forfeit"))
    assert decision.fault is Fault.ILLEGAL_ACTION
    assert decision.came is not None
    assert decision.came.startswith("Made.decide returned 'fly', which is not one of ")
    (notice,) = bot.notices
    assert notice.fault is Fault.ILLEGAL_ACTION
    assert "'fly'" in notice.message
    assert not notice.forfeit


def test_an_exception_comes_out() -> None:
    with pytest.raises(OSError, match="no such"):
        play([odd(boom), Taker])


def test_or_is_a_fault_after_which_the_bot_goes_on() -> None:
    bot = odd(boom)()
    game = play([bot, Taker], on_error="forfeit")
    (decision,) = faults(game)
    assert decision.fault is Fault.EXCEPTION
    assert decision.came == "it raised OSError: no such file"
    assert bot.asked > bot.at
    (notice,) = bot.notices
    assert notice.message.startswith("exception after 0 us: asked to ")


def test_a_bot_that_ends_its_program_has_crashed_and_is_not_called_again() -> None:
    class Leaving(Odd):
        ended = False

        def decide(self, view: View) -> str:
            raise SystemExit(3)

        def on_game_end(self, end: GameEnd) -> None:
            self.ended = True

    bot = Leaving()
    game = play([bot, Taker], on_error="forfeit")
    (decision,) = faults(game)
    assert decision.fault is Fault.CRASH
    assert decision.came == "it raised SystemExit: 3"
    assert game.has_forfeited(0)
    assert not bot.ended
    assert bot.notices == []
    with pytest.raises(SystemExit):
        play([Leaving(), Taker])


def test_interrupts_come_out_always() -> None:
    def interrupt() -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play([odd(interrupt), Taker], on_error="forfeit")


# Time


class Watcher(Taker):
    def __init__(self) -> None:
        self.left: list[tuple[float, float]] = []

    def decide(self, view: View) -> str:
        self.left.append((self.clock.budget, self.clock.bank))
        return super().decide(view)


def test_without_limits_there_is_all_the_time() -> None:
    bot = Watcher()
    play([bot, Taker])
    assert set(bot.left) == {(math.inf, 0.0)}


def test_overruns_draw_on_the_bank_and_then_are_timeouts() -> None:
    bot = Watcher()
    game = play([bot, Taker], clock=TimeControl(10, 12), now_us=ticking(15))
    own = [decision for decision in game.decisions if decision.seat == 0]
    assert [round(bank * 1e6) for _, bank in bot.left] == [12, 7, 2, 0, 0]
    assert [decision.fault for decision in own] == [None, None, *[Fault.TIMEOUT] * 3]
    assert {decision.us for decision in own} == {15}
    assert own[2].came == "it had 12 us for the decision"
    assert game.has_forfeited(0)


# Openings


def test_a_game_goes_on_from_decisions_that_are_given() -> None:
    line_up: list[AnyBot] = [Taker, odd(lambda: "fly"), Taker]
    whole = play(line_up, "publisher", "opening", on_error="forfeit")
    for at in (0, 5, len(whole.decisions)):
        bots = [Watcher(), Watcher(), Watcher()]
        game = Game(whole.rules, 3, whole.seed)
        play_by_calls(RefereedGame(game, "on"), bots, opening=whole.decisions[:at])
        assert game.decisions[:at] == whole.decisions[:at]
        assert faults(game) == faults(whole)[: sum(d.fault is not None for d in game.decisions)]
        # They were asked about what was given, too.
        assert sum(len(bot.left) for bot in bots) == len(game.decisions)


# What a script does


def test_without_a_seed_every_game_is_another() -> None:
    games = [deepsea_sdk.play([Taker, Taker]) for _ in range(2)]
    assert games[0].seed != games[1].seed


def test_a_game_gives_and_saves_its_record(tmp_path: Path) -> None:
    class Deep(Taker):
        name = "Deep Blue"

    def made() -> Bot:
        return Taker()

    game = play([Deep, Taker, made, Taker, Deep()], game_id="mine", clock="60m")
    record = game.record()
    names = [seat.name for seat in record.seats]
    assert names == ["Deep Blue", "Taker", "made", "Taker 2", "Deep Blue 2"]
    assert (record.game_id, record.clock) == ("mine", "3600s")
    game.save(tmp_path / "game.json")
    read = GameRecord.from_json((tmp_path / "game.json").read_text(encoding="utf-8"))
    assert read == record
    verify(read)


def test_a_clock_may_be_written_and_is_measured() -> None:
    bot = Watcher()
    game = play([bot, Taker], clock="15us+12us", now_us=ticking(15))
    assert faults(game) == []
    assert bot.left[0] == (15e-6, 12e-6)
    assert play([Taker, Taker]).record().clock == ""


def test_a_bot_can_ask_its_clock() -> None:
    class Asking(Taker):
        def decide(self, view: View) -> str:
            left.append(self.clock.remaining())
            return super().decide(view)

    left: list[float] = []
    play([Asking, Taker], clock=TimeControl(10, 90), now_us=ticking(1))
    # One microsecond from the request to the look, and one more to the answer.
    assert left[0] == pytest.approx(99e-6)
    left.clear()
    play([Asking, Taker])
    assert set(left) == {math.inf}


# As an interpreter and a notebook show it


def test_a_game_is_shown_in_one_line_and_in_a_notebook_as_a_table() -> None:
    class Loud(Taker):
        name = "<b>loud</b>"

    game = play([Taker, Loud, Taker], seed="shown")
    points, placements = game.result()
    assert repr(game) == (
        f"<LocalGame, manual rules, points: A Taker {points[0]}, B <b>loud</b> {points[1]}, "
        f"C Taker 2 {points[2]}>"
    )
    rows = re.findall("<tr>(.*?)</tr>", game._repr_html_())
    assert re.findall("<th>(.*?)</th>", rows[0]) == [
        *("seat", "bot", "points", "placement", "brought home", "drowned in dive"),
    ]
    names = ["Taker", "&lt;b&gt;loud&lt;/b&gt;", "Taker 2"]
    for seat, row in enumerate(rows[1:]):
        letter, name, own, placement, brought, drowned = re.findall("<td>(.*?)</td>", row)
        expected = ("ABC"[seat], names[seat], f"{points[seat]}", f"{placements[seat]}")
        assert (letter, name, own, placement) == expected
        values = [int(chip.partition("=")[2]) for chip in brought.split(", ") if chip]
        assert sum(values) == points[seat]
        lost = [dive for dive, units in enumerate(game.state.drowned, 1) if units[seat]]
        assert drowned == ", ".join(map(str, lost))
    assert len(rows) == 4


def test_a_game_that_is_not_over_is_shown_as_its_position() -> None:
    game = LocalGame(PRESETS["manual"], bytes(32), ["a", "b"])
    assert repr(game) == f"<LocalGame, manual rules: {game.state}>"
    assert "*A0v B0v" in game._repr_html_()

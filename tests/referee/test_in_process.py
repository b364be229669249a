"""Matches in this process give what matches of processes give, times aside."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deepsea_referee import in_process
from deepsea_referee.bots.resolve import BotSpec, resolve
from deepsea_referee.clock import Pulse, ThreadClock
from deepsea_referee.errors import UserError
from deepsea_referee.interrupts import StopRequests
from deepsea_referee.match import MatchSettings, play_match
from deepsea_referee.summary import BotHangs, GameResult
from deepsea_rules.faults import Fault
from deepsea_rules.game import GameRecord, verify
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import PRESETS
from deepsea_rules.time_control import TimeControl
from helpers.manual_clock import ManualClock
from helpers.matches import Listener, Played, without_times
from helpers.programs import PATIENT, program, written
from helpers.tiers import daily


def settings(*bots: BotSpec, games: int = 2, rules: str = "manual") -> MatchSettings:
    return MatchSettings(
        bots=bots,
        hosting=PATIENT,
        games=games,
        rules=PRESETS[rules],
        time_control=TimeControl.parse("60s"),
        seed=seed_from_text("in process"),
    )


def here(what: MatchSettings) -> Played:
    listener = Listener()
    return listener.played(in_process.run_match_in_process(what, listener.on_game))


def with_processes(what: MatchSettings) -> Played:
    listener = Listener()
    return listener.played(asyncio.run(play_match(what, listener.on_game, listener.on_void)))


def untimed(result: GameResult) -> GameResult:
    faults = tuple(dataclasses.replace(fault, us=0) for fault in result.faults)
    return dataclasses.replace(result, faults=faults)


@pytest.mark.parametrize("rules", daily(["manual", "publisher"], ["publisher"]))
def test_records_are_those_of_processes_to_the_byte(rules: str) -> None:
    what = settings(*map(resolve, ("greedy", "random")), rules=rules)
    ours, theirs = here(what), with_processes(what)
    assert [*map(without_times, ours.records)] == [*map(without_times, theirs.records)]
    assert ours.games == theirs.games
    assert ours.result.bots == theirs.result.bots
    for record in ours.records:
        verify(record)


def test_exceptions_are_counted_as_they_are_for_a_process(tmp_path: Path) -> None:
    deeds = {
        "now_and_then": "if self.asked in (2, 5): raise ValueError('no\\nidea')",
        "always_and_in_hooks": "self.on_fault = lambda notice: [][1]; int(view.kind)",
    }
    what = settings(*[program(tmp_path, *deed) for deed in deeds.items()])
    ours, theirs = here(what), with_processes(what)
    names = [*deeds]
    for game in ours.games:
        assert {names[game.seats[fault.seat]] for fault in game.faults} == deeds.keys()
        for fault in game.faults:
            assert fault.fault is Fault.EXCEPTION
            assert fault.came.startswith("it raised ")
            assert f"{names[game.seats[fault.seat]]}.py" in fault.error
    assert [*map(without_times, ours.records)] == [*map(without_times, theirs.records)]
    for one, other in zip(ours.games, theirs.games, strict=True):
        assert untimed(one).faults == untimed(other).faults


# In every run the process that ends so is one of tests/referee/test_processes.py.
@pytest.mark.parametrize("elsewhere", daily([here, with_processes], [here]))
def test_a_bot_that_ends_its_program_forfeits_each_time_and_as_it_does_for_a_process(
    tmp_path: Path, elsewhere: Callable[[MatchSettings], Played]
) -> None:
    bad = program(tmp_path, "bad", "if self.asked == 4: sys.exit(3)")
    what = settings(bad, resolve("greedy"))
    for ours, theirs in zip(here(what).games, elsewhere(what).games, strict=True):
        assert ours.forfeits == theirs.forfeits != ()
        assert (ours.points, ours.placements) == (theirs.points, theirs.placements)
        assert [f.came for f in ours.faults] == ["it raised SystemExit: 3"]
        assert ours.faults[0].forfeit


PARAMETERS = """
from deepsea_sdk import Bot, run

class Mine(Bot):
    most = 9

    def search(self, view):
        return "take" if view.can_take and view.me.load < self.most else "leave"

class Other(Mine):
    most = 8

{guard}run(Mine)
"""


def test_parameters_reach_bots_here_and_in_processes(tmp_path: Path) -> None:
    for name, guard in (("mine", ""), ("guarded", "if __name__ == '__main__': ")):
        written(tmp_path, name, PARAMETERS.format(guard=guard))
    words = ("mine.py:Mine", "mine.py,most=1", "mine.py:Other,most=1", "guarded.py:Other,most=1")
    bots = [resolve(f"{tmp_path}/{word}") for word in words]
    what = settings(*bots[1::2], games=1)
    ours, theirs = here(what).records[0], with_processes(what).records[0]
    assert without_times(ours) == without_times(theirs)
    assert [seat.name for seat in ours.seats] == [word.replace(".py", "") for word in words[1::2]]
    assert actions(ours) != actions(here(settings(*bots[:1] * 2, games=1)).records[0])
    # Against the same bot, with the same luck.
    duels = [here(settings(bot, resolve("greedy"), games=1)).records[0] for bot in bots]
    most_9, *most_1 = map(actions, duels)
    assert most_1[0] == most_1[1] == most_1[2] != most_9


def actions(record: GameRecord) -> list[str]:
    return [decision.action for decision in record.decisions]


def test_parameters_that_a_bot_does_not_have_end_the_match(tmp_path: Path) -> None:
    written(tmp_path, "mine", PARAMETERS.format(guard=""))
    what = settings(resolve(f"{tmp_path}/mine.py,least=1"), resolve("greedy"), games=1)
    for play in (here, with_processes):
        with pytest.raises(UserError, match="class Mine has no attribute least"):
            play(what)


def test_what_bots_print_stays_off_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here(settings(program(tmp_path, "loud", "print('aha')"), resolve("greedy"), games=1))
    assert capsys.readouterr() == ("", "")


# Requests to stop, and bots that do not return


class Host(types.ModuleType):
    """A module that bots import, to meet the test: they say that they are here, and wait."""

    def __init__(self) -> None:
        super().__init__("host_of_this_test")
        self.stop = StopRequests()
        self.here = threading.Event()
        self.go = threading.Event()

    def wait(self) -> None:
        self.here.set()
        self.go.wait()


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    made = Host()
    monkeypatch.setitem(sys.modules, made.__name__, made)
    terminal = sys.stdout, sys.stderr
    yield made
    made.go.set()
    for thread in threading.enumerate():
        if thread.name == "games":
            thread.join()
    sys.stdout, sys.stderr = terminal


def meeting(folder: Path, does: str, game: int = 2) -> BotSpec:
    """A bot that does something at its decisions in one game."""
    text = f"import host_of_this_test as host\ndef meet():\n    {does}\n"
    return program(folder, "meeting", f"self.games == {game} and meet()", text)


def test_a_request_to_stop_ends_the_match_after_the_game_at_hand(
    tmp_path: Path, host: Host
) -> None:
    asks = meeting(tmp_path, "host.stop.count or host.stop.ask()")
    result = in_process.run_match_in_process(
        settings(asks, resolve("greedy"), games=5), stop=host.stop
    )
    assert (result.interrupted, result.games) == (True, 2)


def test_a_request_between_two_games_ends_the_match(host: Host) -> None:
    taken: list[int] = []

    def on_game(result: GameResult, _record: GameRecord) -> None:
        if result.game == 2:
            host.stop.ask_at_once()
        taken.append(result.game)

    what = settings(resolve("greedy"), resolve("cautious"), games=5)
    result = in_process.run_match_in_process(what, on_game, stop=host.stop)
    # Whoever takes a game is not interrupted.
    assert (result.interrupted, result.games, taken) == (True, 2, [1, 2])


def test_a_second_request_gives_the_game_up(
    tmp_path: Path, host: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    waits = meeting(tmp_path, "host.stop.ask_at_once(); host.wait(); print('late')")
    taken: list[int] = []
    result = in_process.run_match_in_process(
        settings(waits, resolve("greedy"), games=5),
        lambda outcome, _: taken.append(outcome.game),
        stop=host.stop,
    )
    sys.stdout.write("early\n")
    host.go.set()
    for thread in threading.enumerate():
        if thread.name == "games":
            thread.join()
    # What its thread does from then on has no effect.
    assert (result.interrupted, result.games, taken) == (True, 1, [1])
    assert capsys.readouterr() == ("early\n", "")


@pytest.mark.parametrize(
    "where", daily(["decide", "on_game_start", "on_event", "on_game_end"], ["decide", "on_event"])
)
def test_a_bot_that_does_not_return_is_named_with_its_stack(
    tmp_path: Path, host: Host, where: str
) -> None:
    waits = written(
        tmp_path,
        "waits",
        "import host_of_this_test as host\n"
        "from deepsea_sdk import Bot, run\n"
        "class Waits(Bot):\n"
        f"    def {where}(self, *args):\n"
        "        self.think()\n"
        "        return args[0].default_action\n"
        "    def think(self):\n"
        "        host.wait()\n"
        "run(Waits)\n",
    )
    what = settings(resolve("greedy"), waits, games=1)
    with pytest.raises(BotHangs, match=r"'waits' did not return for 0.3 s in game 1 ") as caught:
        in_process.run_match_in_process(what, limit_s=0.3)
    assert f'File "{tmp_path}/waits.py", line 5, in {where}' in caught.value.detail
    assert f'File "{tmp_path}/waits.py", line 8, in think' in caught.value.detail
    assert "deepsea_sdk" not in caught.value.detail
    assert (caught.value.result.games, caught.value.result.interrupted) == (0, True)


def test_slow_games_that_go_on_are_not_ended(tmp_path: Path) -> None:
    slow = program(tmp_path, "slow", "sum(range(20_000))")
    result = in_process.run_match_in_process(settings(slow, slow, games=8), limit_s=0.5)
    assert result.games == 8


@pytest.mark.parametrize(("clock", "seconds"), [("100ms+2s", 12), ("5s", 50), ("1s+60s", 70)])
def test_how_long_a_bot_may_make_no_progress(clock: str, seconds: int) -> None:
    assert in_process.longest_s(TimeControl.parse(clock)) == seconds


# Time


HOST = "import host_of_this_test as host; host.wall.jump(900_000); host.waited.jump(850_000)"


def test_a_busy_host_costs_a_bot_no_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wall, waited = ManualClock(), ManualClock()
    host = types.ModuleType("host_of_this_test")
    host.wall, host.waited = wall, waited  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, host.__name__, host)
    slow = program(tmp_path, "slow", HOST)
    what = dataclasses.replace(
        settings(slow, resolve("greedy"), games=1), time_control=TimeControl.parse("60ms")
    )
    now_us = ThreadClock(
        lambda: wall.now_us() * 1_000, lambda: waited.now_us() * 1_000, Pulse()
    ).now_us
    assert in_process.run_match_in_process(what, now_us=now_us).faults.count == 0
    # By the time of day each of its decisions is a timeout.
    assert in_process.run_match_in_process(what, now_us=wall.now_us).faults.count >= 3

"""Matches in this process give what matches of processes give, times aside."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import signal
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deepsea_referee import in_process
from deepsea_referee.bots.resolve import BotSpec, resolve
from deepsea_referee.errors import UserError
from deepsea_referee.in_process import GameWatch
from deepsea_referee.match import MatchSettings, play_match
from deepsea_referee.results.summary import GameResult
from deepsea_referee.timing.clock import ThreadClock
from deepsea_rules.faults import Fault
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.record import GameRecord, verify
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
    return listener.played(in_process.run_match(what, listener.on_game))


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


def test_an_interrupt_keeps_the_games_that_are_complete() -> None:
    """Whoever takes a game is not interrupted."""
    taken: list[int] = []

    def stop(result: GameResult, _record: GameRecord) -> None:
        if result.game == 2:
            signal.raise_signal(signal.SIGINT)
        taken.append(result.game)

    usual = signal.getsignal(signal.SIGINT)
    result = in_process.run_match(settings(resolve("greedy"), resolve("cautious"), games=5), stop)
    assert result.interrupted
    assert (result.games, taken) == (2, [1, 2])
    assert signal.getsignal(signal.SIGINT) is usual


@pytest.mark.parametrize(("catches", "games"), [("OSError", 0), ("BaseException", 1)])
def test_an_interrupt_ends_a_bot_that_takes_long(tmp_path: Path, catches: str, games: int) -> None:
    waits = (
        "import signal, threading\n"
        "def wait():\n"
        "    try:\n"
        "        signal.raise_signal(signal.SIGINT)\n"
        "        threading.Event().wait()\n"
        f"    except {catches}: pass\n"
    )
    slow = program(tmp_path, "slow", "wait()", waits)
    result = in_process.run_match(settings(slow, resolve("greedy"), games=5))
    assert (result.interrupted, result.games) == (True, games)


@pytest.mark.parametrize("part", daily([*range(4)], [0]))
def test_an_interrupt_anywhere_gives_the_terminal_back(part: int) -> None:
    """A Ctrl-C at each line that is not a game's own."""
    files = {in_process.__file__, contextlib.__file__}
    lines = 0
    terminal = sys.stdout, sys.stderr

    def trace(at: int) -> int:
        nonlocal lines
        lines = 0

        def line(frame: types.FrameType, event: str, _: object) -> Any:
            nonlocal lines
            if event == "line":
                lines += 1
                if lines == at:
                    signal.raise_signal(signal.SIGINT)
            return line

        taken: list[GameResult] = []
        former = sys.gettrace()
        sys.settrace(lambda frame, *_: line if frame.f_code.co_filename in files else None)
        try:
            result = in_process.run_match(what, lambda outcome, _: taken.append(outcome))
        except KeyboardInterrupt:
            result = None  # before the first game, or after the last
        finally:
            sys.settrace(former)
        assert (sys.stdout, sys.stderr) == terminal
        if result is not None:
            assert result.games == len(taken)
            assert result.interrupted == (0 < at <= lines)
        return lines

    what = settings(resolve("greedy"), resolve("random"), games=2)
    for at in range(1 + part, trace(0), 4):
        trace(at)


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
    now_us = ThreadClock(lambda: wall.now_us() * 1_000, lambda: waited.now_us() * 1_000).now_us
    assert in_process.run_match(what, now_us=now_us).faults.count == 0
    # By the time of day each of its decisions is a timeout.
    assert in_process.run_match(what, now_us=wall.now_us).faults.count >= 3


@pytest.mark.parametrize(
    "where", daily(["decide", "on_game_start", "on_event", "on_game_end"], ["decide", "on_event"])
)
def test_a_bot_that_never_returns_ends_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    loops = written(
        tmp_path,
        "loops",
        "from deepsea_sdk import Bot, run\n"
        "class Loops(Bot):\n"
        f"    def {where}(self, *args):\n"
        "        self.think()\n"
        "    def think(self):\n"
        "        while True: pass\n"
        "run(Loops)\n",
    )
    what = settings(resolve("greedy"), loops, games=1)
    with pytest.raises(UserError, match=r"'loops' did not .* 0.1 s .*loops.py, line 6, in think"):
        in_process.run_match(what, watch=GameWatch(0.1))
    err = capsys.readouterr().err
    assert f'File "{tmp_path}/loops.py", line 4, in {where}' in err
    assert "deepsea_sdk" not in err


def test_a_bot_that_catches_everything_is_ended_with_its_process(tmp_path: Path) -> None:
    file = tmp_path / "stubborn.py"
    file.write_text(
        "from deepsea_sdk import Bot, run\n"
        "class Stubborn(Bot):\n"
        "    def decide(self, view):\n"
        "        while True:\n"
        "            try: self.think()\n"
        "            except: pass\n"
        "    def think(self):\n"
        "        while True: pass\n"
        "run(Stubborn)\n",
        encoding="utf-8",
    )
    play = (
        "from deepsea_referee.in_process import GameWatch\n"
        "from deepsea_rules.game import Game\n"
        "from deepsea_rules.ruleset import preset\n"
        "from deepsea_referee.bots.loading import load\n"
        "from deepsea_referee.bots.resolve import resolve\n"
        f"bot = load(resolve({str(file)!r}))()\n"
        "game = Game(preset('manual'), 2, bytes(32))\n"
        "with GameWatch(0.1) as watch, watch.watching(game):\n"
        "    bot.decide(None)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", play], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2
    assert f'File "{file}", line 8, in think' in done.stderr


def test_slow_games_that_go_on_are_not_ended(tmp_path: Path) -> None:
    slow = program(tmp_path, "slow", "sum(range(20_000))")
    result = in_process.run_match(settings(slow, slow, games=8), watch=GameWatch(0.1))
    assert result.games == 8


@pytest.mark.parametrize(("clock", "seconds"), [("100ms+2s", 12), ("5s", 50), ("1s+60s", 70)])
def test_how_long_a_bot_may_make_no_progress(clock: str, seconds: int) -> None:
    assert GameWatch.of(TimeControl.parse(clock)).limit_s == seconds

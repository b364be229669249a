"""The pre-flight finds what is wrong with a bot, and nothing with one that is right."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import pytest

from deepsea_referee.bots.loading import load
from deepsea_referee.bots.process import Hosting
from deepsea_referee.bots.resolve import BotSpec, resolve
from deepsea_referee.errors import BotFault, HostTooBusy, RefereeError
from deepsea_referee.play_game import play_by_requests
from deepsea_referee.sandbox.plain_process import PlainProcess
from deepsea_referee.session import OnAnswer, Session, TimedAnswer
from deepsea_referee.workbench import checks
from deepsea_referee.workbench.advice import CheckResult
from deepsea_referee.workbench.checks import CheckReport, LateAnswerSession, RandomSeat, examine
from deepsea_rules.faults import Fault
from deepsea_rules.game import Game
from deepsea_rules.ruleset import PRESETS, RuleSet
from deepsea_rules.time_control import TimeControl
from deepsea_sdk.bot import TimeLeft
from deepsea_sdk.table import RefereedGame, play_by_calls
from helpers.manual_clock import ManualClock
from helpers.programs import PATIENT, lines_bot, program, program_in, written

HOUR = TimeControl.parse("60m")
HOUR_US = HOUR.budget_us


ONE, TWO = (PRESETS["manual"],), (PRESETS["manual"], PRESETS["guide"])


def examined(
    bot: BotSpec,
    hosting: Hosting = PATIENT,
    control: TimeControl = HOUR,
    rules: tuple[RuleSet, ...] = ONE,
) -> CheckReport:
    """All checks, with fewer games than usual, however slow the machine is."""
    checking = examine(bot, hosting, control, rules=rules, tables=2, time_us=HOUR_US)
    return asyncio.run(checking)


def failures(report: CheckReport) -> list[CheckResult]:
    """The checks that keep it from playing: none if it is fine."""
    failed = [finding for finding in report.findings if finding.needed and not finding.ok]
    assert report.is_ready == (not failed)
    return failed


def finding(report: CheckReport, name: str) -> CheckResult:
    (found,) = (finding for finding in report.findings if finding.name == name)
    return found


@pytest.mark.slow
def test_a_good_bot_is_fine() -> None:
    report = asyncio.run(examine(resolve("greedy"), PATIENT, HOUR))
    assert failures(report) == []
    assert report.log == []
    assert [finding.name for finding in report.findings if not finding.ok] == []
    assert [finding.name for finding in report.findings] == [
        "files",
        "start",
        *(f"rules {name}" for name in PRESETS),
        "clock",
        "late answer",
        "dropped connection",
        "same again",
        "tables",
    ]


async def test_the_other_seats_play_as_the_sample_bot_without_a_process() -> None:
    games = [RefereedGame(Game(PRESETS["manual"], 4, bytes(32)), "g", HOUR) for _ in range(2)]
    await play_by_requests(games[0], [RandomSeat(games[0].game, seat) for seat in range(4)])
    play_by_calls(games[1], [load(resolve("random"))] * 4)
    at_random, sample = ([d[:2] for d in game.played().record.decisions] for game in games)
    assert at_random == sample
    assert any(action != "leave" for _, action in sample)


def test_the_size_of_a_bot_and_what_is_no_part_of_it_are_told(tmp_path: Path) -> None:
    (tmp_path / "venv").mkdir()
    (tmp_path / "bot.py").write_text("raise SystemExit\n")
    (tmp_path / "link.py").symlink_to("bot.py")
    for number in range(7):
        (tmp_path / f"{number}.pyc").write_text("")
    (tmp_path / "bot.toml").write_text('name = "odd"\ncommand = "python3 bot.py"\n')
    assert examined(resolve(str(tmp_path))).findings[0] == CheckResult(
        "files",
        ok=True,
        needed=True,
        found="3 files and folders, 1 kB, 1 deep (limits: 5,000, 64 MiB, 20); "
        "left out 0.pyc, 1.pyc, 2.pyc, 3.pyc, 4.pyc and 3 more; "
        "kept as copies, being links: link.py",
    )


def test_a_program_that_exits_at_once_is_reported_with_its_stderr(tmp_path: Path) -> None:
    report = examined(program(tmp_path, "bad", first="raise SystemExit('no licence')"))
    assert not report.is_ready
    _, only = report.findings
    assert only.name == "start"
    assert "no licence" in only.found
    assert only.remedy


@pytest.mark.slow
def test_a_misspelt_method_is_advice(tmp_path: Path) -> None:
    text = "from deepsea_sdk import Bot, run\nclass Mine(Bot):\n    def serach(self, view):\n"
    report = examined(written(tmp_path, "mine", f"{text}        return 'leave'\nrun(Mine)\n"))
    found = finding(report, "methods")
    assert found.found == "the SDK never calls Mine.serach; did you mean search?"
    assert failures(report) == []


def test_a_program_that_does_not_connect_is_reported(tmp_path: Path) -> None:
    hosting = Hosting(PlainProcess(), start_limit_us=200_000, grace_us=0)
    report = examined(program(tmp_path, "slow", first="import signal; signal.pause()"), hosting)
    assert not report.is_ready
    assert "did not connect" in report.findings[1].found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("", "it brought nothing home in 10 games: it plays exactly like the empty Bot class"),
        pytest.param(
            "    def turn_back(self, view):\n        return True\n",
            "it brought nothing home in 10 games",
            marks=pytest.mark.release,
        ),
    ],
)
def test_a_bot_that_achieves_nothing_gets_a_note(tmp_path: Path, source: str, found: str) -> None:
    text = (
        f"from deepsea_sdk import Bot, run\nclass Idle(Bot):\n    name = 'x'\n{source}run(Idle)\n"
    )
    report = examined(written(tmp_path, "idle", text), rules=TWO)
    assert failures(report) == []
    note = finding(report, "play")
    assert (note.ok, note.needed) == (False, False)
    assert note.found.startswith(found)
    assert ("empty Bot class" in note.found) == (not source)


@pytest.mark.slow
def test_each_fault_is_found_where_it_happens(tmp_path: Path) -> None:
    bad = program(tmp_path, "bad", "if view.rules.name == 'guide' and view.players == 4: 1 / 0")
    report = examined(bad, rules=TWO)
    assert not report.is_ready
    assert [f.name for f in report.findings if not f.ok] == ["rules guide", "same again"]
    guide = finding(report, "rules guide")
    assert "with 4 seats" in guide.found
    assert "ZeroDivisionError" in guide.found
    assert any("ZeroDivisionError" in line for line in report.log)


@pytest.mark.slow
def test_a_bot_that_cannot_bear_a_fault_is_found(tmp_path: Path) -> None:
    first = "import deepsea_sdk\ndeepsea_sdk.Bot.on_fault = lambda self, notice: 1 / 0"
    report = examined(program(tmp_path, "proud", first=first))
    assert [f.name for f in report.findings if f.needed and not f.ok] == ["late answer"]


@pytest.mark.slow
def test_a_bot_that_stays_when_the_referee_hangs_up_is_found(tmp_path: Path) -> None:
    stays = "import atexit, signal\natexit.register(signal.pause)"
    hosting = Hosting(PlainProcess(), start_limit_us=60_000_000, grace_us=300_000)
    report = examined(program(tmp_path, "stays", first=stays), hosting)
    dropped = finding(report, "dropped connection")
    assert not dropped.ok
    assert "still running" in dropped.found


@pytest.mark.slow
def test_a_bot_that_remembers_is_told_so_but_may_play(tmp_path: Path) -> None:
    path = program_in(tmp_path, "remembers")
    source = path.read_text(encoding="utf-8").replace("view.me.load < 2", "Tester.games % 2")
    report = examined(written(tmp_path, "remembers", source))
    assert failures(report) == []
    assert not finding(report, "same again").needed


@pytest.mark.slow
def test_a_bot_that_takes_too_long_is_told(tmp_path: Path) -> None:
    report = examined(resolve("greedy"), control=TimeControl(budget_us=1, bank_us=1))
    assert not finding(report, "clock").ok
    assert "timeout" in finding(report, "rules manual").found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("declares", "memory", "ok", "found"),
    # What is said to one who may declare more, or is right not to: before a release.
    [
        (True, "self", True, "the same decisions in 8 games one by one and at once"),
        (True, "Mine", False, "games were played differently with all on at once"),
        *(
            pytest.param(*case, marks=pytest.mark.release)
            for case in (
                (False, "self", True, "one game at a time. 8 at once gave the same decisions"),
                (False, "Mine", True, "one game at a time: "),
            )
        ),
    ],
)
def test_a_bot_that_keeps_its_game_in_its_class_is_found(
    tmp_path: Path, declares: bool, memory: str, ok: bool, found: str
) -> None:
    bot = written(
        tmp_path,
        "mine",
        "from deepsea_sdk import LEAVE, TAKE, Bot, run\n"
        "class Mine(Bot):\n"
        f"    concurrent_games = {declares}\n"
        f"    def on_game_start(self, info): {memory}.asked = 0\n"
        "    def turn_back(self, view): return view.me.load > 1\n"
        "    def search(self, view):\n"
        f"        {memory}.asked += 1\n"
        f"        return TAKE if view.can_take and {memory}.asked % 2 else LEAVE\n"
        "run(Mine)\n",
    )
    # Time stands still, so that it answers at once on any machine.
    checking = examine(bot, PATIENT, HOUR, rules=ONE, tables=8, clock=ManualClock())
    report = asyncio.run(checking)
    assert finding(report, "same again").ok
    tables = finding(report, "tables")
    assert (tables.ok, failures(report)) == (ok, [] if ok else [tables])
    assert found in tables.found
    assert bool(tables.remedy) is not ok


SEARCH = """
from deepsea_sdk import LEAVE, TAKE, Bot, run
class Mine(Bot):
    concurrent_games = True
    games = 0
    def on_game_start(self, info): Mine.games += 1
    def turn_back(self, view): return view.me.load > 1
    def search(self, view):
        at_its_end = self.clock.budget {enough}
        return TAKE if view.can_take and (at_its_end or Mine.games < 2) else LEAVE
run(Mine)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("enough", "same", "tables"),
    [
        ("> 1", (True, "with 4s it repeats its game: with 1s the clock ends"), (True, "the same")),
        ("> 4", (False, "played differently"), (False, "not tested: the bot does not repeat")),
    ],
)
def test_a_search_that_the_clock_ends_is_no_state(
    tmp_path: Path, enough: str, same: tuple[bool, str], tables: tuple[bool, str]
) -> None:
    bot, second = written(tmp_path, "mine", SEARCH.format(enough=enough)), TimeControl.parse("1s")
    report = asyncio.run(examine(bot, PATIENT, second, rules=ONE, tables=4, clock=ManualClock()))
    assert failures(report) == []
    for name, (ok, found) in (("same again", same), ("tables", tables)):
        assert finding(report, name).ok is ok
        assert found in finding(report, name).found


def test_a_slow_bot_plays_every_preset_and_each_number_of_seats_once(tmp_path: Path) -> None:
    games: list[str] = []
    bot = lines_bot(tmp_path, "mine", features=("concurrent_games",))
    checking = examine(bot, PATIENT, HOUR, clock=ManualClock(), time_us=-10, on_game=games.append)
    report = asyncio.run(checking)
    assert failures(report) == []
    assert games[:6] == [*(f"rules {name}" for name in PRESETS), "late answer"]
    sizes = [finding(report, f"rules {name}").found.split("games of ")[1][0] for name in PRESETS]
    assert sizes == ["2", "3", "4", "5", "6"]
    assert "the bot is slow" in finding(report, "rules guide").found
    assert "in 2 games" in finding(report, "tables").found


# A disturbance reports to the game what a session could report, and when it could


TIME_LEFT = TimeLeft(1_000, 20_000)


class Recorder:
    """A session that writes nothing until the test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[TimeLeft, OnAnswer]] = []

    def ask(self, request: bytes, time_left: TimeLeft, on_answer: OnAnswer) -> int:
        self.asked.append((time_left, on_answer))
        return len(self.asked)


@pytest.mark.parametrize(
    ("outcome", "fault"),
    [
        (TimedAnswer("down", 7), Fault.TIMEOUT),
        (BotFault(Fault.TIMEOUT, "by the clock", 1), Fault.TIMEOUT),
        (HostTooBusy("nobody can tell", 1), Fault.TIMEOUT),
        (BotFault(Fault.CRASH, "it ended", 0), Fault.CRASH),
    ],
)
def test_a_late_answer_is_reported_once_the_session_has_its_outcome(
    outcome: TimedAnswer | BotFault | RefereeError, fault: Fault
) -> None:
    session = Recorder()
    heard: list[TimedAnswer | BotFault | RefereeError] = []
    disturbed = LateAnswerSession(cast(Session, session))
    for _ in range(LateAnswerSession.REQUEST):
        disturbed.ask(b"", TIME_LEFT, heard.append)
    # A notice of a fault before its request was written would name a request nobody knows.
    assert heard == []
    assert [left for left, _ in session.asked] == [TIME_LEFT, TIME_LEFT, (0, 0)]
    session.asked[-1][1](outcome)
    (reported,) = heard
    assert isinstance(reported, BotFault)
    assert reported.fault is fault
    assert (reported.detail == LateAnswerSession.MESSAGE) == (fault is Fault.TIMEOUT)


def test_the_bot_may_use_all_its_time_before_it_reads_the_request_after_a_late_answer() -> None:
    session = Recorder()
    heard: list[TimedAnswer | BotFault | RefereeError] = []
    disturbed = LateAnswerSession(cast(Session, session))
    for _ in range(LateAnswerSession.REQUEST):
        disturbed.ask(b"", TIME_LEFT, heard.append)
    disturbed.ask(b"", TimeLeft(1_000, 0), heard.append)
    disturbed.ask(b"", TimeLeft(1_000, 0), heard.append)
    assert [left for left, _ in session.asked[-2:]] == [(22_000, 0), (1_000, 0)]
    session.asked[-2][1](TimedAnswer("down", 21_500))
    assert heard == [TimedAnswer("down", 0)]


def test_a_quick_bot_is_not_thought_to_search_until_its_time_is_up() -> None:
    """On a busy host the few microseconds of its second run may be twice those of the first."""
    examination = object.__new__(checks._Examination)
    examination.times_us = [200] * 9
    assert not asyncio.run(examination._uses_all_its_time())

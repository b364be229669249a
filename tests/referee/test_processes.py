"""Whole matches between real processes over real gRPC, with bots that behave and bots that do not.

No outcome depends on how fast the machine is: clocks are generous, or stand still until the bot
that hangs has said that it does.
"""

from __future__ import annotations

import asyncio
import errno
import gc
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest

from deepsea_referee import server
from deepsea_referee.bots.output import OutputPlan
from deepsea_referee.bots.pool import RESTARTS_IN_A_ROW
from deepsea_referee.bots.resolve import BotSpec, resolve
from deepsea_referee.errors import BotStartError, RefereeError, UserError
from deepsea_referee.match import MatchSettings, play_match
from deepsea_referee.sandbox import interface
from deepsea_referee.sandbox.interface import LaunchSpec, ResourceLimits
from deepsea_referee.sandbox.plain_process import PlainBotProcess, PlainProcess
from deepsea_referee.summary import GameResult
from deepsea_rules.faults import Fault
from deepsea_rules.game import GameRecord, verify
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import PRESETS
from deepsea_rules.time_control import TimeControl
from deepsea_sdk._pb import play_pb2 as pb
from deepsea_sdk.wire.lines import lines_of
from helpers.in_loop import run
from helpers.manual_clock import ManualClock
from helpers.matches import Listener, Played, without_times
from helpers.programs import (
    PATIENT,
    chooser,
    lines_bot,
    mute,
    never_ready,
    nothing_left_behind,
    open_descriptors,
    opponent,
    program,
    punctual,
    reports,
    written,
)

PATIENT_CLOCK = TimeControl(60_000_000, 60_000_000)
RAW_BOT = Path(__file__).parents[1] / "bots" / "raw_bot.py"


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path) -> Iterator[None]:
    with nothing_left_behind():
        yield


def settings(bots: Sequence[BotSpec], **changes: object) -> MatchSettings:
    base = MatchSettings(
        bots=bots, hosting=PATIENT, time_control=PATIENT_CLOCK, seed=seed_from_text("processes")
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def play(bots: Sequence[BotSpec], **changes: object) -> Played:
    listener = Listener()
    what = settings(bots, **changes)
    played = listener.played(run(play_match(what, listener.on_game, listener.on_void)))
    for record in played.records:
        verify(record)
    return played


# In every run samples play in tests/referee/test_in_process.py, here and as processes, and in the
# README's first command.
@pytest.mark.release
@pytest.mark.parametrize(
    ("rules", "players"), [*((rules, 3) for rules in PRESETS), ("manual", 2), ("manual", 6)]
)
def test_samples_play_a_match(rules: str, players: int) -> None:
    names = ["greedy", "cautious", "random", "greedy", "cautious", "random"]
    bots = [resolve(name) for name in names[:players]]
    result, _, records = play(bots, games=2, rules=PRESETS[rules])
    assert result.fault_lines() == []
    assert not result.interrupted
    assert [row.games for row in result.summaries()] == [2] * players
    assert sum(row.decisions for row in result.summaries()) == sum(
        len(record.decisions) for record in records
    )
    assert result.logs == []
    assert records[0].rules.name == rules


def test_a_bot_that_knows_only_the_proto_plays(tmp_path: Path) -> None:
    result = play([resolve(str(RAW_BOT)), opponent(tmp_path)], games=2, tables=2).result
    assert result.fault_lines() == []
    assert [row.name for row in result.summaries()] == ["raw_bot", "opponent"]


def test_a_bot_that_is_ended_because_nobody_can_check_its_limits_is_not_at_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: PlainBotProcess) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(interface, "MOST_FAILED_CHECKS", 1)
    monkeypatch.setattr(PlainBotProcess, "_check_once", fail)
    with pytest.raises(RefereeError, match=r"the limits of '.*' cannot be checked: "):
        play([never_ready(tmp_path), never_ready(tmp_path)])


def test_a_match_leaves_no_descriptor_open(tmp_path: Path) -> None:
    bots = [resolve(str(RAW_BOT)), opponent(tmp_path)]
    gc.collect()  # what other tests left may hold some
    play(bots)  # gRPC keeps a few for the process
    before = open_descriptors()
    play(bots)
    assert open_descriptors() == before


def test_bots_play_over_tcp(tmp_path: Path) -> None:
    hosting = replace(PATIENT, tcp_host="127.0.0.1")
    result = play([resolve("greedy"), opponent(tmp_path)], hosting=hosting).result
    assert result.fault_lines() == []


def test_the_same_seed_gives_the_same_records_at_any_number_of_tables(tmp_path: Path) -> None:
    bots = [chooser(tmp_path), chooser(tmp_path, "other")]
    one, four = (play(bots, games=4, tables=tables).records for tables in (1, 4))
    assert [*map(without_times, one)] == [*map(without_times, four)]


def test_seats_rotate_or_stay(tmp_path: Path) -> None:
    bots = [chooser(tmp_path, name) for name in ("one", "two", "three")]
    rotated = play(bots, games=4)
    records = rotated.records
    assert [game.seats for game in rotated.games] == [(0, 1, 2), (1, 2, 0), (2, 0, 1), (0, 1, 2)]
    assert [seat.name for seat in records[1].seats] == ["two", "three", "one"]
    assert records[1].seats[0].digest == bots[1].digest
    fixed = settings(bots[:2], games=2, seating="fixed")
    assert [fixed.line_up(number) for number in (1, 2)] == [(0, 1)] * 2
    assert len({record.seed for record in records}) == 4
    assert len({record.game_id for record in records}) == 4


def test_a_crash_is_explained_and_the_bot_is_back_in_the_next_game(tmp_path: Path) -> None:
    before = "self.games == 1 and self.asked == 3 and sys.exit('no idea')"
    bots = [program(tmp_path, "crasher", before), opponent(tmp_path)]
    result, games, records = play(bots, games=2)
    (report,) = games[0].faults
    assert (report.fault, report.seat, report.forfeit) == (Fault.CRASH, 0, True)
    assert "status 1" in report.came
    assert "no idea" in report.came
    assert games[0].placements == (2, 1)
    # The new process counts its games from 1 and crashes again: that is its second start's game.
    assert len(games[1].faults) == 1
    assert [log.start for log in result.logs] == [1, 2]
    assert "no idea" in result.logs[0].text
    assert sum(decision.seat == 0 for decision in records[0].decisions) == 3
    assert (result.summaries()[0].faults, result.summaries()[0].forfeits) == (2, 2)


def test_a_bot_that_crashes_game_after_game_is_left_alone(tmp_path: Path) -> None:
    started = tmp_path / "started"
    first = f"open({str(started)!r}, 'a').write('.')"
    bots = [lines_bot(tmp_path, "crasher", "os._exit(7)", first), opponent(tmp_path)]
    result, games, _ = play(bots, games=7)
    assert [game.faults[0].fault for game in games] == [Fault.CRASH] * 7
    assert started.read_text() == "...."  # the first start and three more
    whens = [game.faults[0].when for game in games]
    assert whens == ["decision"] * 4 + ["absent"] * 3
    assert games[6].faults[0].explanation() == (
        "crash: not started again after 3 restarts in a row; the seat forfeits"
    )
    assert (result.summaries()[0].faults, result.summaries()[0].forfeits) == (4, 7)
    assert result.fault_lines()[1] == (
        "crasher: forfeited ×3, first in game 5, seat A: "
        "not started again after 3 restarts in a row"
    )
    assert "status 7" in games[0].faults[0].came


def test_a_process_that_is_killed_in_its_turn_is_a_crash_at_once(tmp_path: Path) -> None:
    before = "self.asked == 2 and os.kill(os.getpid(), signal.SIGKILL)"
    games = play([opponent(tmp_path), program(tmp_path, "killed", before)]).games
    (report,) = games[0].faults
    assert (report.fault, report.seat) == (Fault.CRASH, 1)
    assert "SIGKILL" in report.came


def test_a_child_that_outlives_its_bot_holds_nothing_up(tmp_path: Path) -> None:
    before = "self.asked == 2 and (os.fork() and os._exit(3) or signal.pause())"
    games = play([program(tmp_path, "forks", before), opponent(tmp_path)]).games
    assert [fault.fault for fault in games[0].faults] == [Fault.CRASH]


async def test_a_bot_that_stops_answering_times_out_until_it_forfeits(tmp_path: Path) -> None:
    clock = ManualClock()
    with reports(tmp_path / "pipe") as report:
        bots = [mute(tmp_path, tmp_path / "pipe", answers=4), opponent(tmp_path)]
        # No grace: a bot that is never to end is not waited for by a clock that stands.
        hosting = replace(PATIENT, gauge=None, grace_us=0)
        match = asyncio.create_task(
            play_match(
                settings(bots, hosting=hosting, time_control=TimeControl(1_000, 5_000)), clock=clock
            )
        )
        for us in (6_001, 1_001, 1_001):
            await report()
            clock.jump(us)
        game = (await match).first_game
    assert game is not None
    reported = [(fault.fault, fault.us, fault.forfeit) for fault in game.faults]
    assert reported == [
        (Fault.TIMEOUT, 6_001, False),
        (Fault.TIMEOUT, 1_001, False),
        (Fault.TIMEOUT, 1_001, True),
    ]
    assert {fault.seat for fault in game.faults} == {0}
    assert game.placements == (2, 1)


LOOPS = """
import os, signal
PIPE = os.open({pipe!r}, os.O_WRONLY)
def prepare():
    while True: os.write(PIPE, b"."), signal.pause()
class Weights:
    table = prepare()
"""


async def test_a_bot_that_hangs_at_its_start_is_asked_for_its_stack(tmp_path: Path) -> None:
    clock = ManualClock()
    loops = written(tmp_path, "loops", LOOPS.format(pipe=str(tmp_path / "pipe")))
    with reports(tmp_path / "pipe") as report:
        bots = [never_ready(tmp_path), loops]
        hosting = replace(PATIENT, gauge=None, start_limit_us=1_000)
        match = asyncio.create_task(play_match(settings(bots, hosting=hosting), clock=clock))
        await report()
        clock.jump(1_001)
        game = (await match).first_game
    assert game is not None
    (fault,) = [fault for fault in game.faults if game.seats[fault.seat] == 1]
    assert fault.came.endswith("; it was at loops.py, line 5, in prepare")
    assert fault.error.splitlines() == [
        "Traceback (most recent call last):",
        '  File "loops.py", line 6, in <module>',
        '  File "loops.py", line 7, in Weights',
        '  File "loops.py", line 5, in prepare',
        "Fatal Python error: Aborted",
    ]


async def test_a_bot_that_never_says_hello_forfeits_and_the_others_play(tmp_path: Path) -> None:
    listener = Listener()
    clock = ManualClock()
    with reports(tmp_path / "pipe") as report:
        bots = [punctual(tmp_path, tmp_path / "pipe"), never_ready(tmp_path)]
        hosting = replace(PATIENT, gauge=None, start_limit_us=1_000, grace_us=0)
        match = asyncio.create_task(
            play_match(settings(bots, hosting=hosting, games=2), listener.on_game, clock=clock)
        )
        await report()
        clock.jump(1_001)
        result, games, _ = listener.played(await match)
    assert len(games) == 2
    for game in games:
        (fault,) = game.faults
        assert (fault.fault, game.seats[fault.seat]) == (Fault.START_TIMEOUT, 1)
        assert fault.forfeit
    assert result.summaries()[0].wins == 2


@pytest.mark.parametrize(
    ("text", "last_words"),
    [
        ("import no_such_module\n", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("raise SystemExit('not today')\n", "not today"),
        ("import os; os.abort()\n", "SIGABRT"),
        ("pass\n", "status 0"),
    ],
)
def test_a_program_that_ends_before_its_hello_stops_the_match(
    tmp_path: Path, text: str, last_words: str
) -> None:
    with pytest.raises(BotStartError, match=last_words) as caught:
        play([opponent(tmp_path), written(tmp_path, "early", text)])
    assert caught.value.bot == 1
    assert "'early'" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_program_that_is_not_there_stops_the_match(tmp_path: Path) -> None:
    ghost = BotSpec("ghost", ("./not_there",), tmp_path, "0" * 64)
    with pytest.raises(BotStartError, match="'ghost'"):
        play([ghost, opponent(tmp_path)])


def test_a_bot_that_cannot_be_started_again_forfeits(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    first = f"if os.path.exists({str(mark)!r}): sys.exit('once is enough')"
    before = f"asked == 2 and (open({str(mark)!r}, 'w').close(), sys.exit('ended'))"
    bots = [lines_bot(tmp_path, "once", before, first), opponent(tmp_path)]
    games = play(bots, games=3).games
    assert [game.faults[0].fault for game in games] == [Fault.CRASH] * 3
    assert "ended" in games[0].faults[0].came
    assert "once is enough" in games[1].faults[0].came
    assert [game.faults[0].when for game in games] == ["decision", "start", "start"]
    assert "asked" not in games[1].faults[0].explanation()


class Flaky(PlainProcess):
    """The machine fails at some starts: no bot can help it."""

    def __init__(self, *failing: int) -> None:
        self._failing = failing
        self._spawned = 0

    def spawn(self, launch: LaunchSpec) -> PlainBotProcess:
        self._spawned += 1
        if self._spawned in self._failing:
            raise OSError(errno.EMFILE, "Too many open files")
        return super().spawn(launch)


def test_a_machine_that_cannot_start_bots_is_nobodys_fault(tmp_path: Path) -> None:
    bots = [lines_bot(tmp_path, "crasher", "asked == 2 and sys.exit(1)"), opponent(tmp_path)]
    with pytest.raises(RefereeError, match="Too many open files"):
        play(bots, hosting=replace(PATIENT, isolation=Flaky(2)))
    hosting = replace(PATIENT, isolation=Flaky(3, 4, 5, 6, 7))
    result, games, _ = play(bots, games=7, hosting=hosting)
    # The bot crashes in games 1 and 7; between them the machine fails.
    assert [game.game for game in games] == [1, 7]
    assert [void.game for void in result.voids] == [2, 3, 4, 5, 6]
    assert all("Too many open files" in void.reason for void in result.voids)
    assert result.summaries()[0].faults == 2


def test_an_error_of_the_referee_in_a_stream_is_nobodys_fault_however_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = RESTARTS_IN_A_ROW + 2
    begun: dict[str, int] = {}

    def lines_or_error(message: bytes) -> tuple[bytes, list[str]]:
        for start in pb.PlayResponse.FromString(message).starts:
            begun.setdefault(start.commitment, len(begun))
            if begun[start.commitment] < failing:
                raise ZeroDivisionError("a bug")
        return lines_of(message)

    monkeypatch.setattr(server, "lines_of", lines_or_error)
    result, games, _ = play([lines_bot(tmp_path, "lines"), opponent(tmp_path)], games=failing + 1)
    assert [void.game for void in result.voids] == [*range(1, failing + 1)]
    assert all("ZeroDivisionError: a bug" in void.reason for void in result.voids)
    assert [(game.game, game.faults) for game in games] == [(failing + 1, ())]
    assert result.logs == []


def test_of_a_bot_that_keeps_crashing_the_first_logs_are_kept(tmp_path: Path) -> None:
    crasher = lines_bot(tmp_path, "crasher", "sys.exit('no idea')")
    result = play([crasher, opponent(tmp_path)], games=2, output=OutputPlan(logs_per_bot=1)).result
    assert result.summaries()[0].faults == 2
    assert [log.start for log in result.logs] == [1]


def test_a_bot_that_takes_too_much_memory_is_ended(tmp_path: Path) -> None:
    before = "asked == 2 and (b'1' * 300_000_000, signal.pause())"
    hosting = replace(PATIENT, limits=ResourceLimits(memory_bytes=200_000_000))
    games = play([lines_bot(tmp_path, "eats", before), opponent(tmp_path)], hosting=hosting).games
    faults = games[0].faults
    assert [fault.fault for fault in faults] == [Fault.RESOURCE_LIMIT]
    assert "memory" in faults[0].came
    assert games[0].placements == (2, 1)


async def test_an_interrupted_match_ends_cleanly_with_what_is_complete(tmp_path: Path) -> None:
    interrupt = asyncio.Event()

    def on_game(result: GameResult, record: GameRecord) -> None:
        if result.game == 2:
            interrupt.set()

    bots = [chooser(tmp_path), opponent(tmp_path)]
    result = await play_match(settings(bots, games=10_000), on_game, interrupt=interrupt)
    assert result.interrupted
    assert 2 <= result.games < 10_000


async def test_a_match_can_be_interrupted_while_its_bots_start(tmp_path: Path) -> None:
    interrupt = asyncio.Event()
    with reports(tmp_path / "pipe") as report:
        bots = [punctual(tmp_path, tmp_path / "pipe"), never_ready(tmp_path)]
        match = asyncio.create_task(play_match(settings(bots), interrupt=interrupt))
        await report()
        interrupt.set()
        result = await match
    assert result.interrupted
    assert result.games == 0


def test_what_goes_wrong_in_on_game_ends_the_match_and_leaves_nothing(tmp_path: Path) -> None:
    def on_game(result: GameResult, record: GameRecord) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        run(play_match(settings([chooser(tmp_path), opponent(tmp_path)], games=5), on_game))


def test_the_next_game_waits_for_room(tmp_path: Path) -> None:
    asked: list[Room] = []

    def on_game(result: GameResult, record: GameRecord) -> object:
        assert all(room.done() for room in asked)
        asked.append(Room())
        return asked[-1]

    run(play_match(settings([opponent(tmp_path), opponent(tmp_path)], games=3), on_game))
    assert [room.done() for room in asked] == [True] * 3


class Room(Future[None]):
    """There is room as soon as somebody asks."""

    def add_done_callback(self, call: Callable[[Future[None]], object]) -> None:
        super().add_done_callback(call)
        self.set_result(None)


@pytest.mark.parametrize("players", [0, 1, 7])
def test_a_game_has_two_to_six_bots(players: int) -> None:
    with pytest.raises(UserError, match="2 to 6"):
        settings([resolve("greedy")] * players)


@pytest.mark.parametrize("changes", [{"games": 0}, {"tables": 0}])
def test_a_match_has_games_and_tables(changes: dict[str, int]) -> None:
    with pytest.raises(UserError, match="at least one"):
        settings([resolve("greedy")] * 2, **changes)

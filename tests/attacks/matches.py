"""Games with a hostile bot in a sandbox between two honest ones, and the five checks after each.

The hostile seat is a real process behind its real door; the honest ones answer from memory, at
once, so that a game takes as long as the attack. Checked after every game: the others' decisions
are those of a game without the attack; the referee's memory and descriptors are as before; nothing
is left of the bot; the record re-runs; nothing secret was written down.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import grpc
import pytest

from attacks import guard, raw
from attacks.harness import Arena, belongings_before, left_of
from deepsea_bots.cautious import Cautious
from deepsea_bots.greedy import Greedy
from deepsea_referee.bots.output import BotOutput, joined
from deepsea_referee.bots.process import BotProcess, Hosting
from deepsea_referee.bots.resolve import BotSpec, resolve
from deepsea_referee.clock import SystemClock
from deepsea_referee.errors import BotFault
from deepsea_referee.pauses import Freezer, OffTurn
from deepsea_referee.play_game import play_by_requests
from deepsea_referee.sandbox import cleanup
from deepsea_referee.sandbox.interface import MIB, ResourceLimits
from deepsea_referee.server import answers_of
from deepsea_referee.session import Session
from deepsea_rules.faults import Fault, FaultReport
from deepsea_rules.game import Game, GameRecord, verify
from deepsea_rules.randomness import game_seed, seed_from_text
from deepsea_rules.ruleset import PRESETS
from deepsea_rules.time_control import TimeControl
from deepsea_rules.view import View
from deepsea_sdk._pb import play_pb2 as pb
from deepsea_sdk.bot import Bot
from deepsea_sdk.client import Player
from deepsea_sdk.table import RefereedGame
from deepsea_sdk.table import play as play_at_table
from deepsea_sdk.wire import RequestAnswer
from helpers.in_loop import run
from helpers.peers import seat

HOSTILE = 1
"""The seat between the two honest ones."""
RULES = PRESETS["manual"]
SEED = seed_from_text("attacks")
PATIENT = TimeControl(60_000_000)
"""A clock that no machine is too slow for."""
LIMITS = ResourceLimits(memory_bytes=96 * MIB, processes=24, open_files=256, file_bytes=4 * MIB)
CANARY_VARIABLE = "DATABASE_URL"
GONE_S = 2.0
"""How long something of a bot may be left after its end."""
SPOKEN_S = 20.0
RETAINED_BYTES = 24 * MIB
PEAK_BYTES = 48 * MIB

HANDSHAKE = pytest.mark.skipif(
    tuple(map(int, grpc.__version__.split(".")[:2])) < (1, 80),
    reason="grpcio below 1.80 breaks down when a server stops during a handshake",
)


class Defaults(Bot):
    """What a forfeited seat is made to play."""

    def decide(self, view: View) -> str:
        return str(view.legal[0])


@dataclass(slots=True)
class Played:
    """What came of the games with one hostile bot."""

    faults: list[list[FaultReport]] = field(default_factory=list)
    """Of each game."""
    games: list[Game] = field(default_factory=list)
    said: list[dict[str, Any]] = field(default_factory=list)
    """The reports that the hostile program printed."""
    log: str = ""
    off_turn: OffTurn = field(default_factory=OffTurn)

    def kinds(self, game: int = 0) -> list[Fault]:
        return [report.fault for report in self.faults[game]]

    @property
    def report(self) -> dict[str, Any]:
        """All that it said, as one."""
        return {name: value for line in self.said for name, value in line.items()}


def hostile(arena: Arena, program: str, *arguments: str, protocol: str = "grpc") -> BotSpec:
    """A hostile program as a bot's folder, with the copy that plays."""
    folder = arena.bot_folder(program)
    shutil.copy(raw.__file__, folder / "attacks" / "raw.py")
    told = f"{guard.HOST_VARIABLE}={json.dumps(guard.namespaces())}"
    command = ["env", told, sys.executable, "program.py", *arguments]
    words = ", ".join(json.dumps(word) for word in command)
    (folder / "bot.toml").write_text(
        f'name = "hostile"\ncommand = [{words}]\nprotocol = "{protocol}"\n'
    )
    return resolve(str(folder)).copied(folder.with_name(f"{folder.name}-copy"))


def attack(
    arena: Arena,
    program: str,
    *arguments: str,
    control: TimeControl = PATIENT,
    games: int = 1,
    reports: int = 0,
    limits: ResourceLimits = LIMITS,
    start_limit_us: int = 60_000_000,
    grace_us: int = 20_000_000,
    write_limit_us: int | None = None,
    freeze: bool = False,
    pause_s: float = 0,
    pauses: int = sys.maxsize,
    protocol: str = "grpc",
) -> Played:
    """Play games with a hostile bot and make the five checks.

    reports         so many lines it prints are waited for before it is ended
    freeze          whether bots are stopped outside of their turns
    pause_s         how long the honest ones think
    pauses          in so many of their first decisions
    """
    _warm_up()
    bot = hostile(arena, program, *arguments, protocol=protocol)
    assert bot.folder is not None
    before = belongings_before(bot.folder)
    memory = resident_bytes()
    forget_peak()
    records: list[logging.LogRecord] = []
    listener = _Listener(records)
    logging.getLogger().addHandler(listener)
    hosting = Hosting(
        arena.sandbox,
        limits,
        start_limit_us=start_limit_us,
        grace_us=grace_us,
        freeze=freeze,
    )
    played = Played()
    try:
        honest = [_Honest(bot, pause_s, pauses) for bot in (Greedy(), Cautious())]
        match = _play(played, bot, hosting, control, games, reports, write_limit_us, honest)
        token = run(match, is_long=True)
    finally:
        logging.getLogger().removeHandler(listener)
    _check(played)
    assert resident_bytes() - memory < RETAINED_BYTES
    assert peak_bytes() - memory < PEAK_BYTES
    _vanished(bot.folder, before)
    # The match's report says what a bot does, and nothing else is printed about it.
    assert [record.getMessage() for record in records if record.levelno >= logging.ERROR] == []
    words = [record.getMessage() for record in records] + [
        report.explanation() for reports in played.faults for report in reports
    ]
    secrets = [token, *(game.seed.hex() for game in played.games)]
    secrets += [os.environ[CANARY_VARIABLE]] if CANARY_VARIABLE in os.environ else []
    for text in [*words, played.log]:
        assert not any(secret in text for secret in secrets)
    return played


async def _play(
    played: Played,
    bot: BotSpec,
    hosting: Hosting,
    control: TimeControl,
    games: int,
    reports: int,
    write_limit_us: int | None,
    honest: list[_Honest],
) -> str:
    """Play the games; returns the token that the bot was given."""
    clock = SystemClock()
    folder = cleanup.private_folder()
    process = BotProcess(bot, hosting, clock, BotOutput(), (), Freezer(clock))
    if write_limit_us is not None:
        process.session._write_limit_us = write_limit_us
    sessions = [Session(clock) for _ in honest]
    serving = [
        asyncio.create_task(session.serve(stream))
        for session, stream in zip(sessions, honest, strict=True)
    ]
    try:
        await process.start(folder / "seat")
        seats = [sessions[0], process.session, sessions[1]]
        for number in range(games):
            game = Game(RULES, 3, game_seed(SEED, number))
            refereed = RefereedGame(game, f"g{number}", control)
            await play_by_requests(refereed, seats)
            played.games.append(game)
            played.faults.append(refereed.faults)
        async with asyncio.timeout(SPOKEN_S):
            while len(_reports_in(process)) < reports:  # noqa: ASYNC110 - a capture has no event
                await asyncio.sleep(0.01)
    finally:
        await process.stop()
        cleanup.remove_folder(folder)
        for session in sessions:
            session.close("the test is over")
        await asyncio.gather(*serving, return_exceptions=True)
        played.said = _reports_in(process)
        played.log = joined(*process.log())
        played.off_turn = process.off_turn
    assert "refuses to run outside" not in played.log
    return process._token


def _reports_in(process: BotProcess) -> list[dict[str, Any]]:
    lines = process._stdout.tail.text().split("\n")[:-1]
    return [json.loads(line) for line in lines if line.startswith("{")]


@cache
def _warm_up() -> None:
    """Let gRPC take what it keeps for as long as this process lives."""

    async def open_a_door() -> None:
        folder = cleanup.private_folder()
        async with seat(folder) as it, it.peer():
            pass
        cleanup.remove_folder(folder)

    run(open_a_door(), is_long=True)


@cache
def foretold(number: int) -> Game:
    """The game as it goes when the hostile seat does no more than play default actions."""
    return play_at_table([Greedy, Defaults, Cautious], RULES, game_seed(SEED, number))


def of_others(game: Game) -> list[tuple[int, str]]:
    """The honest seats' decisions."""
    return [(one.seat, one.action) for one in game.decisions if one.seat != HOSTILE]


def _check(played: Played) -> None:
    for number, game in enumerate(played.games):
        assert {report.seat for report in played.faults[number]} <= {HOSTILE}
        assert all(one.fault is None for one in game.decisions if one.seat != HOSTILE)
        expected = foretold(number)
        assert of_others(game) == of_others(expected)
        assert game.result().points == expected.result().points
        seats = [(name, "0" * 64) for name in ("greedy", "hostile", "cautious")]
        record = GameRecord.of(game, game_id=f"g{number}", clock="60s", seats=seats)
        verify(GameRecord.from_json(record.to_json()))


def _vanished(folder: Path, before: Mapping[str, Counter[str]]) -> None:
    """Wait until nothing is left of a bot; gRPC closes its descriptors in threads of its own."""
    give_up = time.monotonic() + GONE_S
    while left := left_of(folder, before):
        assert time.monotonic() < give_up, f"left behind: {left}"
        time.sleep(0.01)


class _Honest:
    """A stream to a bot in memory that answers at once."""

    def __init__(self, bot: Bot, pause_s: float, pauses: int) -> None:
        self._player = Player(lambda: bot)
        self._pause_s = pause_s
        self._pauses = pauses
        self._answers: asyncio.Queue[bytes] = asyncio.Queue()

    async def write(self, data: bytes) -> None:
        answer = self._player.receive(pb.PlayResponse.FromString(data))
        if answer is not None:
            self._answers.put_nowait(answer.SerializeToString())

    async def read(self) -> list[RequestAnswer]:
        answer = await self._answers.get()
        if self._pause_s and self._pauses > 0:
            self._pauses -= 1
            await asyncio.sleep(self._pause_s)
        return answers_of(answer)

    async def abort(self, fault: BotFault | None) -> None:
        raise AssertionError(f"the honest bot was refused: {fault}")


class _Listener(logging.Handler):
    def __init__(self, records: list[logging.LogRecord]) -> None:
        super().__init__(logging.DEBUG)
        self._records = records

    def emit(self, record: logging.LogRecord) -> None:
        self._records.append(record)


def resident_bytes() -> int:
    """The memory that this process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def forget_peak() -> None:
    """Let the peak be counted anew."""
    Path("/proc/self/clear_refs").write_text("5")


def peak_bytes() -> int:
    """The most memory that this process had since."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024

"""A line-up and a game: processes are made ready, and their trouble is explained."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from deepsea_referee.bots.pool import BotPool, Slot
from deepsea_referee.bots.resolve import BotSpec
from deepsea_referee.errors import BotFault, HostOutOfMemory, HostTooBusy, RefereeError
from deepsea_referee.play_game import play_game
from deepsea_referee.session import OnAnswer, Session
from deepsea_rules.faults import Fault
from deepsea_rules.game import Game, verify
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import PRESETS
from deepsea_sdk._pb import play_pb2 as pb
from deepsea_sdk.bot import TimeLeft
from deepsea_sdk.table import RefereedGame
from helpers.streams import CONTROL, Table, last_legal

BOTH = [Slot(0), Slot(1)]


class Process:
    """A bot's process as a game knows it."""

    troubled = False
    bot = BotSpec("one", ("true",), None, "00")

    def __init__(self, session: Session) -> None:
        self.session = session
        self.without_memory: HostOutOfMemory | None = None

    def shortage(self) -> HostOutOfMemory | None:
        return self.without_memory

    async def exit_text(self) -> str:
        return "exited with status 3"

    def error_text(self) -> str:
        return "KeyError: 3"


class Pool:
    """Bots that are there, or fail to start on our side."""

    def __init__(self, sessions: list[Session]) -> None:
        self.processes = [Process(session) for session in sessions]
        self.broken: int | None = None
        self.gone = ""
        self.came: list[int] = []
        self.finished: list[int] = []

    def running(self, bot: Slot) -> Process | None:
        return None

    async def ready(self, bot: int, *, suspect: bool) -> Process:
        if bot == self.broken:
            raise RefereeError("no sandbox")
        await asyncio.to_thread(int)  # it takes a moment
        self.came.append(bot)
        return self.processes[bot]

    def given_up(self, bot: int) -> str:
        return self.gone

    def finished_game(self, bot: int) -> None:
        self.finished.append(bot)


def new_game() -> RefereedGame:
    game = Game(PRESETS["manual"], 2, seed_from_text("play game"))
    return RefereedGame(game, "g", CONTROL, [("one", "00"), ("other", "11")])


async def test_a_game_is_void_if_the_machine_had_no_memory_for_a_bot_at_fault() -> None:
    for faulty in (0, 1):
        table = Table([last_legal, last_legal])
        pool = Pool(table.sessions)
        pool.processes[0].without_memory = HostOutOfMemory("no memory")
        await table.sessions[faulty].connected
        table.sessions[faulty].fail(BotFault(Fault.CRASH, "its helper is gone"))
        game = play_game(new_game(), cast(BotPool, pool), BOTH)
        if faulty == 0:
            with pytest.raises(HostOutOfMemory, match="no memory"):
                await game
        else:  # what happened to it did no harm
            assert {report.seat for report in (await game).faults} == {1}
        await table.close()


async def test_a_line_up_plays_and_its_crash_is_explained() -> None:
    table = Table([last_legal, last_legal])
    pool = Pool(table.sessions)
    await table.sessions[0].connected
    table.sessions[0].fail(BotFault(Fault.CRASH, "gone"))
    played = await play_game(new_game(), cast(BotPool, pool), [Slot(1), Slot(0)])
    await table.close()
    (fault,) = played.faults
    assert (fault.seat, fault.fault) == (1, Fault.CRASH)
    # It was gone before the game began: nothing was asked of it.
    assert (fault.came, fault.when, fault.error) == ("gone", "start", "KeyError: 3")
    assert fault.explanation() == "crash: gone; the seat forfeits"
    assert [process.troubled for process in pool.processes] == [True, False]
    assert pool.finished == [1, 0]
    verify(played.record)


class Ready(Pool):
    """Bots that are there at once, so that games go side by side, step by step."""

    def running(self, bot: Slot) -> Process | None:
        return self.processes[bot]


async def test_a_games_longest_decision_counts_with_those_of_others_in_its_message() -> None:
    asked: list[str] = []

    def slow_once(request: pb.DecisionRequest) -> str:
        asked.append(request.game_id)
        if len(asked) == 5:
            table.clock.jump(50)  # of a message with both games' requests: 25 for each
        return last_legal(request)

    table = Table([slow_once, last_legal])
    games = [play_game(new_game(), cast(BotPool, Ready(table.sessions)), BOTH) for _ in range(2)]
    both = await asyncio.gather(*games)
    await table.close()
    assert [played.longest_us for played in both] == [50, 50]
    assert [max(one.us for one in played.record.decisions) for played in both] == [25, 25]


async def test_what_is_done_to_a_seat_on_purpose_is_not_held_against_its_process() -> None:
    def broken(session: Session) -> Session:
        session.fail(BotFault(Fault.CRASH, "on purpose"))
        return session

    table = Table([last_legal, last_legal])
    pool = Pool(table.sessions)
    played = await play_game(new_game(), cast(BotPool, pool), BOTH, {0: broken})
    await table.close()
    assert [fault.came for fault in played.faults] == ["on purpose"]
    assert not any(process.troubled for process in pool.processes)


class Starved:
    """A seat whose first decision the host delays."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._asked = 0
        self.send = session.send
        self.features = session.features

    def ask(self, request: bytes, time_left: TimeLeft, on_answer: OnAnswer) -> int:
        self._asked += 1
        if self._asked > 1:
            return self._session.ask(request, time_left, on_answer)
        busy = HostTooBusy("the host was too busy", 12_000_000)
        asyncio.get_running_loop().call_soon(on_answer, busy)
        return 0


async def test_a_decision_that_the_host_delayed_voids_the_game_and_names_the_seat() -> None:
    table = Table([last_legal, last_legal])
    pool = Pool(table.sessions)
    with pytest.raises(HostTooBusy, match="too busy") as caught:
        await play_game(new_game(), cast(BotPool, pool), BOTH, {1: Starved})
    assert caught.value.seat == 1
    await table.close()


async def test_a_start_that_the_host_delayed_is_never_that_of_a_seat_with_another_player() -> None:
    class Busy(Pool):
        async def ready(self, bot: int, *, suspect: bool) -> Process:
            raise HostTooBusy("the host was too busy", 12_000_000)

    table = Table([last_legal, last_legal])
    pool = cast(BotPool, Busy(table.sessions))
    person = {1: lambda session: session}
    with pytest.raises(HostTooBusy) as caught:
        await play_game(new_game(), pool, (Slot(0), Slot(0)), person)
    assert caught.value.seat == 0
    await table.close()


async def test_the_second_time_it_is_that_seats_timeout() -> None:
    table = Table([last_legal, last_legal])
    pool = cast(BotPool, Pool(table.sessions))
    played = await play_game(new_game(), pool, BOTH, {1: Starved}, suspects={1})
    await table.close()
    (fault,) = played.faults
    assert (fault.seat, fault.fault, fault.us) == (1, Fault.TIMEOUT, 12_000_000)
    verify(played.record)


async def test_a_start_that_fails_on_our_side_voids_the_game_when_no_other_start_is_under_way() -> (
    None
):
    table = Table([last_legal, last_legal])
    pool = Pool(table.sessions)
    pool.broken = 0
    with pytest.raises(RefereeError, match="no sandbox"):
        await play_game(new_game(), cast(BotPool, pool), BOTH)
    assert pool.came == [1]
    assert pool.finished == []
    await table.close()

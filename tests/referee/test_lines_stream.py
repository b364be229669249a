"""Bots that speak lines: a scripted peer at the other end of the pipes, good or bad."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from deepsea_referee.errors import BotFault
from deepsea_referee.server import LinesServer
from deepsea_referee.session import WRITE_LIMIT_US, Session, TimedAnswer
from deepsea_rules.faults import Fault
from deepsea_sdk import wire
from deepsea_sdk._pb import play_pb2 as pb
from deepsea_sdk.bot import FaultNotice
from deepsea_sdk.wire.lines import LINE_BYTES
from helpers.manual_clock import ManualClock
from helpers.peers import ask, one_pass
from helpers.programs import open_descriptors

LIMIT_US = 100_000
TAKE = b'{"type":"answer","id":1,"action":"take"}'


class Peer:
    """The bot's ends of the pipes, and the session at the others."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.session = Session(self.clock)
        self.told: list[str] = []
        self.refused: list[str] = []
        self.server = LinesServer(self.session, self.told.append, self.refused.append)
        self._unread = b""

    def open(self) -> None:
        """Take the bot's ends, as a process does that has just been started."""
        self.stdin, self.stdout = os.dup(self.server.stdin), os.dup(self.server.stdout)
        self.server.close_theirs()
        os.set_blocking(self.stdin, False)

    def close(self) -> None:
        for end in (self.stdin, self.stdout):
            with suppress(OSError):
                os.close(end)

    async def line(self) -> dict[str, Any]:
        """The next line from the referee."""
        while b"\n" not in self._unread:
            try:
                data = os.read(self.stdin, 65536)
            except BlockingIOError:
                await one_pass()
                continue
            assert data, "the referee closed the pipe"
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        said = json.loads(line)
        assert isinstance(said, dict)
        return said

    async def write(self, data: bytes) -> None:
        """Write all of it, as far as the referee takes it."""
        with suppress(BrokenPipeError):
            while data:
                data = data[await asyncio.to_thread(os.write, self.stdout, data) :]

    async def say(self, line: bytes) -> None:
        await self.write(line + b"\n")

    def ask(self, game_id: str = "g") -> asyncio.Future[TimedAnswer]:
        request = pb.DecisionRequest(game_id=game_id, legal=["leave"], budget_us=LIMIT_US)
        return ask(self.session, request, LIMIT_US)


@asynccontextmanager
async def stranger() -> AsyncIterator[Peer]:
    """A peer that has said nothing yet."""
    before = open_descriptors()
    peer = Peer()
    await peer.server.start()
    peer.open()
    try:
        yield peer
    finally:
        peer.close()
        await peer.server.stop()
        await one_pass()  # in which transports close their pipes
    assert open_descriptors() <= before  # of other tests some may be gone


@asynccontextmanager
async def ready() -> AsyncIterator[Peer]:
    async with stranger() as peer:
        assert (await peer.line())["type"] == "hello"
        await peer.say(b'{"type":"ready","features":["concurrent_games"]}')
        await peer.session.connected
        yield peer


async def fault_of(asked: asyncio.Future[TimedAnswer]) -> BotFault:
    with pytest.raises(BotFault) as caught:
        await asked
    return caught.value


@pytest.mark.parametrize("before", [b"\n", b" \r\n", b"\xef\xbb\xbf", b"\n" * 8])
async def test_empty_lines_and_a_byte_order_mark_are_skipped(before: bytes) -> None:
    async with ready() as peer:
        for _ in range(2):
            asked = peer.ask()
            request_id = (await peer.line())["id"]
            await peer.write(before)
            await peer.say(TAKE.replace(b"1", b"%d" % request_id))
            assert (await asked).action == "take"


async def test_an_answer_carries_the_action_and_the_time() -> None:
    async with ready() as peer:
        assert peer.session.features == {"concurrent_games"}
        asked = peer.ask()
        line = await peer.line()
        assert (line["type"], line["id"], line["deadline_ms"]) == ("decide", 1, 100)
        peer.clock.jump(1_234)
        await peer.say(TAKE)
        assert await asked == TimedAnswer("take", 1_234, wall_us=1_234)


async def test_a_line_may_come_in_pieces_and_be_as_long_as_the_limit() -> None:
    async with ready() as peer:
        asked = peer.ask()
        for byte in TAKE:
            await peer.write(bytes([byte]))
            await one_pass()
        assert not asked.done()
        await peer.write(b" " * (LINE_BYTES - len(TAKE)) + b"\n")
        assert (await asked).action == "take"


async def test_games_at_once_are_answered_in_any_order() -> None:
    async with ready() as peer:
        asked = [peer.ask(f"g{number}") for number in range(3)]
        lines = [await peer.line() for _ in asked]
        assert [line["game_id"] for line in lines] == ["g0", "g1", "g2"]
        for line in reversed(lines):
            answer = {"type": "answer", "id": line["id"], "action": line["game_id"]}
            await peer.say(json.dumps(answer).encode())
        assert [(await one).action for one in asked] == ["g0", "g1", "g2"]


async def test_a_late_answer_is_dropped() -> None:
    async with ready() as peer:
        asked = peer.ask()
        await peer.line()
        peer.clock.jump(LIMIT_US + 1)
        assert (await fault_of(asked)).fault is Fault.TIMEOUT
        again = peer.ask()
        await peer.say(TAKE)
        assert (await peer.line())["id"] == 2
        await peer.say(b'{"type":"answer","id":2,"action":"leave"}')
        assert (await again).action == "leave"


async def test_faults_are_told_to_the_bot_and_to_its_author() -> None:
    async with ready() as peer:
        notice = FaultNotice("g", 1, Fault.TIMEOUT, "too late", forfeit=True)
        peer.session.send(wire.fault_message(notice))
        line = await peer.line()
        assert (line["type"], line["fault"], line["forfeit"]) == ("fault", "timeout", True)
        assert peer.told == ["too late"]


async def test_goodbye_comes_before_the_end_of_stdin() -> None:
    async with ready() as peer:
        peer.session.close("that is all")
        assert await peer.line() == {"type": "goodbye", "reason": "that is all"}
        await peer.session.ended
        await peer.server.stop()
        await one_pass()
        assert os.read(peer.stdin, 1) == b""


NO_JSON = "which is not JSON"
TOO_LONG = f"it wrote a line of more than {LINE_BYTES:,} bytes"


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (b"take\n", NO_JSON),
        (b"\n" * 9, "it wrote more than 8 empty lines in a row"),
        (b"\0\n", NO_JSON),
        (b"[" * 60_000 + b"\n", NO_JSON),
        (TAKE + TAKE + b"\n", NO_JSON),
        (b'{"type":"ready"}\n', "which is no answer"),
        (TAKE.replace(b"1", b"2") + b"\n", "it answered request 2, which is not open"),
        (b" " * LINE_BYTES + TAKE + b"\n", TOO_LONG),
        (b"x" * (1 << 20), TOO_LONG),
        (b"y\n" * (1 << 20), NO_JSON),
    ],
)
async def test_what_is_no_answer_ends_the_stream(written: bytes, words: str) -> None:
    async with ready() as peer:
        asked = peer.ask()
        await peer.line()
        await peer.write(written)
        fault = await fault_of(asked)
        assert fault.fault is Fault.PROTOCOL_ERROR
        assert fault.detail.endswith(words)
        while not peer.told:
            await one_pass()
        assert peer.told == [fault.detail]
        await peer.server.stop()
        await one_pass()  # in which the transports close their pipes
        with pytest.raises(BrokenPipeError):
            os.write(peer.stdout, b"more")


async def test_an_answer_before_its_request_is_a_fault_of_the_next() -> None:
    async with ready() as peer:
        await peer.say(TAKE)
        await peer.session.ended
        fault = await fault_of(peer.ask())
        assert (fault.fault, fault.us) == (Fault.PROTOCOL_ERROR, 0)


async def test_of_two_answers_the_first_counts() -> None:
    async with ready() as peer:
        asked = peer.ask()
        await peer.line()
        await peer.write((TAKE + b"\n") * 2)
        assert (await asked).action == "take"
        assert (await fault_of(peer.ask())).detail == "it answered request 1, which is not open"


@pytest.mark.parametrize("written", [b"", TAKE, b" " * LINE_BYTES])
async def test_without_a_line_end_there_is_no_answer_but_a_timeout(written: bytes) -> None:
    async with ready() as peer:
        asked = peer.ask()
        await peer.line()
        await peer.write(written)
        peer.clock.jump(LIMIT_US + 1)
        assert (await fault_of(asked)).fault is Fault.TIMEOUT
        assert peer.session.usable


@pytest.mark.parametrize("ends", [["stdout"], ["stdin"], ["stdin", "stdout"]])
@pytest.mark.parametrize("written", [b"", TAKE])
async def test_whoever_closes_a_pipe_has_crashed(ends: list[str], written: bytes) -> None:
    async with ready() as peer:
        asked = peer.ask()
        await peer.line()
        await peer.write(written)
        for end in ends:
            os.close(getattr(peer, end))
        if "stdout" not in ends:  # it may still answer; the next write shows it
            peer.clock.jump(LIMIT_US + 1)
            assert (await fault_of(asked)).fault is Fault.TIMEOUT
            asked = peer.ask()
        fault = await fault_of(asked)
        assert (fault.fault, fault.detail) == (Fault.CRASH, "the stream ended")


async def test_whoever_closes_stdin_and_writes_on_has_crashed_and_nothing_is_shouted() -> None:
    wrong: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: wrong.append(context))
    for _ in range(20):
        async with ready() as peer:
            os.close(peer.stdin)
            writing = asyncio.create_task(peer.write(b" " * (1 << 20)))
            assert (await fault_of(peer.ask())).fault is Fault.CRASH
            await peer.server.stop()
            await writing
    assert wrong == []


async def test_who_never_reads_has_timeouts_and_then_a_crash() -> None:
    async with ready() as peer:
        peer.session.send(wire.void_message("x" * 60_000) * 3)  # more than the pipe holds
        while not peer.clock.alarms:
            await one_pass()
        asked = peer.ask()
        peer.clock.jump(LIMIT_US + 1)
        assert (await fault_of(asked)).fault is Fault.TIMEOUT
        peer.clock.jump(WRITE_LIMIT_US)
        await peer.session.ended
        fault = await fault_of(peer.ask())
        assert (fault.fault, fault.detail) == (Fault.CRASH, "it does not read its messages")


@pytest.mark.parametrize(
    "written", [b"hello\n", b"{}\n", TAKE + b"\n", b"x" * (1 << 20), b'{"type":"ready"}']
)
async def test_a_wrong_first_line_is_refused_and_ends_both_pipes(written: bytes) -> None:
    async with stranger() as peer:
        await peer.write(written)
        if written.startswith(b'{"type":"ready"'):
            os.close(peer.stdout)
        while True:
            try:
                if not os.read(peer.stdin, 65536):
                    break
            except BlockingIOError:
                await one_pass()
        assert not peer.session.connected.done()
        assert len(peer.refused) == (not written.startswith(b'{"type":"ready"'))

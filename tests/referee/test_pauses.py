"""A session says when a bot has answered everything, and when it is asked again."""

from __future__ import annotations

from pathlib import Path

import pytest

from deepsea_referee.errors import BotFault
from deepsea_referee.transport.outbox import HELD_BYTES
from deepsea_referee.transport.pauses import Pauses
from deepsea_sdk import wire
from deepsea_sdk._pb import play_pb2 as pb
from helpers.peers import Peer, Seat, ask, one_pass, seat

BUDGET_US = 100_000


def question() -> pb.DecisionRequest:
    return pb.DecisionRequest(game_id="g", legal=["down", "back"], budget_us=BUDGET_US)


async def test_a_bot_is_frozen_between_its_turns_and_thawed_before_its_clock_starts(
    tmp_path: Path,
) -> None:
    async with seat(tmp_path) as it, it.peer() as peer:
        said: list[tuple[str, int]] = []
        it.session.pauses = Said(said)
        await answered(it, peer)
        it.clock.jump(500)
        await answered(it, peer)
        assert said == [("resume", 0), ("pause", 0), ("resume", 500), ("pause", 500)]
        it.session.close("the end")
        await one_pass()
        assert said[-1] == ("resume", 500)  # or it could not hear goodbye


async def test_two_questions_at_once_freeze_only_after_the_second_answer(tmp_path: Path) -> None:
    async with seat(tmp_path) as it, it.peer() as peer:
        said: list[tuple[str, int]] = []
        it.session.pauses = Said(said)
        asked = [ask(it.session, question(), BUDGET_US) for _ in range(2)]
        message = await peer.next()
        await peer.answer(message.requests[0], "down")
        await asked[0]
        assert said == [("resume", 0)]
        await peer.answer(message.requests[1], "down")
        await asked[1]
        assert said == [("resume", 0), ("pause", 0)]


async def test_a_bot_may_be_frozen_after_a_timeout_too(tmp_path: Path) -> None:
    async with seat(tmp_path) as it, it.peer() as peer:
        said: list[tuple[str, int]] = []
        it.session.pauses = Said(said)
        asked = ask(it.session, question(), BUDGET_US)
        await peer.request()
        it.clock.jump(BUDGET_US + 1)
        with pytest.raises(BotFault):
            await asked
        assert said == [("resume", 0), ("rest", BUDGET_US + 1)]


async def test_a_bot_may_be_frozen_from_hello_on(tmp_path: Path) -> None:
    async with seat(tmp_path) as it:
        said: list[tuple[str, int]] = []
        it.session.pauses = Said(said)
        async with it.peer():
            assert said == [("rest", 0)]


async def test_messages_for_a_frozen_bot_wait_for_the_next_question(tmp_path: Path) -> None:
    async with seat(tmp_path) as it, it.peer() as peer:
        pauses = it.session.pauses = Said([])
        pauses.frozen = True
        it.session.send(wire.void_message("g1"))
        for _ in range(10):
            await one_pass()
        assert len(it.session._outbox) == 1
        assert pauses.said == []
        asked = ask(it.session, question(), BUDGET_US)
        message = await peer.next()  # both
        assert (len(message.requests), len(message.results)) == (1, 1)
        await peer.answer(message.requests[0], "down")
        await asked


async def test_many_messages_for_a_frozen_bot_wake_it(tmp_path: Path) -> None:
    async with seat(tmp_path) as it, it.peer() as peer:
        pauses = it.session.pauses = Said([])
        pauses.frozen = True
        for _ in range(2):
            it.session.send(wire.void_message("x" * HELD_BYTES))
        await peer.next()
        await peer.next()
        assert ("resume", 0) in pauses.said
        assert pauses.said[-1] == ("rest", 0)


async def test_a_frozen_bot_is_not_ended_because_it_reads_nothing(tmp_path: Path) -> None:
    async with seat(tmp_path, write_limit_us=1_000) as it, it.peer() as peer:
        pauses = it.session.pauses = Said([])
        big = wire.void_message("x" * 60_000)
        for _ in range(60):  # until flow control holds the writer
            it.session.send(big)
            await one_pass()
        while it.session._write_by_us is None:
            await one_pass()
        pauses.frozen = True
        it.clock.jump(5_000)
        assert it.session.usable
        # It is thawed when it is asked, or it could never read the question.
        asked = ask(it.session, question(), BUDGET_US)
        assert pauses.said == [("resume", 5_000)]
        await peer.answer(await peer.request(), "down")
        await asked


class Said(Pauses):
    """Pauses that only note when they begin and end."""

    frozen = False

    def __init__(self, said: list[tuple[str, int]]) -> None:
        super().__init__()
        self.said = said

    def rest(self, now_us: int) -> None:
        self.said.append(("rest", now_us))

    def pause(self, now_us: int) -> None:
        self.said.append(("pause", now_us))

    def resume(self, now_us: int) -> None:
        self.frozen = False
        self.said.append(("resume", now_us))


async def answered(it: Seat, peer: Peer) -> None:
    asked = ask(it.session, question(), BUDGET_US)
    request = await peer.request()
    await peer.answer(request, "down")
    await asked

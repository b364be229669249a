"""One stream, many games: order, clocks, late answers, and what ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn, cast, get_args

import grpc
import pytest

from deepsea_referee.errors import BotFault, RefereeError
from deepsea_referee.pauses import Gauge, Pauses
from deepsea_referee.session import (
    HELD_BYTES,
    MESSAGE_BYTES,
    TRANSITIONS,
    Session,
    State,
    TimedAnswer,
)
from deepsea_rules.faults import Fault
from deepsea_sdk import wire
from deepsea_sdk._pb import play_pb2 as pb
from helpers.peers import Peer, Seat, ask, one_pass, seat
from helpers.streams import MemoryStream, Table, first_legal

LIMIT_US = 100_000


def question(game_id: str = "g") -> pb.DecisionRequest:
    return pb.DecisionRequest(game_id=game_id, legal=["down", "back"], budget_us=LIMIT_US)


async def test_an_answer_carries_the_action_and_the_time_from_write_to_read(tmp_path: Path) -> None:
    async with seat(tmp_path) as it, it.peer() as peer:
        asked = ask(it.session, question(), LIMIT_US)
        request = await peer.request()
        it.clock.jump(1_234)
        await peer.answer(request, "back")
        assert await asked == TimedAnswer("back", 1_234, wall_us=1_234)


async def test_what_is_ready_in_one_pass_goes_out_as_one_message(tmp_path: Path) -> None:
    async with seat(tmp_path) as it, it.peer() as peer:
        asked = [ask(it.session, question(f"g{i}"), LIMIT_US) for i in range(5)]
        it.session.send(wire.void_message("old"))
        message = await peer.next()
        assert [request.game_id for request in message.requests] == [f"g{i}" for i in range(5)]
        assert [over.game_id for over in message.results] == ["old"]
        # The answers come in one message too, in any order.
        decisions = [
            pb.Decision(request_id=r.request_id, action=r.game_id)
            for r in reversed(message.requests)
        ]
        await peer.send(pb.PlayRequest(decisions=decisions))
        assert [(await one).action for one in asked] == [f"g{i}" for i in range(5)]


async def test_messages_are_put_together_up_to_their_limit(tmp_path: Path) -> None:
    async with seat(tmp_path) as it, it.peer() as peer:
        for i in range(100):
            ask(it.session, pb.DecisionRequest(game_id=f"{i:02000}", legal=["down"]), LIMIT_US)
        games: list[int] = []
        while len(games) < 100:
            message = await peer.next()
            games += [int(request.game_id) for request in message.requests]
            for request in message.requests:
                await peer.answer(request, "down")
        assert games == list(range(100))
        assert len(peer.seen[1:]) == 4  # after the welcome
        assert all(len(data) <= MESSAGE_BYTES for data in peer.seen)


async def test_request_ids_are_never_used_twice(tmp_path: Path) -> None:
    async with seat(tmp_path) as it, it.peer() as peer:
        ids = set()
        for _ in range(5):
            asked = ask(it.session, question(), LIMIT_US)
            request = await peer.request()
            await peer.answer(request, "down")
            await asked
            ids.add(request.request_id)
        assert len(ids) == 5


@pytest.mark.parametrize(("elapsed_us", "in_time"), [(LIMIT_US, True), (LIMIT_US + 1, False)])
async def test_the_whole_limit_may_be_used_and_not_a_microsecond_more(
    tmp_path: Path, elapsed_us: int, in_time: bool
) -> None:
    async with seat(tmp_path) as it, it.peer() as peer:
        asked = ask(it.session, question(), LIMIT_US)
        request = await peer.request()
        it.clock.jump(elapsed_us)
        assert asked.done() is not in_time
        await peer.answer(request, "down")
        if in_time:
            assert await asked == TimedAnswer("down", elapsed_us, wall_us=elapsed_us)
        else:
            with pytest.raises(BotFault) as caught:
                await asked
            assert (caught.value.fault, caught.value.us) == (Fault.TIMEOUT, elapsed_us)


async def test_what_is_asked_while_a_bot_thinks_waits_and_its_clock_too(tmp_path: Path) -> None:
    async with seat(tmp_path) as it, it.peer() as peer:
        first = ask(it.session, question("first"), LIMIT_US)
        request = await peer.request()
        others = [ask(it.session, question(f"g{i}"), LIMIT_US) for i in range(2)]
        await one_pass()
        it.clock.jump(LIMIT_US)
        await peer.answer(request, "down")
        assert await first == TimedAnswer("down", LIMIT_US, wall_us=LIMIT_US)
        requests = (await peer.next()).requests
        assert [request.game_id for request in requests] == ["g0", "g1"]
        it.clock.jump(20)
        for request in requests:
            await peer.answer(request, "down")
        assert [await other for other in others] == [TimedAnswer("down", 10, wall_us=20)] * 2


async def test_after_a_timeout_the_next_question_is_asked(tmp_path: Path) -> None:
    async with seat(tmp_path) as it, it.peer() as peer:
        first = ask(it.session, question("first"), LIMIT_US)
        await peer.request()
        other = ask(it.session, question("other"), LIMIT_US)
        await it.alarm_is_set()
        it.clock.jump(LIMIT_US + 1)
        assert isinstance(first.exception(), BotFault)
        request = await peer.request()
        await peer.answer(request, "down")
        assert await other == TimedAnswer("down", 0)


async def test_a_message_with_n_questions_has_n_times_the_budget(tmp_path: Path) -> None:
    async with seat(tmp_path) as it, it.peer() as peer:
        asked = [ask(it.session, question(f"g{i}"), LIMIT_US) for i in range(4)]
        message = await peer.next()
        it.clock.jump(4 * LIMIT_US)
        assert not any(one.done() for one in asked)
        decisions = [pb.Decision(request_id=r.request_id, action="down") for r in message.requests]
        await peer.send(pb.PlayRequest(decisions=decisions))
        assert [(await one).us for one in asked] == [LIMIT_US] * 4


async def test_one_of_n_questions_that_takes_all_the_time_is_a_timeout_of_all(
    tmp_path: Path,
) -> None:
    async with seat(tmp_path) as it, it.peer() as peer:
        asked = [ask(it.session, question(f"g{i}"), LIMIT_US) for i in range(4)]
        await peer.next()
        await it.alarm_is_set()
        it.clock.jump(4 * LIMIT_US + 4)
        for one in asked:
            fault = one.exception()
            assert isinstance(fault, BotFault)
            assert (fault.fault, fault.us) == (Fault.TIMEOUT, LIMIT_US + 1)


async def test_answers_one_by_one_are_charged_what_has_passed_and_no_more(tmp_path: Path) -> None:
    async with seat(tmp_path) as it, it.peer() as peer:
        asked = [ask(it.session, question(f"g{i}"), LIMIT_US) for i in range(2)]
        first, second = (await peer.next()).requests
        it.clock.jump(1_000)
        await peer.answer(first, "down")
        assert (await asked[0]).us == 500
        it.clock.jump(1_000)
        await peer.answer(second, "down")
        assert (await asked[1]).us == 1_500


async def test_a_late_answer_is_passed_over_and_never_taken_for_the_next_question(
    tmp_path: Path,
) -> None:
    async with seat(tmp_path) as it, it.peer() as peer:
        first = ask(it.session, question(), LIMIT_US)
        late = await peer.request()
        it.clock.jump(LIMIT_US + 1)
        assert isinstance(first.exception(), BotFault)
        second = ask(it.session, question(), LIMIT_US)
        request = await peer.request()
        await peer.answer(late, "back")
        await peer.answer(request, "down")
        assert (await second).action == "down"


async def test_an_answer_for_a_game_that_was_broken_off_is_passed_over(tmp_path: Path) -> None:
    async with seat(tmp_path) as it, it.peer() as peer:
        broken_off = ask(it.session, question("void"), LIMIT_US)
        request = await peer.request()
        broken_off.cancel()
        other = ask(it.session, question("other"), LIMIT_US)
        await peer.answer(request, "down")
        await peer.answer(await peer.request(), "back")
        assert (await other).action == "back"


def decision(request_id: int) -> bytes:
    answer = pb.Decision(request_id=request_id, action="down")
    return pb.PlayRequest(decisions=[answer]).SerializeToString()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        pytest.param(decision(7), "request 7, which is not open", id="never asked"),
        pytest.param(decision(2**64 - 1), "not open", id="huge id"),
        pytest.param(b"", "without a decision", id="empty"),
        pytest.param(b"\x7a\x03abc", "without a decision", id="unknown field"),
        pytest.param(
            pb.PlayRequest(hello=pb.Hello(token="x")).SerializeToString(),
            "hello twice",
            id="second hello",
        ),
        pytest.param(b"\xff\xff\xff", "no PlayRequest", id="garbage"),
        pytest.param(decision(1)[:-1], "no PlayRequest", id="truncated"),
        pytest.param(b"\x12\x02\x0a\x01", "no PlayRequest", id="length beyond the end"),
        pytest.param(b"\x10" + b"\xff" * 11, "no PlayRequest", id="varint overflow"),
        pytest.param(b"\x12\x03\x12\x01\xff", "no PlayRequest", id="bad UTF-8"),
        pytest.param(b"\x7b" * 200, "no PlayRequest", id="deep nesting"),
    ],
)
async def test_the_first_word_that_nobody_asked_for_ends_the_stream(
    tmp_path: Path, data: bytes, why: str
) -> None:
    async with seat(tmp_path) as it, it.peer() as peer:
        asked = ask(it.session, question(), LIMIT_US)
        await peer.request()
        await peer.raw(data)
        with pytest.raises(BotFault, match=why) as caught:
            await asked
        assert caught.value.fault is Fault.PROTOCOL_ERROR
        code, details = await peer.status()
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert why in details
        # It is not asked again: whatever is asked meets the same fault.
        with pytest.raises(BotFault, match=why):
            await ask(it.session, question(), LIMIT_US)
        assert not it.session.usable


async def test_what_comes_before_something_senseless_in_a_message_counts(tmp_path: Path) -> None:
    async with seat(tmp_path) as it, it.peer() as peer:
        asked = ask(it.session, question(), LIMIT_US)
        await peer.raw(decision((await peer.request()).request_id) * 2)
        assert (await asked).action == "down"
        code, _ = await peer.status()
        assert code is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_second_answer_to_one_question_ends_the_stream(tmp_path: Path) -> None:
    async with seat(tmp_path) as it, it.peer() as peer:
        asked = ask(it.session, question(), LIMIT_US)
        request = await peer.request()
        for _ in range(2):
            await peer.answer(request, "down")
        assert (await asked).action == "down"  # the first one counts
        code, _ = await peer.status()
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        await it.session.ended


async def test_a_question_that_was_not_sent_yet_cannot_be_answered(tmp_path: Path) -> None:
    async with seat(tmp_path) as it, it.peer() as peer:
        await peer.raw(decision(1))  # a guess of the first id
        await it.session.ended
        with pytest.raises(BotFault):
            await ask(it.session, question(), LIMIT_US)


async def test_a_flood_is_cut_at_its_first_message(tmp_path: Path) -> None:
    async with seat(tmp_path) as it, it.peer() as peer:

        async def flood() -> None:
            while True:
                await peer.raw(decision(1))

        with pytest.raises((grpc.aio.AioRpcError, asyncio.InvalidStateError)):
            await flood()
        assert (await peer.status())[0] is not grpc.StatusCode.OK
        with pytest.raises(BotFault, match="request 1, which is not open"):
            await ask(it.session, question(), LIMIT_US)


@pytest.mark.parametrize("how", ["half-close", "cancel", "close"])
async def test_a_stream_that_ends_is_a_crash_at_once(tmp_path: Path, how: str) -> None:
    async with seat(tmp_path) as it, it.channel() as channel, it.peer() as peer:
        asked = [ask(it.session, question(f"g{i}"), LIMIT_US) for i in range(3)]
        await peer.next()
        it.clock.jump(50)
        if how == "half-close":
            await peer.call.done_writing()
        elif how == "cancel":
            peer.call.cancel()
        else:
            await channel.close()
            peer.call.cancel()
        for one in asked:
            with pytest.raises(BotFault) as caught:
                await one
            assert (caught.value.fault, caught.value.us) == (Fault.CRASH, 17)  # a third of 50


async def test_a_message_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    async with seat(tmp_path) as it, it.peer() as peer:
        asked = ask(it.session, question(), LIMIT_US)
        request = await peer.request()
        await peer.answer(request, "x" * MESSAGE_BYTES)
        with pytest.raises(BotFault) as caught:
            await asked
        assert caught.value.fault is Fault.CRASH
        assert (await peer.status())[0] is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_whoever_does_not_read_is_ended_after_the_write_limit(tmp_path: Path) -> None:
    async with seat(tmp_path, write_limit_us=1_000) as it, it.peer():
        big = wire.void_message("x" * 60_000)
        waiting = ask(it.session, question(), 10**9)
        while it.session._outbox or it.session._write_deadline_us is None:
            it.session.send(big)  # until flow control holds the writer
            await one_pass()
            if len(it.session._outbox) > 200:
                break
        it.clock.jump(1_001)
        with pytest.raises(BotFault, match="does not read"):
            await waiting


async def test_goodbye_comes_last_and_ends_the_stream(tmp_path: Path) -> None:
    async with seat(tmp_path) as it, it.peer() as peer:
        it.session.send(wire.void_message("g"))
        it.session.close("the match is over")
        assert not it.session.usable
        message = await peer.next()
        assert message.results[0].game_id == "g"
        assert message.goodbye.reason == "the match is over"
        assert await peer.status() == (grpc.StatusCode.OK, "")
        await it.session.ended


async def test_the_loops_own_stall_is_not_charged(tmp_path: Path) -> None:
    async with seat(tmp_path) as it, it.peer() as peer:
        asked = ask(it.session, question(), LIMIT_US)
        request = await peer.request()
        # The alarm that was due at the limit rings half a second late.
        alarm = it.clock._alarms[0]
        it.clock._alarms.clear()
        it.clock.jump(LIMIT_US + 500_000)
        alarm.ring()
        assert not asked.done()
        await peer.answer(request, "back")
        answer = await asked
        assert answer.action == "back"
        assert answer.us <= LIMIT_US


async def test_a_stall_gives_no_second_reprieve(tmp_path: Path) -> None:
    async with seat(tmp_path) as it, it.peer() as peer:
        asked = ask(it.session, question(), LIMIT_US)
        await peer.request()
        alarm = it.clock._alarms[0]
        it.clock._alarms.clear()
        it.clock.jump(LIMIT_US + 500_000)
        alarm.ring()
        it.clock.jump(100_000)
        assert isinstance(asked.exception(), BotFault)


async def test_late_answers_are_expected_once_and_only_to_the_last_requests(tmp_path: Path) -> None:
    async with seat(tmp_path, most_late=2) as it, it.peer() as peer:
        asked = [ask(it.session, question(), LIMIT_US) for _ in range(3)]
        first, _, last = (await peer.next()).requests
        await it.alarm_is_set()
        it.clock.jump(3 * (LIMIT_US + 1))
        assert all(isinstance(one.exception(), BotFault) for one in asked)
        await peer.answer(last, "down")
        now = ask(it.session, question(), LIMIT_US)
        await peer.answer(await peer.request(), "back")
        assert (await now).action == "back"
        await peer.answer(first, "down")
        with pytest.raises(BotFault, match=f"request {first.request_id}, which is not open"):
            await ask(it.session, question(), LIMIT_US)


# Pauses: when a bot has answered everything, and when it is asked again


async def test_a_bot_is_frozen_between_its_turns_and_thawed_before_its_clock_starts(
    tmp_path: Path,
) -> None:
    async with seat(tmp_path) as it, it.peer() as peer:
        pauses = it.session.pauses = Said()
        await answered(it, peer)
        it.clock.jump(500)
        await answered(it, peer)
        assert pauses.said == [("resume", 0), ("pause", 0), ("resume", 500), ("pause", 500)]
        it.session.close("the end")
        await one_pass()
        assert pauses.said[-1] == ("resume", 500)  # or it could not hear goodbye


async def test_two_questions_at_once_freeze_only_after_the_second_answer(tmp_path: Path) -> None:
    async with seat(tmp_path) as it, it.peer() as peer:
        pauses = it.session.pauses = Said()
        asked = [ask(it.session, question(), LIMIT_US) for _ in range(2)]
        message = await peer.next()
        await peer.answer(message.requests[0], "down")
        await asked[0]
        assert pauses.said == [("resume", 0)]
        await peer.answer(message.requests[1], "down")
        await asked[1]
        assert pauses.said == [("resume", 0), ("pause", 0)]


async def test_a_bot_may_be_frozen_after_a_timeout_too(tmp_path: Path) -> None:
    async with seat(tmp_path) as it, it.peer() as peer:
        pauses = it.session.pauses = Said()
        asked = ask(it.session, question(), LIMIT_US)
        await peer.request()
        it.clock.jump(LIMIT_US + 1)
        with pytest.raises(BotFault):
            await asked
        assert pauses.said == [("resume", 0), ("rest", LIMIT_US + 1)]


async def test_a_bot_may_be_frozen_from_hello_on(tmp_path: Path) -> None:
    async with seat(tmp_path) as it:
        pauses = it.session.pauses = Said()
        async with it.peer():
            assert pauses.said == [("rest", 0)]


async def test_messages_for_a_frozen_bot_wait_for_the_next_question(tmp_path: Path) -> None:
    async with seat(tmp_path) as it, it.peer() as peer:
        pauses = it.session.pauses = Said()
        pauses.frozen = True
        it.session.send(wire.void_message("g1"))
        for _ in range(10):
            await one_pass()
        assert len(it.session._outbox) == 1
        assert pauses.said == []
        asked = ask(it.session, question(), LIMIT_US)
        message = await peer.next()  # both
        assert (len(message.requests), len(message.results)) == (1, 1)
        await peer.answer(message.requests[0], "down")
        await asked


async def test_many_messages_for_a_frozen_bot_wake_it(tmp_path: Path) -> None:
    async with seat(tmp_path) as it, it.peer() as peer:
        pauses = it.session.pauses = Said()
        pauses.frozen = True
        for _ in range(2):
            it.session.send(wire.void_message("x" * HELD_BYTES))
        await peer.next()
        await peer.next()
        assert ("resume", 0) in pauses.said
        assert pauses.said[-1] == ("rest", 0)


async def test_a_frozen_bot_is_not_ended_because_it_reads_nothing(tmp_path: Path) -> None:
    async with seat(tmp_path, write_limit_us=1_000) as it, it.peer() as peer:
        pauses = it.session.pauses = Said()
        big = wire.void_message("x" * 60_000)
        for _ in range(60):  # until flow control holds the writer
            it.session.send(big)
            await one_pass()
        while it.session._write_deadline_us is None:
            await one_pass()
        pauses.frozen = True
        it.clock.jump(5_000)
        assert it.session.usable
        # It is thawed when it is asked, or it could never read the question.
        asked = ask(it.session, question(), LIMIT_US)
        assert pauses.said == [("resume", 5_000)]
        await peer.answer(await peer.request(), "down")
        await asked


class Said(Pauses):
    """Pauses that only note when they begin and end."""

    frozen = False

    def __init__(self) -> None:
        super().__init__()
        self.said: list[tuple[str, int]] = []

    def rest(self, now_us: int) -> None:
        self.said.append(("rest", now_us))

    def pause(self, now_us: int) -> None:
        self.said.append(("pause", now_us))

    def resume(self, now_us: int) -> None:
        self.frozen = False
        self.said.append(("resume", now_us))


async def answered(it: Seat, peer: Peer) -> None:
    asked = ask(it.session, question(), LIMIT_US)
    await peer.answer(await peer.request(), "down")
    await asked


# Errors of the referee: they void games, and no bot is charged


class Broken(MemoryStream):
    """A stream that raises what no bot can cause, once `breaks` says where."""

    breaks = ""

    async def write(self, data: bytes) -> None:
        if self.breaks == "write":
            raise ValueError("on purpose")
        await super().write(data)

    async def read(self) -> list[wire.RequestAnswer] | None:
        answers = await super().read()
        if self.breaks == "read":
            raise ValueError("on purpose")
        return answers


async def has_failed(session: Session, asked: Sequence[asyncio.Future[TimedAnswer]]) -> None:
    """Whoever asked, or asks now, hears of an error of the referee, and of no fault."""
    for one in [*asked, ask(session, question(), LIMIT_US)]:
        with pytest.raises(RefereeError, match="ValueError: on purpose"):
            await one
    assert not session.usable
    assert session.ended_by_referee


@pytest.mark.parametrize("where", ["write", "read"])
async def test_an_error_of_the_referee_in_the_stream_is_no_fault_of_the_bot(where: str) -> None:
    table = Table([first_legal], Broken)
    (session,), (stream,) = table.sessions, table.streams
    await session.connected
    assert isinstance(stream, Broken)
    stream.breaks = where
    asked = [ask(session, question(f"g{i}"), LIMIT_US) for i in range(2)]
    for _ in range(4):
        await one_pass()
    table.clock.jump(2 * LIMIT_US + 2)
    await has_failed(session, asked)
    await table.close()
    assert stream.aborted == [None]


async def test_a_host_that_cannot_be_read_at_a_timeout_is_no_fault_of_the_bot() -> None:
    def broken(_now_us: int = 0) -> NoReturn:
        raise ValueError("on purpose")

    table = Table([first_legal], MuteStream)
    (session,) = table.sessions
    session.timer.gauge = cast(Gauge, SimpleNamespace(glance=lambda _: None, read=broken))
    asked = [ask(session, question(), LIMIT_US)]
    while not table.clock.alarms:
        await one_pass()
    table.clock.jump(LIMIT_US + 1)
    await has_failed(session, asked)
    await table.close()


async def test_an_end_that_cannot_be_explained_is_no_fault_of_the_bot() -> None:
    def broken() -> NoReturn:
        raise ValueError("on purpose")

    table = Table([first_legal], MuteStream)
    (session,), (stream,) = table.sessions, table.streams
    session.explain_end = broken
    asked = [ask(session, question(), LIMIT_US)]
    stream.end()
    await has_failed(session, asked)
    await table.close()


async def test_an_error_while_nobody_is_asked_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    table = Table([first_legal], Broken)
    (session,), (stream,) = table.sessions, table.streams
    await session.connected
    assert isinstance(stream, Broken)
    stream.breaks = "write"
    session.send(wire.void_message("g"))
    await session.ended
    assert "the stream of a bot failed: ValueError: on purpose" in caplog.text
    await has_failed(session, [])
    await table.close()


async def test_a_request_after_goodbye_is_an_error_of_the_referee() -> None:
    table = Table([first_legal])
    (session,) = table.sessions
    session.close("the match is over")
    with pytest.raises(RefereeError, match="after Goodbye"):
        await ask(session, question(), LIMIT_US)
    await table.close()


class MuteStream(MemoryStream):
    """A stream to a bot that never answers."""

    async def write(self, data: bytes) -> None:
        self.sent.append(data)


def test_every_state_but_the_last_is_left_by_an_end_which_is_final() -> None:
    states = set(get_args(State))
    assert TRANSITIONS.keys() == states
    assert {state for state in states if TRANSITIONS[state].get("end") == "ended"} == states - {
        "ended"
    }
    assert TRANSITIONS["ended"] == {}
    assert {after for row in TRANSITIONS.values() for after in row.values()} <= states

"""The session of one bot's stream: sends requests, receives answers, runs a timer for each request.

A session serves many games at once. Requests that are ready when the bot has answered everything
are sent as one message: a message costs more than its content, and a bot works on one request at a
time. Time runs from just before the write to just after the read and is shared by the requests of
a message; decision_timer.py computes the charges. A bot may only answer requests: the first message
that is not an answer ends its stream; an answer after the timeout is ignored.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final, NoReturn, TypeAlias

import grpc

from deepsea_referee.errors import BotFault, RefereeError
from deepsea_referee.timing.clock import Alarm, Clock, SharedTime
from deepsea_referee.timing.decision_timer import OnAnswer, OpenQuestion, TimedAnswer
from deepsea_referee.timing.host_load import LOOKS, Gauge, Reading
from deepsea_referee.timing.off_turn import OffTurn
from deepsea_rules.faults import Fault
from deepsea_sdk import wire
from deepsea_sdk.clock import TimeLeft
from deepsea_sdk.errors import WireError

MESSAGE_BYTES: Final = 64 * 1024
"""The longest message from a bot, and the length up to which requests are put into one message."""
WRITE_LIMIT_US: Final = 10_000_000
"""Timeout of a write: the time in which a bot must read a message."""
LATE_KEPT: Final = 1_000
"""The number of timed-out requests that are remembered; answers to older ones are refused."""
STALL_US: Final = 2_000
"""An alarm that rings later than this shows that the event loop was blocked."""

Stream: TypeAlias = "grpc.aio.ServicerContext[bytes, bytes]"


class Session:
    """The games' side (ask, send, close, fail) and the stream's side (serve) of a connection."""

    def __init__(self, clock: Clock, *, write_limit_us: int = WRITE_LIMIT_US) -> None:
        self._clock = clock
        self._write_limit_us = write_limit_us
        self._loop = asyncio.get_running_loop()
        self._last_id = 0
        self._open: dict[int, OpenQuestion] = {}
        self._shared = SharedTime()
        self._late: dict[int, None] = {}  # a set that knows what came first
        self._outbox: list[tuple[bytes, OpenQuestion | None]] = []
        self._wake: asyncio.Future[None] | None = None
        self._write_by_us: int | None = None
        self._alarm: Alarm | None = None
        self._alarm_us = 0
        self._handler: asyncio.Task[object] | None = None
        self._closing = False
        self._end: BotFault | None = None
        self.explain_end: Callable[[], BotFault | None] = lambda: None
        """Called when the stream ends; returns a more precise fault, if there is one."""
        self.gauge: Gauge | None = None
        """Reads CPU and waiting times; without one only wall time counts."""
        self.freeze: Callable[[], None] | None = None
        self.thaw: Callable[[], None] | None = None
        """Stop the bot outside of its turns and resume it; without them it is never stopped."""
        self.off_turn = OffTurn()
        self.features: frozenset[str] = frozenset()
        """The features of the bot's Hello, known to us or not."""
        self.connected: asyncio.Future[None] = self._loop.create_future()
        self.ended: asyncio.Future[None] = self._loop.create_future()

    # ------------------------------------------------------------------------- the games' side

    @property
    def usable(self) -> bool:
        """Whether a new game may start on it."""
        return self._end is None and not self._closing

    def ask(self, request: bytes, time_left: TimeLeft, on_answer: OnAnswer) -> int:
        """Request one decision; returns the request's id.

        request    from `wire.RequestWriter`
        on_answer  called once, and never before this returns
        """
        self._last_id = request_id = self._last_id + 1
        if self._end is not None:
            self._loop.call_soon(on_answer, BotFault(self._end.fault, self._end.detail, 0))
            return request_id
        look_us = time_left.budget_us // LOOKS if self.gauge else None
        question = OpenQuestion(request_id, sum(time_left), look_us, on_answer)
        self._open[request_id] = question
        self._put(wire.numbered(request, request_id), question)
        return request_id

    def send(self, message: bytes) -> None:
        """Send a message without an answer, in order with the requests; ignored after the end.

        message  from one of `wire`'s functions
        """
        if self.usable:
            self._put(message, None)

    def close(self, reason: str) -> None:
        """Send Goodbye after the messages that are waiting, then end the stream."""
        if self.usable:
            self._resume(self._clock.now_us())
            self.send(wire.goodbye_message(reason))
            self._closing = True

    def fail(self, fault: Fault, detail: str) -> None:
        """End the session: every request, open or new, is answered with this fault."""
        if self._end is not None:
            return
        self._end = BotFault(fault, detail)
        share_us = self._shared.at(self._clock.now_us())
        met, self._open = list(self._open.values()), {}
        self._outbox.clear()
        if self._alarm is not None:
            self._alarm.cancel()
        if self._handler is not None:
            self._handler.cancel()
        self.ended.set_result(None)
        for question in met:
            us = 0 if question.began_us is None else round(share_us - question.share_us)
            question.on_answer(BotFault(fault, detail, us))

    def _put(self, message: bytes, question: OpenQuestion | None) -> None:
        self._outbox.append((message, question))
        self._wake_writer()

    def _wake_writer(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _done(self, question: OpenQuestion, now_us: int) -> None:
        """Remove an answered or timed-out request."""
        del self._open[question.request_id]
        self._shared.close(now_us)
        if self._shared.idle:
            self._wake_writer()

    # ------------------------------------------------------------------------ the stream's side

    async def serve(self, stream: Stream) -> None:
        """Serve this session over a stream whose Hello was accepted, until either side ends it."""
        self._handler = asyncio.current_task()
        writer = asyncio.create_task(self._write(stream))
        self.connected.set_result(None)
        try:
            await self._read(stream)
        except BotFault as fault:
            self._stop(fault)
            await self._written(writer)
            await _abort(stream, grpc.StatusCode.INVALID_ARGUMENT, fault.detail)
        except asyncio.CancelledError:
            # By `fail`, by the writer after Goodbye, or with the whole server: for gRPC a return is
            # enough, and this task has nothing else to do.
            if self._end is not None:
                await self._written(writer)
                await _abort(stream, grpc.StatusCode.CANCELLED, self._end.detail)
        finally:
            self._stop(self.explain_end() or BotFault(Fault.CRASH, "the stream ended"))
            await self._written(writer)

    async def _written(self, writer: asyncio.Task[None]) -> None:
        """Wait for the write under way, since gRPC sends the status after it."""
        if self._wake is not None and not self._wake.done():
            writer.cancel()  # it waits for a message to write
        await asyncio.gather(writer, return_exceptions=True)

    def _stop(self, fault: BotFault) -> None:
        self._handler = None  # the handler is returning already
        self.fail(fault.fault, fault.detail)

    async def _read(self, stream: Stream) -> None:
        while True:
            data = await read(stream)
            now_us = self._clock.now_us()
            if data is None:
                return
            try:
                hello, answers = wire.read_from_bot(data)
            except WireError as error:
                _refuse(str(error))
            if hello is not None:
                _refuse("it sent hello twice")
            if not answers:
                _refuse("it sent a message without a decision")
            share_us = self._shared.at(now_us)
            outcomes = []
            try:
                for answer in answers:
                    if (taken := self._take(answer, now_us, share_us)) is not None:
                        outcomes.append(taken)  # noqa: PERF401  (kept also if the next one raises)
            finally:  # answers before an invalid one count
                if not self._open:
                    self._pause(now_us)
                for question, outcome in outcomes:
                    question.on_answer(outcome)

    def _take(
        self, answer: wire.Answer, now_us: int, share_us: float
    ) -> tuple[OpenQuestion, TimedAnswer | BotFault] | None:
        """The outcome of an answer; None if it is too late."""
        request_id, action, error = answer
        question = self._open.get(request_id)
        if question is None or question.began_us is None:
            if request_id not in self._late:
                _refuse(f"it answered request {request_id}, which is not open")
            del self._late[request_id]
            return None
        reading = self._reading() if question.was_looked_at else None
        self._done(question, now_us)
        return question, question.answered(action, error, now_us, share_us, reading)

    async def _write(self, stream: Stream) -> None:
        while self._end is None:
            if not self._outbox and self._closing and self._handler is not None:
                self._handler.cancel()
                return
            if not self._outbox or not self._shared.idle:
                self._wake = self._loop.create_future()
                await self._wake
                continue
            data, questions = self._next_batch()
            if questions:
                self._resume(self._clock.now_us())
            now_us = self._clock.now_us()
            share_us = self._shared.open(len(questions), now_us)
            for question in questions:
                question.began_us = now_us
                question.share_us = share_us
                self._ring_by(now_us + (question.look_us or question.limit_us))
            self._write_by_us = now_us + self._write_limit_us
            self._ring_by(self._write_by_us)
            await stream.write(data)
            self._write_by_us = None

    def _next_batch(self) -> tuple[bytes, list[OpenQuestion]]:
        """The waiting messages, up to the length of one: protobuf messages merge when joined."""
        size = count = 0
        for data, _ in self._outbox:
            size += len(data)
            if count and size > MESSAGE_BYTES:
                break
            count += 1
        batch = self._outbox[:count]
        del self._outbox[:count]
        questions = [question for _, question in batch if question is not None]
        return b"".join([data for data, _ in batch]), questions

    # ------------------------------------------------------------------------------------- time

    def _ring_by(self, deadline_us: int) -> None:
        """Set the only alarm to this deadline, unless it rings earlier anyway."""
        when_us = deadline_us + 1  # exactly the limit is in time
        if self._alarm is not None:
            if self._alarm_us <= when_us:
                return
            self._alarm.cancel()
        self._alarm_us = when_us
        self._alarm = self._clock.at(when_us, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        now_us = self._clock.now_us()
        late_us = now_us - self._alarm_us
        if late_us > STALL_US:
            self._credit_stall(late_us + STALL_US)
        share_us = self._shared.at(now_us)
        due = []
        for question in self._open.values():
            if question.began_us is not None:
                if early_us := question.early_us(share_us):
                    # Shared time is never faster than the clock: it cannot be due before that.
                    self._ring_by(now_us + early_us)
                else:
                    due.append(question)
        if due:
            reading = self._reading()
            for question in due:
                came = question.look(now_us, share_us, reading, self.gauge)
                if isinstance(came, int):
                    self._ring_by(now_us + came)
                else:
                    self._give_up(question, came, now_us)
        if self._write_by_us is not None:
            if now_us > self._write_by_us:
                self.fail(Fault.CRASH, "it does not read its messages")
            else:
                self._ring_by(self._write_by_us)

    def _give_up(self, question: OpenQuestion, came: BotFault | RefereeError, now_us: int) -> None:
        self._done(question, now_us)
        self._late[question.request_id] = None
        if len(self._late) > LATE_KEPT:
            del self._late[next(iter(self._late))]
        question.on_answer(came)

    def _reading(self) -> Reading | None:
        return self.gauge.read() if self.gauge is not None else None

    def _pause(self, now_us: int) -> None:
        """Freeze the bot and measure it: it has answered everything, and others' turns follow."""
        if self.freeze is not None:
            self.freeze()
        if self.gauge is not None:
            self.off_turn.begin(now_us, self.gauge)

    def _resume(self, now_us: int) -> None:
        if self.gauge is not None:
            self.off_turn.end(now_us, self.gauge)
        if self.thaw is not None:
            self.thaw()

    def _credit_stall(self, us: int) -> None:
        """Do not charge the time in which the event loop was blocked, once for each request.

        An answer that has arrived meanwhile is read before the alarm rings again.
        """
        for question in self._open.values():
            began_us = question.began_us
            if began_us is not None and began_us < self._alarm_us and not question.credit_us:
                question.credit_us = us


async def _abort(stream: Stream, code: grpc.StatusCode, detail: str) -> None:
    """End a stream with a status, unless the other side has ended it."""
    with contextlib.suppress(grpc.aio.InternalError):
        await stream.abort(code, detail)


async def read(stream: Stream) -> bytes | None:
    """Read the next message; None at the end of the stream, also within a message.

    gRPC refuses a message that is too long, and raises.
    """
    try:
        data: object = await stream.read()
    except grpc.aio.InternalError:
        return None
    return data if isinstance(data, bytes) else None


def _refuse(detail: str) -> NoReturn:
    raise BotFault(Fault.PROTOCOL_ERROR, detail)

"""The session of one bot's stream: sends requests, receives answers, wakes the timer.

A session serves many games at once. Requests that are ready when the bot has answered everything
are sent as one message: a message costs more than its content, and a bot works on one request at a
time. Time runs from just before the write to just after the read; decision_timer.py computes the
charges. While a write is under way, one request that waits behind it is on the clock, or the bot
could compute for nothing by not taking a message. A bot that is asked is never frozen. A bot may
only answer requests: the first message that is not an answer ends its stream; an answer after the
timeout is ignored.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import grpc

from deepsea_referee.errors import BotFault, HostTooBusy, RefereeError
from deepsea_referee.timing.clock import Clock, EarliestAlarm
from deepsea_referee.timing.decision_timer import DecisionTimer, Ended, TimedOut
from deepsea_referee.timing.pauses import Pauses
from deepsea_rules.events import new_tuple
from deepsea_rules.faults import Fault
from deepsea_rules.time_control import overrun
from deepsea_sdk import wire
from deepsea_sdk.clock import TimeLeft
from deepsea_sdk.errors import WireError
from deepsea_sdk.notes import Note

WRITE_LIMIT_US = 10_000_000
"""Timeout of a write: the time in which a bot must read a message."""
MESSAGE_BYTES = 64 * 1024
"""The longest message from a bot, and the length up to which requests are put into one message."""
HELD_BYTES = MESSAGE_BYTES // 2
"""Messages without a request that wait for a frozen bot; more are sent, and it is thawed."""
LATE_KEPT = 1_000
"""Requests that timed out of which a late answer is ignored; answers to older ones are refused."""

Stream: TypeAlias = "grpc.aio.ServicerContext[bytes, bytes]"


class TimedAnswer(NamedTuple):
    """A bot's decision and the time that it is charged."""

    action: str
    us: int
    error: str | None = None
    """What the bot raised instead of deciding."""
    wall_us: int = 0
    """The time since the message with the request was written: alone it took no longer."""
    note: Note | None = None


OnAnswer = Callable[[TimedAnswer | BotFault | RefereeError], object]
"""Receives a request's outcome: an answer, the bot's fault, or the referee's error."""


class Session:
    """The games' side (ask, send, close, fail) and the stream's side (serve) of a connection."""

    def __init__(
        self, clock: Clock, *, write_limit_us: int = WRITE_LIMIT_US, late_kept: int = LATE_KEPT
    ) -> None:
        self._clock = clock
        self._late_kept = late_kept
        self._write_limit_us = write_limit_us
        self._loop = asyncio.get_running_loop()
        self._last_id = 0
        self._begun_id = 0
        """The last request whose clock was started."""
        self._sent_id = 0
        """The last request that was written: the same, unless a write before it takes long."""
        self._open: dict[int, OnAnswer] = {}
        self._late: dict[int, None] = {}
        """The last requests that timed out and were not answered since, the oldest first."""
        self._outbox = Outbox()
        self._write_by_us: int | None = None
        self._asked_us = 0
        """When the first of the requests that are open was written, or its clock started."""
        self._alarm = EarliestAlarm(clock, self._ring)
        self._handler: asyncio.Task[object] | None = None
        self._closing = False
        self._end: BotFault | None = None
        self.explain_end: Callable[[], BotFault | None] = lambda: None
        """Called when the stream ends; returns a more precise fault, if there is one."""
        self.timer = DecisionTimer()
        self.pauses = Pauses()
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
        if not self._open:
            self._resume()
        self._open[request_id] = on_answer
        self._outbox.put(wire.numbered(request, request_id), (request_id, time_left))
        self._advance()
        return request_id

    def send(self, message: bytes) -> None:
        """Send a message without an answer, in order with the requests; ignored after the end.

        message  from one of `wire`'s functions
        """
        if self.usable:
            self._outbox.put(message)
            self._advance()

    def close(self, reason: str) -> None:
        """Send Goodbye after the messages that are waiting, then end the stream."""
        if self.usable:
            self._resume()
            self.send(wire.goodbye_message(reason))
            self._closing = True

    def fail(self, fault: Fault, detail: str) -> None:
        """End the session: every request, open or new, is answered with this fault."""
        if self._end is not None:
            return
        self._end = BotFault(fault, detail)
        taken_us = self.timer.break_off(self._clock.now_us())
        met, self._open = self._open, {}
        self._outbox.clear()
        self._alarm.cancel()
        if self._handler is not None:
            self._handler.cancel()
        self.ended.set_result(None)
        for request_id, on_answer in met.items():
            on_answer(BotFault(fault, detail, taken_us.get(request_id, 0)))

    # ------------------------------------------------------------------------ the stream's side

    async def serve(self, stream: Stream) -> None:
        """Serve this session over a stream whose Hello was accepted, until either side ends it."""
        self._handler = asyncio.current_task()
        writer = asyncio.create_task(self._write(stream))
        self.connected.set_result(None)
        self._rest()
        try:
            await self._read(stream)
        except BotFault as fault:
            self._stop(fault)
            await self._written(writer)
            await abort(stream, grpc.StatusCode.INVALID_ARGUMENT, fault.detail)
        except asyncio.CancelledError:
            # By `fail`, by the writer after Goodbye, or with the whole server: for gRPC a return is
            # enough, and this task has nothing else to do.
            if self._end is not None:
                await self._written(writer)
                await abort(stream, grpc.StatusCode.CANCELLED, self._end.detail)
        finally:
            self._stop(self.explain_end() or BotFault(Fault.CRASH, "the stream ended"))
            await self._written(writer)

    async def _written(self, writer: asyncio.Task[None]) -> None:
        """Wait for the write under way, since gRPC sends the status after it."""
        if self._outbox.writer_waits:
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
            answers = answers_of(data)
            outcomes: list[tuple[OnAnswer, TimedAnswer | BotFault]] = []
            try:
                for answer in answers:
                    if (taken := self._take(answer, now_us)) is not None:
                        outcomes.append(taken)  # noqa: PERF401  (kept also if the next one raises)
            finally:  # answers before an invalid one count
                self._advance()
                if not self._open and not self._closing:
                    self.pauses.pause(now_us)
                for on_answer, outcome in outcomes:
                    on_answer(outcome)

    def _take(
        self, answer: wire.Answer, now_us: int
    ) -> tuple[OnAnswer, TimedAnswer | BotFault] | None:
        """The outcome of an answer; None if it is too late."""
        request_id, action, error, note = answer
        unsent = request_id > self._sent_id
        timed = None if unsent else self.timer.stop(request_id, now_us)
        if timed is None:
            if request_id not in self._late:
                raise refusal(f"it answered request {request_id}, which is not open")
            del self._late[request_id]
            return None
        on_answer = self._open.pop(request_id)
        if isinstance(timed, TimedOut):
            return on_answer, _timeout(timed)
        fields = (action, timed.us, error, now_us - self._asked_us, note)
        return on_answer, new_tuple(TimedAnswer, fields)

    async def _write(self, stream: Stream) -> None:
        while self._end is None:
            if self._closing and not self._outbox and self._handler is not None:
                self._handler.cancel()
                return
            if (
                not self._outbox
                or not (self.timer.idle or self._sent_id < self._begun_id)
                or (self.pauses.frozen and self._outbox.can_be_held)
            ):
                await self._outbox.wait()
                continue
            data, requests = self._outbox.take()
            if self.pauses.frozen:
                self._resume()
                self._rest()
            now_us = self._clock.now_us()
            if requests:
                self._sent_id = requests[-1][0]
                if requests[0][0] <= self._begun_id:
                    requests = [one for one in requests if one[0] > self._begun_id]
                self._start(requests, now_us)
            self._write_by_us = now_us + self._write_limit_us + 1
            self._alarm.ring_by(self._write_by_us)
            if self._outbox:
                self._advance()
            await stream.write(data)
            self._write_by_us = None

    def _advance(self) -> None:
        """Wake the writer; while a write is under way, start the clock of the next request.

        Nothing while the bot works on requests: the others wait for its answers, and are not timed.
        """
        if not self.timer.idle:
            return
        if self._write_by_us is None:
            self._outbox.wake()
        elif request := self._outbox.first_after(self._begun_id):
            self._start([request], self._clock.now_us())

    def _start(self, requests: list[tuple[int, TimeLeft]], now_us: int) -> None:
        if requests:
            self._begun_id = requests[-1][0]
            if self.timer.idle:
                self._asked_us = now_us
            self.timer.start(requests, now_us)
            if self.timer.due_us is not None:
                self._alarm.ring_by(self.timer.due_us)

    def _rest(self) -> None:
        """The bot may be frozen, unless it has something to answer or is to go."""
        if not self._open and not self._closing:
            self.pauses.rest(self._clock.now_us())

    def _resume(self) -> None:
        """The bot is asked, or is to read: it is not frozen from now on."""
        now_us = self._clock.now_us()
        if self._write_by_us is not None and self.pauses.frozen:
            # A message is stuck that it could not read while it was frozen.
            self._write_by_us = now_us + self._write_limit_us + 1
        self.pauses.resume(now_us)

    def _ring(self) -> None:
        now_us = self._clock.now_us()
        for request_id, ended in self.timer.look(now_us):
            self._give_up(request_id, ended)
        if self.timer.due_us is not None:
            self._alarm.ring_by(self.timer.due_us)
        if self._write_by_us is not None:
            if self.pauses.frozen:
                self._write_by_us = now_us + self._write_limit_us + 1
            if now_us >= self._write_by_us:
                self.fail(Fault.CRASH, "it does not read its messages")
            else:
                self._alarm.ring_by(self._write_by_us)

    def _give_up(self, request_id: int, ended: Ended) -> None:
        self._late[request_id] = None
        if len(self._late) > self._late_kept:
            del self._late[next(iter(self._late))]
        if request_id > self._sent_id:
            self._outbox.cut()  # the notice of its timeout comes in a later message than it
        self._advance()
        on_answer = self._open.pop(request_id)
        self._rest()
        if isinstance(ended, TimedOut):
            on_answer(_timeout(ended))
        else:
            text = f"the host was too busy for {ended.wall_us} us to time a decision"
            on_answer(HostTooBusy(text, ended.wall_us))


def _timeout(ended: TimedOut) -> BotFault:
    return BotFault(Fault.TIMEOUT, overrun(ended.limit_us), ended.us)


class Outbox:
    """A queue of messages, with the ids and times of those that are requests, for one writer."""

    def __init__(self) -> None:
        self._messages: list[tuple[bytes, tuple[int, TimeLeft] | None]] = []
        self._bytes = 0
        self._cuts: list[int] = []
        """The numbers of messages after which another message of the stream begins."""
        self._wake: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def writer_waits(self) -> bool:
        """Whether the writer is in `wait`, and nothing has woken it."""
        return self._wake is not None and not self._wake.done()

    @property
    def can_be_held(self) -> bool:
        """Whether it can wait until the bot is asked: there is no request, and not much else."""
        return self._bytes < HELD_BYTES and all(request is None for _, request in self._messages)

    def put(self, message: bytes, request: tuple[int, TimeLeft] | None = None) -> None:
        self._messages.append((message, request))
        self._bytes += len(message)

    def cut(self) -> None:
        """Keep what is put later out of the message with what waits now."""
        self._cuts.append(len(self._messages))

    def first_after(self, request_id: int) -> tuple[int, TimeLeft] | None:
        """The first request that waits with a higher id; ids rise in the order of the queue."""
        waiting = (one for _, one in self._messages if one is not None and one[0] > request_id)
        return next(waiting, None)

    def clear(self) -> None:
        self._messages.clear()
        self._bytes = 0

    async def wait(self) -> None:
        """Wait until something has changed."""
        self._wake = asyncio.get_running_loop().create_future()
        await self._wake

    def wake(self) -> None:
        """Wake the writer: it may be able to write now."""
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def take(self) -> tuple[bytes, list[tuple[int, TimeLeft]]]:
        """Take messages up to the length of one: protobuf messages merge when they are joined."""
        batch = self._messages
        if self._bytes <= MESSAGE_BYTES and not self._cuts:
            self._messages = []
        else:
            size = count = 0
            for data, _ in batch[: self._cuts[0] if self._cuts else None]:
                size += len(data)
                if count and size > MESSAGE_BYTES:
                    break
                count += 1
            self._messages = batch[count:]
            del batch[count:]
            self._cuts = [cut - count for cut in self._cuts if cut > count]
        message = b"".join([data for data, _ in batch])
        self._bytes -= len(message)
        return message, [request for _, request in batch if request is not None]


# The stream


async def read(stream: Stream) -> bytes | None:
    """Read the next message; None at the end of the stream, also within a message.

    gRPC refuses a message that is too long, and raises.
    """
    try:
        data: object = await stream.read()
    except grpc.aio.InternalError:
        return None
    return data if isinstance(data, bytes) else None


async def abort(stream: Stream, code: grpc.StatusCode, detail: str) -> None:
    """End a stream with a status, unless the other side has ended it."""
    with contextlib.suppress(grpc.aio.InternalError):
        await stream.abort(code, detail)


def answers_of(data: bytes) -> list[wire.Answer]:
    """The answers of a message; raises BotFault if it is anything else."""
    try:
        hello, answers = wire.read_from_bot(data)
    except WireError as error:
        raise refusal(str(error)) from None
    if hello is not None:
        raise refusal("it sent hello twice")
    if not answers:
        raise refusal("it sent a message without a decision")
    return answers


def refusal(detail: str) -> BotFault:
    """The fault of a message that nobody asked for; it ends the stream."""
    return BotFault(Fault.PROTOCOL_ERROR, detail)

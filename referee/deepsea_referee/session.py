"""One bot's stream: questions out, answers in, each on its own clock.

A session serves many games at once. What is ready when a bot has answered everything goes out as
one message: messages cost more than what is in them, and a bot works on one thing at a time. Time
runs from just before the write to just after the read and is shared by the questions of a message;
gauge.py says what of it the host took. A bot speaks only when asked: the first word nobody asked
for ends its stream; an answer that comes too late is passed over.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final, NamedTuple, NoReturn, TypeAlias

import grpc
from google.protobuf.message import DecodeError

from deepsea_referee.clock import Alarm, Clock, SharedTime
from deepsea_referee.errors import BotFault, RefereeError
from deepsea_referee.gauge import (
    AGAIN_US,
    BUSY_US,
    GRACE_US,
    LONGEST_READY_US,
    LOOKS,
    Gauge,
    OffTurn,
    Reading,
    charged_us,
    host_is_hopeless,
)
from deepsea_rules.faults import Fault
from deepsea_sdk import wire
from deepsea_sdk._pb import deepsea_pb2 as pb
from deepsea_sdk.bot import TimeLeft

MESSAGE_BYTES: Final = 64 * 1024
"""The longest message a bot may send, and the length up to which questions are put together."""
WRITE_LIMIT_US: Final = 10_000_000
"""How long a bot may leave one message unread."""
LATE_KEPT: Final = 1_000
"""So many answers may be still to come after their time; older ones are taken for unasked."""
STALL_US: Final = 2_000
"""An alarm that rings later than this shows that the event loop itself was held up."""

Stream: TypeAlias = "grpc.aio.ServicerContext[bytes, bytes]"


class Answer(NamedTuple):
    """What a bot decided, and how long it took."""

    action: str
    us: int


Heard = Callable[[Answer | BotFault | RefereeError], object]
"""Gets what came of a question: an answer, the bot's fault, or our own."""


class _Ask:
    """One open question. Its clock starts when it is written."""

    __slots__ = (
        *("began_us", "credit_us", "game_id", "heard", "limit_us", "look_us", "looked"),
        *("looks", "over_us", "request_id", "share_us"),
    )

    def __init__(
        self, request_id: int, game_id: str, limit_us: int, look_us: int | None, heard: Heard
    ) -> None:
        self.request_id = request_id
        self.game_id = game_id
        self.limit_us = limit_us
        self.look_us = look_us
        """What it is charged when the host is looked at first; None if it never is."""
        self.heard = heard
        self.began_us: int | None = None
        self.share_us = 0.0
        """The session's shared time when it began."""
        self.credit_us = 0
        self.looked: tuple[int, float, Reading] | None = None
        """When the host was first looked at: the time, the shared time, what had been used."""
        self.looks: tuple[int, int] = (0, 0)
        """How long the referee had waited for a CPU at the last look but one, and at the last."""
        self.over_us: int | None = None
        """When it was first found to have taken too long."""

    def charged_us(
        self, now_us: int, share_us: float, reading: Reading | None, *, answered: bool
    ) -> int:
        """What it is charged up to now; `share_us` is the session's shared time."""
        wall_us = round(share_us - self.share_us)
        if self.look_us is None:
            return max(0, wall_us - self.credit_us)
        # The first look is due at once when its time has come: more than that before it is a
        # delay of the referee's own.
        if self.looked is None or reading is None:
            return min(wall_us, self.look_us)
        looked_us, looked_share_us, before = self.looked
        if now_us == looked_us:
            return self.look_us
        # An answer that is there may have come when the last look was due, or since.
        unread_us = reading.referee_waited_us - self.looks[0] if answered else 0
        since_us = charged_us(now_us - looked_us, before, reading, unread_us)
        part = (share_us - looked_share_us) / (now_us - looked_us)
        return min(wall_us, self.look_us + round(since_us * part))


class Session:
    """The games' side (ask, send, close, fail) and the stream's side (serve) of a connection."""

    def __init__(self, clock: Clock, *, write_limit_us: int = WRITE_LIMIT_US) -> None:
        self._clock = clock
        self._write_limit_us = write_limit_us
        self._loop = asyncio.get_running_loop()
        self._last_id = 0
        self._open: dict[int, _Ask] = {}
        self._shared = SharedTime()
        self._late: dict[int, None] = {}  # a set that knows what came first
        self._outbox: list[tuple[bytes, _Ask | None]] = []
        self._wake: asyncio.Future[None] | None = None
        self._write_by_us: int | None = None
        self._alarm: Alarm | None = None
        self._alarm_us = 0
        self._handler: asyncio.Task[object] | None = None
        self._closing = False
        self._end: BotFault | None = None
        self.explain_end: Callable[[], BotFault | None] = lambda: None
        """Asked when the stream ends: why it did, if more is known than that it did."""
        self.gauge: Gauge | None = None
        """Reads what the bot and the host have used; without one only wall time counts."""
        self.freeze: Callable[[], None] | None = None
        self.thaw: Callable[[], None] | None = None
        """How to stop the bot between its turns and let it go on; it runs on without them."""
        self.off_turn = OffTurn()
        self.connected: asyncio.Future[None] = self._loop.create_future()
        self.ended: asyncio.Future[None] = self._loop.create_future()

    # ------------------------------------------------------------------------- the games' side

    @property
    def usable(self) -> bool:
        """Whether a new game may begin on it."""
        return self._end is None and not self._closing

    def ask(self, game_id: str, request: bytes, time_left: TimeLeft, heard: Heard) -> int:
        """Ask for one decision; returns the request's id.

        request  from `wire.request_to_wire`
        heard    called once, and never before this returns
        """
        self._last_id = request_id = self._last_id + 1
        if self._end is not None:
            self._loop.call_soon(heard, BotFault(self._end.fault, self._end.detail, 0))
            return request_id
        look_us = time_left.budget_us // LOOKS if self.gauge else None
        ask = _Ask(request_id, game_id, sum(time_left), look_us, heard)
        self._open[request_id] = ask
        self._put(wire.numbered(request, request_id), ask)
        return request_id

    def send(self, message: pb.RefereeMessage) -> None:
        """Send what needs no answer, in order with the questions; nothing if nobody listens."""
        if self.usable:
            self._put(message.SerializeToString(deterministic=True), None)

    def close(self, reason: str) -> None:
        """Say goodbye after what is still to be sent, then end the stream."""
        if self.usable:
            self._go_on(self._clock.now_us())
            self.send(pb.RefereeMessage(goodbye=pb.Goodbye(reason=reason)))
            self._closing = True

    def fail(self, fault: Fault, detail: str) -> None:
        """End it: every question, open or still to come, is met with this fault."""
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
        for ask in met:
            us = 0 if ask.began_us is None else round(share_us - ask.share_us)
            ask.heard(BotFault(fault, detail, us))

    def _put(self, message: bytes, ask: _Ask | None) -> None:
        self._outbox.append((message, ask))
        self._wake_writer()

    def _wake_writer(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _done(self, ask: _Ask, now_us: int) -> None:
        """It is open no more."""
        del self._open[ask.request_id]
        self._shared.close(now_us)
        if self._shared.idle:
            self._wake_writer()

    # ------------------------------------------------------------------------ the stream's side

    async def serve(self, stream: Stream) -> None:
        """Carry this session over a stream whose hello was accepted, until either side ends it."""
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
            # By `fail`, by the writer after goodbye, or with the whole server: gRPC wants no more
            # than a return, and this task has nothing else to do.
            if self._end is not None:
                await self._written(writer)
                await _abort(stream, grpc.StatusCode.CANCELLED, self._end.detail)
        finally:
            self._stop(self.explain_end() or BotFault(Fault.CRASH, "its stream ended"))
            await self._written(writer)

    async def _written(self, writer: asyncio.Task[None]) -> None:
        """Let the write under way end, gRPC sends no status before; with the connection at last."""
        if self._wake is not None and not self._wake.done():
            writer.cancel()  # it waits for something to write
        await asyncio.gather(writer, return_exceptions=True)

    def _stop(self, fault: BotFault) -> None:
        self._handler = None  # it is ending by itself
        self.fail(fault.fault, fault.detail)

    async def _read(self, stream: Stream) -> None:
        while True:
            data = await read(stream)
            now_us = self._clock.now_us()
            if data is None:
                return
            try:
                message = pb.BotMessage.FromString(data)
            except DecodeError:
                _refuse("it sent bytes that are no BotMessage of deepsea.v1")
            if message.HasField("hello"):
                _refuse("it said hello twice")
            if not message.decisions:
                _refuse("it sent a message without a decision")
            heard = []
            try:
                for decision in message.decisions:
                    if (taken := self._take(decision, now_us)) is not None:
                        heard.append(taken)  # noqa: PERF401  (kept also if the next one raises)
            finally:  # what came before something senseless counts
                if not self._open:
                    self._pause(now_us)
                for ask, what in heard:
                    ask.heard(what)

    def _take(self, decision: pb.Decision, now_us: int) -> tuple[_Ask, Answer | BotFault] | None:
        """What an answer is worth; None if it comes too late."""
        request_id = decision.request_id
        ask = self._open.get(request_id)
        if ask is None or ask.began_us is None:
            if request_id not in self._late:
                _refuse(f"it answered request {request_id}, which is not open")
            del self._late[request_id]
            return None
        if decision.game_id != ask.game_id:
            _refuse(f"it answered request {request_id} for a game that the request is not of")
        reading = self._reading() if ask.looked else None
        us = ask.charged_us(now_us, self._shared.at(now_us), reading, answered=True)
        self._done(ask, now_us)
        if us > ask.limit_us:
            return ask, BotFault(Fault.TIMEOUT, _timeout(ask), us)
        return ask, Answer(decision.action, us)

    async def _write(self, stream: Stream) -> None:
        while self._end is None:
            if not self._outbox and self._closing and self._handler is not None:
                self._handler.cancel()
                return
            if not self._outbox or not self._shared.idle:
                self._wake = self._loop.create_future()
                await self._wake
                continue
            data, asks = self._next_batch()
            if asks:
                self._go_on(self._clock.now_us())
            now_us = self._clock.now_us()
            share_us = self._shared.open(len(asks), now_us)
            for ask in asks:
                ask.began_us = now_us
                ask.share_us = share_us
                self._ring_by(now_us + (ask.look_us or ask.limit_us))
            self._write_by_us = now_us + self._write_limit_us
            self._ring_by(self._write_by_us)
            await stream.write(data)
            self._write_by_us = None

    def _next_batch(self) -> tuple[bytes, list[_Ask]]:
        """What is waiting, up to the length of one message: messages add up byte by byte."""
        size = count = 0
        for data, _ in self._outbox:
            size += len(data)
            if count and size > MESSAGE_BYTES:
                break
            count += 1
        batch = self._outbox[:count]
        del self._outbox[:count]
        return b"".join([data for data, _ in batch]), [ask for _, ask in batch if ask is not None]

    # ------------------------------------------------------------------------------------- time

    def _ring_by(self, deadline_us: int) -> None:
        """One alarm for everything: it is left alone unless this deadline comes before it."""
        when_us = deadline_us + 1  # to use up the limit exactly is in time
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
            self._forgive(late_us + STALL_US)
        share_us = self._shared.at(now_us)
        due = []
        for ask in self._open.values():
            if ask.began_us is not None:
                # Shared time is never faster than the clock: it cannot be due before that.
                early_us = (ask.look_us or 0) - round(share_us - ask.share_us)
                if ask.looked is None and early_us > 0:
                    self._ring_by(now_us + early_us)
                else:
                    due.append(ask)
        if due:
            reading = self._reading()
            for ask in due:
                self._look_at(ask, now_us, share_us, reading)
        if self._write_by_us is not None:
            if now_us > self._write_by_us:
                self.fail(Fault.CRASH, "it does not read what it is sent")
            else:
                self._ring_by(self._write_by_us)

    def _look_at(self, ask: _Ask, now_us: int, share_us: float, reading: Reading | None) -> None:
        """Decide about a question that is still open."""
        if ask.looked is None and reading is not None:
            ask.looked = (now_us, share_us, reading)
            ask.looks = (reading.referee_waited_us, reading.referee_waited_us)
        us = ask.charged_us(now_us, share_us, reading, answered=False)
        if reading is not None:
            if us > ask.limit_us and (again_us := self._undecided_us(ask, now_us, reading)):
                self._ring_by(now_us + again_us)
                return
            ask.looks = (ask.looks[1], reading.referee_waited_us)
        wall_us = round(share_us - ask.share_us)
        came: BotFault | RefereeError
        if us > ask.limit_us:
            came = BotFault(Fault.TIMEOUT, _timeout(ask), us)
        elif host_is_hopeless(wall_us, ask.limit_us):
            came = RefereeError(f"the host was too busy for {wall_us} us to time a decision")
        else:
            self._ring_by(now_us + ask.limit_us - us)
            return
        self._done(ask, now_us)
        self._late[ask.request_id] = None
        if len(self._late) > LATE_KEPT:
            del self._late[next(iter(self._late))]
        ask.heard(came)

    def _undecided_us(self, ask: _Ask, now_us: int, reading: Reading) -> int:
        """How soon to look again before a timeout is called; 0 if it is one.

        While these looks go on, the referee's waiting counts from before them.
        """
        if ask.over_us is None:
            ask.over_us = now_us
            if reading.referee_waited_us - ask.looks[0] > BUSY_US:
                return GRACE_US
        assert self.gauge is not None
        assert ask.looked is not None
        worked_us = reading.cpu_us - ask.looked[2].cpu_us
        if worked_us > ask.limit_us or now_us - ask.over_us > LONGEST_READY_US:
            return 0
        if self.gauge.referee_is_ready() or self.gauge.bot_is_ready():
            return AGAIN_US
        return 0

    def _reading(self) -> Reading | None:
        return self.gauge.read() if self.gauge is not None else None

    def _pause(self, now_us: int) -> None:
        """The bot has answered everything; what it does now is on others' time."""
        if self.freeze is not None:
            self.freeze()
        if self.gauge is not None:
            self.off_turn.begin(now_us, self.gauge)

    def _go_on(self, now_us: int) -> None:
        if self.gauge is not None:
            self.off_turn.end(now_us, self.gauge)
        if self.thaw is not None:
            self.thaw()

    def _forgive(self, us: int) -> None:
        """The event loop was held up: that is not charged, once for each question.

        An answer that has come meanwhile is read before the alarm rings again.
        """
        for ask in self._open.values():
            if ask.began_us is not None and ask.began_us < self._alarm_us and not ask.credit_us:
                ask.credit_us = us


async def _abort(stream: Stream, code: grpc.StatusCode, detail: str) -> None:
    """End a stream with a status; the other side may have ended it without one meanwhile."""
    with contextlib.suppress(grpc.aio.InternalError):
        await stream.abort(code, detail)


async def read(stream: Stream) -> bytes | None:
    """The next message; None at the end of the stream, also if it ends in the midst of one.

    gRPC raises for a message that is too long, and has refused it then.
    """
    try:
        data: object = await stream.read()
    except grpc.aio.InternalError:
        return None
    return data if isinstance(data, bytes) else None


def _timeout(ask: _Ask) -> str:
    return f"it had {ask.limit_us} us for the decision"


def _refuse(detail: str) -> NoReturn:
    raise BotFault(Fault.PROTOCOL_ERROR, detail)

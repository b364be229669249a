"""The session of one bot: asks it for decisions over its stream, receives answers, wakes the timer.

Theory of operation
-------------------
A session stands between games, which ask for decisions, and the stream of one bot, a `Transport`.
It serves many games at once. It is in one of four states; `TRANSITIONS` is this table:

    state     meaning                             frozen?  ask     last request  close    end
                                                                   is over
    resting   no request is open                  may be   asked   -             closing  ended
    asked     at least one request is open        never    asked   resting       closing  ended
    closing   Goodbye follows what still waits    never    -       closing       -        ended
    ended     no more messages, for ever          may be   -       -             -        -

New games begin while it is resting or asked. Later a request is not sent: its outcome is that of
the end.

A request waits in the outbox, is timed, and is over: answered, timed out, or dropped because the
host was too busy. After the latter two, one late answer to it is ignored. Requests that are ready
when the bot has answered everything are sent as one message: a message costs more than its content,
and a bot works on one request at a time. Time runs from just before the write to just after the
read; decision_timer.py computes the charges. While a write is in progress, one request that waits
behind it is timed too, or the bot could compute without being charged by not reading a message.

Games call `ask`, `send` and `close`; the owner of the bot's process calls `fail`; the clock rings
the alarm. `serve` runs two loops in one task group, which alone touch the stream: the reader and
the writer. Only `fail` ends the session: it answers the open requests, wakes the writer, which
completes the write in progress, and cancels the reader.

Errors, the outcome for requests, and the effect on the session:

    no answer in time                               TIMEOUT of this request       goes on
    the host took the bot's time                    HostTooBusy for this request  goes on
    a message that is no answer to a request        PROTOCOL_ERROR                ended, aborted
    the stream ends                                 CRASH, or `explain_end`'s     ended
    a message is not read within WRITE_LIMIT_US     CRASH                         ended, aborted
    the reader, the writer or the alarm raises      RefereeError                  ended, aborted
    the stream ends after Goodbye                   RefereeError                  ended

Faults are the bot's; a RefereeError voids the games. An exception that `ask`, `send` or `close`
raises (a bot cannot be thawed, for example) is the caller's to handle, and nothing was asked.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol, TypeAlias

from deepsea_referee.clock import Clock, EarliestAlarm
from deepsea_referee.decision_timer import DecisionTimer, RequestEnd, Timeout
from deepsea_referee.errors import BotFault, HostTooBusy, RefereeError
from deepsea_referee.pauses import Pauses
from deepsea_rules.events import new_tuple
from deepsea_rules.faults import Fault
from deepsea_rules.time_control import overrun
from deepsea_sdk import wire
from deepsea_sdk.bot import Note, TimeLeft

WRITE_LIMIT_US = 10_000_000
"""The timeout of a write: the time in which a bot must read a message."""
MESSAGE_BYTES = 64 * 1024
"""The longest message from a bot, and the length up to which requests are sent as one message."""
HELD_BYTES = MESSAGE_BYTES // 2
"""The number of bytes without a request that may wait for a frozen bot.

If there are more, the bot is thawed to read them.
"""
MOST_LATE = 1_000
"""The number of timed-out requests that are remembered, so that late answers to them are ignored.

Late answers to older requests are refused.
"""

State: TypeAlias = Literal["resting", "asked", "closing", "ended"]
Transition: TypeAlias = Literal["ask", "last request over", "close", "end"]
TRANSITIONS: Mapping[State, Mapping[Transition, State]] = {
    "resting": {"ask": "asked", "close": "closing", "end": "ended"},
    "asked": {"ask": "asked", "last request over": "resting", "close": "closing", "end": "ended"},
    "closing": {"last request over": "closing", "end": "ended"},
    "ended": {},
}
"""The next state for each state and transition. Other transitions are impossible."""

_log = logging.getLogger(__name__)


class Transport(Protocol):
    """The stream of one bot, over gRPC (server.py) or as lines on its pipes (lines.py)."""

    async def read(self) -> Sequence[wire.RequestAnswer] | None:
        """Read the answers of the next message; None at the end of the stream.

        Raises BotFault for a message that is anything else.
        """

    async def write(self, message: bytes, /) -> None:
        """Write a message; return when the bot's side has taken it, or the stream has ended."""

    async def abort(self, fault: BotFault | None) -> None:
        """End the stream because of the bot's fault, or an error of the referee if it is None."""


class TimedAnswer(NamedTuple):
    """A bot's answer, which came in time, and the time that the bot is charged for it."""

    action: str
    us: int
    error: str | None = None
    """The traceback of an exception that the bot has raised instead of deciding."""
    wall_us: int = 0
    """The time since the message with the request was written.

    It is an upper bound of the time that the decision would have taken without other games.
    """
    note: Note | None = None


OnAnswer = Callable[[TimedAnswer | BotFault | RefereeError], object]
"""Receives a request's outcome: an answer, the bot's fault, or the referee's error."""


class Session:
    """The games' side (ask, send, close, fail) and the stream's side (serve) of a connection."""

    def __init__(
        self, clock: Clock, *, write_limit_us: int = WRITE_LIMIT_US, most_late: int = MOST_LATE
    ) -> None:
        self._clock = clock
        self._most_late = most_late
        self._write_limit_us = write_limit_us
        self._loop = asyncio.get_running_loop()
        self._state: State = "resting"
        self._end: BotFault | RefereeError | None = None
        """The outcome of every request once the session is closing or has ended."""
        self._last_id = 0
        self._timed_id = 0
        """The id of the last request whose clock was started."""
        self._sent_id = 0
        """The id of the last request that was written.

        It is less than `_timed_id` if a request was timed while the write before it takes long.
        """
        self._open: dict[int, OnAnswer] = {}
        """The open requests in the order of their ids, and the receivers of their outcomes."""
        self._late: dict[int, None] = {}
        """The ids of timed-out requests without an answer, the oldest first; an ordered set."""
        self._outbox = Outbox()
        self._write_deadline_us: int | None = None
        """The time at which the write in progress times out; None if there is none."""
        self._asked_us = 0
        """The time at which the first of the timed requests was written."""
        self._alarm = EarliestAlarm(clock, self._ring)
        self._reader: asyncio.Task[object] | None = None
        self.explain_end: Callable[[], BotFault | RefereeError | None] = lambda: None
        """Called when the stream ends: returns a more precise fault or error, or None."""
        self.timer = DecisionTimer()
        self.pauses = Pauses()
        self.features: frozenset[str] = frozenset()
        """The features of the bot's Hello, even those that the referee does not know."""
        self.connected: asyncio.Future[None] = self._loop.create_future()
        self.ended: asyncio.Future[None] = self._loop.create_future()

    # ------------------------------------------------------------------------- the games' side

    @property
    def usable(self) -> bool:
        """True if a new game may start on this session."""
        return self._state in ("resting", "asked")

    @property
    def ended_by_referee(self) -> bool:
        """True if the referee ended the session, by an error or by Goodbye, and not the bot."""
        return isinstance(self._end, RefereeError)

    def ask(self, request: bytes, time_left: TimeLeft, on_answer: OnAnswer) -> int:
        """Request one decision, and return the request's id.

        request    the message without its id, from `wire.RequestWriter`
        on_answer  called once with the outcome, and never before this returns
        """
        self._last_id = request_id = self._last_id + 1
        if not self.usable:  # the outcome is the error that has ended the session
            self._loop.call_soon(on_answer, self._final_outcome(0))
            return request_id
        if not self._open:
            self._resume()
        self._change("ask")
        self._open[request_id] = on_answer
        self._outbox.put(wire.with_request_id(request, request_id), (request_id, time_left))
        self._advance()
        return request_id

    def send(self, message: bytes) -> None:
        """Send a message that needs no answer, in order with the requests.

        It is ignored if the session is closing or has ended.

        message  a message from one of `wire`'s functions
        """
        if self.usable:
            self._outbox.put(message)
            self._advance()

    def close(self, reason: str) -> None:
        """Close the session: after the messages that wait, send Goodbye and end the stream.

        A decision that is requested from now on is an error of the caller, a RefereeError.
        """
        if self.usable:
            self._resume()
            self.send(wire.goodbye_message(reason))
            self._change("close")
            self._end = RefereeError("a decision was requested after Goodbye")

    def fail(self, end: BotFault | RefereeError) -> None:
        """End the session, unless it has ended; `end` is the outcome of open and later requests.

        The outcomes are reported last, when the session's state is complete, because the games that
        receive them may call this session again at once.
        """
        if self._state == "ended":
            return
        self._change("end")
        self._end = end
        taken_us = self.timer.stop_all(self._clock.now_us())
        unanswered = self._open
        self._open = {}
        self._alarm.cancel()
        self._outbox.clear()
        self._outbox.wake()
        if self._reader is not None and self._reader is not asyncio.current_task():
            self._reader.cancel()
        self.ended.set_result(None)
        for request_id, on_answer in unanswered.items():
            on_answer(self._final_outcome(taken_us.get(request_id, 0)))

    def _final_outcome(self, us: int) -> BotFault | RefereeError:
        """Return the outcome of a request that has no answer because the session has ended.

        us  the time that the request has taken, for the report of a bot's fault
        """
        end = self._end
        assert end is not None
        if isinstance(end, BotFault):
            return BotFault(end.fault, end.detail, us, end.public)
        return end

    def _fail_by_referee(self, error: Exception) -> None:
        """End the session because of an error that is not the bot's fault."""
        failure = RefereeError(f"the stream of a bot failed: {type(error).__name__}: {error}")
        failure.__cause__ = error
        if not self._open:  # otherwise the games become void, and report the error
            _log.error("%s", failure, exc_info=error)
        self.fail(failure)

    def _change(self, transition: Transition) -> None:
        """Change the state. Raises KeyError for a transition that the table does not have."""
        self._state = TRANSITIONS[self._state][transition]

    # ------------------------------------------------------------------------ the stream's side

    async def serve(self, transport: Transport) -> None:
        """Serve this session over a stream whose Hello was accepted, until either side ends it.

        The calling task reads from the stream, and a second task writes. If an error has ended the
        session, the stream is aborted.
        """
        self._reader = asyncio.current_task()
        self.connected.set_result(None)
        self._allow_freezing()
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self._guarded(self._write(transport)))
            await self._guarded(self._read(transport))
            ended_by_error = self._state == "ended"
            self._end_with_stream()  # does nothing after an error
            # At its end the block waits until the writer has completed the write in progress. The
            # status, which `abort` sends, must not come before that.
        if ended_by_error:
            fault = self._end if isinstance(self._end, BotFault) else None
            await transport.abort(fault)

    async def _guarded(self, loop: Awaitable[None]) -> None:
        """Run the reader's or the writer's loop; if it raises an error, end the session with it.

        A cancellation only ends the loop, without an error. The reader is cancelled by `fail`, by
        the writer after Goodbye, and by gRPC with the stream or the server.
        """
        try:
            await loop
        except asyncio.CancelledError:
            pass  # the caller ends the session, if it has not ended yet
        except BotFault as fault:
            self.fail(fault)
        except Exception as error:  # noqa: BLE001  (no other exception is the bot's fault)
            self._fail_by_referee(error)

    def _end_with_stream(self) -> None:
        """End the session because its stream has ended, unless an error has ended it."""
        try:
            # After Goodbye the outcome of requests is known; else the owner of the bot's process
            # may know why it has ended.
            end = self._end or self.explain_end() or BotFault(Fault.CRASH, "the stream ended")
            self.fail(end)
        except Exception as error:  # noqa: BLE001  (such as a limit that cannot be read)
            self._fail_by_referee(error)

    async def _read(self, transport: Transport) -> None:
        """Read messages until the stream or the session ends, and report the answers to the games.

        For each message, in this order: stop the clocks of the requests that it answers, wake the
        writer for requests that wait, begin the bot's pause if no request is open, and report the
        answers. They are reported last because the games ask for the next decisions at once.
        """
        while self._state != "ended":
            answers = await transport.read()
            now_us = self._clock.now_us()
            if answers is None:  # the stream has ended
                return
            outcomes: list[tuple[OnAnswer, TimedAnswer | BotFault]] = []
            try:
                for answer in answers:
                    outcome = self._outcome(answer, now_us)
                    if outcome is not None:
                        outcomes.append(outcome)  # one by one: the next answer may raise
            finally:  # also if an answer is invalid: those before it in the same message count
                self._advance()
                if not self._open:
                    if self._state == "asked":
                        self._change("last request over")
                    if self._state == "resting":
                        self.pauses.pause(now_us)
                for on_answer, outcome_of_request in outcomes:
                    on_answer(outcome_of_request)

    def _outcome(
        self, answer: wire.RequestAnswer, now_us: int
    ) -> tuple[OnAnswer, TimedAnswer | BotFault] | None:
        """Stop the clock of an answered request; return the request's callback and its outcome.

        Return None for an answer that came after the request's timeout, which is ignored. Raises
        BotFault for an answer to any other request that is not open.
        """
        request_id, action, error, note = answer
        is_sent = request_id <= self._sent_id
        charge = self.timer.stop(request_id, now_us) if is_sent else None
        if charge is None:  # the request has ended, or was never sent
            if request_id not in self._late:
                raise refusal(f"it answered request {request_id}, which is not open")
            del self._late[request_id]
            return None
        on_answer = self._open.pop(request_id)
        if isinstance(charge, Timeout):
            return on_answer, _timeout(charge)
        fields = (action, charge.us, error, now_us - self._asked_us, note)
        return on_answer, new_tuple(TimedAnswer, fields)

    async def _write(self, transport: Transport) -> None:
        """Write the messages of the outbox to the stream until the session ends.

        The last message of a session that is closing is Goodbye. After it nothing more is read: the
        task that reads is cancelled, and then `serve` ends the session.
        """
        while self._state != "ended":
            if self._may_write():
                message = self._next_message()  # this sets the deadline of the write
                await transport.write(message)
                self._write_deadline_us = None
            elif self._state == "closing" and not self._outbox:
                assert self._reader is not None
                self._reader.cancel()
                return
            else:
                await self._outbox.wait()

    def _may_write(self) -> bool:
        """Return True if there is a message that may be written to the bot now.

        Messages wait while the bot works on requests that it has received. A few messages without
        requests also wait while the bot is frozen.
        """
        if not self._outbox:
            return False
        if not self.timer.is_idle and self._sent_id >= self._timed_id:
            return False  # all requests whose clocks run were sent: the bot works on them
        return not (self.pauses.frozen and self._outbox.can_be_held)

    def _next_message(self) -> bytes:
        """Take the next message from the outbox, to be written at once, and return it.

        The clocks of its requests are started, and the timeout of its write is set. A frozen bot is
        thawed to read it.
        """
        message, requests = self._outbox.take()
        if self.pauses.frozen:
            self._resume()
            self._allow_freezing()  # it may be frozen again later if the message has no request
        now_us = self._clock.now_us()
        if requests:
            last_id, _ = requests[-1]
            self._sent_id = last_id
            first_id, _ = requests[0]
            if first_id <= self._timed_id:
                # The clock of the first request runs already, since the write before this one.
                requests = [request for request in requests if request[0] > self._timed_id]
            self._start_clocks(requests, now_us)
        self._write_deadline_us = now_us + self._write_limit_us + 1
        self._alarm.ring_by(self._write_deadline_us)
        if self._outbox:
            self._advance()
        return message

    def _advance(self) -> None:
        """Wake the writer for the next message of the outbox, unless the bot works on a request.

        While it does, the messages wait, and the clocks of their requests do not run.
        """
        if not self.timer.is_idle:
            return
        if self._write_deadline_us is None:  # no write is in progress
            self._outbox.wake()
            return
        # The write in progress has no open request. The clock of the next request starts already,
        # or a bot could compute without being charged by not reading the message.
        request = self._outbox.first_after(self._timed_id)
        if request is not None:
            self._start_clocks([request], self._clock.now_us())

    def _start_clocks(self, requests: list[tuple[int, TimeLeft]], now_us: int) -> None:
        """Start the clocks of requests, if there are any, and set the alarm for their first check.

        requests  the id, and the budget and bank, of each
        """
        if requests:
            last_id, _ = requests[-1]
            self._timed_id = last_id
            if self.timer.is_idle:
                self._asked_us = now_us
            self.timer.start(requests, now_us)
            if self.timer.due_us is not None:
                self._alarm.ring_by(self.timer.due_us)

    def _allow_freezing(self) -> None:
        """Allow the bot to be frozen if no request is open and no Goodbye is due."""
        if self._state == "resting":
            self.pauses.rest(self._clock.now_us())

    def _resume(self) -> None:
        """Thaw the bot, so that it can answer a request or read messages."""
        now_us = self._clock.now_us()
        is_writing = self._write_deadline_us is not None
        if is_writing and self.pauses.frozen:
            # The bot could not read while it was frozen, so it gets the whole time again.
            self._write_deadline_us = now_us + self._write_limit_us + 1
        self.pauses.resume(now_us)

    def _ring(self) -> None:
        """Handle the alarm; an error while checking the limits ends the session."""
        try:
            self._check_limits(self._clock.now_us())
        except Exception as error:  # noqa: BLE001  (such as a gauge that cannot read the host)
            self._fail_by_referee(error)

    def _check_limits(self, now_us: int) -> None:
        """End the requests that time out now, and the session if the bot does not read a message.

        Set the alarm to the next time at which a limit has to be checked.
        """
        for request_id, end in self.timer.check(now_us):
            if request_id in self._open:  # the outcome before may have ended the session
                self._drop_request(request_id, end)
        if self.timer.due_us is not None:
            self._alarm.ring_by(self.timer.due_us)
        if self._write_deadline_us is not None:
            if self.pauses.frozen:  # a frozen bot cannot read, so it gets the whole time again
                self._write_deadline_us = now_us + self._write_limit_us + 1
            if now_us >= self._write_deadline_us:
                self.fail(BotFault(Fault.CRASH, "it does not read its messages"))
            else:
                self._alarm.ring_by(self._write_deadline_us)

    def _drop_request(self, request_id: int, end: RequestEnd) -> None:
        """End an open request without an answer: report a timeout, or that the host was too busy.

        The outcome is reported last, when the state is complete, because the game that receives it
        may ask for the next decision at once.

        end  how the timer has ended the request
        """
        self._late[request_id] = None  # a late answer to it will be ignored
        if len(self._late) > self._most_late:  # forget the oldest
            oldest_id = next(iter(self._late))
            del self._late[oldest_id]
        if request_id > self._sent_id:
            # The request still waits in the outbox. The bot must read it before the notice of its
            # timeout, which follows: so the notice begins another message.
            self._outbox.cut()
        self._advance()
        on_answer = self._open.pop(request_id)
        if not self._open:
            self._change("last request over")
        self._allow_freezing()
        if isinstance(end, Timeout):
            on_answer(_timeout(end))
        else:
            text = f"the host was too busy for {end.wall_us} us to time a decision"
            on_answer(HostTooBusy(text, end.wall_us))


def _timeout(timeout: Timeout) -> BotFault:
    """Return the fault of a request that timed out."""
    return BotFault(Fault.TIMEOUT, overrun(timeout.limit_us), timeout.us)


class Outbox:
    """A queue of messages, with the ids and times of those that are requests, for one writer."""

    def __init__(self) -> None:
        self._messages: list[tuple[bytes, tuple[int, TimeLeft] | None]] = []
        self._bytes = 0
        self._cuts: list[int] = []
        """The lengths of the queue at the calls of `cut`.

        Messages before and after such a position are not joined.
        """
        self._wake: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def can_be_held(self) -> bool:
        """Return True if the messages can wait for a frozen bot: they are few, without requests."""
        return self._bytes < HELD_BYTES and all(request is None for _, request in self._messages)

    def put(self, message: bytes, request: tuple[int, TimeLeft] | None = None) -> None:
        """Add a message; `request` is the id and the time if it is a request."""
        self._messages.append((message, request))
        self._bytes += len(message)

    def cut(self) -> None:
        """Let the next message of the queue begin another message of the stream."""
        self._cuts.append(len(self._messages))

    def first_after(self, request_id: int) -> tuple[int, TimeLeft] | None:
        """Return the first waiting request with a higher id, or None; ids rise along the queue."""
        for _, request in self._messages:
            if request is not None and request[0] > request_id:
                return request
        return None

    def clear(self) -> None:
        """Remove all messages."""
        self._messages.clear()
        self._bytes = 0

    async def wait(self) -> None:
        """Wait until the next call of `wake`; for the writer."""
        self._wake = asyncio.get_running_loop().create_future()
        await self._wake

    def wake(self) -> None:
        """Wake the writer, which may be able to write now."""
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def take(self) -> tuple[bytes, list[tuple[int, TimeLeft]]]:
        """Take messages from the queue; return them joined into one, and the requests among them.

        At most `MESSAGE_BYTES` are taken, or a single longer message, and nothing behind the first
        `cut`. The joined bytes are one message, since concatenated protobuf messages merge. Each
        request is returned as its id, and its budget and bank.
        """
        batch = self._messages
        if self._bytes <= MESSAGE_BYTES and not self._cuts:  # most often everything fits
            self._messages = []
        else:
            size = count = 0
            first_cut = self._cuts[0] if self._cuts else None
            for data, _ in batch[:first_cut]:
                size += len(data)
                if count > 0 and size > MESSAGE_BYTES:
                    break
                count += 1
            self._messages = batch[count:]
            del batch[count:]
            # The positions of cuts count from the beginning of the queue, which has moved.
            self._cuts = [cut - count for cut in self._cuts if cut > count]
        message = b"".join([data for data, _ in batch])
        self._bytes -= len(message)
        return message, [request for _, request in batch if request is not None]


def refusal(detail: str) -> BotFault:
    """Return the fault of a message that the protocol does not allow, which ends the stream."""
    return BotFault(Fault.PROTOCOL_ERROR, detail)

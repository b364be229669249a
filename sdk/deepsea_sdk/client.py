"""A bot's side of the stream: `Player` knows what to answer, `run` carries it.

Laws: a player speaks only when asked, and answers all that one message asks in one message; it
waits as long as the referee likes (no deadline); what ends it is told in one line on stderr, the
bot's own errors with their traceback; stdout belongs to the bot.
"""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Final, NamedTuple, TypeVar

import grpc

from deepsea_rules.ruleset import RuleSet

from . import wire
from ._pb import deepsea_pb2 as pb
from ._pb.deepsea_pb2_grpc import RefereeStub
from .bot import Bot, is_own
from .errors import BotError, ConnectionRejected, NotInMatch, SdkError, WireError

ADDRESS: Final = "DEEPSEA_ADDRESS"
TOKEN: Final = "DEEPSEA_TOKEN"
OPTIONS: Final = (
    # The referee is where the address says; a proxy for the web has no business here.
    ("grpc.enable_http_proxy", 0),
)
# How a referee that stops, or is stopped, ends a stream: not the bot's mistake. INTERNAL is what
# grpcio makes of an answer that comes after the end, whatever the end was.
_CLOSED: Final = (
    grpc.StatusCode.OK,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.INTERNAL,
)

_T = TypeVar("_T")


class _Seat(NamedTuple):
    """One game in progress."""

    bot: Bot
    seat: int
    rules: RuleSet
    hears_events: bool


class Player:
    """What to answer to what the referee says; knows no stream."""

    def __init__(self, bot: Bot | type[Bot]) -> None:
        self._new_bot: Callable[[], Bot] = bot if isinstance(bot, type) else lambda: bot
        self._seats: dict[str, _Seat] = {}
        self.welcomed = False
        self.done = False
        """The referee has said goodbye."""

    def receive(self, message: pb.RefereeMessage) -> pb.BotMessage | None:
        """Handle one message; returns the answer to its requests, if there are any.

        Raises `BotError` if the bot raises, `WireError` for what makes no sense.
        """
        if message.HasField("welcome"):
            self._greet(message.welcome)
        for start in message.starts:
            self._start(start)
        for fault in message.faults:
            notice = wire.fault_from_wire(fault)
            _call(self._seat(notice.game_id).bot.on_fault, notice)
        decisions = [self._decide(request) for request in message.requests]
        for over in message.overs:
            self._end(over)
        self.done = message.HasField("goodbye")
        return pb.BotMessage(decisions=decisions) if decisions else None

    def _greet(self, welcome: pb.Welcome) -> None:
        if welcome.protocol_version != wire.PROTOCOL_VERSION:
            raise WireError(
                f"the referee speaks protocol version {welcome.protocol_version}, this SDK version "
                f"{wire.PROTOCOL_VERSION}: update the older side"
            )
        self.welcomed = True

    def _start(self, message: pb.GameStart) -> None:
        info = wire.start_from_wire(message)
        bot = _call(self._new_bot)
        hears_events = is_own(bot.on_event, Bot.on_event)
        self._seats[info.game_id] = _Seat(bot, info.seat, info.rules, hears_events)
        _call(bot.on_game_start, info)

    def _decide(self, message: pb.DecisionRequest) -> pb.Decision:
        seat = self._seat(message.game_id)
        bot = seat.bot
        game_id, request_id, view, time_left = wire.request_from_wire(message, seat.rules)
        if seat.hears_events:
            _tell(bot, message.events)
        bot.time_left = time_left
        action = _call(bot.decide, view)
        return wire.decision_to_wire(wire.Answer(game_id, request_id, action))

    def _end(self, message: pb.GameOver) -> None:
        seat = self._seat(message.game_id)
        end = wire.over_from_wire(message, seat.seat)
        if seat.hears_events:
            _tell(seat.bot, message.events)
        del self._seats[end.game_id]
        _call(seat.bot.on_game_end, end)

    def _seat(self, game_id: str) -> _Seat:
        try:
            return self._seats[game_id]
        except KeyError:
            raise WireError(f"the referee speaks of game {game_id!r}, which is not on") from None


def _call(method: Callable[..., _T], *arguments: object) -> _T:
    """Call the bot's own code; whatever it raises is a `BotError`."""
    try:
        return method(*arguments)
    except Exception as error:
        raise BotError(f"the bot raised {type(error).__name__}: {error}") from error


def _tell(bot: Bot, events: Iterable[pb.Event]) -> None:
    for event in wire.events_from_wire(events):
        _call(bot.on_event, event)


async def play(bot: Bot | type[Bot], address: str, token: str) -> None:
    """Play all games of one stream, until the referee ends it.

    Raises `NotInMatch` if nobody listens, `ConnectionRejected` if the referee refuses the bot.
    """
    player = Player(bot)
    async with grpc.aio.insecure_channel(address, OPTIONS) as channel:
        stream = RefereeStub(channel).Play()
        try:
            await stream.write(wire.hello_to_wire(token))
            while isinstance(message := await stream.read(), pb.RefereeMessage):
                answer = player.receive(message)
                if answer is not None:
                    await stream.write(answer)
                if player.done:
                    await stream.done_writing()
                    return
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            # The stream is over; its status says why.
            pass
        code, details = await stream.code(), await stream.details()
    if code not in _CLOSED:
        raise ConnectionRejected(f"the referee ended the stream ({code.name}): {details}")
    if not player.welcomed:
        why = details if code is grpc.StatusCode.UNAVAILABLE else "it hung up"
        raise NotInMatch(f"no referee welcomes bots at {address}: {why}")


def run(bot: Bot | type[Bot]) -> None:
    """Play for the referee that started this program; see `deepsea_sdk.run`."""
    _behave()
    try:
        asyncio.run(play(bot, *_whereabouts()))
    except BotError as error:
        if error.__cause__ is not None:
            traceback.print_exception(_without_sdk(error.__cause__))
        sys.exit(1)
    except SdkError as error:
        sys.stderr.write(f"deepsea-sdk: {error}\n")
        sys.exit(2 if isinstance(error, NotInMatch) else 1)


def _whereabouts() -> tuple[str, str]:
    try:
        return os.environ[ADDRESS], os.environ[TOKEN]
    except KeyError as missing:
        raise NotInMatch(
            f"a bot is started by the referee ({missing} is not set); "
            "try: deepsea-referee match THIS_FILE random"
        ) from None


def _behave() -> None:
    in_main_thread = threading.current_thread() is threading.main_thread()
    if in_main_thread and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Stopping a bot is no error worth a traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # What a bot prints is kept for its author, also if it is stopped in mid-thought.
        sys.stdout.reconfigure(line_buffering=True)


def _without_sdk(error: BaseException) -> BaseException:
    """The error with a traceback that begins in the author's own code."""
    frames: TracebackType | None = error.__traceback__
    while frames is not None and _is_sdk(frames):
        frames = frames.tb_next
    return error.with_traceback(frames or error.__traceback__)


def _is_sdk(frames: TracebackType) -> bool:
    return str(frames.tb_frame.f_globals.get("__name__")).startswith(__package__ + ".")

"""Client of the stream: `Player` computes the answers, `run` connects and sends them.

Invariants: a player sends only answers, and answers all requests of a message in one message. It
has no deadline. An error that ends it is one line on stderr; exceptions of the bot do not end it.
stdout belongs to the bot.
"""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

# Before gRPC is imported: its handlers at a fork end children of bots by a segmentation fault.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

import grpc

from . import wire
from ._pb import play_pb2 as pb
from ._pb.play_pb2_grpc import PlayServiceStub
from .bot import Bot, Clock, GameInfo, NewBot, SeatedBot, monotonic
from .errors import ERROR_BYTES, ConnectionRejected, NotInMatch, SdkError, WireError, cut
from .launch import ADDRESS, TOKEN
from .wire.games import (
    events_from_wire,
    fault_from_wire,
    last_events_from_wire,
    result_from_wire,
    start_from_wire,
)

OPTIONS = (
    # The referee listens at this address; a proxy for the web must not be used.
    ("grpc.enable_http_proxy", 0),
    # No timeout: a bot may be frozen for minutes while the answer to a ping waits for it.
    ("grpc.http2.ping_timeout_ms", 2**31 - 1),
)
# Status of a stream that ends because the referee stops, which is not the bot's mistake. grpcio
# reports INTERNAL if an answer comes after the end, whatever the end was.
_CLOSED = (
    grpc.StatusCode.OK,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.INTERNAL,
)
_MESSAGE_ERROR_BYTES = 32 * 1024
"""Most bytes of all error texts of a message; the referee refuses messages of over 64 KiB."""


@dataclass(slots=True)
class _Seat:
    """One game in progress."""

    info: GameInfo
    bot: SeatedBot
    request_id: int = 0
    """The last request of this game."""


class Player:
    """Player of all games of one stream: it computes answers, and does not depend on the stream."""

    def __init__(self, bot: NewBot, now: Callable[[], float] = monotonic) -> None:
        self._bot = bot
        self._now = now
        self._seats: dict[str, _Seat] = {}
        self.welcomed = False
        self.done = False
        """True once the referee has sent Goodbye."""

    def receive(self, message: pb.PlayResponse) -> pb.PlayRequest | None:
        """Handle one message of the referee, and return the decisions that it requests.

        Return None if it requests none. An exception of a bot is reported as its decision. Raise
        `WireError` for an invalid message.
        """
        arrived = self._now()  # first of all: the bots' clocks begin here
        if message.HasField("welcome"):
            self.welcomed = True
        for start in message.starts:
            info = start_from_wire(start)
            bot = SeatedBot(self._bot)
            self._seats[info.game_id] = _Seat(info, bot)
            bot.start(info)
        for fault in message.faults:
            self._report_fault(fault)
        answer = self._answer(message.requests, arrived) if message.requests else None
        for result in message.results:
            self._end_game(result)
        self.done = message.HasField("goodbye")
        return answer

    def _report_fault(self, message: pb.FaultNotice) -> None:
        """Tell the bot of a game that a fault was counted against it.

        The message names no game: it is the one whose last request has the message's request id.
        """
        for seat in self._seats.values():
            if seat.request_id == message.request_id:
                seat.bot.fault(fault_from_wire(message, seat.info.game_id))
                return
        raise WireError(f"a fault at request {message.request_id}, which no game has open")

    def _answer(self, requests: Sequence[pb.DecisionRequest], arrived: float) -> pb.PlayRequest:
        """Return the message with the bots' answers to the requests of one message.

        arrived  time at which the message arrived: the clocks of all its requests began then
        """
        # The answers go into one message, with the tracebacks of all games if they fail at once.
        error_limit = min(ERROR_BYTES, _MESSAGE_ERROR_BYTES // len(requests))
        answers = pb.PlayRequest()
        decisions = answers.decisions
        for request in requests:
            request_id = request.request_id
            seat = self._seat(request.game_id)
            seat.request_id = request_id
            bot = seat.bot
            view, time_left = wire.request_from_wire(request, seat.info.rules)
            events = events_from_wire(request.events) if bot.hears_events else ()
            clock = Clock.of(time_left, now=self._now, arrived=arrived)
            action, error, note = bot.decide(view, clock, events)
            if error is not None:
                error = cut(error, error_limit)
            wire.decision_to_wire((request_id, action, error, note), decisions.add())
        return answers

    def _end_game(self, message: pb.GameResult) -> None:
        """Forget a game that is over, and call the hooks of its bot for the end."""
        seat = self._seat(message.game_id)
        del self._seats[message.game_id]
        bot = seat.bot
        # Most bots have none of these hooks: then the result need not be read.
        if bot.hears_end or bot.hears_events:
            events = last_events_from_wire(message) if bot.hears_events else ()
            bot.end(result_from_wire(message, seat.info.seat), events)

    def _seat(self, game_id: str) -> _Seat:
        """Return the game with this id. Raise WireError if it is not in progress."""
        try:
            return self._seats[game_id]
        except KeyError:
            raise WireError(f"the referee names game {game_id!r}, which is not on") from None


def features_of(bot: NewBot) -> tuple[str, ...]:
    """Return the features that a bot names to the referee when it connects.

    bot  a class, whose attributes and methods are looked at; or a function that makes bots, which
         names no features unless its author has set these attributes on it
    """
    features = []
    if getattr(bot, "concurrent_games", False) is True:
        features.append(wire.CONCURRENT_GAMES)
    if getattr(bot, "on_event", None) is Bot.on_event:  # not overridden
        features.append(wire.NO_EVENTS)
    return tuple(features)


async def play(bot: NewBot, address: str, token: str, features: Sequence[str] = ()) -> None:
    """Play all games of one stream, until the referee ends it.

    Raise `NotInMatch` if no referee listens, `ConnectionRejected` if the referee refuses the bot.

    features  features to name in the Hello
    """
    player = Player(bot)
    loop = asyncio.get_running_loop()
    async with grpc.aio.insecure_channel(address, OPTIONS) as channel:
        stream = PlayServiceStub(channel).Play()
        try:
            await stream.write(wire.hello_to_wire(token, features))
            while isinstance(message := await stream.read(), pb.PlayResponse):
                # The bot's methods do not see this loop: they may call `asyncio.run`.
                asyncio._set_running_loop(None)  # noqa: SLF001  (exported for those who run a loop)
                try:
                    answer = player.receive(message)
                finally:
                    asyncio._set_running_loop(loop)  # noqa: SLF001
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
        why = details if code is grpc.StatusCode.UNAVAILABLE else "it closed the connection"
        raise NotInMatch(f"no referee accepts bots at {address}: {why}")


def run(bot: NewBot, features: Sequence[str] = ()) -> None:
    """Play for the referee that started this program; see `deepsea_sdk.run`."""
    _set_up_process()
    try:
        address, token = _address_and_token()
        asyncio.run(play(bot, address, token, features))
    except SdkError as error:
        sys.stderr.write(f"deepsea-sdk: {error}\n")
        sys.exit(2 if isinstance(error, NotInMatch) else 1)


def _address_and_token() -> tuple[str, str]:
    """Return the referee's address and the bot's token from the environment."""
    try:
        return os.environ[ADDRESS], os.environ[TOKEN]
    except KeyError as missing:
        raise NotInMatch(
            f"a bot is started by the referee ({missing} is not set); "
            "try: deepsea-referee match THIS_FILE random"
        ) from None


def _set_up_process() -> None:
    """Let Ctrl-C end the program without a traceback, and flush its output line by line."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    if in_main_thread and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Stopping a bot is not an error: no traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Flush the output, which is kept for its author even if the bot is stopped.
        sys.stdout.reconfigure(line_buffering=True)

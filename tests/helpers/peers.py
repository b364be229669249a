"""A bot's side of the stream that does exactly what a test tells it to, good or bad.

It speaks the proto over real gRPC and knows nothing of the SDK. Nothing here waits for time to
pass: `run` has a limit only so that a broken test ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypeVar

import grpc

from deepsea_referee.errors import BotFault, RefereeError
from deepsea_referee.server import SeatServer
from deepsea_referee.session import Session, TimedAnswer
from deepsea_sdk._pb import play_pb2 as pb
from deepsea_sdk.bot import TimeLeft

from .manual_clock import ManualClock

T = TypeVar("T")
Call: TypeAlias = "grpc.aio.StreamStreamCall[bytes, bytes]"
PLAY = "/deepsea.play.v1.PlayService/Play"
TOKEN = "the-token-of-this-seat"


async def one_pass() -> None:
    """Let the event loop run once; no time passes."""
    await asyncio.sleep(0)  # noqa: TID251


def ask(
    session: Session, request: pb.DecisionRequest, limit_us: int, bank_us: int = 0
) -> asyncio.Future[TimedAnswer]:
    """Ask a question without a game; what came of it is the future's result or exception.

    limit_us  for everything, `bank_us` of it from the bank
    """
    future: asyncio.Future[TimedAnswer] = asyncio.get_running_loop().create_future()

    def heard(came: TimedAnswer | BotFault | RefereeError) -> None:
        if future.done():
            assert future.cancelled()
        elif isinstance(came, TimedAnswer):
            future.set_result(came)
        else:
            future.set_exception(came)
            future.exception()  # not every test waits for it

    time_left = TimeLeft(limit_us - bank_us, bank_us)
    session.ask(request.SerializeToString(), time_left, heard)
    return future


class Peer:
    """One stream to a referee."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.call: Call = channel.stream_stream(PLAY)()
        self.seen: list[bytes] = []

    async def send(self, message: pb.PlayRequest) -> None:
        await self.raw(message.SerializeToString())

    async def raw(self, data: bytes) -> None:
        await self.call.write(data)

    async def hello(self, token: str = TOKEN, features: Sequence[str] = ()) -> None:
        await self.send(pb.PlayRequest(hello=pb.Hello(token=token, features=features)))

    async def next(self) -> pb.PlayResponse:
        """The next message; fails if the stream has ended."""
        data = await self.call.read()
        assert isinstance(data, bytes), "the referee ended the stream"
        self.seen.append(data)
        return pb.PlayResponse.FromString(data)

    async def request(self) -> pb.DecisionRequest:
        """The next question; what comes before it is passed over."""
        while True:
            message = await self.next()
            if message.requests:
                (request,) = message.requests
                return request

    async def answer(self, request: pb.DecisionRequest, action: str) -> None:
        decision = pb.Decision(request_id=request.request_id, action=action)
        await self.send(pb.PlayRequest(decisions=[decision]))

    async def status(self) -> tuple[grpc.StatusCode, str]:
        """How the stream ended, after whatever was still sent."""
        try:
            while await self.call.read() is not grpc.aio.EOF:
                pass
        except grpc.aio.AioRpcError:
            pass
        return await self.call.code(), await self.call.details() or ""


@dataclass
class Seat:
    """A session with its door open."""

    clock: ManualClock
    session: Session
    server: SeatServer
    address: str

    async def alarm_is_set(self) -> None:
        """Wait until somebody waits for time to pass."""
        while not self.clock.alarms:
            await one_pass()

    @asynccontextmanager
    async def channel(self) -> AsyncIterator[grpc.aio.Channel]:
        async with grpc.aio.insecure_channel(self.address) as channel:
            yield channel

    @asynccontextmanager
    async def peer(self) -> AsyncIterator[Peer]:
        """A peer that was welcomed."""
        async with self.channel() as channel:
            peer = Peer(channel)
            await peer.hello()
            message = await peer.next()
            assert message.HasField("welcome")
            yield peer


@asynccontextmanager
async def seat(folder: Path, **limits: int) -> AsyncIterator[Seat]:
    """A seat on a Unix socket in `folder`, by a clock that stands still."""
    clock = ManualClock()
    session = Session(clock, **limits)
    server = SeatServer(session, TOKEN, clock)
    address = await server.start(folder / "seat")
    try:
        yield Seat(clock, session, server, address)
    finally:
        await server.stop()

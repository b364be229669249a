"""Streams in memory: sessions with a bot that is a function, without gRPC and without waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from deepsea_referee.errors import BotFault
from deepsea_referee.play_game import play_by_requests
from deepsea_referee.server import answers_of
from deepsea_referee.session import Session
from deepsea_rules.faults import FaultReport
from deepsea_rules.game import Game
from deepsea_rules.time_control import TimeControl
from deepsea_sdk import wire
from deepsea_sdk._pb import play_pb2 as pb
from deepsea_sdk.table import RefereedGame

from .manual_clock import ManualClock

Decide = Callable[[pb.DecisionRequest], str]
CONTROL = TimeControl(100_000, 2_000_000)


def first_legal(request: pb.DecisionRequest) -> str:
    """The default action."""
    return request.legal[0]


def last_legal(request: pb.DecisionRequest) -> str:
    """Takes what it can and turns back at once."""
    return request.legal[-1]


class MemoryStream:
    """The transport of a bot that answers at once. Keeps every byte that it was sent."""

    def __init__(self, decide: Decide) -> None:
        self.sent: list[bytes] = []
        self.aborted: list[BotFault | None] = []
        """The reason why the referee ended it, None for its own error."""
        self._decide = decide
        self._answers: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def write(self, data: bytes) -> None:
        self.sent.append(data)
        message = pb.PlayResponse.FromString(data)
        decisions = [
            pb.Decision(request_id=r.request_id, action=self._decide(r)) for r in message.requests
        ]
        if decisions:
            self.put(pb.PlayRequest(decisions=decisions).SerializeToString())

    def put(self, data: bytes) -> None:
        """Something else that comes from the bot."""
        self._answers.put_nowait(data)

    def end(self) -> None:
        """The bot has gone."""
        self._answers.put_nowait(None)

    async def read(self) -> list[wire.RequestAnswer] | None:
        data = await self._answers.get()
        return None if data is None else answers_of(data)

    async def abort(self, fault: BotFault | None) -> None:
        self.aborted.append(fault)

    def messages(self) -> list[pb.PlayResponse]:
        return [pb.PlayResponse.FromString(data) for data in self.sent]

    def all(self, field: str) -> list[Any]:
        """What came in a field, such as "requests", of all messages."""
        return [one for message in self.messages() for one in getattr(message, field)]


class Table:
    """Sessions over streams in memory, one for each bot."""

    def __init__(self, bots: Sequence[Decide], stream: type[MemoryStream] | None = None) -> None:
        self.clock = ManualClock()
        self.streams = [(stream or MemoryStream)(decide) for decide in bots]
        self.sessions = [Session(self.clock) for _ in bots]
        self._serving = [
            asyncio.create_task(session.serve(stream))
            for session, stream in zip(self.sessions, self.streams, strict=True)
        ]

    async def play(
        self, game: Game, control: TimeControl = CONTROL, game_id: str = "g"
    ) -> list[FaultReport]:
        """Play a game to its end and see every stream through."""
        refereed = RefereedGame(game, game_id, control)
        await play_by_requests(refereed, self.sessions)
        await self.close()
        return refereed.faults

    async def close(self) -> None:
        for session in self.sessions:
            session.close("the test is over")
        await asyncio.gather(*self._serving, return_exceptions=True)

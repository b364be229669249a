"""A referee that does exactly what a test tells it to, over real gRPC, in the test's own loop.

It knows the proto and, for whole games, the wire module. Nothing here waits for time to pass: `run`
has a limit only so that a broken test ends.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import grpc

from deepsea_rules.game import Game
from deepsea_sdk import wire
from deepsea_sdk._pb import play_pb2 as pb
from deepsea_sdk._pb.play_pb2_grpc import PlayServiceServicer, add_PlayServiceServicer_to_server
from deepsea_sdk.bot import GameEnd, GameInfo, TimeLeft

T = TypeVar("T")
Stream = Any
"""A `grpc.aio.ServicerContext`, whose types do not tell what a stream reads."""
TOKEN = "the-token-of-this-seat"


class Peer:
    """The referee's side of one stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.hello = pb.Hello()
        self.deadline: float | None = stream.time_remaining()

    async def hear_hello(self) -> None:
        """Hear who is at the door."""
        message = await self._read()
        assert message is not None
        assert message.HasField("hello")
        assert not message.decisions
        self.hello = message.hello

    async def welcome(self) -> None:
        """Hear the bot's hello and let it in."""
        await self.hear_hello()
        await self.send(welcome=pb.Welcome(referee="scripted"))

    async def send(self, **fields: Any) -> None:
        """Send one message."""
        await self._stream.write(pb.PlayResponse(**fields))

    async def answers(self) -> list[wire.RequestAnswer]:
        """The decisions of the next message; none if the bot has closed the stream."""
        message = await self._read()
        if message is None:
            return []
        assert message.decisions, "a bot speaks only to answer"
        return [wire.decision_from_wire(decision) for decision in message.decisions]

    async def refuse(self, code: grpc.StatusCode, details: str) -> None:
        """End the stream with a status."""
        await self._stream.abort(code, details)

    async def goodbye(self) -> None:
        """Send the bot home, and see that it goes without another word."""
        await self.send(goodbye=pb.Goodbye(reason="that is all"))
        assert await self._read() is None

    async def _read(self) -> pb.PlayRequest | None:
        """The next message; None if the bot has hung up."""
        try:
            message = await self._stream.read()
        except asyncio.CancelledError:
            return None
        return message if isinstance(message, pb.PlayRequest) else None


Script = Callable[[Peer], Awaitable[None]]


@asynccontextmanager
async def referee(folder: Path, script: Script) -> AsyncIterator[str]:
    """A referee that follows the script with whoever comes; gives its address.

    What the script raises fails the test on leaving.
    """
    failures: list[Exception] = []

    class Scripted(PlayServiceServicer):
        async def Play(  # type: ignore[override]  # noqa: N802
            self, request_iterator: object, context: Stream
        ) -> None:
            try:
                await script(Peer(context))
            except grpc.aio.AbortError:
                raise  # the script asked for it
            except Exception as error:
                failures.append(error)
                raise

    server = grpc.aio.server()
    add_PlayServiceServicer_to_server(Scripted(), server)
    address = f"unix:{folder}/socket"
    server.add_insecure_port(address)
    await server.start()
    try:
        yield address
    finally:
        await server.stop(None)
        if failures:
            raise failures[0]


class Ended(NamedTuple):
    """How a bot's process ended."""

    status: int
    stdout: str
    stderr: str


async def start_bot(source: str | Path, folder: Path, **environment: str) -> Ended:
    """Run a bot's program to its end, with these variables added to the environment."""
    if isinstance(source, str):
        file = folder / "a_bot.py"
        file.write_text(source, encoding="utf-8")
    else:
        file = source
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(file),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**without_referee(), **environment},
    )
    stdout, stderr = await process.communicate()
    return Ended(process.returncode or 0, stdout.decode(), stderr.decode())


async def play_with(source: str | Path, folder: Path, script: Script) -> Ended:
    """Run a bot's program with a referee that follows the script."""
    async with referee(folder, script) as address:
        return await start_bot(source, folder, DEEPSEA_ADDRESS=address, DEEPSEA_TOKEN=TOKEN)


def without_referee() -> dict[str, str]:
    """The environment, as it is where no referee has started the program."""
    return {key: value for key, value in os.environ.items() if not key.startswith("DEEPSEA_")}


# Games


def start_of(game: Game, game_id: str, seat: int = 0) -> pb.GameStart:
    """What a seat gets when the game begins."""
    info = GameInfo(game_id, seat, game.players, game.rules, 100_000, 2_000_000, game.commitment)
    (start,) = pb.PlayResponse.FromString(wire.start_message(info)).starts
    return start


def request_of(
    game: Game, game_id: str, request_id: int, since: int | None = None, bank_us: int = 2_000_000
) -> pb.DecisionRequest:
    """The pending question, with the events after the first `since`, or without any."""
    question = game.pending()
    assert question is not None
    mark = len(game.events) if since is None else since
    writer = wire.RequestWriter(game_id, game.events)
    data = writer.write(game.view(question.seat), mark, TimeLeft(100_000, bank_us))
    (request,) = pb.PlayResponse.FromString(wire.with_request_id(data, request_id)).requests
    return request


def end_of(game: Game, game_id: str, seat: int) -> GameEnd:
    """How a finished game ended, as a seat gets it."""
    return GameEnd(
        game_id,
        seat,
        *game.result(),
        seed=game.seed,
        values=game.state.values,
        forfeits=tuple(game.forfeits),
        is_void=False,
    )


async def play_with_itself(peer: Peer, game: Game, game_id: str) -> None:
    """Play a whole game with one bot in all seats: each seat is a game of its own for the bot."""
    ids = [f"{game_id}/{seat}" for seat in range(game.players)]
    await peer.send(starts=[start_of(game, ids[seat], seat) for seat in range(game.players)])
    marks = [0] * game.players
    while (question := game.pending()) is not None:
        seat = question.seat
        number = len(game.decisions)
        request = request_of(game, ids[seat], number + 1, marks[seat], number)
        marks[seat] = len(game.events)
        await peer.send(requests=[request])
        (answer,) = await peer.answers()
        assert answer.request_id == request.request_id
        game.decide(answer.action)
    for seat in range(game.players):
        end = end_of(game, ids[seat], seat)
        data = wire.result_message(end, game.events[marks[seat] :])
        await peer.send(results=pb.PlayResponse.FromString(data).results)

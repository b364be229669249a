"""One game at a time: what the referee and the SDK add to the messages themselves.

Invariants: bots are real processes that answer at once, over the real referee; between two games
the same process measures the bare ping-pong, with messages as long as the match's, once with one
process at the other end and once with two in turn as in a game, and games over bare streams, which
leave out sessions and clocks, or also bots, or also the referee's part; medians are compared. A
game's time is all that passes between two such breaks.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import at_once
from at_once import AtOnce
from deepsea_referee.bots.resolve import resolve
from deepsea_referee.match import play_match
from deepsea_referee.summary import GameResult
from deepsea_rules.game import Game, GameRecord, Question
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import DEFAULT, preset
from deepsea_rules.time_control import TimeControl
from deepsea_sdk import wire
from deepsea_sdk._pb import play_pb2 as pb
from deepsea_sdk.bot import TimeLeft
from deepsea_sdk.launch import ADDRESS, TOKEN
from deepsea_sdk.table import RefereedGame
from figures import Row, Scale, at_most, beside, median
from ping import BotStream, ping_pong, streams_to
from real import as_the_command_line, message_bytes, settings

GAMES: dict[Scale, int] = {"tiny": 3, "full": 200}
PINGS = 60
"""In a row; about as many as a game has decisions."""
BOTS = 2
LIMIT = 1.7


def measure(scale: Scale) -> list[Row]:
    """The row of this goal."""
    with as_the_command_line():
        return asyncio.run(_measure(GAMES[scale]))


async def _measure(games: int) -> list[Row]:
    times: dict[str, list[float]] = defaultdict(list)
    began: float | None = None  # the first game includes the start of the bots
    sizes = await message_bytes()
    async with (
        ping_pong(*sizes) as one,
        ping_pong(*sizes, clients=BOTS) as several,
        real_bots(BOTS) as bots,
        asyncio.TaskGroup() as group,
    ):

        async def measure_the_rest(number: int, done: Future[None]) -> None:
            nonlocal began
            times["in turn"].append(await several.seconds(PINGS))
            times["referee"].append(await without_bots(several.streams, number))
            times["bots"].append(await without_referee(bots, number))
            times["bare"].append(await bare(bots, number))
            times["ping"].append(await one.seconds(PINGS))
            began = time.perf_counter()
            done.set_result(None)

        def on_game(result: GameResult, record: GameRecord) -> Future[None]:
            if began is not None:
                times["match"].append((time.perf_counter() - began) / len(record.decisions))
            done: Future[None] = Future()
            group.create_task(measure_the_rest(result.game, done))
            return done  # the next game waits for it

        await play_match(settings(games, bots=BOTS), on_game)
    of = {name: median(seconds) for name, seconds in times.items()}
    ping, in_turn, alone, decision = of["ping"], of["in turn"], of["bare"], of["match"]
    added = {
        "the way there and back: the ping-pong": ping,
        "a second process to wake: ping-pong with two in turn": in_turn - ping,
        "rules and requests, with clients that only answer": of["referee"] - in_turn,
        "the bots' SDK, with requests made beforehand": of["bots"] - in_turn,
        "both in one game: what these cost more": alone + in_turn - of["referee"] - of["bots"],
        "sessions, clocks, tasks; starts and ends of games": decision - alone,
    }
    loops = {f"in a loop, {name}": seconds for name, seconds in parts(games).items()}
    return [
        at_most(
            "one game at a time: a decision, against a bare ping-pong",
            f"{_ms(decision)}, {_ms(ping)} ({sizes[0]} and {sizes[1]} bytes)",
            decision / ping,
            LIMIT,
            decision_ms=decision * 1e3,
            ping_ms=ping * 1e3,
        ),
        Row(
            "the same over bare streams, without sessions, clocks and tasks",
            _ms(alone),
            alone / ping,
            figures={"decision_ms": alone * 1e3},
        ),
        *(
            beside(f"of a decision, {name}", f"{seconds * 1e6:.0f} µs", us=seconds * 1e6)
            for name, seconds in {**added, **loops}.items()
        ),
    ]


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms"


# What one decision is made of, apart from the messages' way: the referee's and the SDK's own
# functions one after the other for whole games, as `match` and `client` call them.


LEFT = TimeLeft(100_000, 2_000_000)
SEATS = 2


def parts(games: int) -> dict[str, float]:
    """Seconds that each part of a decision takes."""
    times: dict[str, list[float]] = defaultdict(list)
    for number in range(games):
        _play(Game(preset(DEFAULT), SEATS, seed_from_text(f"bench {number}")), times)
    return {name: median(all_of_them) for name, all_of_them in times.items()}


def _play(game: Game, times: dict[str, list[float]]) -> None:
    bot = AtOnce()
    game.keep_no_events()  # the bot reads none
    writer = wire.RequestWriter("bench-0001", game.events)
    last = time.perf_counter()

    def lap(name: str) -> None:
        nonlocal last
        now = time.perf_counter()
        times[name].append(now - last)
        last = time.perf_counter()

    while (question := game.pending()) is not None:
        view = game.view(question.seat)
        lap("rules: question and view")
        data = wire.with_request_id(writer.write(view, None, LEFT), 1)
        lap("referee: question as bytes")
        request = pb.PlayResponse.FromString(data).requests[0]
        view, _ = wire.request_from_wire(request, game.rules)
        lap("bot: bytes as a view")
        action = bot.decide(view)
        lap("bot: decides")
        answer = pb.PlayRequest()
        wire.decision_to_wire(
            wire.RequestAnswer(request.request_id, action), answer.decisions.add()
        )
        data = answer.SerializeToString()
        lap("bot: decision as bytes")
        action = wire.read_from_bot(data).answers[0].action
        lap("referee: bytes as a decision")
        game.decide(action)
        lap("rules: the move")


# Games over bare streams: the streams are those of ping.py; the same engine, requests written and
# answers read by the same functions as in a match; one loop asks and waits. Each part can be
# measured without the other: the engine and its requests with clients that only answer, and real
# bots with requests that were made beforehand.


class BareGame:
    """A game as the referee's loop plays it: requests out, answers in."""

    def __init__(self, number: int, seats: int) -> None:
        game = Game(preset(DEFAULT), seats, seed_from_text(f"bench {number}"))
        named = [(f"bot {seat}", "") for seat in range(seats)]
        self._refereed = RefereedGame(game, f"bench-{number:04}", TimeControl(10_000_000), named)
        self._game = game
        self._writer = wire.RequestWriter(self._refereed.shown_id, game.events)
        self._question: Question | None = None
        self._seats = range(seats)
        self.decisions = 0
        """How many were asked."""

    @property
    def legal(self) -> Sequence[str]:
        """The actions of the present request."""
        assert self._question is not None
        return self._question.legal

    def starts(self) -> list[bytes]:
        """The first message of each seat."""
        return [wire.start_message(self._refereed.game_info(seat)) for seat in self._seats]

    def request(self) -> tuple[int, bytes] | None:
        """The seat that is asked next, and its message; None at the end of the game."""
        self._question = question = self._game.pending()
        if question is None:
            return None
        self.decisions += 1
        time_left = self._refereed.time_left(question.seat)
        request = self._writer.write(self._game.view(question.seat), None, time_left)
        return question.seat, wire.with_request_id(request, self.decisions)

    def answer(self, data: bytes) -> None:
        """Play the action of an answer's message."""
        self.play(wire.read_from_bot(data).answers[0].action)

    def play(self, action: str) -> None:
        """Play an action."""
        assert self._question is not None
        self._refereed.answer(self._question, action)

    def results(self) -> list[bytes]:
        """The last message of each seat."""
        return [wire.result_message(self._refereed.game_end(seat), ()) for seat in self._seats]


@asynccontextmanager
async def real_bots(count: int) -> AsyncIterator[list[BotStream]]:
    """Streams to real bots that answer at once, and that have been welcomed."""

    def bot(address: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, ADDRESS: address, TOKEN: "bench"}
        return subprocess.Popen([sys.executable, at_once.__file__], env=environment)

    async with streams_to(bot, count, f"/{wire.SERVICE}/{wire.METHOD}") as streams:
        for stream in streams:
            await stream.read()
            await stream.write(wire.welcome_message())
        yield streams


async def bare(streams: Sequence[BotStream], number: int) -> float:
    """Play a game with real bots; returns the seconds of a decision."""
    began = time.perf_counter()
    game = BareGame(number, len(streams))
    for stream, data in zip(streams, game.starts(), strict=True):
        await stream.write(data)
    while (asked := game.request()) is not None:
        seat, data = asked
        await streams[seat].write(data)
        game.answer(await streams[seat].read())
    for stream, data in zip(streams, game.results(), strict=True):
        await stream.write(data)
    return (time.perf_counter() - began) / game.decisions


async def without_bots(streams: Sequence[BotStream], number: int) -> float:
    """The same with clients whose answers say nothing: what they decide is read from bytes here."""
    chance = Random(number).random
    answers = {action: _answer(action) for action in _legal_actions(number, len(streams))}
    began = time.perf_counter()
    game = BareGame(number, len(streams))
    game.starts()
    while (asked := game.request()) is not None:
        seat, data = asked
        await streams[seat].write(data)
        await streams[seat].read()
        game.answer(answers[game.legal[int(chance() * len(game.legal))]])
    game.results()
    return (time.perf_counter() - began) / game.decisions


async def without_referee(streams: Sequence[BotStream], number: int) -> float:
    """The same with real bots and messages that were made before: nothing is computed here."""
    game, requests = BareGame(number, len(streams)), []
    starts, chance = game.starts(), Random(number).random
    while (asked := game.request()) is not None:
        requests.append(asked)
        game.play(game.legal[int(chance() * len(game.legal))])
    results = game.results()
    began = time.perf_counter()
    for stream, data in zip(streams, starts, strict=True):
        await stream.write(data)
    for seat, data in requests:
        await streams[seat].write(data)
        await streams[seat].read()
    for stream, data in zip(streams, results, strict=True):
        await stream.write(data)
    return (time.perf_counter() - began) / game.decisions


def _legal_actions(number: int, seats: int) -> set[str]:
    """The actions that are legal at some time in the game that is played by chance."""
    game, found, chance = BareGame(number, seats), set[str](), Random(number).random
    while game.request() is not None:
        found.update(game.legal)
        game.play(game.legal[int(chance() * len(game.legal))])
    return found


def _answer(action: str) -> bytes:
    answer = pb.PlayRequest()
    wire.decision_to_wire(wire.RequestAnswer(1, action), answer.decisions.add())
    return answer.SerializeToString()


# Lines

LINES_PROGRAM = """
import json
from random import Random

chance = Random(1)
print('{"type":"ready","features":["no_events"]}', flush=True)
while True:
    message = json.loads(input())
    if message["type"] == "decide":
        action = chance.choice(message["legal"])
        print(json.dumps({"type": "answer", "id": message["id"], "action": action}), flush=True)
    elif message["type"] == "goodbye":
        break
"""
LINES_MANIFEST = 'name = "lines"\ncommand = "python3 bot.py"\nprotocol = "lines"\n'


def measure_lines(scale: Scale) -> list[Row]:
    """A decision of a bot that speaks lines against that of one in Python over gRPC.

    Both choose at once and sit at the same table in every game, so that their decisions alternate;
    what is compared is the time that each is charged.
    """
    times: dict[str, list[float]] = defaultdict(list)

    def note(_result: GameResult, record: GameRecord) -> None:
        for decision in record.decisions:
            times[record.seats[decision.seat].name].append(decision.us)

    with tempfile.TemporaryDirectory() as folder, as_the_command_line():
        Path(folder, "bot.py").write_text(LINES_PROGRAM, encoding="utf-8")
        Path(folder, "bot.toml").write_text(LINES_MANIFEST, encoding="utf-8")
        what = settings(GAMES[scale])
        bots = [replace(what.bots[0], name="grpc"), resolve(folder)]
        asyncio.run(play_match(replace(what, bots=bots), note))
    lines_us, grpc_us = median(times["lines"]), median(times["grpc"])
    return [
        at_most(
            "a decision of a bot that speaks lines, against one over gRPC",
            f"{lines_us:.0f} µs, {grpc_us:.0f} µs",
            lines_us / grpc_us,
            1.0,
            lines_us=lines_us,
            grpc_us=grpc_us,
        )
    ]

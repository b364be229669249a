"""Games over bare streams: what a decision costs without the referee's sessions, clocks and tasks.

Invariants: the streams are those of ping.py; a game is played by the same engine, requests are
written and answers read by the same functions as in a match; one loop asks and waits, and nothing
else is done. Each part can be measured without the other: the engine and its requests with clients
that only answer, and real bots with requests that were made beforehand.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random

import at_once
from deepsea_rules.game import Game, Question
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import DEFAULT, preset
from deepsea_rules.time_control import TimeControl
from deepsea_sdk import wire
from deepsea_sdk._pb import play_pb2 as pb
from deepsea_sdk.launch import ADDRESS, TOKEN
from deepsea_sdk.refereed_game import RefereedGame
from ping import Stream, streams_to


class BareGame:
    """A game as the referee's loop plays it: requests out, answers in."""

    def __init__(self, number: int, seats: int) -> None:
        game = Game(preset(DEFAULT), seats, seed_from_text(f"bench {number}"))
        named = [(f"bot {seat}", "") for seat in range(seats)]
        self._refereed = RefereedGame(game, f"bench-{number:04}", TimeControl(10_000_000), named)
        self._game = game
        self._writer = wire.RequestWriter(self._refereed.game_id, game.events)
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
        return [wire.start_message(self._refereed.info(seat)) for seat in self._seats]

    def request(self) -> tuple[int, bytes] | None:
        """The seat that is asked next, and its message; None at the end of the game."""
        self._question = question = self._game.pending()
        if question is None:
            return None
        self.decisions += 1
        time_left = self._refereed.time_left(question.seat)
        request = self._writer.write(self._game.view(question.seat), None, time_left)
        return question.seat, wire.numbered(request, self.decisions)

    def answer(self, data: bytes) -> None:
        """Play the action of an answer's message."""
        self.play(wire.read_from_bot(data).answers[0].action)

    def play(self, action: str) -> None:
        """Play an action."""
        assert self._question is not None
        self._refereed.answer(self._question, action)

    def results(self) -> list[bytes]:
        """The last message of each seat."""
        return [wire.result_message(self._refereed.end(seat), ()) for seat in self._seats]


@asynccontextmanager
async def bots(count: int) -> AsyncIterator[list[Stream]]:
    """Streams to real bots that answer at once, and that have been welcomed."""

    def bot(address: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, ADDRESS: address, TOKEN: "bench"}
        return subprocess.Popen([sys.executable, at_once.__file__], env=environment)

    async with streams_to(bot, count, f"/{wire.SERVICE}/{wire.METHOD}") as streams:
        for stream in streams:
            await stream.read()
            await stream.write(wire.welcome_message())
        yield streams


async def bare(streams: Sequence[Stream], number: int) -> float:
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


async def without_bots(streams: Sequence[Stream], number: int) -> float:
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


async def without_referee(streams: Sequence[Stream], number: int) -> float:
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
    wire.decision_to_wire(wire.Answer(1, action), answer.decisions.add())
    return answer.SerializeToString()

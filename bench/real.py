"""Matches between real processes that answer at once, for the benchmarks."""

from __future__ import annotations

import gc
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import cast
from unittest.mock import patch

import at_once
from deepsea_referee.bots.process import Hosting
from deepsea_referee.bots.resolve import resolve
from deepsea_referee.match import MatchSettings, play_match
from deepsea_referee.sandbox.plain_process import PlainProcess
from deepsea_referee.server import BotStream, GrpcTransport
from deepsea_referee.summary import GameResult
from deepsea_rules.game import GameRecord
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.time_control import TimeControl
from figures import median
from ping import PingPong, ping_pong

PATIENT = TimeControl(10_000_000)
"""On a busy machine nothing may turn into a fault: another game would be measured."""
WARM_UP = 0.1
"""The share of a match that is left out at its beginning and again at its end."""


def settings(games: int, tables: int = 1, bots: int = 2) -> MatchSettings:
    """A match of so many games between such bots."""
    bot = resolve(str(Path(at_once.__file__)))
    return MatchSettings(
        bots=[bot] * bots,
        hosting=Hosting(PlainProcess()),
        games=games,
        time_control=PATIENT,
        seed=seed_from_text("bench"),
        tables=tables,
    )


@contextmanager
def as_the_command_line() -> Iterator[None]:
    """Collect garbage as seldom as `deepsea-referee` does."""
    before = gc.get_threshold()
    gc.set_threshold(50_000)
    try:
        yield
    finally:
        gc.set_threshold(*before)


class Pace:
    """When games ended, and how many decisions they had."""

    def __init__(self) -> None:
        self._ends: list[tuple[float, int]] = []

    def note(self, _result: GameResult, record: GameRecord) -> None:
        """A game has ended."""
        self._ends.append((time.perf_counter(), len(record.decisions)))

    def per_second(self) -> float:
        """Decisions a second, without the beginning and the end of the match."""
        left_out = int(WARM_UP * len(self._ends))
        (began, _), *counted = self._ends[left_out : len(self._ends) - left_out]
        return sum(decisions for _, decisions in counted) / (counted[-1][0] - began)


class _Metered:
    """A stream that notes how long its messages are."""

    def __init__(self, stream: BotStream, questions: list[int], answers: list[int]) -> None:
        self._stream, self._questions, self._answers = stream, questions, answers
        self.abort = stream.abort

    async def read(self) -> object:
        data: object = await self._stream.read()
        if isinstance(data, bytes):
            self._answers.append(len(data))
        return data

    async def write(self, data: bytes) -> None:
        self._questions.append(len(data))
        await self._stream.write(data)


async def message_bytes() -> tuple[int, int]:
    """How long a question and an answer are in such a match, as a rule."""
    questions: list[int] = []
    answers: list[int] = []
    prepare = GrpcTransport.__init__

    def prepare_metered(transport: GrpcTransport, stream: BotStream) -> None:
        prepare(transport, cast(BotStream, _Metered(stream, questions, answers)))

    with patch.object(GrpcTransport, "__init__", prepare_metered):
        await play_match(settings(games=2))
    return int(median(questions)), int(median(answers))


@asynccontextmanager
async def ping_pong_like_a_match() -> AsyncIterator[tuple[PingPong, str]]:
    """A ping-pong with messages as long as those of a match, and what to say about them."""
    question_bytes, answer_bytes = await message_bytes()
    async with ping_pong(question_bytes, answer_bytes) as pings:
        yield pings, f"{question_bytes} and {answer_bytes} bytes"

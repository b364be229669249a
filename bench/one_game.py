"""One game at a time: what the referee and the SDK add to the messages themselves.

Invariants: bots are real processes that answer at once, over the real referee; between two games
the bare ping-pong is measured by the same process, with messages as long as the match's, once with
one process at the other end and once with two in turn as in a game; medians are compared. A game's
time is all that passes between two ping-pongs. What a decision is made of comes from the same run;
what is left over is what sessions, clocks and event loops take.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import Future
from typing import Final

from deepsea_referee.match import play_match
from deepsea_referee.results.summary import GameResult
from deepsea_rules.record import GameRecord
from figures import Row, Scale, at_most, beside, median
from parts import parts
from ping import ping_pong
from real import message_bytes, settings

GAMES: Final[dict[Scale, int]] = {"tiny": 3, "full": 200}
PINGS: Final = 60
"""In a row; about as many as a game has decisions."""
BOTS: Final = 2
LIMIT: Final = 1.25


def measure(scale: Scale) -> list[Row]:
    """The row of this goal."""
    return asyncio.run(_measure(GAMES[scale]))


async def _measure(games: int) -> list[Row]:
    decisions: list[float] = []
    alone: list[float] = []
    in_turn: list[float] = []
    began: float | None = None  # the first game includes the start of the bots
    sizes = await message_bytes()
    async with (
        ping_pong(*sizes) as one,
        ping_pong(*sizes, clients=BOTS) as several,
        asyncio.TaskGroup() as group,
    ):

        async def ping(done: Future[None]) -> None:
            nonlocal began
            alone.append(await one.seconds(PINGS))
            in_turn.append(await several.seconds(PINGS))
            began = time.perf_counter()
            done.set_result(None)

        def on_game(_result: GameResult, record: GameRecord) -> Future[None]:
            if began is not None:
                decisions.append((time.perf_counter() - began) / len(record.decisions))
            done: Future[None] = Future()
            group.create_task(ping(done))
            return done  # the next game waits for it

        await play_match(settings(games, bots=BOTS), on_game)
    decision, bare = median(decisions), median(alone)
    found = {
        "the way there and back: the ping-pong": bare,
        "a second process to wake: ping-pong with two in turn": median(in_turn) - bare,
        **parts(games),
    }
    found["sessions, clocks, event loops: the rest"] = decision - sum(found.values())
    return [
        at_most(
            "one game at a time: a decision, against a bare ping-pong",
            f"{decision * 1e3:.3f} ms, {bare * 1e3:.3f} ms ({sizes[0]} and {sizes[1]} bytes)",
            decision / bare,
            LIMIT,
            decision_ms=decision * 1e3,
            ping_ms=bare * 1e3,
        ),
        *(
            beside(f"of a decision, {name}", _us(seconds), us=seconds * 1e6)
            for name, seconds in found.items()
        ),
    ]


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.0f} µs"

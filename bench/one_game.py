"""One game at a time: what the referee and the SDK add to the messages themselves.

Invariants: bots are real processes that answer at once, over the real referee; between two games
the same process measures the bare ping-pong, with messages as long as the match's, once with one
process at the other end and once with two in turn as in a game, and games over bare streams, which
leave out sessions and clocks, or also bots, or also the referee's part; medians are compared. A
game's time is all that passes between two such breaks.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from concurrent.futures import Future
from typing import Final

import bare_games
from deepsea_referee.match import play_match
from deepsea_referee.results.summary import GameResult
from deepsea_rules.record import GameRecord
from figures import Row, Scale, at_most, beside, median
from parts import parts
from ping import ping_pong
from real import as_the_command_line, message_bytes, settings

GAMES: Final[dict[Scale, int]] = {"tiny": 3, "full": 200}
PINGS: Final = 60
"""In a row; about as many as a game has decisions."""
BOTS: Final = 2
LIMIT: Final = 1.7


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
        bare_games.bots(BOTS) as bots,
        asyncio.TaskGroup() as group,
    ):

        async def measure_the_rest(number: int, done: Future[None]) -> None:
            nonlocal began
            times["in turn"].append(await several.seconds(PINGS))
            times["referee"].append(await bare_games.without_bots(several.streams, number))
            times["bots"].append(await bare_games.without_referee(bots, number))
            times["bare"].append(await bare_games.bare(bots, number))
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
    ping, in_turn, bare, decision = of["ping"], of["in turn"], of["bare"], of["match"]
    added = {
        "the way there and back: the ping-pong": ping,
        "a second process to wake: ping-pong with two in turn": in_turn - ping,
        "rules and requests, with clients that only answer": of["referee"] - in_turn,
        "the bots' SDK, with requests made beforehand": of["bots"] - in_turn,
        "both in one game: what these cost more": bare + in_turn - of["referee"] - of["bots"],
        "sessions, clocks, tasks; starts and ends of games": decision - bare,
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
            _ms(bare),
            bare / ping,
            figures={"decision_ms": bare * 1e3},
        ),
        *(
            beside(f"of a decision, {name}", f"{seconds * 1e6:.0f} µs", us=seconds * 1e6)
            for name, seconds in {**added, **loops}.items()
        ),
    ]


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms"

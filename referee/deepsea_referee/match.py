"""A match between bots. Start reading here.

    run_match              plays a match until its end or Ctrl-C
      play_match           starts the bots, plays the games, stops the bots (bots/pool.py)
        play_game          plays one game of a line-up                   (play_game.py)
          play_to_end      requests decisions until the game is over
            RefereedGame   counts time and faults, makes the record      (deepsea_sdk)
              Game         applies the rules                             (deepsea_rules)

A bot's fault is counted and the default action is played; an error of the referee voids the game,
which then counts for no bot.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from deepsea_referee.bots.output import OutputPlan
from deepsea_referee.bots.pool import BotPool
from deepsea_referee.bots.process import Hosting
from deepsea_referee.bots.resolve import BotSpec, with_unique_names
from deepsea_referee.errors import HostOutOfMemory, HostTooBusy, RefereeError, UserError
from deepsea_referee.interrupts import on_signals
from deepsea_referee.play_game import AskedSeat, play_game
from deepsea_referee.results.summary import GameResult, MatchResult, VoidGame
from deepsea_referee.system import SYSTEM
from deepsea_referee.tables import Tables
from deepsea_referee.timing.clock import Clock, SystemClock
from deepsea_rules.game import Game
from deepsea_rules.randomness import commitment, game_seed
from deepsea_rules.record import GameRecord
from deepsea_rules.ruleset import DEFAULT, MAX_PLAYERS, MIN_PLAYERS, PRESETS, RuleSet
from deepsea_rules.time_control import DEFAULT_CLOCK, TimeControl
from deepsea_sdk.entropy import fresh_seed
from deepsea_sdk.refereed_game import RefereedGame

OnGame = Callable[[GameResult, GameRecord], object]
"""Receives each game that counts. If it returns a future, the next game waits for it."""
OnVoid = Callable[[VoidGame], object]
"""Receives each game that does not count."""
Sit = Callable[[RefereedGame, int, object], AskedSeat]
"""Makes the seat of a player without a process, in a game."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MatchSettings:
    """The settings of a match. Raises UserError if they are invalid."""

    bots: Sequence[BotSpec]
    hosting: Hosting
    games: int = 1
    rules: RuleSet = PRESETS[DEFAULT]
    time_control: TimeControl = DEFAULT_CLOCK
    seed: bytes = field(default_factory=fresh_seed)
    """32 bytes; the seed of each game is derived from it."""
    seating: Literal["rotate", "fixed"] = "rotate"
    """`fixed`: seat s has bot s in every game; `rotate`: bot s + i in game i."""
    tables: int | None = 1
    """Games at once over the same streams; None: chosen (tables.py). A bot that does not declare
    `concurrent_games` has one."""
    part: tuple[int, ...] | None = None
    """The numbers of the games that are played here; None: all."""
    attempt: int = 0
    """Which attempt it is at these games, from 0; each has deals and dice of its own."""

    output: OutputPlan = field(default_factory=OutputPlan)
    """What is done with what bots print beside keeping its end in memory."""
    named: tuple[BotSpec, ...] = field(init=False, repr=False, compare=False)
    """The bots with unique names."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "named", tuple(with_unique_names(self.bots)))
        self.check_bots()

    def check_bots(self) -> None:
        """Raise UserError if these games cannot have so many bots, or so few."""
        if not MIN_PLAYERS <= len(self.bots) <= MAX_PLAYERS:
            raise UserError(
                f"a game has {MIN_PLAYERS} to {MAX_PLAYERS} bots, not {len(self.bots)}; "
                "you may name the same bot several times"
            )
        if self.games < 1 or (self.tables is not None and self.tables < 1):
            raise UserError("a match has at least one game and one table")

    def line_up(self, game: int) -> tuple[int, ...]:
        """The bot in each seat of a game; `game` counts from 0."""
        count = len(self.bots)
        shift = game if self.seating == "rotate" else 0
        return tuple((seat + shift) % count for seat in range(count))

    def numbers(self) -> Iterable[int]:
        """The numbers of the games, in the order of play."""
        return range(self.games) if self.part is None else self.part

    def worker_of(self, place: int, workers: int) -> int:
        """The worker, from 0, that plays the game in a place of the order, if several share it."""
        # Alternating, but shifted by one from time to time: else two workers of two bots would
        # each have all games of one seating, and different amounts of work.
        return (place + place // math.lcm(workers, len(self.bots))) % workers

    def game_seed(self, game: int) -> bytes:
        """The seed of a game; `game` counts from 0."""
        return game_seed(self.seed, game, self.attempt)

    def game_id(self, game: int) -> str:
        """The id of a game, which does not reveal its seed; `game` counts from 0."""
        return f"{commitment(self.seed)[:12]}-{game + 1:04}"

    def game(self, number: int) -> RefereedGame:
        """A game before its first decision; `number` counts from 0."""
        seats = [(self.named[bot].name, self.named[bot].digest) for bot in self.line_up(number)]
        game = Game(self.rules, len(seats), self.game_seed(number))
        return RefereedGame(game, self.game_id(number), self.time_control, seats, self.attempt)

    def result(self, isolation: str) -> MatchResult:
        """The result of the match before its first game."""
        return MatchResult(
            bots=tuple(replace(bot, bundle=None) for bot in self.named),
            rules=self.rules,
            time_control=self.time_control,
            seed=self.seed,
            games_asked=self.games,
            isolation=isolation,
        )


def run_match(
    settings: MatchSettings, on_game: OnGame | None = None, on_void: OnVoid | None = None
) -> MatchResult:
    """Play a match from a program without an event loop; Ctrl-C ends it early and cleanly."""

    async def interruptible() -> MatchResult:
        loop = asyncio.get_running_loop()
        interrupt = asyncio.Event()
        with on_signals(partial(loop.call_soon_threadsafe, interrupt.set)):
            return await play_match(settings, on_game, on_void, interrupt=interrupt)

    return asyncio.run(interruptible())


async def play_match(
    settings: MatchSettings,
    on_game: OnGame | None = None,
    on_void: OnVoid | None = None,
    *,
    clock: Clock | None = None,
    interrupt: asyncio.Event | None = None,
    players: Mapping[int, Sit] | None = None,
) -> MatchResult:
    """Play a match; `on_game` and `on_void` receive each game as it ends.

    players  by number, the bots that have no process, such as a person

    When `interrupt` is set, games under way are dropped and the complete ones are returned. Raises
    BotStartError if a bot's program does not start. The same seed and deterministic bots give the
    same records, except for times.
    """
    result = settings.result(settings.hosting.isolation_text)
    match = _Match(settings, on_game, on_void, clock or SystemClock(), players or {}, result)
    playing = asyncio.create_task(match.play())
    stop = asyncio.create_task(interrupt.wait() if interrupt else asyncio.Event().wait())
    try:
        await asyncio.wait((playing, stop), return_when=asyncio.FIRST_COMPLETED)
    finally:
        stop.cancel()
        if not playing.done():
            result.interrupted = True
            playing.cancel()
            await asyncio.wait((playing,))
    if not playing.cancelled():
        playing.result()
    return result


@dataclass(frozen=True)
class _Match:
    """One match under way."""

    settings: MatchSettings
    on_game: OnGame | None
    on_void: OnVoid | None
    clock: Clock
    players: Mapping[int, Sit]
    result: MatchResult
    suspects: set[int] = field(default_factory=set)
    """Bots that the host delayed so that a game is void: the next time it is their timeout."""

    async def play(self) -> None:
        settings = self.settings
        pool = BotPool(settings.named, settings.hosting, self.clock, settings.output)
        self.result.logs = pool.logs
        self.result.off_turn = pool.off_turn
        try:
            async with pool, asyncio.TaskGroup() as group:
                count = settings.tables
                if not pool.keeps_games_apart:
                    count = 1
                tables = Tables(settings.numbers(), count, settings.time_control)

                def fill() -> None:
                    while (game := tables.take()) is not None:
                        group.create_task(play(*game))

                async def play(number: int, attempt: int) -> None:
                    await self._play_number(number, attempt, pool, tables)
                    tables.leave(number)
                    fill()

                fill()
            self.result.late_share = SYSTEM.late_share()
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None

    async def _play_number(self, number: int, attempt: int, pool: BotPool, tables: Tables) -> None:
        line_up = self.settings.line_up(number)
        settings = replace(self.settings, attempt=attempt) if attempt else self.settings
        game = settings.game(number)
        between = {
            seat: partial(self.players[bot], game, seat)
            for seat, bot in enumerate(line_up)
            if bot in self.players
        }
        # In the pool, such a seat goes by the number of a bot that has a process.
        other = next(bot for bot in line_up if bot not in self.players)
        in_pool = [other if seat in between else bot for seat, bot in enumerate(line_up)]
        try:
            suspects = [seat for seat, bot in enumerate(in_pool) if bot in self.suspects]
            with pool.table(in_pool, game.game.seed) as slots:
                played = await play_game(game, pool, slots, between, suspects)
        except RefereeError as error:
            seat = error.seat if isinstance(error, HostTooBusy) else None
            if seat is not None:
                self.suspects.add(in_pool[seat])
            if not tables.counts(number, None):
                return
            _log.error("game %s is void: %s", game.game_id, error, exc_info=error.__cause__)
            shortage = isinstance(error, HostOutOfMemory)
            void = VoidGame(number + 1, game.game_id, str(error), seat, shortage)
            self.result.add_void(void)
            if self.on_void is not None:
                await _wait_for_room(self.on_void(void))
            return
        if not tables.counts(number, played):
            return
        self.result.tables = tables.most
        result = GameResult.of(number, line_up, played)
        self.result.add(result, played.record.decisions)
        if self.on_game is not None:
            await _wait_for_room(self.on_game(result, played.record))


async def _wait_for_room(answer: object) -> None:
    """Wait for the callback's future, if it returned one (back-pressure)."""
    if isinstance(answer, Future):
        # Shielded: an interrupted match does not cancel what it has handed over.
        await asyncio.shield(asyncio.wrap_future(answer))

"""A match between bots. Start reading here.

    run_match              plays a match until its end or Ctrl-C
      play_match           starts the bots, plays the games, stops the bots (bots/pool.py)
        play_game          plays one game of a line-up                   (play_game.py)
          play_to_end      requests decisions until the game is over     (game_loop.py)
            RefereedGame   counts time and faults, makes the record      (deepsea_sdk)
              Game         applies the rules                             (deepsea_rules)

A bot's fault is counted and the default action is played; an error of the referee voids the game,
which then counts for no bot.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal

from deepsea_referee.bots.bot_output import OutputPlan
from deepsea_referee.bots.pool import BotPool
from deepsea_referee.bots.process import Hosting
from deepsea_referee.bots.resolve import BotSpec, with_unique_names
from deepsea_referee.errors import RefereeError, UserError
from deepsea_referee.interrupts import on_signals
from deepsea_referee.play_game import play_game
from deepsea_referee.results.summary import GameResult, MatchResult, VoidGame
from deepsea_referee.timing.clock import Clock, SystemClock
from deepsea_rules.constants import MAX_PLAYERS, MIN_PLAYERS
from deepsea_rules.game import Game
from deepsea_rules.randomness import commitment, game_seed
from deepsea_rules.record import GameRecord
from deepsea_rules.ruleset import DEFAULT, PRESETS, RuleSet
from deepsea_rules.time_control import TimeControl
from deepsea_sdk.entropy import fresh_seed
from deepsea_sdk.refereed_game import RefereedGame

DEFAULT_CLOCK: Final = TimeControl(budget_us=100_000, bank_us=2_000_000)

OnGame = Callable[[GameResult, GameRecord], object]
"""Receives each game that counts. If it returns a future, the next game waits for it."""
OnVoid = Callable[[VoidGame], object]
"""Receives each game that does not count."""
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
    tables: int = 1
    """Games at once over the same streams."""

    output: OutputPlan = field(default_factory=OutputPlan)
    """What is done with what bots print beside keeping its end in memory."""

    def __post_init__(self) -> None:
        if not MIN_PLAYERS <= len(self.bots) <= MAX_PLAYERS:
            raise UserError(
                f"a game has {MIN_PLAYERS} to {MAX_PLAYERS} bots, not {len(self.bots)}; "
                "you may name the same bot several times"
            )
        if self.games < 1 or self.tables < 1:
            raise UserError("a match has at least one game and one table")

    def line_up(self, game: int) -> tuple[int, ...]:
        """The bot in each seat of a game; `game` counts from 0."""
        count = len(self.bots)
        shift = game if self.seating == "rotate" else 0
        return tuple((seat + shift) % count for seat in range(count))

    def numbers(self) -> Iterable[int]:
        """The numbers of the games, in the order of play."""
        return range(self.games)

    def game_seed(self, game: int) -> bytes:
        """The seed of a game; `game` counts from 0."""
        return game_seed(self.seed, game)

    def game_id(self, game: int) -> str:
        """The id of a game, which does not reveal its seed; `game` counts from 0."""
        return f"{commitment(self.seed)[:12]}-{game + 1:04}"

    def game(self, number: int) -> RefereedGame:
        """A game before its first decision; `number` counts from 0."""
        named = with_unique_names(self.bots)
        seats = [(named[bot].name, named[bot].digest) for bot in self.line_up(number)]
        game = Game(self.rules, len(seats), self.game_seed(number))
        return RefereedGame(game, self.game_id(number), self.time_control, seats)

    def result(self, isolation: str) -> MatchResult:
        """The result of the match before its first game."""
        return MatchResult(
            bots=tuple(with_unique_names(self.bots)),
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
) -> MatchResult:
    """Play a match; `on_game` and `on_void` receive each game as it ends.

    When `interrupt` is set, games under way are dropped and the complete ones are returned. Raises
    BotStartError if a bot's program does not start. The same seed and deterministic bots give the
    same records, except for times.
    """
    match = _Match(settings, on_game, on_void, clock or SystemClock())
    playing = asyncio.create_task(match.play())
    stop = asyncio.create_task(interrupt.wait() if interrupt else asyncio.Event().wait())
    try:
        await asyncio.wait((playing, stop), return_when=asyncio.FIRST_COMPLETED)
    finally:
        stop.cancel()
        if not playing.done():
            match.result.interrupted = True
            playing.cancel()
            await asyncio.wait((playing,))
    if not playing.cancelled():
        playing.result()
    return match.result


class _Match:
    """One match under way."""

    def __init__(
        self,
        settings: MatchSettings,
        on_game: OnGame | None,
        on_void: OnVoid | None,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._on_game = on_game
        self._on_void = on_void
        self._clock = clock
        self.result = settings.result(settings.hosting.isolation.name)

    async def play(self) -> None:
        settings = self._settings
        pool = BotPool(self.result.bots, settings.hosting, self._clock, settings.output)
        self.result.logs = pool.logs
        self.result.off_turn = pool.off_turn
        numbers = iter(settings.numbers())

        async def table() -> None:
            for number in numbers:  # shared: each game goes to the next free table
                await self._play_number(number, pool)

        try:
            async with pool, asyncio.TaskGroup() as tables:
                for _ in range(min(settings.tables, settings.games)):
                    tables.create_task(table())
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None

    async def _play_number(self, number: int, pool: BotPool) -> None:
        line_up = self._settings.line_up(number)
        game = self._settings.game(number)
        try:
            played = await play_game(game, pool, line_up)
        except RefereeError as error:
            _log.error("game %s is void: %s", game.game_id, error, exc_info=error.__cause__)
            void = VoidGame(number + 1, game.game_id, str(error))
            self.result.add_void(void)
            if self._on_void is not None:
                await _wait_for_room(self._on_void(void))
            return
        result = GameResult.of(number, line_up, played)
        self.result.add(result, played.record.decisions)
        if self._on_game is not None:
            await _wait_for_room(self._on_game(result, played.record))


async def _wait_for_room(answer: object) -> None:
    """Wait for the callback's future, if it returned one (back-pressure)."""
    if isinstance(answer, Future):
        # Shielded: an interrupted match does not cancel what it has handed over.
        await asyncio.shield(asyncio.wrap_future(answer))

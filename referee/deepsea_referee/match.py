"""A match between bots. Start reading here.

    run_match_over_streams   plays a match until its end or Ctrl-C
      play_match             starts the bots, plays the games, stops the bots (bots/pool.py)
        play_game            plays one game of a line-up                   (play_game.py)
          play_by_requests   requests decisions until the game is over
            RefereedGame     counts time and faults, makes the record      (deepsea_sdk)
              Game           applies the rules                             (deepsea_rules)

Two other functions play a match: `run_match_in_process` (in_process.py) calls the bots in this
process, and `run_match_with_workers` (shared_match.py) divides the games among workers, each of
which plays its part by `play_match` or in its own process. `run_match` (script.py), for programs
of authors, chooses one without workers. What ends a match in each of them is listed in
docs/dev/processes.md, "What ends a match".

`Tables` decides in which order games begin, and how many are played at once.

Invariants: a game counts once. A bot's fault is counted and the default action is played; an error
of the referee voids the game, which then counts for no bot. A fixed number of tables never changes.
If the referee chooses the number of tables, the results are those of one table: a game that is
void, or lost because its process failed in another game at the same time, is played again: once,
alone, and with other deals and dice, because bots have seen the first ones. There is no other
reason to play a game again, so that no bot gets a second try at a game that goes badly. A process
fails beside other games only once in a match, since all later games are played one by one.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median_low
from typing import Literal

from deepsea_referee.bots.output import OutputPlan
from deepsea_referee.bots.pool import BotPool
from deepsea_referee.bots.process import Hosting
from deepsea_referee.bots.resolve import BotSpec, with_unique_names
from deepsea_referee.clock import Clock, SystemClock
from deepsea_referee.errors import HostOutOfMemory, HostTooBusy, RefereeError, UserError
from deepsea_referee.interrupts import on_signals
from deepsea_referee.play_game import AskedSeat, play_game
from deepsea_referee.summary import GameResult, MatchResult, VoidGame
from deepsea_referee.system import SYSTEM
from deepsea_rules.faults import OF_ONE_GAME
from deepsea_rules.game import Game, GameRecord
from deepsea_rules.randomness import commitment, game_seed
from deepsea_rules.ruleset import DEFAULT, MAX_PLAYERS, MIN_PLAYERS, PRESETS, RuleSet
from deepsea_rules.time_control import DEFAULT_CLOCK, TimeControl
from deepsea_sdk.entropy import fresh_seed
from deepsea_sdk.table import PlayedGame, RefereedGame

OnGame = Callable[[GameResult, GameRecord], object]
"""Receives each game that counts. If it returns a future, the next game waits for it."""
OnVoid = Callable[[VoidGame], object]
"""Receives each game that does not count."""
Sit = Callable[[RefereedGame, int, object], AskedSeat]
"""Makes the seat of a player without a process.

It receives the game, the seat number, and the session of the process that stands in for the player
in the pool.
"""
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
    """The bot of seat s in game i: bot s if `fixed`, bot s + i (modulo the seats) if `rotate`."""
    tables: int | None = 1
    """The number of games that are played at once over the same streams.

    None lets the referee choose (see `Tables`). It is 1 if a bot does not declare
    `concurrent_games`.
    """
    part: tuple[int, ...] | None = None
    """The numbers of the games to play; None plays all games of the match."""
    attempt: int = 0
    """The number of the attempt at these games, from 0. Each attempt has other deals and dice."""

    output: OutputPlan = field(default_factory=OutputPlan)
    """Destinations of the bots' output, in addition to its end in memory."""
    named: tuple[BotSpec, ...] = field(init=False, repr=False, compare=False)
    """The bots with unique names."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "named", tuple(with_unique_names(self.bots)))
        self.check_bots()

    def check_bots(self) -> None:
        """Raise UserError if the number of bots, games, or tables is not valid."""
        if not MIN_PLAYERS <= len(self.bots) <= MAX_PLAYERS:
            raise UserError(
                f"a game has {MIN_PLAYERS} to {MAX_PLAYERS} bots, not {len(self.bots)}; "
                "you may name the same bot several times"
            )
        if self.games < 1 or (self.tables is not None and self.tables < 1):
            raise UserError("a match has at least one game and one table")

    def line_up(self, game: int) -> tuple[int, ...]:
        """Return the index of the bot in each seat of a game; `game` counts from 0."""
        count = len(self.bots)
        shift = game if self.seating == "rotate" else 0
        return tuple((seat + shift) % count for seat in range(count))

    def numbers(self) -> Iterable[int]:
        """Return the numbers of the games to play, in the order of play."""
        return range(self.games) if self.part is None else self.part

    def worker_of(self, place: int, workers: int) -> int:
        """Return the number of the worker, from 0, that plays the game at an index of `numbers`."""
        # Workers take turns, shifted by one after each cycle of seatings. Otherwise two workers of
        # a match of two bots would each get all games of one seating, and unequal work.
        return (place + place // math.lcm(workers, len(self.bots))) % workers

    def game_seed(self, game: int) -> bytes:
        """Return the seed of a game; `game` counts from 0."""
        return game_seed(self.seed, game, self.attempt)

    def game_id(self, game: int) -> str:
        """Return the id of a game, which does not reveal its seed; `game` counts from 0."""
        return f"{commitment(self.seed)[:12]}-{game + 1:04}"

    def game(self, number: int) -> RefereedGame:
        """Return a new game before its first decision; `number` counts from 0."""
        seats = [(self.named[bot].name, self.named[bot].digest) for bot in self.line_up(number)]
        game = Game(self.rules, len(seats), self.game_seed(number))
        return RefereedGame(game, self.game_id(number), self.time_control, seats, self.attempt)

    def result(self, isolation: str) -> MatchResult:
        """Return the result of the match before its first game.

        isolation  the level of isolation, as results name it
        """
        return MatchResult(
            bots=tuple(replace(bot, bundle=None) for bot in self.named),
            rules=self.rules,
            time_control=self.time_control,
            seed=self.seed,
            games_asked=self.games,
            isolation=isolation,
        )


def run_match_over_streams(
    settings: MatchSettings, on_game: OnGame | None = None, on_void: OnVoid | None = None
) -> MatchResult:
    """Play a match over streams from a program without an event loop.

    It ends with its last game, or early and cleanly at Ctrl-C; games in progress are dropped then.
    `run_match_in_process` and `run_match_with_workers` play the same match in other ways. The list
    of what ends a match is in docs/dev/processes.md.
    """

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

    The same seed and deterministic bots give the same records, except for times.

    clock      measures the bots' time; by default the clock of the system
    interrupt  ends the match when it is set: unfinished games are dropped, complete ones returned
    players    the players without a process, such as a person, by their index among the bots

    Raises BotStartError if a bot's program does not start.
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
    """A match in progress."""

    settings: MatchSettings
    on_game: OnGame | None
    on_void: OnVoid | None
    clock: Clock
    players: Mapping[int, Sit]
    result: MatchResult
    suspects: set[int] = field(default_factory=set)
    """Bots with a decision that the host delayed, so that a game is void.

    The next time, such a decision counts as their timeout.
    """

    async def play(self) -> None:
        """Start the bots, and play all games: as many at once as there are tables.

        Whenever a game ends, its table is filled with the next one.
        """
        settings = self.settings
        pool = BotPool(settings.named, settings.hosting, self.clock, settings.output)
        self.result.logs = pool.logs
        self.result.off_turn = pool.off_turn
        try:
            async with pool, asyncio.TaskGroup() as group:
                # A bot that cannot play several games over one stream gets one at a time.
                count = settings.tables if pool.keeps_games_apart else 1
                tables = Tables(settings.numbers(), count, settings.time_control)

                def fill_tables() -> None:
                    while (game := tables.next_game()) is not None:
                        number, attempt = game
                        group.create_task(play_and_refill(number, attempt))

                async def play_and_refill(number: int, attempt: int) -> None:
                    await self._play_number(number, attempt, pool, tables)
                    tables.leave(number)
                    fill_tables()

                fill_tables()
            # The block has waited for all games, and has ended the bots.
            self.result.late_share = SYSTEM.late_share()
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None  # the first error is the cause of the others

    async def _play_number(self, number: int, attempt: int, pool: BotPool, tables: Tables) -> None:
        """Play the game with this number, and count it as a result or as a void game.

        It is not counted if `tables` wants to play it again.
        """
        line_up = self.settings.line_up(number)
        settings = replace(self.settings, attempt=attempt) if attempt else self.settings
        game = settings.game(number)
        substitutes = {
            seat: partial(self.players[bot], game, seat)
            for seat, bot in enumerate(line_up)
            if bot in self.players
        }
        # The pool needs a process for every seat: one of another bot stands in for a player.
        stand_in = next(bot for bot in line_up if bot not in self.players)
        in_pool = [stand_in if seat in substitutes else bot for seat, bot in enumerate(line_up)]
        try:
            suspects = [seat for seat, bot in enumerate(in_pool) if bot in self.suspects]
            with pool.table(in_pool, game.game.seed) as slots:
                played = await play_game(game, pool, slots, substitutes, suspects)
        except RefereeError as error:
            seat = error.seat if isinstance(error, HostTooBusy) else None
            if seat is not None:
                self.suspects.add(in_pool[seat])
            if not tables.accept_or_repeat(number, None):
                return
            _log.error("game %s is void: %s", game.game_id, error, exc_info=error.__cause__)
            void = VoidGame(
                number + 1,
                game.game_id,
                str(error),
                seat,
                out_of_memory=isinstance(error, HostOutOfMemory),
            )
            self.result.add_void(void)
            if self.on_void is not None:
                await _wait_for_room(self.on_void(void))
            return
        if not tables.accept_or_repeat(number, played):
            return
        self.result.tables = tables.most
        result = GameResult.of(number, line_up, played)
        self.result.add(result, played.record.decisions)
        if self.on_game is not None:
            await _wait_for_room(self.on_game(result, played.record))


async def _wait_for_room(answer: object) -> None:
    """Wait for the future that a callback has returned, if any, before the next game begins."""
    if isinstance(answer, Future):
        # Shielded, so that interrupting the match does not cancel the writing of a result.
        await asyncio.shield(asyncio.wrap_future(answer))


# ----- Tables

MOST = 64
"""The largest number of tables that the referee chooses; more would save little time."""
QUICK_US = 1_000
"""The median time of a decision below which a bot is quick, so that more tables save time."""
GAMES = 4
"""The number of games after which the number of tables is doubled or halved."""


class Tables:
    """The games of a match, which are assigned to tables as tables become free.

    numbers  the numbers of the games, in the order of play
    fixed    the number of tables; None to choose it by the speed of the bots
    control  the clock of the games
    """

    def __init__(self, numbers: Iterable[int], fixed: int | None, control: TimeControl) -> None:
        self._games = ((number, 0) for number in numbers)
        self._repeats: deque[tuple[int, int]] = deque()
        """The games to play again, each with the number of the attempt."""
        self._games_at_once: dict[int, int] = {}
        """The largest number of games in progress during each game in progress."""
        self._least_at_once = 0
        """A lower bound of the values of `_games_at_once`, to update them only when necessary."""
        self._is_fixed = fixed is not None
        self._tables = fixed or 1
        """The present number of tables."""
        self._limit = MOST
        """The largest number of tables: 1 after a failure that several games share, or might."""
        self._failed_bots: set[str] = set()
        """The names of the bots whose process has failed."""
        self._limit_us = control.budget_us + control.bank_us
        self._times_us: dict[str, list[int]] = {}
        """The times of each bot's decisions since the number of tables was last considered."""
        self._measured_games = 0
        """The number of games in `_times_us`."""
        self.most = 0
        """The largest number of games that were in progress at once."""

    def next_game(self) -> tuple[int, int] | None:
        """Return the number of the game that begins now, and the number of the attempt, from 0.

        Games to play again come first. Return None if no table is free, or no game remains.
        """
        if len(self._games_at_once) >= self._tables:
            return None
        game = self._repeats.popleft() if self._repeats else next(self._games, None)
        if game is not None:
            number, _ = game
            self._seat_game(number)
        return game

    def _seat_game(self, number: int) -> None:
        """Record that a game begins, and how many games are in progress at once from now on.

        For each game in progress the largest such number during the game is stored.
        """
        in_progress = len(self._games_at_once) + 1
        self._games_at_once[number] = in_progress
        # No stored number is below `_least_at_once`: up to that, none has to be updated.
        if in_progress > self._least_at_once:
            for other, most_at_once in self._games_at_once.items():
                self._games_at_once[other] = max(most_at_once, in_progress)
            self.most = max(self.most, in_progress)
        self._least_at_once = in_progress

    def accept_or_repeat(self, number: int, played: PlayedGame | None) -> bool:
        """Return True if a game that has ended counts; otherwise queue it to be played again.

        If the number of tables is not fixed, it is adapted to how the game went.

        played  the game, or None if it is void
        """
        if self._is_fixed:
            return True
        at_once = self._games_at_once[number]
        if at_once == 1:
            counts = True  # no other game can have spoilt it
        elif played is None:
            counts = False
        else:
            failed_with_other_game = self._record_failures(played, at_once)
            counts = not failed_with_other_game
        if not counts:
            self._repeats.append((number, 1))  # as attempt 1: the first one is 0
        self._choose_tables(played)
        return counts

    def leave(self, number: int) -> None:
        """Free the table of a game that has ended, once its result has been stored."""
        del self._games_at_once[number]

    def _record_failures(self, played: PlayedGame, at_once: int) -> bool:
        """Record the bots that failed in a game; return True if all of them had failed before.

        A bot fails if its process ends or breaks the protocol. That spoils all games in progress,
        so only the first of these is the bot's fault. Return False if no bot failed.

        After a failure, or a decision that might have been a timeout in a game alone, all further
        games are played one by one.

        at_once  the largest number of games in progress during this one
        """
        failed_bots = {
            played.record.seats[report.seat].name
            for report in played.faults
            if report.fault not in OF_ONE_GAME
        }
        # A message may ask for decisions in several games, and each is charged its share of the
        # time. Two upper bounds of the time that a decision would have taken alone: the time of the
        # whole message, and its share times the largest number of requests in the message.
        longest_us = max((decision.us for decision in played.record.decisions), default=0)
        time_alone_us = min(played.longest_us, longest_us * at_once)
        if failed_bots or time_alone_us > self._limit_us:
            self._limit = self._tables = 1
        failed_before = failed_bots <= self._failed_bots
        self._failed_bots |= failed_bots
        return bool(failed_bots) and failed_before

    def _choose_tables(self, played: PlayedGame | None) -> None:
        """Adapt the number of tables to a game that has ended; `played` is None if it is void.

        A void game or a fault leads to one table. Otherwise the number changes after every `GAMES`
        games: it is doubled if the median decision of every bot was quick, and halved if not.
        """
        if played is None or played.faults:
            self._tables = 1
        else:
            self._measure(played)
            if self._measured_games < GAMES or self._repeats:
                return
            if all(median_low(times_us) < QUICK_US for times_us in self._times_us.values()):
                self._tables = min(2 * self._tables, self._limit)
            else:
                self._tables = max(1, self._tables // 2)
        self._measured_games = 0  # measure anew
        self._times_us.clear()

    def _measure(self, played: PlayedGame) -> None:
        """Add the times of a game's decisions to those of its bots."""
        names = [seat.name for seat in played.record.seats]
        for decision in played.record.decisions:
            self._times_us.setdefault(names[decision.seat], []).append(decision.us)
        self._measured_games += 1

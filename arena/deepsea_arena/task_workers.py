"""Worker processes for analyses, blocks of comparisons, and games of people.

Start reading at `analysis_worker`, `comparison_worker` and `person_worker`.

Invariants: nothing here knows the store. Analyses run no code of bots, and send a message for each
step of the game, so that their progress is seen. Comparisons play bots as in rated games: from the
files that were submitted, with the season's isolation, limits, rules and clock; a block is sent as
soon as it is counted.

A step of a person's game goes from one decision of the person to the next, and needs nothing but
its task. The worker keeps the game and its bots' frozen processes until the next step. A game that
it does not have, since the last worker has ended, is set up again from its decisions. Default
actions of a person who is away are no faults.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, NamedTuple

from deepsea_arena.analysis import Analysis, AnalysisSettings
from deepsea_arena.ladder_analyses import game_document, record_file
from deepsea_arena.rated_games import hosting, own_folder, spec_of_version
from deepsea_bundle.atomic import BotCache
from deepsea_ladder.model import (
    PERSON,
    ComparisonLease,
    ComparisonStanding,
    PersonGame,
    Presence,
    Verdict,
)
from deepsea_referee.bots.pool import BotPool
from deepsea_referee.bots.process import Hosting
from deepsea_referee.bots.resolve import BotSpec
from deepsea_referee.clock import Clock, SystemClock
from deepsea_referee.errors import HostTooBusy
from deepsea_referee.pauses import Freezer
from deepsea_referee.play_game import play_game
from deepsea_referee.session import OnAnswer, TimedAnswer
from deepsea_referee.summary import GameResult
from deepsea_referee.system import SYSTEM
from deepsea_referee.workbench.blocks import (
    BlockSettings,
    CompareGames,
    PlayedBlock,
    block_line,
    read_block,
)
from deepsea_referee.workers import Link, TaskFunction
from deepsea_rules.errors import InvalidRecord
from deepsea_rules.game import Decision, Game, GameRecord
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.time_control import TimeControl
from deepsea_sdk import wire
from deepsea_sdk.bot import TimeLeft
from deepsea_sdk.coach.roll_outs import COACH_VERSION
from deepsea_sdk.table import PlayedGame, RefereedGame


@dataclass(frozen=True, slots=True)
class AnalyseGame:
    """The task to analyse a game."""

    record: str
    settings: AnalysisSettings


class Analysed(NamedTuple):
    """The result of an analysis, or the reason why there is none."""

    policy: str
    """The policy of the roll-outs, with its version."""
    document: str
    """The result as JSON; "" if the record makes no sense."""
    problem: str = ""
    """The reason why there is no result; "" if there is one."""


@contextmanager
def analysis_worker(link: Link, *, gives_way: bool = True) -> Iterator[TaskFunction]:
    """Set up a worker process, and yield its function that analyses one game.

    After each batch of steps the function sends their number.

    gives_way  True to use only the CPU time that other programs leave
    """
    if gives_way:
        SYSTEM.give_way()

    def perform(task: AnalyseGame) -> Analysed:
        return analyse(task, link.send)

    yield perform


def analyse(task: AnalyseGame, on_steps: Callable[[int], object]) -> Analysed:
    """Return the analysis of a game, or the reason why its record cannot be analysed.

    `on_steps` is called with the number of further steps that were analysed.
    """
    try:
        record = GameRecord.from_json(task.record)
        analysis = Analysis([(record_file(record.game_id), record)], task.settings)
    except InvalidRecord as error:
        return Analysed(COACH_VERSION, document="", problem=str(error))
    game_analysis = analysis.run(on_steps=on_steps)[0]
    return Analysed(COACH_VERSION, game_document(game_analysis, task.settings))


# ------------------------------------------------------------------------------------- comparisons

_VERDICTS: Final[dict[str | None, Verdict | None]] = {
    "A": "better",
    "B": "worse",
    "same": "level",
    None: None,
}
"""The verdict on the version by the verdict of `compare`, in which the version is A."""


class BlockPlayed(NamedTuple):
    """The message that another block was counted."""

    number: int
    content: bytes
    """The block, as JSON."""
    cpu_ms: int
    """CPU time of this process, and the time of the bots' decisions."""
    standing: ComparisonStanding
    """The standing of the comparison after the block."""


@contextmanager
def comparison_worker(link: Link) -> Iterator[TaskFunction]:
    """Set up a worker process, and yield its function that plays blocks of a comparison.

    The process uses only the CPU time that other programs leave.
    """
    SYSTEM.give_way()
    with own_folder() as folder:
        folders = BotCache(folder, link.file)

        def perform(lease: ComparisonLease) -> None:
            """Play blocks until the CPU time of the lease is used up, and send each of them."""
            if folders.has_lost(version.digest for version in lease.versions):
                # A cleaner of /tmp has removed files of a bot: another worker takes over.
                link.leave()
            version, opponent = lease.versions
            pair = (spec_of_version(version, folders), spec_of_version(opponent, folders))
            bot_hosting = hosting(lease.season.isolation, lease.season.limits)
            play_on(lease, pair, bot_hosting, link.send)

        yield perform


def play_on(
    lease: ComparisonLease,
    pair: tuple[BotSpec, BotSpec],
    bot_hosting: Hosting,
    send: Callable[[BlockPlayed], object],
    *,
    in_process: bool = False,
) -> None:
    """Play blocks until there is a verdict, or the CPU time of the lease is used up.

    pair         the version's bot, and the bot with which it is compared
    bot_hosting  the isolation and limits of the bots
    send         called with each block
    in_process   True to play in this process, as tests do
    """
    season, verdict_settings = lease.season, lease.season.verdicts
    settings = BlockSettings.of(
        *pair,
        seats=verdict_settings.seats or max(season.seats),
        blocks=verdict_settings.blocks,
        hosting=bot_hosting,
        rules=season.rules,
        time_control=TimeControl.parse(season.clock),
        seed=seed_from_text(lease.seed),
        seed_text=lease.seed,
        margin=verdict_settings.margin,
        until_decided=True,
        luck_adjusted=True,
    )
    used_ms = 0  # CPU time of all blocks so far
    own_cpu_s = _cpu_seconds()  # CPU time of this process at the end of the last block

    def on_block(number: int, played: PlayedBlock, notes: Mapping[str, Any]) -> None:
        """Send a block that was played, with the CPU time that it took and the standing after it.

        `played` has the result and the record of each of its games, `notes` the numbers that are
        stored with it.
        """
        nonlocal used_ms, own_cpu_s
        own_cpu_before_s, own_cpu_s = own_cpu_s, _cpu_seconds()
        bots_us = sum(decision.us for _, record in played for decision in record.decisions)
        cpu_ms = round(1000 * (own_cpu_s - own_cpu_before_s) + bots_us / 1000)
        used_ms += cpu_ms
        results = [_without_tracebacks(result) for result, _ in played]
        content = block_line(number, results, notes)
        send(BlockPlayed(number, content, cpu_ms, standing_of(games)))

    games = CompareGames(settings, map(read_block, lease.kept), on_block)
    games.play(lambda _: used_ms >= lease.cpu_ms, in_process=in_process)


def _cpu_seconds() -> float:
    """Return the CPU time of this process in user and system mode, in seconds."""
    return sum(os.times()[:2])


def _without_tracebacks(result: GameResult) -> GameResult:
    """Return a game's result without the tracebacks of its faults.

    They are long, and only the bot's author may see them.
    """
    faults = tuple(replace(fault, error="") for fault in result.faults)
    return replace(result, faults=faults)


def standing_of(played: CompareGames) -> ComparisonStanding:
    """Return the figures of a comparison after the blocks that were played so far."""
    comparison = played.comparison
    low, high = comparison.deciding.interval
    blocks_needed = comparison.blocks_needed
    return ComparisonStanding(
        blocks=comparison.blocks,
        lead=comparison.deciding.mean,
        low=low,
        high=high,
        margin=played.settings.margin,
        verdict=_VERDICTS[comparison.verdict],
        blocks_to_go=None if blocks_needed is None else blocks_needed - comparison.blocks,
        faults=comparison.faults[0].total(),
    )


# --------------------------------------------------------------------------------- games of people

MOST_TABLES = 8
"""Number of tables that keep their bots running: most ladders have fewer.

At other tables the bots are started for each step.
"""


class PlayedOn(NamedTuple):
    """The result of a step.

    It has all decisions until the person's next one, or the record if the game has ended.
    """

    decisions: tuple[Decision, ...]
    record: str = ""


@contextmanager
def person_worker(link: Link) -> Iterator[TaskFunction]:
    """Set up a worker, and yield its function that plays a step of a person's game."""
    with own_folder() as folder, closing(Tables(BotCache(folder, link.file), link)) as tables:
        yield tables.perform


class Tables:
    """The tables of a worker: games of people under way, with their bots."""

    def __init__(self, folders: BotCache, link: Link, most_tables: int = MOST_TABLES) -> None:
        """Make a worker without tables; `most_tables` of them at most keep their bots running."""
        self._folders = folders
        self._link = link
        self._most_tables = most_tables
        self._runner = asyncio.Runner()
        self._loop = self._runner.get_loop()
        self._clock = SystemClock()
        self._freezer = Freezer(self._clock)
        self.open: dict[str, _Table] = {}
        """The tables by the ids of their games, in the order of their last steps."""
        self._suspects: dict[str, set[int]] = {}
        """The seats of each game that could not be timed because the host was busy."""

    def perform(self, game: PersonGame) -> PlayedOn:
        """Play one step of a person's game: up to the person's next decision, or to the end.

        A request to stop ends the step, and the worker process with it.
        """
        if self._folders.has_lost(version.digest for version in game.versions):
            # A cleaner of /tmp has removed files of a bot: another worker takes over.
            self._link.leave()
        try:
            return self._runner.run(self._step(game))
        except asyncio.CancelledError:  # a request to stop
            raise SystemExit(0) from None

    def close(self) -> None:
        """End all tables and the event loop."""
        for game_id in [*self.open]:
            self._runner.run(self._end_table(game_id))
        self._runner.close()

    async def _step(self, game: PersonGame) -> PlayedOn:
        """Play a game to the person's next decision, at its table or at a new one.

        The oldest tables end if there are too many. Bots are frozen until the next step.
        """
        task = asyncio.current_task()
        assert task is not None
        self._link.on_stop(partial(self._loop.call_soon_threadsafe, task.cancel))
        table = self.open.pop(game.game_id, None)
        if table is not None and table.decisions != game.decisions:
            # Another worker has played on meanwhile.
            await table.end()
            table = None
        if table is None:
            table = self._set_up(game)
        self.open[game.game_id] = table
        try:
            played = await table.play_on(game)
        except BaseException as error:
            if isinstance(error, HostTooBusy) and error.seat is not None:
                self._suspects.setdefault(game.game_id, set()).add(error.seat)
            await self._end_table(game.game_id)
            raise
        finally:
            self._freezer.freeze_all()
        if played is not None:
            await self._end_table(game.game_id)
            self._suspects.pop(game.game_id, None)
            return PlayedOn((), played.record.to_json())
        for game_id in [*self.open][: -self._most_tables]:
            await self._end_table(game_id)
        return PlayedOn(table.decisions)

    def _set_up(self, game: PersonGame) -> _Table:
        """Return a new table for a game, which repeats the decisions that were made so far."""
        season = game.season
        settings = hosting(season.isolation, season.limits)
        bots = [spec_of_version(version, self._folders) for version in game.versions]
        pool = BotPool(bots, settings, self._clock, freezer=self._freezer)
        return _Table(game, pool, self._clock, self._suspects.get(game.game_id, set()))

    async def _end_table(self, game_id: str) -> None:
        """End the table of a game, if this worker has it."""
        table = self.open.pop(game_id, None)
        if table is not None:
            await table.end()


class _Table:
    """A game under way, with its bots.

    To the referee the table is the player in the person's seat. A question to it stays open until
    its answer comes with another step.
    """

    features: frozenset[str] = frozenset({wire.NO_EVENTS})

    def __init__(self, game: PersonGame, pool: BotPool, clock: Clock, suspects: set[int]) -> None:
        """Repeat the decisions of a game, and begin to play on in a task of the event loop.

        suspects  seats that could not be timed before: a delay by the host is a timeout for them
        """
        seats = [(version.label, version.digest) for version in game.versions]
        seats.insert(game.seat, (PERSON, ""))
        played = Game(game.ruleset, len(seats), game.seed)
        control = TimeControl.parse(game.season.clock)
        self._game = RefereedGame(played, game.game_id, control, seats)
        self._game.is_public = True
        self._game.set_clock(game.seat, None)
        for decision in game.decisions:
            self._game.repeat(decision)
        self._pool = pool
        self._clock = clock
        self._asked_at_us = 0
        self._on_answer: OnAnswer | None = None
        self._asked = asyncio.Event()
        line_up = [*range(len(game.versions))]
        # The person's seat needs the index of some bot, which is not asked.
        line_up.insert(game.seat, 0)
        self._playing = asyncio.ensure_future(self._play(line_up, game.seat, suspects))

    async def _play(self, line_up: list[int], seat: int, suspects: set[int]) -> PlayedGame:
        """Play the game to its end. The table itself answers for the person's seat."""
        with self._pool.table(line_up, self._game.game.seed) as slots:
            players = {seat: lambda _: self}
            return await play_game(self._game, self._pool, slots, players, suspects)

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """All decisions of the game so far."""
        return tuple(self._game.game.decisions)

    async def play_on(self, game: PersonGame) -> PlayedGame | None:
        """Play on up to the person's next decision, or to the end of the game.

        `game` has the person's answer to the open question, or None. Return the game if it has
        ended, and None if it waits for an answer. For a person who has left, all questions get the
        default action.
        """
        next_answer = game.answer  # for the first question alone
        while True:
            await self._wait_for_question_or_end()
            if self._playing.done():
                return self._playing.result()
            if next_answer is None and game.presence is not Presence.LEFT:
                return None
            question = self._game.game.pending()
            assert question is not None
            assert self._on_answer is not None
            self._asked.clear()
            default_action = question.legal[0]
            us = self._clock.now_us() - self._asked_at_us
            self._on_answer(TimedAnswer(next_answer or default_action, us))
            next_answer = None

    async def _wait_for_question_or_end(self) -> None:
        """Wait until the referee has a question for the person, or the game has ended."""
        asked = asyncio.ensure_future(self._asked.wait())
        try:
            await asyncio.wait((self._playing, asked), return_when=asyncio.FIRST_COMPLETED)
        finally:
            asked.cancel()

    def send(self, message: bytes) -> None:
        """Do nothing: a person needs no events of the game."""

    def ask(self, request: bytes, time_left: TimeLeft, on_answer: OnAnswer) -> int:
        """Take in a question of the referee to the person; `play_on` sees it and ends the step.

        `on_answer` is called with the person's answer, in a later step. Return the id of the
        request, which is always 1, since only one is open at a time.
        """
        self._asked_at_us = self._clock.now_us()
        self._on_answer = on_answer
        self._asked.set()
        return 1

    async def end(self) -> None:
        """Stop the game, and end its bots."""
        self._playing.cancel()
        with suppress(BaseException):
            await self._playing
        await self._pool.__aexit__()

"""Analyses games in a worker process.

Invariants: no code of a bot runs here; nothing here knows the store; a worker sends a message for
each step of the game, so that its progress is seen.

Plays blocks of a comparison of two versions in a worker process.

Invariants: bots play as in rated games: from the files that were submitted, with the season's
isolation, limits, rules and clock; nothing here knows the store; a block is sent as it is counted.

Plays games of people in a worker process, each from one decision of its person to the next.

Invariants: nothing here knows the store, and a step needs nothing but its task: a game that is not
at its table here, since its worker has ended, is set up again from its decisions; a table keeps the
game and its bots' processes, frozen, until the next step; the person's seat is one as others are,
and default actions of a person who is away are no faults.
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
from deepsea_arena.rated_games import bot_of, hosting, own_folder
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
from deepsea_referee.system import SYSTEM
from deepsea_referee.workbench.blocks import (
    BlockSettings,
    CompareGames,
    PlayedBlock,
    block_line,
    read_block,
)
from deepsea_referee.workers import Link, Perform
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
    """The result of an analysis, or why there is none."""

    policy: str
    """The policy of the roll-outs, with its version."""
    document: str
    """JSON; "" if the record makes no sense."""
    problem: str = ""


@contextmanager
def analysis_worker(link: Link, *, gives_way: bool = True) -> Iterator[Perform]:
    """Set up a worker that analyses games, and sends how many more steps it has looked at.

    gives_way  whether it takes what others leave of the CPU
    """
    if gives_way:
        SYSTEM.give_way()

    def perform(task: AnalyseGame) -> Analysed:
        return analyse(task, link.send)

    yield perform


def analyse(task: AnalyseGame, on_steps: Callable[[int], object]) -> Analysed:
    """Analyse a game; `on_steps` receives how many more steps have been looked at."""
    try:
        record = GameRecord.from_json(task.record)
        analysis = Analysis([(record_file(record.game_id), record)], task.settings)
    except InvalidRecord as error:
        return Analysed(COACH_VERSION, "", str(error))
    (found,) = analysis.run(on_steps=on_steps)
    return Analysed(COACH_VERSION, game_document(found, task.settings))


_VERDICTS: Final[dict[str | None, Verdict | None]] = {
    "A": "better",
    "B": "worse",
    "same": "level",
    None: None,
}


class BlockPlayed(NamedTuple):
    """The message that another block was counted."""

    number: int
    content: bytes
    """The block, as JSON."""
    cpu_ms: int
    """The cost: the referee's CPU time, and the time that bots had for their decisions."""
    standing: ComparisonStanding
    """After it."""


@contextmanager
def comparison_worker(link: Link) -> Iterator[Perform]:
    """Set up a worker that plays blocks with what others leave of the CPU."""
    SYSTEM.give_way()
    with own_folder() as folder:
        folders = BotCache(folder, link.file)

        def perform(lease: ComparisonLease) -> None:
            if folders.has_lost(version.digest for version in lease.versions):
                link.leave()
            season = lease.season
            mine, other = (bot_of(version, folders) for version in lease.versions)
            play_on(lease, (mine, other), hosting(season.isolation, season.limits), link.send)

        yield perform


def play_on(
    lease: ComparisonLease,
    pair: tuple[BotSpec, BotSpec],
    where: Hosting,
    send: Callable[[BlockPlayed], object],
    *,
    in_process: bool = False,
) -> None:
    """Play blocks until there is a verdict, or what the lease may use is used."""
    season, chosen = lease.season, lease.season.verdicts
    settings = BlockSettings.of(
        *pair,
        seats=chosen.seats or max(season.seats),
        blocks=chosen.blocks,
        hosting=where,
        rules=season.rules,
        time_control=TimeControl.parse(season.clock),
        seed=seed_from_text(lease.seed),
        seed_text=lease.seed,
        margin=chosen.margin,
        until_decided=True,
        luck_adjusted=True,
    )
    used, since = 0, _cpu_seconds()

    def keep(number: int, played: PlayedBlock, notes: Mapping[str, Any]) -> None:
        nonlocal used, since
        bots_us = sum(decision.us for _, record in played for decision in record.decisions)
        cpu_ms = round(1000 * (_cpu_seconds() - since) + bots_us / 1000)
        used, since = used + cpu_ms, _cpu_seconds()
        # Without tracebacks, which are long and their author's alone.
        results = [
            replace(result, faults=tuple(replace(fault, error="") for fault in result.faults))
            for result, _ in played
        ]
        content = block_line(number, results, notes)
        send(BlockPlayed(number, content, cpu_ms, standing_of(games)))

    games = CompareGames(settings, map(read_block, lease.kept), keep)
    games.play(lambda _: used >= lease.cpu_ms, in_process=in_process)


def _cpu_seconds() -> float:
    """The CPU time of this process."""
    return sum(os.times()[:2])


def standing_of(played: CompareGames) -> ComparisonStanding:
    """The figures of a comparison as they are shown."""
    comparison = played.comparison
    low, high = comparison.deciding.interval
    needed = comparison.blocks_needed
    return ComparisonStanding(
        blocks=comparison.blocks,
        lead=comparison.deciding.mean,
        low=low,
        high=high,
        margin=played.settings.margin,
        verdict=_VERDICTS[comparison.verdict],
        blocks_to_go=None if needed is None else needed - comparison.blocks,
        faults=comparison.faults[0].total(),
    )


KEPT = 8
"""More tables than most ladders have; what is left out has its bots started at each step."""


class PlayedOn(NamedTuple):
    """The result of a step: the decisions until the person's next one, or the record at the end."""

    decisions: tuple[Decision, ...]
    record: str = ""


@contextmanager
def person_worker(link: Link) -> Iterator[Perform]:
    """Set up a worker that plays games of people."""
    with own_folder() as folder, closing(Tables(BotCache(folder, link.file), link)) as tables:
        yield tables.perform


class Tables:
    """The games under way in a worker."""

    def __init__(self, folders: BotCache, link: Link, kept: int = KEPT) -> None:
        """`kept`: so many tables at most keep their bots running."""
        self._folders = folders
        self._link = link
        self._kept = kept
        self._runner = asyncio.Runner()
        self._loop = self._runner.get_loop()
        self._clock = SystemClock()
        self._freezer = Freezer(self._clock)
        self.open: dict[str, _Table] = {}
        """The games whose bots run here, those that were played last at the end."""
        self._suspects: dict[str, set[int]] = {}
        """Of each game, the seats that could not be timed because of the host."""

    def perform(self, game: PersonGame) -> PlayedOn:
        """Do one step. A request to stop ends it, and with it the worker."""
        if self._folders.has_lost(version.digest for version in game.versions):
            self._link.leave()
        try:
            return self._runner.run(self._step(game))
        except asyncio.CancelledError:
            raise SystemExit(0) from None

    def close(self) -> None:
        """End all bots."""
        for game_id in [*self.open]:
            self._runner.run(self._end(game_id))
        self._runner.close()

    async def _step(self, game: PersonGame) -> PlayedOn:
        task = asyncio.current_task()
        assert task is not None
        self._link.on_stop(partial(self._loop.call_soon_threadsafe, task.cancel))
        table = self.open.pop(game.game_id, None)
        if table is None or table.decisions != game.decisions:
            if table is not None:
                await table.end()
            table = self._set_up(game)
        self.open[game.game_id] = table
        try:
            played = await table.play_on(game)
        except BaseException as error:
            if isinstance(error, HostTooBusy) and error.seat is not None:
                self._suspects.setdefault(game.game_id, set()).add(error.seat)
            await self._end(game.game_id)
            raise
        finally:
            self._freezer.freeze_all()
        if played is not None:
            await self._end(game.game_id)
            self._suspects.pop(game.game_id, None)
            return PlayedOn((), played.record.to_json())
        for game_id in [*self.open][: -self._kept]:
            await self._end(game_id)
        return PlayedOn(table.decisions)

    def _set_up(self, game: PersonGame) -> _Table:
        season = game.season
        settings = hosting(season.isolation, season.limits)
        bots = [bot_of(version, self._folders) for version in game.versions]
        pool = BotPool(bots, settings, self._clock, freezer=self._freezer)
        return _Table(game, pool, self._clock, self._suspects.get(game.game_id, set()))

    async def _end(self, game_id: str) -> None:
        if (table := self.open.pop(game_id, None)) is not None:
            await table.end()


class _Table:
    """A game under way, with its bots; it is the person's seat itself: a question stays until the
    answer comes with another step."""

    features: frozenset[str] = frozenset({wire.NO_EVENTS})

    def __init__(self, game: PersonGame, pool: BotPool, clock: Clock, suspects: set[int]) -> None:
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
        self._since_us = 0
        self._on_answer: OnAnswer | None = None
        self._asked = asyncio.Event()
        line_up = [*range(len(game.versions))]
        line_up.insert(game.seat, 0)  # any one that has a process
        self._playing = asyncio.ensure_future(self._play(line_up, game.seat, suspects))

    async def _play(self, line_up: list[int], seat: int, suspects: set[int]) -> PlayedGame:
        with self._pool.table(line_up, self._game.game.seed) as slots:
            players = {seat: lambda _: self}
            return await play_game(self._game, self._pool, slots, players, suspects)

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """All that were made."""
        return tuple(self._game.game.decisions)

    async def play_on(self, game: PersonGame) -> PlayedGame | None:
        """Play to the person's next decision, or to the end; the game if it has ended."""
        answer = game.answer
        while True:
            asked = asyncio.ensure_future(self._asked.wait())
            try:
                await asyncio.wait((self._playing, asked), return_when=asyncio.FIRST_COMPLETED)
            finally:
                asked.cancel()
            if self._playing.done():
                return self._playing.result()
            if answer is None and game.presence is not Presence.LEFT:
                return None
            question = self._game.game.pending()
            assert question is not None
            assert self._on_answer is not None
            self._asked.clear()
            us = self._clock.now_us() - self._since_us
            self._on_answer(TimedAnswer(answer or question.legal[0], us))
            answer = None

    def send(self, message: bytes) -> None:
        """Do nothing: people read pages."""

    def ask(self, request: bytes, time_left: TimeLeft, on_answer: OnAnswer) -> int:
        """Let the step end here."""
        self._since_us, self._on_answer = self._clock.now_us(), on_answer
        self._asked.set()
        return 1

    async def end(self) -> None:
        """End the bots."""
        self._playing.cancel()
        with suppress(BaseException):
            await self._playing
        await self._pool.__aexit__()

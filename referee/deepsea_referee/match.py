"""A match between bots. Start reading here.

    run_match       plays a match to its end or to Ctrl-C
      play_match    starts the bots, plays the games, ends the bots  (lineup.py, process.py)
        play_game   asks a game's questions until it is over         (session.py, open_question.py)
          Game      knows the rules and decides everything           (deepsea_rules.game)

The loop only moves data: no rule of the game is in it. What a bot does wrong is counted and the
default action is played; what goes wrong on this side voids the game and is nobody's loss.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from deepsea_referee.bots.pool import BotPool
from deepsea_referee.bots.process import BotProcess, Hosting
from deepsea_referee.bots.resolve import BotSpec, with_unique_names
from deepsea_referee.errors import BotFault, RefereeError, UserError
from deepsea_referee.random import fresh_seed
from deepsea_referee.results.summary import FaultReport, GameResult, MatchResult, VoidGame
from deepsea_referee.timing.clock import Bank, Clock, SystemClock, TimeControl
from deepsea_referee.timing.decision_timer import TimedAnswer
from deepsea_referee.transport.session import Session
from deepsea_rules.actions import shown
from deepsea_rules.constants import MAX_PLAYERS, MIN_PLAYERS
from deepsea_rules.errors import IllegalAction, InvalidAction
from deepsea_rules.faults import Fault
from deepsea_rules.game import Game, Question
from deepsea_rules.randomness import commitment, game_seed
from deepsea_rules.record import GameRecord
from deepsea_rules.ruleset import DEFAULT, PRESETS, RuleSet
from deepsea_sdk import wire
from deepsea_sdk._pb import deepsea_pb2 as pb
from deepsea_sdk.bot import FaultNotice, GameEnd, GameInfo, TimeLeft

DEFAULT_CLOCK: Final = TimeControl(budget_us=100_000, bank_us=2_000_000)

OnGame = Callable[[GameResult, GameRecord], object]
"""Gets each game that counts. If it returns a future, the next game waits for that."""
OnVoid = Callable[[VoidGame], object]
"""Gets each game that does not count."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MatchSettings:
    """What is to be played. Raises UserError if it cannot be."""

    bots: Sequence[BotSpec]
    hosting: Hosting
    games: int = 1
    rules: RuleSet = PRESETS[DEFAULT]
    time_control: TimeControl = DEFAULT_CLOCK
    seed: bytes = field(default_factory=fresh_seed)
    """32 bytes; the seed of each game is derived from it."""
    seating: Literal["rotate", "fixed"] = "rotate"
    """Whether seat s has bot s in every game, or bot s + i in game i."""
    tables: int = 1
    """How many games are played at once, over the same streams."""

    def __post_init__(self) -> None:
        if not MIN_PLAYERS <= len(self.bots) <= MAX_PLAYERS:
            raise UserError(
                f"a game has {MIN_PLAYERS} to {MAX_PLAYERS} bots, not {len(self.bots)}; "
                "the same bot may be named several times"
            )
        if self.games < 1 or self.tables < 1:
            raise UserError("a match has at least one game and one table")

    def line_up(self, game: int) -> tuple[int, ...]:
        """The bot in each seat of a game; `game` counts from 0."""
        count = len(self.bots)
        shift = game if self.seating == "rotate" else 0
        return tuple((seat + shift) % count for seat in range(count))

    def numbers(self) -> Iterable[int]:
        """The games to be played, in this order."""
        return range(self.games)

    def game_seed(self, game: int) -> bytes:
        """The seed of a game; `game` counts from 0."""
        return game_seed(self.seed, game)

    def game_id(self, game: int) -> str:
        """The name of a game, which tells nothing about its seed; `game` counts from 0."""
        return f"{commitment(self.seed)[:12]}-{game + 1:04}"

    def result(self, isolation: str) -> MatchResult:
        """What the match came to before its first game."""
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
        signals = (signal.SIGINT, signal.SIGTERM)
        for number in signals:
            loop.add_signal_handler(number, interrupt.set)
        try:
            return await play_match(settings, on_game, on_void, interrupt=interrupt)
        finally:
            for number in signals:
                loop.remove_signal_handler(number)

    return asyncio.run(interruptible())


async def play_match(
    settings: MatchSettings,
    on_game: OnGame | None = None,
    on_void: OnVoid | None = None,
    *,
    clock: Clock | None = None,
    interrupt: asyncio.Event | None = None,
) -> MatchResult:
    """Play a match; `on_game` and `on_void` get each game as it ends.

    With `interrupt` set the games under way are dropped and what is complete is returned. Raises
    BotStartError if a bot's program does not start. The same seed and bots that always decide
    alike give the same records, times aside.
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
        lineup = BotPool(self.result.bots, settings.hosting, self._clock)
        self.result.logs = lineup.logs
        self.result.off_turn = lineup.off_turn
        numbers = iter(settings.numbers())

        async def table() -> None:
            for number in numbers:  # shared: each game is taken by the table that is free
                await self._play_number(number, lineup)

        try:
            async with lineup, asyncio.TaskGroup() as tables:
                for _ in range(min(settings.tables, settings.games)):
                    tables.create_task(table())
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None

    async def _play_number(self, number: int, lineup: BotPool) -> None:
        settings, bots = self._settings, self.result.bots
        seating = settings.line_up(number)
        game_id = settings.game_id(number)
        game = Game(settings.rules, len(seating), settings.game_seed(number))
        try:
            processes = [await lineup.ready(bot) for bot in seating]
            sessions = [process.session for process in processes]
            faults = await play_game(game, game_id, sessions, settings.time_control)
        except RefereeError as error:
            _log.error("game %s is void: %s", game_id, error, exc_info=error.__cause__)
            void = VoidGame(number + 1, game_id, str(error))
            self.result.add_void(void)
            if self._on_void is not None:
                await _room(self._on_void(void))
            return
        for bot in seating:
            lineup.finished_game(bot)
        result = GameResult(
            game=number + 1,
            game_id=game_id,
            seats=seating,
            points=game.result().points,
            placements=game.result().placements,
            forfeits=tuple(game.forfeits),
            faults=tuple([await _explained(fault, processes[fault.seat]) for fault in faults]),
        )
        record = GameRecord.of(
            game,
            game_id=game_id,
            clock=settings.time_control.format(),
            seats=[(bots[bot].name, bots[bot].digest) for bot in seating],
        )
        self.result.add(result, record.decisions)
        if self._on_game is not None:
            await _room(self._on_game(result, record))


async def _room(answer: object) -> None:
    """Wait until there is room for the next game, if whoever got this one asks for that."""
    if isinstance(answer, Future):
        # Shielded: a match that is broken off does not take back what it has handed over.
        await asyncio.shield(asyncio.wrap_future(answer))


async def _explained(report: FaultReport, process: BotProcess) -> FaultReport:
    """The report with what the process itself tells about it."""
    process.troubled = True
    if report.fault is not Fault.CRASH:
        return report
    return replace(report, came=f"{report.came}: {await process.last_words()}")


async def play_game(
    game: Game, game_id: str, sessions: Sequence[Session], control: TimeControl
) -> list[FaultReport]:
    """Play a game to its end with a session in each seat; returns the faults that were counted.

    Raises RefereeError if this side fails; the bots have been told then that the game is void.
    """
    play = _Play(game, game_id, sessions, control)
    play.begin()
    await play.over
    return play.faults


class _Play:
    """One game under way: each answer is followed at once by the next question."""

    def __init__(
        self, game: Game, game_id: str, sessions: Sequence[Session], control: TimeControl
    ) -> None:
        self._game = game
        self._game_id = game_id
        self._sessions = sessions
        self._control = control
        self._banks = [Bank(control) for _ in sessions]
        self._writer = wire.RequestWriter(game_id, game.events)
        self._marks = [0] * len(sessions)
        """How many of the game's events each seat has been sent."""
        self._question: Question | None = None
        self._request_id = 0
        self.faults: list[FaultReport] = []
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the game is; a game that is void ends it with a RefereeError."""

    def begin(self) -> None:
        """Tell everybody that the game begins, and ask the first question."""
        game = self._game
        try:
            for seat, session in enumerate(self._sessions):
                info = GameInfo(
                    game_id=self._game_id,
                    seat=seat,
                    players=game.players,
                    rules=game.rules,
                    budget_us=self._control.budget_us,
                    bank_us=self._control.bank_us,
                    commitment=game.commitment,
                )
                session.send(pb.RefereeMessage(starts=(wire.start_to_wire(info),)))
            self._go_on()
        except Exception as error:  # noqa: BLE001  (whatever it is, it is no bot's fault)
            self._void(error)

    def _go_on(self) -> None:
        """Ask the next question, or end the game."""
        game = self._game
        self._question = question = game.pending()
        if question is None:
            self._end()
            return
        seat = question.seat
        time_left = TimeLeft(self._control.budget_us, self._banks[seat].left_us)
        request = self._writer.write(game.view(seat), self._marks[seat], time_left)
        self._marks[seat] = len(game.events)
        self._request_id = self._sessions[seat].ask(self._game_id, request, time_left, self._hear)

    def _hear(self, came: TimedAnswer | BotFault | RefereeError) -> None:
        if self.over.done():  # the game was broken off
            return
        assert self._question is not None
        try:
            if isinstance(came, RefereeError):
                raise came
            fault = came if isinstance(came, BotFault) else self._decide(self._question.seat, came)
            if fault is not None:
                self._count(self._question, fault)
            self._go_on()
        except Exception as error:  # noqa: BLE001  (whatever it is, it is no bot's fault)
            self._void(error)

    def _decide(self, seat: int, answer: TimedAnswer) -> BotFault | None:
        """Play a bot's answer; a fault if that is not legal."""
        try:
            self._game.decide(answer.action, us=answer.us)
        except (IllegalAction, InvalidAction):
            came = f"it answered {shown(answer.action)}, which is not legal"
            return BotFault(Fault.ILLEGAL_ACTION, came, answer.us)
        self._banks[seat].spend(answer.us)
        return None

    def _count(self, question: Question, fault: BotFault) -> None:
        """Count a fault, play the default action, and tell the bot."""
        seat = question.seat
        self._banks[seat].spend(fault.us)
        decision = self._game.decide(None, us=fault.us, fault=fault.fault, came=fault.detail)
        report = FaultReport(
            seat=seat,
            decision=len(self._game.decisions) - 1,
            fault=fault.fault,
            kind=question.kind,
            legal=tuple(question.legal),
            came=fault.detail,
            us=fault.us,
            played=decision.action,
            forfeit=self._game.has_forfeited(seat),
        )
        self.faults.append(report)
        notice = FaultNotice(
            self._game_id, self._request_id, report.fault, report.explanation(), report.forfeit
        )
        self._sessions[seat].send(pb.RefereeMessage(faults=(wire.fault_to_wire(notice),)))

    def _end(self) -> None:
        end = _end_of(self._game, self._game_id)
        for seat, session in enumerate(self._sessions):
            events = self._game.events_for(seat, self._marks[seat])
            over = wire.over_to_wire(replace(end, seat=seat), events)
            session.send(pb.RefereeMessage(overs=(over,)))
        self.over.set_result(None)

    def _void(self, error: Exception) -> None:
        for seat, session in enumerate(self._sessions):
            void = wire.over_to_wire(GameEnd(self._game_id, seat, (), (), b"", (), (), True), ())
            session.send(pb.RefereeMessage(overs=(void,)))
        void_error = RefereeError(f"{type(error).__name__}: {error}")
        void_error.__cause__ = error
        self.over.set_exception(void_error)


def _end_of(game: Game, game_id: str) -> GameEnd:
    """How it ended, for seat A."""
    result = game.result()
    return GameEnd(
        game_id=game_id,
        seat=0,
        points=result.points,
        placements=result.placements,
        seed=game.seed,
        values=game.state.values,
        forfeits=tuple(game.forfeits),
        void=False,
    )

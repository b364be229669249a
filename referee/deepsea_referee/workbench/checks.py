"""Checks of a bot before its first match, each with its outcome and a remedy.

Invariants: the bot is a process as in a match, with the same clock, limits and faults; the other
seats need none; everything that is tested can happen in a match; a failed check says what its
author can do.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from deepsea_referee.bots.output import joined
from deepsea_referee.bots.pool import BotPool
from deepsea_referee.bots.process import Hosting
from deepsea_referee.bots.resolve import BotSpec
from deepsea_referee.errors import BotFault, BotStartError, RefereeError
from deepsea_referee.game_loop import AskedSeat
from deepsea_referee.play_game import play_game
from deepsea_referee.tables import QUICK_US
from deepsea_referee.timing.clock import Clock, SystemClock
from deepsea_referee.transport.answers import OnAnswer, TimedAnswer
from deepsea_referee.transport.session import Session
from deepsea_referee.workbench.advice import FLUSH, REMEDIES, CheckResult, files, requirements
from deepsea_rules.faults import Fault, FaultReport
from deepsea_rules.game import Decision, Game
from deepsea_rules.randomness import Stream, game_seed, seed_from_text
from deepsea_rules.record import GameRecord
from deepsea_rules.ruleset import DEFAULT, MAX_PLAYERS, MIN_PLAYERS, PRESETS, RuleSet
from deepsea_rules.time_control import TimeControl
from deepsea_sdk.bot import HINT, Bot
from deepsea_sdk.clock import TimeLeft
from deepsea_sdk.refereed_game import PlayedGame, RefereedGame
from deepsea_sdk.wire import CONCURRENT_GAMES, NO_EVENTS

SEED = seed_from_text("check")
TABLES = 16
"""The number of games at once in the test of whether the bot keeps games apart."""
LONGEST_LOG = 20
"""The number of lines of the bot's output that are shown."""
NO_TIME = TimeLeft(0, 0)

DECLARE = "`concurrent_games = True` in its class makes long matches faster"
APART = (
    "keep all that it knows of a game in self, and nothing in its class or module; or do not "
    "declare concurrent_games, and a match plays its games one by one"
)


@dataclass(frozen=True, slots=True)
class CheckReport:
    """All checks of a bot."""

    findings: list[CheckResult]
    log: list[str]
    """The end of its output, if it was ever at fault."""

    @property
    def fine(self) -> bool:
        """Whether the bot can play matches."""
        return all(finding.ok for finding in self.findings if finding.needed)


async def examine(
    bot: BotSpec,
    hosting: Hosting,
    control: TimeControl,
    *,
    rules: Iterable[RuleSet] = tuple(PRESETS.values()),
    tables: int = TABLES,
    clock: Clock | None = None,
    on_game: Callable[[], object] = lambda: None,
) -> CheckReport:
    """Run all checks of a bot.

    rules    each is played with every number of seats
    tables   the number of games that are played one by one and at once
    on_game  called after each game
    """
    pool = BotPool([bot], hosting, clock or SystemClock())
    findings = [] if bot.facts is None else [files(bot.facts), *requirements(bot.facts)]
    try:
        async with pool:
            examination = _Examination(pool, control, on_game)
            process = await pool.ready(0)
            if process.missed_start:
                limit = hosting.start_limit_us // 1_000_000
                found = f"it did not {process.greeting} within {limit} s"
                remedy = REMEDIES[Fault.START_TIMEOUT] if bot.protocol == "grpc" else FLUSH
                findings.append(CheckResult("start", False, True, found, remedy))
            else:
                findings.append(CheckResult("start", True, True, "it starts and connects"))
                findings += [await examination.preset(each) for each in rules]
                findings += examination.clock()
                findings += examination.play()
                findings += hints(joined(*process.log()))
                findings += [
                    await examination.late_answer(),
                    await examination.dropped(),
                    await examination.forgets(),
                    await examination.tables(tables),
                ]
    except BotStartError as error:
        remedy = REMEDIES[Fault.CRASH]
        findings.append(CheckResult("start", False, True, str(error), remedy, error.detail))
    log = "".join(log.text for log in pool.logs if log.bot == 0)
    return CheckReport(findings, log.splitlines()[-LONGEST_LOG:])


def hints(log: str) -> list[CheckResult]:
    """Warnings of the SDK in the bot's stderr, such as a misspelt method name."""
    lines = [line.removeprefix(HINT) for line in log.splitlines() if line.startswith(HINT)]
    remedy = "rename the method; give a helper a name that is not similar"
    return [CheckResult("methods", False, False, line, remedy) for line in dict.fromkeys(lines)]


class _Examination:
    """The checks of a bot that has started; it is the only one in the pool."""

    def __init__(self, pool: BotPool, control: TimeControl, on_game: Callable[[], object]) -> None:
        self._pool = pool
        self._control = control
        self._on_game = on_game
        self._numbers = itertools.count(1)
        self._times_us: list[int] = []
        self._timeouts: list[FaultReport] = []
        self._points = 0
        self._games = 0
        self._idle = True
        """Whether it has decided everywhere as a bot does that overrides nothing."""
        self._sound = True
        """Whether it has played without a fault so far."""
        self._repeats = False
        """Whether it has played the same game in the same way twice."""

    async def preset(self, rules: RuleSet) -> CheckResult:
        """Play a game of each size."""
        name = f"rules {rules.name}"
        decisions = 0
        for players in range(MIN_PLAYERS, MAX_PLAYERS + 1):
            seat = players % 3 % players  # the first, a middle and the last one
            played, faults = await self._play(rules, players, seat)
            own = [decision for decision in played.record.decisions if decision.seat == seat]
            decisions += len(own)
            self._games += 1
            self._points += played.record.points[seat]
            again = RefereedGame(Game(rules, players, played.record.seed), "", self._control)
            self._idle = self._idle and _decides_nothing(again, played.record, seat)
            self._times_us += [decision.us for decision in own]
            self._timeouts += [fault for fault in faults if fault.fault is Fault.TIMEOUT]
            for fault in faults:
                self._sound = False
                found = f"with {players} seats, decision {fault.decision}: {fault.explanation()}"
                return CheckResult(name, False, True, found, REMEDIES[fault.fault], fault.error)
        found = f"{decisions} decisions in games of {MIN_PLAYERS} to {MAX_PLAYERS}, no fault"
        return CheckResult(name, True, True, found)

    def clock(self) -> list[CheckResult]:
        """Judge the times of all these games."""
        if not self._times_us:
            return []
        slowest, median = max(self._times_us), statistics.median_low(self._times_us)
        budget = self._control.budget_us
        over = sum(us > budget for us in self._times_us)
        found = (
            f"median {median / 1000:.1f} ms, slowest {slowest / 1000:.1f} ms, "
            f"the clock is {self._control.format()}"
        )
        if self._timeouts:
            remedy = REMEDIES[Fault.TIMEOUT]
            return [CheckResult("clock", False, True, f"timeouts: {found}", remedy)]
        if over:
            found = f"{over} of {len(self._times_us)} decisions drew on the bank: {found}"
            remedy = "plan with self.clock.budget, the seconds that cost nothing"
            return [CheckResult("clock", False, False, found, remedy)]
        return [CheckResult("clock", True, True, found)]

    def play(self) -> list[CheckResult]:
        """What it brought home in all these games, if that was nothing."""
        if self._points or not self._sound:
            return []
        found = f"it brought nothing home in {self._games} games"
        remedy = "have it take treasure, and turn back while the air lasts"
        if self._idle:
            found += ": it decides as a Bot that overrides nothing"
            remedy = "override turn_back and search, and spell them so"
        return [CheckResult("play", False, False, found, remedy)]

    async def late_answer(self) -> CheckResult:
        """Treat one answer as a timeout: the bot must continue and answer the next requests."""
        name = "late answer"
        played, faults = await self._play(PRESETS[DEFAULT], 2, 0, TooLate)
        others = [fault for fault in faults if fault.came != TooLate.SAID]
        if others:
            found = f"after a timeout: {others[0].explanation()}"
            remedy = "answer every request, also after on_fault: a fault does not end the game"
            if not self._sound:
                remedy = REMEDIES[others[0].fault]
            return CheckResult(name, False, True, found, remedy, others[0].error)
        own = sum(decision.seat == 0 for decision in played.record.decisions)
        answered = own - len(faults)
        found = f"after a timeout on purpose it answered {answered} more requests"
        return CheckResult(name, True, True, found)

    async def dropped(self) -> CheckResult:
        """Drop the connection during a game: the program must exit, and start again."""
        name = "dropped connection"
        process = await self._pool.ready(0)
        await self._play(PRESETS[DEFAULT], 2, 0, Dropped)
        end = await process.exit_text()
        if process.running:
            remedy = "end the program when the stream ends, as deepsea_sdk.run does"
            return CheckResult(name, False, True, f"{end} after the connection was dropped", remedy)
        _, faults = await self._play(PRESETS[DEFAULT], 2, 0)
        if faults:
            found = f"restarted: {faults[0].explanation()}"
            remedy = REMEDIES[faults[0].fault]
            return CheckResult(name, False, True, found, remedy, faults[0].error)
        return CheckResult(name, True, True, "it exited, was restarted and played")

    async def forgets(self) -> CheckResult:
        """Play the same game before and after another one, and compare."""
        name = "same again"
        if not self._sound:
            return CheckResult(name, False, False, "skipped", "fix its faults first")
        first = await self._decisions(1)
        await self._decisions(2)
        again = await self._decisions(1)
        pairs = zip(first, again, strict=False)
        other = next((i for i, (a, b) in enumerate(pairs) if a.action != b.action), None)
        if other is None and len(first) == len(again):
            self._repeats = True
            return CheckResult(name, True, False, "the same game was played in the same way twice")
        where = f"from decision {other} on" if other is not None else "at the end"
        return CheckResult(
            name,
            False,
            False,
            f"the same game was played differently {where}",
            "reset the state of the last game in on_game_start, and seed random numbers with "
            "info.commitment and info.seat; a search that stops by the clock may differ",
        )

    async def tables(self, count: int) -> CheckResult:
        """Play the same games one after another and all at once, and compare."""
        name = "tables"
        process = await self._pool.ready(0)
        declared = CONCURRENT_GAMES in process.session.features
        if not self._repeats:
            found = "skipped: nobody can tell for a bot that plays a game differently each time"
            return CheckResult(name, not declared, False, found, APART)
        if not declared and statistics.median_low(self._times_us) >= QUICK_US:
            found = "one, as for all bots that think: decisions take more than 1 ms"
            return CheckResult(name, True, False, found)
        numbers = range(1, count + 1)
        alone = [await self._actions(number) for number in numbers]
        at_once = await asyncio.gather(*map(self._actions, numbers))
        differ = sum(one != other for one, other in zip(alone, at_once, strict=True))
        if differ and declared:
            found = f"{differ} of {count} games were played differently when all were on at once"
            return CheckResult(name, False, True, found, APART)
        if differ:
            found = f"one: {differ} of {count} games differ if all are on at once"
        elif declared:
            found = f"the same decisions in {count} games one by one and at once"
        else:
            found = f"one, but decisions are the same in {count} games at once: {DECLARE}"
        return CheckResult(name, True, False, found)

    async def _actions(self, number: int) -> list[tuple[int, str]]:
        return [(decision.seat, decision.action) for decision in await self._decisions(number)]

    async def _decisions(self, number: int) -> Sequence[Decision]:
        played, _ = await self._play(PRESETS[DEFAULT], 2, 0, number=number)
        return played.record.decisions

    async def _play(
        self,
        rules: RuleSet,
        players: int,
        seat: int,
        between: type[Disturbed] | None = None,
        number: int | None = None,
    ) -> tuple[PlayedGame, list[FaultReport]]:
        """Play a game with the bot in that seat; returns its faults. RefereeError if void."""
        count = next(self._numbers)
        game = Game(rules, players, game_seed(SEED, number or count))
        seats: dict[int, Callable[[Session], AskedSeat]] = {
            other: partial(AtRandom, game, other) for other in range(players) if other != seat
        }
        if between is not None:
            seats[seat] = between
        refereed = RefereedGame(game, f"check-{count:03}", self._control)
        played = await play_game(refereed, self._pool, [0] * players, seats)
        self._on_game()
        return played, [fault for fault in played.faults if fault.seat == seat]


def _decides_nothing(refereed: RefereedGame, record: GameRecord, seat: int) -> bool:
    """Whether a seat was played as by a Python bot without methods of its own; `refereed` is the
    same game before its first decision."""
    plain = Bot()
    for decision in record.decisions:
        refereed.game.pending()  # which rolls the dice
        if decision.seat == seat and plain.decide(refereed.game.view(seat)) != decision.action:
            return False
        refereed.repeat(decision)
    return True


# Seats without a process


class AtRandom:
    """A seat of one game that chooses uniformly among the legal actions, in this process.

    It plays the same game in the same way, as the sample bot `random` does; it answers in a later
    pass of the event loop, as a bot does, and takes no time.
    """

    features = frozenset({NO_EVENTS})

    def __init__(self, game: Game, seat: int, _session: object = None) -> None:
        self._game = game
        self._chance = Stream(bytes.fromhex(game.commitment), f"random/{seat}")

    def send(self, message: bytes) -> None:
        """Do nothing: it remembers nothing."""

    def ask(self, request: bytes, time_left: TimeLeft, on_answer: OnAnswer) -> int:
        """Answer the question that the game has."""
        question = self._game.pending()
        assert question is not None
        action = question.legal[self._chance.uniform(len(question.legal))]
        asyncio.get_running_loop().call_soon(on_answer, TimedAnswer(action, 0))
        return 0


# Sessions that are disturbed on purpose


class Disturbed:
    """A wrapper of a session that disturbs the third request."""

    SAID = ""
    QUESTION = 3

    def __init__(self, session: Session) -> None:
        self._session = session
        self._asked = 0

    @property
    def features(self) -> frozenset[str]:
        return self._session.features

    def send(self, message: bytes) -> None:
        self._session.send(message)

    def ask(self, request: bytes, time_left: TimeLeft, on_answer: OnAnswer) -> int:
        self._asked += 1
        if self._asked == self.QUESTION:
            return self.do(request, time_left, on_answer)
        return self._session.ask(request, time_left, on_answer)

    def do(self, request: bytes, time_left: TimeLeft, on_answer: OnAnswer) -> int:
        """Send the third request, disturbed."""
        raise NotImplementedError


class TooLate(Disturbed):
    """Leaves no time for the answer: whenever it comes, it is reported as a timeout."""

    SAID = "a timeout on purpose"

    def do(self, request: bytes, time_left: TimeLeft, on_answer: OnAnswer) -> int:
        timeout = BotFault(Fault.TIMEOUT, self.SAID, sum(time_left))

        def report(outcome: TimedAnswer | BotFault | RefereeError) -> None:
            crashed = isinstance(outcome, BotFault) and outcome.fault is not Fault.TIMEOUT
            on_answer(outcome if crashed else timeout)

        # The session's own timer runs from the write on: no notice is sent before the request.
        return self._session.ask(request, NO_TIME, report)


class Dropped(Disturbed):
    """Ends the stream."""

    SAID = "the connection was dropped on purpose"

    def do(self, request: bytes, time_left: TimeLeft, on_answer: OnAnswer) -> int:
        self._session.fail(Fault.CRASH, self.SAID)
        return self._session.ask(request, time_left, on_answer)

"""Checks of a bot before its first match, each with its outcome and a remedy.

Invariants: the bot is a process as in a match, with the same clock, limits and faults; the other
seats need none; everything that is tested can happen in a match, so no process meets a seed twice;
a failed check says what its author can do. A slow bot plays fewer games, but every preset and every
number of seats. Games are compared only with those that the bot repeats alone: what the clock
changes is no state.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from deepsea_referee.bots.hints import hints_in
from deepsea_referee.bots.output import joined
from deepsea_referee.bots.pool import BotPool, Slot
from deepsea_referee.bots.process import Hosting
from deepsea_referee.bots.resolve import BotSpec
from deepsea_referee.errors import BotFault, BotStartError, HostTooBusy, RefereeError
from deepsea_referee.play_game import AskedSeat, play_game
from deepsea_referee.tables import QUICK_US
from deepsea_referee.timing.clock import Clock, SystemClock
from deepsea_referee.transport.session import OnAnswer, Session, TimedAnswer
from deepsea_referee.workbench.advice import FLUSH, REMEDIES, CheckResult, files, requirements
from deepsea_rules.faults import Fault, FaultReport
from deepsea_rules.game import Decision, Game
from deepsea_rules.randomness import Stream, game_seed, seed_from_text
from deepsea_rules.record import GameRecord
from deepsea_rules.ruleset import DEFAULT, MAX_PLAYERS, MIN_PLAYERS, PRESETS, RuleSet
from deepsea_rules.time_control import LONGEST_US, TimeControl
from deepsea_sdk.bot import Bot
from deepsea_sdk.clock import TimeLeft
from deepsea_sdk.refereed_game import PlayedGame, RefereedGame
from deepsea_sdk.wire import CONCURRENT_GAMES, NO_EVENTS

SEED = seed_from_text("check")
TABLES = 16
"""The number of games at once in the test of whether the bot keeps games apart."""
TIME_US = 60_000_000
"""How long the checks may take with the usual clock, about."""
GAMES_IN_TIME = 15
"""The part of that time, one fifteenth, after which a bot is asked no more in a game."""
MORE_TIME = 4
"""How many times the clock a search gets that does not repeat its game with it."""
LONGEST_LOG = 20
"""The number of lines of the bot's output that are shown."""
NO_TIME = TimeLeft(0, 0)
FIRST = Slot(0)
"""The process that plays all games but those that another one has played."""

Between: TypeAlias = Callable[[Session], AskedSeat]
"""Who is asked in the bot's seat: its session in a wrapper."""

DECLARE = {
    "grpc": "so you may set `concurrent_games = True` in its class (faster matches)",
    "lines": 'so its first line may have `"features":["concurrent_games"]` (faster matches)',
}
"""The way to declare it, by the bot's protocol."""
DIFFERS = "the bot does not repeat its own games"
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
    time_us: int = TIME_US,
    on_game: Callable[[str], object] = lambda check: None,
) -> CheckReport:
    """Run all checks of a bot.

    rules    each is played with every number of seats, or some if the bot is slow
    tables   the number of games that are played one by one and at once; fewer if it is slow
    time_us  about the time to take
    on_game  called after each game with the name of the check

    Raises HostTooBusy if the host is too busy to time the bot.
    """
    clock = clock or SystemClock()
    pool = BotPool([bot], hosting, clock)
    findings = [] if bot.bundle is None else [files(bot.bundle), *requirements(bot.bundle)]
    try:
        async with pool:
            examination = _Examination(pool, control, clock, time_us, on_game)
            process = await pool.ready(FIRST)
            if process.missed_start:
                limit = hosting.start_limit_us // 1_000_000
                found = f"it did not {process.greeting} within {limit} s{process.place()}"
                remedy = REMEDIES[Fault.START_TIMEOUT] if bot.protocol == "grpc" else FLUSH
                error = process.error_text()
                findings.append(CheckResult("start", False, True, found, remedy, error))
            else:
                findings.append(CheckResult("start", True, True, "it starts and connects"))
                findings += await examination.presets(tuple(rules))
                findings += examination.clock()
                findings += examination.play()
                findings += hints(joined(*process.log()))
                findings += [
                    await examination.late_answer(),
                    await examination.dropped(),
                    await examination.forgets(),
                    await examination.tables(tables, DECLARE[bot.protocol]),
                ]
    except BotStartError as error:
        remedy = REMEDIES[Fault.CRASH]
        findings.append(CheckResult("start", False, True, str(error), remedy, error.detail))
    log = "".join(log.text for log in pool.logs if log.bot == 0)
    return CheckReport(findings, log.splitlines()[-LONGEST_LOG:])


def hints(log: str) -> list[CheckResult]:
    """Warnings of the SDK in the bot's stderr, such as a misspelt method name."""
    remedy = "rename the method; give a helper a name that is not similar"
    return [CheckResult("methods", False, False, hint, remedy) for hint in hints_in(log)]


@dataclass
class _Examination:
    """The checks of a bot that has started; it is the only one in the pool."""

    pool: BotPool
    control: TimeControl
    time: Clock
    time_us: int
    on_game: Callable[[str], object]
    check: str = ""
    """The name of the check that is on."""
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    times_us: list[int] = field(default_factory=list)
    timeouts: list[FaultReport] = field(default_factory=list)
    points: int = 0
    games: int = 0
    idle: bool = True
    """Whether it has decided everywhere as a bot does that overrides nothing."""
    sound: bool = True
    """Whether it has played without a fault so far."""
    repeats: bool = False
    """Whether it has played the same game in the same way twice."""

    async def presets(self, rules: Sequence[RuleSet]) -> list[CheckResult]:
        """Play each preset with every number of seats; if time runs short, with some of them.

        The first round has a game of each preset, and as far as it goes each number of seats.
        """
        until_us = self.time.now_us() + self.time_us * 2 // 5
        sizes = range(MIN_PLAYERS, MAX_PLAYERS + 1)
        played: dict[str, dict[int, int]] = {each.name: {} for each in rules}
        failed: dict[str, CheckResult] = {}
        for turn in range(len(sizes)):
            for number, preset in enumerate(rules):
                if preset.name in failed or (turn and self.time.now_us() > until_us):
                    continue
                size = sizes[(turn + number) % len(sizes)]
                found = await self._preset(preset, size)
                if isinstance(found, CheckResult):
                    failed[preset.name] = found
                else:
                    played[preset.name][size] = found
        return [
            failed.get(name) or CheckResult(f"rules {name}", True, True, _no_fault(found))
            for name, found in played.items()
        ]

    async def _preset(self, rules: RuleSet, players: int) -> CheckResult | int:
        """Play a game; the number of the bot's decisions, or the first fault."""
        self.check = name = f"rules {rules.name}"
        seat = players % 3 % players  # the first, a middle and the last one
        played, faults, own = await self._play(rules, players, seat)
        self.games += 1
        self.points += played.record.points[seat]
        again = RefereedGame(Game(rules, players, played.record.seed), "", self.control)
        self.idle = self.idle and _decides_nothing(again, played.record, seat, len(own))
        self.times_us += [decision.us for decision in own]
        self.timeouts += [fault for fault in faults if fault.fault is Fault.TIMEOUT]
        for fault in faults:
            self.sound = False
            found = f"with {players} seats, decision {fault.decision}: {fault.explanation()}"
            return CheckResult(name, False, True, found, REMEDIES[fault.fault], fault.error)
        return len(own)

    def clock(self) -> list[CheckResult]:
        """Judge the times of all these games."""
        if not self.times_us:
            return []
        slowest, median = max(self.times_us), statistics.median_low(self.times_us)
        budget = self.control.budget_us
        over = sum(us > budget for us in self.times_us)
        found = (
            f"median {median / 1000:.1f} ms, slowest {slowest / 1000:.1f} ms, "
            f"the clock is {self.control.format()}"
        )
        if self.timeouts:
            remedy = REMEDIES[Fault.TIMEOUT]
            return [CheckResult("clock", False, True, f"timeouts: {found}", remedy)]
        if over:
            found = f"{over} of {len(self.times_us)} decisions drew on the bank: {found}"
            remedy = "plan with self.clock.budget, the seconds that cost nothing"
            return [CheckResult("clock", False, False, found, remedy)]
        return [CheckResult("clock", True, True, found)]

    def play(self) -> list[CheckResult]:
        """What it brought home in all these games, if that was nothing."""
        if self.points or not self.sound:
            return []
        found = f"it brought nothing home in {self.games} games"
        remedy = "have it take treasure, and turn back while the air lasts"
        if self.idle:
            found += ": it plays exactly like the empty Bot class, and no method of yours is called"
            remedy = "override turn_back and search, and spell them so"
        return [CheckResult("play", False, False, found, remedy)]

    async def late_answer(self) -> CheckResult:
        """Treat one answer as a timeout: the bot must continue and answer the next requests."""
        self.check = name = "late answer"
        _, faults, own = await self._play(PRESETS[DEFAULT], 2, 0, TooLate)
        others = [fault for fault in faults if fault.came != TooLate.SAID]
        if others:
            found = f"after a timeout: {others[0].explanation()}"
            remedy = "answer every request, also after on_fault: a fault does not end the game"
            if not self.sound:
                remedy = REMEDIES[others[0].fault]
            return CheckResult(name, False, True, found, remedy, others[0].error)
        answered = len(own) - len(faults)
        found = f"after a deliberate timeout it answered the next {answered} requests"
        return CheckResult(name, True, True, found)

    async def dropped(self) -> CheckResult:
        """Drop the connection during a game: the program must exit, and start again."""
        self.check = name = "dropped connection"
        process = await self.pool.ready(FIRST)
        await self._play(PRESETS[DEFAULT], 2, 0, Dropped)
        end = await process.exit_text()
        if process.running:
            remedy = "end the program when the stream ends, as deepsea_sdk.run does"
            return CheckResult(name, False, True, f"{end} after the connection was dropped", remedy)
        _, faults, _ = await self._play(PRESETS[DEFAULT], 2, 0)
        if faults:
            found = f"restarted: {faults[0].explanation()}"
            remedy = REMEDIES[faults[0].fault]
            return CheckResult(name, False, True, found, remedy, faults[0].error)
        return CheckResult(name, True, True, "it exited, was restarted and played")

    async def forgets(self) -> CheckResult:
        """Play the same game after others and in a fresh process, and compare.

        A search that stops by the clock may differ: so once more, with more time.
        """
        self.check = name = "same again"
        if not self.sound:
            return CheckResult(name, False, False, "skipped", "fix its faults first")
        differs = await self._differs()
        if differs is None:
            self.repeats = True
            return CheckResult(name, True, False, "the same game was played in the same way twice")
        if await self._uses_all_its_time():
            found = f"not tested: {DIFFERS}, since it thinks for as long as the clock allows"
            return CheckResult(name, True, False, found)
        more = _longer(self.control, MORE_TIME)
        if await self._differs(more) is None:
            self.repeats = True
            clock, longer = self.control.format(), more.format()
            found = f"with {longer} it repeats its game: with {clock} the clock ends its search"
            return CheckResult(name, True, False, found)
        return CheckResult(
            name,
            False,
            False,
            f"the same game was played differently from its decision {differs + 1} on",
            "reset the state of the last game in on_game_start, and seed random numbers with "
            "info.commitment and info.seat",
        )

    async def _differs(self, control: TimeControl | None = None) -> int | None:
        """The first decision of a game that differs between a process that has played others
        and a fresh one."""
        await self._decisions(next(self.numbers), control)
        number = next(self.numbers)
        after_another = await self._decisions(number, control)
        await self.pool.dismiss_others(0)
        return _first_difference(after_another, await self._decisions(number, control))

    async def _uses_all_its_time(self) -> bool:
        """Whether it thinks longer if it has more time: its search has no end of its own."""
        slow = await self._decisions(next(self.numbers), _longer(self.control, MORE_TIME))
        median_us = statistics.median_low([decision.us for decision in slow] or [0])
        return median_us > 2 * statistics.median_low(self.times_us)

    async def tables(self, count: int, declare: str) -> CheckResult:
        """Play the same games one after another and all at once, and compare.

        `declare` says how such a bot may declare that it can.

        All at once have the time of one, so that each has as many times the clock as there are.
        """
        self.check = name = "tables"
        process = await self.pool.ready(FIRST)
        declared = CONCURRENT_GAMES in process.session.features
        untested = CheckResult(name, not declared, False, f"not tested: {DIFFERS}", APART)
        if not self.repeats:
            return untested
        if not declared and statistics.median_low(self.times_us) >= QUICK_US:
            found = "one game at a time, as for all bots that take more than 1 ms for a decision"
            return CheckResult(name, True, False, found)
        limit_us = self.control.budget_us + self.control.bank_us
        if max(self.times_us) > limit_us // MORE_TIME and await self._uses_all_its_time():
            return untested
        more = _longer(self.control, count)
        alone: dict[int, list[Decision]] = {}
        until_us = self.time.now_us() + self.time_us // 8
        for _ in range(count):
            if len(alone) > 1 and self.time.now_us() > until_us:
                break
            number = next(self.numbers)
            alone[number] = await self._decisions(number, more)
        count = len(alone)
        at_once = await asyncio.gather(*(self._decisions(number, more, count) for number in alone))
        differ = [
            number
            for number, decisions in zip(alone, at_once, strict=True)
            if _first_difference(alone[number], decisions) is not None
        ]
        if differ:
            again = await self._decisions(differ[0], more)
            if _first_difference(alone[differ[0]], again) is not None:
                return untested
        if differ and declared:
            found = f"{len(differ)} of {count} games were played differently with all on at once"
            return CheckResult(name, False, True, found, APART)
        if differ:
            found = f"one game at a time: {len(differ)} of {count} differ with all on at once"
        elif declared:
            found = f"the same decisions in {count} games one by one and at once"
        else:
            found = f"one game at a time. {count} at once gave the same decisions, {declare}"
        return CheckResult(name, True, False, found)

    async def _decisions(
        self, number: int, control: TimeControl | None = None, beside: int = 1
    ) -> list[Decision]:
        """The bot's decisions in the first seat of a game; `beside` is how many games are on."""
        _, _, own = await self._play(PRESETS[DEFAULT], 2, 0, None, number, control, beside)
        return own

    async def _play(
        self,
        rules: RuleSet,
        players: int,
        seat: int,
        between: Between | None = None,
        number: int | None = None,
        control: TimeControl | None = None,
        beside: int = 1,
    ) -> tuple[PlayedGame, list[FaultReport], list[Decision]]:
        """Play a game with the bot in that seat; its faults and decisions. RefereeError if void.

        If it is void because the host was too busy, another one is played once. A bot that has used
        its share of the time for the checks is asked no more, and chance plays on.
        """

        async def once() -> tuple[PlayedGame, list[FaultReport], list[Decision]]:
            count = next(self.numbers)
            game = Game(rules, players, game_seed(SEED, number or count))
            seats: dict[int, Callable[[Session], AskedSeat]] = {
                other: partial(AtRandom, game, other) for other in range(players) if other != seat
            }
            asked: list[UntilTired] = []

            def tested(session: Session) -> AskedSeat:
                bot = session if between is None else between(session)
                limit_us = max(0, self.time_us // GAMES_IN_TIME * beside)
                asked.append(UntilTired(bot, AtRandom(game, seat), limit_us))
                return asked[-1]

            seats[seat] = tested
            refereed = RefereedGame(game, f"check-{count:03}", control or self.control)
            blamed = [seat] if between is None else []
            with self.pool.table([0] * players, game.seed) as slots:
                played = await play_game(refereed, self.pool, slots, seats, blamed=blamed)
            self.on_game(self.check)
            own = [decision for decision in played.record.decisions if decision.seat == seat]
            faults = [fault for fault in played.faults if fault.seat == seat]
            return played, faults, own[: asked[-1].asked]

        try:
            return await once()
        except HostTooBusy:
            return await once()


def _no_fault(decisions: Mapping[int, int]) -> str:
    """What was found in games without a fault, by their numbers of seats."""
    sizes = sorted(decisions)
    several = f"{MIN_PLAYERS} to {MAX_PLAYERS}"
    if len(sizes) < MAX_PLAYERS - MIN_PLAYERS + 1:
        several = ", ".join(map(str, sizes)) + " (the bot is slow: other sizes were left out)"
    return f"{sum(decisions.values())} decisions in games of {several}, no fault"


def _longer(control: TimeControl, times: int) -> TimeControl:
    """A clock with so many times the time, as far as clocks go."""
    limits = (control.budget_us, control.bank_us)
    times = max(1, min(times, LONGEST_US // sum(limits)))
    return TimeControl(*(times * us for us in limits))


def _first_difference(one: Sequence[Decision], other: Sequence[Decision]) -> int | None:
    """The first of a seat's decisions that differ; the rest of a game follows from them."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a.action != b.action), None)


def _decides_nothing(refereed: RefereedGame, record: GameRecord, seat: int, asked: int) -> bool:
    """Whether a seat made its first decisions as a Python bot without methods of its own does;
    `refereed` is the same game before its first decision."""
    plain = Bot()
    for decision in record.decisions:
        refereed.game.pending()  # which rolls the dice
        if decision.seat == seat and asked:
            asked -= 1
            if plain.decide(refereed.game.view(seat)) != decision.action:
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


class UntilTired:
    """A seat that asks the bot until it has used some time in the game; then another player."""

    def __init__(self, session: AskedSeat, then: AskedSeat, limit_us: int) -> None:
        self._session = session
        self._then = then
        self._left_us = limit_us
        self.asked = 0
        """The number of requests to the bot."""

    @property
    def features(self) -> AbstractSet[str]:
        return self._session.features

    def send(self, message: bytes) -> None:
        self._session.send(message)

    def ask(self, request: bytes, time_left: TimeLeft, on_answer: OnAnswer) -> int:
        if self._left_us < 0:
            return self._then.ask(request, time_left, on_answer)
        self.asked += 1

        def report(outcome: TimedAnswer | BotFault | RefereeError) -> None:
            if isinstance(outcome, TimedAnswer):
                self._left_us -= outcome.wall_us
            on_answer(outcome)

        return self._session.ask(request, time_left, report)


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
    """Leaves no time for the answer: whenever it comes, it is reported as a timeout.

    The bot was given the time, and works on while the next request waits: that wait is not charged.
    """

    SAID = "a timeout on purpose"
    _late_us = 0

    def ask(self, request: bytes, time_left: TimeLeft, on_answer: OnAnswer) -> int:
        late_us, self._late_us = self._late_us, 0
        if not late_us:
            return super().ask(request, time_left, on_answer)

        def report(outcome: TimedAnswer | BotFault | RefereeError) -> None:
            on_answer(outcome._replace(us=0) if isinstance(outcome, TimedAnswer) else outcome)

        self._asked += 1
        return self._session.ask(request, TimeLeft(late_us + sum(time_left), 0), report)

    def do(self, request: bytes, time_left: TimeLeft, on_answer: OnAnswer) -> int:
        self._late_us = sum(time_left)
        timeout = BotFault(Fault.TIMEOUT, self.SAID, self._late_us)

        def report(outcome: TimedAnswer | BotFault | RefereeError) -> None:
            crashed = isinstance(outcome, BotFault) and outcome.fault is not Fault.TIMEOUT
            on_answer(outcome if crashed else timeout)

        # The session's own timer runs from the write on: no notice is sent before the request.
        return self._session.ask(request, NO_TIME, report)


class Dropped(Disturbed):
    """Ends the stream."""

    SAID = "the connection was dropped on purpose"

    def do(self, request: bytes, time_left: TimeLeft, on_answer: OnAnswer) -> int:
        self._session.fail(BotFault(Fault.CRASH, self.SAID))
        return self._session.ask(request, time_left, on_answer)

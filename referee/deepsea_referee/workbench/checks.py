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

from deepsea_referee.bots.output import hints_in, joined
from deepsea_referee.bots.pool import BotPool, Slot
from deepsea_referee.bots.process import Hosting
from deepsea_referee.bots.resolve import BotSpec
from deepsea_referee.clock import Clock, SystemClock
from deepsea_referee.errors import BotFault, BotStartError, HostTooBusy, RefereeError
from deepsea_referee.match import QUICK_US
from deepsea_referee.play_game import AskedSeat, play_game
from deepsea_referee.session import OnAnswer, Session, TimedAnswer
from deepsea_referee.workbench.advice import FLUSH, CheckResult, files, requirements
from deepsea_rules.faults import REMEDIES, Fault, FaultReport
from deepsea_rules.game import Decision, Game, GameRecord
from deepsea_rules.randomness import Stream, game_seed, seed_from_text
from deepsea_rules.ruleset import DEFAULT, MAX_PLAYERS, MIN_PLAYERS, PRESETS, RuleSet
from deepsea_rules.time_control import LONGEST_US, TimeControl
from deepsea_sdk.bot import Bot, TimeLeft
from deepsea_sdk.table import PlayedGame, RefereedGame
from deepsea_sdk.wire import CONCURRENT_GAMES, NO_EVENTS

SEED = seed_from_text("check")
TABLES = 16
"""The number of games at once in the test of whether the bot keeps games apart."""
TIME_US = 60_000_000
"""About how long the checks may take with the default clock."""
GAMES_IN_TIME = 15
"""The fraction of the time of the checks, one fifteenth, that a bot may think in one game.

After that it is not asked again in that game, so that one slow game does not use up the time of the
other checks.
"""
MORE_TIME = 4
"""The factor by which the clock is extended for a bot whose search may end by the clock."""
LONGEST_LOG = 20
"""The number of lines of the bot's output that are shown."""
NO_TIME = TimeLeft(0, 0)
FIRST = Slot(0)
"""The bot's first process, which plays all games unless the check needs a fresh process."""

WrapSession: TypeAlias = Callable[[Session], AskedSeat]
"""Wraps the bot's session, to disturb its requests."""

DECLARE = {
    "grpc": "so you may set `concurrent_games = True` in its class (faster matches)",
    "lines": 'so its first line may have `"features":["concurrent_games"]` (faster matches)',
}
"""The declaration of a bot that plays several games at once, by its protocol."""
DIFFERS = "the bot does not repeat its own games"
"""The reason why games of a bot cannot be compared, as the report says it."""
APART = (
    "keep all that it knows of a game in self, and nothing in its class or module; or do not "
    "declare concurrent_games, and a match plays its games one by one"
)
"""Advice for a bot that mixes up games that are played at the same time."""


@dataclass(frozen=True, slots=True)
class CheckReport:
    """All checks of a bot."""

    findings: list[CheckResult]
    log: list[str]
    """The last lines of the bot's output; empty unless it was at fault."""

    @property
    def is_ready(self) -> bool:
        """Return True if the bot can play matches."""
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

    rules    the rules to play; each with every number of seats, or with some if the bot is slow
    tables   how many games are played both one by one and at once; fewer if the bot is slow
    time_us  about how long the checks may take
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
                found = f"it did not {process.greeting} within {limit} s{process.aborted_at_text()}"
                remedy = REMEDIES[Fault.START_TIMEOUT] if bot.protocol == "grpc" else FLUSH
                error = process.error_text()
                findings.append(_failed("start", found, remedy, error))
            else:
                findings.append(_passed("start", "it starts and connects"))
                findings += await examination.presets(tuple(rules))
                findings += examination.clock()
                findings += examination.play()
                findings += hints(joined(*process.log()))
                findings += [
                    await examination.late_answer(),
                    await examination.dropped_connection(),
                    await examination.forgets(),
                    await examination.tables(tables, DECLARE[bot.protocol]),
                ]
    except BotStartError as error:
        remedy = REMEDIES[Fault.CRASH]
        findings.append(_failed("start", str(error), remedy, error.detail))
    log = "".join(log.text for log in pool.logs if log.bot == 0)
    return CheckReport(findings, log.splitlines()[-LONGEST_LOG:])


def hints(log: str) -> list[CheckResult]:
    """Return advice for each warning of the SDK in a bot's log, such as a misspelt method name."""
    remedy = "rename the method; give a helper a name that is not similar"
    return [_advice("methods", hint, remedy) for hint in hints_in(log)]


def _passed(name: str, found: str, *, needed: bool = True) -> CheckResult:
    """Return the result of a check that the bot has passed."""
    return CheckResult(name, ok=True, needed=needed, found=found)


def _failed(name: str, found: str, remedy: str, error: str = "") -> CheckResult:
    """Return the result of a check that a bot must pass and has not."""
    return CheckResult(name, ok=False, needed=True, found=found, remedy=remedy, error=error)


def _advice(name: str, found: str, remedy: str) -> CheckResult:
    """Return the result of a check that the bot has not passed, but need not pass."""
    return CheckResult(name, ok=False, needed=False, found=found, remedy=remedy)


@dataclass
class _Examination:
    """The checks of a bot that has started, which is the only bot of the pool.

    The order of the checks matters: `presets` collects what `clock` and `play` report, and `tables`
    needs to know from `forgets` whether the bot repeats its games.
    """

    pool: BotPool
    control: TimeControl
    time: Clock
    time_us: int
    on_game: Callable[[str], object]
    check: str = ""
    """The name of the check that is running."""
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    """The numbers of the next games; a game's seed follows from its number."""
    times_us: list[int] = field(default_factory=list)
    """The times of the bot's decisions in the games of `presets`."""
    timeouts: list[FaultReport] = field(default_factory=list)
    """The bot's timeouts in the games of `presets`."""
    points: int = 0
    """The points that the bot has scored in the games of `presets`."""
    games: int = 0
    """The number of the games of `presets`."""
    plays_default: bool = True
    """True while all decisions of the bot are those of a bot class that overrides nothing."""
    is_sound: bool = True
    """True while the bot has played without a fault."""
    repeats_games: bool = False
    """True once the bot has played the same game in the same way twice."""

    async def presets(self, rules: Sequence[RuleSet]) -> list[CheckResult]:
        """Play each preset with every number of seats, and return one result for each preset.

        The first round always has a game of each preset, with different numbers of seats. Later
        rounds change the number of seats, and end when two fifths of the time are used up. A preset
        in which the bot was at fault is not played again.
        """
        deadline_us = self.time.now_us() + self.time_us * 2 // 5
        sizes = range(MIN_PLAYERS, MAX_PLAYERS + 1)
        decision_counts: dict[str, dict[int, int]] = {preset.name: {} for preset in rules}
        failures: dict[str, CheckResult] = {}
        for turn in range(len(sizes)):
            for number, preset in enumerate(rules):
                if preset.name in failures or (turn and self.time.now_us() > deadline_us):
                    continue
                size = sizes[(turn + number) % len(sizes)]
                outcome = await self._preset(preset, size)
                if isinstance(outcome, CheckResult):
                    failures[preset.name] = outcome
                else:
                    decision_counts[preset.name][size] = outcome
        return [
            failures.get(name) or _passed(f"rules {name}", _no_fault(counts))
            for name, counts in decision_counts.items()
        ]

    async def _preset(self, rules: RuleSet, players: int) -> CheckResult | int:
        """Play a game; return the number of the bot's decisions, or a failure with its first fault.

        The game also counts for the checks of the clock and of the bot's play.
        """
        self.check = name = f"rules {rules.name}"
        seat = players % 3 % players  # the first, a middle or the last one, by the number of seats
        played, faults, decisions = await self._play(rules, players, seat)
        self.games += 1
        self.points += played.record.points[seat]
        fresh = RefereedGame(Game(rules, players, played.record.seed), "", self.control)
        if not _decides_like_default_bot(fresh, played.record, seat, len(decisions)):
            self.plays_default = False
        self.times_us += [decision.us for decision in decisions]
        self.timeouts += [fault for fault in faults if fault.fault is Fault.TIMEOUT]
        for fault in faults:
            self.is_sound = False
            found = f"with {players} seats, decision {fault.decision}: {fault.explanation()}"
            return _failed(name, found, REMEDIES[fault.fault], fault.error)
        return len(decisions)

    def clock(self) -> list[CheckResult]:
        """Check the times of the bot's decisions in the games of `presets`.

        Returns one result: a failure after a timeout, advice if decisions drew on the bank. The
        list is empty if the bot made no decision.
        """
        if not self.times_us:
            return []
        slowest, median = max(self.times_us), statistics.median_low(self.times_us)
        budget_us = self.control.budget_us
        over_budget = sum(us > budget_us for us in self.times_us)
        found = (
            f"median {median / 1000:.1f} ms, slowest {slowest / 1000:.1f} ms, "
            f"the clock is {self.control.format()}"
        )
        if self.timeouts:
            return [_failed("clock", f"timeouts: {found}", REMEDIES[Fault.TIMEOUT])]
        if over_budget:
            found = f"{over_budget} of {len(self.times_us)} decisions drew on the bank: {found}"
            remedy = "plan with self.clock.budget, the seconds that cost nothing"
            return [_advice("clock", found, remedy)]
        return [_passed("clock", found)]

    def play(self) -> list[CheckResult]:
        """Give advice if a bot without faults scored no points in all games of `presets`.

        The list is empty otherwise.
        """
        if self.points or not self.is_sound:
            return []
        found = f"it brought nothing home in {self.games} games"
        remedy = "have it take treasure, and turn back while the air lasts"
        if self.plays_default:
            found += ": it plays exactly like the empty Bot class, and no method of yours is called"
            remedy = "override turn_back and search, and spell them so"
        return [_advice("play", found, remedy)]

    async def late_answer(self) -> CheckResult:
        """Treat one answer as a timeout: the bot must continue and answer the next requests."""
        self.check = name = "late answer"
        _, faults, decisions = await self._play(
            PRESETS[DEFAULT], players=2, seat=0, wrap_session=LateAnswerSession
        )
        other_faults = [fault for fault in faults if fault.came != LateAnswerSession.MESSAGE]
        if other_faults:
            found = f"after a timeout: {other_faults[0].explanation()}"
            remedy = "answer every request, also after on_fault: a fault does not end the game"
            if not self.is_sound:
                remedy = REMEDIES[other_faults[0].fault]
            return _failed(name, found, remedy, other_faults[0].error)
        answered = len(decisions) - len(faults)
        return _passed(name, f"after a deliberate timeout it answered the next {answered} requests")

    async def dropped_connection(self) -> CheckResult:
        """Drop the connection during a game: the program must exit, and start again."""
        self.check = name = "dropped connection"
        process = await self.pool.ready(FIRST)
        await self._play(PRESETS[DEFAULT], players=2, seat=0, wrap_session=DroppedSession)
        end = await process.exit_text()
        if process.running:
            remedy = "end the program when the stream ends, as deepsea_sdk.run does"
            return _failed(name, f"{end} after the connection was dropped", remedy)
        _, faults, _ = await self._play(PRESETS[DEFAULT], players=2, seat=0)
        if faults:
            found = f"restarted: {faults[0].explanation()}"
            remedy = REMEDIES[faults[0].fault]
            return _failed(name, found, remedy, faults[0].error)
        return _passed(name, "it exited, was restarted and played")

    async def forgets(self) -> CheckResult:
        """Check that a bot forgets earlier games: it must play a game as in a fresh process.

        The search of a bot may end by the clock, and then differ from run to run. So a difference
        is only reported if the bot neither uses all its time nor repeats the game with more time.
        """
        self.check = name = "same again"
        if not self.is_sound:
            return _advice(name, "skipped", "fix its faults first")
        difference = await self._first_difference_to_fresh_process()
        if difference is None:
            self.repeats_games = True
            return _passed(name, "the same game was played in the same way twice", needed=False)
        if await self._uses_all_its_time():
            found = f"not tested: {DIFFERS}, since it thinks for as long as the clock allows"
            return _passed(name, found, needed=False)
        longer = _longer(self.control, MORE_TIME)
        if await self._first_difference_to_fresh_process(longer) is None:
            self.repeats_games = True
            found = (
                f"with {longer.format()} it repeats its game: with {self.control.format()} the "
                "clock ends its search"
            )
            return _passed(name, found, needed=False)
        return _advice(
            name,
            f"the same game was played differently from its decision {difference + 1} on",
            "reset the state of the last game in on_game_start, and seed random numbers with "
            "info.commitment and info.seat",
        )

    async def _first_difference_to_fresh_process(
        self, control: TimeControl | None = None
    ) -> int | None:
        """Play a game after another one and in a fresh process, and compare the decisions.

        Returns the index of the first decision of the bot that differs, or None if all are equal.
        """
        await self._decisions(next(self.numbers), control)
        number = next(self.numbers)
        after_another = await self._decisions(number, control)
        await self.pool.dismiss_others(0)
        return _first_difference(after_another, await self._decisions(number, control))

    async def _uses_all_its_time(self) -> bool:
        """Return True if the bot thinks longer when it has more time.

        Such a bot searches until its time is up, so its decisions depend on the speed of the host.
        A quick bot does not: on a busy host its few microseconds may double by themselves.
        """
        if statistics.median_low(self.times_us) < QUICK_US:
            return False
        slow = await self._decisions(next(self.numbers), _longer(self.control, MORE_TIME))
        median_us = statistics.median_low([decision.us for decision in slow] or [0])
        return median_us > 2 * statistics.median_low(self.times_us)

    async def tables(self, count: int, declare: str) -> CheckResult:
        """Play the same games one after another and all at once, and compare the decisions.

        A difference is a failure if the bot declares that it plays several games at once. If it
        does not, the result tells whether it could, and `declare` says how to declare that. A slow
        bot that declares nothing is not tested.

        count    the largest number of games
        declare  the sentence that tells the author how to declare it
        """
        self.check = name = "tables"
        process = await self.pool.ready(FIRST)
        declared = CONCURRENT_GAMES in process.session.features
        untested = CheckResult(
            name, ok=not declared, needed=False, found=f"not tested: {DIFFERS}", remedy=APART
        )
        if not self.repeats_games:
            return untested
        if not declared and statistics.median_low(self.times_us) >= QUICK_US:
            found = "one game at a time, as for all bots that take more than 1 ms for a decision"
            return _passed(name, found, needed=False)
        limit_us = self.control.budget_us + self.control.bank_us
        if max(self.times_us) > limit_us // MORE_TIME and await self._uses_all_its_time():
            return untested
        # Games that are played at once share the bot's time, so each gets as many times the clock.
        longer = _longer(self.control, count)
        decisions_alone: dict[int, list[Decision]] = {}
        deadline_us = self.time.now_us() + self.time_us // 8
        for _ in range(count):
            if len(decisions_alone) > 1 and self.time.now_us() > deadline_us:
                break
            number = next(self.numbers)
            decisions_alone[number] = await self._decisions(number, longer)
        count = len(decisions_alone)
        decisions_at_once = await asyncio.gather(
            *(self._decisions(number, longer, count) for number in decisions_alone)
        )
        different = [
            number
            for number, decisions in zip(decisions_alone, decisions_at_once, strict=True)
            if _first_difference(decisions_alone[number], decisions) is not None
        ]
        if different:
            # The difference proves nothing if the bot does not even repeat this game alone.
            repeated = await self._decisions(different[0], longer)
            if _first_difference(decisions_alone[different[0]], repeated) is not None:
                return untested
        if different and declared:
            found = f"{len(different)} of {count} games were played differently with all on at once"
            return _failed(name, found, APART)
        if different:
            found = f"one game at a time: {len(different)} of {count} differ with all on at once"
        elif declared:
            found = f"the same decisions in {count} games one by one and at once"
        else:
            found = f"one game at a time. {count} at once gave the same decisions, {declare}"
        return _passed(name, found, needed=False)

    async def _decisions(
        self, number: int, control: TimeControl | None = None, games_at_once: int = 1
    ) -> list[Decision]:
        """Play the game with this number with the bot in the first of two seats.

        Returns the bot's decisions. `games_at_once` is the number of games that run at the same
        time, this one included.
        """
        _, _, decisions = await self._play(
            PRESETS[DEFAULT],
            players=2,
            seat=0,
            number=number,
            control=control,
            games_at_once=games_at_once,
        )
        return decisions

    async def _play(
        self,
        rules: RuleSet,
        players: int,
        seat: int,
        wrap_session: WrapSession | None = None,
        number: int | None = None,
        control: TimeControl | None = None,
        games_at_once: int = 1,
    ) -> tuple[PlayedGame, list[FaultReport], list[Decision]]:
        """Play a game with the bot in one seat and random players in the others.

        Returns the game, the bot's faults, and the decisions that the bot itself made: once it has
        used its share of the time for the checks, a random player decides for it. If the host was
        too busy, so that the game is void, another one is played.

        wrap_session   wraps the bot's session, to disturb its requests
        number         decides the seed; None for a new game
        control        the clock; None for that of the checks
        games_at_once  the number of games that run at the same time, this one included

        Raises RefereeError if the game is void.
        """

        async def play_once() -> tuple[PlayedGame, list[FaultReport], list[Decision]]:
            """Play one game; the seats without the bot get random players."""
            count = next(self.numbers)
            game = Game(rules, players, game_seed(SEED, number or count))
            seats: dict[int, Callable[[Session], AskedSeat]] = {
                other: partial(RandomSeat, game, other) for other in range(players) if other != seat
            }
            tested_seats: list[TimeLimitedSeat] = []

            def limit_time(session: Session) -> AskedSeat:
                bot = session if wrap_session is None else wrap_session(session)
                limit_us = max(0, self.time_us // GAMES_IN_TIME * games_at_once)
                tested_seats.append(TimeLimitedSeat(bot, RandomSeat(game, seat), limit_us))
                return tested_seats[-1]

            seats[seat] = limit_time
            refereed = RefereedGame(game, f"check-{count:03}", control or self.control)
            # A fault that a wrapper provokes on purpose is not the bot's.
            blamed = [seat] if wrap_session is None else []
            with self.pool.table([0] * players, game.seed) as slots:
                played = await play_game(refereed, self.pool, slots, seats, blamed=blamed)
            self.on_game(self.check)
            decisions = [decision for decision in played.record.decisions if decision.seat == seat]
            faults = [fault for fault in played.faults if fault.seat == seat]
            return played, faults, decisions[: tested_seats[-1].requests]

        try:
            return await play_once()
        except HostTooBusy:
            return await play_once()


def _no_fault(decisions: Mapping[int, int]) -> str:
    """Describe games without a fault; `decisions` is the number of decisions by number of seats."""
    sizes = sorted(decisions)
    several = f"{MIN_PLAYERS} to {MAX_PLAYERS}"
    if len(sizes) < MAX_PLAYERS - MIN_PLAYERS + 1:
        several = ", ".join(map(str, sizes)) + " (the bot is slow: other sizes were left out)"
    return f"{sum(decisions.values())} decisions in games of {several}, no fault"


def _longer(control: TimeControl, times: int) -> TimeControl:
    """Return a clock with up to `times` times the budget and the bank of another one.

    The factor is smaller if the sum would exceed the longest allowed time.
    """
    limits = (control.budget_us, control.bank_us)
    times = max(1, min(times, LONGEST_US // sum(limits)))
    return TimeControl(*(times * us for us in limits))


def _first_difference(first: Sequence[Decision], second: Sequence[Decision]) -> int | None:
    """Return the index of the first action in which a seat's decisions in two games differ.

    Returns None if there is none. The lengths are not compared: as long as all decisions of a seat
    are the same, so is the rest of the game.
    """
    for index, (a, b) in enumerate(zip(first, second, strict=False)):
        if a.action != b.action:
            return index
    return None


def _decides_like_default_bot(
    refereed: RefereedGame, record: GameRecord, seat: int, decisions: int
) -> bool:
    """Return True if a seat decided like a Python bot that overrides no method.

    refereed   the same game before its first decision; the recorded decisions are played in it
    decisions  how many of the seat's decisions are compared, from the first one
    """
    default_bot = Bot()
    compared = 0
    for decision in record.decisions:
        refereed.game.pending()  # rolls the dice if that is due
        if decision.seat == seat and compared < decisions:
            compared += 1
            if default_bot.decide(refereed.game.view(seat)) != decision.action:
                return False
        refereed.repeat(decision)
    return True


# Seats without a process


class RandomSeat:
    """A seat of one game that chooses uniformly among the legal actions, in this process.

    Its choices follow from the game's commitment and the seat, as those of the sample bot `random`
    do. It answers in a later pass of the event loop, as a bot does, and takes no time.
    """

    features = frozenset({NO_EVENTS})

    def __init__(self, game: Game, seat: int, _session: object = None) -> None:
        self._game = game
        self._chance = Stream(bytes.fromhex(game.commitment), f"random/{seat}")

    def send(self, message: bytes) -> None:
        """Ignore the message: this seat needs no knowledge of the game."""

    def ask(self, request: bytes, time_left: TimeLeft, on_answer: OnAnswer) -> int:
        """Choose an action for the pending question, and pass it to `on_answer` a little later.

        The request itself is not read. Returns 0 as the request's id, which nobody needs here.
        """
        question = self._game.pending()
        assert question is not None
        action = question.legal[self._chance.uniform(len(question.legal))]
        asyncio.get_running_loop().call_soon(on_answer, TimedAnswer(action, 0))
        return 0


class TimeLimitedSeat:
    """A seat in which a bot decides until its time is used up, and a substitute afterwards."""

    def __init__(self, session: AskedSeat, substitute: AskedSeat, limit_us: int) -> None:
        self._session = session
        self._substitute = substitute
        self._remaining_us = limit_us
        self.requests = 0
        """The number of requests that the bot has received."""

    @property
    def features(self) -> AbstractSet[str]:
        return self._session.features

    def send(self, message: bytes) -> None:
        self._session.send(message)

    def ask(self, request: bytes, time_left: TimeLeft, on_answer: OnAnswer) -> int:
        """Ask the bot, or the substitute once the bot's time is used up."""
        if self._remaining_us < 0:
            return self._substitute.ask(request, time_left, on_answer)
        self.requests += 1

        def report(outcome: TimedAnswer | BotFault | RefereeError) -> None:
            if isinstance(outcome, TimedAnswer):
                self._remaining_us -= outcome.wall_us
            on_answer(outcome)

        return self._session.ask(request, time_left, report)


# Sessions that are disturbed on purpose


class DisturbedSession:
    """A wrapper of a session that disturbs the third request."""

    MESSAGE = ""
    """The text of the fault that the disturbance causes."""
    REQUEST = 3
    """The number of the request that is disturbed, from 1."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._requests = 0

    @property
    def features(self) -> frozenset[str]:
        return self._session.features

    def send(self, message: bytes) -> None:
        self._session.send(message)

    def ask(self, request: bytes, time_left: TimeLeft, on_answer: OnAnswer) -> int:
        """Forward a request to the session, or disturb it if its turn has come."""
        self._requests += 1
        if self._requests == self.REQUEST:
            return self.disturb(request, time_left, on_answer)
        return self._session.ask(request, time_left, on_answer)

    def disturb(self, request: bytes, time_left: TimeLeft, on_answer: OnAnswer) -> int:
        """Send the request that is to be disturbed."""
        raise NotImplementedError


class LateAnswerSession(DisturbedSession):
    """Reports the answer to one request as a timeout, whenever it comes.

    The bot believes that it has its usual time, and may still work on that request when the next
    one arrives. So the next request gets this time in addition, and is not charged.
    """

    MESSAGE = "a timeout on purpose"
    _late_us = 0
    """The time that the bot was promised for the disturbed request; 0 for all other requests."""

    def ask(self, request: bytes, time_left: TimeLeft, on_answer: OnAnswer) -> int:
        """Forward a request; the one after the timeout has more time, and is not charged."""
        late_us, self._late_us = self._late_us, 0
        if not late_us:
            return super().ask(request, time_left, on_answer)

        def report(outcome: TimedAnswer | BotFault | RefereeError) -> None:
            on_answer(outcome._replace(us=0) if isinstance(outcome, TimedAnswer) else outcome)

        self._requests += 1
        return self._session.ask(request, TimeLeft(late_us + sum(time_left), 0), report)

    def disturb(self, request: bytes, time_left: TimeLeft, on_answer: OnAnswer) -> int:
        """Ask without any time; report a timeout unless the bot does something worse."""
        self._late_us = sum(time_left)
        timeout = BotFault(Fault.TIMEOUT, self.MESSAGE, self._late_us)

        def report(outcome: TimedAnswer | BotFault | RefereeError) -> None:
            crashed = isinstance(outcome, BotFault) and outcome.fault is not Fault.TIMEOUT
            on_answer(outcome if crashed else timeout)

        # The session's own timer runs from the write on: no notice is sent before the request.
        return self._session.ask(request, NO_TIME, report)


class DroppedSession(DisturbedSession):
    """Ends the stream when one of the requests is due."""

    MESSAGE = "the connection was dropped on purpose"

    def disturb(self, request: bytes, time_left: TimeLeft, on_answer: OnAnswer) -> int:
        """End the stream, then ask: the session reports the fault as its answer."""
        self._session.fail(BotFault(Fault.CRASH, self.MESSAGE))
        return self._session.ask(request, time_left, on_answer)

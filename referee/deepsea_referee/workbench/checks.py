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
FIRST_PROCESS = Slot(0)
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
            process = await pool.ready(FIRST_PROCESS)
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

        In the first round, each preset is played once, with different numbers of seats. Later
        rounds change the number of seats, and end when two fifths of the time are used up. A preset
        in which the bot was at fault is not played again.
        """
        deadline_us = self.time.now_us() + self.time_us * 2 // 5  # other checks need the rest
        seat_counts = range(MIN_PLAYERS, MAX_PLAYERS + 1)
        # For each preset the number of the bot's decisions, by the number of seats.
        decision_counts: dict[str, dict[int, int]] = {preset.name: {} for preset in rules}
        failures: dict[str, CheckResult] = {}
        for round_number in range(len(seat_counts)):
            for index, preset in enumerate(rules):
                is_late = round_number > 0 and self.time.now_us() > deadline_us
                if preset.name in failures or is_late:
                    continue
                seats = seat_counts[(round_number + index) % len(seat_counts)]
                outcome = await self._preset(preset, seats)
                if isinstance(outcome, CheckResult):
                    failures[preset.name] = outcome
                else:
                    decision_counts[preset.name][seats] = outcome
        return [
            failures.get(name) or _passed(f"rules {name}", _no_fault_text(counts))
            for name, counts in decision_counts.items()
        ]

    async def _preset(self, rules: RuleSet, players: int) -> CheckResult | int:
        """Play a game; return the number of the bot's decisions, or a failure with its first fault.

        What the later checks `clock` and `play` report is collected here, too.

        players  the number of seats
        """
        self.check = name = f"rules {rules.name}"
        seat = _tested_seat(players)
        played, faults, decisions = await self._play(rules, players, seat)
        self.games += 1
        self.points += played.record.points[seat]
        new_game = RefereedGame(Game(rules, players, played.record.seed), "", self.control)
        if not _decides_like_default_bot(new_game, played.record, seat, len(decisions)):
            self.plays_default = False
        self.times_us += [decision.us for decision in decisions]
        self.timeouts += [fault for fault in faults if fault.fault is Fault.TIMEOUT]
        if not faults:
            return len(decisions)
        self.is_sound = False
        first = faults[0]
        found = f"with {players} seats, decision {first.decision}: {first.explanation()}"
        return _failed(name, found, REMEDIES[first.fault], first.error)

    def clock(self) -> list[CheckResult]:
        """Check the times of the bot's decisions in the games of `presets`.

        Returns one result: a failure after a timeout, advice if decisions took longer than the
        budget and so drew on the bank. The list is empty if the bot made no decision.
        """
        if not self.times_us:
            return []
        slowest_us, median_us = max(self.times_us), statistics.median_low(self.times_us)
        over_budget = sum(us > self.control.budget_us for us in self.times_us)
        found = (
            f"median {median_us / 1000:.1f} ms, slowest {slowest_us / 1000:.1f} ms, "
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
        """Return advice if the bot has scored no points in the games of `presets`, without a fault.

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
        _game, faults, decisions = await self._play(
            PRESETS[DEFAULT], players=2, seat=0, wrap_session=LateAnswerSession
        )
        own_faults = [fault for fault in faults if fault.came != LateAnswerSession.MESSAGE]
        if own_faults:
            first = own_faults[0]
            found = f"after a timeout: {first.explanation()}"
            if self.is_sound:  # it had no fault in other games: the timeout is the cause
                remedy = "answer every request, also after on_fault: a fault does not end the game"
            else:
                remedy = REMEDIES[first.fault]
            return _failed(name, found, remedy, first.error)
        answered = len(decisions) - len(faults)
        return _passed(name, f"after a deliberate timeout it answered the next {answered} requests")

    async def dropped_connection(self) -> CheckResult:
        """Drop the connection during a game: the program must exit, and play once started again."""
        self.check = name = "dropped connection"
        process = await self.pool.ready(FIRST_PROCESS)
        await self._play(PRESETS[DEFAULT], players=2, seat=0, wrap_session=DroppedSession)
        exit_text = await process.exit_text()  # waits for the exit, for a short time
        if process.running:
            remedy = "end the program when the stream ends, as deepsea_sdk.run does"
            return _failed(name, f"{exit_text} after the connection was dropped", remedy)
        # The pool starts the program again for the next game.
        _game, faults, _decisions = await self._play(PRESETS[DEFAULT], players=2, seat=0)
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
        longer = _longer_clock(self.control, MORE_TIME)
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
        """Play a game in a process that has played before, and in a fresh one, and compare them.

        Returns the index of the first decision of the bot that differs, or None if all are equal.

        control  the clock; None for that of the checks
        """
        # The result of this game does not matter: it gives the process something to forget.
        await self._decisions(next(self.numbers), control)
        number = next(self.numbers)
        decisions_after_a_game = await self._decisions(number, control)
        # The pool never plays the same game twice in one process. With all others ended, it must
        # start a new one.
        await self.pool.dismiss_others(bot=0)
        decisions_when_fresh = await self._decisions(number, control)
        return _first_difference(decisions_after_a_game, decisions_when_fresh)

    async def _uses_all_its_time(self) -> bool:
        """Return True if the bot thinks longer when it has more time.

        Such a bot searches until its time is up, so its decisions depend on the speed of the host.
        A quick bot does not: on a busy host its few microseconds may double by themselves.
        """
        if statistics.median_low(self.times_us) < QUICK_US:
            return False
        longer_clock = _longer_clock(self.control, MORE_TIME)
        decisions = await self._decisions(next(self.numbers), longer_clock)
        median_us = statistics.median_low([decision.us for decision in decisions] or [0])
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
        process = await self.pool.ready(FIRST_PROCESS)
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
        longer = _longer_clock(self.control, count)
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
        """Play a game with the bot in the first of two seats, and return the bot's decisions.

        number         the number of the game, from which its seed follows
        control        the clock; None for that of the checks
        games_at_once  the number of games that run at the same time, this one included
        """
        _game, _faults, decisions = await self._play(
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
            """Play the game once; each call gets another id."""
            new_number = next(self.numbers)
            game = Game(rules, players, game_seed(SEED, number or new_number))
            tested_seats: list[TimeLimitedSeat] = []  # the seat of the bot, once the game begins

            def limit_time(session: Session) -> AskedSeat:
                bot = session if wrap_session is None else wrap_session(session)
                limit_us = max(0, self.time_us // GAMES_IN_TIME * games_at_once)
                tested_seat = TimeLimitedSeat(bot, RandomSeat(game, seat), limit_us)
                tested_seats.append(tested_seat)
                return tested_seat

            # Who is asked in each seat: `play_game` wants a function of the bot's session.
            players_of_seats: dict[int, Callable[[Session], AskedSeat]] = {seat: limit_time}
            for other_seat in range(players):
                if other_seat != seat:
                    players_of_seats[other_seat] = partial(RandomSeat, game, other_seat)
            refereed = RefereedGame(game, f"check-{new_number:03}", control or self.control)
            # A fault that a wrapper provokes on purpose is not the bot's.
            blamed = [seat] if wrap_session is None else []
            line_up = [0] * players  # the bot is the only one of the pool
            with self.pool.table(line_up, game.seed) as slots:
                played = await play_game(
                    refereed, self.pool, slots, players_of_seats, blamed=blamed
                )
            self.on_game(self.check)
            decisions = [decision for decision in played.record.decisions if decision.seat == seat]
            faults = [fault for fault in played.faults if fault.seat == seat]
            # After these requests, a random player has decided.
            own_decisions = decisions[: tested_seats[-1].requests]
            return played, faults, own_decisions

        try:
            return await play_once()
        except HostTooBusy:
            return await play_once()


def _tested_seat(players: int) -> int:
    """Return the seat of the bot in a game: the first, a middle or the last one.

    It differs between games with different numbers of seats.
    """
    return players % 3 % players


def _no_fault_text(decision_counts: Mapping[int, int]) -> str:
    """Describe for the author the games of a preset in which the bot was never at fault.

    decision_counts  the number of the bot's decisions, by the number of seats
    """
    seat_counts = f"{MIN_PLAYERS} to {MAX_PLAYERS}"
    if len(decision_counts) < MAX_PLAYERS - MIN_PLAYERS + 1:
        played = ", ".join(map(str, sorted(decision_counts)))
        seat_counts = f"{played} (the bot is slow: other sizes were left out)"
    return f"{sum(decision_counts.values())} decisions in games of {seat_counts}, no fault"


def _longer_clock(control: TimeControl, factor: int) -> TimeControl:
    """Return a clock with `factor` times the budget and `factor` times the bank of another one.

    The factor is smaller if their sum would exceed the longest allowed time.
    """
    largest_factor = LONGEST_US // (control.budget_us + control.bank_us)
    factor = max(1, min(factor, largest_factor))
    return TimeControl(factor * control.budget_us, factor * control.bank_us)


def _first_difference(first: Sequence[Decision], second: Sequence[Decision]) -> int | None:
    """Return the index of the first decision in which a seat acts differently in two games.

    Returns None if there is none. The lengths are not compared: as long as all decisions of a seat
    are the same, so is the rest of the game.
    """
    for index, (decision, other) in enumerate(zip(first, second, strict=False)):
        if decision.action != other.action:
            return index
    return None


def _decides_like_default_bot(
    refereed: RefereedGame, record: GameRecord, seat: int, decisions: int
) -> bool:
    """Return True if a seat of a recorded game decided like a Python bot that overrides no method.

    refereed   the same game before its first decision; the recorded decisions are played in it
    decisions  how many of the seat's decisions are compared, from the first one
    """
    default_bot = Bot()
    compared = 0
    for decision in record.decisions:
        refereed.game.pending()  # rolls the dice if that is due
        if decision.seat == seat and compared < decisions:
            compared += 1
            default_action = default_bot.decide(refereed.game.view(seat))
            if decision.action != default_action:
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
        self._random = Stream(bytes.fromhex(game.commitment), f"random/{seat}")

    def send(self, message: bytes) -> None:
        """Ignore the message: this seat needs no knowledge of the game."""

    def ask(self, request: bytes, time_left: TimeLeft, on_answer: OnAnswer) -> int:
        """Choose a random action, and pass it to `on_answer` in the next pass of the event loop.

        The request and the time are not read: the legal actions are known from the game. Returns 0
        as the id of the request, which nobody uses.
        """
        question = self._game.pending()
        assert question is not None
        index = self._random.uniform(len(question.legal))
        answer = TimedAnswer(question.legal[index], us=0)
        asyncio.get_running_loop().call_soon(on_answer, answer)
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
        """Ask the bot, or the substitute once the bot's time is used up.

        Returns the id of the request.
        """
        if self._remaining_us < 0:
            return self._substitute.ask(request, time_left, on_answer)
        self.requests += 1

        def charge_and_report(outcome: TimedAnswer | BotFault | RefereeError) -> None:
            if isinstance(outcome, TimedAnswer):
                self._remaining_us -= outcome.wall_us
            on_answer(outcome)

        return self._session.ask(request, time_left, charge_and_report)


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
    _promised_us = 0
    """The time that the bot was promised for a request that was just disturbed; else 0."""

    def ask(self, request: bytes, time_left: TimeLeft, on_answer: OnAnswer) -> int:
        """Forward a request; the one after the disturbed request has more time, without charge.

        The bot may still work on the disturbed request until the time that it was promised for it
        is over. So that time is added.
        """
        promised_us = self._promised_us
        if promised_us == 0:
            return super().ask(request, time_left, on_answer)
        self._promised_us = 0

        def report_without_charge(outcome: TimedAnswer | BotFault | RefereeError) -> None:
            if isinstance(outcome, TimedAnswer):
                outcome = outcome._replace(us=0)
            on_answer(outcome)

        self._requests += 1
        longer_time = TimeLeft(budget_us=promised_us + sum(time_left), bank_us=0)
        return self._session.ask(request, longer_time, report_without_charge)

    def disturb(self, request: bytes, time_left: TimeLeft, on_answer: OnAnswer) -> int:
        """Send a request for which the session allows no time, and report a timeout.

        Another fault of the bot, such as a crash, is reported as it is. The bot is promised its
        usual time, which is stored for the next request.
        """
        self._promised_us = sum(time_left)
        timeout = BotFault(Fault.TIMEOUT, self.MESSAGE, self._promised_us)

        def report_timeout(outcome: TimedAnswer | BotFault | RefereeError) -> None:
            if isinstance(outcome, BotFault) and outcome.fault is not Fault.TIMEOUT:
                on_answer(outcome)
            else:
                on_answer(timeout)

        # The session's timer begins once the request was written: so the bot receives the request
        # before the notice of its timeout.
        return self._session.ask(request, NO_TIME, report_timeout)


class DroppedSession(DisturbedSession):
    """Ends the stream when one of the requests is due."""

    MESSAGE = "the connection was dropped on purpose"

    def disturb(self, request: bytes, time_left: TimeLeft, on_answer: OnAnswer) -> int:
        """End the stream, then ask: the session reports the fault as its answer."""
        self._session.fail(BotFault(Fault.CRASH, self.MESSAGE))
        return self._session.ask(request, time_left, on_answer)

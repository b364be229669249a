"""Analysis of recorded games: what each decision was worth, and how much was luck.

Invariants: records are verified first; a result depends on the record and the settings alone: each
decision and each roll has a random stream of its own, so that any number of workers gives the same
result; a decision is judged by what its seat knew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import starmap
from math import fsum, sqrt
from typing import NamedTuple

from deepsea_referee.workers import Link, Perform, results_in_order
from deepsea_rules.errors import InvalidRecord
from deepsea_rules.faults import Fault
from deepsea_rules.game import GameRecord, RecordSeat, verify
from deepsea_rules.scoring import placement_scores
from deepsea_rules.view import view_for
from deepsea_sdk.coach.decisions import (
    FEWEST,
    MARKS,
    SURE,
    Effort,
    Estimate,
    Judgement,
    Mark,
    PlayedDecision,
    Step,
    game_steps,
    judge_many,
    luck_of_many,
    mark_of,
)
from deepsea_sdk.coach.roll_outs import Stream
from deepsea_sdk.policies import steady

LUCK_ROLLOUTS = 200
"""Default number of roll-outs for luck.

With it the luck of a roll is known to about ±0.015, and that of a seat in a game to about ±0.12.
"""
SHARE = 40
"""Number of steps of a game that are analysed together.

A larger batch takes no less time for each step.
"""
Finding = Judgement | list[Estimate]
"""The result of a step: the judgement of a decision, or each seat's luck in a chance event."""
KINDS = ("declare", "search", "order")
GRAVE = ("?", "??")
"""The marks that a dive may have, the graver one last."""


@dataclass(frozen=True, slots=True)
class AnalysisSettings:
    """The decisions that are judged, and the number of roll-outs for each.

    effort  how long the options of a decision are compared
    luck    roll-outs for each sum that the dice may show, and before and after each reveal of
            values; 0: luck is not measured
    seat    the seat whose decisions are judged; None: all
    bot     the name of the bot whose decisions are judged; None: all
    seed    a text from which all random numbers follow
    deviations  only decisions other than those of the policy of the roll-outs are judged, which is
                what a report on weaknesses needs, in a third of the time
    """

    effort: Effort
    luck: int = 0
    seat: int | None = None
    seed: str = ""
    bot: str | None = None
    deviations: bool = False


class AnalysedDecision(NamedTuple):
    """A decision of a game."""

    number: int
    """The index of the decision in the game."""
    seat: int
    turn: int
    """The number of its turn, from 1."""
    fault: Fault | None
    """The fault for which the default action was played; None if the bot chose the action."""
    judged: Judgement


class MarkedDive(NamedTuple):
    """A dive of a seat whose decisions together lost so much that a graver mark is due.

    No single decision of the dive has that mark.
    """

    seat: int
    dive: int
    last: int
    """The number of its last decision."""
    loss: Estimate
    """The sum of the losses of its decisions."""
    mark: Mark


class ChanceEvent(NamedTuple):
    """A roll of the dice, or a reveal of values."""

    turn: int
    """The turn of the roll, or the turn before the reveal."""
    seat: int | None
    """The seat that rolled; None for a reveal."""
    dice: tuple[int, int] | None
    luck: tuple[Estimate, ...]
    """The change of each seat's expected placement score."""


@dataclass(frozen=True, slots=True)
class GameAnalysis:
    """A game that was analysed."""

    name: str
    """The name of the record, such as its file's."""
    record: GameRecord
    decisions: tuple[AnalysedDecision, ...]
    chances: tuple[ChanceEvent, ...]
    """Empty if luck was not measured."""

    @property
    def results(self) -> list[float]:
        """The placement score of each seat."""
        return placement_scores(self.record.placements)

    @property
    def marked_dives(self) -> list[MarkedDive]:
        """The dives that have a mark, in the order of their last decisions."""
        decisions: dict[tuple[int, int], list[AnalysedDecision]] = {}
        for decision in self.decisions:
            # The error of a loss says little after fewer roll-outs.
            if min(option.rollouts for option in decision.judged.options) >= FEWEST:
                key = (decision.seat, decision.judged.dive)
                decisions.setdefault(key, []).append(decision)
        marked = []
        for (seat, dive), dive_decisions in decisions.items():
            loss = sum_of(decision.judged.loss for decision in dive_decisions)
            if mark := graver_mark(loss, [decision.judged.mark for decision in dive_decisions]):
                marked.append(MarkedDive(seat, dive, dive_decisions[-1].number, loss, mark))
        return sorted(marked, key=lambda dive: dive.last)


@dataclass(slots=True)
class Lost:
    """The losses of some decisions."""

    losses: list[Estimate] = field(default_factory=list)
    marks: Counter[str] = field(default_factory=Counter)

    def add(self, decision: AnalysedDecision) -> None:
        """Count the loss and the mark of a decision."""
        self.losses.append(decision.judged.loss)
        if decision.judged.mark:
            self.marks[decision.judged.mark] += 1

    @property
    def decisions(self) -> int:
        """The number of decisions."""
        return len(self.losses)

    @property
    def loss(self) -> Estimate:
        """The sum of the losses.

        Its error is that of the roll-outs, not that of the choice of games.
        """
        return sum_of(self.losses)

    @property
    def mean(self) -> float:
        """The mean loss of a decision; 0 without decisions."""
        return self.loss.mean / self.decisions if self.losses else 0.0

    @property
    def counts(self) -> list[int]:
        """The number of decisions with each mark, in the order of `MARKS`."""
        return [self.marks[name] for _, name in MARKS]


@dataclass(frozen=True, slots=True)
class SeatLuck:
    """The luck of a seat in a game, in placement score."""

    own_dice: Estimate
    """Luck in the seat's own rolls."""
    other_dice: Estimate
    """Luck in the rolls of the other seats."""
    values: Estimate
    """Luck in the values of chips."""

    @property
    def total(self) -> Estimate:
        """The sum of the three parts."""
        return sum_of((self.own_dice, self.other_dice, self.values))


@dataclass(frozen=True, slots=True)
class SeatSums:
    """The losses, the result and the luck of one seat in one game."""

    seat: int
    bot: RecordSeat
    lost: Lost
    result: float
    """The seat's placement score."""
    luck: SeatLuck | None
    """None if it was not measured."""

    @property
    def adjusted(self) -> Estimate | None:
        """The result less the luck, with the error of the luck; None if luck was not measured."""
        if self.luck is None:
            return None
        return Estimate(self.result - self.luck.total.mean, self.luck.total.error)


@dataclass(slots=True)
class BotSums:
    """The losses and results of one bot in all games, whatever its seats were."""

    bot: RecordSeat
    losses: list[float] = field(default_factory=list)
    """The loss in each game."""
    lost: Lost = field(default_factory=Lost)
    """The losses in all games."""
    kinds: dict[str, Lost] = field(default_factory=dict)
    """The losses by the kind of decision."""
    dives: dict[int, Lost] = field(default_factory=dict)
    """The losses by the number of the dive."""
    results: list[float] = field(default_factory=list)
    """The placement score in each game."""
    adjusted: list[float] = field(default_factory=list)
    """The placement score less the luck, in each game whose luck was measured."""

    @property
    def games(self) -> int:
        """The number of games."""
        return len(self.results)


class Analysis:
    """An analysis of recorded games. `run` does the work."""

    def __init__(
        self, records: Iterable[tuple[str, GameRecord]], settings: AnalysisSettings
    ) -> None:
        """Replay the records, each of which comes with its name.

        Raises InvalidRecord, with the name, if the replay of a record differs from it.
        """
        self._settings = settings
        self._jobs = [_Job(name, record, settings) for name, record in records]
        self.interrupted = ""
        """Words for where Ctrl-C ended the run, such as "after 3 of 10 games"; "" if it did not."""

    @property
    def steps(self) -> int:
        """The number of decisions, rolls and reveals to be analysed."""
        return sum(len(job.step_numbers) for job in self._jobs)

    def run(
        self,
        *,
        workers: int = 1,
        on_steps: Callable[[int], object] = lambda steps: None,
        enough: type[Exception] | tuple[()] = (),
    ) -> list[GameAnalysis]:
        """Analyse the games, in this process or in several workers.

        After Ctrl-C return the games that are complete. If no game is, return the first one with
        the decisions that were judged, and without luck.

        on_steps  called with the number of further steps that have been analysed
        enough    an exception of `on_steps` that ends the run with the games that are complete

        Raises RefereeError if a worker ended, KeyboardInterrupt if no step had a result before it.
        """
        try:
            self._analyse_steps(workers, on_steps)
        except enough:
            return [job.analysis() for job in self._jobs if job.is_complete]
        except KeyboardInterrupt:
            self.interrupted = "in the first game"
        complete = [job for job in self._jobs if job.is_complete]
        if complete and self.interrupted:
            self.interrupted = f"after {len(complete)} of {len(self._jobs)} games"
        if complete or not self.interrupted:
            return [job.analysis() for job in complete]
        begun = [job for job in self._jobs if job.findings]
        if not begun:
            raise KeyboardInterrupt
        return [replace(begun[0].analysis(), chances=())]

    def _analyse_steps(self, workers: int, on_steps: Callable[[int], object]) -> None:
        """Analyse all steps in shares of at most `SHARE`, and add the findings to their games."""
        shares = [
            (job, job.step_numbers[first : first + SHARE])
            for job in self._jobs
            for first in range(0, len(job.step_numbers), SHARE)
        ]
        arguments = [(job.text, step_numbers) for job, step_numbers in shares]
        if workers == 1 or len(shares) < 2:
            results: Iterable[dict[int, Finding]] = starmap(
                partial(_share_findings, self._settings), arguments
            )
        else:
            name, workers = "a worker of the analysis", min(workers, len(shares))
            setup = partial(_analysis_worker, self._settings)
            results = results_in_order(setup, arguments, workers, name)
        for (job, step_numbers), share_findings in zip(shares, results, strict=True):
            job.findings |= share_findings
            on_steps(len(step_numbers))


class _StepFacts(NamedTuple):
    """The facts of a step of a game without its positions.

    Positions take too much memory for many games.
    """

    turn: int
    seat: int | None
    decision: int | None
    """The index of the decision; None for a roll or a reveal."""
    dice: tuple[int, int] | None


class _Job:
    """A game that is analysed, with its findings so far."""

    def __init__(self, name: str, record: GameRecord, settings: AnalysisSettings) -> None:
        """Replay a record, and note the steps that the settings ask for.

        Raises InvalidRecord, with the name, if the replay differs from the record.
        """
        self.name = name
        self.record = record
        self.text = record.to_json()
        self.steps: dict[int, _StepFacts] = {}
        """The steps to analyse, by their number in the game."""
        self.findings: dict[int, Finding] = {}
        """The findings so far, by the number of the step."""
        try:
            steps = steps_of(record)
        except InvalidRecord as error:
            raise InvalidRecord(f"{name}: {error}") from None
        turn = 0
        for number, step in enumerate(steps):
            turn += step.kind == "roll"
            if _is_analysed(step, record, settings):
                # The declaration comes before the roll of its own turn.
                step_turn = turn + (step.before.state.phase == "declare")
                self.steps[number] = _StepFacts(step_turn, step.seat, step.decision, step.dice)

    @property
    def step_numbers(self) -> list[int]:
        """The numbers of the steps that are analysed."""
        return list(self.steps)

    @property
    def is_complete(self) -> bool:
        """True if every step has its finding."""
        return len(self.findings) == len(self.steps)

    def analysis(self) -> GameAnalysis:
        """Return the analysis of the game; steps without a finding are left out."""
        decisions: list[AnalysedDecision] = []
        chances: list[ChanceEvent] = []
        for number, (turn, seat, decision, dice) in self.steps.items():
            finding = self.findings.get(number)
            if finding is None:
                continue
            if isinstance(finding, Judgement):
                assert decision is not None
                assert seat is not None
                fault = self.record.decisions[decision].fault
                decisions.append(AnalysedDecision(decision, seat, turn, fault, finding))
            else:
                chances.append(ChanceEvent(turn, seat, dice, tuple(finding)))
        return GameAnalysis(self.name, self.record, tuple(decisions), tuple(chances))


def steps_of(record: GameRecord) -> list[Step]:
    """Return the steps of a recorded game.

    Raises InvalidRecord if the replay differs from the record.
    """
    return list(game_steps(verify(record)))


def _is_analysed(step: Step, record: GameRecord, settings: AnalysisSettings) -> bool:
    """Return True if the settings ask for the analysis of a step.

    A forced action is never analysed. Rolls and reveals are if luck is measured.
    """
    if step.kind == "decision":
        assert step.seat is not None
        if settings.seat not in (None, step.seat):
            return False
        if settings.bot not in (None, record.seats[step.seat].name):
            return False
        if settings.deviations:
            return steady(view_for(step.before.state, step.seat)) != step.action
        return True
    return settings.luck > 0 and step.kind != "forced"


def findings(
    steps: Mapping[int, Step], label: str, settings: AnalysisSettings
) -> dict[int, Finding]:
    """Judge the decisions, and measure the luck of the rolls and reveals, among steps of a game.

    `steps` has them by number, and so has the result. Random numbers follow from `label` and the
    number of the step.
    """
    streams = {
        number: Stream(f"{label}/{number}", step.before.state.players)
        for number, step in steps.items()
    }
    decisions = {
        number: PlayedDecision(view_for(step.before.state, step.seat), step.action, streams[number])
        for number, step in steps.items()
        if step.action is not None
    }
    chance_numbers = [number for number in steps if number not in decisions]
    judgements = judge_many(decisions.values(), settings.effort)
    luck = luck_of_many(
        [(steps[number], streams[number]) for number in chance_numbers], settings.luck
    )
    return dict(zip(decisions, judgements, strict=True)) | dict(
        zip(chance_numbers, luck, strict=True)
    )


@lru_cache(maxsize=1)
def _replayed(text: str) -> tuple[str, Sequence[Step]]:
    """Return the commitment and the steps of a record.

    The newest record is remembered, since the shares of a game come one after another.
    """
    record = GameRecord.from_json(text)
    return record.commitment, steps_of(record)


def _share_findings(
    settings: AnalysisSettings, text: str, numbers: Sequence[int]
) -> dict[int, Finding]:
    """Analyse some steps of a game, whose record is `text`; return findings by step number."""
    commitment, steps = _replayed(text)
    return findings(
        {number: steps[number] for number in numbers}, f"{commitment}/{settings.seed}", settings
    )


# ----------------------------------------------------------------------------------------- workers


@contextmanager
def _analysis_worker(settings: AnalysisSettings, link: Link) -> Iterator[Perform]:
    """Set up a worker, and yield its function that analyses one share of a game's steps."""
    yield lambda share: _share_findings(settings, *share)


# -------------------------------------------------------------------------------------------- sums


def by_seat(analysis: GameAnalysis) -> list[SeatSums]:
    """Return the sums of each seat of a game, seat A first."""
    seats = analysis.record.seats
    lost = [Lost() for _ in seats]
    for decision in analysis.decisions:
        lost[decision.seat].add(decision)
    return [
        SeatSums(seat, bot, lost[seat], analysis.results[seat], _seat_luck(analysis, seat))
        for seat, bot in enumerate(seats)
    ]


def _seat_luck(analysis: GameAnalysis, seat: int) -> SeatLuck | None:
    """Return the luck of a seat in a game; None if it was not measured."""
    if not analysis.chances:
        return None
    own_dice, other_dice, values = list[Estimate](), list[Estimate](), list[Estimate]()
    for event in analysis.chances:
        if event.seat is None:  # a reveal
            values.append(event.luck[seat])
        elif event.seat == seat:
            own_dice.append(event.luck[seat])
        else:
            other_dice.append(event.luck[seat])
    return SeatLuck(sum_of(own_dice), sum_of(other_dice), sum_of(values))


def graver_mark(loss: Estimate, marks: Iterable[Mark]) -> Mark:
    """Return the mark for the loss of a whole dive, if it is graver than its decisions' marks.

    `marks` are those of the decisions. Return "" if no mark is due, or none that is graver.
    """
    mark = mark_of(loss)
    worst = max([GRAVE.index(other) for other in marks if other in GRAVE], default=-1)
    return mark if mark in GRAVE and GRAVE.index(mark) > worst else ""


def sum_of(parts: Iterable[Estimate]) -> Estimate:
    """Return the sum of independent estimates; its squared error is the sum of theirs."""
    means, squared_errors = [], []
    for mean, error in parts:
        means.append(mean)
        squared_errors.append(error * error)
    return Estimate(fsum(means), sqrt(fsum(squared_errors)))


def by_bot(analyses: Iterable[GameAnalysis], seat: int | None = None) -> list[BotSums]:
    """Return the sums of each bot, by name and version, in the order of their first seats.

    If `seat` is given, count only what was played in that seat. All decisions of the analyses must
    be of it then.
    """
    bots: dict[RecordSeat, BotSums] = {}
    for analysis in analyses:
        for sums in by_seat(analysis):
            if seat is not None and sums.seat != seat:
                continue
            bot = bots.setdefault(sums.bot, BotSums(sums.bot))
            bot.results.append(sums.result)
            bot.losses.append(sums.lost.loss.mean)
            if sums.adjusted is not None:
                bot.adjusted.append(sums.adjusted.mean)
        for decision in analysis.decisions:
            bot = bots[analysis.record.seats[decision.seat]]
            judged = decision.judged
            for losses in (
                bot.lost,
                bot.kinds.setdefault(judged.kind, Lost()),
                bot.dives.setdefault(judged.dive, Lost()),
            ):
                losses.add(decision)
    return list(bots.values())


def mean(numbers: Sequence[float]) -> Estimate | None:
    """Return the mean over games, with half the width of its interval as the error.

    The interval follows from the spread of the numbers. With one game the error is infinite.
    Without games there is no mean: None.
    """
    count = len(numbers)
    if not count:
        return None
    average = fsum(numbers) / count
    if count == 1:
        return Estimate(average, float("inf"))
    variance = fsum([(number - average) ** 2 for number in numbers]) / (count - 1)
    return Estimate(average, SURE * sqrt(variance / count))

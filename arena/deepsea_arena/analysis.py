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

from deepsea_referee.workers import Link, TaskFunction, results_in_order
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
from deepsea_sdk.coach.roll_outs import LuckSource
from deepsea_sdk.policies import steady

LUCK_ROLLOUTS = 200
"""Default number of roll-outs for luck.

With it the luck of a roll is known to about ±0.015, and that of a seat in a game to about ±0.12.
"""
BATCH_STEPS = 40
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
        """The dives of seats that have a mark of their own, in the order of their last decisions.

        A dive has one if the losses of its decisions add up to a graver mark than each of them has.
        """
        by_dive: dict[tuple[int, int], list[AnalysedDecision]] = {}
        for decision in self.decisions:
            # The error of a loss says little after fewer roll-outs.
            if min(option.rollouts for option in decision.judged.options) >= FEWEST:
                seat_and_dive = (decision.seat, decision.judged.dive)
                by_dive.setdefault(seat_and_dive, []).append(decision)
        marked_dives = []
        for (seat, dive), decisions in by_dive.items():
            loss = sum_of(decision.judged.loss for decision in decisions)
            mark = graver_mark(loss, [decision.judged.mark for decision in decisions])
            if mark:
                marked_dives.append(MarkedDive(seat, dive, decisions[-1].number, loss, mark))
        return sorted(marked_dives, key=lambda marked_dive: marked_dive.last)


@dataclass(slots=True)
class LossTotal:
    """The losses of some decisions, and how many of them have each mark."""

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
    loss_total: LossTotal
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
    game_losses: list[float] = field(default_factory=list)
    """The loss in each game."""
    loss_total: LossTotal = field(default_factory=LossTotal)
    """The losses in all games."""
    kinds: dict[str, LossTotal] = field(default_factory=dict)
    """The losses by the kind of decision."""
    dives: dict[int, LossTotal] = field(default_factory=dict)
    """The losses by the number of the dive."""
    results: list[float] = field(default_factory=list)
    """The placement score in each game."""
    adjusted: list[float] = field(default_factory=list)
    """The placement score less the luck, in each game whose luck was measured."""

    @property
    def games(self) -> int:
        """The number of games."""
        return len(self.results)

    def add_game(self, seat_sums: SeatSums) -> None:
        """Count the result and the loss of a game, as the sums of the bot's seat in it."""
        self.results.append(seat_sums.result)
        self.game_losses.append(seat_sums.loss_total.loss.mean)
        if seat_sums.adjusted is not None:
            self.adjusted.append(seat_sums.adjusted.mean)

    def add_decision(self, decision: AnalysedDecision) -> None:
        """Count the loss of a decision: in all, for its kind and for its dive."""
        kind, dive = decision.judged.kind, decision.judged.dive
        self.loss_total.add(decision)
        self.kinds.setdefault(kind, LossTotal()).add(decision)
        self.dives.setdefault(dive, LossTotal()).add(decision)


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
        """Analyse the steps of all games in batches, and add the findings to their games.

        Several workers are started only for several batches. `on_steps` is called with the number
        of steps of each batch that is done.
        """
        batches = [
            (job, job.step_numbers[first : first + BATCH_STEPS])
            for job in self._jobs
            for first in range(0, len(job.step_numbers), BATCH_STEPS)
        ]
        arguments = [(job.record_json, step_numbers) for job, step_numbers in batches]
        results: Iterable[dict[int, Finding]]
        if workers == 1 or len(batches) < 2:
            results = starmap(partial(_batch_findings, self._settings), arguments)
        else:
            setup = partial(_analysis_worker, self._settings)
            worker_count = min(workers, len(batches))
            results = results_in_order(setup, arguments, worker_count, "a worker of the analysis")
        for (job, step_numbers), batch_findings in zip(batches, results, strict=True):
            job.findings |= batch_findings
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
        self.record_json = record.to_json()
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
        """Return the analysis of the game from the findings so far.

        Steps without a finding, whose analysis was interrupted, are left out.
        """
        decisions: list[AnalysedDecision] = []
        chances: list[ChanceEvent] = []
        for step_number, step in self.steps.items():
            finding = self.findings.get(step_number)
            if finding is None:
                continue
            if isinstance(finding, Judgement):
                assert step.decision is not None
                assert step.seat is not None
                fault = self.record.decisions[step.decision].fault
                decisions.append(
                    AnalysedDecision(step.decision, step.seat, step.turn, fault, judged=finding)
                )
            else:
                chances.append(ChanceEvent(step.turn, step.seat, step.dice, luck=tuple(finding)))
        return GameAnalysis(self.name, self.record, tuple(decisions), tuple(chances))


def steps_of(record: GameRecord) -> list[Step]:
    """Return the steps of a recorded game.

    Raises InvalidRecord if the replay differs from the record.
    """
    return list(game_steps(verify(record)))


def _is_analysed(step: Step, record: GameRecord, settings: AnalysisSettings) -> bool:
    """Return True if the settings ask for the analysis of a step of a recorded game.

    A step is a decision, a forced action, which is never analysed, or a chance event: a roll or a
    reveal, which is analysed if luck is measured.
    """
    if step.kind == "forced":
        return False
    if step.kind != "decision":
        return settings.luck > 0
    assert step.seat is not None
    if settings.seat is not None and settings.seat != step.seat:
        return False
    if settings.bot is not None and settings.bot != record.seats[step.seat].name:
        return False
    if settings.deviations:
        # Only decisions that differ from those of the policy of the roll-outs, `steady`.
        policy_action = steady(view_for(step.before.state, step.seat))
        return step.action != policy_action
    return True


def findings(
    steps: Mapping[int, Step], label: str, settings: AnalysisSettings
) -> dict[int, Finding]:
    """Analyse some steps of a game, and return their findings by the numbers of the steps.

    The finding of a decision is a judgement, that of a roll or a reveal is the luck of each seat.
    Each step has its own random numbers, which follow from `label` and its number.
    """
    decisions: dict[int, PlayedDecision] = {}
    chance_events: dict[int, tuple[Step, LuckSource]] = {}
    for number, step in steps.items():
        stream = LuckSource(f"{label}/{number}", step.before.state.players)
        if step.action is None:
            chance_events[number] = (step, stream)
        else:
            view = view_for(step.before.state, step.seat)
            decisions[number] = PlayedDecision(view, step.action, stream)
    judgements = judge_many(decisions.values(), settings.effort)
    luck_of_events = luck_of_many(list(chance_events.values()), settings.luck)
    by_number: dict[int, Finding] = dict(zip(decisions, judgements, strict=True))
    by_number.update(zip(chance_events, luck_of_events, strict=True))
    return by_number


@lru_cache(maxsize=1)
def _commitment_and_steps(record_json: str) -> tuple[str, Sequence[Step]]:
    """Return the commitment to a recorded game's seed, and the steps of its replay.

    The result for the last record is cached: a worker gets the steps of a game in several batches,
    one after another.
    """
    record = GameRecord.from_json(record_json)
    return record.commitment, steps_of(record)


def _batch_findings(
    settings: AnalysisSettings, record_json: str, step_numbers: Sequence[int]
) -> dict[int, Finding]:
    """Analyse the steps of a recorded game with these numbers; return the findings by number."""
    commitment, all_steps = _commitment_and_steps(record_json)
    batch = {number: all_steps[number] for number in step_numbers}
    return findings(batch, f"{commitment}/{settings.seed}", settings)


# ----------------------------------------------------------------------------------------- workers


@contextmanager
def _analysis_worker(settings: AnalysisSettings, link: Link) -> Iterator[TaskFunction]:
    """Set up a worker, and yield its function that analyses one batch of a game's steps."""
    yield lambda arguments: _batch_findings(settings, *arguments)


# -------------------------------------------------------------------------------------------- sums


def sums_by_seat(analysis: GameAnalysis) -> list[SeatSums]:
    """Return the losses, the result and the luck of each seat of a game, seat A first."""
    bots = analysis.record.seats
    loss_totals = [LossTotal() for _ in bots]
    for decision in analysis.decisions:
        loss_totals[decision.seat].add(decision)
    return [
        SeatSums(
            seat=seat,
            bot=bot,
            loss_total=loss_totals[seat],
            result=analysis.results[seat],
            luck=_seat_luck(analysis, seat),
        )
        for seat, bot in enumerate(bots)
    ]


def _seat_luck(analysis: GameAnalysis, seat: int) -> SeatLuck | None:
    """Return a seat's luck in its own rolls, in those of others, and in the values of chips.

    Return None if luck was not measured.
    """
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
    """Return the mark, "?" or "??", for the loss of all decisions of a dive together.

    Return "" if the dive gets no mark: its loss is too small, or one of `marks`, the marks of its
    decisions, is as grave already.
    """
    dive_mark = mark_of(loss)
    if dive_mark not in GRAVE:
        return ""
    dive_rank = GRAVE.index(dive_mark)  # a higher index is graver
    for mark in marks:
        if mark in GRAVE and GRAVE.index(mark) >= dive_rank:
            return ""
    return dive_mark


def sum_of(parts: Iterable[Estimate]) -> Estimate:
    """Return the sum of independent estimates; its squared error is the sum of theirs."""
    means, squared_errors = [], []
    for mean, error in parts:
        means.append(mean)
        squared_errors.append(error * error)
    return Estimate(fsum(means), sqrt(fsum(squared_errors)))


def sums_by_bot(analyses: Iterable[GameAnalysis], seat: int | None = None) -> list[BotSums]:
    """Return the losses and results of each version of a bot over all games.

    Bots come in the order in which they appear in the games. If `seat` is given, only that seat of
    each game counts, and the analyses must have judged no decision of another seat.
    """
    bots: dict[RecordSeat, BotSums] = {}
    for analysis in analyses:
        for seat_sums in sums_by_seat(analysis):
            if seat is None or seat_sums.seat == seat:
                bot_sums = bots.setdefault(seat_sums.bot, BotSums(seat_sums.bot))
                bot_sums.add_game(seat_sums)
        for decision in analysis.decisions:
            bot = analysis.record.seats[decision.seat]
            bots[bot].add_decision(decision)
    return list(bots.values())


def mean(numbers: Sequence[float]) -> Estimate | None:
    """Return the mean of one number for each game, with its 95 % interval; None without games.

    The interval follows from the spread of the numbers. With one game its error is infinite.
    """
    count = len(numbers)
    if not count:
        return None
    average = fsum(numbers) / count
    if count == 1:
        return Estimate(average, float("inf"))
    variance = fsum([(number - average) ** 2 for number in numbers]) / (count - 1)
    standard_error = sqrt(variance / count)
    return Estimate(average, SURE * standard_error)

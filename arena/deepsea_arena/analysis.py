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
"""The luck of a roll is then known to about ±0.015, that of a seat in a game to about ±0.12."""
SHARE = 40
"""Steps of a game that are looked at together: a batch of more takes no less time for each."""
Finding = Judgement | list[Estimate]
"""The values of a decision's options; or, for each seat, the luck of a roll or a reveal."""
KINDS = ("declare", "search", "order")
GRAVE = ("?", "??")
"""The marks that a dive may have."""


@dataclass(frozen=True, slots=True)
class AnalysisSettings:
    """Decisions that are judged, and the number of roll-outs for each.

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
    """Its index among the game's decisions."""
    seat: int
    turn: int
    """The turn that it belongs to, from 1."""
    fault: Fault | None
    """With a fault the default action was played."""
    judged: Judgement


class MarkedDive(NamedTuple):
    """A dive in which a seat's decisions together lost more than the mark of any one says."""

    seat: int
    dive: int
    last: int
    """The number of its last decision."""
    loss: Estimate
    """The sum of what they lost."""
    mark: Mark


class ChanceEvent(NamedTuple):
    """A roll of the dice, or a reveal of values."""

    turn: int
    """The turn that it belongs to, or that it follows."""
    seat: int | None
    """The seat that rolled; None for a reveal."""
    dice: tuple[int, int] | None
    luck: tuple[Estimate, ...]
    """By how much it changed what each seat was expected to score."""


@dataclass(frozen=True, slots=True)
class GameAnalysis:
    """A game that was analysed."""

    name: str
    """The place of the record."""
    record: GameRecord
    decisions: tuple[AnalysedDecision, ...]
    chances: tuple[ChanceEvent, ...]
    """Empty if luck was not measured."""

    @property
    def results(self) -> list[float]:
        return placement_scores(self.record.placements)

    @property
    def marked_dives(self) -> list[MarkedDive]:
        """The dives that have a mark, in the order of their last decisions."""
        decisions: dict[tuple[int, int], list[AnalysedDecision]] = {}
        for one in self.decisions:
            # The error of a loss says little after fewer roll-outs.
            if min(option.rollouts for option in one.judged.options) >= FEWEST:
                decisions.setdefault((one.seat, one.judged.dive), []).append(one)
        found = []
        for (seat, dive), together in decisions.items():
            loss = sum_of(one.judged.loss for one in together)
            if mark := graver_mark(loss, [one.judged.mark for one in together]):
                found.append(MarkedDive(seat, dive, together[-1].number, loss, mark))
        return sorted(found, key=lambda one: one.last)


@dataclass(slots=True)
class Lost:
    """The losses of some decisions."""

    losses: list[Estimate] = field(default_factory=list)
    marks: Counter[str] = field(default_factory=Counter)

    def add(self, decision: AnalysedDecision) -> None:
        self.losses.append(decision.judged.loss)
        if decision.judged.mark:
            self.marks[decision.judged.mark] += 1

    @property
    def decisions(self) -> int:
        return len(self.losses)

    @property
    def loss(self) -> Estimate:
        """The sum; its error is that of the roll-outs, not of which games were played."""
        return sum_of(self.losses)

    @property
    def mean(self) -> float:
        return self.loss.mean / self.decisions if self.losses else 0.0

    @property
    def counts(self) -> list[int]:
        """The number of each mark, in the order of `MARKS`."""
        return [self.marks[name] for _, name in MARKS]


@dataclass(frozen=True, slots=True)
class SeatLuck:
    """The luck of a seat in a game."""

    own_dice: Estimate
    other_dice: Estimate
    values: Estimate

    @property
    def total(self) -> Estimate:
        return sum_of((self.own_dice, self.other_dice, self.values))


@dataclass(frozen=True, slots=True)
class SeatSums:
    """One seat of one game."""

    seat: int
    bot: RecordSeat
    lost: Lost
    result: float
    """Its placement score."""
    luck: SeatLuck | None
    """None if it was not measured."""

    @property
    def adjusted(self) -> Estimate | None:
        """The result less the luck; its error is that of the luck."""
        if self.luck is None:
            return None
        return Estimate(self.result - self.luck.total.mean, self.luck.total.error)


@dataclass(slots=True)
class BotSums:
    """One bot in all games, in whatever seat."""

    bot: RecordSeat
    losses: list[float] = field(default_factory=list)
    """Its loss in each game."""
    lost: Lost = field(default_factory=Lost)
    kinds: dict[str, Lost] = field(default_factory=dict)
    dives: dict[int, Lost] = field(default_factory=dict)
    results: list[float] = field(default_factory=list)
    adjusted: list[float] = field(default_factory=list)

    @property
    def games(self) -> int:
        return len(self.results)


class Analysis:
    """An analysis of recorded games, each with its name, that is to be run."""

    def __init__(
        self, records: Iterable[tuple[str, GameRecord]], settings: AnalysisSettings
    ) -> None:
        """Raises InvalidRecord, with the name, if a re-run differs."""
        self._settings = settings
        self._jobs = [_Job(name, record, settings) for name, record in records]
        self.interrupted = ""
        """The games that were complete when Ctrl-C ended the run."""

    @property
    def steps(self) -> int:
        """The number of decisions, rolls and reveals to be analysed."""
        return sum(len(job.wanted) for job in self._jobs)

    def run(
        self,
        *,
        workers: int = 1,
        on_steps: Callable[[int], object] = lambda steps: None,
        enough: type[Exception] | tuple[()] = (),
    ) -> list[GameAnalysis]:
        """Analyse the games, in this process or in several workers.

        After Ctrl-C these are the games that are complete; if there is none, the first one with the
        decisions that were judged, and without luck.

        on_steps  receives how many more steps have been looked at
        enough    an exception of `on_steps` that ends it with the games that are complete
        Raises RefereeError if a worker ended, KeyboardInterrupt if nothing was found before it.
        """
        try:
            self._look(workers, on_steps)
        except enough:
            return [job.analysis() for job in self._jobs if len(job.found) == len(job.notes)]
        except KeyboardInterrupt:
            self.interrupted = "in the first game"
        complete = [job for job in self._jobs if len(job.found) == len(job.notes)]
        if complete and self.interrupted:
            self.interrupted = f"after {len(complete)} of {len(self._jobs)} games"
        if complete or not self.interrupted:
            return [job.analysis() for job in complete]
        begun = next((job for job in self._jobs if job.found), None)
        if begun is None:
            raise KeyboardInterrupt
        return [replace(begun.analysis(), chances=())]

    def _look(self, workers: int, on_steps: Callable[[int], object]) -> None:
        shares = [
            (job, job.wanted[first : first + SHARE])
            for job in self._jobs
            for first in range(0, len(job.wanted), SHARE)
        ]
        arguments = [(job.text, wanted) for job, wanted in shares]
        if workers == 1 or len(shares) < 2:
            results: Iterable[dict[int, Finding]] = starmap(
                partial(_look_at, self._settings), arguments
            )
        else:
            name, workers = "a worker of the analysis", min(workers, len(shares))
            setup = partial(_analyst, self._settings)
            results = results_in_order(setup, arguments, workers, name)
        for (job, wanted), found in zip(shares, results, strict=True):
            job.found |= found
            on_steps(len(wanted))


class _Note(NamedTuple):
    """A step of a game, without its positions, which take too much memory for many games."""

    turn: int
    seat: int | None
    decision: int | None
    dice: tuple[int, int] | None


class _Job:
    """A game, and what was found of it so far."""

    def __init__(self, name: str, record: GameRecord, settings: AnalysisSettings) -> None:
        self.name = name
        self.record = record
        self.text = record.to_json()
        self.notes: dict[int, _Note] = {}
        self.found: dict[int, Finding] = {}
        try:
            steps = steps_of(record)
        except InvalidRecord as error:
            raise InvalidRecord(f"{name}: {error}") from None
        turn = 0
        for number, step in enumerate(steps):
            turn += step.kind == "roll"
            if _is_wanted(step, record, settings):
                its_turn = turn + (step.before.state.phase == "declare")
                self.notes[number] = _Note(its_turn, step.seat, step.decision, step.dice)

    @property
    def wanted(self) -> list[int]:
        """The numbers of the steps that are looked at."""
        return list(self.notes)

    def analysis(self) -> GameAnalysis:
        decisions: list[AnalysedDecision] = []
        chances: list[ChanceEvent] = []
        for number, (turn, seat, decision, dice) in self.notes.items():
            if (found := self.found.get(number)) is None:
                continue
            if isinstance(found, Judgement):
                assert decision is not None
                assert seat is not None
                fault = self.record.decisions[decision].fault
                decisions.append(AnalysedDecision(decision, seat, turn, fault, found))
            else:
                chances.append(ChanceEvent(turn, seat, dice, tuple(found)))
        return GameAnalysis(self.name, self.record, tuple(decisions), tuple(chances))


def steps_of(record: GameRecord) -> list[Step]:
    """The steps of a recorded game. Raises InvalidRecord if the re-run of the record differs."""
    return list(game_steps(verify(record)))


def _is_wanted(step: Step, record: GameRecord, settings: AnalysisSettings) -> bool:
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
    """Look at steps of a game, by number; the random numbers follow from the label."""
    streams = {
        number: Stream(f"{label}/{number}", step.before.state.players)
        for number, step in steps.items()
    }
    choices = {
        number: PlayedDecision(view_for(step.before.state, step.seat), step.action, streams[number])
        for number, step in steps.items()
        if step.action is not None
    }
    chances = [number for number in steps if number not in choices]
    judged = judge_many(choices.values(), settings.effort)
    luck = luck_of_many([(steps[number], streams[number]) for number in chances], settings.luck)
    return dict(zip(choices, judged, strict=True)) | dict(zip(chances, luck, strict=True))


@lru_cache(maxsize=1)
def _replayed(text: str) -> tuple[str, Sequence[Step]]:
    """The commitment and the steps of a record; kept, since a game is looked at in parts."""
    record = GameRecord.from_json(text)
    return record.commitment, steps_of(record)


def _look_at(settings: AnalysisSettings, text: str, numbers: Sequence[int]) -> dict[int, Finding]:
    """Look at steps of the game whose record is the text."""
    commitment, steps = _replayed(text)
    return findings(
        {number: steps[number] for number in numbers}, f"{commitment}/{settings.seed}", settings
    )


# Workers


@contextmanager
def _analyst(settings: AnalysisSettings, link: Link) -> Iterator[Perform]:
    """Set up a worker."""
    yield lambda share: _look_at(settings, *share)


def by_seat(analysis: GameAnalysis) -> list[SeatSums]:
    """The sums of each seat, seat A first."""
    seats = analysis.record.seats
    lost = [Lost() for _ in seats]
    for decision in analysis.decisions:
        lost[decision.seat].add(decision)
    return [
        SeatSums(seat, bot, lost[seat], analysis.results[seat], _luck(analysis, seat))
        for seat, bot in enumerate(seats)
    ]


def _luck(analysis: GameAnalysis, seat: int) -> SeatLuck | None:
    if not analysis.chances:
        return None
    own, others, values = (
        [event.luck[seat] for event in analysis.chances if (event.seat in seats) is inside]
        for seats, inside in (((seat,), True), ((seat, None), False), ((None,), True))
    )
    return SeatLuck(sum_of(own), sum_of(others), sum_of(values))


def graver_mark(loss: Estimate, marks: Iterable[Mark]) -> Mark:
    """The mark of a dive's loss, if it is graver than those of its decisions; "" if not."""
    mark = mark_of(loss)
    worst = max([GRAVE.index(one) for one in marks if one in GRAVE], default=-1)
    return mark if mark in GRAVE and GRAVE.index(mark) > worst else ""


def sum_of(parts: Iterable[Estimate]) -> Estimate:
    """The sum of independent estimates."""
    means, errors = [], []
    for mean_part, error in parts:
        means.append(mean_part)
        errors.append(error * error)
    return Estimate(fsum(means), sqrt(fsum(errors)))


def by_bot(analyses: Iterable[GameAnalysis], seat: int | None = None) -> list[BotSums]:
    """The sums of each bot, in the order in which they first sat down; by name and version.

    seat  only what was played in this seat
    """
    found: dict[RecordSeat, BotSums] = {}
    for analysis in analyses:
        for sums in by_seat(analysis):
            if seat is not None and sums.seat != seat:
                continue
            bot = found.setdefault(sums.bot, BotSums(sums.bot))
            bot.results.append(sums.result)
            bot.losses.append(sums.lost.loss.mean)
            if sums.adjusted is not None:
                bot.adjusted.append(sums.adjusted.mean)
        for decision in analysis.decisions:
            bot = found[analysis.record.seats[decision.seat]]
            judged = decision.judged
            for lost in (
                bot.lost,
                bot.kinds.setdefault(judged.kind, Lost()),
                bot.dives.setdefault(judged.dive, Lost()),
            ):
                lost.add(decision)
    return list(found.values())


def mean(numbers: Sequence[float]) -> Estimate | None:
    """The mean over games, with the interval that their spread gives; None without games.

    Of one game the error is not known, and infinite.
    """
    count = len(numbers)
    if not count:
        return None
    middle = fsum(numbers) / count
    if count == 1:
        return Estimate(middle, float("inf"))
    spread = fsum([(number - middle) ** 2 for number in numbers]) / (count - 1)
    return Estimate(middle, SURE * sqrt(spread / count))

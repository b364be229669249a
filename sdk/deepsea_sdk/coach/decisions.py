"""What a decision was worth: every legal action tried out from what the seat could know.

Invariants: a judgement comes from a view, so that what the seat could not know changes nothing, and
depends on nothing that is judged with it; a decision is marked only if it surely lost something.
Options are compared by paired differences, trial by trial; one that is dropped has the first trials
of those that stay; whole numbers go in, so that results are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Literal, NamedTuple

from deepsea_rules.actions import Kind
from deepsea_rules.view import View

from .roll_outs import ONE, Scores, Stream, Trials, one_by_one

Mark = Literal["", "?!", "?", "??"]
MARKS: tuple[tuple[float, Mark], ...] = ((0.0475, "?!"), (0.10, "?"), (0.20, "??"))
"""Thresholds of the marks, in placement score: an inaccuracy, a mistake, a blunder. The first is
below 0.05, so that nine of ten that cost 0.05 are found: docs/dev/field.md."""


@dataclass(frozen=True, slots=True)
class Option:
    """One action and the placement score that it leads to."""

    action: str
    score: Estimate
    rollouts: int


@dataclass(frozen=True, slots=True)
class Judgement:
    """A decision and what its options are worth, in placement score."""

    kind: Kind
    dive: int
    played: str
    best: str
    """The option with the highest score; of options that are equal the first."""
    options: tuple[Option, ...]
    """The legal actions; an order may have been played that is not listed, it is the last then."""
    regret: Estimate
    """How far the action that was played is behind the best one."""
    loss: Estimate
    """The same without the bias of picking the best of noisy scores: for sums, may be negative."""

    @property
    def mark(self) -> Mark:
        """The mark of what the decision lost."""
        return mark_of(self.regret)

    @property
    def is_level(self) -> bool:
        """Whether another option seems better, but the interval does not show it."""
        return self.played != self.best and self.regret.low <= 0


def mark_of(regret: Estimate) -> Mark:
    """The last mark whose threshold the mean is beyond; none if it may be that nothing was lost."""
    reached = [name for threshold, name in MARKS if regret.mean > threshold]
    return reached[-1] if reached and regret.low > 0 else ""


class Played(NamedTuple):
    """A decision to be judged.

    view    that of the seat to move
    action  what it did; an order need not be listed
    stream  the luck of its trials
    """

    view: View
    action: str
    stream: Stream

    @property
    def options(self) -> Sequence[str]:
        legal = self.view.legal
        return legal if self.action in legal else (*legal, self.action)


def judge(decision: Played, effort: Effort) -> Judgement:
    """Try every option; in all futures each seat plays by the policy of the trials."""
    return judge_many([decision], effort)[0]


def judge_many(decisions: Iterable[Played], effort: Effort) -> list[Judgement]:
    """Judge decisions of one rule set and number of seats, in less time than one by one."""
    judging = [_Judging(decision) for decision in decisions]
    going = judging
    while going := [one for one in going if one.race.wanted(effort)]:
        wanted = [one.trials(one.race.wanted(effort)) for one in going]
        for one, scores in zip(going, try_out(wanted), strict=True):
            one.race.add([by_seat[one.decision.view.to_move] for by_seat in scores], effort)
    return [one.judgement() for one in judging]


def try_out(wanted: Sequence[Trials]) -> list[Scores]:
    """The scores of trials: by batches where numpy is installed."""
    try:
        from .batched_roll_outs import scores
    except ModuleNotFoundError as error:
        if error.name != "numpy":
            raise
        return [one_by_one(trials) for trials in wanted]
    return scores(wanted)


class _Judging:
    """A decision that is being judged."""

    def __init__(self, decision: Played) -> None:
        self.decision = decision
        view, actions = decision.view, decision.options
        dealt = view.sample(decision.stream.luck(0))
        self.after = [dealt.clone() for _ in actions]
        for state, action in zip(self.after, actions, strict=True):
            state.unchecked_apply(action)
        self.race = Race(
            count=len(actions),
            scale=(view.players - 1) * ONE,
            chosen=actions.index(decision.action),
            steps=[threshold for threshold, _ in MARKS],
        )

    def trials(self, numbers: range) -> Trials:
        """The next trials of the options that are in the race."""
        decision = self.decision
        states = [self.after[option] for option in self.race.running]
        return Trials(decision.view, decision.stream, numbers, states, decision.view.dive)

    def judgement(self) -> Judgement:
        """What was found when the race is over."""
        race, actions = self.race, self.decision.options
        kind = self.decision.view.kind
        assert kind is not None  # there is a choice
        return Judgement(
            kind=kind,
            dive=self.decision.view.dive,
            played=self.decision.action,
            best=actions[race.best],
            options=tuple(
                Option(action, race.score(option), len(race.found[option]))
                for option, action in enumerate(actions)
            ),
            regret=race.regret,
            loss=race.loss(),
        )


# A race of options

SURE = 1.96
"""Standard errors on each side of an interval of 95 %."""
BEHIND = 3.0
"""Standard errors by which an option is behind when it is dropped."""
FEWEST = 50
PRECISION = 0.03
"""The precision of an analysis, unless another one is asked for."""


class Estimate(NamedTuple):
    """An estimate with an interval of 95 %: mean - error to mean + error."""

    mean: float
    error: float

    @property
    def low(self) -> float:
        return self.mean - self.error

    @property
    def high(self) -> float:
        return self.mean + self.error


@dataclass(frozen=True, slots=True)
class Effort:
    """How long a race goes on; numbers are in units of the score.

    precision   enough where an interval of a difference is this wide on each side; near a mark's
                threshold half of it
    most        trials of an option at most
    fewest      trials of each option before anything is decided
    """

    precision: float
    most: int
    fewest: int = FEWEST

    @classmethod
    def to(cls, precision: float = PRECISION) -> Effort:
        """Race to a precision: 1600 trials at most for the usual one, in proportion for another."""
        return cls(precision, max(FEWEST, round(1600 * (PRECISION / precision) ** 2)))

    @classmethod
    def of(cls, trials: int) -> Effort:
        """So many trials for each option, whatever they show."""
        return cls(0.0, trials, trials)


@dataclass(slots=True)
class Race:
    """A race of options.

    count   the number of options
    scale   what a trial's number is divided by to be a score from 0 to 1
    chosen  the option of which is wanted how far it is behind the best one
    steps   thresholds: near them that difference is wanted more exactly
    """

    count: int
    scale: int
    chosen: int
    steps: Sequence[float] = ()
    found: list[list[int]] = field(init=False)
    """By option, what its trials came to."""
    running: list[int] = field(init=False)
    """The options that were not dropped."""
    settled: bool = False

    def __post_init__(self) -> None:
        self.found = [[] for _ in range(self.count)]
        self.running = list(range(self.count))

    @property
    def done(self) -> int:
        """How many trials the options have that were not dropped."""
        return len(self.found[self.running[0]])

    def wanted(self, effort: Effort) -> range:
        """The trials that the options in the race need next: twice as many each time."""
        if self.settled or len(self.running) < 2:
            return range(0)
        return range(self.done, min(max(effort.fewest, 2 * self.done), effort.most))

    def add(self, scores: Sequence[Sequence[int]], effort: Effort) -> None:
        """Take the scores of the trials that were wanted, for each option in the race."""
        for option, more in zip(self.running, scores, strict=True):
            self.found[option].extend(more)
        if self.done < effort.most:
            self._settle(effort.precision)

    def _settle(self, precision: float) -> None:
        """Drop options that are clearly behind; settled is what is known well enough then."""
        best = self.best
        self.settled = True
        for option in [option for option in self.running if option != best]:
            gap = self.gap(best, option)
            near = any(abs(gap.mean - step) < gap.error for step in self.steps)
            if option == self.chosen and near and gap.error > precision / 2:
                self.settled = False
            # Standard errors are those of the interval.
            elif gap.mean * SURE > BEHIND * gap.error:
                self.running.remove(option)
            elif gap.error > precision:
                self.settled = False

    @property
    def best(self) -> int:
        """The option with the best mean of those that were not dropped; of equals the first."""
        return max(self.running, key=lambda option: sum(self.found[option]))

    def score(self, option: int) -> Estimate:
        """The mean score of an option."""
        return interval(self.found[option], self.scale)

    def gap(self, better: int, option: int) -> Estimate:
        """How far an option is behind a better one, by the trials that both have."""
        pairs = zip(self.found[better], self.found[option], strict=False)
        return interval([one - other for one, other in pairs], self.scale)

    @property
    def regret(self) -> Estimate:
        """How far the chosen option is behind the best one."""
        best = self.best
        return self.gap(best, self.chosen) if best != self.chosen else Estimate(0.0, 0.0)

    def loss(self) -> Estimate:
        """What the chosen option lost, without the bias of the best of noisy means.

        One half of the trials says which option is best and the other half how far the chosen one
        is behind it, and the other way round. So noise makes no losses; where options are nearly
        level a loss is a little too low, because a half may pick the wrong one.
        """
        rivals = sorted({*self.running, self.chosen})
        common = min(len(self.found[option]) for option in rivals)
        if len(rivals) < 2 or common < 2:
            return Estimate(0.0, 0.0)
        parts = [
            {option: self.found[option][start:common:2] for option in rivals} for start in (0, 1)
        ]
        halves = []
        for picks, measures in (parts, parts[::-1]):
            best = max(rivals, key=lambda option: sum(picks[option]))
            pairs = zip(measures[best], measures[self.chosen], strict=True)
            halves.append(interval([one - other for one, other in pairs], self.scale, doubt=0))
        (one, its_error), (other, error) = halves
        return Estimate((one + other) / 2, sqrt(its_error * its_error + error * error) / 2)


def interval(numbers: Sequence[int], scale: int, *, doubt: float = 0.5) -> Estimate:
    """The mean of some trials; a number that is `scale` stands for a score of 1.

    doubt  what is added to the sum of squares, as if there had been two more trials, half a score
           below the mean and above it: a few trials that agree do not make a difference certain
    """
    count = len(numbers)
    total = sum(numbers)
    squares = sum([number * number for number in numbers])
    spread = (squares * count - total * total) / count + doubt * scale * scale
    return Estimate(total / count / scale, SURE * sqrt(spread / count / count) / scale)

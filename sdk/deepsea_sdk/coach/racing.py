"""Racing: trials for several options on common luck, until it is clear how they compare.

Invariants: options are compared by paired differences, trial by trial; an option that is dropped
has the first trials of those that stay; whole numbers go in, so that results are the same on every
machine; chance comes in with the trials only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Final, NamedTuple, TypeAlias

Trial: TypeAlias = Callable[[int, Sequence[int]], Sequence[int]]
"""Tries options out, on luck that goes by the number; returns what each came to."""

SURE: Final = 1.96
"""Standard errors on each side of an interval of 95 %."""
BEHIND: Final = 3.0
"""Standard errors by which an option is behind when it is dropped."""
BATCH: Final = 25


class Interval(NamedTuple):
    """An estimate with an interval of 95 %: mean - error to mean + error."""

    mean: float
    error: float

    @property
    def low(self) -> float:
        """The lower end."""
        return self.mean - self.error

    @property
    def high(self) -> float:
        """The upper end."""
        return self.mean + self.error


@dataclass(frozen=True, slots=True)
class Effort:
    """How long a race goes on; numbers are in units of the score.

    precision   enough where an interval of a difference is this wide on each side
    most        trials of an option at most
    fewest      trials of each option before anything is decided
    """

    precision: float
    most: int
    fewest: int = 2 * BATCH

    @classmethod
    def to(cls, precision: float) -> Effort:
        """Race to a precision: 600 trials at most for 0.03, in proportion for another one."""
        return cls(precision, max(2 * BATCH, round(600 * (0.03 / precision) ** 2)))

    @classmethod
    def of(cls, trials: int) -> Effort:
        """So many trials for each option, whatever they show."""
        return cls(0.0, trials, trials)


@dataclass(slots=True)
class Race:
    """A race of options.

    count   the number of options
    trial   tries them out
    scale   what a trial's number is divided by to be a score from 0 to 1
    chosen  the option of which is wanted how far it is behind the best one
    steps   thresholds: that difference is settled only if its interval has none inside
    """

    count: int
    trial: Trial
    scale: int
    chosen: int
    steps: Sequence[float] = ()
    found: list[list[int]] = field(default_factory=list)
    """By option, what its trials came to."""
    running: list[int] = field(default_factory=list)
    """The options that were not dropped."""

    def run(self, effort: Effort) -> None:
        """Race until all is settled, or the effort is spent."""
        self.found = [[] for _ in range(self.count)]
        self.running = list(range(self.count))
        done = 0
        while done < effort.most and len(self.running) > 1:
            size = min(BATCH, effort.most - done)
            for number in range(done, done + size):
                for option, score in zip(
                    self.running, self.trial(number, self.running), strict=True
                ):
                    self.found[option].append(score)
            done += size
            # With as many trials as asked for nothing is dropped.
            if effort.fewest <= done < effort.most and self._settled(effort.precision):
                break

    def _settled(self, precision: float) -> bool:
        """Drop options that are clearly behind; returns whether the others are close enough."""
        best = self.best
        settled = True
        for option in [option for option in self.running if option != best]:
            gap = self.gap(best, option)
            # Standard errors are those of the interval.
            behind = gap.mean * SURE > BEHIND * gap.error
            if option == self.chosen and any(gap.low < step < gap.high for step in self.steps):
                behind = False
            if behind:
                self.running.remove(option)
            elif gap.error > precision:
                # Of one that was not chosen only that it is behind has to be sure.
                settled &= option != self.chosen and gap.low > 0
        return settled

    @property
    def best(self) -> int:
        """The option with the best mean of those that were not dropped; of equals the first."""
        return max(self.running, key=lambda option: sum(self.found[option]))

    def score(self, option: int) -> Interval:
        """The mean score of an option."""
        return interval(self.found[option], self.scale)

    def gap(self, better: int, option: int) -> Interval:
        """How far an option is behind a better one, by the trials that both have."""
        pairs = zip(self.found[better], self.found[option], strict=False)
        return interval([one - other for one, other in pairs], self.scale)

    def loss(self) -> Interval:
        """What the chosen option lost, without the bias of the best of noisy means.

        One half of the trials says which option is best and the other half how far the chosen one
        is behind it, and the other way round. So noise makes no losses; where options are nearly
        level a loss is a little too low, because a half may pick the wrong one.
        """
        rivals = sorted({*self.running, self.chosen})
        common = min(len(self.found[option]) for option in rivals)
        if len(rivals) < 2 or common < 2:
            return Interval(0.0, 0.0)
        parts = [
            {option: self.found[option][start:common:2] for option in rivals} for start in (0, 1)
        ]
        halves = []
        for picks, measures in (parts, parts[::-1]):
            best = max(rivals, key=lambda option: sum(picks[option]))
            pairs = zip(measures[best], measures[self.chosen], strict=True)
            halves.append(interval([one - other for one, other in pairs], self.scale, doubt=0))
        (one, its_error), (other, error) = halves
        return Interval((one + other) / 2, sqrt(its_error * its_error + error * error) / 2)


def interval(numbers: Sequence[int], scale: int, *, doubt: float = 0.5) -> Interval:
    """The mean of some trials; a number that is `scale` stands for a score of 1.

    doubt  what is added to the sum of squares, as if there had been two more trials, half a score
           below the mean and above it: a few trials that agree do not make a difference certain
    """
    count = len(numbers)
    total = sum(numbers)
    squares = sum([number * number for number in numbers])
    spread = (squares * count - total * total) / count + doubt * scale * scale
    return Interval(total / count / scale, SURE * sqrt(spread / count / count) / scale)

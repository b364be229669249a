"""What a decision was worth: every legal action tried out from what the seat could know.

Invariants: a judgement comes from a view, so that what the seat could not know changes nothing; a
decision is marked only where the whole interval of what it lost is beyond the mark's threshold.
Trials deal a position from what is known and play it on by a policy. Their luck follows from their
stream's label and their number alone, and a roll of it belongs to a seat's turn in a dive: options
differ in what is done, not in who rolls what. They are compared by paired differences, trial by
trial; one that is dropped has the first trials of those that stay; whole numbers go in, so that
results are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import shake_256
from math import sqrt
from struct import unpack
from typing import Literal, NamedTuple, TypeAlias

from deepsea_rules.actions import Kind
from deepsea_rules.scoring import final_result, halves_ahead
from deepsea_rules.state import GameState
from deepsea_rules.view import View
from deepsea_sdk.policies import Policy, dice_length, dice_of, play_on

Mark = Literal["", "?!", "?", "??"]
MARKS: tuple[tuple[float, Mark], ...] = ((0.05, "?!"), (0.10, "?"), (0.20, "??"))
"""Thresholds of the marks, in placement score: an inaccuracy, a mistake, a blunder."""


@dataclass(frozen=True, slots=True)
class Option:
    """One action and the placement score that it leads to."""

    action: str
    score: Interval
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
    regret: Interval
    """How far the action that was played is behind the best one."""
    loss: Interval
    """The same without the bias of picking the best of noisy scores: for sums, may be negative."""

    @property
    def mark(self) -> Mark:
        """The mark whose threshold the whole interval of the regret is beyond."""
        return mark_of(self.regret)

    @property
    def is_level(self) -> bool:
        """Whether another option seems better, but the interval does not show it."""
        return self.played != self.best and self.regret.low <= 0


def mark_of(regret: Interval) -> Mark:
    """The mark of a decision with this regret."""
    mark: Mark = ""
    for threshold, name in MARKS:
        if regret.low > threshold:
            mark = name
    return mark


def judge(view: View, played: str, stream: Stream, policy: Policy, effort: Effort) -> Judgement:
    """Try every legal action of the seat to move, which is the view's; `played` is one of them.

    In all futures each seat plays by the policy.
    """
    seat = view.to_move
    actions: Sequence[str] = view.legal if played in view.legal else (*view.legal, played)

    def trial(number: int, running: Sequence[int]) -> list[int]:
        luck = stream.luck(number)
        dealt = view.sample(luck)
        scores = []
        for option in running:
            state = dealt.clone()
            apply(state, actions[option])
            play_on(state, luck.dice, policy)
            scores.append(halves(state)[seat])
        return scores

    race = Race(
        count=len(actions),
        trial=trial,
        scale=2 * (view.players - 1),
        chosen=actions.index(played),
        steps=[threshold for threshold, _ in MARKS],
    )
    race.run(effort)
    best = race.best
    kind = view.kind
    assert kind is not None  # there is a choice
    return Judgement(
        kind=kind,
        dive=view.dive,
        played=played,
        best=actions[best],
        options=tuple(
            Option(action, race.score(option), len(race.found[option]))
            for option, action in enumerate(actions)
        ),
        regret=race.gap(best, race.chosen) if best != race.chosen else Interval(0.0, 0.0),
        loss=race.loss(),
    )


# A race of options

Trial: TypeAlias = Callable[[int, Sequence[int]], Sequence[int]]
"""Tries options out, on luck that goes by the number; returns what each came to."""

SURE = 1.96
"""Standard errors on each side of an interval of 95 %."""
BEHIND = 3.0
"""Standard errors by which an option is behind when it is dropped."""
BATCH = 25


class Interval(NamedTuple):
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


# Trials on common luck

_DRAWS = 28
"""To deal eight chips takes seven numbers, and there are four levels."""


class Luck:
    """The luck of one trial: a source of numbers to deal with, and `dice` for `play_on`."""

    __slots__ = ("_numbers", "dice")

    def __init__(self, digest: bytes) -> None:
        self._numbers: Iterator[int] = iter(unpack(f"<{_DRAWS}I", digest[: 4 * _DRAWS]))
        self.dice = dice_of(digest[4 * _DRAWS :])

    def random(self) -> float:
        """A number from 0 up to, but not including, 1; enough of them for one deal."""
        return next(self._numbers) / 2**32


class Stream:
    """The luck of trials under a label, for a number of players."""

    def __init__(self, label: str, players: int) -> None:
        self._hash = shake_256(f"{label}:".encode())
        self._length = 4 * _DRAWS + dice_length(players)

    def luck(self, number: int) -> Luck:
        """The luck of a trial, by its number."""
        hashed = self._hash.copy()
        hashed.update(b"%d" % number)
        return Luck(hashed.digest(self._length))


def apply(state: GameState, action: str) -> None:
    """Make a choice that is known to be legal."""
    phase = state.phase
    if phase == "search":
        state.unchecked_search(action)
    elif phase == "order":
        state.unchecked_order(action)
    else:
        state.unchecked_declare(action)


def halves(state: GameState) -> Sequence[int]:
    """For each seat of a finished game a 2 for every seat that it is ahead of, a 1 for a tie.

    Nobody has forfeited: in a future that was tried out all play to the end.
    """
    points = state.points()
    order = sorted(points)
    if len(set(order)) == len(order):
        return [2 * order.index(own) for own in points]
    return halves_ahead(final_result(state.rules.tiebreak, state.bank, state.values).placements)

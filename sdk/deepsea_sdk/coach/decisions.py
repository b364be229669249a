"""What a decision was worth: every legal action tried out from what the seat could know.

Invariants: a judgement comes from a view, so that what the seat could not know changes nothing; all
actions have the same deals and the same dice; a decision is marked only where the whole interval
of what it lost is beyond the mark's threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from deepsea_rules.actions import Kind
from deepsea_rules.view import View
from deepsea_sdk.policies import Policy, play_on

from .common_luck import Stream, apply, halves
from .racing import Effort, Interval, Race

Mark = Literal["", "?!", "?", "??"]
MARKS: Final[tuple[tuple[float, Mark], ...]] = ((0.05, "?!"), (0.10, "?"), (0.20, "??"))
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

"""The luck of a finished game in one number: how far chance moved a lead, by an evaluation.

Invariants: a chance event is a roll, with its five sums, or the value of one chip, with the values
that no bot had seen; it counts as the evaluation after it less the mean of the evaluations over all
that could have come, so its mean is 0 whatever the evaluation and the bots are; it is scaled by a
factor that is fixed before chance decides, so that the sum never leaves its bound and its mean
stays 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from deepsea_rules.game import Game
from deepsea_rules.units import LEVEL_OF, values_of_level

from .course import Outlook, Step, course, rolls
from .luck import Evaluation


class Chance(NamedTuple):
    """A chance event: what could have come and what came.

    ways       how many of the equally likely cases lead to each outlook
    outlooks   what could have come, each once
    came       the index of the outlook that came
    """

    step: Step
    ways: Sequence[int]
    outlooks: Sequence[Outlook]
    came: int


def chances(game: Game) -> Iterator[Chance]:
    """The chance events of a finished game, in order; chips shown at once come one by one."""
    for step in course(game):
        if step.kind == "roll":
            yield _roll(step)
        elif step.kind == "reveal":
            yield from _values(step)


def _roll(step: Step) -> Chance:
    assert step.dice is not None
    totals, ways, outlooks = zip(*rolls(step.before), strict=True)
    return Chance(step, ways, outlooks, totals.index(sum(step.dice)))


def _values(step: Step) -> Iterator[Chance]:
    """One event for each chip, by id: an order that no value has a part in."""
    state, shown = step.after
    known = dict(step.before.known)
    for chip in sorted(shown.keys() - known.keys()):
        level = LEVEL_OF[chip]
        unseen = list(values_of_level(level))
        for other, value in known.items():
            if LEVEL_OF[other] == level:
                unseen.remove(value)
        values = sorted(set(unseen))
        yield Chance(
            step,
            [unseen.count(value) for value in values],
            [Outlook(state, {**known, chip: value}) for value in values],
            values.index(shown[chip]),
        )
        known[chip] = shown[chip]


def chance_sum(game: Game, weights: Sequence[float], bound: float, evaluate: Evaluation) -> float:
    """By how much chance moved the sum of all seats' scores times their weights.

    weights  by seat; such as 1 and -1 for the lead of a seat over another one
    bound    the sum stays between -bound and bound
    """
    total = 0.0
    for chance in chances(game):
        leads = [
            float(sum([w * v for w, v in zip(weights, scores, strict=True)]))
            for scores in evaluate(chance.outlooks)
        ]
        ways = chance.ways
        mean = sum([way * lead for way, lead in zip(ways, leads, strict=True)]) / sum(ways)
        largest = max([abs(lead - mean) for lead in leads])
        room = max(0.0, bound - abs(total))
        jump = leads[chance.came] - mean
        total += jump if largest <= room else jump * (room / largest)
    # Sums of rounded numbers may be beyond it by their last bits.
    return max(-bound, min(bound, total))

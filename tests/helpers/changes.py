"""What steps of a game changed, by any evaluation: the plain form of what formula.py does fast.

For an evaluation that knows the results of finished games

    result = value of the opening + luck of dice + luck of values + changes by choices

holds exactly, for each seat, if nobody forfeited.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from deepsea_rules.actions import LEVEL_OF, values_of_level
from deepsea_rules.game import Game
from deepsea_sdk.coach.decisions import Evaluation, Number, Outlook, Step, game_steps, rolls


def value(outlook: Outlook, evaluate: Evaluation) -> Sequence[Number]:
    """What each seat is expected to score; before a roll that is the mean over its sums."""
    if outlook.state.phase != "roll":
        return evaluate([outlook])[0]
    ways, after = zip(*[(ways, after) for _, ways, after in rolls(outlook)], strict=True)
    return _mean(ways, evaluate(after))


def change(step: Step, evaluate: Evaluation) -> list[Number]:
    """By how much a step changed what each seat is expected to score.

    That is the luck of a roll or of a reveal, and what a choice was worth.
    """
    before, after = value(step.before, evaluate), value(step.after, evaluate)
    return [new - old for new, old in zip(after, before, strict=True)]


def _mean(ways: Sequence[int], values: Sequence[Sequence[Number]]) -> list[Number]:
    return [
        sum([way * one for way, one in zip(ways, seat, strict=True)]) / 9
        for seat in zip(*values, strict=True)
    ]


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
    for step in game_steps(game):
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
        unseen = unseen_of(chip, known)
        values = sorted(set(unseen))
        yield Chance(
            step,
            [unseen.count(value) for value in values],
            [Outlook(state, {**known, chip: value}) for value in values],
            values.index(shown[chip]),
        )
        known[chip] = shown[chip]


def unseen_of(chip: int, known: Mapping[int, int]) -> list[int]:
    """The values that a chip may have, as often as there are such chips left."""
    level = LEVEL_OF[chip]
    unseen = list(values_of_level(level))
    for other, worth in known.items():
        if LEVEL_OF[other] == level:
            unseen.remove(worth)
    return unseen

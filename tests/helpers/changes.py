"""What steps of a game changed, by any evaluation: the plain form of what chance_sum.py does fast.

For an evaluation that knows the results of finished games

    result = value of the opening + luck of dice + luck of values + changes by choices

holds exactly, for each seat, if nobody forfeited.
"""

from __future__ import annotations

from collections.abc import Sequence

from deepsea_sdk.coach.course import Outlook, Step, rolls
from deepsea_sdk.coach.luck import Evaluation, Number


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

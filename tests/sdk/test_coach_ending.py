"""What seats score on average at the end, while values are unknown: by counting all deals."""

from __future__ import annotations

from itertools import permutations

import pytest

from deepsea_rules.actions import LEVEL_OF, values_of_level
from deepsea_rules.ruleset import PRESETS
from deepsea_rules.scoring import final_result, placement_scores
from deepsea_rules.state import GameState
from deepsea_sdk.coach.ending import final_scores


def ended(rules: str, banks: list[tuple[int, ...]]) -> GameState:
    state = GameState(PRESETS[rules], (0,) * 33, len(banks))
    state.bank = banks
    state.phase = "over"
    return state


def counted(state: GameState, known: dict[int, int]) -> list[float]:
    """The mean over all ways to deal the values of one level that are left."""
    chips = [chip for bank in state.bank for chip in bank if chip not in known]
    (level,) = {LEVEL_OF[chip] for chip in chips}
    left = list(values_of_level(level))
    for chip, value in known.items():
        if LEVEL_OF[chip] == level:
            left.remove(value)
    total, count = [0.0] * state.players, 0
    for dealt in permutations(left, len(chips)):
        values = list(state.values)
        for chip, value in {**known, **dict(zip(chips, dealt, strict=True))}.items():
            values[chip] = value
        found = final_result(state.rules.tiebreak, state.bank, values)
        for seat, score in enumerate(placement_scores(found.placements)):
            total[seat] += score
        count += 1
    return [score / count for score in total]


@pytest.mark.parametrize("rules", sorted(PRESETS))
@pytest.mark.parametrize(
    ("banks", "known"),
    [
        ([(1, 2), (3, 4)], {}),
        ([(1, 2), (3, 9)], {9: 4}),
        ([(1,), (2, 3)], {1: 3, 5: 3, 6: 2}),
        ([(1, 10), (2, 11)], {10: 4, 11: 5}),
        ([(1, 2), (17,)], {17: 9}),
        ([(), (1,)], {}),
    ],
)
def test_all_deals_are_counted(
    rules: str, banks: list[tuple[int, ...]], known: dict[int, int]
) -> None:
    state = ended(rules, banks)
    assert final_scores(state, known) == pytest.approx(counted(state, known))


def test_three_seats_are_compared_by_pairs() -> None:
    state = ended("manual", [(1,), (25,), (26, 2)])
    scores = final_scores(state, {})
    assert scores[0] == 0
    assert sum(scores) == pytest.approx(1.5)
    # A chip more is an advantage of 0 to 3 points among values that are otherwise alike.
    assert scores[2] > scores[1] > 0.5

"""Points, tie-breaks and shared ranks. A hand is written as the bank of the position notation."""

import pytest

from deepsea_rules.scoring import placement_scores
from deepsea_rules.state import GameState
from helpers.positions import ALL, at, custom, turn

LEVELS = ("top_level", "lexicographic", "level4")


def over(*banks: str) -> str:
    """A finished game with these banks."""
    seats = " ".join(
        f"{seat}0v" + (f"/{bank}" if bank else "")
        for seat, bank in zip("ABCDEF", banks, strict=False)
    )
    return f"1 | {seats} | d3 a0 over"


def ranks(state: GameState) -> tuple[int, ...]:
    return tuple(state.result().placements)


# hands, scores, placements; no tie-break is needed
PLAIN = [
    (("4=15", "4=14"), (15, 14), (1, 2)),
    (("", "1=0"), (0, 0), None),
    (("1=0,1=1", "4=12", "2=7,3=8"), (1, 12, 15), (3, 2, 1)),
    (("4=12,4=13,4=14", "4=12,3=10,3=11", "", "1=3"), (39, 33, 0, 3), (1, 2, 4, 3)),
    (("1=1", "1=2", "1=3", "2=4", "2=5", "2=6"), (1, 2, 3, 4, 5, 6), (6, 5, 4, 3, 2, 1)),
]


@pytest.mark.parametrize("preset", ALL)
@pytest.mark.parametrize(("banks", "scores", "placements"), PLAIN)
def test_the_sum_of_what_was_brought_home(
    banks: tuple[str, ...], scores: tuple[int, ...], placements: tuple[int, ...] | None, preset: str
) -> None:
    result = at(over(*banks), preset).result()
    assert tuple(result.points) == scores
    if placements is not None:
        assert tuple(result.placements) == placements


@pytest.mark.parametrize("preset", ALL)
def test_cargo_that_was_not_brought_home_scores_nothing(preset: str) -> None:
    state = at("1 2 | A2v:4=15,4=14 Bh/1=0 | d3 a2", preset)
    turn(state, 2)
    assert tuple(state.result().points) == (0, 0)


# hands of equal points, and the placements under top_level, lexicographic, level4
TIES: dict[str, tuple[tuple[str, ...], tuple[tuple[int, ...], ...]]] = {
    "nothing at all": (("", ""), ((1, 1), (1, 1), (1, 1))),
    "a worthless chip beats nothing": (("1=0", ""), ((1, 2), (1, 2), (1, 1))),
    "the same hand": (("3=8", "3=8"), ((1, 1), (1, 1), (1, 1))),
    "one level 4 beats two level 3": (("4=15,1=3", "3=8,3=8,1=2"), ((1, 2), (1, 2), (1, 2))),
    "two level 4 beat one": (("4=12,4=13", "4=14,3=11"), ((1, 2), (1, 2), (1, 2))),
    "level 3 decides": (("4=15,2=5", "4=12,3=8"), ((1, 1), (2, 1), (1, 1))),
    "no level 4: level 3 is the top": (("3=8,1=0", "2=4,2=4"), ((1, 2), (1, 2), (1, 1))),
    "no level 3 either": (("2=4,1=1", "1=2,1=3"), ((1, 2), (1, 2), (1, 1))),
    "more of the top level": (("3=8,3=11", "3=9,2=4,2=6"), ((1, 2), (1, 2), (1, 1))),
    # three and more
    "three different counts": (
        ("4=12,4=13", "4=14,2=5,2=6", "3=8,3=8,3=9"),
        ((1, 2, 3), (1, 2, 3), (1, 2, 3)),
    ),
    "two share the first rank": (
        ("4=12,2=4", "4=13,1=3", "3=8,3=8"),
        ((1, 1, 3), (1, 2, 3), (1, 1, 3)),
    ),
    "two share the second rank": (
        ("4=12,4=12", "4=13,3=11", "4=14,3=10"),
        ((1, 2, 2), (1, 2, 2), (1, 2, 2)),
    ),
    "three share the first rank": (("3=8", "3=8", "2=4,2=4"), ((1, 1, 3), (1, 1, 3), (1, 1, 1))),
    "two pairs": (
        ("4=12", "3=8,2=4", "4=14", "3=10,2=4"),
        ((3, 4, 1, 2), (3, 4, 1, 2), (3, 4, 1, 2)),
    ),
    "each tied group has its own top level": (
        ("4=14", "3=10,2=4", "2=5,1=3", "3=8"),
        ((1, 2, 4, 3), (1, 2, 4, 3), (1, 2, 3, 3)),
    ),
    "a better placed diver's chips do not matter to those below": (
        ("4=15,4=15", "3=9", "2=6,1=3"),
        ((1, 2, 3), (1, 2, 3), (1, 2, 2)),
    ),
    "six of a kind": (("",) * 6, ((1,) * 6, (1,) * 6, (1,) * 6)),
}


@pytest.mark.parametrize("column", range(3), ids=LEVELS)
@pytest.mark.parametrize(("banks", "placements"), TIES.values(), ids=TIES)
def test_ties(banks: tuple[str, ...], placements: tuple[tuple[int, ...], ...], column: int) -> None:
    assert ranks(at(over(*banks), custom(tiebreak=LEVELS[column]))) == placements[column]


def test_the_result_is_there_only_when_the_game_is_over() -> None:
    state = at("1 2 | A0v B0v")
    with pytest.raises(ValueError, match="over"):
        state.result()


@pytest.mark.parametrize(
    ("placements", "scores"),
    [
        ((1, 2), (1, 0)),
        ((1, 1), (0.5, 0.5)),
        ((2, 1, 3), (0.5, 1, 0)),
        ((1, 1, 3), (0.75, 0.75, 0)),
        ((1, 2, 2, 2), (1, 1 / 3, 1 / 3, 1 / 3)),
        ((4, 3, 2, 1), (0, 1 / 3, 2 / 3, 1)),
    ],
)
def test_a_placement_score_is_the_share_of_the_others_that_are_behind(
    placements: tuple[int, ...], scores: tuple[float, ...]
) -> None:
    assert placement_scores(placements) == pytest.approx(scores)
    assert sum(scores) == pytest.approx(len(scores) / 2)

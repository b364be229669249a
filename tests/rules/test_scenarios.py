"""Scenarios of the rules, row by row and preset by preset.

Each row is one position and what must come of it. The five presets are played through the same
row, and where they part the table says how.
"""

import pytest

from deepsea_rules.actions import Unit
from deepsea_rules.errors import IllegalAction
from deepsea_rules.notation import format_position
from deepsea_rules.view import view_for
from helpers.positions import (
    ALL,
    HOME,
    at,
    choices,
    events,
    level,
    opening,
    play,
    settle,
    trail,
    turn,
)

L32 = opening()

# id, position, roll, space (0 = home) and air after the move of seat A.
MOVES = [
    ("M1", f"{L32} | A0v B0v", 4, 4, 25),
    ("M2", f"{L32} | A0v B3v", 4, 5, 25),
    ("M3", f"{L32} | A2v B5v", 3, 6, 25),
    ("M5", f"{opening(1, 9)} | A5v:1,2 B0v", 5, 8, 23),
    ("M8", f"{opening(1, 2, 9, 10)} | A5v:1,1,2,2 B0v", 2, 5, 21),
    ("M9", f"{L32} | A30v B0v", 5, 32, 25),
    ("M10", f"{L32} | A29v B32v", 5, 31, 25),
    ("M13", f"{opening(1)} | A1^:1 B4v", 2, HOME, 24),
    ("M14", f"{opening(1)} | A2^:1 B4v", 6, HOME, 24),
    ("M16", f"{opening(1, 2, 3, 4)[8:]} | A5v:1/1,1,1 B0v", 4, 8, 24),
]


@pytest.mark.parametrize("preset", ALL)
@pytest.mark.parametrize(
    ("text", "roll", "space", "air"), [m[1:] for m in MOVES], ids=[m[0] for m in MOVES]
)
def test_moves(preset: str, text: str, roll: int, space: int, air: int) -> None:
    state = play(at(text, preset), f"r{roll}")
    assert state.place[0] == space
    assert state.air == air
    if space == HOME:
        assert tuple(state.home_order) == (0,)
        assert (state.phase, state.to_move) == ("declare", 1)
    else:
        assert (state.phase, state.to_move) == ("search", 0)


@pytest.mark.parametrize("preset", ALL)
def test_m1_may_leave_or_take(preset: str) -> None:
    state = play(at(f"{L32} | A0v B0v", preset), "r4")
    assert choices(state) == ["leave", "take"]


@pytest.mark.parametrize("preset", ALL)
def test_m8_may_search_where_it_stays(preset: str) -> None:
    state = play(at(f"{opening(1, 2, 9, 10)} | A5v:1,1,2,2 B0v", preset), "r2")
    assert choices(state) == ["leave", "take"]


# id, position, what may be declared under guide, revised, manual, reference, publisher.
BOTH, DOWN, BACK = ["down", "back"], ["down"], ["back"]
DECLARATIONS = [
    ("D1", f"{L32} | A0v B0v", (DOWN, DOWN, DOWN, DOWN, DOWN)),
    ("D2", f"{L32} | A4v B0v", (BOTH, BOTH, DOWN, DOWN, BOTH)),
    ("D5", f"{opening(25)} | A32v:4 B0v", (BACK, BOTH, BOTH, BOTH, BOTH)),
]


@pytest.mark.parametrize(
    ("text", "preset", "legal"),
    [
        (text, preset, legal)
        for _, text, row in DECLARATIONS
        for preset, legal in zip(ALL, row, strict=True)
    ],
    ids=[f"{name}-{preset}" for name, _, _ in DECLARATIONS for preset in ALL],
)
def test_declarations(text: str, preset: str, legal: list[str]) -> None:
    state = at(text, preset)
    assert choices(state) == legal
    for action in BOTH:
        assert state.is_legal(action) is (action in legal)
        if action not in legal:
            with pytest.raises(IllegalAction):
                state.apply(action)


@pytest.mark.parametrize("preset", ALL)
def test_d4_no_way_down_after_turning_back(preset: str) -> None:
    state = at(f"{opening(1)} | A5^:1 B0v", preset)
    assert not state.is_legal("down")
    with pytest.raises(IllegalAction):
        state.apply("down")
    assert play(state, "r3").place[0] == 3


@pytest.mark.parametrize(
    ("preset", "space"), [("guide", HOME), ("manual", HOME), ("revised", 1), ("publisher", 1)]
)
def test_e1_home_without_treasure(preset: str, space: int) -> None:
    assert play(at(f"{L32} | A2^ B9v", preset), "r4").place[0] == space


@pytest.mark.parametrize("preset", ALL)
def test_e5_dropping_the_last_unit_after_turning_back(preset: str) -> None:
    state = play(at("1 1 x 1 1 1 | A5^:1 B0v", preset), "r3")
    assert state.place[0] == 3
    if preset == "reference":
        assert choices(state) == ["leave"]
        with pytest.raises(IllegalAction):
            state.apply("drop:1")
    else:
        assert choices(state) == ["leave", "drop:1"]
        play(state, "drop:1")
        assert trail(state) == "1 1 1 1 1 1"
        assert state.cargo[0] == ()


@pytest.mark.parametrize("preset", ALL)
def test_e7_dropping_one_of_two_after_turning_back(preset: str) -> None:
    state = at("1 1 x 1 | A3^:1,2 B0v | d1 a20 search", preset)
    assert choices(state) == ["leave", "drop:1", "drop:2"]
    assert trail(play(state, "drop:2")) == "1 1 2 1"


@pytest.mark.parametrize("preset", ALL)
def test_a3_the_last_breath_is_played_to_its_end(preset: str) -> None:
    state = at(f"{opening(1, 2, 9)} | A10v:1,1,2 B0v | d1 a1", preset)
    play(state, "r6")
    assert state.air == -2
    assert format_position(state).endswith("| d1 a-2 search")
    assert state.place[0] == 13
    assert choices(state) == ["leave", "take"]
    settle(play(state, "take"))
    assert (state.dive, state.air, state.phase) == (2, 25, "declare")


@pytest.mark.parametrize("preset", ALL)
def test_a5_the_last_diver_home_ends_the_dive(preset: str) -> None:
    state = at("1 1 1 1 | Ah *B2^:2 | d1 a9", preset)
    state.log = []
    state.roll(1, 3)
    turned, cleaned, began = events(state)
    assert turned["event"] == "turn"
    assert (turned["air"], turned["home"], turned["search"]) == (8, True, None)
    assert cleaned["event"] == "cleanup"
    assert (cleaned["reason"], cleaned["starter"]) == ("home", 1)
    assert cleaned["banked"] == {"A": [], "B": ["2"]}
    assert began["event"] == "dive"
    assert state.cargo[1] == ()
    assert [level(chip) for chip in state.bank[1]] == [2]
    assert (state.dive, state.air, state.phase, state.to_move) == (2, 25, "declare", 1)


@pytest.mark.parametrize("preset", ALL)
class TestOneSearchATurn:
    """R1 to R5."""

    def test_r1_take_then_drop(self, preset: str) -> None:
        state = play(at("1 2 3 4 | A1v:1 B0v | d1 a20 search", preset), "take")
        assert state.to_move == 1
        with pytest.raises(IllegalAction):
            state.apply("drop:1")

    def test_r2_drop_on_treasure(self, preset: str) -> None:
        state = at("1 2 3 4 | A1v:1 B0v | d1 a20 search", preset)
        assert choices(state) == ["leave", "take"]
        with pytest.raises(IllegalAction):
            state.apply("drop:1")

    def test_r3_a_stack_is_taken_as_one_unit(self, preset: str) -> None:
        state = play(at("1 [123] 3 4 4 | A2v B0v | d1 a20 search", preset), "take")
        assert [unit.levels for unit in state.cargo[0]] == [(1, 2, 3)]
        assert trail(state) == "1 x 3 4 4"
        turn(state, 2)  # B hops to 3
        assert state.air == 20
        play(state, "r2")  # A hops to 4
        assert state.air == 19
        assert state.place == [4, 3]

    def test_r4_a_stack_is_dropped_whole(self, preset: str) -> None:
        state = at("1 x 3 | A2v:[12],4 B0v | d1 a20 search", preset)
        assert choices(state) == ["leave", "drop:[12]", "drop:4"]
        play(state, "drop:[12]")
        assert trail(state) == "1 [12] 3"
        assert [unit.levels for unit in state.cargo[0]] == [(4,)]

    def test_r5_no_search_on_the_submarine(self, preset: str) -> None:
        state = play(at("1 1 1 1 | A1^:2,3 B3v", preset), "r6")
        assert state.place[0] == HOME
        assert (state.phase, state.to_move) == ("declare", 1)
        assert [level(chip) for chip in state.bank[0]] == [2, 3]


C1 = {
    "guide": "2 3 4 {114} {4}",
    "manual": "2 3 4 {114} {4}",
    "reference": "2 3 4 {114} {4}",
    "revised": "2 3 4 {441} {1}",
    "publisher": "2 3 4 {441} {1}",
}


@pytest.mark.parametrize("preset", ALL)
def test_c1_piles_and_the_sequence_of_divers(preset: str) -> None:
    state = at("x x 2 x 3 4 | A3^:1,1 B5^:4,4 | d1 a1", preset)
    turn(state, 2)
    assert trail(state) == C1[preset]
    assert (state.dive, state.to_move) == (2, 1)


@pytest.mark.parametrize("preset", ALL)
@pytest.mark.parametrize(
    ("order", "after"), [("1,2,3,4", "2 {123} {4}"), ("4,3,2,1", "2 {432} {1}")]
)
def test_c3_the_owner_orders_its_items(preset: str, order: str, after: str) -> None:
    state = at("x 2 x x | A2^:1,2,3,4 Bh | d1 a4", preset)
    turn(state, 2)
    assert (state.phase, state.to_move) == ("order", 0)
    assert trail(play(state, f"order:{order}")) == after
    assert state.dive == 2


@pytest.mark.parametrize("preset", ALL)
def test_c5_topping_up_a_tail_pile(preset: str) -> None:
    state = at("1 2 3 {1} | A3^:1 Bh | d2 a1", preset)
    turn(state, 2)
    assert trail(state) == ("1 2 3 {11}" if preset == "revised" else "1 2 3 {1} {1}")


@pytest.mark.parametrize("preset", ALL)
def test_c6_an_original_chip_is_never_topped_up(preset: str) -> None:
    state = at("1 2 4 4 | A3^:1 Bh | d1 a1", preset)
    turn(state, 2)
    assert trail(state) == "1 2 4 4 {1}"


@pytest.mark.parametrize("preset", ALL)
def test_c8_blanks_go_and_gaps_close(preset: str) -> None:
    state = at("1 x 2 x x 3 | A1^:4 Bh | d1 a20", preset)
    turn(state, 3)
    assert trail(state) == "1 2 3"
    assert state.place == [0, 0]
    assert state.homeward == [False, False]
    assert (state.dive, state.air) == (2, 25)


@pytest.mark.parametrize("preset", ALL)
def test_c11_the_farthest_starts_even_without_cargo(preset: str) -> None:
    state = at(f"{opening(1)} | A3v:1 B7v C12v | d1 a1", preset)
    turn(state, 2)
    assert (state.dive, state.to_move) == (2, 2)


@pytest.mark.parametrize("preset", ALL)
def test_c12_the_last_one_home_starts(preset: str) -> None:
    state = at(f"{opening(1)} | Ah2 *B1^:1 Ch1 | d1 a10", preset)
    turn(state, 4)
    assert (state.dive, state.to_move) == (2, 1)


@pytest.mark.parametrize("preset", ALL)
def test_v1_one_deep_chip_beats_two_shallower_ones(preset: str) -> None:
    result = at("1 | A0v/4=15,1=3 B0v/3=8,3=8,1=2 | d3 a0 over", preset).result()
    assert tuple(result.points) == (18, 18)
    assert tuple(result.placements) == (1, 2)


@pytest.mark.parametrize("preset", ALL)
def test_v5_chips_of_stacks_count_singly(preset: str) -> None:
    state = at("1 | *A1^:[4=13,4=14,1=2] Bh/4=13,3=8,3=8 | d3 a9", preset)
    turn(state, 3)
    assert state.phase == "over"
    result = state.result()
    assert tuple(result.points) == (29, 29)
    assert tuple(result.placements) == (1, 2)


@pytest.mark.parametrize("preset", ["revised", "manual", "reference", "publisher"])
def test_i2_counting_what_everybody_saw(preset: str) -> None:
    state = at("1 1 1 1 1 2 | A0v/1=0,1=0 B0v/1=1 | d2", preset)
    for seat in (0, 1, None):
        view = view_for(state, seat)
        assert view.unseen(1) == [1, 2, 2, 3, 3]
        assert view.expected_value(Unit(state.trail[1])) == pytest.approx(11 / 5)


def test_i3_what_others_banked_stays_unseen() -> None:
    state = at("1 1 1 1 1 2 | A0v/1=0 B0v/1,1 | d2", "guide")
    assert view_for(state, 0).unseen(1) == [0, 1, 1, 2, 2, 3, 3]

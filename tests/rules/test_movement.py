"""Swimming: how far, over whom, and where the trail ends. The same under every preset."""

import pytest

from deepsea_rules.errors import IllegalAction, RulesError
from helpers.positions import ALL, HOME, at, choices, opening, play, snapshot, turn

L32 = opening()

# what is shown, position, roll, where seat A ends
SWIMS = {
    # load
    "the roll is the way without load": (f"{L32} | A3v B0v", 6, 9),
    "one unit costs one step": (f"{L32[2:]} | A3v:1 B0v", 6, 8),
    "a stack costs one step": (f"{opening(1, 9, 17)} | A3v:[123] B0v", 6, 8),
    "two units cost two": (f"{opening(1, 9, 17)} | A3v:[12],3 B0v", 6, 7),
    "load equal to the roll": (f"{opening(1, 2, 9, 10)} | A5v:1,1,2,2 B0v", 4, 5),
    "load above the roll": (f"{opening(1, 2, 9, 10)} | A5v:1,1,2,2 B0v", 2, 5),
    "load slows the way home as well": (f"{opening(1, 2)} | A9^:1,1 B0v", 5, 6),
    "banked chips weigh nothing": (f"{L32[6:]} | A3v/1,1,1 B0v", 6, 9),
    # hopping on the way down
    "hop over one": (f"{L32} | A0v B2v", 3, 4),
    "hop over two in a row": (f"{L32} | A0v B2v C3v", 3, 5),
    "hop over two apart": (f"{L32} | A0v B1v C4v", 3, 5),
    "landing space taken": (f"{L32} | A0v B3v", 3, 4),
    "landing space and the next taken": (f"{L32} | A0v B3v C4v", 3, 5),
    "hopping costs nothing under load": (f"{opening(1)} | A3v:1 B4v", 2, 5),
    "a diver just behind does not matter": (f"{L32} | A4v B3v", 2, 6),
    "a diver just beyond does not matter": (f"{L32} | A0v B5v", 4, 4),
    "divers aboard are not hopped": (f"{L32} | A0v B0v C0v", 2, 2),
    "divers at home are not hopped": (f"{L32} | A0v Bh", 2, 2),
    "five in a row": (f"{L32} | A0v B1v C2v D3v E4v F5v", 2, 7),
    "a homeward diver is hopped too": (f"{opening(1)} | A0v B2^:1", 2, 3),
    # hopping on the way home
    "hop on the way home": (f"{opening(1)} | A6^:1 B5v", 3, 3),
    "landing space taken on the way home": (f"{opening(1)} | A6^:1 B4v", 3, 3),
    "hop into the submarine": (f"{opening(1)} | A2^:1 B1v", 2, HOME),
    "landing space taken next to the submarine": (f"{opening(1)} | A3^:1 B1v", 3, HOME),
    "one step short of the submarine": (f"{opening(1)} | A3^:1 B5v", 3, 1),
    "the submarine counts as one step": (f"{opening(1)} | A3^:1 B5v", 4, HOME),
    "the submarine stops an overshoot": (f"{opening(1)} | A3^:1 B5v", 6, HOME),
    "a way home of nothing": (f"{opening(1, 2)} | A1^:1,1 B5v", 2, 1),
    # the deep end
    "exactly to the last space": (f"{L32} | A29v B0v", 3, 32),
    "the deep end stops an overshoot": (f"{L32} | A31v B0v", 6, 32),
    "no way on from the last space": (f"{opening(32)} | A32v:4 B0v", 6, 32),
    "last space taken": (f"{L32} | A30v B32v", 6, 31),
    "last two taken": (f"{L32} | A29v B31v C32v", 6, 30),
    "last space taken and next to it": (f"{L32} | A31v B32v", 3, 31),
    "all deeper ones taken": (f"{L32} | A30v B31v C32v", 3, 30),
    "a gap beyond the taken ones": (f"{L32} | A29v B30v C32v", 2, 31),
    "blanks are spaces": ("1 x x x 1 1 | A1v B0v", 3, 4),
    "stacks are one space": ("1 [12] {123} 1 1 | A1v B0v", 3, 4),
    # a trail that is too short
    "a one-space trail": ("1 | A0v B0v", 6, 1),
    "nowhere to go from the submarine": ("1 | A0v B1v", 2, 0),
    "nowhere to go on two spaces": ("1 1 | A0v B1v C2v", 6, 0),
    "the one space left on a short trail": ("1 1 1 | A0v B1v C3v", 6, 2),
}


@pytest.mark.parametrize("preset", ["manual", "guide", "publisher"])
@pytest.mark.parametrize(("text", "roll", "space"), SWIMS.values(), ids=SWIMS)
def test_swims(text: str, roll: int, space: int, preset: str) -> None:
    state = at(text, preset)
    if preset == "guide" and choices(state) == ["back"]:
        pytest.skip("the guide makes this diver turn back")
    assert play(state, f"r{roll}").place[0] == space


@pytest.mark.parametrize("dice", [(d1, d2) for d1 in (1, 2, 3) for d2 in (1, 2, 3)])
def test_both_dice_count(dice: tuple[int, int]) -> None:
    state = at(f"{L32} | A0v B0v")
    state.apply("down")
    state.roll(*dice)
    assert state.place[0] == sum(dice)


@pytest.mark.parametrize("dice", [(0, 1), (4, 1), (1, 4), (1, 0), (-1, 2)])
def test_no_other_faces(dice: tuple[int, int]) -> None:
    state = at(f"{L32} | A0v B0v")
    state.apply("down")
    before = snapshot(state)
    with pytest.raises(RulesError):
        state.roll(*dice)
    assert snapshot(state) == before


def test_no_roll_after_the_move() -> None:
    state = at(f"{L32} | A4v B0v | d1 a25 search", "guide")
    before = snapshot(state)
    with pytest.raises(IllegalAction):
        state.roll(1, 2)
    assert snapshot(state) == before


def test_who_rolls_without_a_word_keeps_its_way() -> None:
    state = at(f"{opening(1)} | A4v:1 B0v", "guide")
    state.roll(1, 2)
    assert (state.place[0], state.homeward[0], state.air) == (6, False, 24)


def test_who_must_turn_back_turns_back_without_a_word() -> None:
    state = at("1 1 1 1 | A4v:2 B0v", "guide")
    state.roll(1, 2)
    assert (state.place[0], state.homeward[0]) == (2, True)


def test_no_declaration_after_the_declaration() -> None:
    state = play(at(f"{L32} | A4v B0v", "guide"), "down")
    for action in ("down", "back", "leave", "take"):
        with pytest.raises(IllegalAction):
            state.apply(action)


@pytest.mark.parametrize("preset", ALL)
class TestStayingAboard:
    """A diver who cannot leave a too-short trail stays aboard and is not home."""

    def test_is_not_home_and_does_not_search(self, preset: str) -> None:
        state = at("1 | A0v B1v:2", preset)
        assert choices(state) == ["down"]
        play(state, "r5")
        assert state.place == [0, 1]
        assert tuple(state.home_order) == ()
        assert state.homeward[0] is False
        assert (state.phase, state.to_move) == ("declare", 1)

    def test_leaves_when_a_space_is_free_again(self, preset: str) -> None:
        state = at("1 | A0v *B1^:2", preset)
        turn(state, 6)
        assert state.place == [0, HOME]
        assert (state.dive, state.to_move) == (1, 0)
        assert choices(state) == ["down"]
        assert play(state, "r4").place[0] == 1

    def test_does_not_hold_up_the_end_of_air(self, preset: str) -> None:
        state = at("1 | A0v *B1v:2,2 | d1 a2", preset)
        turn(state, 2)
        assert (state.dive, state.to_move) == (2, 1)


def test_turning_back_happens_before_the_roll() -> None:
    state = play(at(f"{opening(1)} | A6v:1 B0v"), "back")
    assert state.homeward[0] is True
    assert state.place[0] == 6
    assert play(state, "r4").place[0] == 3


def test_air_falls_with_the_load_before_the_move() -> None:
    state = play(at(f"{opening(1, 9, 17, 25)} | A6v:[123],4 B0v"), "down")
    assert state.air == 23
    state.roll(1, 1)
    assert state.air == 23


# ------------------------------------------------------------------------ barred outside

BARRED = {
    "stops on space 1": ("1 1 1 1 | A3^ B4v", 6, 1),
    "is not stopped on its way": ("1 1 1 1 | A4^ B3v", 2, 1),
    "moves by its roll when that ends outside": (f"{L32} | A9^ B0v", 4, 5),
    "space 1 taken: the nearest free one outside": ("1 1 1 1 | A4^ B1v", 6, 2),
    "spaces 1 and 2 taken": ("1 1 1 1 | A4^ B1v C2v", 6, 3),
    "everything on its way taken: stays": ("1 1 1 1 | A2^ B1v", 6, 2),
    "already next to the submarine: stays": ("1 1 1 1 | A1^ B3v", 3, 1),
    "treasure opens the door": ("1 1 1 1 | A3^:2 B4v", 6, HOME),
}


@pytest.mark.parametrize(("text", "roll", "space"), BARRED.values(), ids=BARRED)
@pytest.mark.parametrize("preset", ["revised", "publisher"])
def test_barred(text: str, roll: int, space: int, preset: str) -> None:
    state = play(at(text, preset), f"r{roll}")
    assert state.place[0] == space
    if space != HOME:
        assert state.phase == "search"
        assert tuple(state.home_order) == ()

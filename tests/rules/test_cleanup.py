"""The end of a dive: who lays what where, how piles grow, and who begins the next one."""

from dataclasses import replace
from itertools import permutations

import pytest

from helpers.positions import ALL, at, chips_of, choices, custom, play, settle, trail, turn

CLOSEST = ("guide", "manual", "reference")
FARTHEST = ("revised", "publisher")


# position with A's turn to end the dive by air, and the trail after the default orders for
# divers laying closest first and farthest first
LAID = {
    "two items": ("1 2 | A1v:3,4 B2v | d1 a2", "1 2 {34}", "1 2 {34}"),
    "exactly a pile": ("1 2 | A1v:3,4,4 B2v | d1 a3", "1 2 {344}", "1 2 {344}"),
    "one more than a pile": ("1 2 | A1v:4,4,4,4 B2v | d1 a4", "1 2 {444} {4}", "1 2 {444} {4}"),
    "two piles": ("1 2 | A1v:4,4,4,4,4,4 B2v | d1 a6", "1 2 {444} {444}", "1 2 {444} {444}"),
    "piles continue across divers": (
        "1 2 2 2 | A1v:3,3 B2v:1 C4v:4,4 | d1 a2",
        "1 2 2 2 {331} {44}",
        "1 2 2 2 {441} {33}",
    ),
    "a full pile is followed by a new one": (
        "1 2 2 2 | A1v:3,3,3 B2v:1 | d1 a3",
        "1 2 2 2 {333} {1}",
        "1 2 2 2 {133} {3}",
    ),
    "three divers, five items": (
        "1 2 2 2 2 | A2v:3,3 B1v:1,1 C5v:4 | d1 a2",
        "1 2 2 2 2 {113} {34}",
        "1 2 2 2 2 {433} {11}",
    ),
    "distance decides, not facing or seat": (
        "1 2 2 2 2 | A5^:3,3 B1v:1,1 | d1 a2",
        "1 2 2 2 2 {113} {3}",
        "1 2 2 2 2 {331} {1}",
    ),
    "divers without cargo lay nothing": (
        "1 2 2 2 | A2v:3,3 B1v C4v:1,1 | d1 a2",
        "1 2 2 2 {331} {1}",
        "1 2 2 2 {113} {3}",
    ),
    "divers at home keep theirs": (
        "1 2 2 2 | A2v:3,3 Bh/4,4 C4v:1 | d1 a2",
        "1 2 2 2 {331}",
        "1 2 2 2 {133}",
    ),
    "past the end of the trail even if that is blank": (
        "1 x x x | A2v:3,3 B4v:4 | d1 a2",
        "1 {334}",
        "1 {433}",
    ),
    "nothing else is left": ("x x | A1v:3,3 B2v:1 | d1 a2", "{331}", "{133}"),
}


@pytest.mark.parametrize("preset", ALL)
@pytest.mark.parametrize(("text", "closest", "farthest"), LAID.values(), ids=LAID)
def test_laying(text: str, closest: str, farthest: str, preset: str) -> None:
    state = at(text, preset)
    chips = chips_of(state)
    turn(state, 2)
    settle(state)
    assert trail(state) == (closest if preset in CLOSEST else farthest)
    assert chips_of(state) == chips
    assert state.dive == 2


# -------------------------------------------------------------------------- tail piles

TOP_UP = {
    "one chip": ("1 2 {1} | A1v:3 Bh | d2 a1", "1 2 {13}"),
    "two chips": ("1 2 {12} | A1v:3 Bh | d2 a1", "1 2 {123}"),
    "a full one is left alone": ("1 2 {123} | A1v:3 Bh | d2 a1", "1 2 {123} {3}"),
    "more than fits": ("1 2 {12} | A1v:3,3,3 Bh | d2 a3", "1 2 {123} {33}"),
    "a full pile before a short one": ("1 {123} {1} | A1v:3,3 Bh | d2 a2", "1 {123} {133}"),
    "only blanks behind it": ("1 {1} x x | A1v:3 Bh | d2 a1", "1 {13}"),
    "only tail piles behind it": ("1 {1} x {223} | A1v:3 Bh | d2 a1", "1 {13} {223}"),
    "two short ones": ("1 {1} {2} | A1v:3,3,3,3 Bh | d2 a4", "1 {133} {233}"),
    "an original chip at the end": ("1 2 | A1v:3 Bh | d2 a1", "1 2 {3}"),
    "a stack that was carried": ("1 2 [12] | A1v:3 Bh | d2 a1", "1 2 [12] {3}"),
    "an original chip behind it": ("1 {1} 2 | A1v:3 Bh | d2 a1", "1 {1} 2 {3}"),
    "a carried stack behind it": ("1 {1} [22] | A1v:3 Bh | d2 a1", "1 {1} [22] {3}"),
    "cut off, and another at the tail": ("1 {1} 2 {2} | A1v:3,3,3 Bh | d2 a3", "1 {1} 2 {233} {3}"),
    "nothing to lay": ("1 {1} | A1^:3 Bh | d2 a1", "1 {1}"),
}


@pytest.mark.parametrize(("text", "after"), TOP_UP.values(), ids=TOP_UP)
def test_top_up(text: str, after: str) -> None:
    state = at(text, "revised")
    turn(state, 2)
    settle(state)
    assert trail(state) == after


# ------------------------------------------------------------------------- stacks lost again

LOST_STACKS = {
    "one stack": ("1 2 | A1v:[123],4 Bh | d2 a2", "1 2 {1234}", "1 2 {123} {4}"),
    "a stack after chips": ("1 2 | A1v:4,4,[12] Bh | d2 a3", "1 2 {4412}", "1 2 {441} {2}"),
    "three stacks in a pile of nine": (
        "1 2 | A1v:[123],[124],[134] Bh | d2 a3",
        "1 2 {123124134}",
        "1 2 {123} {124} {134}",
    ),
    "the fourth item begins a new pile": (
        "1 2 | A1v:[12],[13],[14],[34] Bh | d2 a4",
        "1 2 {121314} {34}",
        "1 2 {121} {314} {34}",
    ),
    "piles across divers count items": (
        "1 2 2 | A1v:[12],[13] B3v:[14],4 | d2 a2",
        "1 2 2 {121314} {4}",
        "1 2 2 {121} {314} {4}",
    ),
}


@pytest.mark.parametrize(("text", "unit", "chips"), LOST_STACKS.values(), ids=LOST_STACKS)
def test_lost_stacks(text: str, unit: str, chips: str) -> None:
    for rule, after in (("unit", unit), ("chips", chips)):
        for base in ("manual", "guide"):
            state = at(text, custom(base, relost_stack=rule))
            turn(state, 2)
            assert trail(settle(state)) == after, rule


TOPPED_UP = [
    "1 1 {2} | A2^:[342],4 Bh1 | d2 a1",
    "1 1 {2} | A2^:4,[342] Bh1 | d2 a1",
    "1 1 {2} | A2^:[12],4 Bh1 | d2 a1",
    "1 1 {2} | A2^:[342],1,4 Bh1 | d2 a1",
    "1 1 {23} | A2^:[12],4,[12] Bh1 | d2 a1",
    "1 1 {2} {3} | A2^:1,[234],2,[22] Bh1 | d2 a1",
    "1 1 {234} {4} | A2^:[12],[12] Bh1 | d2 a1",
    "1 1 | A2^:[342],4,1,1 Bh1 | d2 a1",
]


@pytest.mark.parametrize("text", TOPPED_UP)
def test_every_outcome_of_stacks_on_older_piles_is_listed(text: str) -> None:
    rules = custom("reference", top_up_tail_piles=True, relost_stack="unit")

    def piles(order: str) -> tuple[tuple[str, ...], ...]:
        state = at(text, replace(rules, drop_order="pickup_order"))
        mover = state.to_move
        names = order.removeprefix("order:").split(",")
        units = {unit.name: unit for unit in state.cargo[mover]}
        state.cargo[mover] = tuple(units[name] for name in names)
        turn(state, 2)
        return tuple(tuple(sorted(unit.name)) for unit in state.trail)

    names = text.split(":")[1].split(" ")[0].split(",")
    possible = {piles("order:" + ",".join(names)) for names in permutations(names)}
    state = at(text, rules)
    turn(state, 2)
    listed = [piles(action) for action in state.legal_actions()] if state.phase == "order" else []
    assert len(listed) == len(set(listed))
    assert set(listed) == (possible if len(possible) > 1 else set())


def test_items_of_an_order_are_units_or_chips() -> None:
    text = "1 2 | A1v:[12],3,4,4 Bh | d2 a4"
    unit = at(text, custom(relost_stack="unit"))
    turn(unit, 2)
    assert unit.legal_actions()[0] == "order:[12],3,4,4"
    assert trail(play(unit, "order:4,[12],4,3")) == "1 2 {4124} {3}"
    chips = at(text, custom(relost_stack="chips"))
    turn(chips, 2)
    assert chips.legal_actions()[0] == "order:1,2,3,4,4"
    assert trail(play(chips, "order:4,2,4,3,1")) == "1 2 {424} {31}"


# ----------------------------------------------------------------------------- the orders


def order_asked(text: str, preset: str = "manual") -> bool:
    state = at(text, preset)
    turn(state, 2)
    return state.phase == "order"


ASKED = {
    "four different items": ("1 1 | A1v:1,2,3,4 Bh | d1 a4", True),
    "three items in one pile": ("1 1 | A1v:1,2,3 Bh | d1 a3", False),
    "one item": ("1 1 | A1v:4 Bh | d1 a1", False),
    "four equal items": ("1 1 | A1v:4,4,4,4 Bh | d1 a4", False),
    "four items, one differs": ("1 1 | A1v:4,4,4,3 Bh | d1 a4", True),
    "a stack among chips": ("1 1 | A1v:4,4,4,[44] Bh | d1 a4", True),
    "no cargo": ("1 1 | A1v:3,3 B2v | d1 a2", False),
}


@pytest.mark.parametrize(("text", "asked"), ASKED.values(), ids=ASKED)
def test_asked_only_if_orders_lead_to_different_piles(text: str, asked: bool) -> None:
    assert order_asked(text) is asked


@pytest.mark.parametrize("preset", CLOSEST)
def test_an_open_pile_of_another_diver_makes_the_difference(preset: str) -> None:
    """A, closest, fills two places of a pile; B's first item takes the third."""
    state = at("1 1 1 | A1v:3,3 B2v:1,2 C3v | d1 a2", preset)
    turn(state, 2)
    assert (state.phase, state.to_move) == ("order", 1)
    assert trail(play(state.clone(), "order:1,2")) == "1 1 1 {331} {2}"
    assert trail(play(state.clone(), "order:2,1")) == "1 1 1 {332} {1}"


@pytest.mark.parametrize("preset", FARTHEST)
def test_the_first_diver_to_lay_is_not_asked_for_nothing(preset: str) -> None:
    """B, farthest, lays two chips in a fresh pile; A's first item takes the third place."""
    state = at("1 1 1 | A1v:3,4 B2v:1,2 C3v | d1 a2", preset)
    turn(state, 2)
    assert (state.phase, state.to_move) == ("order", 0)
    assert trail(play(state, "order:4,3")) == "1 1 1 {124} {3}"


def test_a_tail_pile_makes_the_difference_where_it_is_topped_up() -> None:
    text = "1 1 {33} | A1v:1,2 Bh | d2 a2"
    assert order_asked(text, "revised")
    assert not order_asked(text, "manual")


@pytest.mark.parametrize(
    ("preset", "seats"), [("manual", [0, 1]), ("revised", [1, 0]), ("guide", [0, 1])]
)
def test_divers_are_asked_one_after_another(preset: str, seats: list[int]) -> None:
    state = at("1 1 1 | A1v:1,2,3,4 B3v:1,2,3,4 C2v | d1 a4", preset)
    turn(state, 2)
    asked = []
    while state.phase == "order":
        asked.append(state.to_move)
        assert chips_of(state)
        play(state, "order:4,3,2,1")
    assert asked == seats
    assert trail(state) == "1 1 1 {432} {143} {21}"
    assert state.dive == 2


@pytest.mark.parametrize("preset", ALL)
def test_the_default_is_the_pickup_order_and_comes_first(preset: str) -> None:
    state = at("1 1 | A1v:3,1,4,2 Bh | d1 a4", preset)
    turn(state, 2)
    legal = state.legal_actions()
    assert legal[0] == "order:3,1,4,2"
    assert len(set(legal)) == len(legal)
    for action in legal:
        assert state.is_legal(action)
    for last in "1234":  # any order of one's own items is legal, listed or not
        first = "".join(sorted("1234".replace(last, ""), reverse=True))
        action = "order:" + ",".join(first + last)
        assert state.is_legal(action)
        pile = trail(play(state.clone(), action))
        assert pile == f"1 1 {{{first}}} {{{last}}}"


@pytest.mark.parametrize("preset", ALL)
def test_the_listed_orders_reach_every_outcome(preset: str) -> None:
    state = at("1 1 | A1v:3,1,4,2 Bh | d1 a4", preset)
    turn(state, 2)
    outcomes = set()
    for action in state.legal_actions():
        after = play(state.clone(), action)
        outcomes.add(tuple(tuple(sorted(unit.levels)) for unit in after.trail[3:]))
    assert outcomes == {((1, 2, 3), (4,)), ((1, 2, 4), (3,)), ((1, 3, 4), (2,)), ((2, 3, 4), (1,))}


# ---------------------------------------------------------------------- starters and skips

# position that A's turn ends; the starter where the farthest stranded diver begins, and where
# the last one home does (reference)
STARTERS = {
    "nobody home: the farthest": ("1 2 3 4 | A1v:4,4 B3v C2v | d1 a2", 1, 1),
    "nobody home: the farthest is A": ("1 2 3 4 | A4v:4,4 B3v C2v | d1 a2", 0, 0),
    "empty-handed and far": ("1 2 3 4 | A1v:4 B4v C2v:1 | d1 a1", 1, 1),
    "all home: the last one": ("1 2 3 4 | A1^:4 Bh2 Ch1 | d1 a9", 0, 0),
    "one stranded near, others home": ("1 2 3 4 | A1v:4,4 Bh1 Ch2 | d1 a2", 0, 2),
    "home on the last breath, another out": ("1 2 3 4 | A1^:4 Bh1 C2v | d1 a1", 2, 0),
    "home order is not seat order": ("1 2 3 4 | A4v:4,4 Bh3 Ch1 Dh2 | d1 a2", 0, 1),
}


@pytest.mark.parametrize("preset", ALL)
@pytest.mark.parametrize(("text", "farthest", "last_home"), STARTERS.values(), ids=STARTERS)
def test_starters(text: str, farthest: int, last_home: int, preset: str) -> None:
    state = at(text, preset)
    turn(state, 2)
    assert state.dive == 2
    assert state.to_move == (last_home if preset == "reference" else farthest)


@pytest.mark.parametrize("preset", ALL)
@pytest.mark.parametrize("dive", [1, 2, 3])
def test_an_empty_trail_ends_the_game(preset: str, dive: int) -> None:
    state = at(f"x x | *A1^:1=3 Bh/4=15 | d{dive} a9", preset)
    turn(state, 4)
    assert state.phase == "over"
    assert tuple(state.result().points) == (3, 15)
    assert choices(state) == []


@pytest.mark.parametrize("preset", ALL)
def test_the_last_dive_is_cleaned_up_as_well(preset: str) -> None:
    state = at("1 x 2 | A1v:1,2,3,4 B3v:4 | d3 a4", preset)
    turn(state, 2)
    settle(state)
    assert state.phase == "over"
    assert trail(state) == ("1 2 {123} {44}" if preset in CLOSEST else "1 2 {412} {34}")

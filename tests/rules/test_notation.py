"""Position notation: what it means, its one canonical form, and what it refuses."""

from typing import Literal

import pytest
from hypothesis import given, settings

from deepsea_rules.errors import InvalidPosition, RulesError
from deepsea_rules.notation import format_position, parse_position, parse_roll
from deepsea_rules.randomness import deal, seed_from_text
from deepsea_rules.ruleset import PRESETS, RuleSet
from helpers.games import Chooser, choosers, opening_state, players, rule_sets, salts, some, walk
from helpers.positions import ALL, CHIPS, HOME, at, choices, custom, levels, opening, play, turn

# --------------------------------------------------------------------------- reading

PAGE_EXAMPLE = "1 1 x 2 [12] {34} | A5v:1,[23] *B0v Ch1/4=12,1 | d2 a17 search"


def test_the_example_of_the_rules_page() -> None:
    state = at(PAGE_EXAMPLE)
    assert [unit.levels for unit in state.trail] == [(), (1,), (1,), (), (2,), (1, 2), (3, 4)]
    assert state.laid == {state.trail[6]}
    assert state.place == [5, 0, HOME]
    assert [unit.levels for unit in state.cargo[0]] == [(1,), (2, 3)]
    assert levels(state.bank[2]) == [4, 1]
    assert state.values[state.bank[2][0]] == 12
    assert (state.dive, state.air, state.phase, state.to_move) == (2, 17, "search", 1)
    assert choices(state) == ["leave"]  # in the submarine there is nothing to take
    assert format_position(state) == PAGE_EXAMPLE


def test_without_a_clock() -> None:
    for text in ("1 2 | A0v B0v", "1 2 | A0v B0v |", "1 2 | A0v B0v | "):
        state = at(text)
        assert (state.dive, state.air, state.phase, state.quiet_turns) == (1, 25, "declare", 0)


@pytest.mark.parametrize(
    ("clock", "expected"),
    [
        ("d2", (2, 25, "declare", 0)),
        ("a7", (1, 7, "declare", 0)),
        ("d3 a1", (3, 1, "declare", 0)),
        ("d3 a1 declare", (3, 1, "declare", 0)),
        ("d3 a1 roll", (3, 1, "roll", 0)),
        ("search", (1, 25, "search", 0)),
        ("d1 a-3 search", (1, -3, "search", 0)),
        ("d1 a0 roll", (1, 0, "roll", 0)),
        ("d1 a25 s1", (1, 25, "declare", 1)),
        ("d1 a25 s1 roll", (1, 25, "roll", 1)),
    ],
)
def test_clocks(clock: str, expected: tuple[int, int, str, int]) -> None:
    state = at(f"1 2 | A2v B1v | {clock}")
    assert (state.dive, state.air, state.phase, state.quiet_turns) == expected


@pytest.mark.parametrize(
    ("divers", "seat"),
    [
        ("A0v B0v C0v", 0),
        ("Ah B0v C0v", 1),
        ("Ah Bh C1v", 2),
        ("A0v *B0v C0v", 1),
        ("Ah B0v *C0v", 2),
    ],
)
def test_whose_turn(divers: str, seat: int) -> None:
    assert at(f"1 2 3 | {divers}").to_move == seat


@pytest.mark.parametrize(
    ("divers", "order"),
    [
        ("A0v Bh", (1,)),
        ("A0v Bh1", (1,)),
        ("Ah B0v Ch", (0, 2)),
        ("Ah2 B0v Ch1", (2, 0)),
        ("Ah3 Bh1 C0v Dh2", (1, 3, 0)),
        ("Ah Bh1 C0v", (1, 0)),
    ],
)
def test_order_of_return(divers: str, order: tuple[int, ...]) -> None:
    assert tuple(at(f"1 2 3 | {divers}").home_order) == order


def test_one_diver_alone_is_enough_for_a_position() -> None:
    state = play(at("1 1 x 1 1 1 | A5^:1"), "r3")
    assert state.place == [3]


@pytest.mark.parametrize("text", ["  1   2|A0v   B0v|d1   a25  ", "1 2|A0v B0v|", "1 2 | A0v B0v"])
def test_spacing_does_not_matter(text: str) -> None:
    assert format_position(at(text)) == format_position(at("1 2 | A0v B0v | d1 a25"))


def test_chip_ids_fit_their_levels_and_are_unique() -> None:
    state = at("1 [12] {34} | A1v:1,[23]/4,1 B0v:".rstrip(":"))
    chips = [chip for unit in (*state.trail, *state.cargo[0]) for chip in unit]
    chips += state.bank[0]
    assert len(set(chips)) == len(chips)
    assert levels(chips) == [1, 1, 2, 3, 4, 1, 2, 3, 4, 1]


# ---------------------------------------------------------------------------- values


def test_values_that_are_written() -> None:
    state = at("1=3 [1=0,2=5] {3=8} 4 | A1v:4=15,[2=4,3=11]/1=1 B0v", "manual")
    values = state.values
    assert [values[chip] for unit in state.trail[1:4] for chip in unit] == [3, 0, 5, 8]
    assert [values[chip] for unit in state.cargo[0] for chip in unit] == [15, 4, 11]
    assert values[state.bank[0][0]] == 1


@pytest.mark.parametrize(
    "text",
    [
        f"{opening()} | A0v B0v",
        "1=3 1=3 1 2=4 [12=7] 4=12,".replace("[12=7] 4=12,", "[1,2=7] 4=12") + " | A0v B0v",
        "4=12 4=12 4=13 4=13 4=14 4=14 4=15 4 | A0v B0v",
    ],
)
def test_the_rest_is_dealt_consistently(text: str) -> None:
    for seed in ("one", "two", "three"):
        values = parse_position(text, PRESETS["manual"], seed_from_text(seed)).values
        for low, first in ((0, 1), (4, 9), (8, 17), (12, 25)):
            assert sorted(values[first : first + 8]) == sorted([low, low + 1, low + 2, low + 3] * 2)


def test_values_follow_from_the_seed() -> None:
    text = f"{opening()} | A0v B0v"
    dealt = {
        seed: parse_position(text, PRESETS["manual"], seed_from_text(seed)).values
        for seed in ("one", "two", "three", "four")
    }
    for seed, values in dealt.items():
        again = parse_position(text, PRESETS["manual"], seed_from_text(seed))
        assert again.values == values
        assert values == deal(seed_from_text(seed))  # nothing is written: it is the seed's deal
    assert len(set(dealt.values())) == 4
    assert at(text).values == at(text).values


# --------------------------------------------------------------------------- writing

CANONICAL = [
    f"{opening()} | *A0v B0v | d1 a25",
    "1 1 x 2 [12] {34} | A5v:1,[23] *B3v Ch1/4=12,1 | d2 a17 search",
    "1 2 | *A1v:4 B2^:[13],2 | d2 a7",
    "1 2 | *A1v:4 B2^:[13],2 | d2 a7 roll",
    "{1} {12} {123} [44] | *A4v Bh2 Ch1 | d3 a25 search",
    "1 x x | A3v *B2^:4 Ch1/2 Dh3 Eh2 F0v | d1 a-4 search",
    "1 1 | *A1v:1,2,3,4 B2v | d1 a0 order",
    "1 1 | *A1v B2v | d1 a25 s1",
    "1 1 1 | A2v *B3v C0v | d1 a25 s2 search",
    "1 {2} | A0v/1=0,2=5,4=15 B0v/3=8 | d3 a25 over",
    "| A0v/1=0 B0v | d2 a25 over",
]


@pytest.mark.parametrize("text", CANONICAL)
def test_canonical_text(text: str) -> None:
    assert format_position(at(text)) == text


def test_canonical_mark_of_a_diver_kept_out_for_the_dive() -> None:
    rules = custom("revised", barred_release="never_this_dive")
    text = "1 2 | *A1^!:4 B0v | d2 a7"
    state = parse_position(text, rules)
    assert state.barred == [True, False]
    assert format_position(state) == text


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("1 2 | A0v B0v", "1 2 | *A0v B0v | d1 a25"),
        ("1 2 | Ah B0v", "1 2 | Ah1 *B0v | d1 a25"),
        ("1 2 | A0v B0v | d1 a25 declare", "1 2 | *A0v B0v | d1 a25"),
        ("1 2 | A1v B0v | search", "1 2 | *A1v B0v | d1 a25 search"),
    ],
)
def test_short_forms_are_written_out(short: str, full: str) -> None:
    assert format_position(at(short)) == full


def test_what_is_shown_to_whom() -> None:
    """B is home with a chip of this dive; A banked one in the first dive."""
    text = "1 x | *A2v:2/1=3 Bh1/4 C0v | d2 a20"
    public = format_position(at(text, "manual"))
    assert public == text
    guide = at("1 x | *A2v:2/1=3 Bh1/4=13 C0v | d2 a20", "guide")
    assert format_position(guide) == "1 x | *A2v:2/1 Bh1/4 C0v | d2 a20"
    assert format_position(guide, show=0) == "1 x | *A2v:2/1=3 Bh1/4 C0v | d2 a20"
    assert format_position(guide, show=1) == "1 x | *A2v:2/1 Bh1/4=13 C0v | d2 a20"
    assert format_position(guide, show=2) == "1 x | *A2v:2/1 Bh1/4 C0v | d2 a20"
    every = format_position(at("1=0 x [1=2,2=7] | *A2v:2=5,[1=1,3=9]/1=3 B0v/4=13 | d2 a20"), "all")
    assert every == "1=0 x [1=2,2=7] | *A2v:2=5,[1=1,3=9]/1=3 B0v/4=13 | d2 a20"


def test_trail_and_cargo_are_never_shown_to_anybody() -> None:
    state = at("1=0 {2=5} | A2v:3=9/4=13 B0v | d2 a20", "publisher")
    for show in ("public", 0, 1):
        assert format_position(state, show).startswith("1 {2} | *A2v:3/4=13 ")


def test_air_below_zero_is_written_truly() -> None:
    state = play(at("1 1 x x x | A2v:3,3,3 Bh | d1 a1"), "r2")
    assert format_position(state) == "1 1 x x x | *A2v:3,3,3 Bh1 | d1 a-2 search"


# ------------------------------------------------------------------------ round trips


@given(rule_sets, players, salts, choosers)
@settings(max_examples=8)
def test_round_trip_of_reachable_positions(
    rules: RuleSet, count: int, salt: str, chooser: Chooser
) -> None:
    for number, state in enumerate(some(walk(opening_state(rules, count, salt), chooser))):
        show: Literal["public", "all"] = "all" if number % 2 else "public"
        text = format_position(state, show)
        assert format_position(parse_position(text, rules), show) == text
        parse_position(format_position(state, number % count), rules)


@given(rule_sets, players, salts, choosers, salts)
@settings(max_examples=25)
def test_a_position_read_from_its_text_goes_on_the_same_way(
    rules: RuleSet, count: int, salt: str, chooser: Chooser, onward: str
) -> None:
    """From any position of a game, game and text come to the same end."""
    states = [state.clone() for state in walk(opening_state(rules, count, salt), chooser)]
    state = states[int(onward) % len(states)]
    again = parse_position(format_position(state, "all"), rules)
    first, second = Chooser(onward), Chooser(onward)
    for one, two in zip(walk(state, first), walk(again, second), strict=True):
        assert format_position(one, "all") == format_position(two, "all")
    assert state.result() == again.result()


@pytest.mark.parametrize("preset", ALL)
def test_an_empty_trail_round_trips(preset: str) -> None:
    state = at("x | *A1^:1=3 Bh/4=15 | d2 a9", preset)
    turn(state, 4)
    assert state.phase == "over"
    text = format_position(state, "all")
    again = at(text, preset)
    assert format_position(again, "all") == text
    assert again.result() == state.result()


# ------------------------------------------------------------------------- malformed

MALFORMED = {
    "nothing": "",
    "no bar": "1 2 3",
    "bars alone": "||",
    "no divers": "1 2 | | d1",
    "too many parts": "1 2 | A0v B0v | d1 | a25",
    # trail
    "level 0": "0 | A0v B0v",
    "level 5": "5 | A0v B0v",
    "a word": "1 two | A0v B0v",
    "capital blank": "1 X | A0v B0v",
    "chips run together": "12 | A0v B0v",
    "open stack": "[12 | A0v B0v",
    "open pile": "{12 | A0v B0v",
    "closed with the other bracket": "[12} | A0v B0v",
    "empty stack": "[] | A0v B0v",
    "empty pile": "{} | A0v B0v",
    "stack of a blank": "[1x] | A0v B0v",
    "stack of a level 5": "[15] | A0v B0v",
    "stack in a stack": "[1[2]] | A0v B0v",
    "stack with an empty part": "[1=0,,2] | A0v B0v",
    "nine of a level": "1 1 1 1 1 1 1 1 1 | A0v B0v",
    "nine of a level with cargo": "1 1 1 1 1 1 1 1 | A1v:1 B0v",
    "nine of a level with banks": "1 1 1 1 1 1 1 1 | A1v/1 B0v",
    "digits of another script": "١ | A0v B0v",
    # values
    "value of another level": "1=4 | A0v B0v",
    "value below the level": "4=11 | A0v B0v",
    "value above all levels": "4=16 | A0v B0v",
    "negative value": "1=-1 | A0v B0v",
    "no value": "1= | A0v B0v",
    "value that is no number": "1=a | A0v B0v",
    "two values": "1=0=1 | A0v B0v",
    "value on a blank": "x=0 | A0v B0v",
    "three times the same value": "1=0 1=0 | A1v:1=0 B0v",
    "value in another script": "1=٣ | A0v B0v",
    # divers
    "seat G": "1 2 | A0v G0v",
    "small letters": "1 2 | a0v b0v",
    "not in seat order": "1 2 | B0v A0v",
    "a seat left out": "1 2 | A0v C0v",
    "a seat twice": "1 2 | A0v A1v",
    "seven divers": "1 2 | A0v B0v C0v D0v E0v F0v G0v",
    "no place": "1 2 | Av B0v",
    "no facing": "1 2 | A0 B0v",
    "unknown facing": "1 2 | A0> B0v",
    "negative place": "1 2 | A-1v B0v",
    "beyond the trail": "1 2 | A3v B0v",
    "far beyond the trail": "1 2 | A99v B0v",
    "one space for two": "1 2 | A2v B2v",
    "place in another script": "1 2 | A١v B0v",
    "star behind": "1 2 | A0v* B0v",
    "two to move": "1 2 | *A0v *B0v",
    "to move but home": "1 2 | *Ah B0v",
    "nobody out": "1 2 | Ah Bh",
    "home twice on one number": "1 2 | Ah1 Bh1 C0v",
    "home number 0": "1 2 | Ah0 B0v",
    "cargo aboard": "1 2 | A0v:1 B0v",
    "cargo at home": "1 2 | Ah:1 B0v",
    "homeward aboard": "1 2 | A0^ B0v",
    "empty cargo": "1 2 | A1v: B0v",
    "empty bank": "1 2 | A1v/ B0v",
    "comma at the end": "1 2 | A1v:1, B0v",
    "two commas": "1 2 | A1v:1,,2 B0v",
    "blank in cargo": "1 2 | A1v:x B0v",
    "pile in cargo": "1 2 | A1v:{12} B0v",
    "stack in a bank": "1 2 | A1v/[12] B0v",
    "bank before cargo": "1 2 | A1v/1:2 B0v",
    # clock
    "dive 0": "1 2 | A0v B0v | d0 a25",
    "dive 4": "1 2 | A0v B0v | d4 a25",
    "air 26": "1 2 | A0v B0v | d1 a26",
    "air that is no number": "1 2 | A0v B0v | d1 ax",
    "unknown phase": "1 2 | A0v B0v | d1 a25 dive",
    "clock out of order": "1 2 | A0v B0v | a25 d1",
    "clock with a rest": "1 2 | A0v B0v | d1 a25 declare now",
    "a word for a clock": "1 2 | A0v B0v | noon",
    "dive in another script": "1 2 | A0v B0v | d١ a25",
    "air in another script": "1 2 | A0v B0v | d1 a٢",
    "order without a choice": "1 2 | A1v:1 B0v | d1 a0 order",
    "order without cargo": "1 2 | A1v B0v | d1 a0 order",
    # size
    "very long": "1 " * 5000 + "| A0v B0v",
    "a very long word": "1" * 5000 + " | A0v B0v",
    "very many digits": "1 2 | A" + "9" * 5000 + "v B0v",
    "a very large air": "1 2 | A0v B0v | d1 a" + "9" * 5000,
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_positions(name: str) -> None:
    with pytest.raises(InvalidPosition) as caught:
        parse_position(MALFORMED[name], PRESETS["manual"])
    assert isinstance(caught.value, RulesError)
    message = str(caught.value)
    assert message
    assert "\n" not in message
    assert len(message) < 300


@pytest.mark.parametrize("text", CANONICAL[:4])
def test_a_damaged_text_is_read_or_refused_but_never_breaks(text: str) -> None:
    chooser = Chooser(text)
    for _ in range(300):
        place = chooser.number(len(text) + 1)
        damaged = text[:place] + chooser.pick(["", *"1x[]|,=9*^h /:-!sé"])
        damaged += text[place + chooser.number(2) :]
        try:
            state = parse_position(damaged, PRESETS["manual"])
        except InvalidPosition:
            continue
        assert format_position(parse_position(format_position(state), PRESETS["manual"]))


# ------------------------------------------------------------------- steps and letters


@pytest.mark.parametrize("total", range(2, 7))
def test_a_roll_by_its_sum(total: int) -> None:
    d1, d2 = parse_roll(f"r{total}")
    assert d1 + d2 == total
    assert {d1, d2} <= {1, 2, 3}


def test_a_roll_by_its_faces() -> None:
    for d1 in (1, 2, 3):
        for d2 in (1, 2, 3):
            assert parse_roll(f"r{d1}+{d2}") == (d1, d2)


@pytest.mark.parametrize(
    "step",
    ["", "r", "3", "r0", "r1", "r7", "r-3", "r3 ", "r 3", "R3", "r0+1", "r1+4", "r1+", "r+1",
     "r1+2+3", "r1,2", "rx", "r٣", "r١+٢", "r3\n", "r" + "3" * 5000],
)  # fmt: skip
def test_no_rolls(step: str) -> None:
    with pytest.raises(RulesError) as caught:
        parse_roll(step)
    assert "\n" not in str(caught.value)


def test_all_32_chips_fit_into_a_text() -> None:
    state = at(f"{opening()} | A0v B0v")
    assert sorted(chip for unit in state.trail for chip in unit) == list(CHIPS)

"""Every row of the options table: what each preset chooses, and what each value does.

A probe plays a short position under a rule set and reports what it saw; `PROBES` says what each
value must show. The same probe runs for the presets and for custom rule sets that differ from a
preset in that one row, so a value is tested by its effect and not by its name.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from deepsea_rules.errors import InvalidRules, RulesError
from deepsea_rules.game import Game
from deepsea_rules.randomness import first_player, seed_from_text
from deepsea_rules.ruleset import DEFAULT, OPTIONS, PRESETS, RuleSet
from deepsea_rules.view import view_for
from helpers.positions import ALL, HOME, at, choices, custom, play, settle, trail, turn

# The table of the rules page, columns in the order of ALL.
TABLE: dict[str, tuple[Any, Any, Any, Any, Any]] = {
    "turn_needs_treasure": (False, False, True, True, False),
    "forced_turn": ("when_cannot_advance", "never", "never", "never", "never"),
    "home_empty_handed": ("allowed", "barred", "allowed", "barred", "barred"),
    "barred_release": (None, "never_this_dive", None, "on_pickup", "on_pickup"),
    "drop_last_after_turn": (True, True, True, False, True),
    "reveal": ("game_end", "dive_end", "dive_end", "dive_end", "dive_end"),
    "owner_peek": ("on_return", "none", "none", "none", "on_return"),
    "drop_sequence": (
        "closest_first", "farthest_first", "closest_first", "closest_first", "farthest_first",
    ),
    "drop_order": ("owner_choice",) * 5,
    "top_up_tail_piles": (False, True, False, False, False),
    "relost_stack": ("chips", "chips", "unit", "unit", "unit"),
    "starter": (
        "farthest_stranded_else_last_home",
        "farthest_stranded_else_last_home",
        "farthest_stranded_else_last_home",
        "last_home_else_farthest",
        "farthest_stranded_else_last_home",
    ),
    "tiebreak": ("top_level", "lexicographic", "top_level", "level4", "top_level"),
    "blank_count": (None, None, 12, 12, 16),
    "first_player": ("roll_off",) * 5,
}  # fmt: skip


def test_presets_are_the_table() -> None:
    assert set(PRESETS) == set(ALL)
    assert DEFAULT == "manual"
    for column, preset in enumerate(ALL):
        assert PRESETS[preset].name == preset
        expected = {option: row[column] for option, row in TABLE.items()}
        assert PRESETS[preset].options() == expected
        assert list(PRESETS[preset].options()) == list(TABLE)


def test_options_are_described_once_each() -> None:
    assert [option.name for option in OPTIONS] == list(TABLE)
    for option in OPTIONS:
        assert option.about
        assert "\n" not in option.about


# ------------------------------------------------------------------------------ the probes


def _offered(text: str) -> Callable[[RuleSet], object]:
    """What the seat to move may do."""
    return lambda rules: choices(at(text, rules))


def _laid(text: str) -> Callable[[RuleSet], object]:
    """The trail of the next dive; a turn ends the one that is given."""

    def probe(rules: RuleSet) -> object:
        state = at(text, rules)
        turn(state, 2)
        return trail(settle(state))

    return probe


def _begins(text: str, total: int) -> Callable[[RuleSet], object]:
    """Who begins the next dive; a turn with this roll ends the one that is given."""

    def probe(rules: RuleSet) -> object:
        state = at(text, rules)
        turn(state, total)
        return state.to_move

    return probe


def _home_without_treasure(rules: RuleSet) -> object:
    return play(at("1 1 1 | A2^ B3v", rules), "r4").place[0]


def _barred_then_takes(rules: RuleSet) -> object:
    """Stopped outside, A takes the chip it stands on and swims again."""
    state = at("1 1 1 1 | A2^ B4v", rules)
    turn(state, 4, search="take")
    turn(state, 2)
    return play(state, "r6").place[0]


def _who_knows(rules: RuleSet) -> object:
    """Who knows what A banked: on its return, in the next dive, at the end of the game.

    Each time as letters of the seats that know, with W for a watcher.
    """
    state = at("1 2 3 | *A1^:4 B2v:4 C3v | d1 a2", rules)
    seen = []

    def note() -> None:
        (chip,) = state.bank[0]
        viewers = {"A": 0, "B": 1, "C": 2, "W": None}
        seen.append(
            "".join(name for name, seat in viewers.items() if chip in view_for(state, seat).known)
        )

    turn(state, 4)
    assert state.place[0] == HOME
    note()
    turn(state, 2)
    settle(state)
    assert state.dive == 2
    note()
    for _ in range(3000):  # empty-handed to the end: nobody takes anything any more
        if state.phase == "over":
            break
        turn(state, 6)
        settle(state)
    note()
    return tuple(seen)


def _asked_for_an_order(rules: RuleSet) -> object:
    state = at("1 2 | A2v:1,2,3,4 Bh | d1 a4", rules)
    turn(state, 2)
    asked = state.phase
    return asked, trail(settle(state))


def _tie(a: str, b: str) -> Callable[[RuleSet], object]:
    def probe(rules: RuleSet) -> object:
        result = at(f"1 1 | A0v/{a} B0v/{b} | d3 a0 over", rules).result()
        assert result.points[0] == result.points[1]
        return tuple(result.placements)

    return probe


@dataclass(frozen=True)
class Probe:
    """What a position shows under each value of one option."""

    option: str
    observe: Callable[[RuleSet], object]
    expected: dict[object, object]
    needs: dict[str, Any] = field(default_factory=dict)  # rows that must hold for it to show


BOTH, DOWN, BACK = ["down", "back"], ["down"], ["back"]
BARRED = {"home_empty_handed": "barred"}
A_WINS, B_WINS, SHARED = (1, 2), (2, 1), (1, 1)

PROBES = {
    "turning back without treasure": Probe(
        "turn_needs_treasure", _offered("1 1 1 1 1 1 | A4v B0v"), {False: BOTH, True: DOWN}
    ),
    "turning back with treasure": Probe(
        "turn_needs_treasure", _offered("1 1 1 1 1 1 | A4v:2 B0v"), {False: BOTH, True: BOTH}
    ),
    "at the last space": Probe(
        "forced_turn", _offered("1 1 1 | A3v:2 B0v"), {"never": BOTH, "when_cannot_advance": BACK}
    ),
    "all deeper spaces taken": Probe(
        "forced_turn",
        _offered("1 1 1 | A1v:2 B2v C3v"),
        {"never": BOTH, "when_cannot_advance": BACK},
    ),
    "a deeper space is free": Probe(
        "forced_turn",
        _offered("1 1 1 1 | A1v:2 B2v C4v"),
        {"never": BOTH, "when_cannot_advance": BOTH},
    ),
    "nobody turns aboard": Probe(
        "forced_turn", _offered("1 | A0v B1v"), {"never": DOWN, "when_cannot_advance": DOWN}
    ),
    "home without treasure": Probe(
        "home_empty_handed", _home_without_treasure, {"allowed": HOME, "barred": 1}
    ),
    "barred, then something taken": Probe(
        "barred_release", _barred_then_takes, {"on_pickup": HOME, "never_this_dive": 1}, BARRED
    ),
    "dropping the last unit after turning": Probe(
        "drop_last_after_turn",
        _offered("1 x 1 | A2^:1 B0v | d1 a20 search"),
        {True: ["leave", "drop:1"], False: ["leave"]},
    ),
    "dropping the last stack after turning": Probe(
        "drop_last_after_turn",
        _offered("1 x 1 | A2^:[12] B0v | d1 a20 search"),
        {True: ["leave", "drop:[12]"], False: ["leave"]},
    ),
    "dropping the last unit before turning": Probe(
        "drop_last_after_turn",
        _offered("1 x 1 | A2v:1 B0v | d1 a20 search"),
        {True: ["leave", "drop:1"], False: ["leave", "drop:1"]},
    ),
    "dropping one of two after turning": Probe(
        "drop_last_after_turn",
        _offered("1 x 1 | A2^:1,[12] B0v | d1 a20 search"),
        {True: ["leave", "drop:1", "drop:[12]"], False: ["leave", "drop:1", "drop:[12]"]},
    ),
    "reveal, no peek": Probe(
        "reveal",
        _who_knows,
        {"dive_end": ("", "ABCW", "ABCW"), "game_end": ("", "", "ABCW")},
        {"owner_peek": "none"},
    ),
    "reveal, with peek": Probe(
        "reveal",
        _who_knows,
        {"dive_end": ("A", "ABCW", "ABCW"), "game_end": ("A", "A", "ABCW")},
        {"owner_peek": "on_return"},
    ),
    "peek, early reveal": Probe(
        "owner_peek",
        _who_knows,
        {"none": ("", "ABCW", "ABCW"), "on_return": ("A", "ABCW", "ABCW")},
        {"reveal": "dive_end"},
    ),
    "peek, late reveal": Probe(
        "owner_peek",
        _who_knows,
        {"none": ("", "", "ABCW"), "on_return": ("A", "A", "ABCW")},
        {"reveal": "game_end"},
    ),
    "who lays first": Probe(
        "drop_sequence",
        _laid("1 2 2 2 2 | *A1v:3,3 B4v:4,4 | d1 a2"),
        {"closest_first": "1 2 2 2 2 {334} {4}", "farthest_first": "1 2 2 2 2 {443} {3}"},
    ),
    "who orders the items": Probe(
        "drop_order",
        _asked_for_an_order,
        {"owner_choice": ("order", "1 2 {123} {4}"), "pickup_order": ("declare", "1 2 {123} {4}")},
    ),
    "piles of earlier dives": Probe(
        "top_up_tail_piles",
        _laid("1 2 {3} | A2v:4,4 Bh | d2 a2"),
        {False: "1 2 {3} {44}", True: "1 2 {344}"},
    ),
    "stacks lost again": Probe(
        "relost_stack",
        _laid("1 2 | A2v:[123],[12],4 Bh | d2 a3"),
        {"unit": "1 2 {123124}", "chips": "1 2 {123} {124}"},
    ),
    "starter with divers home and stranded": Probe(
        "starter",
        _begins("1 2 3 4 | Ah1 B2^:1 C4v Dh2 | d1 a1", 2),
        {"farthest_stranded_else_last_home": 2, "last_home_else_farthest": 3},
    ),
    "starter with all home": Probe(
        "starter",
        _begins("1 2 3 4 | Ah2 *B1^:1 Ch1 | d1 a9", 6),
        {"farthest_stranded_else_last_home": 1, "last_home_else_farthest": 1},
    ),
    "starter with nobody home": Probe(
        "starter",
        _begins("1 2 3 4 | *A4^:1 B3v C1v | d1 a1", 2),
        {"farthest_stranded_else_last_home": 1, "last_home_else_farthest": 1},
    ),
    "tie without level 4": Probe(
        "tiebreak",
        _tie("3=8,1=1", "2=4,2=5"),
        {"top_level": A_WINS, "lexicographic": A_WINS, "level4": SHARED},
    ),
    "tie decided by level 2": Probe(
        "tiebreak",
        _tie("3=8,1=3,1=1", "3=8,2=4"),
        {"top_level": SHARED, "lexicographic": B_WINS, "level4": SHARED},
    ),
}


def _changed(base: str, probe: Probe, value: object) -> RuleSet:
    """A preset with the one option changed, and whatever that needs to make sense."""
    options: dict[str, Any] = {**PRESETS[base].options(), **probe.needs, probe.option: value}
    if options["home_empty_handed"] == "allowed":
        options["barred_release"] = None
    elif options["barred_release"] is None:
        options["barred_release"] = "on_pickup"
    if options["forced_turn"] == "when_cannot_advance":
        options["turn_needs_treasure"] = False
    if probe.option == "turn_needs_treasure" and value:
        options |= {"turn_needs_treasure": True, "forced_turn": "never"}
    return RuleSet.from_options("house", options)


@pytest.mark.parametrize("base", ALL)
@pytest.mark.parametrize("name", PROBES)
def test_custom_rule_sets_by_effect(name: str, base: str) -> None:
    probe = PROBES[name]
    for value, expected in probe.expected.items():
        assert probe.observe(_changed(base, probe, value)) == expected, (base, value)


def test_every_value_of_every_option_has_a_probe() -> None:
    shown = {(probe.option, frozenset(probe.expected)) for probe in PROBES.values()}
    for name, values, _ in OPTIONS:
        if name not in ("first_player", "blank_count"):
            assert (name, frozenset(values) - {None}) in shown


def test_first_player() -> None:
    for number in range(12):
        seed = seed_from_text(f"first {number}")
        rolled = Game(PRESETS["manual"], 4, seed)
        assert rolled.state.to_move == first_player(seed, 4)
        assert Game(custom(first_player="seat_a"), 4, seed).state.to_move == 0
    assert {first_player(seed_from_text(f"first {n}"), 4) for n in range(12)} == {0, 1, 2, 3}


@pytest.mark.parametrize("count", [None, 1, 12, 16])
def test_blank_count_is_a_label_only(count: int | None) -> None:
    state = at("x x x x 1 1 | A6v:1 B0v | d1 a20 search", custom(blank_count=count))
    assert state.rules.options()["blank_count"] == count
    assert trail(play(state, "take")) == "x x x x 1 x"


# ------------------------------------------------------------------------- refused rule sets


def _options(base: str = "manual", **changes: object) -> dict[str, Any]:
    return {**PRESETS[base].options(), **changes}


REFUSED: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "must turn and may not": (
        _options("guide", turn_needs_treasure=True),
        ("turn_needs_treasure", "forced_turn"),
    ),
    "release though nobody is barred": (
        _options("manual", barred_release="on_pickup"),
        ("barred_release",),
    ),
    "unknown option": (_options(turn_needs_tresure=True), ("turn_needs_tresure",)),
    "unknown value": (_options(tiebreak="coin"), ("tiebreak", "coin")),
    "unknown forced_turn": (_options(forced_turn="always"), ("forced_turn", "always")),
    "text for a bool": (_options(drop_last_after_turn="yes"), ("drop_last_after_turn",)),
    "number for a bool": (_options(top_up_tail_piles=1), ("top_up_tail_piles",)),
    "zero for a bool": (_options(turn_needs_treasure=0), ("turn_needs_treasure",)),
    "bool for a text": (_options(reveal=True), ("reveal",)),
    "none for a text": (_options(reveal=None), ("reveal",)),
    "list for a text": (_options(starter=["last_home_else_farthest"]), ("starter",)),
    "text for a count": (_options(blank_count="twelve"), ("blank_count",)),
    "bool for a count": (_options(blank_count=True), ("blank_count",)),
    "negative count": (_options(blank_count=-1), ("blank_count",)),
    "unknown first player": (_options(first_player="seat_b"), ("first_player", "seat_b")),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_options(name: str) -> None:
    options, words = REFUSED[name]
    with pytest.raises(InvalidRules) as caught:
        RuleSet.from_options("house", options)
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message
    assert isinstance(caught.value, RulesError)


def test_rule_sets_are_values() -> None:
    manual = PRESETS["manual"]
    again = RuleSet.from_options("manual", manual.options())
    assert again == manual
    assert hash(again) == hash(manual)
    assert custom(tiebreak="level4") != manual
    with pytest.raises(AttributeError):
        manual.tiebreak = "level4"  # type: ignore[misc]


# -------------------------------------------------------------------------------- from TOML


def test_from_toml() -> None:
    rules = RuleSet.from_toml(
        'name = "house"\nbase = "manual"\n[options]\nhome_empty_handed = "barred"\n'
        'barred_release = "never_this_dive"\ntop_up_tail_piles = true\nblank_count = 40\n'
    )
    assert rules.name == "house"
    assert rules.options() == _options(
        home_empty_handed="barred",
        barred_release="never_this_dive",
        top_up_tail_piles=True,
        blank_count=40,
    )


@pytest.mark.parametrize("base", ALL)
def test_from_toml_without_changes_plays_the_base(base: str) -> None:
    rules = RuleSet.from_toml(f'name = "house"\nbase = "{base}"\n')
    assert rules.options() == PRESETS[base].options()


BAD_TOML = {
    "no TOML": ("name = house", ()),
    "unknown base": ('name = "x"\nbase = "chess"', ("chess",)),
    "base of a wrong type": ('name = "x"\nbase = 3', ("3",)),
    "no name": ('name = " "', ("name",)),
    "name of two lines": ('name = "a\\nb"', ("name",)),
    "very long name": ('name = "' + "a" * 500 + '"', ("name",)),
    "name of a wrong type": ('name = 3\nbase = "manual"', ("name",)),
    "unknown key": ('name = "x"\nbase = "manual"\nair = 30', ("air",)),
    "options is no table": ('name = "x"\nbase = "manual"\noptions = 3', ("options",)),
    "nonsense": (
        'name = "x"\nbase = "manual"\n[options]\nforced_turn = "when_cannot_advance"',
        ("forced_turn", "turn_needs_treasure"),
    ),
}


@pytest.mark.parametrize("name", BAD_TOML)
def test_bad_toml(name: str) -> None:
    text, words = BAD_TOML[name]
    with pytest.raises(InvalidRules) as caught:
        RuleSet.from_toml(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300
    for word in words:
        assert word in str(caught.value)


def test_a_custom_rule_set_may_not_pass_for_a_preset() -> None:
    with pytest.raises(InvalidRules, match="manual"):
        RuleSet.from_toml('name = "manual"\nbase = "manual"\n[options]\ntiebreak = "level4"')


def test_toml_can_lift_the_bar_of_its_base() -> None:
    """TOML has no word for "none": where nobody is barred any more the release goes as well."""
    text = 'name = "house"\nbase = "reference"\n[options]\nhome_empty_handed = "allowed"'
    rules = RuleSet.from_toml(text)
    assert rules.options()["barred_release"] is None

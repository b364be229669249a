"""Who may know what: the table of the rules page, and laws that hold for any game."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepsea_rules.actions import BLANK, Unit
from deepsea_rules.game import Game
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import PRESETS, RuleSet
from deepsea_rules.state import GameState
from deepsea_rules.view import View, view_for
from helpers.games import (
    Chooser,
    choosers,
    opening_state,
    other_values,
    play_out,
    players,
    rng,
    rule_sets,
    salts,
    walk,
)
from helpers.positions import ALL, at, custom, level, play, settle, snapshot, turn

VIEWERS: dict[str, int | None] = {"A": 0, "B": 1, "C": 2, "W": None}

# What each viewer knows of A's chip: when A has just got home, in the next dive, when the game is
# over. Seats that know, W for a watcher.
WHO_KNOWS = {
    "guide": ("A", "A", "ABCW"),
    "revised": ("", "ABCW", "ABCW"),
    "manual": ("", "ABCW", "ABCW"),
    "reference": ("", "ABCW", "ABCW"),
    "publisher": ("A", "ABCW", "ABCW"),
}


@pytest.mark.parametrize("preset", ALL)
def test_everything_else_is_public(preset: str) -> None:
    state = at("1 x {23} [44] | Ah2 B3^:3,[12]/1,4 *C1v D0v Eh1 | d2 a17", preset)
    for seat in (0, 1, 2, 3, 4, None):
        view = view_for(state, seat)
        assert view.seat == seat
        assert view.players == 5
        assert view.rules == PRESETS[preset]
        assert (view.dive, view.air, view.phase) == (2, 17, "declare")
        assert (view.to_move, view.quiet_turns) == (2, 0)
        assert view.trail == tuple(state.trail)
        assert [unit.levels for unit in view.trail] == [(), (1,), (), (2, 3), (4, 4)]
        assert view.laid == frozenset({state.trail[3]})
        assert view.place == (-1, 3, 1, 0, -1)
        assert view.homeward == tuple(state.homeward)
        assert view.homeward[1:4] == (True, False, False)
        assert view.barred == (False,) * 5
        assert [unit.levels for unit in view.cargo[1]] == [(3,), (1, 2)]
        assert [level(chip) for chip in view.bank[1]] == [1, 4]
        assert view.home_order == (4, 0)
        assert view.legal == tuple(state.legal_actions())


# ------------------------------------------------------------------------- conveniences


def test_a_view_reads_well() -> None:
    state = at("1 [12] {34} 4 | A2v:3,[12]/4 B3^:1 Ch/2,2 | d2 a17 search")
    view = view_for(state, 0)
    assert (view.me.seat, view.me.place, view.me.load) == (0, 2, 2)
    assert (view.me.homeward, view.me.home, view.me.barred) == (False, False, False)
    assert [unit.name for unit in view.me.cargo] == ["3", "[12]"]
    assert [level(chip) for chip in view.me.bank] == [4]
    assert [diver.seat for diver in view.divers] == [0, 1, 2]
    assert [diver.seat for diver in view.others] == [1, 2]
    assert (view.others[0].homeward, view.others[0].place) == (True, 3)
    assert (view.others[1].home, view.others[1].place) == (True, 0)
    assert view.distance_home == 2
    assert view.unit_here.name == "[12]"
    assert view.kind == "search"
    assert view.legal == ("leave", "take")


def test_a_view_from_the_submarine_and_from_a_blank() -> None:
    state = at("1 x 3 | A0v B2v:1 Ch | d1 a20")
    for seat in (0, 1, 2):
        assert view_for(state, seat).unit_here == BLANK
    assert [view_for(state, seat).distance_home for seat in (0, 1, 2)] == [0, 2, 0]


def test_kinds_by_phase() -> None:
    texts = {
        "declare": "1 2 | A1v:2 B0v",
        "search": "1 2 | A1v:2 B0v | d1 a20 search",
        "order": "1 2 | A1v:1,2,3,4 B0v | d1 a0 order",
        None: "1 2 | A1v:2 B0v | d1 a20 roll",
    }
    for kind, text in texts.items():
        assert view_for(at(text), 0).kind == kind
    assert view_for(at("1 | A0v B0v | d3 a9 over"), 0).kind is None


@pytest.mark.parametrize(
    ("preset", "names"), [("manual", ["[12]", "3", "4", "4"]), ("guide", ["1", "2", "3", "4", "4"])]
)
def test_items_are_units_or_chips(preset: str, names: list[str]) -> None:
    view = view_for(at("1 1 | A1v:[12],3,4,4 Bh | d2 a0 order", preset), 0)
    assert [item.name for item in view.items] == names


def test_a_watcher_has_no_diver_of_its_own() -> None:
    view = view_for(at("1 2 | A1v:2 B0v"), None)
    assert len(view.divers) == 2
    with pytest.raises(ValueError, match="watcher"):
        _ = view.me


FIELDS = (
    "seat", "players", "rules", "dive", "air", "phase", "to_move", "quiet_turns", "trail", "laid",
    "place", "homeward", "barred", "cargo", "bank", "banked_earlier", "home_order", "known",
    "legal",
)  # fmt: skip


def fields_of(view: View) -> dict[str, Any]:
    return {name: getattr(view, name) for name in FIELDS}


def test_views_are_equal_if_all_their_fields_are() -> None:
    state = at("1 2 {3} | A1v:2/1=3 B0v | d2", "manual")
    view = view_for(state, 0)
    assert View(**fields_of(view)) == view
    changed = {
        "seat": 1, "players": 3, "rules": PRESETS["guide"], "dive": 3, "air": 24, "phase": "roll",
        "to_move": 1, "quiet_turns": 1, "trail": view.trail[:-1], "laid": frozenset(),
        "place": (0, 1), "homeward": (True, False), "barred": (True, False), "cargo": ((), ()),
        "bank": ((), ()), "banked_earlier": (0, 1), "home_order": (1,), "known": {}, "legal": (),
    }  # fmt: skip
    assert set(changed) == set(FIELDS)
    for name, value in changed.items():
        assert View(**{**fields_of(view), name: value}) != view, name


# ------------------------------------------------------------------------- hidden values


@pytest.mark.parametrize("preset", ["revised", "manual", "reference", "publisher"])
def test_unseen_after_a_dive(preset: str) -> None:
    """I2, and that one level's chips say nothing about another's."""
    state = at("1 1 1 1 2 [13] | A0v/1=0,1=0 B0v/1=1,4=15 | d2", preset)
    view = view_for(state, 0)
    assert view.unseen(1) == [1, 2, 2, 3, 3]
    assert view.unseen(2) == [4, 4, 5, 5, 6, 6, 7, 7]
    assert view.unseen(4) == [12, 12, 13, 13, 14, 14, 15]
    assert view.expected_value(state.trail[1]) == pytest.approx(11 / 5)
    assert view.expected_value(state.trail[5]) == pytest.approx(5.5)
    assert view.expected_value(state.trail[6]) == pytest.approx(11 / 5 + 9.5)
    assert view.expected_value(Unit(state.bank[1])) == 16
    assert view.expected_value(BLANK) == 0


def test_unseen_under_secret_banks() -> None:
    """I3: chips that others banked count as unseen, each owner knows its own."""
    state = at("1 1 1 1 1 2 | A0v/1=0 B0v/1=2,1=2 | d2", "guide")
    assert view_for(state, 0).unseen(1) == [0, 1, 1, 2, 2, 3, 3]
    assert view_for(state, 1).unseen(1) == [0, 0, 1, 1, 3, 3]
    assert view_for(state, None).unseen(1) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert view_for(state, 0).expected_value(Unit(state.bank[1])) == pytest.approx(2 * 12 / 7)


def test_samples_deal_every_possibility() -> None:
    """Two unseen chips of level 1: all pairs of values that counting leaves occur."""
    state = at("1 1 | A0v/1=0,1=1,1=2,1=3,1=0 B0v/1=1 | d2")
    view = view_for(state, 0)
    assert view.unseen(1) == [2, 3]
    source = rng("samples")
    pairs = []
    for _ in range(200):
        values = view.sample(source).values
        pairs.append(tuple(values[unit[0]] for unit in state.trail[1:]))
    assert set(pairs) == {(2, 3), (3, 2)}
    assert 60 < pairs.count((2, 3)) < 140


def test_a_sample_is_the_players_own() -> None:
    state = at("1 [12] x 4 | A2v:3,1/4=12 B3^:1 Ch | d2 a17 search")
    before = snapshot(state)
    view = view_for(state, 0)
    fields = fields_of(view)
    sample = view.sample(rng("own"))
    for _ in walk(sample, Chooser("own")):
        pass
    assert fields_of(view) == fields
    assert snapshot(state) == before


def test_a_sample_goes_on_like_the_game() -> None:
    """Moves that do not touch values lead to the same views in the sample as in the game."""
    for preset in ALL:
        state = opening_state(PRESETS[preset], 3, f"like {preset}")
        sample = view_for(state, 1).sample(rng(preset))
        first, second = Chooser("like", takes=True), Chooser("like", takes=True)
        pairs = zip(walk(state, first), walk(sample, second), strict=True)
        for real, imagined in pairs:
            assert real.phase == imagined.phase
            assert tuple(real.trail) == tuple(imagined.trail)
            assert tuple(real.place) == tuple(imagined.place)
            assert real.bank == imagined.bank


# ------------------------------------------------------------------------------ laws


def allowed(state: GameState, viewer: int | None, earlier: list[tuple[int, ...]]) -> set[int]:
    """The chips whose values the rules page lets this viewer know.

    earlier  the banks as they were when the dive in hand began
    """
    chips: set[int] = set()
    for seat, bank in enumerate(state.bank):
        if state.phase == "over" or (viewer == seat and state.rules.owner_peek == "on_return"):
            chips |= set(bank)
        elif state.rules.reveal == "dive_end":
            chips |= set(bank if state.phase == "order" else earlier[seat])
    return chips


@given(rule_sets, players, salts, choosers)
@settings(max_examples=20)
def test_a_viewer_knows_what_it_may_and_nothing_else(
    rules: RuleSet, count: int, salt: str, chooser: Chooser
) -> None:
    dive = 1
    earlier: list[tuple[int, ...]] = [()] * count
    for state in walk(opening_state(rules, count, salt), chooser):
        if state.dive != dive:
            earlier, dive = list(state.bank), state.dive
        for viewer in (*range(count), None):
            known = view_for(state, viewer).known
            assert set(known) == allowed(state, viewer, earlier)
            assert all(state.values[chip] == value for chip, value in known.items())


@given(rule_sets, players, salts, choosers)
@settings(max_examples=20)
def test_a_sample_is_consistent_with_its_view(
    rules: RuleSet, count: int, salt: str, chooser: Chooser
) -> None:
    source = rng(salt)
    for number, state in enumerate(walk(opening_state(rules, count, salt), chooser)):
        if number % 7 and state.phase not in ("order", "over"):
            continue
        viewers: tuple[int | None, ...] = (*range(count), None)
        viewer = viewers[number % len(viewers)]
        view = view_for(state, viewer)
        sample = view.sample(source)
        assert view_for(sample, viewer) == view
        for first in (1, 9, 17, 25):
            assert sorted(sample.values[first : first + 8]) == sorted(
                state.values[first : first + 8]
            )


def seen_by(viewer: int | None, limit: int) -> tuple[list[str], Any]:
    """A list, and a `look` that writes into it all that a viewer gets, decision by decision."""
    pages: list[str] = []

    def look(game: Game) -> None:
        if len(game.decisions) > limit:
            return
        view = fields_of(game.view(viewer))
        view["rules"] = view["rules"].options()
        view["laid"] = sorted(view["laid"])
        pages.append(json.dumps([view, game.events_for(viewer)]))

    return pages, look


@given(rule_sets, players, salts, salts, st.integers(0, 5), st.floats(0, 1), st.booleans())
@settings(max_examples=30)
def test_exchanging_hidden_values_changes_nothing_that_is_seen(
    rules: RuleSet, count: int, seed: str, salt: str, seat: int, share: float, takes: bool
) -> None:
    """Two games that differ only in what a viewer does not know by some moment are the same to it.

    Byte for byte, from the first decision to that moment, in views and in events.
    """
    viewer = None if seat >= count else seat
    real = Game(rules, count, seed_from_text(seed))
    moments: list[set[int]] = []
    play_out(
        real, Chooser(salt, takes=takes), lambda game: moments.append(set(game.view(viewer).known))
    )
    limit = int(share * (len(moments) - 1))
    values = other_values(real.state.values, moments[limit])

    books = []
    for changed in (False, True):
        game = Game(rules, count, seed_from_text(seed))
        if changed:
            game.state.values = values
        pages, look = seen_by(viewer, limit)
        play_out(game, Chooser(salt, takes=takes), look)
        books.append(pages)
    assert len(books[0]) == limit + 1
    assert books[0] == books[1]


@pytest.mark.parametrize("preset", ALL)
def test_exchanged_values_come_out_where_a_rule_reveals_them(preset: str) -> None:
    """The law above would also hold if nothing were ever shown."""
    text = "1 2 3 | *A1^:{} B2^:4 Ch | d1 a2"
    one, two = (at(text.format(chip), preset) for chip in ("4=12", "4=15"))
    for seat in VIEWERS.values():
        assert fields_of(view_for(one, seat)) == fields_of(view_for(two, seat))
    for total, who_knows in zip((6, 2), WHO_KNOWS[preset], strict=False):
        for state in (one, two):
            turn(state, total)
            settle(state)
        differ = (n for n, seat in VIEWERS.items() if view_for(one, seat) != view_for(two, seat))
        assert "".join(differ) == who_knows
    assert one.dive == two.dive == 2


def test_views_do_not_change_with_the_state() -> None:
    state = at("1 2 3 | A1v:4,1 B2v | d1 a20")
    view = view_for(state, 0)
    before = fields_of(view)
    play(state, "back", "r3")
    turn(state, 3)
    assert fields_of(view) == before


# ------------------------------------------------------------------------------ conveniences


@pytest.mark.parametrize(
    ("text", "takes", "drops"),
    [
        ("1 1 1 1 | *A3v:2 B0v | d1 a25 search", True, []),
        ("1 1 x 1 | *A3v:2,[12],2,1 B0v | d1 a25 search", False, ["2", "[12]", "1"]),
        ("1 1 x 1 | *A3v B0v | d1 a25 search", False, []),
        ("1 1 x 1 | *A3v:2 B0v | d1 a25", False, []),
        ("1 1 x x | *A3^:4,3,2,1 Bh1 | d1 a0 order", False, []),
    ],
)
def test_what_may_be_taken_and_dropped(text: str, takes: bool, drops: list[str]) -> None:
    state = at(text)
    view = view_for(state, 0)
    assert view.can_take is takes
    assert [unit.name for unit in view.droppable] == drops
    # Of units with one name the first is meant, as it is by the action.
    for unit in view.droppable:
        assert next(own for own in view.me.cargo if own.name == unit.name) is unit
        after = play(state.clone(), f"drop:{unit.name}")
        assert after.trail[3] is unit


def test_the_last_unit_may_stay_aboard_by_the_rules() -> None:
    text = "1 1 x 1 | *A3^:2 B0v | d1 a25 search"
    assert view_for(at(text, custom(drop_last_after_turn=False)), 0).droppable == ()
    assert len(view_for(at(text, custom(drop_last_after_turn=True)), 0).droppable) == 1


def test_views_and_states_print_as_notation() -> None:
    text = "1 [12] x 4 | *A2v:3,1/4=12 B3^:1 C0v | d2 a17 search"
    state = at(text, custom(owner_peek="on_return", reveal="game_end"))
    assert str(view_for(state, 0)) == text
    assert repr(view_for(state, 0)) == f"<View 0: {text}>"
    assert str(state) == str(view_for(state, None)) == text.replace("=12", "")
    assert repr(state) == f"<GameState: {state}>"

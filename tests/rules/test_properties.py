"""Properties that hold for every game, under presets and under any rule set that makes sense.

The strongest of them: a second engine, written from the rules page alone, sees the same game.
"""

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepsea_rules.cleanup import LISTED_ORDERS
from deepsea_rules.errors import IllegalAction, RulesError
from deepsea_rules.game import Game
from deepsea_rules.notation import format_position
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.record import GameRecord, replay, verify
from deepsea_rules.ruleset import PRESETS, RuleSet
from deepsea_rules.state import GameState
from helpers.games import (
    Chooser,
    choosers,
    late_trail,
    opening_state,
    play_out,
    players,
    rule_sets,
    salts,
    step,
    walk,
)
from helpers.model import Model
from helpers.positions import CHIPS, HOME, at, chips_of, snapshot

ACTIONS = (
    "down", "back", "leave", "take", "drop:1", "drop:2", "drop:3", "drop:4", "drop:[12]",
    "order:1,2", "order:4,3,2,1",
)  # fmt: skip


@given(rule_sets, players, salts, choosers)
@settings(max_examples=40)
def test_a_state_is_always_in_order(
    rules: RuleSet, count: int, salt: str, chooser: Chooser
) -> None:
    air, dive = 25, 1
    for state in walk(opening_state(rules, count, salt), chooser):
        assert chips_of(state) == list(CHIPS)
        assert state.phase in ("declare", "roll", "search", "order", "over")
        spaces = [place for place in state.place if place > 0]
        assert len(set(spaces)) == len(spaces)
        assert all(HOME <= place < len(state.trail) for place in state.place)
        assert not state.trail[0]
        assert sorted(state.home_order) == [s for s in range(count) if state.place[s] == HOME]
        out = [seat for seat in range(count) if state.place[seat] != HOME]
        assert 0 <= state.quiet <= len(out)
        if state.phase == "declare":
            assert state.quiet < len(out)
        assert {tuple(unit) for unit in state.laid} <= {tuple(unit) for unit in state.trail}
        for seat in range(count):
            if state.place[seat] in (0, HOME):
                assert not state.cargo[seat]
        if state.phase in ("declare", "roll", "search"):
            assert state.place[state.to_move] != HOME
            assert (state.air > 0) or state.phase != "declare"
        if state.phase == "search":
            assert state.place[state.to_move] > 0
        # What the moves kept is what is found anew.
        kept = state.clone()
        kept.legal = ("nothing",)
        kept.refresh()
        assert kept.legal == state.legal
        assert 1 <= state.dive <= 3
        assert (state.dive, -state.air) >= (dive, -air)
        air, dive = state.air, state.dive


@given(rule_sets, players, salts, choosers)
@settings(max_examples=40)
def test_there_is_always_something_to_do(
    rules: RuleSet, count: int, salt: str, chooser: Chooser
) -> None:
    """In each decision phase something is legal, except that who swims home declares nothing."""
    for state in walk(opening_state(rules, count, salt), chooser):
        legal = state.legal_actions()
        assert len(set(legal)) == len(legal)
        if state.phase in ("search", "order"):
            assert legal
        elif state.phase == "declare":
            assert bool(legal) is not state.homeward[state.to_move]
        else:
            assert not legal
        if state.phase == "order":
            assert len(legal) > 1


@given(rule_sets, players, salts, choosers)
@settings(max_examples=8)
def test_legal_actions_work_and_others_change_nothing(
    rules: RuleSet, count: int, salt: str, chooser: Chooser
) -> None:
    for state in walk(opening_state(rules, count, salt), chooser):
        before = snapshot(state)
        legal = state.legal_actions()
        for action in legal:
            assert state.is_legal(action)
            state.clone().apply(action)
        for action in ACTIONS:
            if action in legal or (state.phase == "order" and state.is_legal(action)):
                continue
            assert not state.is_legal(action)
            with pytest.raises(IllegalAction):
                state.apply(action)
        if state.phase in ("search", "order", "over"):
            with pytest.raises(RulesError):
                state.roll(1, 1)
        assert snapshot(state) == before


@given(rule_sets, players, salts, choosers)
@settings(max_examples=8)
def test_clones_are_independent(rules: RuleSet, count: int, salt: str, chooser: Chooser) -> None:
    for state in walk(opening_state(rules, count, salt), chooser):
        if state.phase == "over":
            break
        before = snapshot(state)
        clone = state.clone()
        assert snapshot(clone) == before
        for _ in range(4):
            if clone.phase != "over":
                step(clone, Chooser(salt))
        assert snapshot(state) == before
        clone = state.clone()
        original = state.clone()
        step(original, Chooser(salt))
        assert snapshot(clone) == before


@given(rule_sets, players, salts, choosers)
@settings(max_examples=40)
def test_every_game_ends_with_a_result(
    rules: RuleSet, count: int, salt: str, chooser: Chooser
) -> None:
    *_, state = walk(opening_state(rules, count, salt), chooser)
    result = state.result()
    scores, placements = list(result.points), list(result.placements)
    assert len(scores) == len(placements) == count
    assert min(placements) == 1
    for one in range(count):
        assert placements[one] == 1 + sum(p < placements[one] for p in placements)
        for two in range(count):
            if scores[one] > scores[two]:
                assert placements[one] < placements[two]
    assert scores == [sum(state.values[chip] for chip in bank) for bank in state.bank]


class Stubborn(Chooser):
    """Never takes, never turns back where it may go on: the game ends all the same."""

    def action(self, legal: tuple[str, ...]) -> str:  # type: ignore[override]
        return legal[0]


class Fickle(Chooser):
    """Takes and drops wherever it can."""

    def action(self, legal: tuple[str, ...]) -> str:  # type: ignore[override]
        return legal[0] if legal[0].startswith(("down", "order")) else legal[-1]


class Timid(Chooser):
    """Turns back at once and takes only on the way home."""

    def action(self, legal: tuple[str, ...]) -> str:  # type: ignore[override]
        return "back" if "back" in legal else self.pick(legal)


@given(rule_sets, players, salts, st.sampled_from([Stubborn, Fickle, Timid]))
@settings(max_examples=40)
def test_games_of_stubborn_players_end_as_well(
    rules: RuleSet, count: int, salt: str, player: type[Chooser]
) -> None:
    *_, state = walk(opening_state(rules, count, salt), player(salt))
    assert state.phase == "over"
    assert chips_of(state) == list(CHIPS)


# ------------------------------------------------------------------- the second engine


def compare(state: GameState, model: Model) -> None:
    assert state.phase == model.phase
    assert state.dive == model.dive
    assert [tuple(unit) for unit in state.trail[1:]] == model.trail
    assert {tuple(unit) for unit in state.laid} == model.laid
    assert [tuple(bank) for bank in state.bank] == model.bank
    if model.phase == "over":
        result = state.result()
        assert (list(result.points), list(result.placements)) == model.result(state.values)
        return
    assert state.air == model.air
    assert state.to_move == model.to_move
    assert state.place == model.place
    assert list(state.home_order) == model.home_order
    cargo = [[tuple(unit) for unit in units] for units in state.cargo]
    if model.phase == "order":  # who has laid its items already is written differently
        assert cargo[model.to_move] == model.cargo[model.to_move]
    else:
        assert cargo == model.cargo
    out = [seat for seat in range(model.players) if model.place[seat] != HOME]
    assert [state.homeward[seat] for seat in out] == [model.homeward[seat] for seat in out]
    assert [state.barred[seat] for seat in out] == [model.kept_out[seat] for seat in out]
    if model.phase == "declare":  # in a search the turn in hand is counted already
        assert state.quiet == model.quiet
    if model.phase != "order":
        assert list(state.legal_actions()) == model.legal()


def side_by_side(state: GameState, model: Model, chooser: Chooser) -> None:
    options = state.rules.options()
    for _ in range(20_000):
        if (state.phase, state.dive) == ("declare", model.dive) and len(model.open_starters) > 1:
            model.choose_starter(state.to_move)
            model.open_starters = []
        if model.phase != "order" or not _open_piles(options):
            compare(state, model)
        if state.phase == "over":
            return
        if legal := state.legal_actions():
            action = chooser.action(legal)
            state.apply(action)
            model.act(action)
        else:
            dice = chooser.dice()
            state.roll(*dice)
            model.roll(*dice)
    raise AssertionError("the game does not end")


def _open_piles(options: Mapping[str, object]) -> bool:
    """The page does not say how many stacks fit on an old pile of one or two chips."""
    return bool(options["top_up_tail_piles"]) and options["relost_stack"] == "unit"


def settled(rules: RuleSet) -> RuleSet:
    """A rule set that the page leaves no question open for."""
    if not _open_piles(rules.options()):
        return rules
    return RuleSet.from_options("house", {**rules.options(), "relost_stack": "chips"})


@given(rule_sets, players, salts, choosers)
@settings(max_examples=50)
def test_a_second_engine_sees_the_same_game(
    rules: RuleSet, count: int, salt: str, chooser: Chooser
) -> None:
    rules = settled(rules)
    state = opening_state(rules, count, salt)
    side_by_side(state, Model(rules.options(), count, state.to_move), chooser)


@given(rule_sets, players, st.integers(1, 3), salts, st.booleans())
@settings(max_examples=150)
def test_a_second_engine_sees_the_same_game_on_a_late_trail(
    rules: RuleSet, count: int, dive: int, salt: str, takes: bool
) -> None:
    """Short trails with stacks and piles: blocked ways, stalls, top-ups, relost stacks."""
    rules, chooser = settled(rules), Chooser(salt, takes=takes)
    divers = " ".join(f"{seat}0v" for seat in "ABCDEF"[:count])
    state = at(f"{late_trail(chooser)} | {divers} | d{dive}", rules)
    trail = [tuple(unit) for unit in state.trail[1:]]
    model = Model.on_trail(rules.options(), count, dive, trail, {tuple(u) for u in state.laid})
    side_by_side(state, model, chooser)


# --------------------------------------------------------------------------- records


@given(rule_sets, players, salts, choosers)
@settings(max_examples=25)
def test_a_record_runs_again_to_the_same_events(
    rules: RuleSet, count: int, salt: str, chooser: Chooser
) -> None:
    game = play_out(Game(rules, count, seed_from_text(salt)), chooser)
    seats = [(f"bot{seat}", "0" * 64) for seat in range(count)]
    record = GameRecord.of(game, game_id=salt, clock="100ms+2s", seats=seats)
    read = GameRecord.from_json(record.to_json())
    assert read == record
    assert read.to_json() == record.to_json()
    verify(read)
    again = replay(read)
    for viewer in (*range(count), None):
        assert again.events_for(viewer) == game.events_for(viewer)
    assert format_position(again.state, "all") == format_position(game.state, "all")
    assert again.decisions == game.decisions


def test_a_heap_of_items_is_ordered_quickly() -> None:
    """A diver with half the chips of the sea: its orders are far too many to list them all."""
    cargo = ",".join(["1", "2", "3", "4"] * 4)
    state = at(f"1 1 | A1v:{cargo} Bh | d1 a0 order")
    legal = state.legal_actions()
    assert legal[0] == f"order:{cargo}"
    assert len(legal) == len(set(legal)) == LISTED_ORDERS
    assert all(state.is_legal(action) for action in legal)
    assert state.is_legal("order:" + ",".join(sorted(cargo.split(","), reverse=True)))


def test_states_are_equal_if_all_they_hold_is() -> None:
    text = "1 {23} x 4 | A1v:[12],4/1=3 *B3^:1 Ch1/4,2 | d2 a17 s1 search"
    state = at(text)
    assert state == at(text) == state.clone()
    assert state != text
    changed = {
        "rules": PRESETS["guide"], "players": 2, "dive": 3, "air": 16, "phase": "declare",
        "to_move": 0, "quiet": 0, "trail": state.trail[:-1], "laid": frozenset(),
        "place": [1, 2, HOME], "homeward": [True, True, False], "barred": [True, False, False],
        "cargo": [(), (), ()], "bank": [(), (), ()], "banked_earlier": (0, 0, 0), "home_order": (),
        "values": (0, *reversed(state.values[1:])),
    }  # fmt: skip
    for name, value in changed.items():
        other = state.clone()
        setattr(other, name, value)
        assert other != state, name
    with pytest.raises(TypeError):
        hash(state)

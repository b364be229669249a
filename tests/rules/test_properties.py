"""Properties that hold for every game, under presets and under any rule set that makes sense.

The strongest of them is in tests/sdk/test_batch.py: the engine on arrays sees the same games.
"""

import pytest
from hypothesis import given, settings

from deepsea_rules.cleanup import LISTED_ORDERS
from deepsea_rules.errors import IllegalAction, RulesError
from deepsea_rules.game import Game, GameRecord, replay, verify
from deepsea_rules.notation import format_position
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import PRESETS, RuleSet
from helpers.games import (
    Chooser,
    choosers,
    opening_state,
    play_out,
    players,
    rule_sets,
    salts,
    some,
    step,
    walk,
)
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
        assert 0 <= state.quiet_turns <= len(out)
        if state.phase == "declare":
            assert state.quiet_turns < len(out)
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
    for state in some(walk(opening_state(rules, count, salt), chooser)):
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
    for state in some(walk(opening_state(rules, count, salt), chooser)):
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
        "to_move": 0, "quiet_turns": 0, "trail": state.trail[:-1], "laid": frozenset(),
        "place": [1, 2, HOME], "homeward": [True, True, False], "barred": [True, False, False],
        "cargo": [(), (), ()], "bank": [(), (), ()], "banked_earlier": (0, 0, 0), "home_order": (),
        "values": (0, *reversed(state.values[1:])),
    }  # fmt: skip
    for name, value in changed.items():
        other = state.clone()
        setattr(other, name, value)
        assert other != state, name
    other = state.clone()
    other.drowned = ((0, 1, 0),)
    assert other == state  # how it came to this changes nothing
    with pytest.raises(TypeError):
        hash(state)

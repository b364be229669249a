"""Which rule stops an action or a diver, in words."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings

from deepsea_rules import state as reasons
from deepsea_rules.actions import BACK
from deepsea_rules.errors import IllegalAction
from deepsea_rules.events import TurnPlayed, event_for
from deepsea_rules.narration import Story
from deepsea_rules.ruleset import RuleSet
from helpers import games
from helpers.games import Chooser, opening_state, step
from helpers.positions import at

PAGE = Path(__file__).parents[2] / "docs" / "rules.md"


@pytest.mark.parametrize(
    ("rules", "position", "action", "reason"),
    [
        ("manual", "1 1 1 | *A2v B0v | d1 a25", "back", reasons.NO_TREASURE_NO_TURN),
        ("manual", "1 1 1 | *A0v B0v | d1 a25", "back", "a diver in the submarine goes down first"),
        (
            "guide",
            "1 1 1 | *A3v:4 B0v | d1 a25",
            "down",
            "a diver with no free space deeper has to turn back (forced_turn)",
        ),
        ("manual", "1 1 1 | *A2^:4 B0v | d1 a25", "down", "the dice are next"),
        ("manual", "1 1 1 | *A2^:4 B0v | d1 a25 roll", "take", "the dice are next"),
        ("manual", "1 1 1 | *A2v B0v | d1 a25", "take", "a space is searched after the move"),
        ("manual", "1 x 1 | *A2v B0v | d1 a25 search", "take", "nothing lies on a blank"),
        (
            "manual",
            "1 1 1 | *A2v:4 B0v | d1 a25 search",
            "drop:4",
            "a unit is dropped on a blank only, and here lies one",
        ),
        ("manual", "1 x 1 | *A2v:4,[12] B0v | d1 a25 search", "drop:3", "the diver carries 4 [12]"),
        ("manual", "1 x 1 | *A2v B0v | d1 a25 search", "drop:3", "the diver carries nothing"),
        (
            "reference",
            "1 x 1 | *A2^:4 B0v | d1 a25 search",
            "drop:4",
            "having turned back, a diver keeps its last unit (drop_last_after_turn)",
        ),
        (
            "manual",
            "1 x 1 | *A2^:4 B0v | d1 a25 search",
            "back",
            "the diver declares before it rolls",
        ),
        (
            "manual",
            "1 x 1 | *A2^:4 B0v | d1 a25 search",
            "order:4,3",
            "cargo is ordered when the dive has ended",
        ),
        (
            "manual",
            "2 | *A1^:1,2,3,4 Bh | d1 a0 order",
            "order:1,2",
            "an order names each item once: 1,2,3,4",
        ),
        ("manual", "1 | Ah1 Bh2 | d3 a9 over", "down", "the game is over"),
    ],
)  # fmt: skip
def test_what_is_not_legal_says_why(rules: str, position: str, action: str, reason: str) -> None:
    state = at(position, rules)
    with pytest.raises(IllegalAction) as caught:
        state.apply(action)
    assert str(caught.value).startswith(f"{action} is not legal: {reason}; ")
    assert "\n" not in str(caught.value)


@settings(max_examples=60)
@given(games.rule_sets, games.players, games.choosers)
def test_a_seat_reads_the_rule_that_stopped_its_diver_and_no_other(
    rules: RuleSet, players: int, chooser: Chooser
) -> None:
    """What would have happened where nobody is barred says whether a diver was kept out."""
    state = opening_state(rules, players, "stopped")
    open_rules = replace(rules, home_empty_handed="allowed", barred_release=None)
    stories = [Story(rules, state, seat) for seat in range(players)]
    expected: list[str] = []
    while state.phase != "over":
        seat, before = state.to_move, state.clone()
        if state.phase == "declare":
            stopped = not state.homeward[seat] and state.place[seat] > 0
            bound = stopped and rules.turn_needs_treasure and BACK not in state.legal
            expected = [f"  {reasons.NO_TREASURE_NO_TURN}"] if bound else []
        rolling = not state.legal_actions()
        state.log = []
        step(state, chooser)
        if rolling:
            before.rules, before.log = open_rules, []
            assert state.rolled is not None
            before.roll(*state.rolled)
            home = any(isinstance(item, TurnPlayed) and item.home for item in before.log)
            if home and state.phase == "search":
                had = bool(state.cargo[seat])
                rule = reasons.OUT_FOR_THIS_DIVE if had else reasons.NO_TREASURE_NO_ENTRY
                expected = [f"  {rule}"]
        for event in state.log:
            told = [story.add(event_for(event, {})) for story in stories]
            if isinstance(event, TurnPlayed):
                for reader, lines in enumerate(told):
                    assert lines[1:] == (expected if reader == seat else [])


def test_the_options_that_reasons_name_are_in_the_table_of_the_rules() -> None:
    page = PAGE.read_text()
    for option in ("turn_needs_treasure", "forced_turn", "home_empty_handed", "barred_release"):
        assert f"| `{option}` |" in page
    assert "| `drop_last_after_turn` |" in page

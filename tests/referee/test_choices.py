"""What a person chooses is what is played."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deepsea_referee.person import MOMENTS, ChoiceDialog, action_words, rules_of
from deepsea_rules.game import Game
from deepsea_rules.randomness import Stream, seed_from_text
from deepsea_rules.ruleset import OPTIONS, PRESETS, preset
from deepsea_rules.view import View


def orders(rules: str) -> Iterator[View]:
    """Views of seats that lay their cargo, in some games that are played by chance."""
    for number in range(30):
        seed = seed_from_text(f"orders/{number}")
        game, chance = Game(preset(rules), 3, seed), Stream(seed, "choices")
        while (question := game.pending()) is not None:
            if question.kind == "order":
                yield game.view(question.seat)
            game.decide(question.legal[chance.uniform(min(3, len(question.legal)))])


@pytest.mark.parametrize("rules", PRESETS)
def test_the_key_of_an_item_lays_that_item(rules: str) -> None:
    """Keys and names of items are numbers, and mean other items."""
    seen = 0
    for view in orders(rules):
        for choice in ChoiceDialog(view).offered:
            choosing = ChoiceDialog(view)
            whole = choosing.choose(choice.key)
            if whole is None:
                assert choosing.note == [f"laid so far: {choice.meaning.partition(', worth')[0]}"]
            else:
                assert whole[6:].split(",")[0] == choice.action
            seen += 1
        whole = f"order:{','.join(item.name for item in view.items)}"
        assert ChoiceDialog(view).choose(whole) == whole
    assert seen > 5


@pytest.mark.parametrize("rules", PRESETS)
def test_no_number_of_a_piece_can_be_taken_for_a_key_and_no_option_has_its_name(rules: str) -> None:
    """Units are named by "level"; rules of the moment are sentences with their values."""
    for view in orders(rules):
        assert all(choice.meaning.startswith("level") for choice in ChoiceDialog(view).offered)
        lines = rules_of(view)
        for option in OPTIONS:
            assert not any(option.name in line for line in lines if "_" in option.name)
            if option.name in MOMENTS["order"][1]:
                (line,) = [one for one in lines if one.startswith(option.about)]
                value = line.removeprefix(f"{option.about}: ")
                assert value not in ("true", "false")
                assert "_" not in value


@pytest.mark.parametrize(
    ("action", "words"),
    [
        ("down", "down"),
        ("leave", "take nothing"),
        ("drop:1", "drop level 1"),
        ("drop:[12]", "drop levels 1, 2"),
        ("order:1,[12],3", "order level 1, then levels 1, 2, then level 3"),
    ],
)
def test_an_action_is_said_in_words_without_bare_numbers(action: str, words: str) -> None:
    assert action_words(action) == words

"""The sensible policy: it brings something home, and answers for views as for states."""

from __future__ import annotations

import pytest

from deepsea_rules import PRESETS
from deepsea_rules.game import Game
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.view import view_for
from deepsea_sdk import roll_out, sensible
from helpers.games import rng
from helpers.positions import ALL, at


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("1 1 1 1 | *A3v B0v | d1 a25 search", "take"),
        ("1 1 1 1 2 2 2 2 | *A8v:1,1 B0v | d1 a5 search", "leave"),
        ("1 1 x 1 | *A3^:1,1 B0v | d1 a3 search", "leave"),
        ("1 1 1 x | *A4v:1 B0v | d1 a25", "down"),
        ("1 1 1 x 2 2 2 2 2 2 2 2 | *A4v B0v | d1 a1", "down"),
        ("1 1 1 1 1 1 1 x 2 2 2 2 | *A8v:1,2 B0v | d1 a9", "back"),
        ("4 x x x x x | *A5^:4,3,2,1 Bh1 | d1 a0 order", "order:4,3,2,1"),
    ],
)
def test_what_it_does(text: str, action: str) -> None:
    state = at(text)
    assert sensible(state) == sensible(view_for(state, 0)) == action


@pytest.mark.parametrize("preset", ALL)
def test_it_brings_home_far_more_than_chance(preset: str) -> None:
    position = Game(PRESETS[preset], 3, seed_from_text("sensible")).state
    rolls = rng("dice")
    careful = sum(sum(roll_out(position.clone(), rolls, sensible)) for _ in range(20))
    random = sum(sum(roll_out(position.clone(), rolls)) for _ in range(20))
    assert careful > 2 * random

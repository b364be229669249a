"""The features of a view are those that the plain way makes of it, to the bit."""

from __future__ import annotations

import pytest

pytest.importorskip(
    "numpy", reason="the extra is not installed: pip install 'deepsea-sdk[pettingzoo]'"
)

import numpy as np
from hypothesis import given, settings

from deepsea_rules.actions import CHIPS, LEVELS, count_levels
from deepsea_rules.game import Game
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import PRESETS, RuleSet
from deepsea_rules.view import Diver, View
from deepsea_sdk.features import HEAD, LENGTH, PER_SPACE, SPACES, Features, features
from helpers.games import Chooser, choosers, play_out, players, rule_sets, salts
from helpers.positions import custom


def plain_features(view: View) -> Features:
    """The features number by number, without anything that is kept."""
    own = view.me.seat
    row: list[float] = [
        view.dive,
        view.air,
        view.players,
        view.quiet,
        own,
        view.to_move == own,
        *(view.kind == kind for kind in ("declare", "search")),
        *(sum(unseen) / len(unseen) if (unseen := view.unseen(n)) else 0.0 for n in LEVELS),
    ]
    for space in range(1, len(CHIPS) + 1):
        if space < len(view.trail):
            unit = view.trail[space]
            row += [1.0, unit in view.laid, *count_levels(unit)]
        else:
            row += [0.0] * PER_SPACE
    for diver in (view.me, *view.others):
        row += plain_diver(view, diver)
    row += [0.0] * (LENGTH - len(row))
    return np.array(row, np.float32)


def plain_diver(view: View, diver: Diver) -> list[float]:
    return [
        1.0,
        diver.place,
        diver.homeward,
        diver.home,
        diver.barred,
        diver.load,
        *count_levels(chip for unit in diver.cargo for chip in unit),
        *count_levels(diver.bank),
        sum(view.known.get(chip, 0) for chip in diver.bank),
    ]


def check(game: Game) -> None:
    for seat in range(game.players):
        view = game.view(seat)
        found, plain = features(view), plain_features(view)
        assert found.dtype == plain.dtype
        assert found.shape == (LENGTH,)
        assert found.tobytes() == plain.tobytes(), str(view)


@settings(max_examples=40)
@given(rules=rule_sets, seats=players, salt=salts, chooser=choosers)
def test_every_position_of_a_game(rules: RuleSet, seats: int, salt: str, chooser: Chooser) -> None:
    play_out(Game(rules, seats, seed_from_text(salt)), chooser, check)


def test_positions_with_piles_known_values_and_barred_divers() -> None:
    seen: set[str] = set()

    def look(game: Game) -> None:
        check(game)
        view = game.view(0)
        found = {"piles": view.laid, "values": view.known, "barred": any(view.barred)}
        seen.update(name for name, there in found.items() if there)

    shut = custom("revised", barred_release="never_this_dive")
    for rules in (*PRESETS.values(), shut):
        for number in range(3):
            game = Game(rules, 5, seed_from_text(f"{number}"))
            play_out(game, Chooser(f"{rules.name} {number}", takes=True), look)
    assert seen == {"piles", "values", "barred"}


def test_an_array_belongs_to_whoever_asked_for_it() -> None:
    view = Game(PRESETS["manual"], 2, seed_from_text("own")).view(0)
    first = features(view)
    first *= 0
    assert not first.any()
    assert features(view)[HEAD : HEAD + PER_SPACE * SPACES].any()


def test_a_watcher_has_no_features() -> None:
    with pytest.raises(ValueError, match="watcher"):
        features(Game(PRESETS["manual"], 2, seed_from_text("watch")).view(None))

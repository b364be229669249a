"""Roll-outs: a sampled position is played to its end, and every seat gets what it banked."""

from __future__ import annotations

import pytest

from deepsea_rules import PRESETS
from deepsea_rules.game import Game
from deepsea_sdk import roll_out
from helpers.games import rng


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("players", [2, 6])
def test_a_roll_out_ends_the_game_and_returns_points_by_seat(preset: str, players: int) -> None:
    game = Game(PRESETS[preset], players, bytes(32))
    question = game.pending()
    assert question is not None
    position = game.view(question.seat).sample(rng("values"))
    trial = position.clone()
    scores = roll_out(trial, rng("course"))
    assert trial.phase == "over"
    assert scores == tuple(sum(trial.values[chip] for chip in bank) for bank in trial.bank)
    # The same chance gives the same course, and the position it began from is untouched.
    assert roll_out(position.clone(), rng("course")) == scores
    assert position.phase != "over"

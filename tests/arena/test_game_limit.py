"""The timeout of a rated game follows its clock."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from deepsea_arena.play.tasks import MOST_DECISIONS, game_seconds
from deepsea_rules import Game
from deepsea_rules.randomness import Stream, seed_from_text
from deepsea_rules.ruleset import PRESETS
from helpers import ladder


@pytest.mark.parametrize(
    ("clock", "seats", "seconds"),
    [
        ("1ms", 2, 120 + 2 * 360 * 0.001 + 3 * 10.001),
        ("100ms+2s", 4, 120 + 2 * (720 * 0.1 + 4 * 2) + 3 * 42),
        ("100ms+2s", 6, 120 + 2 * (1080 * 0.1 + 6 * 2) + 3 * 42),
        # An hour, whatever the clock, made such games void.
        ("10s+5m", 4, 120 + 2 * (720 * 10 + 4 * 300) + 3 * 20 * 310),
    ],
)
def test_a_game_has_the_time_that_its_clock_gives(clock: str, seats: int, seconds: float) -> None:
    season = replace(ladder.a_season(), clock=clock)
    assert game_seconds(season, seats) == pytest.approx(seconds)


@pytest.mark.parametrize("seats", [2, 6])
@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_no_seat_decides_more_often(preset: str, seats: int) -> None:
    """Bots that dive as long as they can, and ones that play by chance."""
    for number in range(20):
        seed = seed_from_text(f"game {number}")
        for choices in (1, 9):
            game, chance = Game(PRESETS[preset], seats, seed), Stream(seed, "choices")
            decisions: Counter[tuple[int, int]] = Counter()
            while (question := game.pending()) is not None:
                decisions[game.state.dive, question.seat] += 1
                legal = question.legal
                game.decide(legal[chance.uniform(min(choices, len(legal)))])
            assert max(decisions.values()) <= MOST_DECISIONS

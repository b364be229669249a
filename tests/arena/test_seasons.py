"""Seasons: how they are opened and closed, and which one is meant."""

from __future__ import annotations

import pytest

from deepsea_arena.seasons import (
    close_season,
    find_season,
    open_season,
    season_info,
    season_settings,
    seat_a_begins,
)
from deepsea_ladder.errors import StoreError
from deepsea_ladder.store import Store
from deepsea_referee.errors import UserError
from deepsea_rules.errors import InvalidTimeControl
from deepsea_rules.randomness import commitment
from deepsea_rules.ruleset import PRESETS
from helpers import ladder

MANUAL = PRESETS["manual"]


def test_seat_a_begins_and_the_name_of_the_rules_says_so() -> None:
    rules = seat_a_begins(MANUAL)
    assert (rules.name, rules.first_player) == ("manual, seat A begins", "seat_a")
    assert seat_a_begins(rules) is rules


def test_settings_have_a_clock_as_the_referee_writes_it() -> None:
    settings = season_settings("s2", rules=MANUAL, seats=[4, 2], clock="0.05s", isolation="process")
    assert (settings.clock, settings.seats) == ("50ms", (2, 4))
    assert settings.rules.first_player == "seat_a"
    with pytest.raises(InvalidTimeControl):
        season_settings("s2", rules=MANUAL, seats=[4], clock="soon", isolation="process")


def test_a_season_commits_to_its_seed_and_shows_it_when_it_is_closed(played: Store) -> None:
    opened = open_season(played, ladder.a_season("s2"), fresh=lambda: ladder.SEED)
    assert (opened.commitment, opened.closed_at) == (commitment(ladder.SEED), None)
    assert close_season(played, "s2").seed == ladder.SEED.hex()
    closed = season_info(played.seasons.get("s2"))
    assert closed.closed_at is not None
    assert closed.closed_at >= closed.opened_at


def test_the_open_season_is_meant_or_else_the_newest(played: Store) -> None:
    assert find_season(played, None).name == "s1"
    played.seasons.open(ladder.a_season("s2"), ladder.SEED)
    with pytest.raises(UserError, match="s1, s2"):
        find_season(played, None)
    assert find_season(played, "s1").name == "s1"
    played.seasons.close("s2")
    assert find_season(played, None).name == "s1"
    played.seasons.close("s1")
    assert find_season(played, None).name == "s2"
    with pytest.raises(StoreError, match="s1, s2"):
        find_season(played, "s3")


def test_a_ladder_without_seasons_says_so(store: Store) -> None:
    with pytest.raises(StoreError, match="ladder season"):
        find_season(store, None)

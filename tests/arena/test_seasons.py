"""Seasons: how they are opened and closed, and which one is meant."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from sqlalchemy import update

from deepsea_arena.bots import bot_profile
from deepsea_arena.seasons import (
    Unfinished,
    checked_settings,
    close_season,
    find_season,
    open_season,
    season_info,
    seat_a_begins,
    without_cgroups,
)
from deepsea_arena.standings import order_report, show_standings
from deepsea_bundle.errors import BundleError
from deepsea_ladder.errors import StoreError
from deepsea_ladder.matchmaker import Matchmaker
from deepsea_ladder.rating import RatingParameters
from deepsea_ladder.season import BotLimits, PairingSettings, SeasonSettings
from deepsea_ladder.store import Store, schema
from deepsea_referee.errors import UserError
from deepsea_referee.sandbox import cgroup
from deepsea_referee.sandbox.cgroup import Hierarchies
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
    base = SeasonSettings("s2", rules=MANUAL, seats=(4, 2), clock="0.05s", isolation="process")
    settings = checked_settings(base)
    assert (settings.clock, settings.seats) == ("50ms", (2, 4))
    assert settings.rules.first_player == "seat_a"
    with pytest.raises(InvalidTimeControl):
        checked_settings(SeasonSettings("s2", clock="soon"))


def test_options_change_what_they_name_and_nothing_else() -> None:
    base = SeasonSettings(
        "s2",
        seats=(2, 3),
        packages=("Torch", "numpy"),
        limits=BotLimits(memory_mib=64, processes=9),
        pairing=PairingSettings(same_author=True, patience=2.0),
    )
    options = {"limits.processes": 100, "pairing.former_versions": True, "rating.beta": 8.0}
    settings = checked_settings(base.with_settings(options))
    assert settings == replace(
        base,
        rules=seat_a_begins(MANUAL),
        packages=("numpy", "torch"),
        limits=BotLimits(memory_mib=64, processes=100),
        rating=RatingParameters(beta=8.0),
        pairing=PairingSettings(same_author=True, former_versions=True, patience=2.0),
    )
    with pytest.raises(BundleError, match=r"package 'numpy>2': write a name, or"):
        checked_settings(replace(base, packages=("numpy>2",)))


def test_a_closed_season_lists_who_played_in_it_whatever_came_later(played: Store) -> None:
    played.bots.disable("cleo", "it snores")
    close_season(played, "s1")
    open_season(played, ladder.a_season("s2"))
    ladder.submit(played, "late")
    ladder.submit(played, "anna", "better")
    played.bots.withdraw("dan")
    page = show_standings(played, "s1")
    assert {(line.bot, line.version) for line in page.standings} == {
        ("anna", 1),
        ("ben", 1),
        ("dan", 1),
    }
    assert page.not_listed == 1


def test_former_versions_play_on_and_are_listed_where_the_season_says_so(store: Store) -> None:
    for number in range(3):
        ladder.submit(store, "anna", f"try {number}")
    ladder.submit(store, "ben")
    pairing = PairingSettings(former_versions=True, same_author=True)
    settings = checked_settings(SeasonSettings("s1", seats=(2,), pairing=pairing))
    opened = open_season(store, settings)
    assert (opened.former_versions, opened.same_author) == (True, True)
    season = store.seasons.get("s1")
    rotations = Matchmaker(store, season)(0, 30)
    assert len({version for games in rotations for game in games for version in game}) == 4
    store.jobs.add(season, rotations)
    ladder.play_all(store, season)
    labels = {("anna", 1), ("anna", 2), ("anna", 3), ("ben", 1)}
    for _ in range(2):
        page = show_standings(store, "s1")
        assert {(line.bot, line.version) for line in page.standings} == labels
        assert sorted(line.rank or 0 for line in page.standings) == [1, 2, 3, 4]
        third = bot_profile(store, "anna", version=1, season_name="s1").standing
        assert third is not None
        assert (third.version, third.rank) in [(1, rank) for rank in (1, 2, 3, 4)]
        ranked = {pair.upper for pair in order_report(store, season).neighbours}
        assert ranked <= {entry.version.id for entry in store.ratings.entries(season)}
        close_season(store, "s1")


@pytest.mark.parametrize("former", [True, False])
def test_a_new_version_has_to_play_before_the_end_unless_former_ones_have_ranks(
    store: Store, *, former: bool
) -> None:
    ladder.stocked(store, 2, (2,))
    pairing = PairingSettings(former_versions=former, provisional_games=0)
    season = store.seasons.open(SeasonSettings("s2", seats=(2,), pairing=pairing), ladder.SEED)
    ladder.play_all(store, season, games=2)
    assert store.seasons.end_submissions("s2") == ([], 0)
    with store.database.write() as connection:
        connection.execute(update(schema.seasons).values(submissions_until=None))
    ladder.submit(store, "anna", "better")
    missing = close_season(store, "s2", at_once=False).unfinished
    assert missing == (None if former else Unfinished(("anna",), 1, 0))


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


SOME = Path("/some")
EVERYTHING = Hierarchies(memory=SOME, pids=SOME, core=SOME, cpu=SOME)


@pytest.mark.parametrize(
    ("places", "words"),
    [
        (EVERYTHING, None),
        (EVERYTHING._replace(cpu=None), "for CPU shares: see"),
        (Hierarchies(), "CPU time, CPU shares: bots are charged the wall time"),
    ],
)
def test_a_ladder_without_control_groups_says_how_it_times_bots(
    places: Hierarchies, words: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroup, "hierarchies", lambda: places)
    assert without_cgroups("process") is None
    note = without_cgroups("sandbox")
    assert note is None if words is None else words in str(note)

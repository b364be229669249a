"""Ratings follow from the games, to the last bit, and the store can show it."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import Update, update

from deepsea_ladder import rating
from deepsea_ladder.errors import StoreError
from deepsea_ladder.model import GameFilter, StoredSeason
from deepsea_ladder.rating import Rating
from deepsea_ladder.standings import CoursePoint
from deepsea_ladder.store import Store, schema
from helpers import ladder
from helpers.postgres import Postgres


def _contents(store: Store) -> None:
    """A season at tables of many sizes, with a crash and ties."""
    ladder.many_sizes(store, {"s1-7": {"eve"}})


CONTENTS = _contents


def test_a_refold_gives_what_is_stored(store: Store, season: StoredSeason) -> None:
    assert sum(entry.tally.games > 0 for entry in store.ratings.entries(season)) == 5
    assert store.ratings.differences(season, records=True) == []


def test_both_databases_give_the_same_bits(tmp_path: Path, postgres: Postgres) -> None:
    digests = set()
    for target in (str(tmp_path / "one.db"), postgres.url(postgres.new_database())):
        with Store.create(target) as store:
            season = ladder.stocked(store, bots=6)
            store.jobs.add(season, ladder.rotations(ladder.ids(store)[:4], 4))
            store.jobs.add(season, ladder.rotations(ladder.ids(store)[2:], 4))
            ladder.play_all(store, season)
            entries = store.ratings.entries(season)
            digests.add(tuple(entry.tally.rating.to_hex() for entry in entries))
            assert store.ratings.differences(season) == []
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE ratings SET wins = wins + 1 WHERE version_id = 2", "version 2: wins is"),
        ("UPDATE ratings SET mu = '0x1.9p+4' WHERE version_id = 1", "version 1: rating is"),
        ("UPDATE game_seats SET sigma = '0x1.0p+2' WHERE seq = 3 AND seat = 0", "game 3, version"),
        ("DELETE FROM ratings WHERE version_id = 3", "version 3 has no rating, but games"),
        ("UPDATE game_seats SET placement = 1 WHERE seq = 12", "game 12"),
        ("UPDATE game_seats SET points = points + 1 WHERE seq = 5", ": points is"),
        ("UPDATE game_seats SET number = 9 WHERE seq = 5", "and 9 the number of its games, the"),
        ("UPDATE pair_sums SET better = better + 1", "table pair_sums: there is (1, 1, 2, "),
        ("DELETE FROM pair_sums WHERE other_id = 5", "the games give (1, 1, 5, 4, "),
        ("UPDATE seat_sums SET halves = 0", "table seat_sums: there is (1, 1, 2, 0, "),
        (
            "INSERT INTO seat_sums VALUES (1, 1, 4, 5, 1, 1, 1, 1, 1, 1, 1)",
            ": there is (1, 1, 4, 5",
        ),
        ("UPDATE seasons SET games = 13", "column games: there is (13,), the games give (12,)"),
    ],
)
def test_what_was_tampered_with_is_found(
    store: Store, season: StoredSeason, statement: str, words: str
) -> None:
    ladder.write(store, statement)
    found = store.ratings.differences(season)
    assert any(words in line for line in found), found


def test_a_single_bit_is_found(store: Store, season: StoredSeason) -> None:
    (entry, *_) = store.ratings.entries(season)
    mu = entry.tally.rating.mu
    nudged = float.fromhex(mu.hex()) * (1 + 2**-52)
    ladder.write(
        store, f"UPDATE ratings SET mu = '{nudged.hex()}' WHERE version_id = {entry.version.id}"
    )
    (line,) = store.ratings.differences(season)
    assert line.startswith(f"version {entry.version.id}: rating is {nudged.hex()}")


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (update(schema.games).values(record="{}"), "s1-1: the record is wrong"),
        (
            "UPDATE games SET record = (SELECT record FROM games WHERE seq = 1) WHERE seq = 2",
            "s1-2: the record is another game's",
        ),
    ],
)
def test_records_are_looked_at_on_demand(
    store: Store, season: StoredSeason, statement: str | Update, words: str
) -> None:
    ladder.write(store, statement)
    assert store.ratings.differences(season) == []
    assert words in store.ratings.differences(season, records=True)[0]


def test_results_that_are_not_their_records_are_found(store: Store, season: StoredSeason) -> None:
    ladder.write(store, "UPDATE game_seats SET points = points + 1 WHERE seq = 5")
    found = store.ratings.differences(season, records=True)
    assert "game s1-5: the stored results are not those of its record" in found


@pytest.mark.databases
def test_rewriting_mends_what_follows_from_the_games(store: Store, season: StoredSeason) -> None:
    before = store.ratings.entries(season)
    ladder.write(
        store,
        "UPDATE ratings SET mu = '0x1.0p+0', games = 99",
        "UPDATE game_seats SET mu = '0x1.0p+0', number = 3 WHERE seq = 4",
        *(f"UPDATE {table} SET games = 77" for table in ("pair_sums", "seat_sums", "seasons")),
    )
    assert store.ratings.rewrite(season, portion=5) == 12
    assert store.ratings.differences(season, records=True) == []
    assert store.ratings.entries(season) == before


def test_ratings_of_another_arithmetic_are_not_continued(
    store: Store, season: StoredSeason, monkeypatch: pytest.MonkeyPatch
) -> None:
    ladder.write(store, "UPDATE seasons SET method = 'older/1'")
    store.jobs.add(season, ladder.rotations(ladder.ids(store)[:4], 1))
    job = ladder.claim(store, season)
    with pytest.raises(StoreError, match=r"was rated by older/1, .* compute the season's ratings"):
        store.games.report(job, ladder.play(job))
    store.ratings.rewrite(season)
    assert store.seasons.get("s1").method == rating.METHOD
    assert store.games.report(job, ladder.play(job)).seq == 13


@pytest.mark.databases
def test_a_new_version_starts_as_a_newcomer_and_the_former_keeps_its_rating(
    store: Store, season: StoredSeason
) -> None:
    former = {entry.version.id: entry.tally for entry in store.ratings.entries(season)}
    new = ladder.submit(store, "anna", "better")
    entries = {entry.version.id: entry for entry in store.ratings.entries(season)}
    assert entries[new.id].tally.rating == season.settings.rating.newcomer
    assert entries[new.id].is_current
    first = store.bots.versions("anna")[0]
    assert entries[first.id].tally == former[first.id]
    assert not entries[first.id].is_current


def course_of(store: Store, season: StoredSeason, version: int, points: int) -> list[CoursePoint]:
    """About so many points of a version's course."""
    tallies = {entry.version.id: entry.tally for entry in store.ratings.entries(season)}
    return store.ratings.courses(season, {version: (tallies[version], points)})[version]


@pytest.mark.databases
def test_the_course_of_a_rating_can_be_followed(store: Store, season: StoredSeason) -> None:
    anna = ladder.ids(store)[0]
    course = course_of(store, season, anna, 99)
    assert [point.seq for point in course] == [1, 2, 3, 4, 5, 6, 7, 8]
    tallies = {entry.version.id: entry.tally for entry in store.ratings.entries(season)}
    assert Rating(course[-1].mu, course[-1].sigma) == tallies[anna].rating
    recent = store.ratings.recent(season, 3, former=True)
    assert recent[anna] == [point.mu for point in course[-3:]]
    every = store.ratings.recent(season, 99, former=True)
    assert every[anna] == [point.mu for point in course]
    assert set(recent) == set(ladder.ids(store))
    assert store.ratings.recent(season, 3, anna, former=True) == {anna: recent[anna]}


@pytest.mark.parametrize(
    ("points", "games"), [(2, [1, 8]), (3, [1, 4, 8]), (4, [1, 2, 4, 6, 8]), (99, [*range(1, 9)])]
)
def test_a_thinned_course_has_its_first_and_its_last_point(
    store: Store, season: StoredSeason, points: int, games: list[int]
) -> None:
    anna = ladder.ids(store)[0]
    course = course_of(store, season, anna, 99)
    thinned = course_of(store, season, anna, points)
    assert thinned == [course[number - 1] for number in games]
    assert store.ratings.courses(season, {}) == {}


@pytest.mark.databases
def test_seasons_are_rated_apart(store: Store, season: StoredSeason) -> None:
    before = store.ratings.entries(season)
    other = store.seasons.open(ladder.a_season("s2", seats=(3,)), ladder.SEED)
    store.jobs.add(other, ladder.rotations(ladder.ids(store)[:3], 2))
    assert store.jobs.claim(season, "worker", 60) == []
    ladder.play_all(store, other)
    assert store.ratings.entries(season) == before
    anna = ladder.ids(store)[0]
    assert [point.seq for point in course_of(store, other, anna, 99)] == [13, 14]
    assert len(course_of(store, season, anna, 99)) == 8
    assert store.ratings.differences(season) == store.ratings.differences(other) == []


@pytest.mark.databases
def test_games_are_listed_by_season_and_bot(store: Store, season: StoredSeason) -> None:
    assert [game.line.seq for game in store.history.games()] == list(range(1, 13))
    assert store.seasons.get("s1").games == 12
    assert [game.game_id for game in store.history.latest(2, season)] == ["s1-12", "s1-11"]
    of_dan = store.history.latest(99, season, GameFilter(bot="Dan"))
    assert [game.seq for game in of_dan] == [4, 3, 2, 1]
    older = store.history.latest(2, season, GameFilter(bot="dan"), before=3)
    assert [game.seq for game in older] == [2, 1]
    assert [game.seq for game in store.history.latest(2, before=12)] == [11, 10]
    dan = store.bots.get("dan").current.id
    assert [game.seq for game in store.history.latest_of(season, dan, 3)] == [4, 3, 2]
    results = store.history.results_by_game(season)
    assert list(results)[:5] == [f"s1-{number}" for number in range(1, 6)]
    assert [len(seats) for seats in results.values()][:5] == [4, 4, 4, 4, 2]
    assert sum(seat.forfeit == "crash" for seats in results.values() for seat in seats) == 1


@pytest.mark.parametrize("contents", [ladder.nothing])
@pytest.mark.databases
def test_faults_are_found_in_all_games_of_a_version(store: Store) -> None:
    season = ladder.to_play(store, 8)
    ladder.play_all(store, season, {"s1-2": ["ben"], "s1-4": ["ben", "dan"], "s1-7": ["ben"]})
    anna, ben, _, dan = ladder.ids(store)

    def faulty(version: int, limit: int) -> tuple[int, list[str]]:
        games = store.history.latest_of(season, version, 0, limit_with_faults=limit)
        _, count = store.sums.seats(season, version)
        return count, [game.game_id for game in games]

    both = store.history.latest_of(season, ben, 1, limit_with_faults=2)
    assert [game.game_id for game in both] == ["s1-8", "s1-7", "s1-4"]
    assert faulty(ben, 2) == (3, ["s1-7", "s1-4"])
    assert faulty(dan, 2) == (1, ["s1-4"])
    assert faulty(anna, 2) == (0, [])

"""Lists of games and exports: every game once, in order, and readable by other programs."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable

import pytest

from deepsea_arena.reports.games import csv_lines, json_lines
from deepsea_ladder.store import History, Store
from deepsea_rules.record import GameRecord, verify
from helpers import ladder


@pytest.fixture
def contents() -> Callable[[Store], object]:
    """Bots and a season."""
    return ladder.stocked


def test_json_lines_have_every_game_with_its_record(store: Store) -> None:
    season = store.seasons.get("s1")
    store.jobs.add(season, ladder.rotations(ladder.ids(store), 3))
    ladder.play_all(store, season)
    lines = list(json_lines(store, season.name))
    assert all(line.count("\n") == 1 for line in lines)
    opening, *games = [json.loads(line) for line in lines]
    assert (opening["place"], opening["commitment"]) == (0, season.commitment)
    assert [game["seq"] for game in games] == ["1", "2", "3"]
    for game in games:
        verify(GameRecord.from_json(json.dumps(game["record"])))
        assert [seat["points"] for seat in game["seats"]] == game["record"]["result"]["scores"]
    seats, ratings = games[-1]["seats"], games[-1]["ratings"]
    last = {seat["bot"]: now["mu"] for seat, now in zip(seats, ratings, strict=True)}
    for entry in store.ratings.entries(season):
        assert last[entry.version.bot] == entry.tally.rating.mu


def test_csv_has_a_line_for_each_seat(store: Store) -> None:
    season = store.seasons.get("s1")
    store.jobs.add(season, ladder.rotations(ladder.ids(store), 2))
    ladder.play_all(store, season, {"s1-2": {"dan"}})
    rows = list(csv.DictReader(csv_lines(store)))
    assert len(rows) == 8
    assert [row["seat"] for row in rows[:4]] == ["0", "1", "2", "3"]
    assert {row["bot"]: row["forfeit"] for row in rows[4:]} == {
        "anna": "",
        "ben": "",
        "cleo": "",
        "dan": "crash",
    }


def test_games_are_read_in_portions(store: Store) -> None:
    season = store.seasons.get("s1")
    other = store.seasons.open(ladder.a_season("s2"), ladder.SEED)
    for _ in range(2):
        for each in (season, other):
            store.jobs.add(each, ladder.rotations(ladder.ids(store), 2))
            ladder.play_all(store, each)
    for portion in (1, 2, 3, 8, 9):
        history = History(store.database, portion)
        assert [game.seq for game in history.games()] == list(range(1, 9))
        assert [game.seq for game in history.games(other)] == [3, 4, 7, 8]

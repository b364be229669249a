"""A game's report, the newest games, the table of pairs, and tournaments as people look at them."""

from __future__ import annotations

import csv
import json

import pytest

from deepsea_arena.documents import to_json
from deepsea_arena.games import csv_lines, game_report, json_lines
from deepsea_arena.standings import pair_table
from deepsea_arena.tournaments import tournament_report, tournaments
from deepsea_ladder.errors import StoreError
from deepsea_ladder.store import Store
from deepsea_rules.game import GameRecord, verify
from deepsea_rules.randomness import commitment, game_seed
from helpers import ladder


def test_a_game_tells_what_it_did_to_each_rating(played: Store) -> None:
    first, last = game_report(played, "s1-1"), game_report(played, "s1-8")
    assert [change.first for change in first.changes] == [True] * 4
    newcomer = played.seasons.get("s1").settings.rating.newcomer
    assert {change.before for change in first.changes} == {newcomer.conservative}
    assert not any(change.first for change in last.changes)
    seventh = {seat.bot: seat for seat in game_report(played, "s1-7").game.seats}
    for seat, change in zip(last.game.seats, last.changes, strict=True):
        assert (change.mu_before, change.mu_after) == (seventh[seat.bot].mu, seat.mu)
        assert change.after - change.before == change.change
    assert to_json(last)


def test_a_game_has_what_checks_it(played: Store) -> None:
    report = game_report(played, "s1-3")
    assert report.seed == game_seed(ladder.SEED, 3).hex()
    assert report.commitment == commitment(bytes.fromhex(report.seed))
    assert json.loads(report.record)["game_id"] == "s1-3"
    assert report.season_seed is None
    played.seasons.close("s1")
    assert game_report(played, "s1-3").season_seed == ladder.SEED.hex()
    with pytest.raises(StoreError, match="no game 's1-99' was played"):
        game_report(played, "s1-99")


def test_newer_games_come_in_their_order_and_the_oldest_of_many(played: Store) -> None:
    assert [game.game_id for game in played.history.games_after(5, 9)] == ["s1-6", "s1-7", "s1-8"]
    assert [game.game_id for game in played.history.games_after(0, 2)] == ["s1-1", "s1-2"]
    assert played.history.games_after(8, 9) == []


def test_the_table_of_pairs_keeps_up_with_the_games(played: Store) -> None:
    table = pair_table(played, None, start=0, size=3)
    assert (len(table.bots), len(table.cells), table.total) == (3, 3, 4)
    for row in range(3):
        assert table.cells[row][row] is None
        for column in range(row):
            there, back = table.cells[row][column], table.cells[column][row]
            assert there is not None
            assert back is not None
            assert there.games == back.games == 8
            assert there.share + back.share == pytest.approx(1.0)
    season = played.seasons.get("s1")
    ladder.play_all(played, season, games=4)
    again = pair_table(played, None, start=0, size=4)
    with Store.open(str(played.database)) as fresh:
        assert again == pair_table(fresh, None, start=0, size=4)
    assert {cell.games for row in again.cells for cell in row if cell} == {12}
    assert pair_table(played, None, start=3, size=9).bots == again.bots[3:]


def test_an_elimination_shows_its_rounds_until_now(played: Store) -> None:
    ladder.a_cup(played)
    report = tournament_report(played, "cup")
    assert report.entrants == (("anna", 1), ("ben", 1), ("cleo", 1))
    (first, second) = report.rounds
    assert [len(table.games) for table in (*first, *second)] == [2, 0]
    (table,) = first
    assert [line.advances for line in table.lines].count(True) == 1
    winner = next(line.bot for line in table.lines if line.advances)
    (final,) = second
    assert {line.bot for line in final.lines} == {"anna", winner}
    assert (report.champion, report.seed) == (None, None)
    ids = {bot.name: bot.current.id for bot in played.bots.all()}
    season = played.seasons.get("cup")
    played.jobs.add(season, ladder.rotations([ids["anna"], ids[winner]], 2), after=2)
    ladder.play_all(played, season)
    played.seasons.close("cup")
    ended = tournament_report(played, "cup")
    assert ended.champion in ("anna", winner)
    assert (ended.scores[0].bot, ended.scores[0].rank) == (ended.champion, 1)
    assert ended.seed == ladder.SEED.hex()
    assert [line.name for line in tournaments(played)] == ["cup"]


def test_a_tournament_that_is_closed_before_its_end_has_no_champion(played: Store) -> None:
    ladder.a_cup(played)
    played.seasons.close("cup")  # without the final
    report = tournament_report(played, "cup")
    assert [line.placement_score for line in report.rounds[1][0].lines] == [None, None]
    assert (report.champion, report.tournament.winners) == (None, ())


@pytest.mark.parametrize(
    ("out", "played_before", "advances"),
    [
        ("cleo", 0, "ben"),
        ("ben", 0, "cleo"),  # the first seed of the table
        ("cleo", 1, "ben"),  # who won the game that was played
    ],
)
def test_a_round_goes_on_without_a_bot_that_was_withdrawn(
    played: Store, out: str, played_before: int, advances: str
) -> None:
    a, b, c = ladder.ids(played)[:3]
    plan = {"kind": "elimination", "seats": 2, "meetings": 1, "bots": [a, b, c]}
    season = played.seasons.open(ladder.a_season("cup", (2,)), ladder.SEED, json.dumps(plan))
    played.jobs.add(season, ladder.rotations([b, c], 2))
    jobs = [ladder.claim(played, season) for _ in range(played_before)]
    played.bots.withdraw(out)
    assert [len(tournament_report(played, "cup").rounds)] * played_before == [1] * len(jobs)
    for job in jobs:
        played.games.report(job, ladder.play(job, [advances]))
    first, (final,) = tournament_report(played, "cup").rounds
    assert [line.bot for line in first[0].lines if line.advances] == [advances]
    assert {line.bot for line in final.lines} == {"anna", advances}
    played.bots.withdraw("anna")
    assert tournament_report(played, "cup").champion == advances
    played.seasons.close("cup")
    played.bots.withdraw(advances)  # when it was over
    assert tournament_report(played, "cup").champion == advances


def test_a_season_for_rated_games_is_no_tournament(played: Store) -> None:
    ladder.a_cup(played)
    assert [line.name for line in tournaments(played)] == ["cup"]
    with pytest.raises(StoreError, match="no tournament's"):
        tournament_report(played, "s1")


# Exports


CONTENTS = ladder.stocked


def test_json_lines_have_every_game_with_its_record(store: Store) -> None:
    season = store.seasons.get("s1")
    ladder.play_all(store, season, games=3)
    lines = list(json_lines(store, season.name))
    assert all(line.count("\n") == 1 for line in lines)
    opening, *games = [json.loads(line) for line in lines]
    assert (opening["place"], opening["commitment"]) == (0, season.commitment)
    assert [game["seq"] for game in games] == ["1", "2", "3"]
    for game in games:
        verify(GameRecord.from_json(json.dumps(game["record"])))
        assert [seat["points"] for seat in game["seats"]] == game["record"]["result"]["points"]
    seats, ratings = games[-1]["seats"], games[-1]["ratings"]
    last = {seat["bot"]: now["mu"] for seat, now in zip(seats, ratings, strict=True)}
    for entry in store.ratings.entries(season):
        assert last[entry.version.bot] == entry.tally.rating.mu


def test_csv_has_a_line_for_each_seat(store: Store) -> None:
    season = store.seasons.get("s1")
    ladder.play_all(store, season, {"s1-2": {"dan"}}, games=2)
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
            ladder.play_all(store, each, games=2)
    for portion in (1, 2, 3, 8, 9):
        every, others = store.history.games(None, portion), store.history.games(other, portion)
        assert [game.line.seq for game in every] == list(range(1, 9))
        assert [game.line.seq for game in others] == [3, 4, 7, 8]

"""Standings, bots, status and refolds as data: what is listed, in which order, and as of when."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from deepsea_arena import bots
from deepsea_arena.bots import NEWEST, bot_profile, evenly_spaced
from deepsea_arena.doctor import check_ratings
from deepsea_arena.documents import to_json
from deepsea_arena.games import newest_games
from deepsea_arena.standings import show_standings
from deepsea_arena.status import ladder_status
from deepsea_ladder.accounts import Caller, Role, Scope
from deepsea_ladder.errors import StoreError
from deepsea_ladder.model import AttemptEnd, BotState, GameFilter, Int64, SeatLog
from deepsea_ladder.standings import CoursePoint
from deepsea_ladder.store import Store
from deepsea_referee.errors import UserError
from helpers import ladder


def test_standings_have_the_bots_that_play_the_best_first(played: Store) -> None:
    page = show_standings(played)
    assert (page.season.name, page.games, page.not_listed) == ("s1", 8, 0)
    assert [line.rank for line in page.standings] == [1, 2, 3, 4]
    ratings = [line.rating for line in page.standings]
    assert ratings == sorted(ratings, reverse=True)
    (newest,) = newest_games(played, 1).games
    assert {line.last_played_at for line in page.standings} == {newest.played_at}


def test_a_bot_is_provisional_until_it_has_played_enough(played: Store) -> None:
    season = played.seasons.get("s1")
    assert all(line.provisional for line in show_standings(played).standings)  # 8 of 12 games
    ladder.play_all(played, season, games=4)
    ladder.submit(played, "eve")
    provisional = {line.bot: line.provisional for line in show_standings(played).standings}
    assert provisional == {"anna": False, "ben": False, "cleo": False, "dan": False, "eve": True}


def test_who_was_taken_out_is_counted_and_listed_on_request(played: Store) -> None:
    played.bots.withdraw("anna")
    ladder.submit(played, "ben", "better", "ben-senior")
    page = show_standings(played)
    assert [line.bot for line in page.standings][-1] == "ben"  # its new version has no games
    assert ({line.bot for line in page.standings}, page.not_listed) == ({"ben", "cleo", "dan"}, 1)
    everybody = show_standings(played, everybody=True)
    assert everybody.not_listed == 0
    states = {
        (line.bot, line.version): (line.state, line.is_current) for line in everybody.standings
    }
    assert states == {
        ("anna", 1): (BotState.WITHDRAWN, True),
        ("ben", 1): (BotState.ACTIVE, False),
        ("ben", 2): (BotState.ACTIVE, True),
        ("cleo", 1): (BotState.ACTIVE, True),
        ("dan", 1): (BotState.ACTIVE, True),
    }


def test_the_best_bot_of_each_author_is_a_view_and_a_seasons_setting(played: Store) -> None:
    ladder.submit(played, "andy", author="anna-senior")
    season = played.seasons.open(replace(ladder.a_season("s2"), best_of_author=True), ladder.SEED)
    andy, _, ben, cleo, dan = ladder.ids(played)
    played.jobs.add(season, ladder.rotations([andy, ben, cleo, dan], 4))
    ladder.play_all(played, season)
    usual = show_standings(played, "s1", best_of_author=True).standings
    assert {line.bot for line in usual} == {"anna", "ben", "cleo", "dan"}
    assert len(show_standings(played, "s1").standings) == 5
    for _ in range(2):
        page = show_standings(played, "s2")
        assert {line.bot for line in page.standings} == {"andy", "ben", "cleo", "dan"}
        assert [line.rank for line in page.standings] == [1, 2, 3, 4]
        assert page.season.best_of_author
        everybody = show_standings(played, "s2", everybody=True)
        assert len(everybody.standings) == 5
        standing = bot_profile(played, "anna", season_name="s2").standing
        assert standing is None or standing.rank is None
        played.seasons.close("s2")


def test_a_former_version_has_no_rank(played: Store) -> None:
    ladder.submit(played, "anna", "better", "anna-senior")
    newest, former = bot_profile(played, "anna"), bot_profile(played, "anna", version=1)
    assert (newest.version, newest.opponents) == (2, ())
    assert newest.standing is not None
    assert newest.standing.games == 0
    assert former.standing is not None
    assert (former.standing.rank, former.standing.games) == (None, 8)
    with pytest.raises(StoreError, match="versions 1 to 2, not 3"):
        bot_profile(played, "anna", version=3)


@pytest.mark.parametrize(
    ("points", "games"), [(1, [8]), (2, [4, 8]), (8, [*range(1, 9)]), (99, [*range(1, 9)])]
)
def test_some_points_of_a_course_are_spread_to_its_end(
    played: Store, points: int, games: list[int]
) -> None:
    (course,) = bot_profile(played, "anna").course
    assert [point.games for point in evenly_spaced(course.points, points)] == games
    assert evenly_spaced((), points) == []


def test_of_a_thinned_course_the_nearest_points_are_taken() -> None:
    course = [
        CoursePoint(games=games, seq=Int64(games), rating=0.0, mu=0.0, sigma=1.0)
        for games in (1, 30, 70, 110, 150, 200)
    ]
    assert [point.games for point in evenly_spaced(course, 4)] == [30, 110, 150, 200]
    assert [point.games for point in evenly_spaced(course, 1)] == [200]


def test_a_list_of_games_has_the_newest_first(played: Store) -> None:
    page = newest_games(played, 3, game_filter=GameFilter(bot="ANNA"))
    assert [game.game_id for game in page.games] == ["s1-8", "s1-7", "s1-6"]
    game = page.games[0]
    placements = [seat.placement for seat in game.by_placement()]
    assert placements == sorted(seat.placement for seat in game.seats)
    assert page.older == 6
    rest = newest_games(played, 9, game_filter=GameFilter(bot="anna"), before=page.older)
    assert [game.game_id for game in rest.games] == ["s1-5", "s1-4", "s1-3", "s1-2", "s1-1"]
    assert rest.older is None
    with pytest.raises(StoreError):
        newest_games(played, 3, "s9")


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        # ben crashed in s1-2 and s1-5, which makes him the last there.
        (GameFilter(faults=True), {"s1-5", "s1-2"}),
        (GameFilter(bot="ben", faults=True), {"s1-5", "s1-2"}),
        (GameFilter(bot="anna", faults=True), set()),
        (GameFilter(bot="anna", against="ben"), {f"s1-{n}" for n in range(1, 9)}),
        (GameFilter(bot="anna", against="anna"), set()),
        (GameFilter(bot="ben", faults=True, lost=True, against="anna"), {"s1-5", "s1-2"}),
    ],
)
def test_games_can_be_asked_for_by_bots_and_by_what_happened(
    played: Store, wanted: GameFilter, found: set[str]
) -> None:
    page = newest_games(played, 99, game_filter=wanted)
    assert {game.game_id for game in page.games} == found


def test_lost_games_are_those_behind_the_other_or_not_won(played: Store) -> None:
    def ids(**wanted: Any) -> list[str]:
        page = newest_games(played, 99, game_filter=GameFilter(bot="anna", **wanted))
        return [game.game_id for game in page.games]

    places = {
        game.game_id: {seat.bot: seat.placement for seat in game.seats}
        for game in newest_games(played, 99).games
    }
    assert ids(lost=True) == [game for game, place in places.items() if place["anna"] > 1]
    for other in ("ben", "cleo", "dan"):
        behind = [game for game, place in places.items() if place["anna"] > place[other]]
        assert ids(lost=True, against=other) == behind
    for wanted in (GameFilter(lost=True), GameFilter(against="ben")):
        with pytest.raises(UserError, match="name it with --bot"):
            newest_games(played, 99, game_filter=wanted)
    with pytest.raises(StoreError, match="nobody"):
        newest_games(played, 99, game_filter=GameFilter(bot="anna", against="nobody"))


def test_status_lists_what_waits_what_is_stuck_and_who_is_out(played: Store) -> None:
    season = played.seasons.get("s1")
    played.jobs.add(season, ladder.rotations(ladder.ids(played), 3))
    # The first void game of each seat counts no failure; five failures are too many.
    for seat in (0, 0, 0, 0, 1, 1, 1):
        played.jobs.fail(ladder.claim(played, season), "no luck", seat)
    ladder.claim(played, season, "somebody")
    status = ladder_status(played)
    (found,) = status.seasons
    assert (found.done, found.waiting, found.leased, found.expired) == (8, 1, 1, 0)
    assert [job.game_id for job in found.quarantined] == ["s1-9"]
    assert [(job.game_id, job.owner) for job in found.leases] == [("s1-10", "somebody")]
    assert found.leases[0].lineup == ("ben v1", "cleo v1", "dan v1", "anna v1")
    assert found.lost == {AttemptEnd.VOID: 7}
    assert [(line.bot, line.voids) for line in found.strikes] == [("anna", 4), ("ben", 3)]
    assert status.taken_out == ()
    played.bots.disable("dan", "too loud")
    (out,) = ladder_status(played).taken_out
    assert (out.bot, out.state, out.reason) == ("dan", BotState.DISABLED, "too loud")
    assert ladder_status(played).audit[0].subject in {"dan", "s1-11"}


def test_the_rate_of_games_is_that_of_the_newest(played: Store) -> None:
    with played.database.write() as connection:
        connection.exec_driver_sql("UPDATE games SET played_at = 1000000 + 500 * seq")
    (season,) = ladder_status(played).seasons
    assert season.games_per_second == 2.0
    assert to_json(season.last_game_at) == "1970-01-01T00:16:44.000Z"
    with played.database.write() as connection:
        connection.exec_driver_sql("UPDATE games SET played_at = 1000000")
    assert ladder_status(played).seasons[0].games_per_second is None


def test_a_check_finds_what_does_not_follow_from_the_games(played: Store) -> None:
    (check,) = check_ratings(played, records=True)
    assert (check.season, check.games, check.sound, check.differences) == ("s1", 8, True, ())
    with played.database.write() as connection:
        connection.exec_driver_sql("UPDATE ratings SET wins = wins + 1 WHERE version_id = 1")
    (check,) = check_ratings(played, "s1")
    assert not check.sound
    assert "wins" in check.differences[0]
    assert played.ratings.rewrite(played.seasons.get("s1")) == 8
    assert check_ratings(played)[0].sound


# Profiles of bots


def test_a_profile_lists_those_that_were_met_most_often(
    played: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bots, "OPPONENTS", 2)
    profile = bot_profile(played, "ben")
    assert [line.bot for line in profile.opponents] == ["anna", "cleo"]
    assert profile.opponents_of == 3


def test_a_profile_has_the_course_opponents_seats_and_faults(played: Store) -> None:
    profile = bot_profile(played, "BEN")
    assert (profile.bot, profile.author, profile.version) == ("ben", "ben-senior", 1)
    assert profile.standing in show_standings(played).standings
    (course,) = profile.course
    assert [point.games for point in course.points] == list(range(1, 9))
    assert (course.games, course.before) == (8, 0)
    assert profile.standing is not None
    assert course.points[-1].rating == profile.standing.rating
    opponents = [(line.bot, line.games) for line in profile.opponents]
    assert opponents == [("anna", 8), ("cleo", 8), ("dan", 8)]
    assert profile.opponents_of == 3
    assert [line.games for line in profile.seats] == [8, 2, 2, 2, 2]
    assert profile.faulty_games == 2
    newest, oldest = profile.faults
    assert (newest.game_id, oldest.game_id) == ("s1-5", "s1-2")
    assert (newest.fault, newest.forfeit) == ("crash", "crash")
    assert newest.detail == "its process ended"


def test_each_of_the_newest_games_has_its_change_of_the_rating(played: Store) -> None:
    profile = bot_profile(played, "ben")
    assert [one.game.game_id for one in profile.newest] == [f"s1-{n}" for n in range(8, 0, -1)]
    assert all(one.game.seats[one.seat].bot == "ben" for one in profile.newest)
    ratings = [0.0, *(point.rating for point in profile.course[0].points)]
    assert [one.rating for one in profile.newest] == ratings[:0:-1]
    newcomer = played.seasons.get("s1").settings.rating.newcomer.conservative
    assert sum(one.change for one in profile.newest) == pytest.approx(ratings[-1] - newcomer)


def test_beyond_the_newest_games_the_change_is_still_known(played: Store) -> None:
    season = played.seasons.get("s1")
    played.jobs.add(season, ladder.rotations(ladder.ids(played), 4) * 5)
    ladder.play_all(played, season)
    profile = bot_profile(played, "anna")
    assert len(profile.newest) == NEWEST
    before = profile.course[0].points[-NEWEST - 1].rating  # so few games need no thinning
    assert profile.newest[-1].change == pytest.approx(profile.newest[-1].rating - before)


def test_courses_of_versions_follow_each_other(played: Store) -> None:
    ladder.submit(played, "anna", "better", "anna-senior")
    season = played.seasons.get("s1")
    ladder.play_all(played, season, games=4)
    profile = bot_profile(played, "anna")
    found = [(course.version, course.before, course.games) for course in profile.course]
    assert found == [(1, 0, 8), (2, 8, 4)]
    assert profile.version == 2
    assert profile.standing is not None
    assert profile.standing.games == 4
    former = bot_profile(played, "anna", version=1)
    assert (former.version, former.course) == (1, profile.course)


def test_kinds_of_faults_are_counted(played: Store) -> None:
    profile = bot_profile(played, "ben")
    (kind,) = profile.fault_kinds
    assert (kind.fault, kind.faults, kind.games) == ("crash", 2, 2)
    assert profile.fault_kinds_of == 2
    assert bot_profile(played, "anna").fault_kinds == ()


READERS = [
    (Caller(author="anna-senior", role=Role.AUTHOR), None),
    (Caller(author="Ben-Senior", role=Role.AUTHOR), "a secret traceback"),
    (Caller(author="zoe", role=Role.ADMIN, scopes=frozenset({Scope.READ})), None),
    (Caller(author="zoe", role=Role.ADMIN, scopes=frozenset(Scope)), "a secret traceback"),
]
"""Who asks, and what they get of an error."""


def test_what_only_the_author_may_see_is_not_in_it(played: Store) -> None:
    season, ben = played.seasons.get("s1"), played.bots.get("ben").current
    (newest, _) = played.history.latest_of(season, ben.id, 0, limit_with_faults=2)
    seat = next(index for index, one in enumerate(newest.seats) if one.bot == "ben")
    played.logs.add(newest.seq, [SeatLog(seat, "anna v1", "a secret traceback", "a secret output")])
    assert "secret" not in json.dumps(to_json(bot_profile(played, "ben")))
    for reader, error in READERS:
        faults = bot_profile(played, "ben", reader=reader).faults
        assert [fault.error for fault in faults] == [error, None], reader

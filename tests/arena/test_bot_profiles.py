"""The profile of a bot: bounded, of all versions, and nothing that only its author may see."""

from __future__ import annotations

import json

import pytest

from deepsea_arena.documents import to_json
from deepsea_arena.reports.bots import NEWEST, bot_profile
from deepsea_arena.reports.standings import show_standings
from deepsea_ladder.errors import NotOnLadder
from deepsea_ladder.model.games import SeatLog
from deepsea_ladder.store import Store
from helpers import ladder


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
    newcomer = played.seasons.get("s1").season.rating.newcomer.conservative
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
    played.jobs.add(season, ladder.rotations(ladder.ids(played), 4))
    ladder.play_all(played, season)
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


def test_what_only_the_author_may_see_is_not_in_it(played: Store) -> None:
    (newest, _) = played.history.faulty(
        played.seasons.get("s1"), played.bots.get("ben").current.id, 2
    )[1]
    seat = next(index for index, one in enumerate(newest.seats) if one.version.bot == "ben")
    played.logs.add(newest.seq, [SeatLog(seat, "a secret traceback", "a secret output")])
    assert "secret" not in json.dumps(to_json(bot_profile(played, "ben")))
    errors = [fault.error for fault in bot_profile(played, "ben", errors=True).faults]
    assert errors == ["a secret traceback", None]


def test_what_there_is_not_is_refused(played: Store) -> None:
    with pytest.raises(NotOnLadder, match="there is no bot 'nobody'"):
        bot_profile(played, "nobody")
    with pytest.raises(NotOnLadder, match="ben has the versions 1 to 1, not 2"):
        bot_profile(played, "ben", version=2)
    with pytest.raises(NotOnLadder, match="there is no season 's9'"):
        bot_profile(played, "ben", season_name="s9")
    eve = ladder.submit(played, "eve")
    profile = bot_profile(played, "eve")
    assert (profile.course, profile.newest, profile.seats) == ((), (), ())
    assert profile.standing is not None
    assert eve.number == profile.version

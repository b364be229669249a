"""Beliefs of bots against what came: outcomes as the viewer tells them, each game once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deepsea_arena.coach.beliefs import HOME, SCORE, beliefs_of
from deepsea_arena.reports.frames import frames
from deepsea_rules.record import GameRecord
from helpers.commands import played, record_of


def game(salt: str, players: int = 3) -> GameRecord:
    return record_of(played("manual", players, salt))


@pytest.mark.parametrize("seat", [0, 1, 2])
def test_what_came_is_what_the_viewer_tells(seat: int) -> None:
    record = game("beliefs")
    drawn = frames(record, None)
    dives = [int(one["p"].rpartition("| d")[2].split()[0]) for one in drawn["frames"]]
    home = {
        dive["dive"]: next(one for one in dive["seats"] if one["seat"] == seat)["home"] is not None
        for dive in drawn["dives"]
    }
    noted = {n: {HOME: 0.7} for n, one in enumerate(record.decisions) if one.seat == seat}
    came = [home[dives[drawn["decisions"][number]["at"]]] for number in noted]
    (row,) = beliefs_of([(record, seat, noted)])
    assert (row.name, row.low, row.high) == (HOME, 0.6, 0.8)
    assert (row.times, row.games, row.error) == (len(noted), 1, None)
    assert row.believed == pytest.approx(0.7)
    assert row.came == pytest.approx(sum(came) / len(came))


def test_each_game_counts_once_and_other_numbers_do_not() -> None:
    winner, last = (replace(game("a"), placements=places) for places in ((1, 2, 2), (2, 1, 2)))
    first, *more = [n for n, one in enumerate(winner.decisions) if one.seat == 0]
    sure = {number: {SCORE: 1.0, "depth": 7.0} for number in (first, *more)}
    rows = beliefs_of([(winner, 0, sure), (last, 0, {first: {SCORE: 5.0}}), (last, 0, {})])
    (row,) = rows
    assert (row.name, row.times, row.games) == (SCORE, len(sure) + 1, 2)
    assert (row.believed, row.came) == (1.0, (1 + 0.25) / 2)
    assert row.error is not None
    assert row.error > 1


def test_without_such_numbers_there_is_nothing() -> None:
    assert beliefs_of([]) == ()
    assert beliefs_of([(game("a"), 0, {0: {"depth": 1.0}})]) == ()

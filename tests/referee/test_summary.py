"""The numbers of a match: what came in which order, the same sums and the same first faults."""

from __future__ import annotations

from dataclasses import replace

from deepsea_referee.bots.output import log_name
from deepsea_referee.results.summary import EXPLAINED
from helpers.results import FAULT, FORFEITED, VOID, decisions, empty, match


def test_each_bot_has_its_own_numbers_wherever_it_sat() -> None:
    first, second = match().summaries()
    assert (first.name, first.games, first.wins) == ("a", 2, 2)
    assert (first.mean_placement, first.mean_points) == (1.0, 8.5)
    assert (first.faults, first.forfeits) == (0, 0)
    assert (first.decisions, first.median_us, first.slowest_us) == (3, 20, 40)
    # A shared first place is a win for both.
    assert (second.name, second.games, second.wins) == ("b", 2, 1)
    assert (second.mean_placement, second.mean_points) == (1.5, 5.5)
    assert (second.faults, second.forfeits) == (1, 1)
    assert (second.decisions, second.median_us, second.slowest_us) == (2, 30, 90)


def test_without_a_game_there_are_no_means() -> None:
    it = empty()
    row = it.summaries()[0]
    assert (row.games, row.wins, row.decisions) == (0, 0, 0)
    assert (row.mean_placement, row.mean_points, row.median_us, row.slowest_us) == (None,) * 4
    assert it.first_game is None


def test_a_fault_is_explained_in_one_line() -> None:
    (line,) = match().fault_lines()
    assert line == (
        "b: timeout in game 1, seat B, decision 2, after 7 us: it had 5 us for the decision; "
        "forfeited"
    )


def test_who_was_not_there_was_not_asked_either() -> None:
    it = empty()
    absent = replace(FAULT, decision=1, us=0, when="absent")
    it.add(replace(FORFEITED, faults=(absent,)), decisions((0, 30), (1, 0), (0, 20)))
    row = it.summaries()[1]
    assert (row.decisions, row.faults, row.forfeits, row.median_us) == (0, 0, 1, None)


def test_the_first_game_is_that_with_the_lowest_number() -> None:
    assert match().games == 2
    assert match().first_game == FORFEITED


def test_faults_that_are_the_same_are_counted_wherever_they_come() -> None:
    it = empty()
    for number in (9, 3, 8, 1, 7, 2, 6, 4, 5):
        faults = tuple(replace(FAULT, decision=decision) for decision in (1, 2, 3))
        it.add(replace(FORFEITED, game=number, faults=faults), [])
    assert it.faults.count == 27
    assert it.summaries()[1].faults == 27
    (line,) = it.fault_lines()
    assert line == (
        "b: timeout ×27, first in game 1, seat B, decision 1, after 7 us: "
        "it had 5 us for the decision; forfeited 27 games"
    )


def test_of_many_void_games_the_first_ones_are_kept() -> None:
    it = empty()
    for number in range(100, 0, -1):
        it.add_void(replace(VOID, game=number))
    assert it.voids.count == 100
    assert [void.game for void in it.voids] == [*range(1, EXPLAINED + 1)]
    assert it.games == 0


def test_logs_of_several_workers_have_different_names() -> None:
    assert log_name(1, 2) == "bot-2-start-2.log"
    assert log_name(1, 2, 3) == "bot-2-worker-3-start-2.log"

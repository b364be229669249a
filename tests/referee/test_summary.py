"""The numbers of a match: what came in which order, the same sums and the same first faults."""

from __future__ import annotations

import statistics
from dataclasses import replace

import pytest

from deepsea_referee.bots.output import log_name
from deepsea_referee.summary import EXPLAINED, MOST_GROUPS, FaultGroups, LatencyHistogram
from deepsea_rules.faults import Fault
from helpers.games import rng
from helpers.results import FAULT, FORFEITED, SHARED, VOID, decisions, empty, match


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


def test_who_drowned_in_which_dive_is_counted_by_bot() -> None:
    it = empty()
    it.add(replace(SHARED, drowned=((2, 0), (0, 0), (1, 3))), [])  # bot b has the first seat
    it.add(replace(FORFEITED, drowned=((1, 4), (0, 1))), [])  # the sea was empty after two dives
    first, second = it.summaries()
    assert first.drowned == (1, 0, 1)
    assert second.drowned == (2, 1, 1)


def test_without_a_game_there_are_no_means() -> None:
    it = empty()
    row = it.summaries()[0]
    assert (row.games, row.wins, row.decisions, row.drowned) == (0, 0, 0, (0, 0, 0))
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


# Faults of one kind are counted together


RAISED = replace(
    FAULT,
    fault=Fault.EXCEPTION,
    came="it raised KeyError: 1",
    error='Traceback (most recent call last):\n  File "b.py", line 7, in f\nKeyError: 1',
    forfeit=False,
)


def test_exceptions_of_one_place_are_one_kind_and_the_first_of_the_lowest_game_is_shown() -> None:
    groups = FaultGroups()
    for game in (5, 2, 9):
        came = f"it raised KeyError: {game}"
        groups.add(game, 0, replace(RAISED, came=came, error=RAISED.error.replace("1", str(game))))
    (kind,) = groups
    assert kind.line("b") == (
        "b: exception ×3, first in game 2, seat B, decision 2, after 7 us: it raised KeyError: 2"
    )
    groups.add(1, 0, replace(RAISED, error=RAISED.error.replace("line 7", "line 8")))
    assert [one.game for one in groups] == [1, 2]


def test_bots_and_faults_are_told_apart() -> None:
    groups = FaultGroups()
    for bot, fault in ((0, Fault.CRASH), (1, Fault.CRASH), (0, Fault.TIMEOUT)):
        groups.add(1, bot, replace(FAULT, fault=fault))
    assert [kind.count for kind in groups] == [1, 1, 1]


def test_a_game_without_the_bot_is_no_fault_of_that_game() -> None:
    groups = FaultGroups()
    groups.add(1, 0, replace(FAULT, fault=Fault.CRASH, came="its stream ended"))
    why = "not started again after 3 restarts in a row"
    for game in range(2, 18):
        groups.add(game, 0, replace(FAULT, fault=Fault.CRASH, came=why, when="absent"))
    assert groups.count == 1
    line = [kind.line("b") for kind in groups][1]
    assert line == f"b: forfeited ×16, first in game 2, seat B: {why}"


def test_any_number_of_kinds_takes_bounded_memory() -> None:
    groups = FaultGroups()
    for number in range(3 * MOST_GROUPS):
        groups.add(1, 0, replace(FAULT, fault=Fault.CRASH, came=str(number)))
    assert groups.count == 3 * MOST_GROUPS
    assert len(list(groups)) == MOST_GROUPS + 1


# Times of decisions: a median that needs little room and is nearly exact


def times(*us: int) -> LatencyHistogram:
    it = LatencyHistogram()
    it.add(us)
    return it


def test_short_times_are_exact() -> None:
    it = times(*range(1, 1024), 1023)
    assert (it.count, it.quantile_us(50), it.slowest_us) == (1024, 512, 1023)
    assert times(7).quantile_us(50) == 7
    assert times(0, 0, 5).quantile_us(50) == 0
    # The lower one of two in the middle.
    assert times(900, 100).quantile_us(50) == 100


@pytest.mark.parametrize("us", [1_024, 1_025, 9_999, 100_000, 123_456_789, 86_400_000_000])
def test_long_times_are_nearly_exact_and_the_slowest_is_exact(us: int) -> None:
    it = times(us, us, us + 1_000_000)
    assert it.quantile_us(50) == pytest.approx(us, rel=0.001)
    assert it.slowest_us == us + 1_000_000
    assert times(us).quantile_us(50) == pytest.approx(us, rel=0.001)


def test_the_median_of_many_is_that_of_all_of_them() -> None:
    dice = rng("times")
    drawn = [dice.randrange(1 << dice.randrange(1, 30)) for _ in range(20_000)]
    it = LatencyHistogram()
    for start in range(0, len(drawn), 37):
        it.add(drawn[start : start + 37])
    assert it.count == len(drawn)
    assert it.quantile_us(50) == pytest.approx(statistics.median_low(drawn), rel=0.001)
    assert it.slowest_us == max(drawn)


def test_nothing_has_no_median() -> None:
    it = times()
    assert (it.count, it.quantile_us(50), it.slowest_us) == (0, None, None)


def test_buckets_are_few_whatever_comes() -> None:
    it = LatencyHistogram()
    for first in range(0, 100_000, 100):
        it.add(range(first, first + 100))
        it.add(us**3 for us in range(first // 100, first // 100 + 100))
    assert len(it._counts) < 16_000
    assert sum(count for _, count in it.counts()) == it.count == 200_000


def test_quantiles_and_counts() -> None:
    it = times(*range(1, 101))
    assert [it.quantile_us(p) for p in (1, 50, 90, 99, 100)] == [1, 50, 90, 99, 100]
    assert LatencyHistogram().quantile_us(99) is None
    assert times(5, 7, 5, 900).counts() == [(5, 2), (7, 1), (900, 1)]

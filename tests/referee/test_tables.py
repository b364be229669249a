"""Tables are chosen by the times of the bots, and give the games of one table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepsea_referee.bots.resolve import BotSpec
from deepsea_referee.match import GAMES, MOST, QUICK_US, MatchSettings, Tables, play_match
from deepsea_rules.faults import Fault
from deepsea_rules.randomness import commitment, game_seed, seed_from_text
from deepsea_rules.time_control import TimeControl
from deepsea_sdk.table import PlayedGame
from helpers.in_loop import run
from helpers.manual_clock import ManualClock
from helpers.matches import Listener, Played, without_times
from helpers.programs import PATIENT, chooser, lines_bot, opponent
from helpers.results import FAULT, record

CONTROL = TimeControl(60_000, 40_000)
LIMIT_US = 100_000
"""Budget and bank."""
RECORD = record()


def played(
    us: int = 1, *, slowest_us: int = 1, wall_us: int = LIMIT_US + 1, faults: Sequence[object] = ()
) -> PlayedGame:
    """A game in which every decision took `us`, but for one.

    wall_us  the longest time from a message with a request to the answer
    """
    times = [us] * (len(RECORD.decisions) - 1) + [max(us, slowest_us)]
    decisions = [one._replace(us=us) for one, us in zip(RECORD.decisions, times, strict=True)]
    return PlayedGame(
        replace(RECORD, decisions=tuple(decisions)),
        tuple(faults),  # type: ignore[arg-type]
        longest_us=wall_us,
    )


def chosen(games: int = 2000) -> Tables:
    return Tables(range(games), None, CONTROL)


def taken(tables: Tables) -> list[int]:
    """The games that begin now."""
    return [number for number, _ in iter(tables.next_game, None)]


def at_once() -> tuple[Tables, list[int]]:
    """Tables of bots that answered at once, and the games that are on."""
    tables = chosen()
    return tables, play_on(tables, taken(tables), played(), rounds=15)


def play_on(
    tables: Tables, on: Iterable[int], outcome: PlayedGame | None, rounds: int = 10
) -> list[int]:
    """Let all games that are on end so, and those that follow; returns those that are on then."""
    on = [*on]
    for _ in range(rounds):
        for number in on:
            tables.accept_or_repeat(number, outcome)
        for number in on:
            tables.leave(number)
        on = taken(tables)
    return on


def test_a_match_begins_with_one_table() -> None:
    assert taken(chosen()) == [0]


def test_tables_double_while_bots_answer_at_once() -> None:
    tables, seen = chosen(), []
    on = taken(tables)
    while len(on) < MOST:
        seen.append(len(on))
        on = play_on(tables, on, played(QUICK_US - 1), rounds=1)
    assert sorted(set(seen))[:4] == [1, 2, 4, 8]
    assert seen.count(1) == GAMES
    assert len(play_on(tables, on, played())) == MOST
    assert tables.most == MOST


@pytest.mark.parametrize("outcome", [played(QUICK_US), played(faults=[FAULT]), None])
def test_bots_that_think_or_are_at_fault_and_void_games_have_one_table(
    outcome: PlayedGame | None,
) -> None:
    tables = chosen()
    assert len(play_on(tables, taken(tables), outcome)) == 1
    assert tables.most == 1


def test_there_are_fewer_tables_again_when_bots_begin_to_think() -> None:
    tables = chosen()
    on = play_on(tables, taken(tables), played(), rounds=15)
    assert len(on) == MOST
    assert len(play_on(tables, on, played(QUICK_US), rounds=30)) == 1


def test_a_void_game_beside_others_is_played_again_alone_on_another_deal() -> None:
    tables, (first, *others) = at_once()
    assert not tables.accept_or_repeat(first, None)
    tables.leave(first)
    for number in others:
        assert tables.next_game() is None  # the others end first
        assert tables.accept_or_repeat(number, played())
        tables.leave(number)
    assert tables.next_game() == (first, 1)
    assert tables.next_game() is None
    assert tables.accept_or_repeat(first, None)
    tables.leave(first)
    assert len(play_on(tables, taken(tables), played(), rounds=15)) == MOST


def test_a_process_that_fails_beside_others_costs_one_game_and_the_next_are_one_by_one() -> None:
    tables, on = at_once()
    assert [tables.accept_or_repeat(number, played(faults=[FAULT])) for number in on] == [
        True,
        *[False] * (MOST - 1),
    ]
    for number in on:
        tables.leave(number)
    for number in on[1:]:
        assert tables.next_game() == (number, 1)
        assert tables.next_game() is None
        assert tables.accept_or_repeat(number, played(faults=[FAULT]))
        tables.leave(number)
    assert tables.next_game() == (max(on) + 1, 0)
    assert len(play_on(tables, [max(on) + 1], played(), rounds=30)) == 1


def test_each_bot_whose_process_fails_loses_a_game() -> None:
    tables, on = at_once()
    ours, theirs = FAULT, replace(FAULT, seat=0)
    faults = [[ours], [ours], [theirs, ours], [theirs], [ours]]
    games = [played(faults=one) for one in faults]
    counted = [tables.accept_or_repeat(*game) for game in zip(on, games, strict=False)]
    assert counted == [True, False, True, False, False]


@pytest.mark.parametrize("fault", Fault)
def test_a_fault_of_one_game_counts_in_each(fault: Fault) -> None:
    tables, (first, second, *_) = at_once()
    outcome = played(faults=[replace(FAULT, fault=fault)])
    assert tables.accept_or_repeat(first, outcome)
    of_one_game = fault in {Fault.EXCEPTION, Fault.ILLEGAL_ACTION}
    assert tables.accept_or_repeat(second, outcome) == of_one_game


def test_a_slow_decision_is_no_reason_to_play_a_game_again() -> None:
    tables, on = at_once()
    for number in on:
        assert tables.accept_or_repeat(number, played(slowest_us=LIMIT_US))
        tables.leave(number)
    assert taken(tables) == [max(on) + 1]


def test_games_are_one_by_one_once_a_decision_may_have_exceeded_the_limit_alone() -> None:
    def then(outcome: PlayedGame) -> int:
        tables, on = at_once()
        begun = play_on(tables, on[:1], outcome, rounds=1)
        most = len(play_on(tables, begun + on[1:], played(), rounds=20))
        assert len(begun) == (most > 1)
        return most

    assert then(played(slowest_us=LIMIT_US // MOST)) == MOST
    assert then(played(slowest_us=LIMIT_US, wall_us=LIMIT_US)) == MOST
    assert then(played(slowest_us=LIMIT_US // MOST + 1)) == 1


@settings(max_examples=15)
@given(st.data())
def test_a_game_counts_once_and_begins_twice_at_most_the_second_time_alone(
    data: st.DataObject,
) -> None:
    lost = played(faults=[FAULT])
    outcomes = {"quick": played(), "slow": played(slowest_us=LIMIT_US), "lost": lost, "void": None}
    tables, counted, failed = chosen(40), [], False
    on: dict[int, int] = {}
    while on := on | dict(iter(tables.next_game, None)):
        assert len(on) == 1 or not any(on.values())
        number = data.draw(st.sampled_from(sorted(on)))
        how = data.draw(st.sampled_from(sorted(outcomes)))
        attempt = on.pop(number)
        if tables.accept_or_repeat(number, outcomes[how]):
            counted.append(number)
        else:
            assert attempt == 0
            assert how == "void" or (how == "lost" and failed)
        failed |= how == "lost"
        tables.leave(number)
    assert sorted(counted) == [*range(40)]


def test_a_fixed_number_of_tables_stays() -> None:
    tables = Tables(range(9), 3, CONTROL)
    assert taken(tables) == [0, 1, 2]
    assert tables.accept_or_repeat(1, played(faults=[FAULT]))
    tables.leave(1)
    assert taken(tables) == [3]
    assert play_on(tables, [0, 2, 3], None, rounds=1) == [4, 5, 6]
    assert play_on(tables, [4, 5, 6], played(QUICK_US), rounds=1) == [7, 8]
    assert play_on(tables, [7, 8], played(), rounds=1) == []


def test_no_game_is_left_out_and_none_begins_twice() -> None:
    tables, begun = chosen(100), []
    on = taken(tables)
    while on:
        begun += on
        on = play_on(tables, on, played(), rounds=1)
    assert begun == [*range(100)]


# Real processes. Time stands still, so that they answer at once on any machine.


def match(bots: Sequence[BotSpec], games: int, tables: int | None) -> Played:
    listener = Listener()
    what = MatchSettings(
        bots=bots, hosting=PATIENT, games=games, seed=seed_from_text("tables"), tables=tables
    )
    playing = play_match(what, listener.on_game, listener.on_void, clock=ManualClock())
    return listener.played(run(playing))


@pytest.mark.release  # the next test has the same, and a crash besides
def test_chosen_tables_have_the_records_of_one_table(tmp_path: Path) -> None:
    bots = [chooser(tmp_path), chooser(tmp_path, "other")]
    chosen, one = match(bots, 12, None), match(bots, 12, 1)
    assert [*map(without_times, chosen.records)] == [*map(without_times, one.records)]
    assert chosen.games == one.games
    assert (chosen.result.tables, one.result.tables) == (4, 1)


def test_a_crash_costs_one_game_also_beside_others_and_no_deal_is_played_twice(
    tmp_path: Path,
) -> None:
    once, deals = tmp_path / "once", tmp_path / "deals"
    twelfth = commitment(game_seed(seed_from_text("tables"), 11, 0))
    when = f"commitment == {twelfth!r} and asked == 3 and not os.path.exists({str(once)!r})"
    bot = lines_bot(
        tmp_path,
        "crashes",
        f"if {when}: open({str(once)!r}, 'x'), os._exit(3)",
        start=f"print(commitment, file=open({str(deals)!r}, 'a'))",
        features=["concurrent_games"],
    )
    chosen = match([bot, chooser(tmp_path)], 15, None)
    one = match([bot, chooser(tmp_path)], 15, 1)
    assert chosen.result.tables > 1
    assert chosen.result.faults.count == 1
    assert {game.attempt for game in chosen.records} == {0, 1}
    for number, (game, alone) in enumerate(zip(chosen.records, one.records, strict=True)):
        assert game.seed == game_seed(seed_from_text("tables"), number, game.attempt)
        assert game.attempt or game.forfeits or without_times(game) == without_times(alone)
    begun = deals.read_text().split()[: -len(one.records)]
    assert len(begun) == len({*begun})
    assert {commitment(game.seed) for game in chosen.records} <= {*begun}


@pytest.mark.parametrize("tables", [None, pytest.param(4, marks=pytest.mark.release)])
def test_a_bot_that_does_not_declare_it_has_one_game_at_a_time(
    tmp_path: Path, tables: int | None
) -> None:
    assert match([opponent(tmp_path), chooser(tmp_path)], 6, tables).result.tables == 1
    both = [chooser(tmp_path), chooser(tmp_path, "other")]
    assert match(both, 6, tables).result.tables > 1

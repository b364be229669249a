"""Tables are chosen by the times of the bots, and give the games of one table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from deepsea_referee.bots.resolve import BotSpec, resolve
from deepsea_referee.match import MatchSettings, play_match
from deepsea_referee.tables import FEWEST, GAMES, MOST, QUICK_US, Tables
from deepsea_rules.randomness import seed_from_text
from deepsea_sdk.refereed_game import PlayedGame
from helpers.in_loop import run
from helpers.manual_clock import ManualClock
from helpers.matches import Listener, Played, without_times
from helpers.programs import PATIENT, program
from helpers.results import FAULT, record

BUDGET_US = 100_000
RECORD = record()


def played(
    us: int = 1,
    *,
    slowest_us: int = 1,
    wall_us: int = BUDGET_US + 1,
    faults: Sequence[object] = (),
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
    return Tables(range(games), None, BUDGET_US)


def taken(tables: Tables) -> list[int]:
    """The games that begin now."""
    return [*iter(tables.take, None)]


def play_on(
    tables: Tables, on: Iterable[int], outcome: PlayedGame | None, rounds: int = 10
) -> list[int]:
    """Let all games that are on end so, and those that follow; returns those that are on then."""
    on = [*on]
    for _ in range(rounds):
        for number in on:
            tables.counts(number, outcome)
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


@pytest.mark.parametrize(
    "outcome", [played(faults=[FAULT]), played(slowest_us=BUDGET_US // MOST + 1), None]
)
def test_a_game_beside_others_that_may_differ_is_played_again_alone(
    outcome: PlayedGame | None,
) -> None:
    tables = chosen()
    first, *others = play_on(tables, taken(tables), played(), rounds=15)
    assert not tables.counts(first, outcome)
    tables.leave(first)
    for number in others:
        assert taken(tables) == []  # the others end first
        assert tables.counts(number, played())
        tables.leave(number)
    assert taken(tables) == [first]
    assert tables.counts(first, outcome)
    tables.leave(first)
    assert first not in taken(tables)


def test_games_that_come_again_are_alone_however_quick_the_rest_is() -> None:
    tables = chosen()
    on = play_on(tables, taken(tables), played(), rounds=15)
    for number in on:
        assert not tables.counts(number, None)
    for number in on:
        tables.leave(number)
    for number in on:
        assert taken(tables) == [number]
        assert tables.counts(number, played())
        tables.leave(number)


def test_a_long_decision_within_its_share_of_the_budget_counts() -> None:
    tables = chosen()
    first, *_ = play_on(tables, taken(tables), played(), rounds=15)
    assert tables.counts(first, played(slowest_us=BUDGET_US // MOST))


def test_a_game_counts_if_its_longest_message_was_within_the_budget() -> None:
    tables = chosen()
    first, *_ = play_on(tables, taken(tables), played(), rounds=15)
    assert tables.counts(first, played(slowest_us=BUDGET_US, wall_us=BUDGET_US))


def test_there_are_fewer_tables_after_games_that_are_played_again() -> None:
    tables = chosen()
    on = play_on(tables, taken(tables), played(), rounds=15)
    seen = [len(on)]
    while seen[-1] > FEWEST:
        on = play_on(tables, on, None, rounds=1)
        on = play_on(tables, on, played(), rounds=seen[-1] + 15)
        seen.append(len(on))
    assert seen == [64, 32, 16, 8]
    on = play_on(tables, play_on(tables, on, None, rounds=1), played(), rounds=30)
    assert len(on) == FEWEST


def test_a_fixed_number_of_tables_stays() -> None:
    tables = Tables(range(9), 3, BUDGET_US)
    assert taken(tables) == [0, 1, 2]
    assert tables.counts(1, played(faults=[FAULT]))
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


def same_games(bots: Sequence[BotSpec], games: int) -> tuple[Played, Played]:
    """A match with chosen tables and one with one table, which have the same games."""
    chosen, one = match(bots, games, None), match(bots, games, 1)
    assert [*map(without_times, chosen.records)] == [*map(without_times, one.records)]
    assert chosen.games == one.games
    assert chosen.result.fault_lines() == one.result.fault_lines()
    return chosen, one


def test_chosen_tables_have_the_records_of_one_table() -> None:
    chosen, one = same_games([resolve("greedy"), resolve("random")], 32)
    assert chosen.result.tables == 16
    assert one.result.tables == 1


def test_a_crash_costs_one_game_also_beside_others(tmp_path: Path) -> None:
    crash = "if self.game == '0012' and self.asked == 3: os._exit(3)"
    bot = declared(program(tmp_path, "crashes", crash))
    chosen, _ = same_games([bot, resolve("random")], 18)
    assert chosen.result.tables > 1
    assert [fault.game for fault in chosen.result.faults] == [12]


@pytest.mark.parametrize("tables", [None, pytest.param(4, marks=pytest.mark.release)])
def test_a_bot_that_does_not_declare_it_has_one_game_at_a_time(
    tmp_path: Path, tables: int | None
) -> None:
    bot = program(tmp_path, "remembers", "Tester.asked += 1; self.asked = Tester.asked")
    result = match([bot, resolve("random")], 6, tables).result
    assert result.tables == 1
    assert match([declared(bot), resolve("random")], 6, tables).result.tables > 1


def declared(bot: BotSpec) -> BotSpec:
    """The bot, whose games may run at once, and which knows the number of its game."""
    file = Path(bot.command[1])
    head, body = file.read_text(encoding="utf-8").split("    asked = 0\n", 1)
    body = body.replace("Tester.games += 1", "self.game = info.game_id[-4:]")
    file.write_text(f"{head}    asked = 0\n    concurrent_games = True\n{body}", encoding="utf-8")
    return resolve(str(file))

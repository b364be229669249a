"""Blocks: the same luck for both bots, in the same seats, handed on in order."""

from __future__ import annotations

import os
import signal
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from deepsea_referee.bots.resolve import BotSpec, resolve
from deepsea_referee.errors import UserError
from deepsea_referee.match import OnGame, OnVoid
from deepsea_referee.shared_match import run_match_with_workers
from deepsea_referee.summary import GameResult, MatchResult, VoidGame
from deepsea_referee.workbench.blocks import (
    BlockSettings,
    CompareGames,
    PlayedBlock,
    StoredBlock,
    _BlockCollector,
    _EndOfBlocks,
    block_line,
    play_blocks,
    read_block,
    seated,
)
from deepsea_rules.game import GameRecord
from deepsea_rules.randomness import game_seed, seed_from_text
from deepsea_rules.time_control import TimeControl
from helpers.commands import played, record_of
from helpers.programs import PATIENT, program_in, workers
from helpers.tiers import daily

SEED = seed_from_text("blocks")
Blocks = list[tuple[int, list[GameResult]]]


def spec(name: str) -> BotSpec:
    return BotSpec(name, ("true",), None, "")


def settings(a: str, b: str, seats: int, blocks: int) -> BlockSettings:
    minute = TimeControl.parse("60s")
    return BlockSettings.of(
        resolve(a),
        resolve(b),
        seats=seats,
        blocks=blocks,
        hosting=PATIENT,
        time_control=minute,
        seed=SEED,
    )


@pytest.mark.parametrize("seats", range(2, 7))
def test_without_a_field_the_two_share_the_seats(seats: int) -> None:
    a, b = spec("a"), spec("b")
    bots, line_ups, ours, theirs = seated(a, b, [], seats)
    names = ["".join(bots[bot].name for bot in line_up) for line_up in line_ups]
    assert names == [("ab" * 3)[:seats], ("ba" * 3)[:seats]]
    assert {bots[bot].name for bot in ours} == {"a"}
    assert {bots[bot].name for bot in theirs} == {"b"}
    for line_up in line_ups:
        assert len(set(line_up)) == seats  # a process sits in one seat only


@pytest.mark.parametrize(("field", "seats"), [("c", 3), ("cd", 4), ("c", 5), ("cd", 6)])
def test_with_a_field_all_rotate_and_the_two_swap(field: str, seats: int) -> None:
    bots, line_ups, ours, theirs = seated(spec("a"), spec("b"), [*map(spec, field)], seats)
    assert len(set(line_ups)) == len(line_ups) == 2 * seats
    assert (ours, theirs) == ((0,), (1,))
    for bot in range(seats):
        assert Counter(line_up.index(bot) for line_up in line_ups) == dict.fromkeys(range(seats), 2)
    swapped = {tuple({0: 1, 1: 0}.get(bot, bot) for bot in line_up) for line_up in line_ups}
    assert swapped == set(line_ups)
    assert [bot.name for bot in bots[2:]] == list((field * 3)[: seats - 2])


@pytest.mark.parametrize(
    ("field", "seats", "problem"),
    [("", 1, "2 to 6"), ("", 7, "2 to 6"), ("cde", 4, "room for a field of 2"), ("c", 2, "room")],
)
def test_line_ups_that_cannot_be(field: str, seats: int, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        seated(spec("a"), spec("b"), [*map(spec, field)], seats)


def test_games_of_a_block_share_their_seed_and_workers_share_the_games() -> None:
    whole = settings("greedy", "cautious", 2, 5)
    assert [*whole.numbers()] == [*range(10)]
    assert [whole.game_seed(n) for n in range(10)] == [game_seed(SEED, n // 2) for n in range(10)]
    # So a worker needs no second set of processes: it has the same game of each block.
    assert [whole.worker_of(n, 2) for n in range(10)] == [0, 1] * 5
    # In games of three, the two bots have one and two seats: each worker has games of both kinds.
    uneven = settings("greedy", "cautious", 3, 5)
    assert [uneven.worker_of(n, 2) for n in range(10)] == [0, 0, 1, 1, 0, 0, 1, 1, 0, 0]
    rest = replace(whole, part=(2, 7))
    assert ([*rest.numbers()], rest.blocks) == ([2, 7], [1, 3])


def test_the_record_names_the_attempt_of_its_block() -> None:
    records: list[GameRecord] = []
    what = replace(settings("greedy", "cautious", 2, 2), attempt=2)
    run_match_with_workers(what, on_game=lambda _, record: records.append(record), in_process=True)
    assert [record.attempt for record in records] == [2] * 4
    assert [record.seed for record in records] == [game_seed(SEED, n // 2, 2) for n in range(4)]


def collected(
    what: BlockSettings, enough: int, workers: int = 1, in_process: bool = True
) -> tuple[bool, Blocks]:
    found: Blocks = []

    def on_block(number: int, games: PlayedBlock) -> bool:
        found.append((number, [result for result, _ in games]))
        return len(found) == enough

    return play_blocks(what, on_block, workers=workers, in_process=in_process), found


@pytest.mark.parametrize(
    ("workers", "in_process"), daily([(2, True), (1, False), (2, False)], [(2, True)])
)
def test_the_same_blocks_come_in_the_same_order_however_they_are_played(
    workers: int, in_process: bool
) -> None:
    # Two of each bot sit in a game of three: that is twice as many processes.
    what = settings("greedy", "random", 3 if in_process else 2, 5)
    expected = collected(what, 3)
    assert [number for number, _ in expected[1]] == [0, 1, 2]
    assert collected(what, 3, workers, in_process) == expected


@pytest.mark.parametrize(
    ("workers", "in_process"), daily(product((1, 2), (True, False)), [(1, True)])
)
def test_blocks_that_were_played_earlier_are_left_out(workers: int, in_process: bool) -> None:
    what = settings("greedy", "random", 2, 5)
    expected = collected(what, 99)[1][2:]
    rest = replace(what, done=2)
    assert collected(rest, 99, workers, in_process) == (False, expected)


def test_all_blocks_are_played_if_none_is_enough() -> None:
    what = settings("greedy", "cautious", 2, 2)
    assert [number for number, _ in collected(what, 99)[1]] == [0, 1]


# tests/referee/test_shared_match.py has another that cannot be started.
@pytest.mark.release
def test_a_bot_that_cannot_be_imported_is_told_before_anything_is_played(tmp_path: Path) -> None:
    bad = program_in(tmp_path, "bad", first="1 / 0")
    what = settings(str(bad), "greedy", 2, 2)
    with pytest.raises(UserError, match="ZeroDivisionError"):
        collected(what, 9, workers=2)


# With processes tests/referee/test_shared_match.py interrupts a match.
@pytest.mark.parametrize("in_process", daily([True, False], [True]))
def test_an_interrupt_is_told(in_process: bool) -> None:
    what = settings("greedy", "cautious", 2, 50)

    def on_block(_number: int, _games: PlayedBlock) -> bool:
        signal.raise_signal(signal.SIGINT)
        return False

    assert play_blocks(what, on_block, in_process=in_process)


def game(number: int) -> tuple[GameResult, GameRecord]:
    result = GameResult(number + 1, "g", (0, 1), (1, 0), (1, 2), (), ())
    return result, record_of(played())


def test_blocks_wait_for_those_before_them_and_void_ones_are_left_out() -> None:
    came: list[int] = []

    def on_block(number: int, games: PlayedBlock) -> bool:
        assert sorted(result.game for result, _ in games) == [2 * number + 1, 2 * number + 2]
        came.append(number)
        return number == 4

    in_order = _BlockCollector(range(6), 2, lambda game: game // 2, on_block)
    for number in (2, 3, 0):
        in_order.add(*game(number))
    assert came == []
    in_order.add(*game(1))
    assert came == [0, 1]
    in_order.leave_out(VoidGame(8, "g", "why"))
    in_order.add(*game(6))
    in_order.add(*game(8))
    in_order.add(*game(5))
    assert came == [0, 1]
    in_order.add(*game(4))
    assert came == [0, 1, 2]
    with pytest.raises(_EndOfBlocks):
        in_order.add(*game(9))
    assert came == [0, 1, 2, 4]
    assert in_order.void == [3]


def test_a_block_with_a_void_game_is_played_again_whole_on_new_luck() -> None:
    what = settings("greedy", "random", 2, 4)
    attempts: list[tuple[int, list[int], bytes]] = []
    found: list[int] = []

    def play(
        share: BlockSettings, _workers: int, on_game: OnGame, on_void: OnVoid, **_: bool
    ) -> MatchResult:
        numbers = [*share.numbers()]
        attempts.append((share.attempt, numbers, share.game_seed(3)))
        for number in numbers:
            # The second game of block 1 is void twice, the first of block 3 always.
            if number == 6 or (number == 3 and share.attempt < 2):
                on_void(VoidGame(number + 1, "g", "why", seat=1))
            else:
                on_game(*game(number))
        return share.result("process")

    def on_block(number: int, _games: PlayedBlock) -> bool:
        found.append(number)
        return False

    assert not play_blocks(what, on_block, play=play)
    assert attempts == [
        (0, [0, 1, 2, 3, 4, 5, 6, 7], game_seed(SEED, 1)),
        (1, [2, 3, 6, 7], game_seed(SEED, 1, 1)),
        (2, [2, 3, 6, 7], game_seed(SEED, 1, 2)),
    ]
    assert found == [0, 2, 1]


def test_a_worker_that_is_killed_changes_nothing() -> None:
    what = settings("greedy", "random", 2, 12)
    expected = collected(what, 99)
    found: Blocks = []

    def on_block(number: int, games: PlayedBlock) -> bool:
        found.append((number, [result for result, _ in games]))
        if number == 2:
            os.kill(workers()[0], signal.SIGKILL)
        return False

    assert not play_blocks(what, on_block, workers=2, in_process=True)
    assert (False, found) == expected


def kept_block(number: int, games: list[tuple[int, tuple[int, ...]]]) -> StoredBlock:
    """A block of such games, each with its number and its bots, as a folder has it."""
    forms = [
        GameResult(game, "g", seats, (9,) * len(seats), (1,) * len(seats), (), ())
        for game, seats in games
    ]
    return read_block(block_line(number, forms, {}))


@pytest.mark.parametrize(
    ("number", "games"),
    [
        (0, []),
        (0, [(1, (0, 1))]),
        (0, [(1, (0, 1)), (2, (0, 1))]),
        (0, [(1, (0, 1)), (2, (1, 9))]),
        (0, [(1, (0, 1)), (3, (1, 0))]),
        (1, [(1, (0, 1)), (2, (1, 0))]),
    ],
)
def test_a_kept_block_with_other_games_is_refused(
    number: int, games: list[tuple[int, tuple[int, ...]]]
) -> None:
    asked = settings("random", "random", 2, 9)
    CompareGames(asked, [kept_block(0, [(1, (0, 1)), (2, (1, 0))])])
    with pytest.raises(UserError, match=f"block {number} of the folder is damaged"):
        CompareGames(asked, [kept_block(number, games)])

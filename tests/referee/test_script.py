"""Matches and comparisons from a script: the same as the commands, with results as objects."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

import deepsea_referee
from deepsea_referee import (
    Comparison,
    GameResult,
    MatchResult,
    UserError,
    run_comparison,
    run_match,
)
from deepsea_rules.errors import RulesError
from deepsea_rules.game import GameRecord, verify
from helpers.tiers import daily


# Processes play in each other module of this folder.
@pytest.mark.parametrize("in_process", daily([True, False], [True]))
def test_a_match_is_played_and_every_game_is_handed_over(in_process: bool) -> None:
    records: list[GameRecord] = []
    result = run_match(
        ["random", "random"],
        games=2,
        rules="guide",
        clock="60s",
        seed="script",
        isolation="process",
        in_process=in_process,
        on_game=lambda _, record: records.append(record),
    )
    assert [(bot.name, bot.games) for bot in result.summaries()] == [("random", 2), ("random 2", 2)]
    assert [record.rules.name for record in records] == ["guide", "guide"]
    for record in records:
        verify(record)


def mean_points(in_process: bool) -> float | None:
    result = run_match(
        ["greedy", "random"],
        seed="place",
        clock="60s",
        isolation="process",
        in_process=in_process,
    )
    return result.summaries()[0].mean_points


def blocks(in_process: bool) -> int:
    return run_comparison(
        "greedy",
        "random",
        blocks=1,
        seed="place",
        clock="60s",
        isolation="process",
        in_process=in_process,
    ).blocks


async def in_a_loop(play: Callable[[bool], object], in_process: bool) -> object:
    return play(in_process)


@pytest.mark.parametrize("in_process", daily([True, False], [True, False]))
@pytest.mark.parametrize("play", [mean_points, blocks])
def test_a_match_and_a_comparison_play_in_a_loop_in_a_thread_and_in_a_pool(
    play: Callable[[bool], object], in_process: bool
) -> None:
    in_loop = asyncio.run(in_a_loop(play, in_process))
    assert asyncio.run(asyncio.to_thread(play, in_process)) == in_loop
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        assert pool.submit(play, in_process).result() == in_loop
    if not in_process:
        with (
            ProcessPoolExecutor(1, get_context("fork")) as pool,
            pytest.raises(UserError, match=r"get_context\('spawn'\)"),
        ):
            pool.submit(play, in_process).result()
    assert play(in_process) == in_loop


@pytest.mark.parametrize("in_process", [True, False])
def test_ctrl_c_ends_a_match_in_a_running_loop_early(in_process: bool) -> None:
    played: list[GameResult] = []

    def on_game(result: GameResult, record: GameRecord) -> None:
        played.append(result)
        os.kill(os.getpid(), signal.SIGINT)

    async def cell() -> MatchResult:
        return run_match(
            ["random", "random"],
            games=500,
            clock="60s",
            isolation="process",
            in_process=in_process,
            on_game=on_game,
        )

    before = signal.getsignal(signal.SIGINT)
    result = asyncio.run(cell())
    assert result.interrupted
    assert 1 <= len(played) < 500
    assert signal.getsignal(signal.SIGINT) == before


def test_without_a_seed_every_match_is_another() -> None:
    seeds = {run_match(["random", "random"], in_process=True).seed for _ in range(2)}
    assert len(seeds) == 2


def test_a_comparison_ends_with_its_verdict() -> None:
    standings: list[int] = []

    def on_block(comparison: Comparison) -> None:
        standings.append(comparison.blocks)

    comparison = run_comparison(
        "greedy",
        "random",
        until_decided=True,
        seed="script",
        clock="60s",
        in_process=True,
        on_block=on_block,
    )
    assert comparison.verdict == "A"
    assert standings == list(range(1, comparison.blocks + 1))
    assert comparison.blocks < 200


def test_results_are_shown_in_one_line_and_in_a_notebook_as_tables() -> None:
    match = run_match(["greedy", "random"], games=2, seed="shown", in_process=True)
    first, second = match.ranked()
    assert repr(match) == (
        f"<MatchResult, 2 of 2 games, manual rules: {first.name} {first.wins} won, "
        f"{second.name} {second.wins} won>"
    )
    drowned = ", ".join(map(str, first.drowned))
    placement, points = f"{first.mean_placement:.2f}", f"{first.mean_points:.1f}"
    cells = (first.name, 2, first.wins, placement, points, drowned, 0)
    assert "".join(f"<td>{cell}</td>" for cell in cells) in match._repr_html_()
    it = run_comparison(
        "greedy", "random", blocks=4, seed="shown", in_process=True, luck_adjusted=True
    )
    low, high = it.deciding.interval
    assert repr(it) == (
        f"<Comparison, 4 blocks, undecided: A leads B by {it.deciding.mean:+.3f} in "
        f"{low:+.3f} to {high:+.3f}>"
    )
    table = it._repr_html_()
    for what in ("placement score", "without luck", "points"):
        assert f"<tr><td>{what}</td>" in table
    assert f"<td>{it.points.mean:+.1f}</td>" in table


def test_what_cannot_be_played_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no bot"):
        run_match([str(tmp_path / "none.py"), "random"])
    with pytest.raises(RulesError, match="no preset"):
        run_match(["random", "random"], rules="chess")
    with pytest.raises(RulesError, match="clock"):
        run_comparison("random", "random", clock="soon")


def test_every_name_offered_is_there_and_no_other() -> None:
    assert all(getattr(deepsea_referee, name) for name in deepsea_referee.__all__)
    with pytest.raises(AttributeError, match="nonsense"):
        _ = deepsea_referee.nonsense

"""Matches and comparisons from a script: the same as the commands, with results as objects."""

from __future__ import annotations

from pathlib import Path

import pytest

import deepsea_referee
from deepsea_referee import Comparison, UserError, run_comparison, run_match
from deepsea_rules.errors import RulesError
from deepsea_rules.record import GameRecord, verify
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

"""Plays blocks of a comparison of two versions in a worker process.

Invariants: bots play as in rated games: from the files that were submitted, with the season's
isolation, limits, rules and clock; nothing here knows the store; a block is sent as it is counted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple

from deepsea_arena.play.rated_games import bot_of, hosting, own_folder
from deepsea_bundle.bot_cache import BotCache
from deepsea_ladder.model import ComparisonLease, ComparisonStanding, Verdict
from deepsea_referee.bots.process import Hosting
from deepsea_referee.bots.resolve import BotSpec
from deepsea_referee.system import SYSTEM
from deepsea_referee.workbench.blocks import BlockSettings, CompareGames, PlayedBlock
from deepsea_referee.workbench.folder import block_line, read_block
from deepsea_referee.workers import Link, Perform
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.time_control import TimeControl

_VERDICTS: Final[dict[str | None, Verdict | None]] = {
    "A": "better",
    "B": "worse",
    "same": "level",
    None: None,
}


class BlockPlayed(NamedTuple):
    """The message that another block was counted."""

    number: int
    content: bytes
    """The block, as JSON."""
    cpu_ms: int
    """The cost: the referee's CPU time, and the time that bots had for their decisions."""
    standing: ComparisonStanding
    """After it."""


@contextmanager
def comparison_worker(link: Link) -> Iterator[Perform]:
    """Set up a worker that plays blocks with what others leave of the CPU."""
    SYSTEM.give_way()
    with own_folder() as folder:
        folders = BotCache(folder, link.file)

        def perform(lease: ComparisonLease) -> None:
            if folders.has_lost(version.digest for version in lease.versions):
                link.leave()
            season = lease.season
            mine, other = (bot_of(version, folders) for version in lease.versions)
            play_on(lease, (mine, other), hosting(season.isolation, season.limits), link.send)

        yield perform


def play_on(
    lease: ComparisonLease,
    pair: tuple[BotSpec, BotSpec],
    where: Hosting,
    send: Callable[[BlockPlayed], object],
    *,
    in_process: bool = False,
) -> None:
    """Play blocks until there is a verdict, or what the lease may use is used."""
    season, chosen = lease.season, lease.season.verdicts
    settings = BlockSettings.of(
        *pair,
        seats=chosen.seats or max(season.seats),
        blocks=chosen.blocks,
        hosting=where,
        rules=season.rules,
        time_control=TimeControl.parse(season.clock),
        seed=seed_from_text(lease.seed),
        seed_text=lease.seed,
        margin=chosen.margin,
        until_decided=True,
        luck_adjusted=True,
    )
    used, since = 0, _cpu_seconds()

    def keep(number: int, played: PlayedBlock, notes: Mapping[str, Any]) -> None:
        nonlocal used, since
        bots_us = sum(decision.us for _, record in played for decision in record.decisions)
        cpu_ms = round(1000 * (_cpu_seconds() - since) + bots_us / 1000)
        used, since = used + cpu_ms, _cpu_seconds()
        # Without tracebacks, which are long and their author's alone.
        results = [
            replace(result, faults=tuple(replace(fault, error="") for fault in result.faults))
            for result, _ in played
        ]
        content = block_line(number, results, notes)
        send(BlockPlayed(number, content, cpu_ms, standing_of(games)))

    games = CompareGames(settings, map(read_block, lease.kept), keep)
    games.play(lambda _: used >= lease.cpu_ms, in_process=in_process)


def _cpu_seconds() -> float:
    """The CPU time of this process."""
    return sum(os.times()[:2])


def standing_of(played: CompareGames) -> ComparisonStanding:
    """The figures of a comparison as they are shown."""
    comparison = played.comparison
    low, high = comparison.deciding.interval
    needed = comparison.blocks_needed
    return ComparisonStanding(
        blocks=comparison.blocks,
        lead=comparison.deciding.mean,
        low=low,
        high=high,
        margin=played.settings.margin,
        verdict=_VERDICTS[comparison.verdict],
        blocks_to_go=None if needed is None else needed - comparison.blocks,
        faults=comparison.faults[0].total(),
    )

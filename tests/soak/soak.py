"""A thousand games between honest and hostile bots, with an eye on what stays behind.

    PYTHONPATH=tests python -m soak.soak [--games 1000]

The third bot is another one every few games; most of them attack, each in its sandbox. Whatever it
does, the honest bots decide and score as in a game in which it plays default actions, all faults
are its own, every record re-runs, and memory and descriptors of the referee stay flat.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from attacks.harness import Arena
from attacks.matches import LIMITS, RULES, Defaults, hostile, resident_bytes
from deepsea_bots.cautious import Cautious
from deepsea_bots.greedy import Greedy
from deepsea_referee.bots.process import Hosting
from deepsea_referee.bots.resolve import resolve
from deepsea_referee.match import MatchSettings, play_match
from deepsea_referee.sandbox import probe
from deepsea_referee.sandbox.bubblewrap import Sandbox
from deepsea_referee.sandbox.interface import MIB
from deepsea_referee.summary import GameResult
from deepsea_rules.game import GameRecord, verify
from deepsea_rules.randomness import game_seed, seed_from_text
from deepsea_rules.time_control import TimeControl
from deepsea_sdk.table import play
from helpers.programs import open_descriptors

HOSTILE = 2
"""The third bot of the line-up; seats rotate."""
CONTROL = TimeControl(200_000, 1_000_000)
RETAINED_BYTES = 48 * MIB
PROGRAMS = (
    "p00_no_attack",
    "p04_uninvited stale",
    "p08_actions words",
    "p00_no_attack",
    "p09_malformed truncated",
    "p10_large large later",
    "p02_second beside",
    "p16_flood",
    "p18_endings kill",
    "p00_no_attack",
    "p18_endings reset_within_message",
    "p15_streams",
    "t01_time late",
    "p02_second after",
    "p21_frames rapid_reset",
    "p18_endings exit",
)


@dataclass(slots=True)
class Soak:
    """What has been seen so far."""

    games: int = 0
    voids: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    memory: list[int] = field(default_factory=list)
    """Of this process, after each change of bots, in bytes."""
    descriptors: list[int] = field(default_factory=list)

    def line(self) -> str:
        """How it stands."""
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.faults.items()))
        return (
            f"{self.games} games, {self.voids} void, memory {self.memory[-1] // MIB} MiB, "
            f"{self.descriptors[-1]} descriptors, faults of the hostile bots: {kinds or 'none'}"
        )


def soak(
    games: int, folder: Path, say: Callable[[str], object], each: int = 10, reported: int = 100
) -> Soak:
    """Play so many games; AssertionError if an honest bot or the referee was touched.

    each      the number of games with the same bots
    reported  the number of games between two reports
    """
    seen = Soak()
    arena = Arena(Sandbox(), folder)
    reports = 0
    for round_number in range(-(-games // each)):
        count = min(each, games - seen.games - seen.voids)
        _round(seen, arena, round_number, count)
        gc.collect()
        seen.memory.append(resident_bytes())
        seen.descriptors.append(len(open_descriptors()))
        if (seen.games + seen.voids) // reported > reports:
            reports = (seen.games + seen.voids) // reported
            say(seen.line())
    _is_flat(seen)
    return seen


def _round(seen: Soak, arena: Arena, number: int, count: int) -> None:
    program, *arguments = PROGRAMS[number % len(PROGRAMS)].split()
    seed = seed_from_text(f"soak {number}")
    settings = MatchSettings(
        bots=[resolve("greedy"), resolve("cautious"), hostile(arena, program, *arguments)],
        hosting=Hosting(arena.sandbox, LIMITS, start_limit_us=60_000_000),
        games=count,
        rules=RULES,
        time_control=CONTROL,
        seed=seed,
    )

    def on_game(result: GameResult, record: GameRecord) -> None:
        verify(record)
        _is_untouched(result, record, game_seed(seed, result.game - 1))
        seen.faults.update(str(report.fault) for report in result.faults)

    result = asyncio.run(play_match(settings, on_game))
    seen.games += result.games
    seen.voids += result.voids.count


def _is_untouched(result: GameResult, record: GameRecord, seed: bytes) -> None:
    """Compare with the game as it goes when the hostile bot plays default actions."""
    bots = [(Greedy, Cautious, Defaults)[bot] for bot in result.seats]
    expected = play(bots, RULES, seed)
    seat = result.seats.index(HOSTILE)
    assert {report.seat for report in result.faults} <= {seat}, result.faults
    others = [(one.seat, one.action) for one in record.decisions if one.seat != seat]
    assert others == [(one.seat, one.action) for one in expected.decisions if one.seat != seat]
    assert result.points == expected.result().points


def _is_flat(seen: Soak) -> None:
    """Memory and descriptors end where they were after every kind of bot was there once."""
    settled = min(len(PROGRAMS), len(seen.memory)) - 1
    assert max(seen.memory[settled:]) - seen.memory[settled] < RETAINED_BYTES, seen.memory
    assert seen.descriptors[-1] <= max(seen.descriptors[: settled + 1]), seen.descriptors


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Soak the referee in honest and hostile bots.")
    parser.add_argument("--games", type=int, default=1000)
    games = parser.parse_args().games
    if trouble := probe.sandbox_trouble():
        sys.exit(f"no sandbox here: {trouble.name}: {trouble.found}. {trouble.remedy}")
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        seen = soak(games, Path(folder), lambda line: sys.stderr.write(line + "\n"))
    figures = {
        "games": seen.games,
        "void": seen.voids,
        "faults": dict(seen.faults),
        "memory_first_mib": seen.memory[0] // MIB,
        "memory_last_mib": seen.memory[-1] // MIB,
        "descriptors_first": seen.descriptors[0],
        "descriptors_last": seen.descriptors[-1],
    }
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()

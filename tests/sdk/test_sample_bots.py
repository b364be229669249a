"""The sample bots: they play everything without a fault, the same way each time, in any process."""

from __future__ import annotations

import asyncio
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import deepsea_bots
from deepsea_bots.cautious import Cautious
from deepsea_bots.diver import Searcher
from deepsea_bots.greedy import Greedy
from deepsea_bots.heuristic import Heuristic
from deepsea_bots.pearl import Pearl
from deepsea_bots.random_bot import Random
from deepsea_bots.steady import Steady
from deepsea_rules.game import Decision, Game
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import PRESETS
from deepsea_sdk import Bot, Clock, GameInfo, View
from deepsea_sdk.table import play
from helpers.in_loop import run
from helpers.positions import ALL, view_at
from helpers.scripted import Ended, Peer, play_with, play_with_itself, without_referee
from helpers.tiers import daily

SAMPLES: dict[str, type[Bot]] = {
    "cautious": Cautious,
    "greedy": Greedy,
    "heuristic": Heuristic,
    "pearl": Pearl,
    "random_bot": Random,
    "steady": Steady,
}
"""The bots that decide by the game alone, however long they have."""
DECISIONS = {
    "cautious": "aeaeda002cf0fbb5411599ef0ace2a2a7dedf01cee29f6e1dddbbe169965fd10",
    "greedy": "b6bc3e27b62ff9434f58d27b100ec23b25fe92d3e89dc80b76e5dbf0439117d6",
    "heuristic": "c01c8b81df8aa78c329006d95b2fe651dbd16fb88beb06c04be8b5799a793ac6",
    "pearl": "d3f2b7cf2a72c199f5ffffaacd51a8e07e4a4c5f631ad71413f29e8d532f3647",
    "random_bot": "c5720ab4497a94e4f8db5276bf98d5a182f858a18a5646719793bab57078e659",
    "steady": "2f54b29d486731560e8604235400c96160767b6a4a4c52742ccf1adfe80f8aec",
}
"""SHA-256 of what they decide in fifteen games."""
FOLDER = Path(deepsea_bots.__file__).parent
RAW_BOT = Path(__file__).parent.parent / "bots" / "raw_bot.py"


def faults(game: Game) -> list[Decision]:
    return [decision for decision in game.decisions if decision.fault is not None]


@pytest.mark.parametrize("sample", SAMPLES)
def test_they_decide_as_ever(sample: str) -> None:
    """A change of the SDK or of a lesson's text changes no decision; a better bot changes these."""
    bot, decisions = SAMPLES[sample], hashlib.sha256()
    for preset in PRESETS:
        for seats, other in ((2, bot), (4, Random), (6, Random)):
            game = play([bot, *[other] * (seats - 1)], preset, f"fixed/{preset}/{seats}")
            lines = [f"{decision.seat} {decision.action}" for decision in game.decisions]
            decisions.update("\n".join(lines).encode())
    assert decisions.hexdigest() == DECISIONS[sample]


@pytest.mark.parametrize("bot", SAMPLES.values(), ids=SAMPLES)
def test_an_object_that_plays_on_plays_like_a_new_one(bot: type[Bot]) -> None:
    old = [bot(), bot()]
    for seed in ("first", "second"):
        fresh = play([bot, bot], seed=seed)
        assert play(old, seed=seed).decisions == fresh.decisions


def test_random_bots_differ_from_seat_to_seat_and_from_game_to_game() -> None:
    games = [play([Random] * 3, seed=seed) for seed in ("a", "b")]
    courses = {
        tuple(decision.action for decision in game.decisions if decision.seat == seat)
        for game in games
        for seat in range(3)
    }
    assert len(courses) == 6


@pytest.mark.parametrize("preset", ALL)
def test_a_plan_is_better_than_none(preset: str) -> None:
    line_up: list[type[Bot]] = [Greedy, Cautious, Random]
    points = dict.fromkeys(line_up, 0)
    for i in range(12):
        seats = line_up[i % 3 :] + line_up[: i % 3]
        scores = play(seats, preset, f"points/{i}").result().points
        for bot, score in zip(seats, scores, strict=True):
            points[bot] += score
    assert min(points[Greedy], points[Cautious]) > points[Random]


# The lessons


@pytest.mark.parametrize("preset", daily(ALL, ["publisher"]))
def test_the_search_bot_plays_without_faults_and_repeats_itself(preset: str) -> None:
    games = [play([Searcher(trials=4), Greedy, Cautious], preset, "search") for _ in range(2)]
    assert faults(games[0]) == []
    assert games[0].decisions == games[1].decisions


@pytest.mark.parametrize(("bank", "looks_ahead"), [(1.0, True), (0.0, False)])
def test_the_search_bot_makes_no_trials_when_time_is_short(bank: float, looks_ahead: bool) -> None:
    bot = Searcher()
    bot.on_game_start(GameInfo("game", 0, 2, PRESETS["manual"], 0, 0, "commitment"))
    bot.clock = Clock(0.01, bank, now=lambda: 100.0)
    before = bot.random.getstate()
    view = view_at("1 1 1 1 2 2 2 2 3 3 | *A5v:1 B3v | d2 a21 search")
    assert bot.decide(view) in view.legal
    assert (bot.random.getstate() != before) == looks_ahead


def test_the_search_bot_is_pearl_where_there_is_no_numpy() -> None:
    program = (
        "import sys; sys.modules['numpy'] = None\n"
        "from deepsea_bots.diver import Searcher\n"
        "from deepsea_bots.pearl import Pearl\n"
        "from deepsea_sdk import play\n"
        "games = [play([bot, bot, bot], seed='plain') for bot in (Searcher, Pearl)]\n"
        "assert games[0].result() == games[1].result()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


# As programs


def through_a_referee(program: str | Path, folder: Path, game: Game) -> Ended:
    """Play a game with a program in all seats."""

    async def script(peer: Peer) -> None:
        await peer.welcome()
        await play_with_itself(peer, game, "game")
        await peer.goodbye()

    return run(play_with(program, folder, script))


@pytest.mark.parametrize("sample", daily(SAMPLES, ["heuristic"]))
def test_a_program_plays_like_the_class(sample: str, tmp_path: Path) -> None:
    seed = seed_from_text("program")
    game = Game(PRESETS["guide"], 3, seed)
    assert through_a_referee(FOLDER / f"{sample}.py", tmp_path, game) == (0, "", "")
    assert game.decisions == play([SAMPLES[sample]] * 3, "guide", seed).decisions


# Beside the samples' files a name like random would be found first.
@pytest.mark.parametrize("sample", daily(SAMPLES, ["random_bot"]))
async def test_samples_run_as_modules_too(sample: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", f"deepsea_bots.{sample}"),
        cwd=FOLDER,
        env={**without_referee(), "PYTHONPATH": ":".join(map(os.path.abspath, sys.path))},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    stdout, stderr = await process.communicate()
    assert (process.returncode, stdout, len(stderr.splitlines())) == (2, b"", 1)
    assert b"deepsea-referee match" in stderr


@pytest.mark.parametrize("preset", daily(ALL, ["publisher"]))
def test_a_bot_without_the_sdk_plays_whole_games(preset: str, tmp_path: Path) -> None:
    class Last(Bot):
        def decide(self, view: View) -> str:
            return view.legal[-1]

    seed = seed_from_text("raw")
    game = Game(PRESETS[preset], 2, seed)
    assert through_a_referee(RAW_BOT, tmp_path, game) == (0, "", "")
    assert game.decisions == play([Last, Last], preset, seed).decisions

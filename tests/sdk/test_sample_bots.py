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
    "cautious": "83f0e361262977abe128789cc5de9e57b9926be7bf2c216c40d57de3f5f16421",
    "greedy": "c0121cb7d86346ece7ef5edbd8675dbd6cc91d07f741b46d3b51b534e079a4f4",
    "heuristic": "6fd3781fc0838c1c827d65d44c20691b5afa9f1767deb893a242839cfa867b5d",
    "pearl": "7dfcf20fd8bed729cf9d2356c421963bfa7ed9b7d430746d2e08a3077d2b865f",
    "random_bot": "f6ab2a152b108198a99156253f2eefce732e91b7b9a4c5b4d3ca4ff720a60d6f",
    "steady": "b6f6bfa630ce79e1e8a4b852023179e46dda4461fcfed6a5f5173f5304f8b26e",
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

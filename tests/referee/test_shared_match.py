"""Several workers for one match: the same games, one sum, and nothing lost but by force."""

from __future__ import annotations

import json
import os
import signal
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deepsea_referee import in_process
from deepsea_referee.bots.output import OutputPlan, log_name
from deepsea_referee.bots.resolve import BotSpec, resolve
from deepsea_referee.errors import RefereeError, UserError
from deepsea_referee.match import MatchSettings
from deepsea_referee.results_folder import ResultsJson, log_names
from deepsea_referee.shared_match import run_match_with_workers
from deepsea_referee.summary import GameResult
from deepsea_referee.system import ALL_CPUS, CpuShare
from deepsea_referee.system.linux import core_of, cpus_of
from deepsea_rules.game import GameRecord, replay
from deepsea_rules.randomness import commitment, game_seed, seed_from_text
from deepsea_rules.ruleset import DIVES
from deepsea_rules.time_control import TimeControl
from helpers.matches import Listener, Played, without_times
from helpers.programs import (
    PATIENT,
    chooser,
    lines_bot,
    nothing_left_behind,
    open_descriptors,
    written,
)
from helpers.programs import workers as running
from helpers.tiers import daily

SPECIAL = """
import os, signal
from deepsea_sdk import Bot, run

class Special(Bot):
    def on_game_start(self, info):
        if info.commitment in {games}:
            {does}

run(Special)
"""
SEED = seed_from_text("workers")
DIES = "os.kill(os.getpid(), signal.SIGKILL)"


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path) -> Iterator[None]:
    with nothing_left_behind():
        yield
    assert running() == []


def settings(bots: Sequence[BotSpec], games: int, tables: int = 1) -> MatchSettings:
    return MatchSettings(
        bots=bots,
        hosting=PATIENT,
        games=games,
        time_control=TimeControl.parse("60s"),
        seed=SEED,
        tables=tables,
    )


def samples(*names: str) -> list[BotSpec]:
    return [resolve(name) for name in names]


def played(what: MatchSettings, workers: int, *, inside: bool = True) -> tuple[Played, Listener]:
    listener, before = Listener(), open_descriptors()
    result = run_match_with_workers(
        what, workers, listener.on_game, listener.on_void, in_process=inside
    )
    assert workers == 1 or open_descriptors() <= before  # of other tests some may be gone
    return listener.played(result), listener


def special(folder: Path, games: Iterable[int], does: str) -> BotSpec:
    """A bot that does something when one of these games begins."""
    seeds = [game_seed(SEED, game - 1) for game in games]
    text = SPECIAL.format(games=[*map(commitment, seeds)], does=does)
    return written(folder, "special", text)


# Who plays what


@pytest.mark.parametrize("bots", [2, 3, 6])
@pytest.mark.parametrize("workers", [1, 2, 3, 4, 7])
def test_each_game_has_one_worker_and_each_worker_all_seatings(bots: int, workers: int) -> None:
    rounds = 84 * 6
    what = settings(samples("random") * bots, rounds)
    for worker in range(workers):
        share = [game for game in what.numbers() if what.worker_of(game, workers) == worker]
        assert share[0] < workers  # nobody waits for the others' games
        seatings = Counter(map(what.line_up, share))
        assert len(seatings) == bots
        assert max(seatings.values()) - min(seatings.values()) <= 1


def test_a_part_of_a_match_has_the_games_of_the_whole() -> None:
    what = settings(samples("random") * 2, 20)
    part = replace(what, part=(3, 9))
    assert [*part.numbers()] == [3, 9]
    assert part.game_seed(9) == what.game_seed(9)


# The same games


# In every run the next test has the same of bots as processes, and tests/referee/test_blocks.py of
# bots in the workers' own.
@pytest.mark.release
@pytest.mark.parametrize("workers", [2, 3])
def test_records_and_results_are_those_of_one_worker(workers: int) -> None:
    what = settings(samples("greedy", "random", "cautious"), 20)
    listener = Listener()
    alone = listener.played(in_process.run_match_in_process(what, listener.on_game))
    shared, _ = played(what, workers)
    assert [*map(without_times, shared.records)] == [*map(without_times, alone.records)]
    assert shared.games == alone.games
    assert results_json(shared) == results_json(alone)


def test_results_say_who_drowned_in_which_dive_as_the_games_played_again_do() -> None:
    what = settings(samples("greedy", "random", "cautious"), 12)
    listener = Listener()
    match = listener.played(in_process.run_match_in_process(what, listener.on_game))
    expected = [[0] * DIVES for _ in what.bots]
    for game, record in zip(match.games, match.records, strict=True):
        drowned = replay(record).state.drowned
        assert game.drowned == drowned
        for dive, units in enumerate(drowned):
            for seat, bot in enumerate(game.seats):
                expected[bot][dive] += units[seat] > 0
    assert [list(row.drowned) for row in match.result.summaries()] == expected
    assert sum(map(sum, expected))
    data = results_json(match)
    assert [bot["drowned"] for bot in data["bots"]] == expected
    assert [game["drowned"] for game in data["games"]] == [
        [list(units) for units in game.drowned] for game in match.games
    ]


def test_a_worker_takes_one_share_after_another() -> None:
    what = settings(samples("greedy", "random", "cautious"), 20)
    alone, _ = played(what, 1)
    listener = Listener()
    result = run_match_with_workers(what, 2, listener.on_game, in_process=True, share_games=3)
    shared = listener.played(result)
    assert [*map(without_times, shared.records)] == [*map(without_times, alone.records)]


def results_json(match: Played) -> Any:
    """What is in results.json, without times."""
    with closing(ResultsJson()) as document:
        for game in match.games:
            document.add(game)
        data = json.loads("".join(document.pieces(match.result)))
    for bot in data["bots"]:
        del bot["median_us"], bot["slowest_us"]
    return data


@pytest.mark.parametrize("tables", daily([1, 2], [1]))
def test_bots_as_processes_play_the_same_games_on_their_cpus_and_each_has_files_of_its_own(
    tmp_path: Path, tables: int
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    tells = "print(sorted(os.sched_getaffinity(0)), file=sys.stderr)"
    crasher = lines_bot(tmp_path, "crasher", f"asked == 5 and ({tells}, os._exit(1))")
    what = settings([crasher, chooser(tmp_path)], 4, tables)
    alone, _ = played(what, 1, inside=False)
    shared, _ = played(replace(what, output=OutputPlan(out)), 2, inside=False)
    assert [*map(without_times, shared.records)] == [*map(without_times, alone.records)]
    assert [game.forfeits for game in shared.games] == [game.forfeits for game in alone.games]
    assert sorted(path.name for path in out.iterdir()) == log_names(shared.result.logs)
    assert {log.worker for log in shared.result.logs} == {1, 2}
    own = os.sched_getaffinity(0)
    for log in shared.result.logs:
        # Where games are played one by one.
        share = CpuShare(log.worker - 1, 2) if tables == 1 else ALL_CPUS
        text = (out / log_name(log.bot, log.start, log.worker)).read_text(encoding="utf-8")
        assert text == f"{cpus_of(share, own, core_of)}\n"
    assert shared.result.isolation == "process"
    assert [row.off_turn is None for row in shared.result.summaries()] == [False, False]


# What goes wrong


def test_the_game_of_a_worker_that_is_killed_is_void_and_another_goes_on(tmp_path: Path) -> None:
    what = settings([special(tmp_path, (4,), DIES), resolve("random")], 9)
    shared, listener = played(what, 2)
    (void,) = listener.voids
    assert (void.game, void.game_id) == (4, what.game_id(3))
    assert void.reason == "its worker ended (signal 9)"
    assert [game.game for game in shared.games] == [1, 2, 3, 5, 6, 7, 8, 9]
    assert not shared.result.interrupted


def test_a_worker_with_bots_that_is_killed_leaves_none_of_them(tmp_path: Path) -> None:
    listener = Listener()
    killed = False

    def on_game(result: GameResult, record: GameRecord) -> None:
        nonlocal killed
        listener.on_game(result, record)
        # Once: workers that end again and again before they have played end the match.
        if not killed and len(found := running()) == 2:
            os.kill(found[0], signal.SIGKILL)
            killed = True

    what = settings([chooser(tmp_path), chooser(tmp_path, "too")], 8, tables=2)
    shared = listener.played(run_match_with_workers(what, 2, on_game, listener.on_void))
    assert killed
    assert shared.result.games + len(listener.voids) == 8
    assert 1 <= len(listener.voids) <= 2
    numbers = {game.game for game in shared.games} | {void.game for void in listener.voids}
    assert numbers == {*range(1, 9)}
    # The worker that takes its place removes what is left of it.
    assert list(Path(tempfile.gettempdir()).iterdir()) == []


# In every run tests/referee/test_blocks.py has a worker that is killed under a comparison.
@pytest.mark.release
def test_the_game_of_a_worker_that_is_killed_is_played_again_on_request() -> None:
    what = settings(samples("greedy", "random"), 20)
    alone, _ = played(what, 1)
    listener = Listener()

    def on_game(result: GameResult, record: GameRecord) -> None:
        listener.on_game(result, record)
        if result.game == 5:
            os.kill(running()[0], signal.SIGKILL)

    result = run_match_with_workers(
        what, 2, on_game, listener.on_void, in_process=True, replay=True
    )
    shared = listener.played(result)
    assert listener.voids == []
    assert [*map(without_times, shared.records)] == [*map(without_times, alone.records)]


def test_workers_that_end_again_and_again_end_the_match(tmp_path: Path) -> None:
    usual = settings(samples("random", "random"), 99)
    own = [game for game in range(99) if usual.worker_of(game, 2) == 0]
    what = settings([special(tmp_path, [game + 1 for game in own], DIES), resolve("random")], 99)
    with pytest.raises(RefereeError, match=r"before they have played a game \(signal 9\)"):
        played(what, 2)


def test_a_bot_that_cannot_play_is_told_once(tmp_path: Path) -> None:
    bad = lines_bot(tmp_path, "bad", first="1 / 0")
    with pytest.raises(UserError, match="before connecting"):
        played(settings([bad, chooser(tmp_path)], 9), 2, inside=False)


def test_what_goes_wrong_here_ends_the_workers() -> None:
    def on_game(result: GameResult, record: GameRecord) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        run_match_with_workers(
            settings(samples("greedy", "random"), 500), 2, on_game, in_process=True
        )


# Ctrl-C


@pytest.mark.parametrize("inside", daily([True, False], [False]))
def test_an_interrupt_keeps_the_games_that_are_complete(tmp_path: Path, inside: bool) -> None:
    listener = Listener()

    def on_game(result: GameResult, record: GameRecord) -> None:
        listener.on_game(result, record)
        if result.game == 2:
            os.kill(os.getpid(), signal.SIGINT)

    usual = signal.getsignal(signal.SIGINT)
    bots = samples("greedy", "random") if inside else [chooser(tmp_path), chooser(tmp_path, "too")]
    what = settings(bots, 10_000)
    shared = listener.played(
        run_match_with_workers(what, 2, on_game, listener.on_void, in_process=inside)
    )
    assert shared.result.interrupted
    assert 1 <= shared.result.games < 10_000
    assert listener.voids == []
    assert signal.getsignal(signal.SIGINT) is usual


# Whoever takes the games says when there is room for more


@pytest.mark.parametrize(
    "play",
    [
        in_process.run_match_in_process,
        lambda what, on_game: run_match_with_workers(what, 9, on_game, in_process=True),
    ],
)
def test_the_next_game_waits_for_room_also_with_more_workers_than_games(
    play: Callable[[MatchSettings, Callable[[GameResult, GameRecord], object]], object],
) -> None:
    asked: list[Room] = []

    def on_game(result: GameResult, record: GameRecord) -> object:
        assert all(room.was_waited_for for room in asked)
        asked.append(Room())
        return asked[-1]

    play(settings(samples("random", "random"), 2), on_game)
    assert len(asked) == 2


class Room(Future[None]):
    """There is room at once, for who asks."""

    was_waited_for = False

    def result(self, timeout: float | None = None) -> None:
        self.was_waited_for = True

"""The bots that a worker keeps running: those that played last, fresh where they must be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from deepsea_arena.play.rated_games import RunningBots, StartPool, _spare_memory
from deepsea_referee.bots.pool import BotPool


class Pool:
    """Stands for the pool of one bot, and notes what is done with it."""

    def __init__(self, log: list[str], name: str) -> None:
        self._log = log
        self._name = name
        log.append(f"{name} made")

    async def start_early(self, bot: int) -> None:
        self._log.append(f"{self._name} started early")

    def freeze(self, bot: int) -> None:
        self._log.append(f"{self._name} frozen")

    async def __aexit__(self, *_: object) -> None:
        self._log.append(f"{self._name} stopped")


def played(
    games: list[str],
    most: int = 9,
    limit: int = 9,
    free: Callable[[], int] = lambda: 100,
    faulty: str = "",
) -> list[str]:
    """What happens to bots that play games; each is a bot by letter in every seat."""
    log: list[str] = []

    def make(name: str) -> StartPool:
        return cast("StartPool", lambda: Pool(log, name))

    async def play() -> None:
        running = RunningBots(most, limit, free)
        for game in games:
            running.seat([(name, make(name)) for name in game], reserve=50)
            running.dismiss([name for name in game if name in faulty])
            await asyncio.gather(*running._ending)
        log.append("end")
        await running.close()

    asyncio.run(play())
    return log[: log.index("end")]


def test_bots_stay_and_those_that_do_not_play_are_frozen() -> None:
    log = played(["ab", "ab", "bc", "ab"])
    assert log == ["a made", "b made", "c made", "a frozen", "c frozen"]


def test_those_that_played_last_stay() -> None:
    assert "a stopped" not in played(["ab", "cd"], most=4)
    log = played(["ab", "ac", "ad"], most=3)
    assert [line for line in log if "stopped" in line] == ["b stopped"]


def test_bots_leave_when_memory_runs_short_but_never_those_that_play() -> None:
    log = played(["ab", "bc"], free=lambda: 49)
    assert [line for line in log if "stopped" in line] == ["a stopped"]


@pytest.mark.parametrize(
    ("text", "spare"),
    [
        ("MemTotal:  4000 kB\nMemFree: 9 kB\nMemAvailable:  3000 kB\n", 2000 * 1024),
        ("MemTotal:  4000 kB\nMemAvailable:  900 kB\nHugePages_Total:  0\n", -100 * 1024),
        ("MemTotal:  4000 kB\n", 1 << 62),
    ],
)
def test_a_quarter_of_the_memory_is_left_to_others(tmp_path: Path, text: str, spare: int) -> None:
    (tmp_path / "meminfo").write_text(text)
    assert _spare_memory(tmp_path / "meminfo") == spare


def test_a_bot_at_fault_and_one_that_has_played_enough_are_made_again() -> None:
    log = played(["ab", "ab"], faulty="a")
    assert log == ["a made", "b made", "a stopped", "a made", "a stopped"]
    log = played(["ab", "ac", "ab"], limit=2)
    assert [line for line in log if "a " in line] == ["a made", "a stopped", "a made"]


def test_a_bot_is_started_before_its_game_only_once() -> None:
    log: list[str] = []

    async def prepare() -> None:
        running = RunningBots(free_memory=lambda: 100)
        await running.prepare("a", cast("Callable[[], BotPool]", lambda: Pool(log, "a")))
        assert "a" in running
        running.seat([("a", cast("StartPool", None))], reserve=50)
        await running.close()

    asyncio.run(prepare())
    assert log == ["a made", "a started early", "a stopped"]

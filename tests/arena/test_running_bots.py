"""The bots that a worker keeps running: those that played last, fresh where they must be."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from deepsea_arena.rated_games import RunningBots, StartPool, _spare_memory
from deepsea_referee.bots.pool import BotPool, Slot
from deepsea_referee.errors import RefereeError


class Pool:
    """Stands for the pool of one bot, and notes what is done with it."""

    def __init__(self, log: list[str], name: str, lacks: Sequence[Exception] = ()) -> None:
        """`lacks`: what its starts raise, one after another."""
        self._log = log
        self._name = name
        self._lacks = lacks
        log.append(f"{name} made")

    @contextmanager
    def table(self, _bots: Sequence[int], _seed: bytes) -> Iterator[Sequence[Slot]]:
        yield [Slot(0)]

    async def ready(self, slot: Slot, *, suspect: bool) -> str:
        if self._lacks:
            first, *self._lacks = self._lacks
            raise first
        return self._name

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
            running.line_up([(name, make(name)) for name in game], reserve=50)
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
        running.line_up([("a", cast("StartPool", None))], reserve=50)
        await running.close()

    asyncio.run(prepare())
    assert log == ["a made", "a started early", "a stopped"]


def test_for_want_of_descriptors_those_that_have_rested_longest_leave_before_a_start() -> None:
    log: list[str] = []
    free = [100]

    async def play() -> None:
        running = RunningBots(free_memory=lambda: 100, free_descriptors=lambda: free[0])
        for game in ("ab", "bc", "cd"):
            running.line_up(
                [(name, cast("StartPool", partial(Pool, log, name))) for name in game], 50
            )
        free[0] = 20
        await running.prepare("e", cast("StartPool", partial(Pool, log, "e")))
        running.line_up([(name, cast("StartPool", partial(Pool, log, name))) for name in "df"], 50)
        await asyncio.gather(*running._ending)
        log.append("end")
        await running.close()

    asyncio.run(play())
    log = [line for line in log[: log.index("end")] if "frozen" not in line]
    assert log == ["a made", "b made", "c made", "d made", "f made", "a stopped", "b stopped"]


SHORTAGES = [
    OSError(errno.EMFILE, "Too many open files"),
    BlockingIOError(errno.EAGAIN, "all users of bots are in use"),
    MemoryError(),
]


@pytest.mark.parametrize("shortage", SHORTAGES, ids=lambda error: type(error).__name__)
def test_a_start_for_which_something_lacks_is_tried_again_when_a_bot_has_left(
    shortage: Exception,
) -> None:
    log: list[str] = []
    wrapped = RefereeError("cannot be started")
    wrapped.__cause__ = shortage

    async def play(lacks: int) -> str:
        running = RunningBots(free_memory=lambda: 100, free_descriptors=lambda: 1000)
        for name in "abc":
            running.line_up([(name, cast("StartPool", partial(Pool, log, name)))], 50)
        pool = cast("StartPool", partial(Pool, log, "d", [wrapped] * lacks))
        line_up = running.line_up([("d", pool)], 50)
        try:
            with line_up.table(bytes(32)) as (slot,):
                return str(await line_up.ready(slot))
        finally:
            log.append("end")
            await running.close()

    assert asyncio.run(play(2)) == "d"
    left = [line for line in log[: log.index("end")] if "stopped" in line]
    assert left == ["a stopped", "b stopped"]
    with pytest.raises(RefereeError):
        asyncio.run(play(4))


def test_an_error_that_is_no_shortage_makes_nobody_leave() -> None:
    log: list[str] = []

    async def play() -> None:
        running = RunningBots(free_memory=lambda: 100, free_descriptors=lambda: 1000)
        running.line_up([("a", cast("StartPool", partial(Pool, log, "a")))], 50)
        error = RefereeError("the sandbox is broken")
        line_up = running.line_up([("b", cast("StartPool", partial(Pool, log, "b", [error])))], 50)
        with line_up.table(bytes(32)) as (slot,), pytest.raises(RefereeError):
            await line_up.ready(slot)
        log.append("end")
        await running.close()

    asyncio.run(play())
    assert "a stopped" not in log[: log.index("end")]

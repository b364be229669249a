"""Starting is fair: it is timed like a decision, and repeated where the host was to blame."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from deepsea_bundle.program import Protocol
from deepsea_referee.bots.pool import STARTS_UNDER_LOAD, BotPool, Slot
from deepsea_referee.bots.process import START_PATIENCE, Hosting
from deepsea_referee.errors import BotFault, HostTooBusy
from deepsea_referee.pauses import Gauge, Reading, Usage
from deepsea_referee.sandbox.interface import IsolatedProcess, LaunchSpec
from deepsea_referee.sandbox.plain_process import PlainBotProcess, PlainProcess
from deepsea_rules.faults import Fault
from deepsea_sdk.bot import TimeLeft
from helpers.manual_clock import ManualClock
from helpers.programs import never_ready

LIMIT_US = 10_000_000


class Load:
    """What the bots of a test meet: made-up shares of the time that passes."""

    cpus = 2

    def __init__(self, clock: ManualClock, cpu: float = 0, denied: float = 0, outside: float = 0):
        self._clock = clock
        self._shares = (cpu, denied, outside)

    def gauge(self, _process: IsolatedProcess) -> Gauge:
        return self

    def cpu_us(self) -> int:
        return self.glance(0).cpu_us

    def glance(self, now_us: int) -> Usage:
        return Usage(*(round(share * self._clock.now_us()) for share in self._shares))

    def read(self) -> Reading:
        return Reading(self.glance(0), {1: self.cpu_us()}, 0)

    def bot_is_ready(self) -> bool:
        return False

    def referee_is_ready(self) -> bool:
        return False


@asynccontextmanager
async def never_ready_bot(
    tmp_path: Path, clock: ManualClock, protocol: Protocol = "grpc", **shares: float
) -> AsyncIterator[BotPool]:
    """A pool whose bot never connects, not yet started; the load of the host has these shares."""
    load = Load(clock, **shares)
    hosting = Hosting(PlainProcess(), start_limit_us=LIMIT_US, gauge=load.gauge, grace_us=0)
    bot = replace(never_ready(tmp_path), protocol=protocol)
    pool = BotPool([bot], hosting, clock)
    try:
        yield pool
    finally:
        await pool.__aexit__(None, None, None)


class Counted(PlainProcess):
    """Counts what it starts."""

    spawned = 0

    def spawn(self, launch: LaunchSpec) -> PlainBotProcess:
        self.spawned += 1
        return super().spawn(launch)


async def until(happened: Callable[[], bool]) -> None:
    """Let the event loop run until something has happened; no time passes."""
    while not happened():  # noqa: ASYNC110  (alarms have no event)
        await asyncio.sleep(0)  # noqa: TID251


async def after(clock: ManualClock, us: int, starting: asyncio.Task[object]) -> None:
    """Let time pass while a bot starts, as soon as its start is timed."""
    await until(lambda: clock.alarms > 0 or starting.done())
    for _ in range(us // 1_000_000):
        clock.jump(1_000_000)
        for _ in range(5):
            await asyncio.sleep(0)  # noqa: TID251
        await until(lambda: clock.alarms > 0 or starting.done())


async def asked(pool: BotPool, *, suspect: bool = False) -> BotFault:
    """What a game meets that asks the bot."""
    process = await pool.ready(Slot(0), suspect=suspect)
    met: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    process.session.ask(b"", TimeLeft(1, 0), met.set_result)
    outcome = await met
    assert isinstance(outcome, BotFault)
    return outcome


@pytest.mark.parametrize(
    ("protocol", "words"),
    [("grpc", "connect and send Hello"), ("lines", 'write the line {"type":"ready"}, and flush')],
)
async def test_a_start_that_takes_too_long_on_a_quiet_host_is_the_bots_fault(
    tmp_path: Path, protocol: Protocol, words: str
) -> None:
    clock = ManualClock()
    async with never_ready_bot(tmp_path, clock, protocol, outside=0.1) as pool:
        starting = asyncio.create_task(asked(pool))
        await after(clock, LIMIT_US + 2_000_000, starting)
        fault = await starting
        assert fault.fault is Fault.START_TIMEOUT
        assert fault.detail.startswith(f"it did not {words}")


async def test_time_without_a_cpu_is_not_counted_for_a_start(tmp_path: Path) -> None:
    clock = ManualClock()
    async with never_ready_bot(tmp_path, clock, cpu=0.1, denied=0.7, outside=1.8) as pool:
        starting = asyncio.create_task(asked(pool))
        await after(clock, 3 * LIMIT_US, starting)
        assert not starting.done()
        await after(clock, 2 * LIMIT_US + 5_000_000, starting)
        assert (await starting).fault is Fault.START_TIMEOUT


async def test_a_start_that_the_host_makes_impossible_is_repeated_and_then_voids(
    tmp_path: Path,
) -> None:
    clock = ManualClock()
    async with never_ready_bot(tmp_path, clock, denied=1.0, outside=2.0) as pool:
        starting = asyncio.create_task(asked(pool))
        await after(clock, STARTS_UNDER_LOAD * START_PATIENCE * LIMIT_US, starting)
        assert not starting.done()
        await after(clock, STARTS_UNDER_LOAD * 2 * LIMIT_US, starting)
        with pytest.raises(HostTooBusy, match=r"too busy .* to start"):
            await starting
        # The next game starts it again; of a suspect it is a start timeout now.
        starting = asyncio.create_task(asked(pool, suspect=True))
        await after(clock, STARTS_UNDER_LOAD * (START_PATIENCE + 2) * LIMIT_US, starting)
        assert (await starting).fault is Fault.START_TIMEOUT


@pytest.mark.parametrize("together", [True, False])
async def test_no_more_bots_start_at_once_than_there_are_cpus(
    tmp_path: Path, together: bool
) -> None:
    clock = ManualClock()
    isolation = Counted()
    hosting = Hosting(isolation, start_limit_us=LIMIT_US, starts_at_once=2, gauge=None, grace_us=0)
    bot = never_ready(tmp_path)
    if together:
        pools = [BotPool([bot] * 3, hosting, clock)] * 3
    else:
        starts = asyncio.Semaphore(hosting.starts_at_once)
        pools = [BotPool([bot], hosting, clock, starts=starts) for _ in range(3)]
    starting = asyncio.gather(
        *(pool.ready(Slot(number if together else 0)) for number, pool in enumerate(pools))
    )
    await until(lambda: clock.alarms == 2)
    assert isolation.spawned == 2
    clock.jump(LIMIT_US + 1)
    await until(lambda: clock.alarms == 1)
    assert isolation.spawned == 3
    clock.jump(LIMIT_US + 1)
    assert all(process.missed_start for process in await starting)
    for pool in dict.fromkeys(pools):
        await pool.__aexit__(None, None, None)


@pytest.mark.parametrize(("workers", "starts"), [(1, 4), (2, 2), (3, 1), (9, 1)])
def test_workers_share_the_starts(workers: int, starts: int) -> None:
    hosting = replace(Hosting(PlainProcess()), starts_at_once=4)
    assert hosting.for_one_of(workers).starts_at_once == starts

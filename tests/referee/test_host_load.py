"""Whose time it was: what the host takes is not charged, what the bot takes always is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

import pytest

from deepsea_referee.decision_timer import Charge, DecisionTimer, HostDelay, Timeout
from deepsea_referee.pauses import (
    AGAIN_US,
    GRACE_US,
    LONGEST_READY_US,
    TICK_US,
    Reading,
    Usage,
    busiest_us,
    credit_us,
    denied_us,
    least_us,
    longest_wait_us,
    may_be_starved,
)
from deepsea_referee.sandbox import process_tree
from deepsea_referee.sandbox.interface import IsolatedProcess, ThreadTimes
from deepsea_referee.system.gauge import BotGauge, WallGauge
from deepsea_sdk.bot import TimeLeft

BUDGET_US = 100_000
LEFT = TimeLeft(BUDGET_US, 0)
S = 1_000_000
NOTHING = Usage(0, 0, 0)


@pytest.mark.parametrize(
    ("after", "credit"),
    [
        pytest.param(Usage(20_000, 80_000, 180_000), 80_000, id="it was denied a CPU by others"),
        pytest.param(Usage(10_000, 80_000, 180_000), 90_000, id="and a little that is not counted"),
        pytest.param(Usage(1_000, 40_000, 180_000), 45_000, id="but no more than an eighth"),
        pytest.param(Usage(80_000, 40_000, 180_000), 40_000, id="and none while it computed"),
        pytest.param(Usage(20_000, 80_000, 30_000), 40_000, id="others used less than that"),
        pytest.param(Usage(20_000, 80_000, 0), TICK_US, id="nobody else used a CPU"),
        pytest.param(Usage(80_000, 0, 180_000), 0, id="it had what it wanted"),
        pytest.param(Usage(95_000, 9_000, -5_000), 9_000, id="ticks are coarse"),
    ],
)
def test_credit_is_what_the_bot_was_denied_and_others_used(after: Usage, credit: int) -> None:
    assert credit_us(100_000, NOTHING, after) == credit


@pytest.mark.parametrize(
    ("cpu_us", "busiest", "cpus", "least"),
    [
        pytest.param(90_000, 90_000, 2, 90_000, id="one thread"),
        pytest.param(160_000, 80_000, 2, 80_000, id="two threads beside each other"),
        pytest.param(160_000, 20_000, 2, 80_000, id="many in turn, as a quiet host had run them"),
        pytest.param(0, 0, 2, 0, id="a sleeper"),
    ],
)
def test_nobody_is_charged_less_than_on_a_quiet_host(
    cpu_us: int, busiest: int, cpus: int, least: int
) -> None:
    assert least_us(NOTHING, Usage(cpu_us, 10**6, 10**6), busiest, cpus) == least


@pytest.mark.parametrize(
    ("before", "after", "us"),
    [
        ({1: 500, 2: 100}, {1: 900, 2: 2_100}, 2_000),
        ({1: 500}, {1: 700, 3: 600}, 600),  # a new thread
        ({1: 500}, {1: 40}, 40),  # a new thread with a reused number
        ({1: 500}, {}, 0),
    ],
)
def test_the_busiest_thread(before: Mapping[int, int], after: Mapping[int, int], us: int) -> None:
    assert busiest_us(before, after) == us


def test_the_host_is_given_up_on_only_after_a_long_time() -> None:
    assert longest_wait_us(BUDGET_US) == 10 * S + BUDGET_US
    assert longest_wait_us(10 * S, patience=6) == 60 * S


@pytest.mark.parametrize(
    ("denied_us", "outside_us", "starved"),
    [
        pytest.param(9 * S, 10 * S, True, id="others used half of the CPUs, and it wanted one"),
        pytest.param(9 * S, 9 * S, False, id="others used less"),
        pytest.param(S * 5 // 2, 20 * S, True, id="pressure misses much of a wait that moves"),
        pytest.param(S * 9 // 10, 20 * S, False, id="it wanted none for most of the time"),
    ],
)
def test_a_bot_is_starved_only_if_others_used_half_of_the_host_and_pressure_says_so(
    denied_us: int, outside_us: int, starved: bool
) -> None:
    assert may_be_starved(10 * S, NOTHING, Usage(0, denied_us, outside_us), cpus=2) is starved


class Host:
    """A host and a bot whose times the test moves on."""

    cpus = 2

    def __init__(self, *, glances: bool = True) -> None:
        self.glances = glances
        self.usage = NOTHING
        self.threads: dict[int, int] = {}
        self.waited_us = 0
        self.referee_waited_us = 0
        self.bot_ready = self.referee_ready = False
        self.readings = 0

    def passes(
        self,
        *,
        cpu: int = 0,
        denied: int = 0,
        outside: int = 0,
        thread: int = 1,
        waited: int = 0,
        referee_waited: int = 0,
    ) -> None:
        """Let a bot's thread compute while the bot is denied and others use CPUs.

        waited  the sum over its threads, where that is more than pressure tells
        """
        self.waited_us += waited
        self.referee_waited_us += referee_waited
        before = self.usage
        self.usage = Usage(before[0] + cpu, before[1] + denied, before[2] + outside)
        self.threads[thread] = self.threads.get(thread, 0) + cpu

    def cpu_us(self) -> int:
        return self.usage.cpu_us

    def glance(self, now_us: int) -> Usage | None:
        return self.usage if self.glances else None

    def read(self) -> Reading:
        self.readings += 1
        return Reading(self.usage, dict(self.threads), self.referee_waited_us, self.waited_us)

    def bot_is_ready(self) -> bool:
        return self.bot_ready

    def referee_is_ready(self) -> bool:
        return self.referee_ready


class Play(DecisionTimer):
    """A timer with one open decision, driven as a session drives it."""

    def __init__(self, left: TimeLeft = LEFT, host: Host | None = None) -> None:
        self.host = host or Host()
        super().__init__(self.host, patience=20)
        self.now_us = 0
        self.ended: object = None
        self.start([(1, left)], 0)

    def until(self, now_us: int) -> None:
        """Make the checks that are due."""
        while self.due_us is not None and self.due_us <= now_us:
            self.now_us = self.due_us
            for _, ended in self.check(self.now_us):
                self.ended = ended
        self.now_us = now_us

    def go_on(self, steps: int, us: int, **passes: int) -> None:
        """Let so many steps of that time pass, from the start on, the same in each."""
        for number in range(1, steps + 1):
            self.host.passes(**passes)
            self.until(number * us)

    def answer(self) -> object:
        return self.stop(1, self.now_us)


@pytest.mark.parametrize("glances", [True, False], ids=["with pressure", "without"])
@pytest.mark.parametrize(
    ("step", "in_time"),
    [
        pytest.param({"cpu": 2_000, "denied": 18_000, "outside": 38_000}, True, id="denied"),
        pytest.param({"cpu": 20_000}, False, id="it computed"),
        pytest.param({}, False, id="it slept"),
        pytest.param({"denied": 18_000, "outside": 500}, False, id="waits, but a quiet host"),
        pytest.param(
            {"cpu": 20_000, "denied": 18_000, "outside": 20_000},
            False,
            id="one thread computes while others of it starve on another CPU",
        ),
    ],
)
def test_past_the_wall_clock_the_reading_decides(
    step: dict[str, int], in_time: bool, glances: bool
) -> None:
    play = Play(host=Host(glances=glances))
    play.go_on(10, 20_000, **step)
    assert (play.ended is None) is in_time
    if in_time:
        outcome = play.answer()
        assert isinstance(outcome, Charge)
        assert outcome.us <= 40_000  # 20 ms of CPU, and what passed before the first check


def test_the_first_quarter_is_protected_like_the_rest() -> None:
    play = Play()
    play.host.passes(cpu=1_000, denied=24_000, outside=50_000)
    play.until(25_001)
    play.host.passes(cpu=74_000)
    play.until(100_000)
    assert play.answer() == Charge(75_000)


def test_a_late_first_look_is_the_referees_time_but_not_what_was_computed_meanwhile() -> None:
    play = Play()
    play.host.passes(cpu=10_000)
    play.now_us = 90_000  # the event loop was blocked: the answer is read before the first check
    assert play.answer() == Charge(25_000)
    play = Play(host=play.host)
    play.host.passes(cpu=80_000)
    play.now_us = 90_000
    assert play.answer() == Charge(80_000)


def test_threads_that_compute_in_turn_gain_no_more_cpu_than_on_a_quiet_host() -> None:
    play = Play()
    for number in range(1, 21):  # each of ten a little, all CPUs all the time, and a starving one
        play.host.passes(cpu=20_000, denied=9_000, outside=9_000, thread=number % 10)
        play.until(number * 10_000)
    assert isinstance(play.ended, Timeout)


def test_an_answer_that_lay_unread_is_charged_until_the_last_look() -> None:
    play = Play()
    play.until(99_000)
    play.host.referee_waited_us += 60_000
    play.now_us = 150_000
    assert play.answer() == Charge(90_000)


def test_an_answer_that_came_while_a_look_was_late_is_charged_until_it_was_due() -> None:
    play = Play(TimeLeft(S, 0))
    play.until(S // 4 + GRACE_US)  # two looks
    assert play.due_us is not None
    play.host.referee_waited_us += 60_000
    play.now_us = play.due_us + 60_000
    assert play.check(play.now_us) == []
    play.now_us += 1_000
    assert play.answer() == Charge(play.now_us - 60_000)


@pytest.mark.parametrize("waits", [0.05, 1, 3], ids=["a little", "always", "several threads"])
def test_sleep_is_not_free_where_the_referee_waits_for_cpus_meanwhile(waits: float) -> None:
    play = Play(TimeLeft(100 * S, 0))
    play.go_on(660, S // 10, outside=200_000, referee_waited=round(waits * S / 10))
    answer = play.answer()
    assert isinstance(answer, Charge)
    # An answer may have lain unread since the last check but one, or is not older.
    free_us = 2 * GRACE_US + S // 10
    assert 66 * S - min(1, waits) * free_us <= answer.us <= 66 * S


def test_a_sleeper_on_a_busy_host_has_its_timeout_a_little_later() -> None:
    play = Play()
    # The referee waits for a CPU at every look, in vain.
    play.go_on(400, 10_000, outside=20_000, referee_waited=10_000)
    assert isinstance(play.ended, Timeout)
    assert play.ended.us <= BUDGET_US + LONGEST_READY_US + 2 * AGAIN_US


def test_no_timeout_is_called_while_an_answer_may_be_on_its_way_through_the_referee() -> None:
    play = Play()
    play.until(BUDGET_US - 1)
    for number in range(1, 41):  # nobody is ready at a check, but the referee waited since the last
        play.host.referee_waited_us += 10_000
        play.until(BUDGET_US + number * 10_000)
    assert play.ended is None
    assert play.answer() == Charge(BUDGET_US)
    play = Play()
    play.host.referee_waited_us += 10_000
    play.until(BUDGET_US + GRACE_US + 3 * AGAIN_US)
    assert isinstance(play.ended, Timeout)  # it has waited no more


def test_no_timeout_is_called_where_the_referee_was_late_for_the_look_before() -> None:
    play = Play(TimeLeft(S, 0))
    play.until(S // 4 + 2 * GRACE_US)
    play.host.referee_waited_us += 10_000
    play.until(S)
    assert play.due_us == S + 1
    play.until(S + GRACE_US)  # it has waited no more, but an answer may have come while it did
    assert play.ended is None
    play.until(S + GRACE_US + 2)
    assert isinstance(play.ended, Timeout)


@pytest.mark.parametrize("who", ["bot_ready", "referee_ready"])
def test_no_timeout_is_called_while_somebody_is_ready(who: str) -> None:
    play = Play(host=Host(glances=False))
    play.until(50_000)
    setattr(play.host, who, True)
    play.until(BUDGET_US + 9 * AGAIN_US)
    assert play.ended is None
    # Now the wait is over, and in the accounts.
    play.host.passes(
        cpu=20_000, denied=BUDGET_US + 8 * AGAIN_US, outside=2 * BUDGET_US + 18 * AGAIN_US
    )
    assert isinstance(play.answer(), Charge)


def test_who_is_ready_for_ever_has_a_timeout_all_the_same() -> None:
    play = Play(host=Host(glances=False))
    play.host.bot_ready = True
    play.until(BUDGET_US + LONGEST_READY_US)
    assert play.ended is None
    play.until(BUDGET_US + LONGEST_READY_US + 2 * AGAIN_US)
    assert isinstance(play.ended, Timeout)


def test_who_has_computed_too_long_is_ready_in_vain() -> None:
    play = Play(host=Host(glances=False))
    play.host.bot_ready = True
    play.until(6_000)
    play.host.passes(cpu=BUDGET_US + 1)
    play.until(2 * BUDGET_US)
    assert isinstance(play.ended, Timeout)


def test_a_quick_answer_is_never_measured() -> None:
    play = Play()
    play.until(BUDGET_US // 4 - 1)
    assert play.answer() == Charge(BUDGET_US // 4 - 1)
    assert not play.host.readings


def starved(outside_us: int) -> Play:
    """A bot that is denied nearly everything for half a minute while others use so much."""
    play = Play()
    play.go_on(600, 50_000, denied=50_000, outside=outside_us)
    return play


def test_a_host_that_takes_everything_voids_the_game() -> None:
    assert isinstance(starved(100_000).ended, HostDelay)


def test_a_bot_that_only_seems_to_starve_has_a_timeout() -> None:
    assert isinstance(starved(45_000).ended, Timeout)  # less than one of the two CPUs


def test_in_phase_wakers_are_charged_for_their_sleep() -> None:
    play = Play()  # 31 threads wake together: one of them always has the CPU
    for number in range(1, 40):
        play.host.passes(cpu=8_500, outside=2_000, thread=number)
        play.until(number * 10_000)
    assert isinstance(play.ended, Timeout)
    assert play.ended.us <= BUDGET_US + AGAIN_US


def test_a_wait_that_is_spread_over_cpus_is_counted_whole() -> None:
    # Measured: pressure of 126 ms where the one thread had waited for 242 ms, on two CPUs.
    play = Play()
    play.go_on(31, 10_000, cpu=2_250, denied=4_000, waited=7_750, outside=17_000)
    assert play.ended is None
    answer = play.answer()
    assert isinstance(answer, Charge)
    assert 65_000 <= answer.us <= 90_000


def test_threads_that_wait_beside_one_that_runs_are_not_taken_for_a_wait_of_the_bot() -> None:
    play = Play()
    for number in range(1, 40):  # a busy host, 31 threads
        play.host.passes(cpu=2_000, denied=200, waited=200_000, outside=15_000, thread=number)
        play.until(number * 10_000)
    assert isinstance(play.ended, Timeout)


@pytest.mark.parametrize("waited", [43_500, 46_000, 48_900])
@pytest.mark.parametrize("pressure", [500, 2_000, 4_500], ids=["1 %", "4 %", "9 %"])
def test_bursts_of_many_threads_make_no_game_void(waited: int, pressure: int) -> None:
    """The sum of their waits fits the idle time, as one thread's would; pressure is small."""
    play = Play(TimeLeft(2_100_000, 0))
    play.go_on(900, 50_000, cpu=1_000, denied=pressure, waited=waited, outside=90_000)
    assert isinstance(play.ended, Timeout)


@pytest.mark.parametrize("pressure", [24_000, 43_000], ids=["spread over CPUs", "86 %"])
def test_a_bot_whose_one_thread_starves_makes_it_void(pressure: int) -> None:
    play = Play()
    play.go_on(600, 50_000, cpu=100, denied=pressure, waited=49_800, outside=90_000)
    assert isinstance(play.ended, HostDelay)


def test_where_there_is_no_pressure_the_sum_of_the_waits_decides() -> None:
    play = Play(host=Host(glances=False))
    play.go_on(600, 50_000, denied=49_900, waited=49_900, outside=90_000)
    assert isinstance(play.ended, HostDelay)


@pytest.mark.parametrize(
    ("pressure_us", "waited_us", "idle_us", "denied"),
    [
        pytest.param(126, 242, 242, 242, id="one thread, spread over CPUs"),
        pytest.param(19, 50, 100, 50, id="a short wait, on another CPU than it ran on"),
        pytest.param(18, 50, 100, 36, id="more than the mean can have missed"),
        pytest.param(4, 99, 100, 8, id="many threads at once"),
        pytest.param(99, 99, 100, 99, id="there is no pressure"),
        pytest.param(126, 300, 242, 252, id="several threads: at most what pressure can miss"),
        pytest.param(126, 100, 242, 126, id="a wait that is not over"),
        pytest.param(0, 9_000, 100, 0, id="something of it always ran"),
        pytest.param(10, None, 25, 20, id="waits are not known"),
        pytest.param(20, None, 25, 25, id="and it computed otherwise"),
    ],
)
def test_what_a_bot_was_denied(
    pressure_us: int, waited_us: int | None, idle_us: int, denied: int
) -> None:
    found = denied_us(pressure_us, waited_us, idle_us, used_us=16, cpus=2)
    assert found == denied


@pytest.mark.parametrize("cpus", [1, 2, 8, 64])
@pytest.mark.parametrize("run_us", [0, 20_000, 90_000])
@pytest.mark.parametrize("wait_us", [1_000, 30_000, 200_000])
def test_one_thread_is_credited_its_whole_wait_however_it_moves(
    cpus: int, run_us: int, wait_us: int
) -> None:
    for on in range(1, cpus + 1):  # it waits on so many CPUs in turn, and runs on the first
        each = wait_us / on
        kernel = (each * (each + run_us) + (on - 1) * each * each) / (wait_us + run_us)
        assert denied_us(round(kernel), wait_us, wait_us, run_us, cpus) >= wait_us * 0.99


def test_a_bank_is_charged_only_for_the_bots_own_time() -> None:
    play = Play(TimeLeft(100_000, 500_000))
    play.go_on(30, 10_000, cpu=5_000, denied=5_000, outside=15_000)
    assert play.answer() == Charge(150_000)


def test_decisions_that_share_the_time_share_the_credit() -> None:
    host = Host()
    timer = DecisionTimer(host)
    timer.start([(1, LEFT), (2, LEFT)], 0)
    host.passes(cpu=40_000, denied=60_000, outside=100_000)
    assert [timer.stop(number, 100_000) for number in (1, 2)] == [Charge(20_000)] * 2


def test_where_nothing_counts_as_denied_the_wall_is_charged() -> None:
    host = Host()
    timer = DecisionTimer(host)
    timer.start([(1, LEFT)], 0)
    assert timer.check(timer.due_us or 0) == []
    host.passes(cpu=1_000, outside=180_000)
    assert timer.stop(1, 90_000) == Charge(90_000)


# The gauge


class FakeProcess:
    """A bot whose times the test moves on. Reading it takes the referee 7 ms without a CPU."""

    def __init__(self, pressure_us: int | None) -> None:
        self.pressure_us = pressure_us
        self.waited_us = 0
        self.referee_waited_us = 0
        self.ready = True

    def cpu_us(self) -> int:
        return 5_000

    def denied_us(self) -> int | None:
        return self.pressure_us

    def threads(self) -> dict[int, ThreadTimes]:
        self.referee_waited_us += 7_000
        return {1: ThreadTimes(5_000, self.waited_us)}

    def is_ready(self) -> bool:
        return self.ready


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> FakeProcess:
    one = FakeProcess(0)

    def threads(_pids: Iterable[int]) -> dict[int, ThreadTimes]:
        return {2: ThreadTimes(0, one.referee_waited_us)}

    monkeypatch.setattr(process_tree, "threads", threads)
    return one


def test_waits_of_the_referee_during_a_reading_belong_to_the_time_after_it(
    process: FakeProcess,
) -> None:
    gauge = BotGauge(cast(IsolatedProcess, process))
    assert gauge.read().referee_waited_us == 0
    assert gauge.read().referee_waited_us == 7_000


def test_waits_of_threads_are_told_beside_pressure(process: FakeProcess) -> None:
    gauge = BotGauge(cast(IsolatedProcess, process))
    process.pressure_us, process.waited_us = 3_000, 9_000
    reading = gauge.read()
    assert (reading.usage.denied_us, reading.waited_us) == (3_000, 9_000)
    process.pressure_us = None
    assert gauge.read().usage.denied_us == 9_000


def test_where_the_wall_is_charged_nothing_is_denied(process: FakeProcess) -> None:
    process.pressure_us, process.waited_us = 3_000, 9_000
    reading = WallGauge(cast(IsolatedProcess, process)).read()
    assert (reading.usage.denied_us, reading.waited_us) == (0, 0)


def test_a_bot_that_was_not_denied_a_cpu_lately_is_not_waited_for(process: FakeProcess) -> None:
    gauge = BotGauge(cast(IsolatedProcess, process))
    gauge.read()
    assert not gauge.bot_is_ready()
    process.pressure_us = 20_000
    gauge.read()
    assert gauge.bot_is_ready()
    gauge.read()
    assert not gauge.bot_is_ready()
    process.pressure_us = None
    assert gauge.bot_is_ready()

"""List T: what a bot can do to the clocks.

Times are short where the bot is to lose by them and long where it is not; no outcome depends on how
fast the machine is. docs/dev/attacks.md has the table of cases; the arithmetic of clocks, of a host
that is busy and of late answers is tested to the microsecond in tests/referee.
"""

from __future__ import annotations

import pytest

from attacks.duels import hosting_in, second_try
from attacks.harness import Arena
from attacks.matches import HOSTILE, LIMITS, PATIENT, Played, attack
from deepsea_referee.sandbox.cgroup import hierarchies
from deepsea_rules.faults import Fault
from deepsea_rules.time_control import TimeControl
from helpers.tiers import daily
from host_load import busy_host

SHORT = TimeControl(200_000)
SOON_US = 100_000
"""So long a bot may still sleep over goodbye that has lost by the clock; then it is killed."""
MANY = LIMITS._replace(processes=40)
THREE_TIMEOUTS = [Fault.TIMEOUT] * 3


@pytest.mark.parametrize(
    "how",
    daily(
        ["never", "sleeps", "spins", "children", "threads", "drips", "stops"],
        ["children", "drips"],  # one sleeps in test_reports.py
    ),
)
def test_t01_t03_t04_t06_t11_whatever_takes_the_time_is_a_timeout(arena: Arena, how: str) -> None:
    played = attack(arena, "t01_time", how, control=SHORT, grace_us=SOON_US)
    assert played.kinds() == THREE_TIMEOUTS
    assert [report.forfeit for report in played.faults[0]] == [False, False, True]
    for report in played.faults[0]:
        assert report.us > SHORT.budget_us
        assert report.played == report.legal[0]
        assert f"{SHORT.budget_us / 1000} ms" in report.explanation()


# A bot has credit for what others on the machine use while it waits: here nobody does.
@pytest.mark.alone
def test_t10_many_small_overruns_use_up_the_bank(arena: Arena) -> None:
    control = TimeControl(50_000, 500_000)
    played = attack(arena, "t01_time", "drains", control=control, grace_us=SOON_US)
    assert played.kinds() == THREE_TIMEOUTS
    own = [one for one in played.games[0].decisions if one.seat == HOSTILE]
    overruns = [one.us - control.budget_us for one in own if one.fault is None]
    assert overruns
    assert sum(max(0, overrun) for overrun in overruns) <= control.bank_us


def test_t13_late_answers_are_never_taken_for_later_questions(arena: Arena) -> None:
    played = attack(arena, "t01_time", "late", control=SHORT)
    assert played.kinds() == [Fault.TIMEOUT] * 2
    assert not played.games[0].forfeits
    assert played.report == {"ended": ""}


# Without a sandbox each is in tests/referee/test_processes.py and test_server.py.
@pytest.mark.parametrize("how", daily(["never", "no_hello", "late 20"], ["late 20"]))
def test_t07_who_is_not_there_in_time_forfeits_and_the_game_goes_on(arena: Arena, how: str) -> None:
    played = attack(arena, "t07_start", *how.split(), start_limit_us=700_000)
    (report,) = played.faults[0]
    assert (report.fault, report.forfeit) == (Fault.START_TIMEOUT, True)


@pytest.mark.release  # so do all that attack nothing before a game
def test_t07_who_is_slow_but_in_time_plays(arena: Arena) -> None:
    assert attack(arena, "t07_start", "late", "0.3").kinds() == []


@pytest.mark.alone
@pytest.mark.parametrize("how", ["wakers", "idle"])
def test_t14_nobody_earns_time_by_threads_that_wait(arena: Arena, how: str) -> None:
    played = attack(arena, "t14_starves", how, control=SHORT, limits=MANY, grace_us=SOON_US)
    assert played.kinds() == THREE_TIMEOUTS


@pytest.mark.release
@pytest.mark.alone
@pytest.mark.parametrize("how", ["bursts", "sleeps"])
def test_t26_nobody_seems_to_starve_by_bursts_of_threads(arena: Arena, how: str) -> None:
    control, limits = TimeControl(500_000), LIMITS._replace(processes=64)
    with busy_host(2):
        played = attack(
            arena, "t26_bursts", how, "12", control=control, limits=limits, grace_us=SOON_US
        )
    assert played.kinds() == THREE_TIMEOUTS


@pytest.mark.skipif(not hierarchies().counts_cpu, reason="nobody counts what has ended here")
def test_t17_what_children_do_that_vanish_is_charged(arena: Arena) -> None:
    played = attack(arena, "t17_unseen", control=SHORT, limits=MANY, grace_us=SOON_US)
    assert played.kinds() == THREE_TIMEOUTS


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "control", "start_limit_us"),
    [
        ("engine", TimeControl(100_000), 60_000_000),
        ("thinker", TimeControl(500_000), 60_000_000),
        ("starter", PATIENT, 2_000_000),
    ],
)
def test_t15_who_burns_cpu_time_off_turn_costs_nobody_a_fault(
    arena: Arena, how: str, control: TimeControl, start_limit_us: int
) -> None:
    with arena.started("t15_burners", "20", "40", limits=MANY) as burners:
        assert burners.read_report() == {"burning": 20}
        victim = attack(arena, "v01_victims", how, control=control, start_limit_us=start_limit_us)
    assert victim.kinds() == []


def ponderer(arena: Arena, *, freeze: bool) -> Played:
    return attack(arena, "t05_ponders", freeze=freeze, pause_s=0.03, pauses=10)


@pytest.mark.alone
def test_t05_thinking_on_others_turns_is_measured_and_prevented_by_freezing(arena: Arena) -> None:
    free, frozen = ponderer(arena, freeze=False), ponderer(arena, freeze=True)
    assert free.kinds() == frozen.kinds() == []
    assert free.off_turn.share is not None
    assert frozen.off_turn.share is not None
    assert free.off_turn.share > 0.05
    assert frozen.off_turn.share < free.off_turn.share / 2


@pytest.mark.slow
@pytest.mark.alone
def test_t12_a_frozen_bot_is_on_the_clock_only_from_its_thaw(arena: Arena) -> None:
    # Two others think before it is its turn again: that is more than its own budget.
    control = TimeControl(500_000)
    played = attack(arena, "p00_no_attack", freeze=True, pause_s=0.26, pauses=4, control=control)
    assert played.kinds() == []


@pytest.mark.parametrize("how", daily(["sleeps", "exits"], ["exits"]))
def test_t18_no_game_is_played_again_on_a_deal_that_its_bots_have_seen(
    arena: Arena, how: str
) -> None:
    deals = second_try(arena, hosting_in(arena), how, every=200, games=14)
    assert len(deals.records) == 14
    assert len(deals.begun) >= 14
    assert deals.known == 0

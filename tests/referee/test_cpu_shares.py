"""Shares of the CPUs: equal, apart from each other, and of whole cores while there are enough."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deepsea_referee.sandbox import process_tree
from deepsea_referee.system import equal_shares
from deepsea_referee.system.linux import core_of, cpus_of


def apart(cpu: int) -> int:
    """Each CPU is a core."""
    return cpu


def paired(cpu: int) -> int:
    """CPUs 0 and 4 are threads of one core, 1 and 5 of another, and so on."""
    return cpu % 4


@pytest.mark.parametrize(
    ("workers", "cpus", "cores", "shares"),
    [
        (1, {0, 1}, apart, [[0, 1]]),
        (2, {0, 1}, apart, [[0], [1]]),
        (2, {3, 5, 9}, apart, [[3], [5]]),
        (2, range(4), apart, [[0, 1], [2, 3]]),
        (3, {0, 1}, apart, [[0, 1], [0, 1], [0, 1]]),
        (4, range(8), paired, [[0, 4], [1, 5], [2, 6], [3, 7]]),
        (2, {1, 4, 5}, paired, [[4], [1]]),
    ],
    ids=["one", "a CPU each", "one is left over", "two each", "too many", "cores", "half cores"],
)
def test_workers_have_equal_shares_of_what_this_process_may_use(
    workers: int, cpus: set[int], cores: object, shares: list[list[int]]
) -> None:
    assert callable(cores)
    assert [cpus_of(share, cpus, cores) for share in equal_shares(workers)] == shares


def test_each_cpu_has_a_core_on_this_machine() -> None:
    own = os.sched_getaffinity(0)
    assert all(0 <= core_of(cpu) <= cpu for cpu in own)
    assert core_of(1_000_000) == 1_000_000


def test_only_the_cpus_that_a_bot_can_use_show_whether_others_used_them(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text(
        "cpu  30 0 12 5000 7 0 1 3 0 0\n"
        "cpu0 10 0 4 2500 7 0 1 2 0 0\n"
        "cpu1 20 0 8 2500 0 0 0 1 0 0\n"
        "cpu10 90 0 0 0 0 0 0 0 0 0\n"
        "intr 1 2 3\n",
        encoding="ascii",
    )
    assert process_tree.host_cpu_us(None, str(stat)) == 46 * process_tree.TICK_US
    assert process_tree.host_cpu_us({0}, str(stat)) == 17 * process_tree.TICK_US
    assert process_tree.host_cpu_us({0, 1}, str(stat)) == 46 * process_tree.TICK_US

"""Equal shares of the CPUs, for workers that play side by side.

A game is a ping-pong between the referee and one bot at a time. Where both are on one CPU, nothing
has to wake another CPU for it, so N workers on N CPUs play nearly N times as many games.

Invariants: a share consists of CPUs that this process may use anyway; all are equally large, and no
CPU is in two of them; where there are more workers than CPUs, the kernel divides all among all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

_CPUS: Final = Path("/sys/devices/system/cpu")


class CpuShare(NamedTuple):
    """One of `of` equal shares; its number begins at 0."""

    number: int
    of: int


ALL_CPUS: Final = CpuShare(0, 1)


def equal_shares(workers: int) -> list[CpuShare]:
    """A share for each of so many workers."""
    return [CpuShare(number, workers) for number in range(workers)]


def cpus_of(share: CpuShare, cpus: Iterable[int], core_of: Callable[[int], int]) -> list[int]:
    """The CPUs of a share; those of one core stay together while shares have several.

    core_of  returns a number that the CPUs (hardware threads) of a core have in common
    """
    ordered = sorted(cpus, key=lambda cpu: (core_of(cpu), cpu))
    each = len(ordered) // share.of
    return ordered[each * share.number :][:each] or ordered


def core_of(cpu: int) -> int:
    """The lowest CPU of the same core, as the kernel lists them; `cpu` if it lists none."""
    with suppress(OSError, ValueError):
        # Like "0,4" or "0-1".
        listed = (_CPUS / f"cpu{cpu}/topology/thread_siblings_list").read_text(encoding="ascii")
        return int(listed.replace("-", ",").split(",")[0])
    return cpu

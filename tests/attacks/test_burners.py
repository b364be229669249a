"""Bots that burn the CPU while others are asked: honest bots lose neither games nor thinking time.

Each game has one honest bot at a short clock and one burner with dozens of children, both in the
sandbox and frozen outside of their turns.
"""

from __future__ import annotations

import statistics
from itertools import product

import pytest

from attacks.duels import HONEST, HOSTILE, Duel, burner, duel, honest, hosting_in
from attacks.harness import Arena
from deepsea_rules.faults import Fault, FaultReport
from helpers.tiers import daily

pytestmark = [pytest.mark.slow, pytest.mark.alone]

DECISIONS = 8
"""The honest one thinks in so many and then answers at once, so that a game ends soon."""
ATTEMPTS = 3
"""Where an outcome depends on what else the machine does, one of so many must be right."""


def game(arena: Arena, kind: str, how: str, number: int) -> Duel:
    """A game of an honest bot against a burner."""
    thinker = honest(arena.folder / f"honest-{number}", kind, DECISIONS)
    bots = (thinker, burner(arena, how))
    return duel(bots, hosting_in(arena), number)


# In every run each kind and each way: nothing else goes on meanwhile.
@pytest.mark.parametrize(
    ("kind", "how"),
    daily(
        product(("child process", "80 % of its budget"), ("turns", "forfeit")),
        [("child process", "forfeit"), ("80 % of its budget", "turns")],
    ),
)
def test_t16_who_thinks_has_no_fault_beside_a_burner(arena: Arena, kind: str, how: str) -> None:
    found: list[list[FaultReport]] = []
    for attempt in range(ATTEMPTS):
        played = game(arena, kind, how, attempt)
        faults = played.of(HONEST)  # a burner may be late by what its own children do
        found.append(faults)
        if how == "forfeit":
            assert [report.fault for report in played.of(HOSTILE)] == [Fault.TIMEOUT] * 3
        if not faults:
            return
    pytest.fail(f"beside a burner it had {found}")


def test_t16_who_thinks_by_a_wall_clock_has_nine_tenths_of_its_nodes(arena: Arena) -> None:
    # By its CPU time: how many nodes that is depends on what the other half of a core does.
    shares = []
    for attempt in range(ATTEMPTS):
        alone = game(arena, "wall clock", "quiet", 2 * attempt).thought_us
        beside = game(arena, "wall clock", "turns", 2 * attempt + 1).thought_us
        shares.append(statistics.median(beside) / statistics.median(alone))
        if shares[-1] >= 0.9:
            return
    pytest.fail(f"beside a burner it had {shares} of the CPU")


def test_t16_who_needs_long_to_start_starts_beside_a_burner(arena: Arena) -> None:
    assert game(arena, "slow start", "turns", 0).of(HONEST) == []

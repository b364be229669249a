"""Hostile bots that work together, and one that leaves others behind: an honest bot has no fault.

All are real processes in the sandbox, frozen outside of their turns, at a clock of 100 ms; the
honest one thinks in a child process.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from attacks.duels import HONEST, HOSTILE, Duel, duels, honest, hosting_in
from attacks.harness import Arena
from attacks.matches import hostile
from helpers.programs import processes_with

pytestmark = [pytest.mark.slow, pytest.mark.alone]

CHILDREN = "20"
SHUT = ("p17_never_reads", "700")
"""Has room for the start of a game, and not for a question behind it."""
STOPS = ("t01_time", "stops")
LATE = ("t01_time", "late")
BURNS = ("t16_burner", "turns", CHILDREN)
FORFEITS_AND_BURNS = ("t16_burner", "forfeit", CHILDREN)


def games(arena: Arena, gang: Sequence[Sequence[str]], number: int = 1) -> list[Duel]:
    """Games of an honest bot against others, of which nothing is left."""
    bots = [
        honest(arena.folder / "honest", "child process", 12),
        *(hostile(arena, *one) for one in gang),
    ]
    played = duels(bots, hosting_in(arena), range(number))
    for bot in bots:
        assert bot.folder is None or processes_with(str(bot.folder)) == []
    return played


@pytest.mark.parametrize(
    "gang",
    [
        pytest.param((SHUT, BURNS), id="shut burns", marks=pytest.mark.release),
        pytest.param((STOPS, BURNS), id="stops burns", marks=pytest.mark.release),
        pytest.param((LATE, SHUT, BURNS), id="late shut burns"),
        pytest.param((STOPS, SHUT, FORFEITS_AND_BURNS), id="stops shut forfeits"),
    ],
)
def test_t20_hostile_bots_together_cost_nobody_a_fault(
    arena: Arena, gang: Sequence[Sequence[str]]
) -> None:
    (played,) = games(arena, gang)
    assert played.of(HONEST) == []
    forfeited = {report.seat for report in played.faults if report.forfeit}
    assert {seat for seat, one in enumerate(gang, HOSTILE) if one in (SHUT, STOPS)} <= forfeited


@pytest.mark.parametrize("when", ["turn", "between"])
def test_t21_what_a_bot_leaves_at_its_exit_costs_nobody_a_fault(arena: Arena, when: str) -> None:
    played = games(arena, [("t21_exits", when, CHILDREN)], number=2)
    assert [one.of(HONEST) for one in played] == [[]] * 2
    if when == "turn":  # between games it is a matter of milliseconds who notices first
        assert all(one.faults[-1].forfeit for one in played)

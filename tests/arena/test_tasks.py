"""What a task comes to: whose trouble it was, and the time that a game may take."""

from __future__ import annotations

import errno
import os
from collections import Counter

import pytest
from msgspec.structs import replace

from deepsea_arena.tasks import (
    MOST_DECISIONS,
    HostTrouble,
    JobOutcome,
    VoidOutcome,
    game_seconds,
    outcome_of_error,
)
from deepsea_ladder.accounts import AuditKind
from deepsea_ladder.errors import StoreUnavailable
from deepsea_referee.errors import HostOutOfMemory, HostTooBusy, RefereeError
from deepsea_referee.sandbox.interface import SandboxUnavailable
from deepsea_rules import Game
from deepsea_rules.randomness import Stream, seed_from_text
from deepsea_rules.ruleset import PRESETS
from helpers import ladder


def no(number: int) -> OSError:
    """An error of the system."""
    return OSError(number, os.strerror(number))


def because(error: Exception, cause: Exception, *, said: bool = True) -> Exception:
    """An error that was raised while another was handled."""
    try:
        try:
            raise cause
        except Exception:  # noqa: BLE001
            if said:
                raise error from cause
            raise error from None
    except Exception as both:  # noqa: BLE001
        return both


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (no(errno.EMFILE), HostTrouble("OSError: [Errno 24] Too many open files")),
        (no(errno.ENOSPC), HostTrouble("OSError: [Errno 28] No space left on device")),
        (MemoryError(), HostTrouble("MemoryError:")),
        (SandboxUnavailable("no bwrap"), HostTrouble("no bwrap")),
        (StoreUnavailable("busy"), HostTrouble("StoreUnavailable: busy")),
        (because(RefereeError("cannot listen"), no(errno.EMFILE)), HostTrouble("cannot listen")),
        (
            because(RefereeError("it cannot be started"), no(errno.ENOMEM), said=False),
            HostTrouble("it cannot be started"),
        ),
        (
            ExceptionGroup("two", [ValueError("no"), no(errno.ENFILE)]),
            HostTrouble("ExceptionGroup: two (2 sub-exceptions)"),
        ),
        (HostTooBusy("too busy to start it", 5), HostTrouble("too busy to start it")),
        (
            HostTooBusy("too busy to time it", 5, 2),
            VoidOutcome("too busy to time it", 2, AuditKind.STARVED),
        ),
        (
            HostOutOfMemory("no memory"),
            VoidOutcome("no memory", shortage=AuditKind.OUT_OF_MEMORY),
        ),
        (RefereeError("an odd thing"), VoidOutcome("an odd thing")),
        (no(errno.EPERM), VoidOutcome("PermissionError: [Errno 1] Operation not permitted")),
        (ValueError("a mistake\nof ours"), VoidOutcome("ValueError: a mistake of ours")),
    ],
)
def test_whose_trouble_an_error_is(error: Exception, outcome: JobOutcome) -> None:
    assert outcome_of_error(error) == outcome


# The timeout of a rated game follows its clock


@pytest.mark.parametrize(
    ("clock", "seats", "seconds"),
    [
        ("1ms", 2, 120 + 2 * 360 * 0.001 + 3 * 10.001),
        ("100ms+2s", 4, 120 + 2 * (720 * 0.1 + 4 * 2) + 3 * 42),
        ("100ms+2s", 6, 120 + 2 * (1080 * 0.1 + 6 * 2) + 3 * 42),
        # An hour, whatever the clock, made such games void.
        ("10s+5m", 4, 120 + 2 * (720 * 10 + 4 * 300) + 3 * 20 * 310),
    ],
)
def test_a_game_has_the_time_that_its_clock_gives(clock: str, seats: int, seconds: float) -> None:
    season = replace(ladder.a_season(), clock=clock)
    assert game_seconds(season, seats) == pytest.approx(seconds)


@pytest.mark.parametrize("seats", [2, 6])
@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_no_seat_decides_more_often(preset: str, seats: int) -> None:
    """Bots that dive as long as they can, and ones that play by chance."""
    for number in range(10):
        seed = seed_from_text(f"game {number}")
        for choices in (1, 9):
            game, chance = Game(PRESETS[preset], seats, seed), Stream(seed, "choices")
            decisions: Counter[tuple[int, int]] = Counter()
            while (question := game.pending()) is not None:
                decisions[game.state.dive, question.seat] += 1
                legal = question.legal
                game.decide(legal[chance.uniform(min(choices, len(legal)))])
            assert max(decisions.values()) <= MOST_DECISIONS

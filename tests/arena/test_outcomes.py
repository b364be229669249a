"""Whose trouble it was: the game's, a seat's, or the machine's."""

from __future__ import annotations

import errno
import os

import pytest

from deepsea_arena.play.tasks import HostTrouble, Outcome, VoidOutcome, outcome_of
from deepsea_ladder.errors import StoreUnavailable
from deepsea_referee.errors import HostTooBusy, RefereeError
from deepsea_referee.sandbox.interface import SandboxUnavailable


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
        (HostTooBusy("too busy to time it", 5, 2), VoidOutcome("too busy to time it", 2)),
        (RefereeError("an odd thing"), VoidOutcome("an odd thing")),
        (no(errno.EPERM), VoidOutcome("PermissionError: [Errno 1] Operation not permitted")),
        (ValueError("a mistake\nof ours"), VoidOutcome("ValueError: a mistake of ours")),
    ],
)
def test_whose_trouble_an_error_is(error: Exception, outcome: Outcome) -> None:
    assert outcome_of(error) == outcome

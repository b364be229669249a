"""Retries while the store is busy or away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from deepsea_arena.play.shutdown import Stop, StopRequest
from deepsea_ladder.errors import StoreUnavailable

_T = TypeVar("_T")
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 30.0


def insist(
    call: Callable[[], _T],
    stop: Stop,
    report: Callable[[str], object],
    tries: int | None = None,
) -> _T:
    """Call the store, again and again while it is unavailable; every call may be repeated.

    tries  how often it is called at most; None is no limit
    Raises StoreUnavailable when leases are to be given back, and after the last try.
    """
    pause, reported, left = _FIRST_PAUSE, "", tries
    while True:
        try:
            return call()
        except StoreUnavailable as error:
            left = None if left is None else left - 1
            if stop.wish is StopRequest.HAND_BACK or left == 0:
                raise
            if reported != (reported := str(error)):
                report(f"{error}; trying again")
            stop.pause(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

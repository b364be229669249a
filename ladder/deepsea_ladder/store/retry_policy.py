"""How patient the store is.

Invariant: what is counted here never touches a rating; it decides what is tried again, and when
somebody has to look.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Numbers that an operator may choose."""

    failures: int = 5
    """A job that failed so often is quarantined: void games, refused results, dead workers."""
    strikes: int = 3
    """A bot that did not come, or crashed, in so many games in a row is disabled."""

"""The store's limits of retries.

Invariant: these counts never change a rating; they decide what is retried, and when the operator
must look.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Numbers that an operator may choose."""

    failures: int = 5
    """Failures after which a job is quarantined: void games, refused results, dead workers."""
    strikes: int = 3
    """Games in a row in which a bot did not start or crashed, after which it is disabled."""

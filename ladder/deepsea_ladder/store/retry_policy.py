"""The store's limits of retries and strikes.

Invariant: these counts never change a rating; they decide what is retried, who gets no more games,
and when the operator must look.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from deepsea_ladder.strikes import StrikeRules


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The limits; these are those of every ladder."""

    failures: int = 5
    """Failures after which a job is quarantined: void games, refused results, dead workers."""
    checks: int = 3
    """Checks without a verdict after which a submission has failed: void games, dead runners."""
    analyses: int = 3
    """Attempts without a result after which an analysis has failed: dead runners and workers."""
    strikes: StrikeRules = field(default_factory=StrikeRules)
    """When a bot is disabled."""

"""Comparisons of a version with others, and how they stand."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from deepsea_ladder.model.bots import BotVersion
from deepsea_ladder.model.tasks import TaskState
from deepsea_ladder.season import Season

Verdict = Literal["better", "worse", "level"]
"""Of the version against the other; level: they differ by no more than the season's margin."""


class ComparisonStanding(Struct, frozen=True, kw_only=True):
    """The figures of a comparison after some blocks."""

    blocks: int = 0
    lead: float = 0.0
    """Of the version in placement score, less the luck in it."""
    low: float = -1.0
    high: float = 1.0
    """The interval of the lead, with 95 % at all times together."""
    margin: float = 0.05
    """The largest difference that counts as none."""
    verdict: Verdict | None = None
    blocks_to_go: int | None = None
    """A guess; None with a verdict, and after a few blocks."""
    faults: int = 0
    """Faults of the version."""


class StoredComparison(Struct, frozen=True, kw_only=True):
    """A comparison as it stands."""

    version: BotVersion
    other: BotVersion
    panel: str
    """The name of the other in the panel; "" is a former version of the same bot."""
    seed: str
    """The text that `compare --seed` takes."""
    state: TaskState
    standing: ComparisonStanding
    cpu_ms: int
    reason: str
    changed_at: int

    @property
    def against(self) -> str:
        """What the other is called."""
        return self.panel or f"version {self.other.number}"


class ComparisonLease(Struct, frozen=True, kw_only=True):
    """A comparison of which its owner is to play some blocks now."""

    id: int
    owner: str
    attempt: int
    """The number of the lease, from 1."""
    season: Season
    versions: tuple[BotVersion, BotVersion]
    seed: str
    kept: tuple[bytes, ...]
    """The blocks that were played, as JSON, in order."""
    cpu_ms: int
    """The most CPU time to spend."""

    @property
    def label(self) -> str:
        """What it is called in messages."""
        return " against ".join(version.label for version in self.versions)

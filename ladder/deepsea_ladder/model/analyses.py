"""Analyses of games."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from deepsea_ladder.values import Int64, Time


class AnalysisState(StrEnum):
    """The state of an analysis of a game."""

    QUEUED = "queued"
    """It waits for a runner."""
    RUNNING = "running"
    """A runner has a lease to do it."""
    DONE = "done"
    FAILED = "failed"
    """It could not be done; it may be asked for again."""

    @property
    def is_final(self) -> bool:
        """Whether it stays so."""
        return self in (AnalysisState.DONE, AnalysisState.FAILED)


@dataclass(frozen=True, slots=True)
class AnalysisPlan:
    """How a game is analysed; another plan gives another result."""

    policy: str
    """The policy of the roll-outs, with its version."""
    settings: str
    """The settings, as a JSON object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAnalysis:
    """An analysis of a game as it stands, without what was found."""

    id: Int64
    game_id: str
    author: str
    """Who asked for it; "": somebody on the ladder's own machine."""
    state: AnalysisState
    ahead: int
    """Of one that waits: how many are done before it."""
    plan: AnalysisPlan
    """Of one that is done, what it was made by; else what was asked for."""
    reason: str
    """Why it failed, or waits again."""
    created_at: Time
    changed_at: Time


class GameAnalyses(NamedTuple):
    """What there is of a game."""

    done: StoredAnalysis | None
    """The newest one that has a result."""
    last: StoredAnalysis | None
    """The one that was asked for last, whatever became of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysisLease:
    """An analysis that its owner is to do now."""

    id: int
    game_id: str
    record: str
    settings: str
    owner: str
    attempt: int
    """The number of the lease, from 1."""

"""How the lead of a comparison changes as blocks come in.

Invariants: any number of blocks takes the same memory; points that are dropped leave even gaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

MOST_POINTS: Final = 400
"""Points of a lead that are kept; beyond that every second one is dropped, again and again."""


class LeadPoint(NamedTuple):
    """The mean lead after some blocks, and its interval."""

    blocks: int
    mean: float
    low: float
    high: float


class LeadHistory:
    """The lead of A over B as blocks come in, thinned out evenly."""

    def __init__(self, most: int = MOST_POINTS) -> None:
        self._most = most
        self._step = 1
        self._points: list[LeadPoint] = []
        self._last: LeadPoint | None = None

    def add(self, point: LeadPoint) -> None:
        """Add the lead after one more block."""
        self._last = point
        if point.blocks % self._step:
            return
        self._points.append(point)
        if len(self._points) >= self._most:
            self._step *= 2
            self._points = [kept for kept in self._points if kept.blocks % self._step == 0]

    @property
    def points(self) -> list[LeadPoint]:
        """In order; the newest one is always there."""
        newest = [self._last] if self._last and self._last not in self._points[-1:] else []
        return self._points + newest


@dataclass(frozen=True, slots=True)
class Lead:
    """The lead of A over B in placement score."""

    a: str
    b: str
    margin: float
    alpha: float
    points: Sequence[LeadPoint]

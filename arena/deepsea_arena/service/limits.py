"""The table of limits, as the server tells it and `ladder limits` prints it."""

from __future__ import annotations

from dataclasses import dataclass

from deepsea_arena.wire.json import Int64
from deepsea_ladder.remote_limits import RemoteLimits


@dataclass(frozen=True, slots=True)
class LimitLine:
    """One line of the table of limits."""

    name: str
    value: Int64
    unit: str
    about: str


@dataclass(frozen=True, slots=True)
class LimitTable:
    """The table."""

    limits: tuple[LimitLine, ...]


def limit_table(limits: RemoteLimits) -> LimitTable:
    """The table of these limits."""
    return LimitTable(
        tuple(LimitLine(one.name, Int64(one.value), one.unit, one.about) for one in limits.table())
    )

"""What a benchmark of the goals says: rows with a figure, a goal, and whether it is met.

Invariant: a figure that has a goal is a ratio of two things that were measured in the same run, or
a rate that the goal names as a number; rows without a goal are there to be compared with.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final, Literal, TypeAlias

Scale: TypeAlias = Literal["tiny", "full"]
"""`tiny` shows that a benchmark runs; its figures mean nothing."""

HEADS: Final = ("what", "measured", "ratio", "goal", "met")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    what: str
    measured: str
    """For people, with units."""
    ratio: float | None = None
    goal: str = ""
    met: bool | None = None
    figures: Mapping[str, float] = field(default_factory=dict)
    """For programs: everything that was measured, its unit in its name."""


def at_most(what: str, measured: str, ratio: float, limit: float, **figures: float) -> Row:
    """A ratio that is to be small."""
    return Row(what, measured, ratio, f"≤ {limit:g}", ratio <= limit, figures)


def at_least(what: str, measured: str, ratio: float, limit: float, **figures: float) -> Row:
    """A ratio that is to be large."""
    return Row(what, measured, ratio, f"≥ {limit:g}", ratio >= limit, figures)


def rate(what: str, per_second: float, wanted: int, **figures: float) -> Row:
    """How often a second something is done, with a goal that is a number."""
    shown, figures = f"{per_second:,.0f}/s", {"per_second": per_second, **figures}
    return Row(what, shown, per_second / wanted, f"≥ {wanted:,}/s", per_second >= wanted, figures)


def beside(what: str, measured: str, **figures: float) -> Row:
    """Something to compare with."""
    return Row(what, measured, figures=figures)


def median(values: Iterable[float]) -> float:
    """The median; of no values it is an error of the benchmark."""
    return statistics.median(values)


def as_json(rows: Sequence[Row]) -> list[dict[str, object]]:
    """The rows for programs."""
    return [asdict(row) for row in rows]


def table(rows: Sequence[Row]) -> str:
    """The rows for people, in Markdown."""
    lines = [HEADS, ("---",) * len(HEADS)]
    lines += [
        (
            row.what,
            row.measured,
            "" if row.ratio is None else f"{row.ratio:.2f}",
            row.goal,
            {True: "yes", False: "no", None: ""}[row.met],
        )
        for row in rows
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)

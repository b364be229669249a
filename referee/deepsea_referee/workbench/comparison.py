"""Statistics of a comparison of two bots, from blocks of games.

Invariants: one block is one observation, however many games it has; there may be a verdict after
every block, which the confidence sequences allow; every game counts as it was ranked, and faults
are reported separately, so that crashes are not mistaken for bad play; a luck-adjusted comparison
decides by the lead less the luck in it, a plain one by the lead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from deepsea_referee.results.summary import FaultKinds, GameResult
from deepsea_referee.workbench.confidence import (
    ALPHA,
    MARGIN,
    AdjustedSequence,
    ConfidenceSequence,
    Elo,
    elo_difference,
)
from deepsea_rules.printable import html_table
from deepsea_rules.scoring import placement_scores

if TYPE_CHECKING:
    from deepsea_sdk.coach.chance_sum import Luck

Verdict = Literal["A", "B", "same"]
FEWEST_TO_FORECAST = 10
LARGEST_LEAD = 50
"""The largest difference in points of a block; a larger one counts as this, real ones are far
smaller."""
LUCK_BOUND = 0.3
"""The largest luck of a block that a gambler takes off, in parts of the largest lead: more would
make bets smaller."""
MOST_POINTS = 400
"""Points of a lead that are shown, evenly thinned out."""


class Comparison:
    """The differences between bots A and B, block by block."""

    def __init__(
        self,
        line_ups: Sequence[Sequence[int]],
        ours: Sequence[int],
        theirs: Sequence[int],
        *,
        margin: float = MARGIN,
        alpha: float = ALPHA,
        luck_adjusted: bool = False,
    ) -> None:
        """`ours` and `theirs` are the bots in the line-ups that are copies of A and of B."""
        self._sides = (frozenset(ours), frozenset(theirs))
        self._margin = margin
        self._is_two_seats = all(len(line_up) == 2 for line_up in line_ups)
        bound = largest_lead(line_ups, *self._sides)
        self.placement = ConfidenceSequence(-bound, bound, alpha)
        self.adjusted = (
            AdjustedSequence(bound, LUCK_BOUND * bound, alpha) if luck_adjusted else None
        )
        """The lead in placement score less the luck in it."""
        self.points = ConfidenceSequence(-LARGEST_LEAD, LARGEST_LEAD, alpha)
        self.games = 0
        self.means = [[0.0, 0.0], [0.0, 0.0]]
        """Placement score and points of A, and of B."""
        self.faults: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        """The faults of A and of B by kind."""
        self.forfeits = [0, 0]
        self.fault_kinds = (FaultKinds(), FaultKinds())
        """The same ones counted together; their bot is 0 for A, 1 for B."""
        self.clean_blocks = 0
        """Blocks in which neither of the two was at fault,"""
        self._clean_sum = 0.0
        self._history: list[LeadPoint] = []
        """The deciding lead after each block."""

    def __repr__(self) -> str:
        return f"<Comparison, {self._facts}: A leads B by {' in '.join(_shown(self.deciding, 3))}>"

    def _repr_html_(self) -> str:
        """The table, for a notebook."""
        leads = (("placement score", self.placement, 3), ("points", self.points, 1))
        rows = [
            (what, *(f"{side[i]:.{digits}f}" for side in self.means), *_shown(lead, digits))
            for i, (what, lead, digits) in enumerate(leads)
        ]
        if self.adjusted is not None:
            rows.insert(1, ("without luck", "", "", *_shown(self.adjusted, 3)))
        return html_table(self._facts, ("", "A", "B", "difference", "interval"), rows)

    @property
    def _facts(self) -> str:
        words = {"A": "A is stronger", "B": "B is stronger", "same": "no difference"}
        return f"{self.blocks} blocks, {words.get(self.verdict or '', 'undecided')}"

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return self.placement.count

    @property
    def clean_mean(self) -> float | None:
        """and the mean difference in placement score in them."""
        return self._clean_sum / self.clean_blocks if self.clean_blocks else None

    @property
    def deciding(self) -> ConfidenceSequence:
        """The lead that the verdict is by."""
        return self.adjusted or self.placement

    @property
    def elo(self) -> Elo | None:
        """The deciding lead in Elo points, in games of two seats."""
        if not self._is_two_seats:
            return None
        return elo_difference(self.deciding.mean, self.deciding.interval)

    @property
    def is_just_decided(self) -> bool:
        """Whether one of the bots became the stronger one with the last block."""
        before = self._history[-2:-1]
        return self.verdict in ("A", "B") and all(point.low <= 0 <= point.high for point in before)

    def add(self, games: Sequence[GameResult], luck: Luck | None = None) -> None:
        """Count one block; `luck` is that of A in it, which a luck-adjusted comparison needs."""
        values: tuple[list[float], ...] = ([], [], [], [])
        clean = True
        for game in games:
            scores = placement_scores(game.placements)
            for side, bots in enumerate(self._sides):
                seats = [seat for seat, bot in enumerate(game.seats) if bot in bots]
                values[side].extend(scores[seat] for seat in seats)
                values[2 + side].extend(game.points[seat] for seat in seats)
                faults = [fault for fault in game.faults if fault.seat in seats]
                for fault in faults:
                    self.fault_kinds[side].add(game.game, side, fault)
                self.faults[side].update(
                    str(fault.fault) for fault in faults if fault.when != "absent"
                )
                self.forfeits[side] += sum(forfeit.seat in seats for forfeit in game.forfeits)
                clean = clean and not faults
        placed, placed_b, scored, scored_b = (sum(v) / len(v) for v in values)
        lead = scored - scored_b
        self.placement.add(placed - placed_b)
        if self.adjusted is not None:
            if luck is None:
                raise ValueError("a luck-adjusted comparison needs the luck of each block")
            self.adjusted.add(placed - placed_b, luck)
        self.points.add(max(-LARGEST_LEAD, min(LARGEST_LEAD, lead)))
        for mean, now in zip(self.means, ((placed, scored), (placed_b, scored_b)), strict=True):
            for i in range(2):
                mean[i] += (now[i] - mean[i]) / self.blocks
        self.games += len(games)
        if clean:
            self.clean_blocks += 1
            self._clean_sum += placed - placed_b
        self._history.append(LeadPoint(self.blocks, self.deciding.mean, *self.deciding.interval))

    @property
    def history(self) -> list[LeadPoint]:
        """The deciding lead as blocks came in, thinned out to MOST_POINTS; the newest is there."""
        step = -(-self.blocks // MOST_POINTS) or 1
        return self._history[(self.blocks - 1) % step :: step]

    @property
    def verdict(self) -> Verdict | None:
        """The verdict with confidence 1 - alpha; None while undecided."""
        if not self.blocks:
            return None
        interval = self.deciding.interval
        if interval.excludes_zero:
            return "A" if interval.low > 0 else "B"
        return "same" if interval.within(self._margin) else None

    @property
    def blocks_needed(self) -> int | None:
        """About how many blocks a verdict takes in all; None if there is one, or too few blocks.

        The interval narrows with the root of the blocks. It has to be narrow enough to leave out 0
        if the mean stays as it is, or to lie within the margin.
        """
        if self.blocks < FEWEST_TO_FORECAST or self.verdict is not None:
            return None
        low, high = self.deciding.interval
        mean = abs(self.deciding.mean)
        ratio = (high - low) / 2 / max(mean, self._margin - mean)
        return max(self.blocks + 1, round(self.blocks * ratio**2))


def _shown(lead: ConfidenceSequence, digits: int) -> tuple[str, str]:
    """The mean and the interval of a lead as text."""
    low, high = lead.interval
    return f"{lead.mean:+.{digits}f}", f"{low:+.{digits}f} to {high:+.{digits}f}"


def largest_lead(
    line_ups: Sequence[Sequence[int]], ours: Collection[int], theirs: Collection[int]
) -> float:
    """The largest difference in placement score that a block can have: one side before all."""
    best: list[float] = []
    worst: list[float] = []
    for line_up in line_ups:
        others = len(line_up) - 1
        best += [(others - i) / others for i in range(sum(bot in ours for bot in line_up))]
        worst += [i / others for i in range(sum(bot in theirs for bot in line_up))]
    return sum(best) / len(best) - sum(worst) / len(worst)


# How the lead changes as blocks come in


class LeadPoint(NamedTuple):
    """The mean lead after some blocks, and its interval."""

    blocks: int
    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Lead:
    """The lead of A over B in placement score."""

    a: str
    b: str
    margin: float
    alpha: float
    points: Sequence[LeadPoint]

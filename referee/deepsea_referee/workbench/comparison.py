"""Statistics of a comparison of two bots, from blocks of games.

Invariants: one block is one observation, however many games it has; there may be a verdict after
every block, which the confidence sequences allow; every game counts as it was ranked, and faults
are reported separately, so that crashes are not mistaken for bad play; a luck-adjusted comparison
decides by the lead less the luck in it, a plain one by the lead.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from deepsea_referee.summary import FaultGroups, GameResult
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
    from deepsea_sdk.coach.formula import LuckSums

Verdict = Literal["A", "B", "same"]
FEWEST_TO_FORECAST = 10
"""The number of blocks from which on the length of a comparison is forecast."""
LARGEST_LEAD = 50
"""The largest lead in points that a block can count for; real leads are far smaller."""
LUCK_BOUND = 0.3
"""The limit of the luck that is subtracted from a block's lead, as a share of the largest lead.

With a higher limit, the gamblers of the confidence sequence would have to bet less.
"""
MOST_POINTS = 400
"""The largest number of points of `Comparison.history`."""


class Comparison:
    """Statistics of the differences between bots A and B, to which blocks are added."""

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
        """Begin without blocks.

        line_ups       the games of a block, each with the index of the bot in each seat
        ours, theirs   the indices of the copies of A, and of the copies of B
        margin         the largest difference in placement score that counts as none
        alpha          the accepted probability of a wrong verdict
        luck_adjusted  True to decide by the lead minus the luck in it
        """
        self._sides = (frozenset(ours), frozenset(theirs))
        self._margin = margin
        self._is_two_seats = all(len(line_up) == 2 for line_up in line_ups)
        bound = largest_lead(line_ups, *self._sides)
        self.placement = ConfidenceSequence(-bound, bound, alpha)
        self.adjusted = (
            AdjustedSequence(bound, LUCK_BOUND * bound, alpha) if luck_adjusted else None
        )
        """The lead in placement score minus the luck in it; None in a plain comparison."""
        self.points = ConfidenceSequence(-LARGEST_LEAD, LARGEST_LEAD, alpha)
        self.games = 0
        self.means = [[0.0, 0.0], [0.0, 0.0]]
        """The mean placement score and the mean points of A, and of B."""
        self.faults: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        """The number of faults of each kind of A, and of B."""
        self.forfeits = [0, 0]
        """The number of forfeits of A, and of B."""
        self.fault_groups = (FaultGroups(), FaultGroups())
        """The faults of A, and of B, in groups of those that are alike."""
        """The faults of A and of B, combined where they are alike; the bot is 0 for A, 1 for B."""
        self.clean_blocks = 0
        """The number of blocks in which neither A nor B was at fault."""
        self._clean_sum = 0.0
        self._history: list[LeadPoint] = []
        """The deciding lead after each block."""

    def __repr__(self) -> str:
        mean, interval = _as_text(self.deciding, 3)
        return f"<Comparison, {self._facts}: A leads B by {mean} in {interval}>"

    def _repr_html_(self) -> str:
        """Return a table of the means of A and B and their differences as HTML, for a notebook."""
        (score_a, points_a), (score_b, points_b) = self.means
        heading = ("", "A", "B", "difference", "interval")
        rows = [
            ("placement score", f"{score_a:.3f}", f"{score_b:.3f}", *_as_text(self.placement, 3))
        ]
        if self.adjusted is not None:
            rows.append(("without luck", "", "", *_as_text(self.adjusted, 3)))
        rows.append(("points", f"{points_a:.1f}", f"{points_b:.1f}", *_as_text(self.points, 1)))
        return html_table(self._facts, heading, rows)

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
        """The mean lead in placement score in blocks without a fault of A or B; None if none."""
        return self._clean_sum / self.clean_blocks if self.clean_blocks else None

    @property
    def deciding(self) -> ConfidenceSequence:
        """The lead that decides: the luck-adjusted one if there is one, else the plain one."""
        return self.adjusted or self.placement

    @property
    def elo(self) -> Elo | None:
        """The deciding lead in Elo points; None unless all games have two seats."""
        if not self._is_two_seats:
            return None
        return elo_difference(self.deciding.mean, self.deciding.interval)

    @property
    def is_just_decided(self) -> bool:
        """Return True if the newest block has decided which bot is the stronger one.

        The interval of the lead excludes 0 then, and still included it before that block.
        """
        if self.verdict not in ("A", "B"):
            return False
        if len(self._history) < 2:
            return True
        previous = self._history[-2]
        return previous.low <= 0 <= previous.high

    def add(self, games: Sequence[GameResult], luck: LuckSums | None = None) -> None:
        """Add the games of one block, which count as a single observation.

        `luck` is the luck of A in the block; a luck-adjusted comparison needs it.
        """
        # Placement scores and points in all seats of A and of B.
        scores_of: tuple[list[float], list[float]] = ([], [])
        points_of: tuple[list[int], list[int]] = ([], [])
        is_clean = True
        for game in games:
            scores = placement_scores(game.placements)
            for side, bots in enumerate(self._sides):
                seats = [seat for seat, bot in enumerate(game.seats) if bot in bots]
                scores_of[side].extend(scores[seat] for seat in seats)
                points_of[side].extend(game.points[seat] for seat in seats)
                faults = [fault for fault in game.faults if fault.seat in seats]
                for fault in faults:
                    self.fault_groups[side].add(game.game, side, fault)
                self.faults[side].update(
                    str(fault.fault) for fault in faults if fault.when != "absent"
                )
                self.forfeits[side] += sum(forfeit.seat in seats for forfeit in game.forfeits)
                is_clean = is_clean and not faults
        score_a, score_b = (sum(scores) / len(scores) for scores in scores_of)
        points_a, points_b = (sum(points) / len(points) for points in points_of)
        lead, lead_in_points = score_a - score_b, points_a - points_b
        self.placement.add(lead)
        if self.adjusted is not None:
            if luck is None:
                raise ValueError("a luck-adjusted comparison needs the luck of each block")
            self.adjusted.add(lead, luck)
        self.points.add(max(-LARGEST_LEAD, min(LARGEST_LEAD, lead_in_points)))
        for means, values in zip(
            self.means, ((score_a, points_a), (score_b, points_b)), strict=True
        ):
            for i in range(2):
                means[i] += (values[i] - means[i]) / self.blocks
        self.games += len(games)
        if is_clean:
            self.clean_blocks += 1
            self._clean_sum += lead
        self._history.append(LeadPoint(self.blocks, self.deciding.mean, *self.deciding.interval))

    @property
    def history(self) -> list[LeadPoint]:
        """The deciding lead after each block, for a chart.

        With more than `MOST_POINTS` blocks, only every second one is in it, or every third one and
        so on. The last point is always that of the newest block.
        """
        step = max(1, math.ceil(self.blocks / MOST_POINTS))
        first = (self.blocks - 1) % step  # so that the newest block is a multiple of `step` away
        return self._history[first::step]

    @property
    def verdict(self) -> Verdict | None:
        """The verdict with confidence 1 - alpha; None while undecided.

        "A" or "B" is the stronger bot; "same" means that they differ by at most the margin.
        """
        if not self.blocks:
            return None
        interval = self.deciding.interval
        if interval.excludes_zero:
            return "A" if interval.low > 0 else "B"
        return "same" if interval.within(self._margin) else None

    @property
    def blocks_needed(self) -> int | None:
        """A forecast of the total number of blocks until the verdict.

        None if there is a verdict already, or if there are too few blocks for a forecast.
        """
        if self.blocks < FEWEST_TO_FORECAST or self.verdict is not None:
            return None
        low, high = self.deciding.interval
        half_width = (high - low) / 2
        mean = abs(self.deciding.mean)  # assumed to stay as it is
        # The verdict comes once the interval excludes 0 ("A" or "B"), or lies within the margin
        # ("same"), whichever allows the larger half width.
        sufficient_half_width = max(mean, self._margin - mean)
        # The half width falls with the square root of the number of blocks: for a half width that
        # is smaller by a factor, the square of that factor times as many blocks are needed.
        ratio = half_width / sufficient_half_width
        return max(self.blocks + 1, round(self.blocks * ratio**2))


def _as_text(lead: ConfidenceSequence, digits: int) -> tuple[str, str]:
    """Return the mean and the interval of a lead as two texts, with so many decimal digits."""
    low, high = lead.interval
    return f"{lead.mean:+.{digits}f}", f"{low:+.{digits}f} to {high:+.{digits}f}"


def largest_lead(
    line_ups: Sequence[Sequence[int]], ours: Collection[int], theirs: Collection[int]
) -> float:
    """Return the largest possible lead of one side in a block, in placement score.

    That is its lead if in all games its bots have the best placements, and those of the other side
    the worst ones.

    line_ups      the games of a block, each with the index of the bot in each seat
    ours, theirs  the indices of the bots of the two sides
    """
    our_best_scores: list[float] = []
    their_worst_scores: list[float] = []
    for line_up in line_ups:
        our_seats = sum(bot in ours for bot in line_up)
        their_seats = sum(bot in theirs for bot in line_up)
        # A placement score is the share of the other seats that are behind: 1 for the first place,
        # 0 for the last one.
        others = len(line_up) - 1
        our_best_scores += [(others - place) / others for place in range(our_seats)]
        their_worst_scores += [place / others for place in range(their_seats)]
    our_mean = sum(our_best_scores) / len(our_best_scores)
    their_mean = sum(their_worst_scores) / len(their_worst_scores)
    return our_mean - their_mean


# How the lead changes as blocks come in


class LeadPoint(NamedTuple):
    """The mean lead after a number of blocks, with its interval."""

    blocks: int
    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Lead:
    """The lead of A over B in placement score, for a chart."""

    a: str
    """The name of bot A."""
    b: str
    """The name of bot B."""
    margin: float
    alpha: float
    points: Sequence[LeadPoint]

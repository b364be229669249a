"""The luck of A in a block: how far dice and hidden values moved its lead over B.

Invariants: the games of a block are gone through together, since they have the same dice and the
same values; the mean of the luck is 0 for any bots that do not know the seed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from deepsea_referee.workbench.comparison import LUCK_BOUND, largest_lead
from deepsea_referee.workbench.paired_blocks import PlayedBlock
from deepsea_rules.record import replay
from deepsea_sdk.coach.chance_sum import Luck, chance_sum
from deepsea_sdk.coach.formula import VERSION, formula


class BlockLuck:
    """Measures the luck of A, in the placement score of a block's lead."""

    version = VERSION
    """What it measures by: other versions give other sums."""

    def __init__(
        self, line_ups: Sequence[Sequence[int]], ours: Collection[int], theirs: Collection[int]
    ) -> None:
        """`ours` and `theirs` are the bots in the line-ups that are copies of A and of B."""
        self._share = {
            bot: sign / sum(bot in side for line_up in line_ups for bot in line_up)
            for side, sign in ((ours, 1), (theirs, -1))
            for bot in side
        }
        self.bound = LUCK_BOUND * largest_lead(line_ups, ours, theirs)
        """The luck of a block is at most that, or at least minus that."""

    def of(self, played: PlayedBlock) -> Luck:
        """The luck of A in a block."""
        games = [
            (replay(record), [self._share.get(bot, 0.0) for bot in result.seats])
            for result, record in played
        ]
        return chance_sum(games, self.bound, formula)

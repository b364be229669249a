"""The rule that no process of a bot meets a seed twice, counted while games begin.

Invariants: a bot has a process for each game on one seed, numbered from 0: one process plays the
first games of all blocks, the next one the second games. So a bot that remembers all messages knows
nothing of future dice and values. Games on one seed begin soon after one another, in the order of a
match, so that only recent seeds have to be remembered.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

RECENT_SEEDS = 10_000
"""The number of seeds that are remembered; all games on a seed begin within some hundred games."""


class Meetings:
    """The number of games that the bots of a match have begun on each seed."""

    def __init__(self) -> None:
        self._counts: OrderedDict[bytes, dict[int, int]] = OrderedDict()

    def begin(self, seed: bytes, line_up: Sequence[int]) -> list[int]:
        """Count a game that begins, and return the earlier games on its seed of each seat's bot.

        A bot that the line-up has in several seats is counted once.
        """
        counts = self._counts.setdefault(seed, {})
        earlier = {bot: counts.get(bot, 0) for bot in line_up}
        for bot, games in earlier.items():
            counts[bot] = games + 1
        if len(self._counts) > RECENT_SEEDS:
            self._counts.popitem(last=False)
        return [earlier[bot] for bot in line_up]

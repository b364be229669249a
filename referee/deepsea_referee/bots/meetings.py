"""The rule that no process of a bot meets a seed twice, counted while games begin.

Invariants: a bot has a process for each game on one seed, numbered from 0: the first games of all
blocks are played by one, the second ones by the next. So a bot that remembers everything it was
sent knows nothing of dice and values that are to come. Games on one seed begin soon after one
another, in the order of a match, so that only the last seeds have to be remembered.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

RECENT_SEEDS = 10_000
"""Seeds that are remembered; the games on a seed begin within some hundred games."""


class Meetings:
    """The number of games that the bots of a match have begun on each seed."""

    def __init__(self) -> None:
        self._counts: OrderedDict[bytes, dict[int, int]] = OrderedDict()

    def begin(self, seed: bytes, line_up: Sequence[int]) -> list[int]:
        """Count a game that begins; returns how many games on its seed each seat's bot had before.

        A bot that is named for several seats sits in one of them, and has one game.
        """
        counts = self._counts.setdefault(seed, {})
        earlier = {bot: counts.get(bot, 0) for bot in line_up}
        for bot, games in earlier.items():
            counts[bot] = games + 1
        if len(self._counts) > RECENT_SEEDS:
            self._counts.popitem(last=False)
        return [earlier[bot] for bot in line_up]

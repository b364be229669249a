"""The tables of a match: which game begins when, and how many are on at once.

Invariants: a game counts once. Chosen tables give the games of one table: a game beside others
counts only if it had no fault and none of its decisions can have been longer than the budget; else
it is played again, alone. A fixed number of tables is kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from statistics import median_low
from typing import Final

from deepsea_sdk.refereed_game import PlayedGame

MOST: Final = 64
"""The most tables that are chosen; more save little, and any number may be fixed."""
FEWEST: Final = 8
"""The limit that is left where games beside others had to be played again many times."""
QUICK_US: Final = 1_000
"""A bot with a median decision of less than this answers at once."""
GAMES: Final = 4
"""The number of games after which there are twice or half as many tables."""


class Tables:
    """The games of a match on their way to its tables.

    numbers    of the games, in the order of play
    fixed      the number of tables; None to choose it
    budget_us  the budget of a decision
    """

    def __init__(self, numbers: Iterable[int], fixed: int | None, budget_us: int) -> None:
        self._numbers = iter(numbers)
        self._again: deque[int] = deque()
        self._beside: dict[int, int] = {}
        """For each game that is on, the most games that were on during it."""
        self._beside_all = 0
        """So many games at least were on during each of them."""
        self._fixed = fixed is not None
        self._allowed = fixed or 1
        self._limit = MOST
        """Halved each time that games had to be played again: the more tables, the more games."""
        self._budget_us = budget_us
        self._times: dict[str, list[int]] = {}
        """The times of each bot's decisions in the last games."""
        self._seen = 0
        """The number of these games."""
        self.most = 0
        """The most games that were on at once."""

    def take(self) -> int | None:
        """The number of a game that begins now; None if none may, or none is left."""
        if len(self._beside) >= self._allowed:
            return None
        number = self._again.popleft() if self._again else next(self._numbers, None)
        if number is not None:
            self._beside[number] = on = len(self._beside) + 1
            if on > self._beside_all:
                self._beside = {game: max(most, on) for game, most in self._beside.items()}
                self.most = max(self.most, on)
            self._beside_all = on
        return number

    def counts(self, number: int, played: PlayedGame | None) -> bool:
        """Whether a game that has ended counts; None for a void one. If not, it comes again."""
        if self._fixed:
            return True
        beside = self._beside[number]
        if beside > 1 and not (played and self._was_as_if_alone(played, beside)):
            self._again.append(number)
            if self._allowed > 1:  # those that end after it are no new reason
                self._limit = max(FEWEST, self._limit // 2)
            self._start_over()
            return False
        self._adapt(played)
        return True

    def leave(self, number: int) -> None:
        """Free the table of a game that has ended, once its result is taken care of."""
        del self._beside[number]

    def _was_as_if_alone(self, played: PlayedGame, beside: int) -> bool:
        if played.faults:
            return False
        # Alone, a decision took no longer than the message in which it was asked, nor than its
        # share of that time taken so many times as there may have been requests in the message.
        longest_us = max((decision.us for decision in played.record.decisions), default=0)
        return min(played.longest_us, longest_us * beside) <= self._budget_us

    def _adapt(self, played: PlayedGame | None) -> None:
        if played is None or played.faults:
            self._start_over()
            return
        names = [seat.name for seat in played.record.seats]
        for decision in played.record.decisions:
            self._times.setdefault(names[decision.seat], []).append(decision.us)
        self._seen += 1
        if self._seen >= GAMES and not self._again:
            quick = all(median_low(times) < QUICK_US for times in self._times.values())
            more, fewer = min(2 * self._allowed, self._limit), max(1, self._allowed // 2)
            self._allowed = more if quick else fewer
            self._seen = 0
            self._times.clear()

    def _start_over(self) -> None:
        self._allowed = 1
        self._seen = 0
        self._times.clear()

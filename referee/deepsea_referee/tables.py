"""The tables of a match: which game begins when, and how many are on at once.

Invariants: a game counts once. Chosen tables give the games of one table: a game beside others
that is void, or was lost with a process whose failure counts in another game, is played again:
once, alone, and on another deal, because bots have seen this one. Nothing else is a reason, so that
no bot gets a second try at a game that goes badly; a process fails beside other games once in a
match, since the others follow one by one. A fixed number of tables is kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from statistics import median_low

from deepsea_rules.faults import OF_ONE_GAME
from deepsea_rules.time_control import TimeControl
from deepsea_sdk.refereed_game import PlayedGame

MOST = 64
"""The most tables that are chosen; more save little, and any number may be fixed."""
QUICK_US = 1_000
"""A bot with a median decision of less than this answers at once."""
GAMES = 4
"""The number of games after which there are twice or half as many tables."""


class Tables:
    """The games of a match on their way to its tables.

    numbers  of the games, in the order of play
    fixed    the number of tables; None to choose it
    control  the clock of the games
    """

    def __init__(self, numbers: Iterable[int], fixed: int | None, control: TimeControl) -> None:
        self._games = ((number, 0) for number in numbers)
        self._again: deque[tuple[int, int]] = deque()
        self._beside: dict[int, int] = {}
        """For each game that is on, the most games that were on during it."""
        self._beside_all = 0
        """So many games at least were on during each of them."""
        self._fixed = fixed is not None
        self._allowed = fixed or 1
        self._limit = MOST
        """1 once a process failed beside other games, or may have failed alone."""
        self._failed: set[str] = set()
        """The bots whose process failed so."""
        self._limit_us = control.budget_us + control.bank_us
        self._times: dict[str, list[int]] = {}
        """The times of each bot's decisions in the last games."""
        self._seen = 0
        """The number of these games."""
        self.most = 0
        """The most games that were on at once."""

    def take(self) -> tuple[int, int] | None:
        """The number of a game that begins now, and which attempt at it this is, from 0.

        None if no game may begin, or none is left.
        """
        if len(self._beside) >= self._allowed:
            return None
        game = self._again.popleft() if self._again else next(self._games, None)
        if game is not None:
            self._beside[game[0]] = on = len(self._beside) + 1
            if on > self._beside_all:
                self._beside = {game: max(most, on) for game, most in self._beside.items()}
                self.most = max(self.most, on)
            self._beside_all = on
        return game

    def counts(self, number: int, played: PlayedGame | None) -> bool:
        """Whether a game that has ended counts; None for a void one. If not, it comes again."""
        if self._fixed:
            return True
        beside = self._beside[number]
        again = beside > 1 and (played is None or self._lost_elsewhere(played, beside))
        if again:
            self._again.append((number, 1))
        self._adapt(played)
        return not again

    def leave(self, number: int) -> None:
        """Free the table of a game that has ended, once its result is taken care of."""
        del self._beside[number]

    def _lost_elsewhere(self, played: PlayedGame, beside: int) -> bool:
        """Note the bots whose process failed; whether all these failures count elsewhere."""
        seats, faults = played.record.seats, played.faults
        failed = {seats[one.seat].name for one in faults if one.fault not in OF_ONE_GAME}
        # Alone, a decision took no longer than the message in which it was asked, nor than its
        # share of that time taken so many times as there may have been requests in the message.
        longest_us = max((decision.us for decision in played.record.decisions), default=0)
        if failed or min(played.longest_us, longest_us * beside) > self._limit_us:
            self._limit = self._allowed = 1
        counted = failed <= self._failed
        self._failed |= failed
        return bool(failed) and counted

    def _adapt(self, played: PlayedGame | None) -> None:
        if played is None or played.faults:
            self._allowed = 1
        else:
            names = [seat.name for seat in played.record.seats]
            for decision in played.record.decisions:
                self._times.setdefault(names[decision.seat], []).append(decision.us)
            self._seen += 1
            if self._seen < GAMES or self._again:
                return
            quick = all(median_low(times) < QUICK_US for times in self._times.values())
            more, fewer = min(2 * self._allowed, self._limit), max(1, self._allowed // 2)
            self._allowed = more if quick else fewer
        self._seen = 0
        self._times.clear()

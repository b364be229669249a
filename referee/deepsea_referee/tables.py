"""The tables of a match: the order in which games begin, and the number of games at once.

Invariants: a game counts once. If the referee chooses the number of tables, the results are those
of one table: a game that is void, or lost because its process failed in another game at the same
time, is played again: once, alone, and with other deals and dice, because bots have seen the first
ones. There is no other reason to play a game again, so that no bot gets a second try at a game that
goes badly. A process fails beside other games once in a match only, since all later games are
played one by one. A fixed number of tables never changes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from statistics import median_low

from deepsea_rules.faults import OF_ONE_GAME
from deepsea_rules.time_control import TimeControl
from deepsea_sdk.refereed_game import PlayedGame

MOST = 64
"""The largest number of tables that the referee chooses; more would save little time."""
QUICK_US = 1_000
"""The median time of a decision below which a bot is quick, so that more tables save time."""
GAMES = 4
"""The number of games after which the number of tables is doubled or halved."""


class Tables:
    """The games of a match, which are assigned to tables as tables become free.

    numbers  the numbers of the games, in the order of play
    fixed    the number of tables; None to choose it by the speed of the bots
    control  the clock of the games
    """

    def __init__(self, numbers: Iterable[int], fixed: int | None, control: TimeControl) -> None:
        self._games = ((number, 0) for number in numbers)
        self._repeats: deque[tuple[int, int]] = deque()
        """The games to play again, each with the number of the attempt."""
        self._games_at_once: dict[int, int] = {}
        """For each game in progress, the largest number of games in progress during it."""
        self._least_at_once = 0
        """A lower bound of the values of `_games_at_once`, to update them only when necessary."""
        self._is_fixed = fixed is not None
        self._tables = fixed or 1
        """The present number of tables."""
        self._limit = MOST
        """The largest number of tables: 1 after a failure that several games share, or might."""
        self._failed_bots: set[str] = set()
        """The names of the bots whose process has failed."""
        self._limit_us = control.budget_us + control.bank_us
        self._times_us: dict[str, list[int]] = {}
        """The times of each bot's decisions since the number of tables was last considered."""
        self._measured_games = 0
        """The number of games in `_times_us`."""
        self.most = 0
        """The largest number of games that were in progress at once."""

    def take(self) -> tuple[int, int] | None:
        """Return the number of the game that begins now, and the number of the attempt, from 0.

        Games to play again come first. Return None if no table is free, or no game remains.
        """
        if len(self._games_at_once) >= self._tables:
            return None
        game = self._repeats.popleft() if self._repeats else next(self._games, None)
        if game is not None:
            self._games_at_once[game[0]] = in_progress = len(self._games_at_once) + 1
            if in_progress > self._least_at_once:
                self._games_at_once = {
                    number: max(before, in_progress)
                    for number, before in self._games_at_once.items()
                }
                self.most = max(self.most, in_progress)
            self._least_at_once = in_progress
        return game

    def counts(self, number: int, played: PlayedGame | None) -> bool:
        """Return True if a game that has ended counts; otherwise queue it to be played again.

        If the number of tables is not fixed, it is adapted to how the game went.

        played  the game, or None if it is void
        """
        if self._is_fixed:
            return True
        at_once = self._games_at_once[number]
        repeat = at_once > 1 and (played is None or self._failed_with_other_game(played, at_once))
        if repeat:
            self._repeats.append((number, 1))
        self._choose_tables(played)
        return not repeat

    def leave(self, number: int) -> None:
        """Free the table of a game that has ended, once its result has been stored."""
        del self._games_at_once[number]

    def _failed_with_other_game(self, played: PlayedGame, at_once: int) -> bool:
        """Return True if a game was lost because of failures that count in another game already.

        It remembers the bots whose processes failed in the game. After a failure, or a decision
        that might have been a timeout in a game alone, all further games are played one by one.

        at_once  the largest number of games in progress during this one
        """
        seats, faults = played.record.seats, played.faults
        failed = {seats[report.seat].name for report in faults if report.fault not in OF_ONE_GAME}
        # A message may ask for decisions in several games, and each is charged its share of the
        # time. Two upper bounds of the time that a decision would have taken alone: the time of the
        # whole message, and its share times the largest number of requests in the message.
        longest_us = max((decision.us for decision in played.record.decisions), default=0)
        if failed or min(played.longest_us, longest_us * at_once) > self._limit_us:
            self._limit = self._tables = 1
        is_known = failed <= self._failed_bots
        self._failed_bots |= failed
        return bool(failed) and is_known

    def _choose_tables(self, played: PlayedGame | None) -> None:
        """Adapt the number of tables after a game, which is None if it is void.

        A void game or a fault leads to one table. Otherwise the number is considered again after
        every `GAMES` games: it is doubled if all bots are quick, and halved if not.
        """
        if played is None or played.faults:
            self._tables = 1
        else:
            names = [seat.name for seat in played.record.seats]
            for decision in played.record.decisions:
                self._times_us.setdefault(names[decision.seat], []).append(decision.us)
            self._measured_games += 1
            if self._measured_games < GAMES or self._repeats:
                return
            if all(median_low(times_us) < QUICK_US for times_us in self._times_us.values()):
                self._tables = min(2 * self._tables, self._limit)
            else:
                self._tables = max(1, self._tables // 2)
        self._measured_games = 0
        self._times_us.clear()

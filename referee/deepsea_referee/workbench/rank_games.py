"""Plays the games of a ranking: rounds of all bots, and duels of two of them.

Invariants: who sits where follows from the run's seed and the number of the round or duel alone; in
a round every bot has each seat once, with others that are equally likely to be any; in a duel one
of two bots sits with such others, and then the other bot on the same luck, with both exchanged
wherever they sit; all games of a round are on the same luck too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from deepsea_referee.errors import UserError
from deepsea_referee.results.summary import GameResult, MatchResult
from deepsea_referee.shared_match import run_match
from deepsea_referee.workbench.paired_blocks import GroupSettings, PlayedBlock, play_blocks
from deepsea_referee.workbench.ranking import DUEL_GAMES, Pair, Ranking
from deepsea_rules.randomness import Stream, shuffled
from deepsea_rules.ruleset import MAX_PLAYERS, MIN_PLAYERS

MOST_BOTS: Final = 64
USUAL_SEATS: Final = 4
DUELS_AT_ONCE: Final = 50
"""Duels of a pair before the widest interval is looked for again."""


@dataclass(frozen=True, slots=True)
class RankSettings(GroupSettings):
    """Rounds of all bots, or duels of a pair. Raises UserError for too many bots, or too few."""

    players: int = MIN_PLAYERS
    """The number of seats."""
    pair: Pair | None = None
    """Who plays duels; None: rounds."""

    def check_bots(self) -> None:
        bots, players = len(self.bots), self.players
        if not MIN_PLAYERS <= players <= MAX_PLAYERS:
            raise UserError(f"a game has {MIN_PLAYERS} to {MAX_PLAYERS} seats, not {players}")
        if bots < players:
            raise UserError(f"{players} seats need as many bots, not {bots}: name more bots")
        if bots > MOST_BOTS:
            raise UserError(f"a ranking is of at most {MOST_BOTS} bots, not {bots}")

    @property
    def size(self) -> int:
        return len(self.bots) if self.pair is None else DUEL_GAMES

    def line_up(self, game: int) -> tuple[int, ...]:
        number, place = self.block_of(game), (game - self.first_game) % self.size
        stream = Stream(self.seed, f"rank/{number}")
        circle = shuffled(range(len(self.bots)), stream.uniform)
        if self.pair is None:
            return tuple([circle[(place + seat) % self.size] for seat in range(self.players)])
        a, b = self.pair
        table = [bot for bot in circle if bot != a][: self.players - 1]
        table.insert(stream.uniform(self.players), a)
        exchanged = {a: b, b: a} if place else {}
        return tuple([exchanged.get(bot, bot) for bot in table])


def seats_for(bots: int, seats: int | None) -> int:
    """The number of seats: what was asked for, or as many as there are bots for, at most four."""
    return max(MIN_PLAYERS, min(USUAL_SEATS, bots)) if seats is None else seats


@dataclass(slots=True)
class RankGames:
    """The games of a ranking, from where they are on.

    settings       of rounds; its numbers of games are not used
    most           games at most
    until_decided  stop when all wanted pairs have a verdict
    next_block, next_game  the numbers that come next
    """

    settings: RankSettings
    ranking: Ranking
    most: int
    until_decided: bool = False
    next_block: int = 0
    next_game: int = 0
    _pair: Pair | None = None
    """Who played last, and"""
    _in_a_row: int = 0
    """how many duels in a row: so a run that goes on does as one that was not interrupted."""

    def count(self, number: int, results: Sequence[GameResult], pair: Sequence[int] | None) -> None:
        """Count a round, or a duel of a pair."""
        if pair is None:
            self._pair = None
            self.ranking.add_round(results)
        else:
            a, b = pair
            self._in_a_row = self._in_a_row + 1 if self._pair == (a, b) else 1
            self._pair = (a, b)
            self.ranking.add_duel(self._pair, results)
        self.next_block = max(self.next_block, number + 1)
        self.next_game = max(self.next_game, *(result.game for result in results))

    def play(
        self,
        on_group: Callable[[int, PlayedBlock, Pair | None], None],
        *,
        workers: int = 1,
        in_process: bool = False,
        play: Callable[..., MatchResult] = run_match,
    ) -> bool:
        """Play on to the end; returns whether Ctrl-C ended it before.

        on_group  receives the number and the games of each round, or duel of a pair, once they are
                  counted
        play      plays a match, as `shared_match.run_match` does
        Raises UserError for a bot that cannot be started or imported.
        """
        try:
            while (plan := self._next()) is not None:
                pair = plan.pair
                before = self.ranking.games

                def on_block(number: int, games: PlayedBlock, pair: Pair | None = pair) -> bool:
                    self.count(number, [result for result, _ in games], pair)
                    on_group(number, games, pair)
                    return self._is_enough(pair)

                if play_blocks(plan, on_block, workers=workers, in_process=in_process, play=play):
                    return True
                if self.ranking.games == before:
                    break  # every game was void
        except KeyboardInterrupt:  # between two matches
            return True
        return False

    def _is_enough(self, pair: Pair | None) -> bool:
        """Whether rounds, or duels of a pair, should end now."""
        if pair is not None:
            return self.ranking.verdict(*pair) is not None
        if self.ranking.next_duel() is not None:
            return True
        return self.until_decided and self.ranking.decided

    def _next(self) -> RankSettings | None:
        """What is to be played next."""
        if self.until_decided and self.ranking.decided:
            return None
        pair = self._next_pair()
        size = DUEL_GAMES if pair is not None else len(self.settings.bots)
        groups = (self.most - self.ranking.games) // size
        if pair is not None:
            groups = min(groups, DUELS_AT_ONCE - (self._in_a_row if pair == self._pair else 0))
        if groups < 1:
            return None
        return replace(
            self.settings,
            pair=pair,
            games=self.next_game + groups * size,
            first_block=self.next_block,
            first_game=self.next_game,
        )

    def _next_pair(self) -> Pair | None:
        """Who plays duels now; None for rounds."""
        pair = self._pair
        if pair is None or self.ranking.verdict(*pair) is not None:
            return self.ranking.next_duel()
        if self._in_a_row < DUELS_AT_ONCE:
            return pair
        self._pair = None
        return self.ranking.next_duel()

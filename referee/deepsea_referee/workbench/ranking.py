"""A ranking of many bots: its statistics, and its games, in rounds of all bots.

Invariants: a bot's strength is its mean placement score with random others of the bots that are
named, in a random seat; the difference of two strengths is the mean of what a round observes; a
round is one observation for each pair, however many games it has; all verdicts on all pairs are
right together, at all times, with probability 1 - alpha, because each pair has the same share of
alpha.

The seats of the bots follow from the run's seed and the number of the round alone. In a round every
bot has each seat once, all other bots are equally likely to be its opponents, and all games have
the same dice and chip values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Literal, NamedTuple

from deepsea_referee.errors import UserError
from deepsea_referee.shared_match import run_match_with_workers
from deepsea_referee.summary import FaultGroups, GameResult, MatchResult
from deepsea_referee.workbench.blocks import GroupSettings, PlayedBlock, play_blocks
from deepsea_referee.workbench.confidence import (
    ALPHA,
    MARGIN,
    Elo,
    Interval,
    PairSequence,
    elo_difference,
)
from deepsea_rules.randomness import Stream, shuffled
from deepsea_rules.ruleset import MAX_PLAYERS, MIN_PLAYERS, USUAL_PLAYERS
from deepsea_rules.scoring import placement_scores

if TYPE_CHECKING:
    from deepsea_referee.workbench.blocks import ComparisonFolder

Verdict = Literal["better", "worse", "level"]
Pair = tuple[int, int]
"""Two bots by their numbers, the lower one first."""

FEWEST_ROUNDS = 10
"""The number of rounds from which on the number of missing games is forecast."""
MOST_BOTS = 64
"""The largest number of bots in a ranking."""


class RankSet(NamedTuple):
    """The ranks that a bot may have: all from `first` to `last`."""

    first: int
    last: int


class Ranking:
    """Statistics of the strengths of many bots, with a verdict on each pair once it is certain.

    bots    the number of bots; they are numbered from 0
    alpha   the accepted probability that any verdict is wrong
    margin  the largest difference in placement score that counts as none
    top     decide only pairs of bots that may be among the first `top`; None decides all pairs
    """

    def __init__(
        self,
        bots: int,
        *,
        alpha: float = ALPHA,
        margin: float = MARGIN,
        top: int | None = None,
    ) -> None:
        self.bots = bots
        self._margin = margin
        self._top = bots if top is None else top
        share = alpha / max(1, bots * (bots - 1) // 2)  # the same for each pair
        self._pairs = {pair: PairSequence(share) for pair in combinations(range(bots), 2)}
        self._scores = [0.0] * bots
        self._points = [0.0] * bots
        self.rounds = 0
        self.games = 0
        self.faults = [0] * bots
        self.fault_groups = FaultGroups()
        """The faults of all bots, combined where they are alike."""

    # Counting

    def add_round(self, games: Sequence[GameResult]) -> None:
        """Add a round: games in which all bots play equally often.

        The difference of the mean scores of two bots in the round is one observation of the pair.
        """
        scores_of_bot: list[list[float]] = [[] for _ in range(self.bots)]
        points_of_bot: list[list[int]] = [[] for _ in range(self.bots)]
        for game in games:
            for bot, score, points in zip(
                game.seats, placement_scores(game.placements), game.points, strict=True
            ):
                scores_of_bot[bot].append(score)
                points_of_bot[bot].append(points)
        mean_scores = [sum(scores) / len(scores) for scores in scores_of_bot]
        mean_points = [sum(points) / len(points) for points in points_of_bot]
        for bot in range(self.bots):
            self._scores[bot] += mean_scores[bot]
            self._points[bot] += mean_points[bot]
        for (a, b), sequence in self._pairs.items():
            sequence.add(mean_scores[a] - mean_scores[b])
        self.rounds += 1
        self.games += len(games)
        self._count_faults(games)

    def _count_faults(self, games: Sequence[GameResult]) -> None:
        """Add the faults in these games to those of their bots.

        A game that a bot misses because it is not started any more is listed, but not counted.
        """
        for game in games:
            for fault in game.faults:
                bot = game.seats[fault.seat]
                if fault.when != "absent":
                    self.faults[bot] += 1
                self.fault_groups.add(game.game, bot, fault)

    # What is known

    def score(self, bot: int) -> float:
        """Return the mean placement score of a bot in all rounds; 0.5 before the first round."""
        return self._scores[bot] / self.rounds if self.rounds else 0.5

    def points(self, bot: int) -> float:
        """Return the mean points of a bot in all rounds; 0 before the first round."""
        return self._points[bot] / self.rounds if self.rounds else 0.0

    @property
    def order(self) -> list[int]:
        """The bots, sorted by score with the highest one first."""
        return sorted(range(self.bots), key=lambda bot: -self.score(bot))

    def interval(self, a: int, b: int) -> Interval:
        """Return the confidence interval of the strength of bot a minus that of bot b."""
        if a < b:
            return self._pairs[a, b].interval
        low, high = self._pairs[b, a].interval
        return Interval(-high, -low)

    def elo(self, a: int, b: int) -> Elo:
        """Return the strength of bot a minus that of bot b in Elo points, with its interval.

        It is meaningful for games of two seats only.
        """
        score_a, score_b = self.score(a), self.score(b)
        middle = (score_a + score_b) / 2
        return elo_difference(score_a - score_b, self.interval(a, b), middle, self.bots)

    def verdict(self, a: int, b: int) -> Verdict | None:
        """Return how bot a compares to bot b, or None while that is not certain."""
        interval = self.interval(a, b)
        if interval.excludes_zero:
            return "better" if interval.low > 0 else "worse"
        return "level" if interval.within(self._margin) else None

    def ranks(self, bot: int) -> RankSet:
        """Return the ranks that a bot may have, by the verdicts on its pairs so far."""
        verdicts = [self.verdict(bot, other) for other in range(self.bots) if other != bot]
        return RankSet(1 + verdicts.count("worse"), self.bots - verdicts.count("better"))

    @property
    def open_pairs(self) -> list[Pair]:
        """The pairs of bots that still need a verdict, those of the best bot first.

        In each pair the bot with the higher score is first. Pairs with a bot that is certainly not
        among the best `_top` bots are left out: they need no verdict.
        """
        possible_top_bots = [bot for bot in self.order if self.ranks(bot).first <= self._top]
        pairs = combinations(possible_top_bots, 2)
        return [(a, b) for a, b in pairs if self.verdict(a, b) is None]

    @property
    def decided(self) -> bool:
        """Return True if no pair needs a verdict any more."""
        return not self.open_pairs

    @property
    def counts(self) -> tuple[int, int]:
        """The number of pairs with a verdict, and the number of all pairs."""
        return sum(self.verdict(*pair) is not None for pair in self._pairs), len(self._pairs)

    def missing(self) -> Iterator[tuple[Pair, int | None]]:
        """Yield each open pair with a forecast of the number of games until its verdict.

        The forecast is for the pair alone, and None while there are too few rounds for one.
        """
        for a, b in self.open_pairs:
            sequence = self._pairs[min(a, b), max(a, b)]  # stored with the lower number first
            yield (a, b), self._games_missing(sequence)

    def _games_missing(self, sequence: PairSequence) -> int | None:
        """Forecast the number of games until the verdict on a pair.

        Return None while there are too few rounds for a forecast. The mean is assumed to stay as it
        is, while the distances of the interval's ends from it fall with the square root of the
        number of rounds.
        """
        if self.rounds < FEWEST_ROUNDS:
            return None
        mean, (low, high) = sequence.mean, sequence.interval
        if mean < 0:
            mean, low, high = -mean, -high, -low  # the pair the other way round
        # By what factor must the distances shrink? One bot is the stronger one once the lower end
        # is above 0.
        shrink_factor = (mean - low) / max(mean, 1e-9)
        if mean < self._margin:
            # The bots are equal once both ends are within the margin, which may come first.
            upper_factor = (high - mean) / (self._margin - mean)
            lower_factor = (mean - low) / (self._margin + mean)
            shrink_factor = min(shrink_factor, max(upper_factor, lower_factor))
        # That takes the square of the factor times as many games as were played; those not played
        # yet are missing. A round has as many games as there are bots.
        played_games = self.rounds * self.bots
        return max(1, round(played_games * (shrink_factor**2 - 1)))


# The games


@dataclass(frozen=True, slots=True)
class RankSettings(GroupSettings):
    """A match of rounds, in each of which all bots play."""

    kind = "rank"
    players: int = MIN_PLAYERS
    """The number of seats."""
    top: int | None = None
    """Decide only pairs of bots that may be among the first `top`; None decides all pairs."""

    def check_bots(self) -> None:
        """Raise UserError if the number of seats or of bots is too small or too large."""
        bots, seats = len(self.bots), self.players
        if not MIN_PLAYERS <= seats <= MAX_PLAYERS:
            raise UserError(f"a game has {MIN_PLAYERS} to {MAX_PLAYERS} seats, not {seats}")
        if bots < seats:
            raise UserError(f"{seats} seats need as many bots, not {bots}: name more bots")
        if bots > MOST_BOTS:
            raise UserError(f"a ranking is of at most {MOST_BOTS} bots, not {bots}")

    @property
    def size(self) -> int:
        """The number of games in a round: one for each bot in the first seat."""
        return len(self.bots)

    def line_up(self, game: int) -> tuple[int, ...]:
        """Return the bot in each seat of a game, by the number of the game from 0.

        In each round, the bots stand in a circle in random order. As many neighbours as there are
        seats play a game. The next game begins one bot further along the circle, so that every bot
        has each seat once.
        """
        round_number, start = divmod(game, self.size)
        random_stream = Stream(self.seed, f"rank/{round_number}")
        circle = shuffled(range(self.size), random_stream.uniform)
        return tuple([circle[(start + seat) % self.size] for seat in range(self.players)])

    def fields_to_match(self) -> dict[str, object]:
        """Return the settings, by name, that a ranking must share with its folder to continue.

        A digest identifies the files of a bot's program.
        """
        return {
            "bots": [bot.name for bot in self.bots],
            "programs": [bot.digest for bot in self.bots],
            **GroupSettings.fields_to_match(self),
        }


def seats_for(bots: int, seats: int | None) -> int:
    """Return `seats`, or if it is None the number of bots, but at most four."""
    return max(MIN_PLAYERS, min(USUAL_PLAYERS, bots)) if seats is None else seats


class RankGames:
    """The games of a ranking, which continues after the rounds that its folder has."""

    def __init__(self, settings: RankSettings, folder: ComparisonFolder | None = None) -> None:
        """Count the rounds of the folder; None is for a ranking that is not stored.

        The settings name the largest number of games. Raises UserError if a stored round has other
        games than the settings give it.
        """
        self.ranking = Ranking(
            len(settings.bots), alpha=settings.alpha, margin=settings.margin, top=settings.top
        )
        self._folder = folder
        done = settings.done
        for block in () if folder is None else folder.blocks:
            settings.check_stored_block(block)
            self.ranking.add_round(block.games)
            done = max(done, block.number + 1)
        self.settings = replace(settings, done=done)

    @property
    def left(self) -> int:
        """The largest number of games that are still to be played; 0 once all is decided."""
        return 0 if self._is_enough() else len(self.settings.blocks) * self.settings.size

    def play(
        self,
        on_round: Callable[[PlayedBlock], object],
        *,
        workers: int = 1,
        in_process: bool = False,
        play: Callable[..., MatchResult] = run_match_with_workers,
    ) -> bool:
        """Play the remaining rounds; return True if Ctrl-C interrupted them.

        on_round  receives the games of each round once they are counted
        play      plays a match, with the signature of `shared_match.run_match_with_workers`
        Raises UserError for a bot that cannot be started or imported.
        """

        def count_round(number: int, games: PlayedBlock) -> bool:
            """Count and store a round; return True to stop."""
            self.ranking.add_round([result for result, _record in games])
            if self._folder is not None:
                self._folder.add(number, games)
            on_round(games)
            return self._is_enough()

        if not self.left:
            return False
        return play_blocks(
            self.settings, count_round, workers=workers, in_process=in_process, play=play
        )

    def _is_enough(self) -> bool:
        """Return True if the ranking may stop early, since it is decided."""
        return self.settings.until_decided and self.ranking.decided

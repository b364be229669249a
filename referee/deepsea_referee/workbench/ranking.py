"""A ranking of many bots: its statistics, and its games, in rounds of all bots.

Invariants: a bot's strength is its mean placement score with random others of the bots that are
named, in a random seat; the difference of two strengths is the mean of what a round observes; a
round is one observation for each pair, however many games it has; all verdicts on all pairs are
right together, at all times, with probability 1 - alpha, because each pair has the same share of
alpha.

Who sits where follows from the run's seed and the number of the round alone; in a round every bot
has each seat once, with others that are equally likely to be any, and all its games are on the same
luck.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Literal, NamedTuple

from deepsea_referee.errors import UserError
from deepsea_referee.results.summary import FaultKinds, GameResult, MatchResult
from deepsea_referee.shared_match import run_match
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
    from deepsea_referee.workbench.folder import ComparisonFolder

Verdict = Literal["better", "worse", "level"]
Pair = tuple[int, int]
"""Two bots by their numbers, the lower one first."""

FEWEST_ROUNDS = 10
"""Rounds before anything is forecast."""
MOST_BOTS = 64


class RankSet(NamedTuple):
    """The ranks that a bot may have: `first` to `last`."""

    first: int
    last: int


class Ranking:
    """The order of some bots, as far as it is known.

    bots    how many there are; they are numbered from 0
    top     only the order among those that may be among the first so many is wanted; None: all
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
        share = alpha / max(1, bots * (bots - 1) // 2)
        self._pairs = {pair: PairSequence(share) for pair in combinations(range(bots), 2)}
        self._scores = [0.0] * bots
        self._points = [0.0] * bots
        self.rounds = 0
        self.games = 0
        self.faults = [0] * bots
        self.fault_kinds = FaultKinds()
        """The faults of all bots, to be explained."""

    # Counting

    def add_round(self, games: Sequence[GameResult]) -> None:
        """Count a round: games in which every bot sits equally often."""
        scores: list[list[float]] = [[] for _ in range(self.bots)]
        points: list[list[int]] = [[] for _ in range(self.bots)]
        for game in games:
            for bot, score, won in zip(
                game.seats, placement_scores(game.placements), game.points, strict=True
            ):
                scores[bot].append(score)
                points[bot].append(won)
        means = [sum(own) / len(own) for own in scores]
        self.rounds += 1
        for bot, mean in enumerate(means):
            self._scores[bot] += mean
            self._points[bot] += sum(points[bot]) / len(points[bot])
        for (a, b), sequence in self._pairs.items():
            sequence.add(means[a] - means[b])
        self.games += len(games)
        for game in games:
            for fault in game.faults:
                bot = game.seats[fault.seat]
                self.faults[bot] += fault.when != "absent"
                self.fault_kinds.add(game.game, bot, fault)

    # What is known

    def score(self, bot: int) -> float:
        """The mean placement score of a bot in the rounds; 0.5 before the first one."""
        return self._scores[bot] / self.rounds if self.rounds else 0.5

    def points(self, bot: int) -> float:
        """Its mean points in the rounds."""
        return self._points[bot] / self.rounds if self.rounds else 0.0

    @property
    def order(self) -> list[int]:
        """The bots, the one with the highest score first."""
        return sorted(range(self.bots), key=lambda bot: -self.score(bot))

    def interval(self, a: int, b: int) -> Interval:
        """The interval of the difference of two strengths, a's less b's."""
        if a < b:
            return self._pairs[a, b].interval
        low, high = self._pairs[b, a].interval
        return Interval(-high, -low)

    def elo(self, a: int, b: int) -> Elo:
        """The same in Elo points, for games of two seats."""
        mean, middle = self.score(a) - self.score(b), (self.score(a) + self.score(b)) / 2
        return elo_difference(mean, self.interval(a, b), middle, self.bots)

    def verdict(self, a: int, b: int) -> Verdict | None:
        """How a compares to b; None while that is open."""
        interval = self.interval(a, b)
        if interval.excludes_zero:
            return "better" if interval.low > 0 else "worse"
        return "level" if interval.within(self._margin) else None

    def ranks(self, bot: int) -> RankSet:
        """The ranks that the bot may have."""
        verdicts = [self.verdict(bot, other) for other in range(self.bots) if other != bot]
        return RankSet(1 + verdicts.count("worse"), self.bots - verdicts.count("better"))

    @property
    def open_pairs(self) -> list[Pair]:
        """The wanted pairs without a verdict, by order: the better bot's first."""
        wanted = [bot for bot in self.order if self.ranks(bot).first <= self._top]
        return [(a, b) for a, b in combinations(wanted, 2) if self.verdict(a, b) is None]

    @property
    def decided(self) -> bool:
        """Whether all wanted pairs have a verdict."""
        return not self.open_pairs

    @property
    def counts(self) -> tuple[int, int]:
        """How many pairs have a verdict, and how many there are."""
        return sum(self.verdict(*pair) is not None for pair in self._pairs), len(self._pairs)

    def missing(self) -> Iterator[tuple[Pair, int | None]]:
        """The open pairs, and about how many more games each of them takes by itself.

        None while there are too few rounds to tell.
        """
        for a, b in self.open_pairs:
            sequence = self._pairs[min(a, b), max(a, b)]
            yield (a, b), self._games_missing(sequence)

    def _games_missing(self, sequence: PairSequence) -> int | None:
        """The width of the interval falls with the root of the number of observations."""
        if self.rounds < FEWEST_ROUNDS:
            return None
        mean, (low, high) = sequence.mean, sequence.interval
        if mean < 0:
            mean, low, high = -mean, -high, -low
        # How many times too far from the mean the ends of the interval are: for 0 to be outside,
        # or all within the margin.
        ratio = (mean - low) / max(mean, 1e-9)
        if mean < self._margin:
            level = max((high - mean) / (self._margin - mean), (mean - low) / (self._margin + mean))
            ratio = min(ratio, level)
        return max(1, round(self.rounds * self.bots * (ratio**2 - 1)))


# The games


@dataclass(frozen=True, slots=True)
class RankSettings(GroupSettings):
    """Rounds of all bots. Raises UserError for too many bots, or too few."""

    kind = "rank"
    players: int = MIN_PLAYERS
    """The number of seats."""
    top: int | None = None
    """Decide only between bots that may be among the first so many; None: all."""

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
        return len(self.bots)

    def line_up(self, game: int) -> tuple[int, ...]:
        number, place = divmod(game, self.size)
        circle = shuffled(range(self.size), Stream(self.seed, f"rank/{number}").uniform)
        return tuple([circle[(place + seat) % self.size] for seat in range(self.players)])

    def asked(self) -> dict[str, object]:
        return {
            "bots": [bot.name for bot in self.bots],
            "programs": [bot.digest for bot in self.bots],
            **GroupSettings.asked(self),
        }


def seats_for(bots: int, seats: int | None) -> int:
    """The number of seats: what was asked for, or as many as there are bots for, at most four."""
    return max(MIN_PLAYERS, min(USUAL_PLAYERS, bots)) if seats is None else seats


class RankGames:
    """The games of a ranking: those that its folder has count, and it goes on from there.

    settings  with the largest number of games
    """

    def __init__(self, settings: RankSettings, folder: ComparisonFolder | None = None) -> None:
        self.ranking = Ranking(
            len(settings.bots), alpha=settings.alpha, margin=settings.margin, top=settings.top
        )
        self._folder = folder
        done = settings.done
        for block in () if folder is None else folder.blocks:
            settings.check_kept(block)
            self.ranking.add_round(block.games)
            done = max(done, block.number + 1)
        self.settings = replace(settings, done=done)

    @property
    def left(self) -> int:
        """The games that are still to be played, at most."""
        return 0 if self._is_enough() else len(self.settings.blocks) * self.settings.size

    def play(
        self,
        on_round: Callable[[PlayedBlock], object],
        *,
        workers: int = 1,
        in_process: bool = False,
        play: Callable[..., MatchResult] = run_match,
    ) -> bool:
        """Play on to the end; returns whether Ctrl-C ended it before.

        on_round  receives the games of each round once they are counted
        play      plays a match, as `shared_match.run_match` does
        Raises UserError for a bot that cannot be started or imported.
        """

        def count(number: int, games: PlayedBlock) -> bool:
            self.ranking.add_round([result for result, _ in games])
            if self._folder is not None:
                self._folder.add(number, games)
            on_round(games)
            return self._is_enough()

        if not self.left:
            return False
        return play_blocks(self.settings, count, workers=workers, in_process=in_process, play=play)

    def _is_enough(self) -> bool:
        return self.settings.until_decided and self.ranking.decided

"""A ranking of many bots: its statistics, and its games, in rounds of all bots and duels of two.

Invariants: a bot's strength is its mean placement score with random others of the bots that are
named, in a random seat; the difference of two strengths is the mean of what a round and of what a
duel observes, so one confidence sequence takes both; one round or duel is one observation, however
many games it has; all verdicts on all pairs are right together, at all times, with probability 1 -
alpha, because each pair has the same share of alpha.

Who sits where follows from the run's seed and the number of the round or duel alone; in a round
every bot has each seat once, with others that are equally likely to be any; in a duel one of two
bots sits with such others, and then the other bot on the same luck, with both exchanged wherever
they sit; all games of a round are on the same luck too.
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
from deepsea_referee.workbench.confidence import ALPHA, MARGIN, Interval, PairSequence
from deepsea_rules.randomness import Stream, shuffled
from deepsea_rules.ruleset import MAX_PLAYERS, MIN_PLAYERS, USUAL_PLAYERS
from deepsea_rules.scoring import placement_scores

if TYPE_CHECKING:
    from deepsea_referee.workbench.folder import ComparisonFolder

Verdict = Literal["better", "worse", "level"]
Pair = tuple[int, int]
"""Two bots by their numbers, the lower one first."""

DUEL_GAMES = 2
FEWEST_ROUNDS = 10
"""Rounds before anything is forecast, or left to duels."""
MOST_BOTS = 64
DUELS_AT_ONCE = 50
"""Duels of a pair before the widest interval is looked for again."""


class RankSet(NamedTuple):
    """The ranks that a bot may have: `first` to `last`."""

    first: int
    last: int


class Ranking:
    """The order of some bots, as far as it is known.

    bots    how many there are; they are numbered from 0
    top     only the order among those that may be among the first so many is wanted; None: all
    few     duels are for when at most so many of the wanted pairs are open; None: a quarter of the
            number of bots, 4 at most: with more open pairs, rounds say more about each of them
    """

    def __init__(
        self,
        bots: int,
        *,
        alpha: float = ALPHA,
        margin: float = MARGIN,
        top: int | None = None,
        few: int | None = None,
    ) -> None:
        self.bots = bots
        self._margin = margin
        self._top = bots if top is None else top
        self._few = max(1, min(4, bots // 4)) if few is None else few
        share = alpha / max(1, bots * (bots - 1) // 2)
        self._pairs = {pair: PairSequence(share) for pair in combinations(range(bots), 2)}
        self._scores = [0.0] * bots
        self._points = [0.0] * bots
        self.rounds = 0
        self.duels = 0
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
        self._count(games)

    def add_duel(self, pair: Pair, games: Sequence[GameResult]) -> None:
        """Count a duel: a game with the first bot, and the same with both bots exchanged."""
        one, other = games
        a, b = pair
        first = placement_scores(one.placements)
        second = placement_scores(other.placements)
        lead = first[one.seats.index(a)] - second[other.seats.index(b)]
        if b in one.seats:
            back = second[other.seats.index(a)] - first[one.seats.index(b)]
            lead = (lead + back) / 2
        self.duels += 1
        self._pairs[pair].add(lead, "duel")
        self._count(games)

    def _count(self, games: Sequence[GameResult]) -> None:
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

    def next_duel(self) -> Pair | None:
        """The pair that should play duels now; None for rounds.

        Of the open pairs that are neighbours in the order, or else of all, the one with the widest
        interval.
        """
        pairs = self.open_pairs
        if not 0 < len(pairs) <= self._few or self.rounds < FEWEST_ROUNDS:
            return None
        order = self.order
        neighbours = [(a, b) for a, b in pairs if order.index(b) == order.index(a) + 1]
        a, b = max(neighbours or pairs, key=lambda pair: _width(self.interval(*pair)))
        return (a, b) if a < b else (b, a)

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
        duels = sequence.kinds["duel"].count > 0
        games = sequence.worth("duel") * DUEL_GAMES if duels else self.rounds * self.bots
        return max(1, round(games * (ratio**2 - 1)))


def _width(interval: Interval) -> float:
    return interval.high - interval.low


# The games


@dataclass(frozen=True, slots=True)
class RankSettings(GroupSettings):
    """Rounds of all bots, or duels of a pair. Raises UserError for too many bots, or too few."""

    kind = "rank"
    players: int = MIN_PLAYERS
    """The number of seats."""
    top: int | None = None
    """Decide only between bots that may be among the first so many; None: all."""
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

    settings  of rounds, with the largest number of games
    """

    def __init__(self, settings: RankSettings, folder: ComparisonFolder | None = None) -> None:
        self.settings = settings
        self.ranking = Ranking(
            len(settings.bots), alpha=settings.alpha, margin=settings.margin, top=settings.top
        )
        self._folder = folder
        self._next_block = self._next_game = 0
        # Who played last, and how many duels in a row: so a run that goes on does as one that was
        # not interrupted.
        self._pair: Pair | None = None
        self._in_a_row = 0
        for block in () if folder is None else folder.blocks:
            self.count(block.number, block.games, block.pair)

    @property
    def left(self) -> int:
        """The games that are still to be played, at most."""
        return self.settings.games - self.ranking.games

    def count(self, number: int, results: Sequence[GameResult], pair: Sequence[int] | None) -> None:
        if pair is None:
            self._pair = None
            self.ranking.add_round(results)
        else:
            a, b = pair
            self._in_a_row = self._in_a_row + 1 if self._pair == (a, b) else 1
            self._pair = (a, b)
            self.ranking.add_duel(self._pair, results)
        self._next_block = max(self._next_block, number + 1)
        self._next_game = max(self._next_game, *(result.game for result in results))

    def play(
        self,
        on_group: Callable[[int, PlayedBlock, Pair | None], object],
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
                    if self._folder is not None:
                        self._folder.add(number, games, {} if pair is None else {"pair": pair})
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
        return self.settings.until_decided and self.ranking.decided

    def _next(self) -> RankSettings | None:
        """What is to be played next."""
        if self.settings.until_decided and self.ranking.decided:
            return None
        pair = self._next_pair()
        size = DUEL_GAMES if pair is not None else len(self.settings.bots)
        groups = self.left // size
        if pair is not None:
            groups = min(groups, DUELS_AT_ONCE - (self._in_a_row if pair == self._pair else 0))
        if groups < 1:
            return None
        return replace(
            self.settings,
            pair=pair,
            games=self._next_game + groups * size,
            first_block=self._next_block,
            first_game=self._next_game,
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

"""A final: a race that a bot leaves as soon as it is surely not among the best.

Invariants: what is known follows from the rotations of the tournament's season alone, in their
order, so that the page says what the tournament goes by; all that is said of any two bots is right
together with 95 %, however often it is looked at; that a bot is better than another means so in the
company in which both played, which is drawn from all that were left.

A bot's k-th rotation is compared with another's k-th one: by the mean placement score, which in a
rotation does not depend on seats.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Generic, TypeVar

from deepsea_ladder.rating.totals import SeatResult
from deepsea_ladder.scheduling.pairing import LineUp
from deepsea_ladder.scheduling.random_stream import RandomStream
from deepsea_ladder.scheduling.tournament import FINAL_GAMES, scores
from deepsea_ladder.standings import CONFIDENCE
from deepsea_referee.workbench.confidence import STEPS, PairSequence

if TYPE_CHECKING:
    from deepsea_ladder.model import BotVersion

_AT_ONCE = 60
"""About how many games are queued before it is looked at who leaves: workers should not wait."""


_Bot = TypeVar("_Bot")


@dataclass(frozen=True, slots=True)
class Leaver(Generic[_Bot]):
    """A bot that left a final, by the number of its version, or by its name."""

    bot: _Bot
    after_games: int
    """The games of the final until then."""
    behind: _Bot | None = None
    """A bot that is surely better, of several the one that is furthest ahead; None if it was
    taken out."""
    lead: float | None = None
    """By how much that one was ahead then, in placement score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalReport:
    """The state of a final."""

    top: int
    """The number of winners."""
    most_games: int
    confidence: float
    decided: bool
    """True if these are the winners; else they may be among them."""
    winners: tuple[str, ...]
    """The best first."""
    left: tuple[Leaver[str], ...]
    """The bots that left, in this order."""


class _Pair(PairSequence):
    """The evidence for the better of two bots: bets of PairSequence against no difference alone."""

    def __init__(self, alpha: float) -> None:
        super().__init__(alpha)
        self._first = self._last = STEPS // 2
        self.better = 0
        """1: the first, -1: the second, for good; 0: open."""

    def compare(self, value: float) -> None:
        """Add by how much the first one was ahead."""
        self.add(value)
        if not self.better:
            larger, smaller = self._larger[self._first], self._smaller[self._first]
            self.better = (larger >= self._limit) - (smaller >= self._limit)


class Race:
    """The bots that may still be among the best `top` of some."""

    def __init__(self, bots: Collection[int], top: int) -> None:
        share = (1 - CONFIDENCE) / max(1, len(bots) * (len(bots) - 1) // 2)
        self._pairs = {pair: _Pair(share) for pair in combinations(bots, 2)}
        self._rotations: dict[int, list[float]] = {bot: [] for bot in bots}
        self._better: dict[int, set[int]] = {bot: set() for bot in bots}
        """By bot those that are surely better."""
        self.top = top
        self.left = list(bots)
        self.gone: list[Leaver[int]] = []
        self.games = 0

    @property
    def decided(self) -> bool:
        return 0 < len(self.left) <= self.top

    @property
    def is_over(self) -> bool:
        """True if the final is decided, or nobody is left."""
        return len(self.left) <= self.top

    @property
    def champion(self) -> int | None:
        """The winner, if one was wanted and is known."""
        return self.left[0] if self.top == 1 and len(self.left) == 1 else None

    def add(self, games: Sequence[Sequence[SeatResult]]) -> None:
        """Count a rotation: the games of a table, with every bot once in every seat."""
        self.games += len(games)
        for score in scores(games):
            self._rotations[score.bot].append(score.share)
        for a, b in combinations(self.left, 2):
            pair = self._pairs[a, b]
            if pair.count < min(len(self._rotations[a]), len(self._rotations[b])):
                pair.compare(self._rotations[a][pair.count] - self._rotations[b][pair.count])
                if pair.better:
                    self._better[b if pair.better > 0 else a].add(a if pair.better > 0 else b)
        for bot in [bot for bot in self.left if len(self._better[bot]) >= self.top]:
            if not self.decided:
                lead, best = max((self._lead(other, bot), other) for other in self._better[bot])
                self._leave(Leaver(bot, self.games, best, lead))

    def take_out(self, bots: Collection[int]) -> None:
        """Let bots leave that were taken out."""
        for bot in [bot for bot in self.left if bot in bots]:
            self._leave(Leaver(bot, self.games))

    def _leave(self, leaver: Leaver[int]) -> None:
        self.left.remove(leaver.bot)
        self.gone.append(leaver)

    def _lead(self, bot: int, other: int) -> float:
        pair = self._pairs.get((bot, other))
        return -self._pairs[other, bot].mean if pair is None else pair.mean

    def places(self) -> dict[int, tuple[bool, float]]:
        """The sort key of each bot: those that are left by their scores, then who left last."""
        places: dict[int, tuple[bool, float]] = {}
        for bot in self.left:
            means = self._rotations[bot]
            places[bot] = False, -sum(means) / len(means) if means else 0.0
        places |= {one.bot: (True, -number) for number, one in enumerate(self.gone)}
        return places

    def order(self) -> list[int]:
        """The bots, the best first."""
        places = self.places()
        return sorted(places, key=places.__getitem__)

    def tables(self, seats: int, seed: bytes, most: int = FINAL_GAMES) -> list[LineUp]:
        """The next tables, drawn from all that are left: each bot at one or more in each round.

        most  the games that they may have together
        """
        players = min(seats, len(self.left))
        count = -(-len(self.left) // players)
        tables = []
        for number in range(max(1, round(_AT_ONCE / (count * players)))):
            circle = RandomStream(seed, f"final {self.games} {number}").shuffled(self.left)
            # Who begins the circle also fills its last table.
            circle += circle[: count * players - len(circle)]
            tables += [
                LineUp(tuple(circle[at : at + players])) for at in range(0, len(circle), players)
            ]
        return tables[: most // players]


def final_report(race: Race, most_games: int, versions: Mapping[int, BotVersion]) -> FinalReport:
    """The race as people read it."""
    return FinalReport(
        top=race.top,
        most_games=most_games,
        confidence=CONFIDENCE,
        decided=race.decided,
        winners=tuple(versions[bot].bot for bot in race.order()[: len(race.left)]),
        left=tuple(
            Leaver(
                versions[one.bot].bot,
                one.after_games,
                None if one.behind is None else versions[one.behind].bot,
                one.lead,
            )
            for one in race.gone
        ),
    )

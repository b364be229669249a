"""Chooses the next line-ups: pairing by match quality, without starvation.

Invariants: pure and seeded; a bot is due after an interval that depends on its uncertainty and is
limited by `patience`, and the bot that has been due for longest comes first, so that no bot
starves; every bot of a line-up plays once in every seat; two bots of one author meet only if the
season allows it; the bots of an author share the seats of one author, and the precedence of what is
little known ends where its author has had more, so that nobody gets more games by submitting again
and again, or the same bot many times.

Every line-up has an anchor, the bot that is due, and opponents from all bots, the likelier the more
a game tells. Where skills lie close that is nearly chance alone: opponents next to the anchor only
would carry the scale slowly through a large field.

Random numbers from a seed, for pairings and schedules.

Invariants: the same seed and label give the same numbers on every system; uniform for any range.
Number i is made from SHA-256(seed, label, i); games have a stream of their own in `deepsea_rules`.
"""

from __future__ import annotations

import hashlib
import heapq
from bisect import bisect_right
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from itertools import accumulate
from math import fsum, prod, sqrt
from typing import NamedTuple, TypeVar

from deepsea_ladder.errors import PairingError
from deepsea_ladder.gaussian import cdf
from deepsea_ladder.rating import Rating, RatingParameters
from deepsea_ladder.season import PairingSettings
from deepsea_ladder.standings import LEARNT
from deepsea_rules.randomness import shuffled

SAMPLE = 32
"""The number of bots that are drawn from all to choose opponents from."""
FAIR = 1.2
"""The precedence of an author's bots ends at so many fair shares of the seats of late; a fair share
is the same for every author."""
_T = TypeVar("_T")


class Candidate(NamedTuple):
    """A bot that may be given a game."""

    bot: int
    author: Hashable
    rating: Rating
    games: int = 0
    """Games that are in the rating."""
    pending: int = 0
    """Games that are scheduled and not yet in the rating."""
    waited: int = 0
    """Line-ups since its last one, or since it was submitted."""
    lately: int = 0
    """Seats that any versions of its author's bots had in the line-ups of late."""


class LineUp(NamedTuple):
    """Bots that play a rotation; in the order of the seats of its first game."""

    bots: tuple[int, ...]

    def seatings(self) -> list[tuple[int, ...]]:
        """The games of the rotation: every bot once in every seat."""
        return [self.bots[turn:] + self.bots[:turn] for turn in range(len(self.bots))]


def choose(
    candidates: Sequence[Candidate],
    seats: Sequence[int],
    settings: PairingSettings,
    parameters: RatingParameters,
    count: int,
    seed: bytes,
    met: Mapping[tuple[int, int], int] | None = None,
) -> list[LineUp]:
    """Choose the next `count` line-ups.

    seats  the sizes of tables; all sizes that can be filled are equally likely
    seed   any bytes; another seed for every call
    met    how often two bots met lately, lower id first; pairs that met less are preferred
    Raises `PairingError` if no table can be filled.
    """
    if len({candidate.bot for candidate in candidates}) != len(candidates):
        raise PairingError("one bot is a candidate twice")
    available = len(candidates)
    if not settings.same_author:
        available = len({candidate.author for candidate in candidates})
    sizes = table_sizes(available, seats, settings)
    return _Hall(candidates, sizes, settings, parameters, RandomStream(seed, "pairing"), met).fill(
        count
    )


def table_sizes(available: int, seats: Sequence[int], settings: PairingSettings) -> list[int]:
    """The sizes of tables that can be filled, ascending; raises `PairingError` if there is none.

    available  the bots that get games, or their authors if those may not meet themselves
    """
    sizes = sorted({size for size in seats if 2 <= size <= available})
    if not sizes:
        what = "bots" if settings.same_author else "bots of different authors"
        raise PairingError(
            f"the smallest game needs {min(seats)} {what} and there are {available}; submit more"
            + ("" if settings.same_author else ", or open a season with --same-author")
        )
    return sizes


class _Hall:
    """The candidates while line-ups are made of them; indices into `candidates` throughout."""

    def __init__(
        self,
        candidates: Sequence[Candidate],
        sizes: list[int],
        settings: PairingSettings,
        parameters: RatingParameters,
        chance: RandomStream,
        met: Mapping[tuple[int, int], int] | None,
    ) -> None:
        self.candidates = candidates
        self.sizes = sizes
        self.settings = settings
        self.chance = chance
        self.now = 0
        self.games = [candidate.games + candidate.pending for candidate in candidates]
        self.beta_squared = parameters.beta * parameters.beta
        self.gain = LEARNT / self.beta_squared
        self.variance = [
            1.0 / (1.0 / (c.rating.sigma * c.rating.sigma) + self.gain * c.pending)
            for c in candidates
        ]
        everyone = range(len(candidates))
        self.had = {candidate.author: candidate.lately for candidate in candidates}
        self.seats = sum(self.had.values())
        by_author: dict[Hashable, list[int]] = {author: [] for author in self.had}
        self.siblings = [by_author[candidate.author] for candidate in candidates]
        for i, siblings in enumerate(self.siblings):
            siblings.append(i)
        self.authors = list(by_author.values())
        sigmas = sorted(
            fsum(sqrt(self.variance[i]) for i in bots) / len(bots) for bots in self.authors
        )
        self.usual_sigma = fsum(sigmas) / len(sigmas)
        self.median_sigma = sigmas[len(sigmas) // 2]
        self.met: Counter[tuple[int, int]] = Counter()
        index = {candidate.bot: i for i, candidate in enumerate(candidates)}
        for (one, other), times in (met or {}).items():
            if one in index and other in index:
                self.met[self._pair(index[one], index[other])] += times
        self.last = [-candidate.waited for candidate in candidates]
        self.due = [self._due(i) for i in everyone]
        # Of those who are due at once, the one with the least known comes first.
        self.queue = [(self.due[i], -self.variance[i], i) for i in everyone]
        heapq.heapify(self.queue)

    def _has_precedence(self, i: int) -> bool:
        """Whether its author's bots had so few of the seats of late that less known ones of them
        come first."""
        fair = self.seats / len(self.authors)
        first = self.settings.provisional_games / self.sizes[0]  # what a newcomer needs
        return self.had[self.candidates[i].author] < FAIR * fair + first

    def _sigma(self, i: int) -> float:
        """The bot's uncertainty, no more than most authors' where that gives no precedence."""
        sigma = sqrt(self.variance[i])
        return sigma if self._has_precedence(i) else min(sigma, self.median_sigma)

    def fill(self, count: int) -> list[LineUp]:
        line_ups = []
        for _ in range(count):
            self.now += 1
            size = self.sizes[self.chance.below(len(self.sizes))]
            members = self._company(size)
            for i in members:
                self._played(i, size)
            for i in members:
                for j in members:
                    if i < j:
                        self.met[self._pair(i, j)] += 1
            bots = [self.candidates[i].bot for i in members]
            line_ups.append(LineUp(tuple(self.chance.shuffled(bots))))
        return line_ups

    def _due(self, i: int) -> float:
        """When the bot has to be an anchor: the less is known of it, the sooner; the more bots its
        author has, the later."""
        if self.settings.lacking(self.games[i]) and self._has_precedence(i):
            return float(self.last[i])
        turn = len(self.authors) * len(self.siblings[i]) / self.sizes[0]
        interval = turn * self.usual_sigma / self._sigma(i)
        return self.last[i] + min(interval, self.settings.patience * turn)

    def _anchor(self) -> int:
        while True:
            due, _, i = heapq.heappop(self.queue)
            if due == self.due[i]:  # else it has played since that was written
                return i

    def _played(self, i: int, games: int) -> None:
        self.games[i] += games
        self.variance[i] = 1.0 / (1.0 / self.variance[i] + self.gain * games)
        self.last[i] = self.now
        self.had[self.candidates[i].author] += 1
        self.seats += 1
        self.due[i] = self._due(i)
        heapq.heappush(self.queue, (self.due[i], -self.variance[i], i))

    def _pair(self, i: int, j: int) -> tuple[int, int]:
        """The key in `met` of two bots; the same for all bots of two authors, unless authors meet
        themselves: among an author's many bots there are always some that have met nobody."""
        if not self.settings.same_author:
            i, j = self.siblings[i][0], self.siblings[j][0]
        return (i, j) if i < j else (j, i)

    def _company(self, size: int) -> list[int]:
        """An anchor and its opponents."""
        members = [self._anchor()]
        pool: dict[int, float] = {}
        while len(members) < size:
            newest = members[-1]
            # Who may still join, and how much there is to learn from it at this table.
            pool = {
                i: appeal * self._appeal(newest, i)
                for i, appeal in pool.items()
                if self._may_meet(newest, i)
            }
            if not pool:
                pool = {
                    i: share
                    * (self.now - self.last[i])
                    * self._sigma(i)
                    * prod(self._appeal(member, i) for member in members)
                    for i, share in self._drawn_from_all(members).items()
                }
            members.append(self._drawn(pool))
        return members

    def _may_meet(self, i: int, j: int) -> bool:
        if self.settings.same_author:
            return i != j
        return self.candidates[i].author != self.candidates[j].author

    def _drawn_from_all(self, members: list[int]) -> dict[int, float]:
        """Bots that fit, with equal shares of authors; at least one, as sizes are possible."""

        def fits(i: int) -> bool:
            return all(self._may_meet(member, i) for member in members)

        if len(self.candidates) > SAMPLE:
            drawn = [self._of(self._of(self.authors)) for _ in range(SAMPLE)]
            if found := {i: 1.0 for i in drawn if fits(i)}:
                return found
        everyone = range(len(self.candidates))
        return {i: 1.0 / len(self.siblings[i]) for i in everyone if fits(i)}

    def _of(self, items: Sequence[_T]) -> _T:
        return items[self.chance.below(len(items))]

    def _appeal(self, i: int, j: int) -> float:
        """How much a game of the two tells: the more open and the rarer, the more.

        Cubed, because milder preferences helped less where skills are wide: docs/rating.md.
        """
        spread = self.variance[i] + self.variance[j] + 2.0 * self.beta_squared
        p = cdf((self.candidates[i].rating.mu - self.candidates[j].rating.mu) / sqrt(spread))
        tells = p * (1.0 - p) / (1.0 + self.met[self._pair(i, j)])
        return tells * tells * tells

    def _drawn(self, pool: dict[int, float]) -> int:
        """One of the pool, by its appeal."""
        sums = list(accumulate(pool.values()))
        index = bisect_right(sums, self.chance.unit() * sums[-1])
        return list(pool)[min(index, len(sums) - 1)]


T = TypeVar("T")
_WORD = 2**64


class RandomStream:
    """An endless stream of numbers; `seed` is any bytes, `label` names their purpose."""

    def __init__(self, seed: bytes, label: str) -> None:
        self._start = hashlib.sha256(hashlib.sha256(seed).digest() + label.encode())
        self._index = 0

    def _word(self) -> int:
        number = self._start.copy()
        number.update(self._index.to_bytes(8))
        self._index += 1
        return int.from_bytes(number.digest()[:8])

    def below(self, n: int) -> int:
        """A number from 0 to n - 1."""
        fair = _WORD - _WORD % n
        while (word := self._word()) >= fair:
            pass
        return word % n

    def unit(self) -> float:
        """A number from 0 up to, but never, 1."""
        return (self._word() >> 11) / 2.0**53

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in a random order."""
        return [items[i] for i in shuffled(range(len(items)), self.below)]

"""The choice of the next line-ups by match quality, so that no bot starves.

Start reading at `choose`. Every line-up has an anchor, the bot that is due, and opponents that are
drawn from all bots, with a greater probability for those against whom a game tells more. Where
skills lie close, the draw is nearly uniform: if only neighbours met, differences of skill would
travel slowly through a large field.

Invariants: pure and seeded. A bot is due after an interval that depends on its uncertainty and is
limited by `patience`, and the bot that has been due for longest comes first, so that no bot
starves. Every bot of a line-up plays once in every seat. Two bots of one author meet only if the
season permits it. All bots of an author share the seats of one author, and bots with few games
take precedence only until their author has had more than a fair share of seats: nobody gets more
games by submitting often, or by submitting the same bot many times.

`RandomStream` gives the random numbers of pairings and schedules: the same seed and label give the
same numbers on every system. Games have random numbers of their own in `deepsea_rules`.
"""

from __future__ import annotations

import hashlib
import heapq
from bisect import bisect_right
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from itertools import accumulate, combinations
from math import fsum, prod, sqrt
from typing import NamedTuple, TypeVar

from deepsea_ladder.errors import PairingError
from deepsea_ladder.gaussian import cdf
from deepsea_ladder.rating import Rating, RatingParameters
from deepsea_ladder.season import PairingSettings
from deepsea_ladder.standings import LEARNT
from deepsea_rules.randomness import shuffled

SAMPLE = 32
"""The number of bots that are drawn at random, from which an opponent is then chosen by appeal."""
FAIR_SHARES = 1.2
"""The fair shares of the recent seats that an author may have before its bots lose precedence. A
fair share is the number of recent seats divided by the number of authors."""
_T = TypeVar("_T")


class Candidate(NamedTuple):
    """A version of a bot that may be given a game."""

    version_id: int
    author: Hashable
    rating: Rating
    games: int = 0
    """Games that are in the rating."""
    pending: int = 0
    """Games that are scheduled and not yet in the rating."""
    waited: int = 0
    """Line-ups since the bot's last one, or since it was submitted."""
    recent_seats: int = 0
    """Seats that all versions of the author's bots had in the recent line-ups."""


class LineUp(NamedTuple):
    """Versions of bots that play a rotation, in the order of the seats of its first game."""

    version_ids: tuple[int, ...]

    def seatings(self) -> list[tuple[int, ...]]:
        """Return the games of the rotation, in which every bot plays once in every seat."""
        return [
            self.version_ids[turn:] + self.version_ids[:turn]
            for turn in range(len(self.version_ids))
        ]


def choose(
    candidates: Sequence[Candidate],
    seats: Sequence[int],
    settings: PairingSettings,
    parameters: RatingParameters,
    count: int,
    seed: bytes,
    meetings: Mapping[tuple[int, int], int] | None = None,
) -> list[LineUp]:
    """Choose the bots of the next `count` line-ups, each of which plays a rotation of games.

    seats     the numbers of bots that a table may have; all that can be filled are equally likely
    seed      any bytes; another seed for every call
    meetings  how often two versions met in recent line-ups, by their ids, the lower one first;
              pairs that met less are preferred
    Raises `PairingError` if no table can be filled.
    """
    if len({candidate.version_id for candidate in candidates}) != len(candidates):
        raise PairingError("one bot is a candidate twice")
    if settings.same_author:
        available = len(candidates)
    else:  # only one bot of each author can sit at a table
        available = len({candidate.author for candidate in candidates})
    sizes = table_sizes(available, seats, settings)
    stream = RandomStream(seed, "pairing")
    return _LineUpMaker(candidates, sizes, settings, parameters, stream, meetings).make(count)


def table_sizes(available: int, seats: Sequence[int], settings: PairingSettings) -> list[int]:
    """Return the sizes of tables that can be filled, ascending.

    available  the largest number of bots that can play together: that of all bots, or that of their
               authors if bots of one author may not meet
    seats      the sizes of tables that the season has
    Raises `PairingError` if no size can be filled.
    """
    sizes = sorted({size for size in seats if 2 <= size <= available})
    if not sizes:
        players = "bots" if settings.same_author else "bots of different authors"
        raise PairingError(
            f"the smallest game needs {min(seats)} {players} and there are {available}; submit more"
            + ("" if settings.same_author else ", or open a season with --same-author")
        )
    return sizes


class _LineUpMaker:
    """The candidates with their state while line-ups are made of them.

    Bots are indices into `candidates` throughout; time is counted in line-ups, from 0 when the
    first one is made.
    """

    def __init__(
        self,
        candidates: Sequence[Candidate],
        sizes: list[int],
        settings: PairingSettings,
        parameters: RatingParameters,
        stream: RandomStream,
        meetings: Mapping[tuple[int, int], int] | None,
    ) -> None:
        self.candidates = candidates
        self.sizes = sizes
        self.settings = settings
        self.stream = stream
        self.now = 0
        self.games = [candidate.games + candidate.pending for candidate in candidates]
        self.beta_squared = parameters.beta * parameters.beta
        self.gain = LEARNT / self.beta_squared  # precision (1 / variance) that a game adds
        # The variance of each rating as it is expected after the pending games.
        self.variance = [
            1.0 / (1.0 / (c.rating.sigma * c.rating.sigma) + self.gain * c.pending)
            for c in candidates
        ]
        all_bots = range(len(candidates))
        self.recent_seats = {candidate.author: candidate.recent_seats for candidate in candidates}
        self.all_recent_seats = sum(self.recent_seats.values())
        bots_of_author: dict[Hashable, list[int]] = {author: [] for author in self.recent_seats}
        # For each bot the list of all its author's bots, which is one object for all of them.
        self.siblings = [bots_of_author[candidate.author] for candidate in candidates]
        for i, siblings in enumerate(self.siblings):
            siblings.append(i)
        self.bots_by_author = list(bots_of_author.values())
        sigmas = sorted(
            fsum(sqrt(self.variance[i]) for i in bots) / len(bots) for bots in self.bots_by_author
        )
        self.mean_sigma = fsum(sigmas) / len(sigmas)
        self.median_sigma = sigmas[len(sigmas) // 2]
        self.meetings: Counter[tuple[int, int]] = Counter()
        index = {candidate.version_id: i for i, candidate in enumerate(candidates)}
        for (bot, other), count in (meetings or {}).items():
            if bot in index and other in index:
                self.meetings[self._pair(index[bot], index[other])] += count
        self.last_played = [-candidate.waited for candidate in candidates]
        self.due = [self._due_time(i) for i in all_bots]
        # Of bots that are due at the same time, the one with the most uncertain rating is first.
        self.queue = [(self.due[i], -self.variance[i], i) for i in all_bots]
        heapq.heapify(self.queue)

    def make(self, count: int) -> list[LineUp]:
        """Choose the next `count` line-ups, each as if the games of those before were played."""
        line_ups = []
        for _ in range(count):
            self.now += 1
            size = self.stream.choice(self.sizes)
            members = self._choose_members(size)
            for i in members:
                self._count_games(i, games=size)  # in a rotation every bot plays once in each seat
            for i, j in combinations(members, 2):
                self.meetings[self._pair(i, j)] += 1
            bots = [self.candidates[i].version_id for i in members]
            line_ups.append(LineUp(tuple(self.stream.shuffled(bots))))
        return line_ups

    def _has_precedence(self, i: int) -> bool:
        """Return True if the bot may get games sooner because it is new or its rating uncertain.

        That is so until its author has had too many of the recent seats: more than a fair share,
        plus as many as a new bot needs until it is no longer provisional.
        """
        fair_share = self.all_recent_seats / len(self.bots_by_author)
        lineups_of_new_bot = self.settings.provisional_games / self.sizes[0]
        limit = FAIR_SHARES * fair_share + lineups_of_new_bot
        return self.recent_seats[self.candidates[i].author] < limit

    def _effective_sigma(self, i: int) -> float:
        """Return the standard deviation of the bot's rating as it counts for the choice of games.

        Bots with uncertain ratings get games sooner. A bot whose author has had many of the recent
        seats counts as no more uncertain than the median of authors.
        """
        sigma = sqrt(self.variance[i])
        if self._has_precedence(i):
            return sigma
        return min(sigma, self.median_sigma)

    def _due_time(self, i: int) -> float:
        """Return the time at which the bot is due for its next games, counted in line-ups.

        A provisional bot, which is new, is due again as soon as it has played. Any other is due
        after an interval that is shorter for an uncertain rating, and longer if the bot's author
        has many bots.
        """
        is_provisional = self.settings.lacking(self.games[i]) > 0
        if is_provisional and self._has_precedence(i):
            return float(self.last_played[i])
        # As many line-ups as have seats for all authors, times the number of this author's bots,
        # which take turns in the author's seat.
        fair_interval = len(self.bots_by_author) * len(self.siblings[i]) / self.sizes[0]
        interval = fair_interval * self.mean_sigma / self._effective_sigma(i)
        longest_interval = self.settings.patience * fair_interval
        return self.last_played[i] + min(interval, longest_interval)

    def _pop_anchor(self) -> int:
        """Remove from the queue the bot that has been due for longest, and return it."""
        while True:
            due, _, i = heapq.heappop(self.queue)
            if due == self.due[i]:  # else this entry is outdated: the bot has played since
                return i

    def _count_games(self, i: int, games: int) -> None:
        """Update the bot's state as if it had played a rotation, and put it back into the queue.

        games  the number of games of the rotation, in each of which the bot has a seat
        """
        self.games[i] += games
        # Each game adds `gain` to the precision of the rating, which is 1 / variance.
        self.variance[i] = 1.0 / (1.0 / self.variance[i] + self.gain * games)
        self.last_played[i] = self.now
        self.recent_seats[self.candidates[i].author] += 1
        self.all_recent_seats += 1
        self.due[i] = self._due_time(i)
        heapq.heappush(self.queue, (self.due[i], -self.variance[i], i))

    def _pair(self, i: int, j: int) -> tuple[int, int]:
        """Return the key under which the meetings of two bots are counted, in either order.

        If bots of one author may not meet, the meetings of the two authors are counted instead,
        under the key of their first bots. Else an author with many bots would always have some that
        have met nobody, and so are preferred.
        """
        if not self.settings.same_author:
            i = self.siblings[i][0]
            j = self.siblings[j][0]
        return (i, j) if i < j else (j, i)

    def _choose_members(self, size: int) -> list[int]:
        """Return the bots of the next line-up: the one that is due first, and its opponents.

        Each opponent is drawn at random, by weight, from bots that may join. A bot's weight is the
        greater, the longer it waits, the more uncertain its rating is, and the more a game with
        each of the other members would tell about their skills.

        size  the number of bots in all
        """
        members = [self._pop_anchor()]
        weights = self._draw_weights(members)
        while True:
            newest = self._draw_weighted(weights)
            members.append(newest)
            if len(members) == size:
                return members
            # The newest member's appeal is multiplied into the weights of the others.
            weights = {
                i: weight * self._appeal(newest, i)
                for i, weight in weights.items()
                if self._may_meet(newest, i)
            }
            if not weights:  # no bot of the sample is left
                weights = self._draw_weights(members)

    def _draw_weights(self, members: list[int]) -> dict[int, float]:
        """Return bots that may join these members of a line-up, with their weights in a draw.

        Of many bots only a random sample is returned.
        """
        weights = {}
        for i, chance in self._draw_sample(members).items():
            waited = self.now - self.last_played[i]
            appeal = prod(self._appeal(member, i) for member in members)
            weights[i] = chance * waited * self._effective_sigma(i) * appeal
        return weights

    def _may_meet(self, i: int, j: int) -> bool:
        if self.settings.same_author:
            return i != j
        return self.candidates[i].author != self.candidates[j].author

    def _draw_sample(self, members: list[int]) -> dict[int, float]:
        """Return bots that may join these members of a line-up, each with a factor of its weight.

        All authors have the same chance, however many bots they have. If there are many bots, some
        are drawn at random: first an author, then a bot of that author, with the factor 1. If there
        are few, all are returned, each with the factor 1 / (number of its author's bots).
        """

        def may_join(i: int) -> bool:
            return all(self._may_meet(member, i) for member in members)

        if len(self.candidates) > SAMPLE:
            drawn = []
            for _ in range(SAMPLE):
                bots_of_author = self.stream.choice(self.bots_by_author)
                drawn.append(self.stream.choice(bots_of_author))
            sample = {i: 1.0 for i in drawn if may_join(i)}
            if sample:
                return sample
        # There is at least one, since only tables are chosen that can be filled.
        all_bots = range(len(self.candidates))
        return {i: 1.0 / len(self.siblings[i]) for i in all_bots if may_join(i)}

    def _appeal(self, i: int, j: int) -> float:
        """Return a weight for how much a game of two bots would tell about their skills.

        It tells more if either may well win, and if they have rarely met.
        """
        variance = self.variance[i] + self.variance[j] + 2.0 * self.beta_squared
        mu, other_mu = self.candidates[i].rating.mu, self.candidates[j].rating.mu
        win_probability = cdf((mu - other_mu) / sqrt(variance))
        # The variance of the result, which is largest between equals.
        openness = win_probability * (1.0 - win_probability)
        information = openness / (1.0 + self.meetings[self._pair(i, j)])
        # The cube, since milder preferences helped less where skills differ widely
        # (docs/rating.md).
        return information * information * information

    def _draw_weighted(self, weights: dict[int, float]) -> int:
        """Return a random bot, each with a probability in proportion to its weight."""
        sums = list(accumulate(weights.values()))
        index = bisect_right(sums, self.stream.unit() * sums[-1])
        # Rounding may give the whole sum, which lies behind the last bot.
        return list(weights)[min(index, len(sums) - 1)]


class RandomStream:
    """An endless stream of random numbers.

    Number i is made of SHA-256(seed, label, i). `seed` is any bytes, `label` names the purpose.
    """

    def __init__(self, seed: bytes, label: str) -> None:
        self._prefix = hashlib.sha256(hashlib.sha256(seed).digest() + label.encode())
        self._index = 0

    def _next_word(self) -> int:
        """Return the next number of 64 bits."""
        digest = self._prefix.copy()
        digest.update(self._index.to_bytes(8))
        self._index += 1
        return int.from_bytes(digest.digest()[:8])

    def below(self, n: int) -> int:
        """Return a number from 0 to n - 1, all with the same probability."""
        # Words have 64 bits. The highest ones, from the last multiple of n on, are skipped, since
        # they would make small remainders likelier.
        last_multiple = 2**64 - 2**64 % n
        word = self._next_word()
        while word >= last_multiple:
            word = self._next_word()
        return word % n

    def unit(self) -> float:
        """Return a number from 0 to below 1."""
        return (self._next_word() >> 11) / 2.0**53  # a double has 53 bits

    def choice(self, items: Sequence[_T]) -> _T:
        """Return one of the items, all with the same probability."""
        return items[self.below(len(items))]

    def shuffled(self, items: Sequence[_T]) -> list[_T]:
        """Return the items in a random order."""
        return [items[i] for i in shuffled(range(len(items)), self.below)]

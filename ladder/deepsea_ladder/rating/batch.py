"""The batch rating: all games of a season at once, by expectation propagation.

Invariants: pure; the same model as the fold, without drift (tau is not used), so that games have no
order: the result is where messages no longer change, and games are taken in an order that follows
from what they are, so other orders give the same bits; only the arithmetic of `gaussian.py`.

The fold keeps of each game what it said in view of the games before it. Here each game is taken out
of the ratings, says again what it says in view of all others, and is put back; some sweeps over all
games later nothing changes any more.

Two ratings that rest on the same games are uncertain together: sigma² + sigma² of two bots that met
often overstates how uncertain their difference is. The skills are one normal distribution of as
many dimensions as there are players, whose precision is a newcomer's, and for each two players what
the games say about their difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt

from deepsea_ladder.errors import RatingError
from deepsea_ladder.rating.gaussian import cdf
from deepsea_ladder.rating.trueskill_fold import (
    GameOutcome,
    Rating,
    RatingParameters,
    seats_by_placement,
    settle,
)

SETTLED = 1e-8
"""Ratings have settled if a sweep changes no mu and no sigma by more, in a newcomer's sigma."""
MOST_GAMES = 100_000
"""Of more games an even sample is rated: it says what all do, in less memory and time."""
MOST_SWEEPS = 100
"""Eight to ten are enough as a rule, fifteen if few bots meet often."""
Ties = dict[tuple[int, int], float]
"""Precision by pair of players, the smaller first: of a spring between the two skills, so to speak;
where there are others between them, these say something about their difference too."""


@dataclass(frozen=True, slots=True)
class BatchRatings:
    """Ratings that no order of the games changes."""

    ratings: dict[int, Rating]
    """By player, of those who played. sigma is that of one rating, as the fold has it; two bots
    are compared by `Joint`."""
    ties: Ties
    """How firmly the games tie each two players together."""
    games: int
    sweeps: int
    settled: bool


def batch_ratings(
    parameters: RatingParameters,
    games: Iterable[GameOutcome],
    *,
    settled: float = SETTLED,
    most_sweeps: int = MOST_SWEEPS,
) -> BatchRatings:
    """Rate the players of these games, in whatever order they come.

    Raises `RatingError` for a game with invalid placements or one bot in two seats.
    """
    played = _prepared(games)
    players = sorted({player for game in played for player in game.players})
    prior = 1.0 / (parameters.sigma * parameters.sigma)
    p, q = dict.fromkeys(players, prior), dict.fromkeys(players, 0.0)
    groups = [_Group(members) for members in _connected(players, played)]
    beta_squared = parameters.beta * parameters.beta
    margin = parameters.draw_margin
    shown = _ratings(groups, p, q)
    change, sweeps = 0.0, 0
    while played and sweeps < most_sweeps:
        for game in played:
            _put_back(game, p, q, beta_squared, margin)
        for group in groups:
            _centre(group, p, q, prior)
        before, shown = shown, _ratings(groups, p, q)
        sweeps += 1
        change = max(_distance(shown[player], before[player]) for player in players)
        if change <= settled * parameters.sigma:
            break
    ties: Ties = {}
    for game in played:
        add_ties(ties, game.players, game.difference_p, beta_squared)
    return BatchRatings(
        {
            player: Rating(parameters.mu + shown[player].mu, shown[player].sigma)
            for player in players
        },
        ties,
        len(played),
        sweeps,
        change <= settled * parameters.sigma,
    )


@dataclass(slots=True)
class _Group:
    """Players that met, at one table or through others."""

    players: list[int]
    centre: float = 0.0
    """A newcomer's mu, on the scale of its players' and games' messages."""


class _Game:
    """A game's players, the winner first, and the messages that it keeps between sweeps."""

    __slots__ = ("difference_p", "difference_q", "p", "players", "q", "shared")

    def __init__(self, players: tuple[int, ...], shared: tuple[bool, ...]) -> None:
        self.players = players
        self.shared = shared
        # Normal distributions as in `settle`.
        self.p, self.q = [0.0] * len(players), [0.0] * len(players)
        self.difference_p, self.difference_q = [0.0] * len(shared), [0.0] * len(shared)


def _prepared(games: Iterable[GameOutcome]) -> list[_Game]:
    """The games that count, in an order of their own."""
    found = []
    for game in games:
        game.check_players()
        if not 2 <= len(game.players) == len(game.placements):
            raise RatingError(
                f"game {game.sequence}: {len(game.placements)} placements and "
                f"{len(game.players)} players are no game of two or more"
            )
        order = seats_by_placement(game.placements)
        found.append(
            (
                tuple(game.players[seat] for seat in order),
                tuple(game.placements[a] == game.placements[b] for a, b in pairwise(order)),
            )
        )
    return [_Game(*game) for game in sorted(found)]


def _put_back(
    game: _Game, p: dict[int, float], q: dict[int, float], beta_squared: float, margin: float
) -> None:
    """Take what a game says out of its players' ratings, and put back what it says now."""
    others_p, others_q, own_p, own_q = [], [], [], []
    for seat, player in enumerate(game.players):
        precision, weighted = p[player] - game.p[seat], q[player] - game.q[seat]
        share = 1.0 / (1.0 + beta_squared * precision)
        others_p.append(precision)
        others_q.append(weighted)
        own_p.append(share * precision)
        own_q.append(share * weighted)
    seen_p, seen_q = settle(
        own_p, own_q, game.shared, margin, game.difference_p, game.difference_q, rounds=1
    )
    for seat, player in enumerate(game.players):
        share = 1.0 / (1.0 + beta_squared * seen_p[seat])
        says_p, says_q = share * seen_p[seat], share * seen_q[seat]
        game.p[seat], game.q[seat] = says_p, says_q
        p[player], q[player] = others_p[seat] + says_p, others_q[seat] + says_q


def _centre(group: _Group, p: dict[int, float], q: dict[int, float], prior: float) -> None:
    """Move a newcomer's mu to the mean of the group's.

    Games say nothing about a shift of all who meet, so this is where sweeps alone end too, but
    a thousand of them later.
    """
    off, weight = 0.0, 0.0
    for player in group.players:
        off += q[player] / p[player] - group.centre
        weight += 1.0 - prior / p[player]
    shift = off / weight
    group.centre += shift
    for player in group.players:
        q[player] += prior * shift


def _connected(players: list[int], played: list[_Game]) -> list[list[int]]:
    """The players in groups that met, at one table or through others."""
    first = {player: player for player in players}

    def leader(player: int) -> int:
        while first[player] != player:
            first[player] = first[first[player]]
            player = first[player]
        return player

    for game in played:
        for player in game.players[1:]:
            one, other = sorted((leader(game.players[0]), leader(player)))
            first[other] = one
    groups: dict[int, list[int]] = {}
    for player in players:
        groups.setdefault(leader(player), []).append(player)
    return list(groups.values())


def _ratings(groups: list[_Group], p: dict[int, float], q: dict[int, float]) -> dict[int, Rating]:
    """mu is counted from a newcomer's."""
    return {
        player: Rating(q[player] / p[player] - group.centre, sqrt(1.0 / p[player]))
        for group in groups
        for player in group.players
    }


def _distance(one: Rating, other: Rating) -> float:
    return max(abs(one.mu - other.mu), abs(one.sigma - other.sigma))


def add_ties(
    ties: Ties, players: Sequence[int], precisions: Sequence[float], beta_squared: float
) -> None:
    """Add what a game ties together.

    players       the winner first
    precisions    of what it says about the performances of each two neighbours
    """
    # The performances' precision is tridiagonal, and so is its inverse's factors: with
    # a = precisions * beta², element i, j > i of the inverse is beta² times
    # upto[i] * a[i] * ... * a[j - 1] * after[j + 1] / upto[all].
    a = [precision * beta_squared for precision in precisions]
    count = len(players)
    diagonal = [1.0 + x + y for x, y in zip([0.0, *a], [*a, 0.0], strict=True)]
    upto, after = [1.0, diagonal[0]], [diagonal[-1], 1.0]
    for i in range(1, count):
        upto.append(diagonal[i] * upto[-1] - a[i - 1] * a[i - 1] * upto[-2])
        back = count - 1 - i
        after.insert(0, diagonal[back] * after[0] - a[back] * a[back] * after[1])
    for i in range(count - 1):
        product = upto[i] / (upto[count] * beta_squared)
        for j in range(i + 1, count):
            product *= a[j - 1]
            pair = (min(players[i], players[j]), max(players[i], players[j]))
            ties[pair] = ties.get(pair, 0.0) + product * after[j + 1]


class Joint:
    """The joint distribution of the skills of a batch's players."""

    def __init__(self, means: Mapping[int, float], ties: Ties, sigma: float) -> None:
        """`means` has mu by player; `sigma` is a newcomer's. It takes time by the cube of their
        number: a thirtieth of a second for 100, half a minute for 1,000."""
        self.means = dict(means)
        self._place = {player: place for place, player in enumerate(self.means)}
        self._covariance = _inverse(self._precision(ties, sigma))

    def _precision(self, ties: Ties, sigma: float) -> list[list[float]]:
        prior = 1.0 / (sigma * sigma)
        rows = [[0.0] * place + [prior] for place in range(len(self.means))]
        for pair, precision in ties.items():
            j, i = sorted(self._place[player] for player in pair)
            rows[i][j] -= precision
            rows[i][i] += precision
            rows[j][j] += precision
        return rows

    def variances(self, player: int, others: Sequence[int]) -> list[float]:
        """The variances of the differences of a player's skill and others'."""
        one = self._place[player]
        places = [self._place[other] for other in others]
        return [
            max(0.0, self._of(one, one) + self._of(place, place) - 2.0 * self._of(one, place))
            for place in places
        ]

    def stronger(self, one: int, other: int) -> float:
        """The probability that `one` is more skilled than `other`; of a player itself one half."""
        (variance,) = self.variances(one, [other])
        difference = self.means[one] - self.means[other]
        return cdf(difference / sqrt(variance)) if variance else 0.5

    def _of(self, i: int, j: int) -> float:
        return self._covariance[i][j] if j <= i else self._covariance[j][i]


def _inverse(rows: list[list[float]]) -> list[list[float]]:
    """The inverse of a positive definite matrix; of both the rows up to the diagonal.

    Gauss and Jordan, in place: after each step the matrix is that of the equations solved for one
    more unknown, with the sign that keeps it symmetric.
    """
    for k, pivot_row in enumerate(rows):
        column = [*pivot_row, *(row[k] for row in rows[k + 1 :])]
        pivot = 1.0 / column[k]
        for i, row in enumerate(rows):
            factor = column[i] * pivot
            row[:] = [own - factor * x for own, x in zip(row, column, strict=False)]
            if i > k:
                row[k] = factor
        pivot_row[:] = [pivot * x for x in column[:k]] + [-pivot]
    return [[-value for value in row] for row in rows]

"""TrueSkill's message passing: the update of the players' ratings by one game.

Invariants: same messages in the same order, same stopping rule as the `trueskill` package, for
games where every player is a team of its own; only the arithmetic of `gaussian.py`, so the same
bits on every system and Python version. The tests compare it with the package.

Each player's performance is a normal variable; for each two neighbours in the order of placement
the game says that one was better by a margin, or that they were within the margin. Messages about
these differences go down and up the row of players until they no longer change.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Final

from deepsea_ladder.rating.gaussian import above, within

ROUNDS: Final = 10
"""The most rounds of messages down and up, as in the package."""
CLOSE: Final = 0.0001
"""A message that changes less than this has converged, as in the package."""
_CLOSE_PRECISION: Final = CLOSE * CLOSE


def updated(
    skills: Sequence[tuple[float, float]],
    ties: Sequence[bool],
    beta_squared: float,
    tau_squared: float,
    margin: float,
) -> list[tuple[float, float]]:
    """The skills after a game.

    skills        (mu, sigma) of each player, the winner first
    ties          for each two neighbours whether they share a placement; one fewer than skills
    beta_squared  variance of a performance around the skill
    tau_squared   variance that a skill gains between games
    margin        performances closer than this are a draw; above 0
    """
    own_p, own_q = [], []
    for mu, sigma in skills:
        precision = 1.0 / (sigma * sigma + tau_squared + beta_squared)
        own_p.append(precision)
        own_q.append(precision * mu)
    games = len(skills) - 1
    seen_p, seen_q = settle(own_p, own_q, ties, margin, [0.0] * games, [0.0] * games)
    after = []
    for (mu, sigma), p, q in zip(skills, seen_p, seen_q, strict=True):
        share = 1.0 / (1.0 + beta_squared * p)
        before = 1.0 / (sigma * sigma + tau_squared)
        precision = before + share * p
        after.append(((before * mu + share * q) / precision, sqrt(1.0 / precision)))
    return after


def settle(
    own_p: Sequence[float],
    own_q: Sequence[float],
    ties: Sequence[bool],
    margin: float,
    game_p: list[float],
    game_q: list[float],
    rounds: int = ROUNDS,
) -> tuple[list[float], list[float]]:
    """Pass messages along the row of players; returns what the game says about each performance.

    Normal distributions are precision p = 1 / variance and q = p * mean, in which information
    adds up.

    own_p, own_q    what is known of each performance without the game, the winner first
    ties, margin    as in `updated`
    game_p, game_q  what the game says about the difference of each two neighbours: 0 at first;
                    they are changed, and a later call with them goes on from there
    rounds          the most rounds of messages down and up
    """
    players = len(own_p)
    # Message into performance i from the game to its left and right:
    left_p, left_q = [0.0] * players, [0.0] * players
    right_p, right_q = [0.0] * players, [0.0] * players

    def update_difference(i: int) -> float:
        """Update the message of the game between players i and i + 1; returns its change."""
        better_p = own_p[i] + left_p[i]
        better_q = own_q[i] + left_q[i]
        worse_p = own_p[i + 1] + right_p[i + 1]
        worse_q = own_q[i + 1] + right_q[i + 1]
        mean = better_q / better_p - worse_q / worse_p
        root = sqrt(1.0 / (1.0 / better_p + 1.0 / worse_p))
        x = mean * root
        shift, rest = within(x, margin * root) if ties[i] else above(x - margin * root)
        precision = root * root
        new_p = precision * (1.0 - rest) / rest
        new_q = (mean * precision * (1.0 - rest) + root * shift) / rest
        change_p, change_q = new_p - game_p[i], new_q - game_q[i]
        game_p[i], game_q[i] = new_p, new_q
        if change_p < 0.0:
            change_p = -change_p
        if change_q < 0.0:
            change_q = -change_q
        return change_q if change_p <= _CLOSE_PRECISION else max(change_q, sqrt(change_p))

    def pass_down(i: int) -> None:
        """Player i + 1 is player i less the difference."""
        p, q = own_p[i] + left_p[i], own_q[i] + left_q[i]
        share = p / (p + game_p[i])
        left_p[i + 1] = share * game_p[i]
        left_q[i + 1] = share * (game_p[i] * (q / p) - game_q[i])

    def pass_up(i: int) -> None:
        """Player i is player i + 1 plus the difference."""
        p, q = own_p[i + 1] + right_p[i + 1], own_q[i + 1] + right_q[i + 1]
        share = p / (p + game_p[i])
        right_p[i] = share * game_p[i]
        right_q[i] = share * (game_p[i] * (q / p) + game_q[i])

    last = players - 2
    if any(game_p):
        for i in range(last, 0, -1):
            pass_up(i)
    for _ in range(rounds):
        change = 0.0
        if last == 0:
            change = update_difference(0)
        for i in range(last):
            change = max(change, update_difference(i))
            pass_down(i)
        for i in range(last, 0, -1):
            change = max(change, update_difference(i))
            pass_up(i)
        if change <= CLOSE:
            break
    pass_up(0)
    pass_down(last)
    for i in range(players):
        left_p[i] += right_p[i]
        left_q[i] += right_q[i]
    return left_p, left_q

"""One game's effect on the ratings of its players: TrueSkill's message passing, written out.

Invariants: same messages in the same order, same stopping rule as the `trueskill` package, for
games where every player is a team of its own; only the arithmetic of `normal.py`, so the same bits
on every system and Python version. The tests hold it against the package.

Each player's performance is a normal variable; the game says of each two neighbours in the order
of placement that one was better by a margin, or that they were within the margin. Messages about
these differences go down and up the row of players until they no longer change.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Final

from deepsea_ladder.rating.gaussian import above, within

ROUNDS: Final = 10
"""How often messages go down and up at most, as in the package."""
CLOSE: Final = 0.0001
"""A change of a message below which it counts as settled, as in the package."""
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
    # Normal distributions are kept as precision p = 1 / variance and q = p * mean, in which
    # information adds up. Message into performance i from the game to its left and right:
    players = len(skills)
    left_p, left_q = [0.0] * players, [0.0] * players
    right_p, right_q = [0.0] * players, [0.0] * players
    own_p, own_q = [], []
    for mu, sigma in skills:
        precision = 1.0 / (sigma * sigma + tau_squared + beta_squared)
        own_p.append(precision)
        own_q.append(precision * mu)
    # What the game says about the difference between players i and i + 1.
    said_p, said_q = [0.0] * (players - 1), [0.0] * (players - 1)

    def listen(i: int) -> float:
        """Take in the outcome between players i and i + 1; returns how much it changed."""
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
        change_p, change_q = new_p - said_p[i], new_q - said_q[i]
        said_p[i], said_q[i] = new_p, new_q
        if change_p < 0.0:
            change_p = -change_p
        if change_q < 0.0:
            change_q = -change_q
        return change_q if change_p <= _CLOSE_PRECISION else max(change_q, sqrt(change_p))

    def tell_worse(i: int) -> None:
        """Player i + 1 is player i less the difference."""
        p, q = own_p[i] + left_p[i], own_q[i] + left_q[i]
        share = p / (p + said_p[i])
        left_p[i + 1] = share * said_p[i]
        left_q[i + 1] = share * (said_p[i] * (q / p) - said_q[i])

    def tell_better(i: int) -> None:
        """Player i is player i + 1 plus the difference."""
        p, q = own_p[i + 1] + right_p[i + 1], own_q[i + 1] + right_q[i + 1]
        share = p / (p + said_p[i])
        right_p[i] = share * said_p[i]
        right_q[i] = share * (said_p[i] * (q / p) + said_q[i])

    last = players - 2
    for _ in range(ROUNDS):
        change = 0.0
        if last == 0:
            change = listen(0)
        for i in range(last):
            change = max(change, listen(i))
            tell_worse(i)
        for i in range(last, 0, -1):
            change = max(change, listen(i))
            tell_better(i)
        if change <= CLOSE:
            break
    tell_better(0)
    tell_worse(last)

    after = []
    for i, (mu, sigma) in enumerate(skills):
        seen_p, seen_q = left_p[i] + right_p[i], left_q[i] + right_q[i]
        share = 1.0 / (1.0 + beta_squared * seen_p)
        before = 1.0 / (sigma * sigma + tau_squared)
        precision = before + share * seen_p
        after.append(((before * mu + share * seen_q) / precision, sqrt(1.0 / precision)))
    return after

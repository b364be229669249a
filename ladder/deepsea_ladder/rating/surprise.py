"""Results that ratings do not foretell: how far two bots' results are from their forecast.

Invariants: pure; a distance in standard errors of the luck in the games alone. The ratings rest on
the same games and lean towards them, so that distances are rather too small.

One number for a bot's skill says who wins how often. Where bots beat each other in a circle, or one
can only play against some, their results tell.
"""

from __future__ import annotations

from math import log, sqrt
from typing import NamedTuple

from deepsea_ladder.rating.convergence import Odds
from deepsea_ladder.rating.gaussian import cdf

SURPRISING = 3.0
"""From so many standard errors on a result is not foretold."""
BY_CHANCE = 2.0 * cdf(-SURPRISING)
"""How often that happens to a pair whose forecast is right."""
_SURE = 1e-12


class Surprise(NamedTuple):
    """The results of two bots, from the first one's side."""

    foretold: float
    """The share of games in which the ratings expect it to be placed before, level for half."""
    standard_errors: float
    """How much better than that it did; below 0 if worse."""


def surprise(odds: Odds, games: int, share: float) -> Surprise:
    """Compare the share of so many games, level counting half, with what the odds foretell.

    Measured by likelihood: with few games, or against clear favourites, a result that is rare
    in a normal distribution is no rarity.
    """
    # Never quite sure, whatever doubles say.
    foretold = min(1.0 - _SURE, max(_SURE, odds.better + 0.5 * odds.level))
    likelihood = _part(share, foretold) + _part(1.0 - share, 1.0 - foretold)
    # Level games vary less than games that one of two wins.
    before, level, behind = 1.0 - foretold, 0.5 - foretold, foretold
    spread = odds.better * before**2 + odds.level * level**2 + odds.worse * behind**2
    errors = sqrt(max(0.0, 2.0 * games * likelihood * foretold * (1.0 - foretold) / spread))
    return Surprise(foretold, errors if share > foretold else -errors)


def _part(found: float, expected: float) -> float:
    return found * log(found / expected) if found > 0.0 else 0.0

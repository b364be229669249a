"""How well ratings predict placings, and which parameters predict them best.

Invariants: every game is predicted from the games before it, then folded in; the measure is
log-loss, the mean of -ln(the probability that was given to what happened), so less is better and
certainty that fails is punished; bots of one ladder never meet those of another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from deepsea_ladder.rating.convergence import Odds
from deepsea_ladder.rating.trueskill_fold import (
    LOWEST_DRAW_PROBABILITY,
    Fold,
    GameOutcome,
    Rating,
    RatingParameters,
)
from predictions import odds, placement_chances

Ladder = Sequence[GameOutcome]
"""The games of one field of bots, in their order."""

_LEAST: Final = 1e-12
"""No forecast is charged more than for this probability."""


class Bin(NamedTuple):
    """Forecasts of about the same chance, and what came of them."""

    forecasts: int
    predicted: float
    """Their mean chance of placing better than the other, a draw counting half."""
    happened: float
    """How often it did."""


class Calibration(NamedTuple):
    """What forecasts were worth."""

    games: int
    pairs: int
    pair_loss: float
    """Log-loss per pair of players: better, level or worse."""
    placement_loss: float
    """Log-loss per player: its placement among all at the table."""
    draws_predicted: float
    draws_happened: float
    bins: tuple[Bin, ...]


def pair_loss(parameters: RatingParameters, ladders: Sequence[Ladder]) -> float:
    """Log-loss per pair of players over all games."""
    loss, pairs = 0.0, 0

    def see(game: GameOutcome, ratings: list[Rating]) -> None:
        nonlocal loss, pairs
        for chances, one, other in _pairs(parameters, game, ratings):
            loss -= math.log(max(_chance_of(chances, one, other), _LEAST))
            pairs += 1

    _watch(parameters, ladders, see)
    return loss / max(pairs, 1)


def calibrate(
    parameters: RatingParameters, ladders: Sequence[Ladder], bins: int = 10
) -> Calibration:
    """All figures for some ladders; slower than `pair_loss`."""
    games = pairs = players = 0
    loss = placement_loss = draws_predicted = draws_happened = 0.0
    counts = [0] * bins
    predicted, happened = [0.0] * bins, [0.0] * bins

    def see(game: GameOutcome, ratings: list[Rating]) -> None:
        nonlocal games, pairs, players, loss, placement_loss, draws_predicted, draws_happened
        games += 1
        for chances, one, other in _pairs(parameters, game, ratings):
            pairs += 1
            loss -= math.log(max(_chance_of(chances, one, other), _LEAST))
            draws_predicted += chances.level
            draws_happened += one == other
            # Seen from the favourite, so that every pair counts once and is never cut in half.
            share = chances.better + 0.5 * chances.level
            points = 1.0 if one < other else 0.5 if one == other else 0.0
            if share < 0.5:
                share, points = 1.0 - share, 1.0 - points
            slot = min(int((2.0 * share - 1.0) * bins), bins - 1)
            counts[slot] += 1
            predicted[slot] += share
            happened[slot] += points
        rows = placement_chances(parameters, ratings)
        for row, placement in zip(rows, game.placements, strict=True):
            players += 1
            shared = row[placement - 1 : placement - 1 + game.placements.count(placement)]
            placement_loss -= math.log(max(math.fsum(shared) / len(shared), _LEAST))

    _watch(parameters, ladders, see)
    return Calibration(
        games,
        pairs,
        loss / max(pairs, 1),
        placement_loss / max(players, 1),
        draws_predicted / max(pairs, 1),
        draws_happened / max(pairs, 1),
        tuple(
            Bin(count, f / count, h / count)
            for count, f, h in zip(counts, predicted, happened, strict=True)
            if count
        ),
    )


def fit(
    ladders: Sequence[Ladder], start: RatingParameters, smallest_step: float = 0.02
) -> RatingParameters:
    """The beta, tau and draw probability that predict these games best; mu and sigma stay.

    Only ratios matter, so sigma sets the scale. Each parameter in turn is multiplied or divided by
    a factor as long as that helps; then the factors shrink, down to `smallest_step`.
    """
    best, least = start, pair_loss(start, ladders)
    step = 0.5
    while step >= smallest_step:
        moved = False
        for name in ("beta", "draw_probability", "tau"):
            for factor in (1.0 + step, 1.0 / (1.0 + step)):
                while True:
                    trial = _scaled(best, name, factor)
                    if trial == best or (loss := pair_loss(trial, ladders)) >= least:
                        break
                    best, least, moved = trial, loss, True
        if not moved:
            step /= 2.0
    return best


_LIMITS: Final[dict[str, Callable[[RatingParameters], tuple[float, float]]]] = {
    "beta": lambda p: (p.sigma / 50.0, p.sigma * 50.0),
    "tau": lambda p: (p.sigma / 10_000.0, p.sigma / 2.0),
    "draw_probability": lambda p: (LOWEST_DRAW_PROBABILITY, 0.8),
}


def _scaled(parameters: RatingParameters, name: str, factor: float) -> RatingParameters:
    least, most = _LIMITS[name](parameters)
    value = min(max(getattr(parameters, name) * factor, least), most)
    return replace(parameters, **{name: value})


def _watch(
    parameters: RatingParameters,
    ladders: Sequence[Ladder],
    see: Callable[[GameOutcome, list[Rating]], None],
) -> None:
    """Show every game with the ratings before it."""
    for games in ladders:
        fold = Fold(parameters)
        for game in games:
            see(game, [fold.rating(player) for player in game.players])
            fold.add(game)


def _pairs(
    parameters: RatingParameters, game: GameOutcome, ratings: list[Rating]
) -> list[tuple[Odds, int, int]]:
    """The odds of each pair of players, and their placements."""
    players = range(len(ratings))
    return [
        (odds(parameters, ratings[i], ratings[j]), game.placements[i], game.placements[j])
        for i in players
        for j in players
        if i < j
    ]


def _chance_of(chances: Odds, one: int, other: int) -> float:
    if one == other:
        return chances.level
    return chances.better if one < other else chances.worse

"""Where the default rating parameters are from: many games, a fit, and a test on other games.

    python bench/calibration.py [--ladders 8] [--games-per-bot 100] [--workers 2]

Plays ladders of sample-bot variants for 2, 4 and 6 seats, fits the parameters to one half, and
compares them with the package's and this project's defaults on the other half, whose bots are
others. Prints the tables of docs/rating.md; everything but the machine follows from the options.

Invariants: every game is predicted from the games before it, then folded in; the measure is
log-loss, the mean of -ln(the probability that was given to what happened), so less is better and
certainty that fails is punished; bots of one ladder never meet those of another.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from math import fsum, log, sqrt
from typing import NamedTuple

from msgspec.structs import replace

import figures
from deepsea_ladder.gaussian import cdf, pdf
from deepsea_ladder.pairing import LineUp, RandomStream
from deepsea_ladder.rating import (
    LOWEST_DRAW_PROBABILITY,
    Fold,
    GameOutcome,
    Rating,
    RatingParameters,
)
from variants import family, game

Ladder = Sequence[GameOutcome]
"""The games of one field of bots, in their order."""

_LEAST = 1e-12
"""No forecast is charged more than for this probability."""


class Odds(NamedTuple):
    """Probabilities that one bot is placed before, level with and behind another in a game."""

    better: float
    level: float
    worse: float


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


_LIMITS: dict[str, Callable[[RatingParameters], tuple[float, float]]] = {
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
        for one in games:
            see(one, [fold.rating(player) for player in one.players])
            fold.add(one)


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


PACKAGE_DEFAULTS = RatingParameters(25.0, 25.0 / 3.0, 25.0 / 6.0, 25.0 / 300.0, 0.1)
"""The default parameters of the `trueskill` package."""


def odds(parameters: RatingParameters, one: Rating, other: Rating) -> Odds:
    """The probabilities that `one` is placed before, level with and behind `other`."""
    skills = one.sigma * one.sigma + other.sigma * other.sigma
    drift = 2.0 * parameters.tau * parameters.tau
    luck = 2.0 * parameters.beta * parameters.beta
    spread = sqrt(skills + drift + luck)
    difference, margin = one.mu - other.mu, parameters.draw_margin
    better = cdf((difference - margin) / spread)
    worse = cdf((-difference - margin) / spread)
    return Odds(better, max(0.0, 1.0 - better - worse), worse)


_STEP = 0.25
_NODES = tuple(_STEP * i for i in range(-24, 25))
_WEIGHTS = tuple(_STEP * pdf(node) for node in _NODES)
"""The trapezium rule; for integrals over a normal density its error is far below 1e-6."""


def placement_chances(parameters: RatingParameters, ratings: Sequence[Rating]) -> list[list[float]]:
    """For each player the probabilities of the first, second, ... place, ignoring draws."""
    extra = parameters.tau * parameters.tau + parameters.beta * parameters.beta
    spreads = [sqrt(rating.sigma * rating.sigma + extra) for rating in ratings]
    players = range(len(ratings))
    chances = []
    for i in players:
        row = [0.0] * len(ratings)
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):
            performance = ratings[i].mu + node * spreads[i]
            # How many of the others do better: one more with each of them, or not.
            ahead = [weight]
            for j in players:
                if j != i:
                    better = cdf((ratings[j].mu - performance) / spreads[j])
                    ahead.append(0.0)
                    for k in range(len(ahead) - 1, 0, -1):
                        ahead[k] += better * (ahead[k - 1] - ahead[k])
                    ahead[0] -= better * ahead[0]
            for place in players:
                row[place] += ahead[place]
        chances.append(row)
    return chances


SEATS = (2, 4, 6)
OURS = "these defaults"
EIGHT = "with beta 8"
"""What is advised for two seats."""
BOTS = 12
"""In one ladder."""


class Plan(NamedTuple):
    """A ladder to play."""

    part: str
    seats: int
    number: int
    games_per_bot: int


def ladder(plan: Plan) -> list[GameOutcome]:
    """Its games: line-ups by chance, each from every seat."""
    name = f"{plan.part}/{plan.seats}/{plan.number}"
    bots = family(name, BOTS)
    chance = RandomStream(name.encode(), "line-ups")
    games: list[GameOutcome] = []
    while len(games) < BOTS * plan.games_per_bot // plan.seats:
        line_up = LineUp(tuple(chance.shuffled(range(BOTS))[: plan.seats]))
        for seating in line_up.seatings():
            number = len(games) + 1
            games.append(game(number, bots, seating, f"{name}/{number}"))
    return games


def played(plans: Sequence[Plan], workers: int) -> list[list[GameOutcome]]:
    """The games of several ladders."""
    if workers == 1:
        return [ladder(plan) for plan in plans]
    with ProcessPoolExecutor(workers) as pool:
        return list(pool.map(ladder, plans))


def coverage(parameters: RatingParameters, long: Sequence[GameOutcome], games_per_bot: int) -> str:
    """How far short ladders of the same bots lie from the long one, measured in their sigmas."""
    truth = _folded(parameters, long)
    count = BOTS * games_per_bot // len(long[0].players)
    away = []
    for start in range(0, len(long) - count + 1, count):
        short = _folded(parameters, long[start : start + count])
        # Only differences between bots mean anything.
        shift = fsum(short[bot].mu - truth[bot].mu for bot in truth) / len(truth)
        away += [(short[bot].mu - truth[bot].mu - shift) / short[bot].sigma for bot in truth]
    inside = sum(abs(distance) < 2.0 for distance in away) / len(away)
    return f"{sqrt(fsum(d * d for d in away) / len(away)):.2f} | {inside:.1%}"


def _folded(parameters: RatingParameters, games: Sequence[GameOutcome]) -> dict[int, Rating]:
    fold = Fold(parameters)
    for number, played in enumerate(games, 1):
        fold.add(GameOutcome(number, played.players, played.placements))
    return fold.ratings


Reports = dict[tuple[str, int], Calibration]
"""By parameters and seats."""


def _print_losses(reports: Reports, names: Sequence[str]) -> None:
    print("\nHeld-out games: log-loss per pair and per placing; less is better.\n")
    heads = [f"{seats} seats, pair | {seats} seats, placing" for seats in SEATS]
    print(f"| parameters | {' | '.join(heads)} |")
    print("|---" * 7 + "|")
    cells = []
    for seats in SEATS:
        # Whoever knows nothing but how common draws are.
        draws = reports["package", seats].draws_happened
        blind = -draws * log(draws) - (1.0 - draws) * log((1.0 - draws) / 2.0)
        cells.append(f"{blind:.4f} | {log(seats):.4f}")
    print(f"| no ratings at all | {' | '.join(cells)} |")
    for name in names:
        found = [reports[name, seats] for seats in SEATS]
        cells = [f"{report.pair_loss:.4f} | {report.placement_loss:.4f}" for report in found]
        print(f"| {name} | {' | '.join(cells)} |")


def _print_draws(reports: Reports) -> None:
    print("\nPairs that shared a placement, and how often these defaults predicted it.\n")
    print("| seats | happened | predicted |")
    print("|---|---|---|")
    for seats in SEATS:
        report = reports[OURS, seats]
        print(f"| {seats} | {report.draws_happened:.1%} | {report.draws_predicted:.1%} |")


def _print_bins(reports: Reports) -> None:
    print("\nHow often the favourite of a pair was better, in %, by how often it was predicted.\n")
    heads = [f"{50 + 5 * slot}-{55 + 5 * slot}" for slot in range(10)]
    print(f"| parameters | seats | {' | '.join(heads)} |")
    print("|---" * 12 + "|")
    for name in ("package", OURS, EIGHT):
        for seats in SEATS:
            cells = ["-"] * 10
            for found in reports[name, seats].bins:
                slot = min(int((2.0 * found.predicted - 1.0) * 10), 9)
                cells[slot] = f"{100 * found.happened:.0f}"
            print(f"| {name} | {seats} | {' | '.join(cells)} |")


def main() -> None:
    """Play, fit, compare, print."""
    parser = argparse.ArgumentParser(description="Fit the default rating parameters.")
    parser.add_argument("--ladders", type=int, default=8, help="per number of seats and half")
    parser.add_argument("--games-per-bot", type=int, default=100)
    parser.add_argument("--workers", type=int, default=1, help="processes that play")
    options = parser.parse_args()
    print(figures.described())
    print(f"{options.ladders} ladders of {BOTS} bots, {options.games_per_bot} games each\n")

    games = {
        (part, seats): played(
            [Plan(part, seats, number, options.games_per_bot) for number in range(options.ladders)],
            options.workers,
        )
        for part in ("fit", "test")
        for seats in SEATS
    }
    start = RatingParameters()
    fitted = {f"fit to {seats} seats": fit(games["fit", seats], start) for seats in SEATS}
    fitted["fit to all"] = fit([ladder for seats in SEATS for ladder in games["fit", seats]], start)
    named = {"package": PACKAGE_DEFAULTS, OURS: start, EIGHT: replace(start, beta=8.0)} | fitted

    print("| parameters | beta / sigma | tau / sigma | draw probability |")
    print("|---|---|---|---|")
    for name, p in named.items():
        ratios = f"{p.beta / p.sigma:.2f} | {p.tau / p.sigma:.4f}"
        print(f"| {name} | {ratios} | {p.draw_probability:.3f} |")
    reports = {
        (name, seats): calibrate(parameters, games["test", seats])
        for name, parameters in named.items()
        for seats in SEATS
    }
    _print_losses(reports, list(named))
    _print_draws(reports)
    _print_bins(reports)

    print("\nRatings after few games against those after many, in sigmas of the former: root mean")
    print("square, where 1 is honest and less is modest, and how many lie within two.\n")
    heads = "after 25 games | within 2 sigma | after 100 games | within 2 sigma"
    print(f"| parameters | seats | {heads} |")
    print("|---" * 6 + "|")
    for seats in SEATS:
        (long,) = played([Plan("long", seats, 0, 12 * options.games_per_bot)], 1)
        for name in (OURS, EIGHT) if seats == 2 else (OURS,):
            found = [coverage(named[name], long, games) for games in (25, 100)]
            print(f"| {name} | {seats} | {' | '.join(found)} |")


if __name__ == "__main__":
    main()

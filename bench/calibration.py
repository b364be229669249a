"""Where the default rating parameters are from: many games, a fit, and a test on other games.

    python bench/calibration.py [--ladders 8] [--games-per-bot 100] [--workers 2]

Plays ladders of sample-bot variants for 2, 4 and 6 seats, fits the parameters to one half, and
compares them with the package's and this project's defaults on the other half, whose bots are
others. Prints the tables of docs/rating.md; everything but the machine follows from the options.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from math import fsum, log, sqrt
from typing import NamedTuple

import machine
from calibration_model import Calibration, calibrate, fit
from deepsea_ladder.rating.trueskill_fold import (
    Fold,
    GameOutcome,
    Rating,
    RatingParameters,
)
from deepsea_ladder.scheduling.pairing import LineUp
from deepsea_ladder.scheduling.random_stream import RandomStream
from predictions import PACKAGE_DEFAULTS
from variants import family, game

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
    print(machine.described())
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

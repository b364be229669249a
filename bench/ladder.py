"""Figures of the ladder's arithmetic.

    python bench/ladder.py refold     games per second that ratings are folded at
    python bench/ladder.py pairing    time to pair 10,000 bots
    python bench/ladder.py order      games until ten bots are in the right order
    python bench/ladder.py field      games until the order of 30 and of 1,000 bots is nearly right
    python bench/ladder.py newcomer   games until a newcomer's place among many is known
    python bench/ladder.py settled    how often a settled order is right, and when it is settled
    python bench/ladder.py copies     what an author gains who submits the same bot many times

Everything but the times follows from seeds.
"""

from __future__ import annotations

import argparse
import statistics
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations, islice

import numpy as np

import figures
from deepsea_ladder.gaussian import quantile
from deepsea_ladder.matchmaker import BOTS_PER_LINEUP, RECENT_ROTATIONS
from deepsea_ladder.pairing import Candidate, LineUp, RandomStream, choose
from deepsea_ladder.rating import Fold, GameOutcome, Rating, RatingParameters, rate_by_package
from deepsea_ladder.season import PairingSettings
from deepsea_ladder.standings import (
    CONFIDENCE,
    TOLERANCE,
    compare_neighbours,
    is_settled,
    level_difference,
)
from variants import TEN, game

PARAMETERS = RatingParameters()
SETTINGS = PairingSettings()
_STANDARD = statistics.NormalDist()


def refold() -> None:
    """How fast games are rated, beside the package."""
    print("| seats | games/s | games/s with the `trueskill` package |")
    print("|---|---|---|")
    for seats in (2, 3, 4, 5, 6):
        chance = RandomStream(b"refold", str(seats))
        games = []
        for number in range(1, 4001):
            players = tuple(chance.shuffled(range(100))[:seats])
            games.append(GameOutcome(number, players, tuple(range(1, seats + 1))))
        ours = figures.seconds(partial(_fold, games))
        few = games[:200]
        theirs = figures.seconds(partial(_fold_by_package, few))
        print(f"| {seats} | {len(games) / ours:,.0f} | {len(few) / theirs:,.0f} |")


def _fold(games: Sequence[GameOutcome]) -> None:
    fold = Fold(PARAMETERS)
    for played in games:
        fold.add(played)


def _fold_by_package(games: Sequence[GameOutcome]) -> None:
    ratings: dict[int, Rating] = {}
    for played in games:
        before = [ratings.get(player, PARAMETERS.newcomer) for player in played.players]
        after = rate_by_package(PARAMETERS, before, played.placements)
        ratings.update(zip(played.players, after, strict=True))


def pairing() -> None:
    """How long a call takes for many bots."""
    print("| bots | line-ups in one call | ms for the call | ms per line-up |")
    print("|---|---|---|---|")
    for bots in (100, 10_000):
        chance = RandomStream(b"pairing", str(bots))
        candidates = [
            Candidate(
                bot,
                bot // 3,
                Rating(50.0 * chance.unit(), 0.5 + 7.0 * chance.unit()),
                games=chance.below(500),
                pending=chance.below(3),
                waited=chance.below(bots),
            )
            for bot in range(bots)
        ]
        for count in (1, 100, bots // 4):
            took = figures.seconds(
                partial(choose, candidates, (4,), SETTINGS, PARAMETERS, count, b"seed")
            )
            print(f"| {bots:,} | {count:,} | {1e3 * took:,.0f} | {1e3 * took / count:.1f} |")


# The order of ten bots

Source = Callable[[Fold, list[int], int, bytes], LineUp]
"""Ratings, games of each bot, number of the line-up, seed -> the next line-up."""


class Paired:
    """Line-ups as the ladder makes them, as many in one call.

    authors  the number of authors; further bots belong to the author of bot 0; by default one a bot
    """

    def __init__(self, bots: int, seats: int, authors: int | None = None) -> None:
        self.seats = seats
        self.last = [0] * bots
        self.author = [bot if bot < (authors or bots) else 0 for bot in range(bots)]
        self.lately: deque[int] = deque(maxlen=RECENT_ROTATIONS * seats)
        self.recent: deque[tuple[int, ...]] = deque(maxlen=RECENT_ROTATIONS)
        self.met: Counter[tuple[int, int]] = Counter()
        self.chosen: deque[LineUp] = deque()

    def __call__(self, fold: Fold, games: list[int], number: int, seed: bytes) -> LineUp:
        if not self.chosen:
            self.chosen += self._choose(fold, games, number, seed)
        line_up = self.chosen.popleft()
        if len(self.recent) == RECENT_ROTATIONS:
            self.met.subtract(combinations(sorted(self.recent[0]), 2))
        self.recent.append(line_up.version_ids)
        self.met.update(combinations(sorted(line_up.version_ids), 2))
        self.lately += [self.author[bot] for bot in line_up.version_ids]
        for bot in line_up.version_ids:
            self.last[bot] = number
        return line_up

    def _choose(self, fold: Fold, games: list[int], number: int, seed: bytes) -> list[LineUp]:
        had = Counter(self.lately)
        candidates = [
            Candidate(
                bot,
                self.author[bot],
                fold.rating(bot),
                games[bot],
                waited=number - last,
                recent_seats=had[self.author[bot]],
            )
            for bot, last in enumerate(self.last)
        ]
        self.met = +self.met  # without those that have not met lately
        count = max(1, len(candidates) // BOTS_PER_LINEUP)
        return choose(candidates, (self.seats,), SETTINGS, PARAMETERS, count, seed, self.met)


class Drawn:
    """Line-ups by chance alone."""

    def __init__(self, bots: int, seats: int) -> None:
        self.bots = bots
        self.seats = seats

    def __call__(self, fold: Fold, games: list[int], number: int, seed: bytes) -> LineUp:
        return LineUp(tuple(RandomStream(seed, "drawn").shuffled(range(self.bots))[: self.seats]))


class Balanced:
    """Line-ups by chance, in which all have the same number of games."""

    def __init__(self, bots: int, seats: int) -> None:
        self.bots = bots
        self.seats = seats
        self.waiting: list[int] = []

    def __call__(self, fold: Fold, games: list[int], number: int, seed: bytes) -> LineUp:
        if len(self.waiting) < self.seats:
            chance = RandomStream(seed, "balanced")
            others = [bot for bot in range(self.bots) if bot not in self.waiting]
            self.waiting += chance.shuffled(others)
        members, self.waiting = self.waiting[: self.seats], self.waiting[self.seats :]
        return LineUp(tuple(members))


def climb(
    source: Source,
    fold: Fold,
    played: list[int],
    play: Callable[[int, tuple[int, ...]], GameOutcome],
    seed: str,
) -> Iterator[Fold]:
    """The ratings after each game of a ladder, without end. `played`: games of each bot."""
    number = 0
    while True:
        line_up = source(fold, played, number, f"{seed}/{number}".encode())
        number += 1
        for seating in line_up.seatings():
            fold.add(play(fold.sequence + 1, seating))
            for bot in seating:
                played[bot] += 1
            yield fold


def order(seats: int = 4, seeds: int = 24, games: int = 240) -> None:
    """Rank correlation with the true order, by pairing and by chance."""
    truth = _true_order(seats)
    print(f"{len(truth)} bots, {seats} seats, {seeds} ladders of {games} games each\n")
    print(
        "| games | "
        + " | ".join(f"{name}: rank correlation" for name in ("paired", "random"))
        + " |"
    )
    print("|---|---|---|")
    curves: dict[str, list[list[float]]] = {}
    for name, kind in (("paired", Paired), ("random", Drawn)):
        curves[name] = []
        for seed in range(seeds):
            ladder = climb(
                kind(len(TEN), seats),
                Fold(PARAMETERS),
                [0] * len(TEN),
                partial(_played, f"order/{seed}"),
                f"{seed}",
            )
            curves[name].append([spearman(truth, _ranked(fold)) for fold in islice(ladder, games)])
    for at in (20, 40, 80, 120, 160, 200, 240):
        means = [statistics.mean(curve[at - 1] for curve in curves[name]) for name in curves]
        print(f"| {at} | " + " | ".join(f"{mean:.3f}" for mean in means) + " |")
    print("\n| rank correlation reached and kept | paired: games, median | random: games, median |")
    print("|---|---|---|")
    for level in (0.9, 0.95, 0.98):
        reached = [
            statistics.median(_kept_from(curve, level) for curve in curves[name]) for name in curves
        ]
        cells = [f"{value:.0f}" if value <= games else f"over {games}" for value in reached]
        print(f"| {level} | " + " | ".join(cells) + " |")


def _played(seed: str, number: int, seating: tuple[int, ...]) -> GameOutcome:
    return game(number, TEN, seating, f"{seed}/{number}")


def _true_order(seats: int, rounds: int = 4) -> list[int]:
    """The bots of `TEN`, the best first: every possible table, every seat, several seeds."""
    beaten = [0.0] * len(TEN)
    number = 0
    for table in combinations(range(len(TEN)), seats):
        for turn in range(rounds):
            for seating in LineUp(table).seatings():
                number += 1
                played = game(number, TEN, seating, f"truth/{turn}/{number}")
                for bot, placement in zip(played.players, played.placements, strict=True):
                    beaten[bot] += sum(placement < other for other in played.placements)
                    beaten[bot] += 0.5 * (played.placements.count(placement) - 1)
    ranked = sorted(range(len(TEN)), key=lambda bot: -beaten[bot])
    each = number * seats // len(TEN) * (seats - 1)
    print(f"round-robin of {number:,} games, share of the others beaten:")
    print(", ".join(f"{TEN[bot].name} {beaten[bot] / each:.3f}" for bot in ranked) + "\n")
    return ranked


def _ranked(fold: Fold) -> list[int]:
    return sorted(range(len(TEN)), key=lambda bot: -fold.rating(bot).mu)


def _kept_from(curve: Sequence[float], level: float) -> float:
    """From which game on the curve stays at the level."""
    below = [number for number, value in enumerate(curve, 1) if value < level]
    return below[-1] + 1 if below else 1


def spearman(truth: Sequence[int], ranked: Sequence[int]) -> float:
    """The rank correlation of two orders."""
    n = len(truth)
    square = sum((truth.index(bot) - ranked.index(bot)) ** 2 for bot in truth)
    return 1.0 - 6.0 * square / (n * (n * n - 1))


LADDERS = ((30, 300), (1_000, 5))
"""Bots of a field, and how many ladders of them are played."""


def field(ladders: Sequence[tuple[int, int]] = LADDERS, seats: int = 4, level: float = 0.9) -> None:
    """Games until Kendall's tau between the ratings and the skills reaches a level."""
    print(f"newcomers, {seats} seats, games until tau is {level}, medians\n")
    print(
        "| bots | spread of skills | ladders | paired | random, balanced | ratio of the medians "
        "| ratio in one ladder, mean and standard error |"
    )
    print("|---|---|---|---|---|---|---|")
    for bots, seeds in ladders:
        for spread in (4.0, PARAMETERS.sigma, 16.0):
            paired, balanced = (
                [
                    _games_until(kind(bots, seats), bots, spread, seed, level)
                    for seed in range(seeds)
                ]
                for kind in (Paired, Balanced)
            )
            ratios = np.log(np.array(paired) / np.array(balanced))
            mean, error = np.exp(ratios.mean()), ratios.std(ddof=1) / np.sqrt(seeds)
            medians = statistics.median(paired), statistics.median(balanced)
            print(
                f"| {bots:,} | {spread:.1f} | {seeds} | {medians[0]:,.0f} | {medians[1]:,.0f} "
                f"| {medians[0] / medians[1]:.2f} | {mean:.2f} ± {mean * error:.2f} |",
                flush=True,
            )


def _games_until(source: Source, bots: int, spread: float, seed: int, level: float) -> int:
    text = f"field/{bots}/{spread}/{seed}".encode()
    chance = RandomStream(text, "skills")
    skills = [spread * normal(chance) for _ in range(bots)]
    # A bot has the same luck in its first game, its second, and so on, whomever it meets: so two
    # kinds of line-ups differ by what they tell, and less by luck.
    play = partial(performed, skills, [RandomStream(text, f"luck of {bot}") for bot in range(bots)])
    ladder = climb(source, Fold(PARAMETERS), [0] * bots, play, f"{seed}")
    checked = islice(ladder, bots - 1, None, max(8, bots // 4))
    return next(fold.sequence for fold in checked if tau(skills, fold.ratings) >= level)


def tau(skills: Sequence[float], ratings: Mapping[int, Rating]) -> float:
    """Kendall's: the share of the pairs in the right order less that of those in the wrong one.

    skills   by bot, from 0
    ratings  by bot; one that is not there counts as level with all
    """
    truth = np.array(skills)
    found = np.array([ratings.get(bot, PARAMETERS.newcomer).mu for bot in range(len(skills))])
    found = found[np.argsort(truth)]
    ahead = np.triu(np.sign(found[None, :] - found[:, None]), 1)
    return float(2.0 * ahead.sum()) / (len(skills) * (len(skills) - 1))


AT = (12, 24, 48, 96)
"""Games of a newcomer after which it is looked at."""


def newcomer(seats: int = 4, bots: int = 60, ladders: int = 60, trial: int = 100) -> None:
    """How long a bot takes that comes to a ladder whose other bots are well known."""
    print(f"\none newcomer among {bots} bots, {seats} seats, means of {ladders} ladders\n")
    print(
        "| line-ups | its games until its rank stays within 10 % of the truth | the ladder's then "
        f"| after {', '.join(map(str, AT))} of its games: root mean square of its error "
        "| its variance | the ladder's games |"
    )
    print("|---|---|---|---|---|---|")
    for name, kind in (("paired", Paired), ("random", Drawn)):
        found = [_placed(kind(bots + 1, seats), bots, seed, trial) for seed in range(ladders)]
        own, of_all, *looks = (statistics.mean(column) for column in zip(*found, strict=True))
        errors, variances, games = looks[::3], looks[1::3], looks[2::3]
        print(
            f"| {name} | {own:.1f} | {of_all:.0f} | {', '.join(f'{x**0.5:.1f}' for x in errors)} "
            f"| {', '.join(f'{x:.1f}' for x in variances)} "
            f"| {', '.join(f'{x:,.0f}' for x in games)} |",
            flush=True,
        )


def _placed(source: Source, bots: int, seed: int, trial: int) -> list[float]:
    """Return the games of a newcomer and of one ladder until the newcomer is placed.

    After each number of its games: its squared error, its variance, and the ladder's games.
    """
    chance = RandomStream(f"newcomer/{seed}".encode(), "skills")
    skills = [PARAMETERS.sigma * normal(chance) for _ in range(bots + 1)]
    known = {bot: Rating(PARAMETERS.mu + skills[bot] + normal(chance), 1.0) for bot in range(bots)}
    played, number = [500] * bots + [0], 0
    truth = sum(skill > skills[bots] for skill in skills)
    placed, looks = [0.0, 0.0], []
    play = partial(performed, skills, chance)
    for fold in climb(source, Fold(PARAMETERS, known), played, play, f"{seed}"):
        if played[bots] == number:
            continue
        number, mine = played[bots], fold.rating(bots)
        if number in AT:
            error = mine.mu - PARAMETERS.mu - skills[bots]
            looks += [error * error, mine.sigma * mine.sigma, float(fold.sequence)]
        rank = sum(fold.rating(bot).mu > mine.mu for bot in range(bots))
        if abs(rank - truth) > 0.1 * bots:
            placed = [number + 1.0, fold.sequence + 1.0]
        if number >= trial:
            break
    return placed + looks


def settled(seats: int = 4, ladders: int = 10, bots: int = 8, limit: int = 6000) -> None:
    """How many games settle an order, and how often it is right then."""
    print(f"{ladders} ladders of {bots} bots, {seats} seats, confidence {CONFIDENCE}\n")
    print("| skills | settled | games until then, median | verdicts | of them wrong |")
    print("|---|---|---|---|---|")
    level = level_difference(PARAMETERS, TOLERANCE)
    for name, spread, twins in (
        ("as far apart as supposed", 1.0, False),
        ("half as far apart", 0.5, False),
        ("as supposed, two bots alike", 1.0, True),
    ):
        verdicts, wrong, lengths = 0, 0, []
        for seed in range(ladders):
            chance = RandomStream(f"{name}/{seed}".encode(), "settled")
            skills = [spread * PARAMETERS.sigma * normal(chance) for _ in range(bots)]
            if twins:
                skills[1] = skills[0]
            ladder = climb(
                Paired(bots, seats),
                Fold(PARAMETERS),
                [0] * bots,
                partial(performed, skills, chance),
                f"{seed}",
            )
            for fold in islice(ladder, 10 * seats - 1, limit, 10 * seats):
                neighbours = compare_neighbours(PARAMETERS, fold.ratings)
                if not is_settled(neighbours) or len(fold.ratings) < bots:
                    continue
                lengths.append(fold.sequence)
                for pair in neighbours:
                    verdicts += 1
                    ahead = skills[pair.upper] - skills[pair.lower]
                    wrong += ahead <= 0.0 if pair.verdict == "apart" else abs(ahead) > level
                break
        median = f"{statistics.median(lengths):,.0f}" if lengths else "-"
        share = f"{wrong / verdicts:.1%}" if verdicts else "-"
        print(f"| {name} | {len(lengths)} of {ladders} | {median} | {verdicts} | {share} |")


def copies(
    seats: int = 4, authors: int = 25, spread: float = 4.0, ladders: int = 40, limit: int = 200
) -> None:
    """What the best of an author's identical bots stands at, and how many seats they all take.

    The author is the middle one of a close field.
    """
    middle = authors // 2
    others = [spread * quantile((p + 0.5) / authors) for p in range(authors) if p != middle]
    print(f"{authors} authors, {seats} seats, spread of skills {spread:g}, {ladders} ladders\n")
    print(
        "| copies | games of each other | seats of all copies | games of a copy "
        "| mu of the first, above its skill | its rank, the truth is "
        f"{middle + 1} |"
    )
    print("|---|---|---|---|---|---|")
    for number in (1, 5, 20):
        bots = authors + number - 1
        found: dict[int, list[tuple[float, float, float, float]]] = {100: [], limit: []}
        for seed in range(ladders):
            chance = RandomStream(f"copies/{number}/{seed}".encode(), "games")
            skills = [0.0, *others, *[0.0] * (number - 1)]
            ours = [0, *range(authors, bots)]
            played, at = [0] * bots, min(found)
            source, fold = Paired(bots, seats, authors), Fold(PARAMETERS)
            for _ in climb(source, fold, played, partial(performed, skills, chance), f"{seed}"):
                if sum(played[1:authors]) < at * (authors - 1):
                    continue
                ratings = [fold.rating(bot) for bot in range(bots)]
                level = statistics.mean(ratings[bot].mu for bot in range(1, authors))
                first = max(ours, key=lambda bot: ratings[bot].conservative)
                ahead = sum(
                    ratings[bot].conservative > ratings[first].conservative
                    for bot in range(1, authors)
                )
                games = sum(played[bot] for bot in ours)
                found[at].append(
                    (games / sum(played), games / number, ratings[first].mu - level, ahead + 1)
                )
                if at == limit:
                    break
                at = limit
        for at, rows in found.items():
            share, games, above, rank = (
                statistics.mean(column) for column in zip(*rows, strict=True)
            )
            print(f"| {number} | {at} | {share:.0%} | {games:.0f} | {above:+.1f} | {rank:.1f} |")


def normal(chance: RandomStream) -> float:
    return _STANDARD.inv_cdf(0.0001 + 0.9998 * chance.unit())


def performed(
    skills: Sequence[float] | Mapping[int, float],
    chance: RandomStream | Sequence[RandomStream],
    number: int,
    seating: tuple[int, ...],
) -> GameOutcome:
    """The game of these bots, with the luck of one stream, or of one for each bot."""

    def luck(bot: int) -> float:
        return normal(chance if isinstance(chance, RandomStream) else chance[bot])

    shown = {bot: skills[bot] + PARAMETERS.beta * luck(bot) for bot in seating}
    placements: dict[int, int] = {}
    ahead = None
    for place, bot in enumerate(sorted(seating, key=lambda bot: -shown[bot]), 1):
        level = ahead is not None and shown[ahead] - shown[bot] < PARAMETERS.draw_margin
        placements[bot] = placements[ahead] if ahead is not None and level else place
        ahead = bot
    return GameOutcome(number, seating, tuple(placements[bot] for bot in seating))


def main() -> None:
    """Print one table, and what it was measured on."""
    parser = argparse.ArgumentParser(description="Figures of the ladder's arithmetic.")
    benches = {
        bench.__name__: bench
        for bench in (refold, pairing, order, field, newcomer, settled, copies)
    }
    parser.add_argument("bench", choices=benches)
    arguments = parser.parse_args()
    print(figures.described() + "\n")
    benches[arguments.bench]()


if __name__ == "__main__":
    main()

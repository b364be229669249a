"""What `rank` finds out about ten bots, and whether it is true: python bench/rank.py.

    python bench/rank.py [--games 4000] [--held-out 20000] [--seats 4] [--workers 2]

Ten variants of the sample bots (variants.py) are ranked with so many games. Other games, on another
seed, say what their placement scores in each other's company are; a verdict is wrong if those
contradict it by more than three of their standard errors. It prints how many pairs were decided on
the way.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import combinations

from deepsea_referee.bots.process import Hosting
from deepsea_referee.bots.resolve import BotSpec
from deepsea_referee.sandbox.probe import choose
from deepsea_referee.summary import GameResult, MatchResult
from deepsea_referee.workbench.blocks import PlayedBlock, play_blocks
from deepsea_referee.workbench.ranking import RankGames, Ranking, RankSettings
from deepsea_rules.game import GameRecord
from deepsea_rules.randomness import seed_from_text
from deepsea_sdk.table import play
from figures import described
from variants import TEN

Played = tuple[GameResult, GameRecord]


def settings(seats: int, seed: str) -> RankSettings:
    """A ranking of the ten variants."""
    bots = [BotSpec(variant.name, (), None, "") for variant in TEN]
    hosting = Hosting(choose("process"))
    return RankSettings(bots=bots, players=seats, hosting=hosting, seed=seed_from_text(seed))


def game(wanted: RankSettings, number: int) -> Played:
    """One game of a ranking."""
    line_up = wanted.line_up(number)
    table = play([TEN[bot].bot for bot in line_up], seed=wanted.game_seed(number))
    points, placements = table.result()
    result = GameResult(number + 1, "", line_up, points, placements, (), ())
    return result, table.record()


def match(
    pool: ProcessPoolExecutor,
    wanted: RankSettings,
    _workers: int,
    on_game: Callable[[GameResult, GameRecord], object],
    *_: object,
    **_options: object,
) -> MatchResult:
    """Play a match of variants in the pool, in portions, since it may be ended early."""
    numbers = list(wanted.numbers())
    for first in range(0, len(numbers), 200):
        portion = numbers[first : first + 200]
        for result, record in pool.map(partial(game, wanted), portion, chunksize=10):
            on_game(result, record)
    return wanted.result("in-process")


def strengths(pool: ProcessPoolExecutor, seats: int, games: int) -> list[list[float]]:
    """For each bot its mean placement score in each round of held-out games."""
    truth = Ranking(len(TEN))
    wanted = replace(settings(seats, "held out"), games=games)
    found: list[list[float]] = [[] for _ in TEN]
    before = [0.0] * len(TEN)

    def on_block(_number: int, played: PlayedBlock) -> bool:
        truth.add_round([result for result, _ in played])
        for bot in range(len(TEN)):
            total = truth.score(bot) * truth.rounds
            found[bot].append(total - before[bot])
            before[bot] = total
        return False

    play_blocks(wanted, on_block, play=partial(match, pool))
    return found


def wrong_verdicts(ranking: Ranking, truth: list[list[float]], margin: float) -> list[str]:
    """The verdicts that held-out games contradict by three standard errors or more."""
    found = []
    for a, b in combinations(range(len(TEN)), 2):
        gaps = [one - other for one, other in zip(truth[a], truth[b], strict=True)]
        mean = statistics.fmean(gaps)
        error = 3 * statistics.stdev(gaps) / len(gaps) ** 0.5
        verdict = ranking.verdict(a, b)
        if (
            (verdict == "better" and mean + error < 0)
            or (verdict == "worse" and mean - error > 0)
            or (verdict == "level" and abs(mean) - error > margin)
        ):
            found.append(f"{TEN[a].name} {verdict} than {TEN[b].name}: {mean:+.3f} ±{error:.3f}")
    return found


def marks(ranking: Ranking, games: Iterable[int]) -> Callable[[PlayedBlock], None]:
    """Prints the pairs that are decided after these numbers of games."""
    left = sorted(games)

    def on_round(_played: PlayedBlock) -> None:
        while left and ranking.games >= left[0]:
            print(f"{left.pop(0):6} games: {ranking.counts[0]} of {ranking.counts[1]}", flush=True)

    return on_round


def main() -> None:
    """Rank, and check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--games", type=int, default=4000)
    parser.add_argument("--held-out", type=int, default=20_000)
    parser.add_argument("--seats", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", default="rank")
    given = parser.parse_args()
    print(f"# {described()}")
    wanted = replace(settings(given.seats, given.seed), games=given.games)
    playing = RankGames(wanted)
    ranking = playing.ranking
    with ProcessPoolExecutor(given.workers) as pool:
        on_round = marks(ranking, [250, 500, 1000, 2000, 3000, given.games])
        playing.play(on_round, play=partial(match, pool))
        decided, pairs = ranking.counts
        print(f"decided {decided} of {pairs} pairs in {ranking.games} games")
        truth = strengths(pool, given.seats, given.held_out)
    wrong = wrong_verdicts(ranking, truth, 0.05)
    print(f"wrong by {given.held_out} held-out games: {len(wrong)}")
    for line in wrong:
        print(f"  {line}")
    for bot in ranking.order:
        held = statistics.fmean(truth[bot])
        print(f"{TEN[bot].name:15} {ranking.score(bot):.3f}  held out {held:.3f}", end="  ")
        print("ranks {}-{}".format(*ranking.ranks(bot)))


if __name__ == "__main__":
    main()

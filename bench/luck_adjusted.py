"""How many blocks `compare` needs with and without --luck-adjusted: python bench/luck_adjusted.py.

    python bench/luck_adjusted.py [--seeds N] [--most BLOCKS] [PAIR:SEATS...]
    python bench/luck_adjusted.py --draws N [--pool BLOCKS] [--most BLOCKS] [PAIR:SEATS...]

Both decide on the same blocks, as `compare --until-decided` does by default; the table has medians
and means over the seeds, or over sequences that are drawn from the blocks of one seed: that is
cheaper for many. Sample bots are named as they are, `tweaked` is that of variance.py, and
`heuristic~5` plays anything in 5 % of its decisions.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, islice
from typing import NamedTuple, TypeAlias

from deepsea_bots.heuristic import Heuristic
from deepsea_referee.bots.loading import load
from deepsea_referee.bots.resolve import BotSpec, resolve
from deepsea_referee.summary import GameResult
from deepsea_referee.workbench.blocks import BlockLuck, seated
from deepsea_referee.workbench.comparison import Comparison
from deepsea_rules.randomness import game_seed, seed_from_text
from deepsea_sdk.bot import AnyBot
from deepsea_sdk.coach.formula import LuckSums
from deepsea_sdk.table import play
from figures import described
from variance import Tweaked
from variants import Variant

MATCHES = (
    "greedy/tweaked:2",
    "greedy/tweaked:4",
    "greedy/cautious:2",
    "heuristic/heuristic~5:2",
    "heuristic/heuristic~5:4",
    "heuristic/heuristic~20:2",
    "heuristic/heuristic~20:4",
    "greedy/cautious:4",
    "greedy/cautious:6",
    "heuristic/greedy:2",
    "heuristic/greedy:4",
    "heuristic/greedy:6",
    "heuristic/cautious:2",
    "greedy/random:4",
    "heuristic/random:2",
)


Seated: TypeAlias = tuple[
    list[BotSpec], tuple[tuple[int, ...], ...], tuple[int, ...], tuple[int, ...]
]
Block: TypeAlias = tuple[Sequence[GameResult], LuckSums]


class Needed(NamedTuple):
    """Blocks until a plain and an adjusted verdict, and whether these say the opposite."""

    plain: int
    adjusted: int
    opposite: bool


def player(name: str) -> AnyBot:
    """What makes the bot of that name for a game."""
    if name == "tweaked":
        return Tweaked
    style, noisy, percent = name.partition("~")
    if noisy:
        return Variant(style, Heuristic, int(percent) / 100).bot
    return load(resolve(name))


class Pair(NamedTuple):
    """Two bots that are compared."""

    names: tuple[str, str]
    seats: int

    @classmethod
    def of(cls, match: str) -> Pair:
        """A pair by its name, such as `greedy/cautious:4`."""
        pair, _, seats = match.partition(":")
        a, b = pair.split("/")
        return cls((a, b), int(seats))

    def blocks(self, seed: str) -> Iterator[Block]:
        """The blocks of a seed, one after the other, without end."""
        bots, line_ups, ours, theirs = self.seated
        made = {name: player(name) for name in self.names}
        luck = BlockLuck(line_ups, ours, theirs)
        for block in count():
            games, played = [], []
            for line_up in line_ups:
                game = play(
                    [made[bots[bot].name] for bot in line_up],
                    seed=game_seed(seed_from_text(seed), block),
                )
                scores, placements = game.result()
                games.append(GameResult(block, "", line_up, scores, placements, (), ()))
                played.append((games[-1], game.record()))
            yield games, luck.measure(played)

    @property
    def seated(self) -> Seated:
        """The bots, the line-ups of a block, and who is whose copy."""
        a, b = (BotSpec(name, (), None, "") for name in self.names)
        return seated(a, b, [], self.seats)

    def needed(self, blocks: Iterable[Block], most: int) -> Needed:
        """Blocks until the verdicts of a plain and of an adjusted comparison, at most so many."""
        _, line_ups, ours, theirs = self.seated
        both = [Comparison(line_ups, ours, theirs, luck_adjusted=which) for which in (False, True)]
        needed = [0, 0]
        for number, (games, luck) in enumerate(islice(blocks, most), 1):
            for which, comparison in enumerate(both):
                if not needed[which]:
                    comparison.add(games, luck)
                    if comparison.verdict:
                        needed[which] = number
            if all(needed):
                break
        opposite = {comparison.verdict for comparison in both} == {"A", "B"}
        return Needed(needed[0] or most, needed[1] or most, opposite)


def found(pair: Pair, given: argparse.Namespace) -> list[Needed]:
    """The blocks needed with each seed, or in each sequence drawn from the blocks of one seed."""
    if not given.draws:
        seeds = [f"luck adjusted {number}" for number in range(given.seeds)]
        return [pair.needed(pair.blocks(seed), given.most) for seed in seeds]
    pool = list(islice(pair.blocks("luck adjusted"), given.pool))
    chance = random.Random(given.draws)
    return [
        pair.needed((chance.choice(pool) for _ in count()), given.most) for _ in range(given.draws)
    ]


def main() -> None:
    """Print a row for each match."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--draws", type=int, default=0)
    parser.add_argument("--pool", type=int, default=1000)
    parser.add_argument("--most", type=int, default=2000)
    parser.add_argument("matches", metavar="PAIR:SEATS", nargs="*", default=MATCHES)
    given = parser.parse_args()
    print(f"# {described()}")
    runs = (
        f"{given.draws} sequences drawn from {given.pool} blocks"
        if given.draws
        else f"{given.seeds} seeds"
    )
    print(f"blocks until a verdict, at most {given.most}: medians (and means) of {runs}")
    print("| A/B | seats | plain | luck-adjusted | ratio |")
    print("|---|---|---|---|---|")
    for match in given.matches:
        pair = Pair.of(match)
        rows = found(pair, given)
        plain, adjusted = [[row[which] for row in rows] for which in (0, 1)]
        median, mean = [
            (of(plain), of(adjusted), of(adjusted) / of(plain))
            for of in (statistics.median, statistics.fmean)
        ]
        columns = [
            f"{median[0]:g} ({mean[0]:.0f})",
            f"{median[1]:g} ({mean[1]:.0f})",
            f"{median[2]:.2f} ({mean[2]:.2f})",
        ]
        opposite = sum(row.opposite for row in rows)
        note = f" {opposite} opposite verdicts" if opposite else ""
        print(
            f"| {'/'.join(pair.names)} | {pair.seats} | {' | '.join(columns)}{note} |", flush=True
        )


if __name__ == "__main__":
    main()

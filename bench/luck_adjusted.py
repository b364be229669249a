"""How many blocks `compare` needs with and without --luck-adjusted: python bench/luck_adjusted.py.

    python bench/luck_adjusted.py [--seeds N] [--most BLOCKS] [PAIR:SEATS...]

Both decide on the same blocks, as `compare --until-decided` does by default; the table has medians
over the seeds. Sample bots are named as they are, `tweaked` is that of variance.py, and
`heuristic~5` plays anything in 5 % of its decisions.
"""

from __future__ import annotations

import argparse
import statistics

from deepsea_bots.heuristic import Heuristic
from deepsea_referee.bots.loading import load
from deepsea_referee.bots.resolve import BotSpec, resolve
from deepsea_referee.results.summary import GameResult
from deepsea_referee.workbench.block_luck import BlockLuck
from deepsea_referee.workbench.comparison import Comparison
from deepsea_referee.workbench.paired_blocks import seated
from deepsea_rules.randomness import game_seed, seed_from_text
from deepsea_sdk.bot import AnyBot
from deepsea_sdk.table import play
from machine import described
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


def player(name: str) -> AnyBot:
    """What makes the bot of that name for a game."""
    if name == "tweaked":
        return Tweaked
    style, noisy, percent = name.partition("~")
    if noisy:
        return Variant(style, Heuristic, int(percent) / 100).bot
    return load(resolve(name))


def blocks_needed(names: list[str], seats: int, seed: str, most: int) -> tuple[int, int, bool]:
    """Blocks until the verdict of a plain and of an adjusted comparison, at most so many.

    The last value is whether two verdicts say the opposite.
    """
    a, b = (BotSpec(name, (), None, "") for name in names)
    made = {name: player(name) for name in names}
    bots, line_ups, ours, theirs = seated(a, b, [], seats)
    luck = BlockLuck(line_ups, ours, theirs)
    plain = Comparison(line_ups, ours, theirs)
    adjusted = Comparison(line_ups, ours, theirs, luck_adjusted=True)
    needed = [0, 0]
    for block in range(most):
        games, played = [], []
        for line_up in line_ups:
            game = play(
                [made[bots[bot].name] for bot in line_up],
                seed=game_seed(seed_from_text(seed), block),
            )
            scores, placements = game.result()
            games.append(GameResult(block, "", line_up, scores, placements, (), ()))
            played.append((games[-1], game.record()))
        total = 0.0 if needed[1] else luck.of(played)
        for which, comparison in enumerate((plain, adjusted)):
            if not needed[which]:
                comparison.add(games, total)
                if comparison.verdict:
                    needed[which] = block + 1
        if all(needed):
            break
    opposite = {plain.verdict, adjusted.verdict} == {"A", "B"}
    return needed[0] or most, needed[1] or most, opposite


def main() -> None:
    """Print a row for each match."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--most", type=int, default=2000)
    parser.add_argument("matches", metavar="PAIR:SEATS", nargs="*", default=MATCHES)
    given = parser.parse_args()
    print(f"# {described()}")
    print(f"blocks until a verdict, at most {given.most}: medians of {given.seeds} seeds")
    print("| A/B | seats | plain | luck-adjusted | ratio |")
    print("|---|---|---|---|---|")
    for match in given.matches:
        pair, _, seats = match.partition(":")
        found = [
            blocks_needed(pair.split("/"), int(seats), f"luck adjusted {number}", given.most)
            for number in range(given.seeds)
        ]
        plain, adjusted = (statistics.median(row[which] for row in found) for which in (0, 1))
        opposite = sum(row[2] for row in found)
        note = f" ({opposite} opposite verdicts)" if opposite else ""
        ratio = f"{adjusted / plain:.2f}{note}"
        print(f"| {pair} | {seats} | {plain:g} | {adjusted:g} | {ratio} |", flush=True)


if __name__ == "__main__":
    main()

"""The order of the sample bots, by number of seats and rules: python bench/rank_samples.py.

    python bench/rank_samples.py [--games 300] [--seats 2 3 4 5 6] [--rules manual publisher]
                                 [--out DIR] [--workers 1]

It runs `deepsea-referee rank` for each table and prints the rows that are in docs/rank.md. With
`--out` what has been played is kept, and the next run plays on from there. The clock is a long one,
so that `diver` makes all of its trials on a busy machine too: the rows depend on the seeds alone.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

BOTS = ("diver", "heuristic", "steady", "greedy", "cautious", "random")


def row(seats: int, rules: str, words: list[str]) -> str:
    """The row of one table: score and rank set of each bot."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "deepsea_cli", "rank", *BOTS, "--seats", str(seats)),
            *("--rules", rules, "--seed", "samples", "--clock", "10s+60s"),
            *("--in-process", "--json", *words),
        ],
        stdout=subprocess.PIPE,
        text=True,
        check=False,  # open pairs are no error
    )
    document = json.loads(done.stdout)
    found = {}
    for bot in document["order"]:
        low, high = bot["ranks"]
        ranks = f"{low}" if low == high else f"{low}-{high}"
        found[bot["name"]] = f"{bot['placement_score']:.2f} ({ranks})"
    pairs = document["pairs"]
    decided = sum(pair["verdict"] != "open" for pair in pairs)
    cells = [str(seats), rules, str(document["games"]), *(found[bot] for bot in BOTS)]
    return f"| {' | '.join(cells)} | {decided} of {len(pairs)} |"


def main() -> None:
    """Print the rows, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--games", type=int, default=300)
    parser.add_argument("--seats", type=int, nargs="+", default=[2, 3, 4, 5, 6])
    parser.add_argument("--rules", nargs="+", default=["manual", "publisher"])
    parser.add_argument("--out", help="a folder for the games")
    parser.add_argument("--workers", default="1")
    given = parser.parse_args()
    print(f"| seats | rules | games | {' | '.join(BOTS)} | pairs decided |")
    print(f"|{'---|' * (len(BOTS) + 4)}")
    for seats in given.seats:
        for rules in given.rules:
            words = ["--games", str(given.games), "--workers", given.workers]
            if given.out:
                words += ["--out", f"{given.out}/{rules}-{seats}"]
            print(row(seats, rules, words), flush=True)


if __name__ == "__main__":
    main()

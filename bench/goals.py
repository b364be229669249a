"""How fast it is, by the goals that docs/dev/performance.md explains. `make bench` runs this.

    python bench/goals.py [--scale tiny|full] [--only TOPIC]... [--json [FILE]]

Prints one table, row by row; takes some minutes, and wants a machine that does nothing else.
Nothing here fails because something is slow. A topic that cannot be measured says why and makes
the exit status 1; the others are measured.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import get_args

import batches
import cold_start
import many_games
import memory
import one_game
import tables
from figures import Row, Scale, report

TOPICS: Mapping[str, Callable[[Scale], Iterable[Row]]] = {
    "one-game": one_game.measure,
    "lines": one_game.measure_lines,
    "many-games": many_games.measure,
    "tables": tables.measure,
    "batches": batches.measure,
    "cold-start": cold_start.measure,
    "ladder": cold_start.measure_ladder,
    "memory": memory.rows,
    "workers": many_games.measure_workers,
}


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Measure what the goals are about.")
    parser.add_argument("--scale", choices=get_args(Scale), default="full")
    parser.add_argument("--only", choices=TOPICS, action="append", help="one topic; all without")
    parser.add_argument("--json", nargs="?", const="-", metavar="FILE", help="JSON, too")
    given = parser.parse_args()
    gc.set_threshold(50_000)  # as the command line does
    topics = {topic: partial(TOPICS[topic], given.scale) for topic in given.only or TOPICS}
    sys.exit(report(topics, given.json, scale=given.scale))


if __name__ == "__main__":
    main()

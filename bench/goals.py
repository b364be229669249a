"""How fast it is, by the goals that docs/dev/performance.md explains. `make bench` runs this.

    python bench/goals.py [--scale tiny|full] [--only TOPIC]... [--json [FILE]]

Prints one table; takes some minutes, and wants a machine that does nothing else. Nothing here
fails because something is slow.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, get_args

import cold_start
import ladder_commands
import many_games
import memory
import one_game
import tables
import worker_processes
from figures import Row, Scale, as_json, table
from machine import described

TOPICS: Final[dict[str, Callable[[Scale], list[Row]]]] = {
    "one-game": one_game.measure,
    "many-games": many_games.measure,
    "tables": tables.measure,
    "cold-start": cold_start.measure,
    "ladder": ladder_commands.measure,
    "memory": memory.rows,
    "workers": worker_processes.measure,
}


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Measure what the goals are about.")
    parser.add_argument("--scale", choices=get_args(Scale), default="full")
    parser.add_argument("--only", choices=TOPICS, action="append", help="one topic; all without")
    parser.add_argument("--json", nargs="?", const="-", metavar="FILE", help="JSON, too")
    arguments = parser.parse_args()
    gc.set_threshold(50_000)  # as the command line does
    machine = described()
    rows: list[Row] = []
    for topic in arguments.only or TOPICS:
        print(f"{topic} ...", file=sys.stderr, flush=True)
        rows += TOPICS[topic](arguments.scale)
    text = f"{machine}\n\n{table(rows)}"
    if arguments.json is None:
        print(text)
        return
    document = json.dumps({"machine": machine, "scale": arguments.scale, "rows": as_json(rows)})
    if arguments.json == "-":
        print(text, file=sys.stderr)
        print(document)
    else:
        print(text)
        Path(arguments.json).write_text(document + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

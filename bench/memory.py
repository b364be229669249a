"""The memory of a long match: does the referee need more for ten times as many games?

    python bench/memory.py [--few 1000] [--many 10000] [--way NAME]...

The matches run as programs of their own, which tell the peak of their own resident memory when they
end; bots and workers are other processes and not in it. The goal is a ratio of at most 1.1. Bots as
processes take minutes for ten thousand games.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from figures import Row, Scale, at_most, described

TELLING = """
import sys
if __name__ == "__main__":  # a worker imports this too
    from deepsea_cli import main
    try:
        main()
    finally:
        # Not ru_maxrss: that begins with what the process had that started this one.
        with open("/proc/self/status") as status:
            peak = next(line.split()[1] for line in status if line.startswith("VmHWM:"))
        sys.stderr.write(f"{peak}\\n")
"""
BOTS = ("greedy", "cautious")
QUIET = ("--quiet", "--clock", "10s", "--seed", "memory")
LIMIT = 1.1
GOAL_GAMES: dict[Scale, tuple[int, int]] = {"tiny": (2, 4), "full": (1_000, 10_000)}
WAYS = {
    "in-process": ("--in-process",),
    "json": ("--in-process", "--json"),
    "out": ("--in-process", "--out", "OUT"),
    "workers": ("--in-process", "--workers", "2", "--out", "OUT"),
    "processes": ("--isolation", "process", "--tables", "8", "--out", "OUT"),
}


def peak_kib(way: str, games: int) -> int:
    """The most resident memory that a match of so many games had at a time."""
    with tempfile.TemporaryDirectory(prefix="memory-") as folder:
        program = Path(folder) / "telling.py"
        program.write_text(TELLING, encoding="utf-8")
        options = [str(Path(folder) / "out") if word == "OUT" else word for word in WAYS[way]]
        words = [
            sys.executable,
            str(program),
            "match",
            *BOTS,
            "--games",
            str(games),
            *QUIET,
            *options,
        ]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
    return int(done.stderr.split()[-1])


def measure(ways: list[str], few: int, many: int) -> dict[str, object]:
    """The figures of each way."""
    rows = []
    for way in ways:
        peaks = [peak_kib(way, games) for games in (few, many)]
        rows.append(
            {
                "way": way,
                "few_kib": peaks[0],
                "many_kib": peaks[1],
                "ratio": round(peaks[1] / peaks[0], 3),
            }
        )
        print(f"{way:10} {peaks[0]:8} {peaks[1]:8} {peaks[1] / peaks[0]:6.3f}", file=sys.stderr)
    return {"machine": described(), "few": few, "many": many, "rows": rows}


def rows(scale: Scale) -> Iterator[Row]:
    """For the table of goals."""
    few, many = GOAL_GAMES[scale]
    for way in ("out", "processes"):
        peaks = [peak_kib(way, games) for games in (few, many)]
        yield at_most(
            f"peak memory of {many:,} games ({way}), against {few:,}",
            f"{peaks[1] / 1024:.1f} MiB, {peaks[0] / 1024:.1f} MiB",
            peaks[1] / peaks[0],
            LIMIT,
            many_kib=peaks[1],
            few_kib=peaks[0],
        )


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Measure the memory of a long match.")
    parser.add_argument("--few", type=int, default=1_000)
    parser.add_argument("--many", type=int, default=10_000)
    parser.add_argument("--way", choices=WAYS, action="append")
    arguments = parser.parse_args()
    print(f"{'way':10} {'few':>8} {'many':>8}  ratio   (KiB at the peak)", file=sys.stderr)
    ways = arguments.way or list(WAYS)
    print(json.dumps(measure(ways, arguments.few, arguments.many)))


if __name__ == "__main__":
    main()

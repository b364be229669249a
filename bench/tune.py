"""Whether `tune` finds a number put wrong, and leaves one at its best: python bench/tune.py.

    python bench/tune.py [--seeds N] [--budget GAMES] [--range LOW..HIGH] [START...]

The bot is that of `deepsea-referee new`, whose number `safe` begins with each START. The counts
depend on the seeds alone, not on the machine.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from deepsea_referee.workbench.scaffold import create


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--budget", default="8000")
    parser.add_argument("--range", default="0.3..2.7")
    parser.add_argument("starts", nargs="*", default=["2.5", "0.7"])
    given = parser.parse_args()
    print("| start | seed | found | verdict | blocks | placement score: difference, interval |")
    print("|---|---|---|---|---|---|")
    for start in given.starts:
        with TemporaryDirectory() as place:
            folder = Path(place) / "mine"
            create(str(folder))
            file = folder / "bot.py"
            text = file.read_text(encoding="utf-8")
            file.write_text(text.replace("safe = 1.0", f"safe = {start}"), encoding="utf-8")
            for seed in range(1, given.seeds + 1):
                words = [f"{folder},safe={given.range}", "--budget", given.budget, "--in-process"]
                run(start, [*words, "--seed", str(seed), "--json"])


def run(start: str, words: list[str]) -> None:
    """Print a line of the table."""
    command = [sys.executable, "-m", "deepsea_cli", "tune", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)
    (number,), compared = found["parameters"], found["comparison"]
    verdict = "better" if found["better"] else "not better"
    row = [start, words[-2], number["found"], verdict]
    if compared is not None:
        score = compared["placement_score"]
        low, high = score["interval"]
        row += [compared["blocks"], f"{score['difference']:+.3f}, {low:+.3f} to {high:+.3f}"]
    print(f"| {' | '.join(map(str, row))} |", flush=True)


if __name__ == "__main__":
    main()

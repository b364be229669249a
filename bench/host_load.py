"""False timeouts on a busy host: does a bot ever pay for what the machine did?

    python bench/host_load.py [--hogs 16] [--games 200] [--json]

While `hogs` busy processes hold the machine, a bot that needs 20 ms of CPU time for each decision
plays at 100 ms without a bank: a timeout of its is a false one. Bots that sleep, spin, let threads
of their own crowd the CPU or wake up without end play under the same load: each decision of theirs
has to be a timeout, so that each game takes them three and is forfeited.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from deepsea_referee.bots.process import Hosting
from deepsea_referee.bots.resolve import BotSpec, resolve
from deepsea_referee.match import MatchSettings, run_match
from deepsea_referee.results.summary import GameResult
from deepsea_referee.sandbox.probe import choose
from deepsea_rules.faults import Fault
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.record import GameRecord
from deepsea_rules.time_control import TimeControl

CONTROL = TimeControl(100_000)
GAMES_OF_A_CHEAT = 3
LONGEST_S = 3600
"""The alarm that ends a busy process if nobody else does."""
BUSY = "import signal, sys; signal.alarm(int(sys.argv[1]))\nwhile True: pass"
BOT = """
import threading, time
from deepsea_sdk import Bot, run

def work(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass

def crowd(seconds):
    for _ in range(8):
        threading.Thread(target=work, args=(seconds,), daemon=True).start()
    time.sleep(seconds)

def wake(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.001)

def wakers(seconds):
    for _ in range(16):
        threading.Thread(target=wake, args=(seconds,), daemon=True).start()
    time.sleep(seconds)

class Timed(Bot):
    def decide(self, view):
        {does}
        return view.legal[0]

if __name__ == "__main__":
    run(Timed)
"""
WORKER = "work(0.02)"
CHEATS = {
    "sleeper": "time.sleep(1)",
    "spinner": "work(0.4)",
    "inflater": "crowd(1)",
    "waker": "wakers(1)",
}


@dataclass(frozen=True, slots=True)
class Row:
    """How one bot fared."""

    bot: str
    games: int
    void: int
    decisions: int
    timeouts: int
    forfeits: int
    median_us: int | None
    slowest_us: int | None


@contextmanager
def busy_host(hogs: int) -> Iterator[None]:
    """Keep the machine busy with so many processes; each is ended by its own handle."""
    command = [sys.executable, "-I", "-S", "-c", BUSY, str(LONGEST_S)]
    processes = [subprocess.Popen(command) for _ in range(hogs)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()


def bot(folder: Path, name: str, does: str) -> BotSpec:
    """A bot that does something before each decision and then plays the default action."""
    file = folder / f"{name}.py"
    file.write_text(BOT.format(does=does), encoding="utf-8")
    return resolve(str(file))


def fares(spec: BotSpec, games: int) -> Row:
    """Let a bot play against a sample."""
    settings = MatchSettings(
        bots=[spec, resolve("greedy")],
        hosting=Hosting(choose("auto"), start_limit_us=120_000_000),
        games=games,
        time_control=CONTROL,
        seed=seed_from_text("host load"),
    )
    own: list[Fault] = []

    def on_game(game: GameResult, _record: GameRecord) -> None:
        own.extend(report.fault for report in game.faults if game.seats[report.seat] == 0)

    result = run_match(settings, on_game)
    row = result.summaries()[0]
    return Row(
        bot=spec.name,
        games=row.games,
        void=result.voids.count,
        decisions=row.decisions,
        timeouts=own.count(Fault.TIMEOUT),
        forfeits=row.forfeits,
        median_us=row.median_us,
        slowest_us=row.slowest_us,
    )


def measure(hogs: int, games: int, cheat_games: int = GAMES_OF_A_CHEAT) -> dict[str, object]:
    """Everything, as data."""
    with tempfile.TemporaryDirectory(prefix="host-load-") as name, busy_host(hogs):
        folder = Path(name)
        worker = fares(bot(folder, "worker", WORKER), games)
        cheats = [fares(bot(folder, cheat, does), cheat_games) for cheat, does in CHEATS.items()]
    return {
        "hogs": hogs,
        "cpus": os.cpu_count(),
        "clock": CONTROL.format(),
        "isolation": choose("auto").name,
        "false_timeout_rate": worker.timeouts / worker.decisions if worker.decisions else None,
        "rows": [asdict(row) for row in (worker, *cheats)],
    }


def table(figures: dict[str, object]) -> str:
    """The same for people, in Markdown."""
    columns = tuple(Row.__annotations__)
    lines = [" | ".join(columns), " | ".join("---" for _ in columns)]
    rows = figures["rows"]
    assert isinstance(rows, list)
    lines += [" | ".join(str(row[column]) for column in columns) for row in rows]
    lines = [f"| {line} |" for line in lines]
    head = (
        f"{figures['hogs']} busy processes on {figures['cpus']} CPUs, clock {figures['clock']}, "
        f"isolation {figures['isolation']}: false timeouts {figures['false_timeout_rate']}"
    )
    return "\n".join([head, "", *lines])


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Measure false timeouts on a busy host.")
    parser.add_argument("--hogs", type=int, default=16)
    parser.add_argument("--games", type=int, default=200)
    parser.add_argument("--cheat-games", type=int, default=GAMES_OF_A_CHEAT)
    parser.add_argument("--json", action="store_true", help="JSON alone, without the table")
    arguments = parser.parse_args()
    figures = measure(arguments.hogs, arguments.games, arguments.cheat_games)
    if not arguments.json:
        print(table(figures), file=sys.stderr)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()

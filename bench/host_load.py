"""False timeouts on a busy host: does a bot ever pay for what the machine did?

    python bench/host_load.py [--hogs 16] [--games 200] [--workers 1] [--json]

While `hogs` busy processes hold the machine, a bot that needs 20 ms of CPU time for each decision
plays at 100 ms without a bank: a timeout of its is a false one. Bots that sleep, spin, let threads
of their own crowd the CPU, wake up without end or all at once play under the same load: decisions
of theirs are timeouts, so that each game takes them three and is forfeited. (Beside many hogs the
last two are denied CPUs indeed: not each of their decisions is a timeout.)

Then honest bots play against one that burns: forty processes of it, each in a session of its own,
compute all the time, and nobody is frozen. Every timeout and every void game there is a false one.

The exit status is 1 if an honest bot had a fault or a void game, or a cheat two void games.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import figures
from deepsea_referee.bots.process import Hosting
from deepsea_referee.bots.resolve import BotSpec, resolve
from deepsea_referee.match import MatchSettings
from deepsea_referee.sandbox.probe import choose
from deepsea_referee.shared_match import run_match_with_workers
from deepsea_referee.summary import GameResult
from deepsea_rules.faults import Fault
from deepsea_rules.game import GameRecord
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.time_control import TimeControl

CONTROL = TimeControl(100_000)
GAMES_OF_A_CHEAT = 3
LONGEST_S = 3600
"""The alarm that ends a busy process if nobody else does."""
BUSY = "import signal, sys; signal.alarm(int(sys.argv[1]))\nwhile True: pass"
BOT = """
import contextlib, os, signal, threading, time
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

def spurt(end):
    with contextlib.suppress(OSError):  # the sandbox does not allow it any more
        os.sched_setaffinity(0, {{0}})
    while time.monotonic() < end:
        time.sleep(0.25 - time.monotonic() % 0.25)
        while time.monotonic() % 0.25 < 0.0085:
            pass

def in_phase(seconds):
    end = time.monotonic() + seconds
    threads = [threading.Thread(target=spurt, args=(end,), daemon=True) for _ in range(31)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

def child(seconds):
    pid = os.fork()
    if pid == 0:
        work(seconds)
        os._exit(0)
    os.waitpid(pid, 0)

def burn():
    for _ in range(40):
        if os.fork() == 0:
            os.setsid()
            signal.alarm({longest})
            while True:
                pass

class Timed(Bot):
    def decide(self, view):
        {does}
        return view.legal[0]

if __name__ == "__main__":
    {first}
    run(Timed)
"""
WORKER = "work(0.02)"
CHEATS = {
    "sleeper": "time.sleep(1)",
    "spinner": "work(0.4)",
    "inflater": "crowd(1)",
    "waker": "wakers(1)",
    "in phase": "in_phase(2)",
}
# As `resolve` names them after their files.
CHEATS_NAMED = {name.replace(" ", "-") for name in CHEATS}
HONEST = {
    "engine": ("child(0.02)", "pass"),
    "thinker": ("work(0.08)", "pass"),
    "starter": ("pass", "work(1)"),
}
"""They play against one that burns: what they do before each decision, and at the start."""
GAMES_BESIDE_BURNERS = 3
BURN_S = 600
"""The alarm that ends a burner if nobody else does."""


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


MOST_VOID = 1
"""Void games of a cheat: the second time it is the cheat's timeout."""


def broken(rows: Sequence[Row]) -> list[str]:
    """What may not be, in words; none if all held."""
    found = []
    for row in rows:
        if row.bot in CHEATS_NAMED:
            if row.void > MOST_VOID:
                found.append(f"{row.bot}: {row.void} void games")
        elif row.timeouts or row.forfeits or row.void:
            found.append(
                f"{row.bot}: {row.timeouts} false timeouts, {row.forfeits} forfeits, "
                f"{row.void} void games"
            )
    return found


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


def bot(folder: Path, name: str, does: str = "pass", first: str = "pass") -> BotSpec:
    """A bot that does something first and before each decision; it plays the default action."""
    file = folder / f"{name}.py"
    file.write_text(BOT.format(does=does, first=first, longest=BURN_S), encoding="utf-8")
    return resolve(str(file))


def fares(spec: BotSpec, games: int, workers: int, other: BotSpec | None = None) -> Row:
    """Let a bot play against another one, or a sample."""
    settings = MatchSettings(
        bots=[spec, other or resolve("greedy")],
        hosting=Hosting(choose("auto"), freeze=False),
        games=games,
        time_control=CONTROL,
        seed=seed_from_text("host load"),
    )
    own: list[Fault] = []

    def on_game(game: GameResult, _record: GameRecord) -> None:
        own.extend(report.fault for report in game.faults if game.seats[report.seat] == 0)

    result = run_match_with_workers(settings, workers, on_game)
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


def measure(
    hogs: int,
    games: int,
    cheat_games: int = GAMES_OF_A_CHEAT,
    beside_burners: int = GAMES_BESIDE_BURNERS,
    workers: int = 1,
) -> dict[str, object]:
    """Everything, as data."""
    with tempfile.TemporaryDirectory(prefix="host-load-") as name, busy_host(hogs):
        folder = Path(name)
        worker = fares(bot(folder, "worker", WORKER), games, workers)
        cheats = [
            fares(bot(folder, cheat, does), cheat_games, workers) for cheat, does in CHEATS.items()
        ]
        burner = bot(folder, "burner", first="burn()")
        honest = [
            fares(bot(folder, victim, does, first), beside_burners, workers, burner)
            for victim, (does, first) in HONEST.items()
        ]
    rows = (worker, *cheats, *honest)
    return {
        "machine": figures.described(),
        "hogs": hogs,
        "cpus": os.cpu_count(),
        "clock": CONTROL.format(),
        "isolation": choose("auto").name,
        "false_timeout_rate": worker.timeouts / worker.decisions if worker.decisions else None,
        "broken": broken(rows),
        "rows": [asdict(row) for row in rows],
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
    wrong = figures["broken"]
    assert isinstance(wrong, list)
    verdict = f"broken: {'; '.join(wrong)}" if wrong else "held: no honest bot paid for the host"
    return "\n".join([f"{figures['machine']}; {head}", "", *lines, "", verdict])


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Measure false timeouts on a busy host.")
    parser.add_argument("--hogs", type=int, default=16)
    parser.add_argument("--games", type=int, default=200)
    parser.add_argument("--cheat-games", type=int, default=GAMES_OF_A_CHEAT)
    parser.add_argument("--beside-burners", type=int, default=GAMES_BESIDE_BURNERS)
    parser.add_argument("--workers", type=int, default=1, help="each on its share of the CPUs")
    parser.add_argument("--json", action="store_true", help="JSON alone, without the table")
    arguments = parser.parse_args()
    figures = measure(
        arguments.hogs,
        arguments.games,
        arguments.cheat_games,
        arguments.beside_burners,
        arguments.workers,
    )
    if not arguments.json:
        print(table(figures), file=sys.stderr)
    print(json.dumps(figures))
    sys.exit(bool(figures["broken"]))


if __name__ == "__main__":
    main()

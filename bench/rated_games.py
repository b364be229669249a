"""Rated games: how fast a ladder plays bots that answer at once, in sandboxes.

    python bench/rated_games.py [--games 120] [--bots 4,10] [--workers 1,2] [--isolation sandbox]

Rates by the wall clock need a machine that does nothing else; the CPU time of the runner and of its
workers for each game holds on a busy one too. It has the start of the workers in it, and hardly
anything of the bots. Everything is started before the first game that counts: the rate is that of
the games after a tenth of them.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import machine
from deepsea_arena.play.runner import RunRequest, local_workers, run
from deepsea_arena.play.shutdown import Stop
from deepsea_arena.reports.standings import OrderReport
from deepsea_bundle.reader import read_bot
from deepsea_ladder.model.bots import SubmissionState
from deepsea_ladder.model.games import AnalysisState, Job, Receipt
from deepsea_ladder.season import Isolation, Season
from deepsea_ladder.store import Store

BOT = """
from deepsea_sdk import Bot, run

class AtOnce(Bot):
    def decide(self, view):
        return view.legal[0]

run(AtOnce)
"""


class Pace:
    """A watcher that notes when games end."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def begins(self, season: str, games: int | None) -> None:
        """Nothing to note."""

    def expects(self, order: OrderReport) -> None:
        """Nothing to note."""

    def taken_back(self, games: int) -> None:
        """Nothing to note."""

    def checked(self, bot: str, author: str, state: SubmissionState, note: str) -> None:
        """Nothing to note."""

    def analysed(self, game_id: str, state: AnalysisState, note: str) -> None:
        """Nothing to note."""

    def finished(self, job: Job, receipt: Receipt) -> None:
        """Note the time."""
        self.times.append(time.monotonic())

    def failed(self, job: Job, reason: str) -> None:
        """Fail: no game may be void here."""
        raise SystemExit(f"{job.game_id} is void: {reason}")

    def trouble(self, message: str) -> None:
        """Show it."""
        print(message)


class Measured(NamedTuple):
    """One row of the table."""

    rate: float
    """Games per second of the whole run."""
    after: float
    """The same of the games after the first tenth."""
    runner_s: float
    """CPU time of the runner's process for each game."""
    workers_s: float


def measure(bots: int, workers: int, games: int, isolation: Isolation) -> Measured:
    """Play games of a new ladder."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Store.create(Path(folder) / "ladder.db") as store,
        closing(Stop()) as stop,
    ):
        store.seasons.open(Season(name="s", isolation=isolation), b"s" * 32)
        for number in range(bots):
            file = Path(folder) / f"bot{number}.py"
            file.write_text(f"{BOT}# {number}\n", encoding="utf-8")
            store.bots.submit(file.stem, f"author{number}", read_bot(file))
        pace, before, start = Pace(), os.times(), time.monotonic()
        run(store, RunRequest(games=games), local_workers(store, workers), pace, stop)
        used = [now - then for now, then in zip(os.times(), before, strict=True)]
    user, system, children_user, children_system, _ = used
    tenth = games // 10
    return Measured(
        rate=games / (pace.times[-1] - start),
        after=(games - tenth) / (pace.times[-1] - pace.times[tenth - 1]),
        runner_s=(user + system) / games,
        workers_s=(children_user + children_system) / games,
    )


def main() -> None:
    """Print one table, and what it was measured on."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", type=int, default=120)
    parser.add_argument("--bots", default="4,10")
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--isolation", choices=("sandbox", "process"), default="sandbox")
    options = parser.parse_args()
    print(machine.described() + "\n")
    print("| bots | workers | games/s | after a tenth | CPU ms per game: runner | workers |")
    print("|---|---|---|---|---|---|")
    for bots in map(int, options.bots.split(",")):
        for workers in map(int, options.workers.split(",")):
            found = measure(bots, workers, options.games, options.isolation)
            cpu = f"{1e3 * found.runner_s:.1f} | {1e3 * found.workers_s:.0f}"
            rates = f"{found.rate:.1f} | {found.after:.1f}"
            print(f"| {bots} | {workers} | {rates} | {cpu} |", flush=True)


if __name__ == "__main__":
    main()

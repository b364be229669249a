"""Games of one honest bot against hostile ones, all real processes in the sandbox.

The honest ones are those that a hostile bot hurt most: thinking in a child process, with most of
the budget, until a wall clock says stop; and one that takes long to start.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from attacks.harness import Arena
from attacks.matches import hostile
from deepsea_referee.bots.output import OutputPlan
from deepsea_referee.bots.pool import BotPool
from deepsea_referee.bots.process import Hosting
from deepsea_referee.bots.resolve import BotSpec, resolve
from deepsea_referee.clock import SystemClock
from deepsea_referee.match import MatchSettings, run_match_over_streams
from deepsea_referee.play_game import play_game
from deepsea_referee.sandbox.interface import ResourceLimits
from deepsea_rules.faults import FaultReport
from deepsea_rules.game import Game, GameRecord
from deepsea_rules.randomness import game_seed, seed_from_text
from deepsea_rules.ruleset import PRESETS
from deepsea_rules.time_control import TimeControl
from deepsea_sdk.table import RefereedGame

RULES = PRESETS["manual"]
HONEST, HOSTILE = 0, 1
"""The seats; further ones are hostile, too."""
CHILDREN = 46
LONGEST_S = 150
"""A game that takes longer hangs: a start is given up after a minute, a decision after seconds."""
SHORT = TimeControl.parse("100ms")

PROGRAM = """
import json, multiprocessing, sys, time
from deepsea_sdk import Bot, run

def work(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass

def engine(pipe):
    while True:
        work(pipe.recv())
        pipe.send("done")

{first}

class Honest(Bot):
    decisions = 0

    def decide(self, view):
        self.decisions += 1
        if self.decisions <= {decisions}:
            used_us = 0
            {thinks}
            print(json.dumps(used_us), flush=True)
        return view.legal[0]

if __name__ == "__main__":
    run(Honest)
"""
CHILD = """
if __name__ == "__main__":
    pipe, end = multiprocessing.Pipe()
    multiprocessing.Process(target=engine, args=(end,), daemon=True).start()
"""
KINDS = {
    "at once": ("", "pass"),
    "child process": (CHILD, "pipe.send(0.02); pipe.recv()"),
    "80 % of its budget": ("", "work(0.08)"),
    "wall clock": (
        "",
        """end, used = time.monotonic() + 0.08, time.thread_time()
            while time.monotonic() < end:
                pass
            used_us = int((time.thread_time() - used) * 1_000_000)""",
    ),
    "slow start": ("work(1)", "pass"),
    "once over a minute": ("asked = []", "asked.append(0); time.sleep(66 * (len(asked) == 100))"),
}


@dataclass(frozen=True, slots=True)
class Duel:
    """What came of a game."""

    faults: tuple[FaultReport, ...]
    thought_us: list[int]
    """CPU time that the honest bot got in each decision, if it thinks by a wall clock."""
    free_us: int
    """CPU time that the hostile bot says it used beyond what its decisions were charged."""
    seconds: float
    """How long the game took."""

    def of(self, seat: int) -> list[FaultReport]:
        """The faults of one seat."""
        return [report for report in self.faults if report.seat == seat]


def honest(folder: Path, kind: str, decisions: int = sys.maxsize) -> BotSpec:
    """One of the honest bots, in a folder of its own; it thinks in its first `decisions`."""
    folder.mkdir()
    first, thinks = KINDS[kind]
    program = PROGRAM.format(first=first, thinks=thinks, decisions=decisions)
    (folder / "bot.py").write_text(program, encoding="utf-8")
    (folder / "bot.toml").write_text('command = "python bot.py"\n', encoding="utf-8")
    return resolve(str(folder))


def burner(arena: Arena, how: str) -> BotSpec:
    """A hostile bot whose children spin while the other is asked."""
    return hostile(arena, "t16_burner", how, str(CHILDREN))


def hosting_in(arena: Arena) -> Hosting:
    """As in a match, but what does not end by itself is killed soon."""
    return Hosting(arena.sandbox, limits=ResourceLimits(), grace_us=100_000)


@dataclass(frozen=True, slots=True)
class Deals:
    """A match whose tables were chosen."""

    records: list[GameRecord]
    begun: list[str]
    """The commitment of each game that the hostile bot was in, void ones and later attempts too."""

    @property
    def known(self) -> int:
        """The number of games on a deal that the hostile bot had seen before."""
        return len(self.begun) - len({*self.begun})


def second_try(arena: Arena, hosting: Hosting, how: str, every: int, games: int) -> Deals:
    """Play a match with a bot that wants its games played again; it answers at once else."""
    records: list[GameRecord] = []
    bots = [resolve("greedy"), hostile(arena, "t18_second_try", how, str(every))]
    output = OutputPlan(folder=arena.folder)
    settings = MatchSettings(bots, hosting, games, tables=None, output=output)
    run_match_over_streams(settings, lambda _, record: records.append(record))
    logs = [path.read_text() for path in sorted(arena.folder.glob("bot-2-*.log"))]
    return Deals(records, [deal for log in logs for deal in re.findall('"deal": "(.*)"', log)])


def duel(
    bots: Sequence[BotSpec], hosting: Hosting, number: int = 0, control: TimeControl = SHORT
) -> Duel:
    """Play a game; raises HostTooBusy, with the seat, if it is void."""
    return duels(bots, hosting, [number], control)[0]


def duels(
    bots: Sequence[BotSpec], hosting: Hosting, numbers: Sequence[int], control: TimeControl = SHORT
) -> list[Duel]:
    """Play games one after the other with the same bots."""
    names = [("honest", "0")] + [("hostile", "0")] * (len(bots) - 1)
    clock = SystemClock()

    async def play(pool: BotPool, number: int) -> Duel:
        rules = Game(RULES, len(bots), game_seed(seed_from_text("burners"), number))
        refereed = RefereedGame(rules, f"g{number}", control, names)
        begun_us = clock.now_us()
        async with asyncio.timeout(LONGEST_S):
            with pool.table(range(len(bots)), rules.seed) as slots:
                played = await play_game(refereed, pool, slots)
        seconds = (clock.now_us() - begun_us) / 1e6
        lines = pool.output(slots[HONEST]).splitlines()
        thought_us = [json.loads(line) for line in lines if line.isdecimal()]
        free_us = sum(map(int, re.findall(r'"used_us": (\d+)', pool.output(slots[HOSTILE]))))
        free_us -= sum(one.us for one in played.record.decisions if one.seat == HOSTILE)
        return Duel(played.faults, thought_us, free_us, seconds)

    async def play_all() -> list[Duel]:
        async with BotPool(bots, hosting, clock) as pool:
            return [await play(pool, number) for number in numbers]

    return asyncio.run(play_all())

"""The versions of a bot that `improve` has played, one in each run, and which of them is the best.

Invariants: a version is a program: the same one in two runs is one version, numbered by the first.
The best version changes only if another one is surely stronger. Runs of other bots in the folder
change nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec import Struct

from deepsea_bundle.atomic import write_atomically
from deepsea_referee.bots.resolve import PROGRAM
from deepsea_referee.errors import UserError

RUN = "run.json"
SAMPLES = ("random", "cautious", "greedy", "heuristic", "steady", "diver", "pearl")
"""The sample bots, the weakest first."""
PANEL = 3
"""How many of them play with a bot."""
FIRST_PANEL = 1
"""The place of the weakest one, for a bot of which nothing is known."""
BEATEN = 0.6
"""Mean placement score from which on a panel is too weak,"""
BEATS = 0.35
"""and below which it is too strong."""


class Run(Struct, frozen=True, kw_only=True):
    """What is kept of a run: the file `RUN` in its folder."""

    bot: str
    """The name, without parameters."""
    digest: str
    """That of the program."""
    parameters: str
    panel: list[str]
    """The bots that it played against."""
    score: float
    """Its mean placement score in that match."""
    best: int
    """The best version after this run."""


@dataclass(frozen=True, slots=True)
class Version:
    """A program that played in a run."""

    number: int
    """The first run in which it played."""
    folder: Path
    """That of its newest run, with records and the program."""
    run: Run

    @property
    def argument(self) -> str:
        """The argument BOT that names it."""
        return f"{self.folder / PROGRAM}{self.run.parameters}"


class Versions:
    """The runs of a bot in a folder."""

    def __init__(self, folder: Path, bot: str) -> None:
        """Raises UserError for a run whose file is damaged."""
        self._folder = folder
        numbers = [int(path.name) for path in folder.glob("*") if path.name.isdecimal()]
        self.next_number = max(numbers, default=0) + 1
        """The number of the next run."""
        self._runs: dict[int, Run] = {}
        for number in sorted(numbers):
            run = _read(folder / str(number) / RUN)
            if run is not None and run.bot == bot:
                self._runs[number] = run

    def number_of(self, digest: str) -> int:
        """The number of the version with a program; a new one is the next run's."""
        numbers = (number for number, run in self._runs.items() if run.digest == digest)
        return next(numbers, self.next_number)

    @property
    def best(self) -> Version | None:
        """The best version; None if no run was kept."""
        for run in reversed(self._runs.values()):
            if (best := self._runs.get(run.best)) is not None:
                newest = [number for number, one in self._runs.items() if one.digest == best.digest]
                return Version(run.best, self._folder / str(newest[-1]), best)
        return None

    @property
    def panel(self) -> Sequence[str]:
        """Sample bots of about the strength of the bot, by how it did against the last ones."""
        first = FIRST_PANEL
        for run in reversed(self._runs.values()):
            if tuple(run.panel) in _PANELS:
                first = _PANELS.index(tuple(run.panel))
                first += (run.score >= BEATEN) - (run.score < BEATS)
                break
        return _PANELS[min(max(first, 0), len(_PANELS) - 1)]


_PANELS = [SAMPLES[first : first + PANEL] for first in range(len(SAMPLES) - PANEL + 1)]


def keep_run(folder: Path, run: Run, program: dict[str, bytes]) -> None:
    """Keep a run in its folder, with the files of the program that played."""
    from deepsea_bundle.folder import write_folder

    write_folder(program, folder / PROGRAM)
    write_atomically(folder / RUN, msgspec.json.format(msgspec.json.encode(run)).decode() + "\n")


def _read(path: Path) -> Run | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Run)
    except FileNotFoundError:  # no version was kept, since its bot did not play
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: not a run of improve: {error}; remove its folder") from None

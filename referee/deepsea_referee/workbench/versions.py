"""Versions of a bot that the command `improve` has played, with the best one among them.

Invariants: a version is a program, numbered by the first run in which it played; the same program
in two runs is one version. The best version changes only if another one is surely stronger. Runs of
other bots in the folder change nothing.
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
"""The file in a run's folder that describes the run."""
SAMPLES = ("random", "cautious", "greedy", "heuristic", "steady", "diver", "pearl")
"""The sample bots, sorted by strength with the weakest one first."""
PANEL = 3
"""The number of sample bots that play against a bot; neighbours in `SAMPLES`."""
FIRST_PANEL = 1
"""The index in `SAMPLES` of the weakest opponent of a bot whose strength is unknown."""
BEATEN = 0.6
"""The bot's mean placement score from which on the opponents were too weak."""
BEATS = 0.35
"""The bot's mean placement score below which the opponents were too strong."""


class Run(Struct, frozen=True, kw_only=True):
    """A stored run: the content of the file `RUN` in its folder."""

    bot: str
    """The name of the bot, without parameters."""
    digest: str
    """The digest of the program."""
    parameters: str
    panel: list[str]
    """The opponents in the run's match."""
    score: float
    """The bot's mean placement score in that match."""
    best: int
    """The number of the best version after this run."""


@dataclass(frozen=True, slots=True)
class Version:
    """A program that played in a run."""

    number: int
    """The number of the first run in which it played."""
    folder: Path
    """The folder of its newest run, which has the records."""
    run: Run

    @property
    def program(self) -> Path:
        """The folder of the program, in that of the first run: its number is the version's."""
        return self.folder.with_name(str(self.number)) / PROGRAM

    @property
    def argument(self) -> str:
        """The argument BOT of a command that names this version."""
        return f"{self.program}{self.run.parameters}"


class Versions:
    """The runs of a bot that a folder has, and the versions that played in them."""

    def __init__(self, folder: Path, bot: str) -> None:
        """Read the runs of the bot with this name. Raises UserError for a damaged run."""
        self._folder = folder
        numbers = [int(path.name) for path in folder.glob("*") if path.name.isdecimal()]
        self.next_number = max(numbers, default=0) + 1
        """The number of the next run."""
        self._runs: dict[int, Run] = {}
        for number in sorted(numbers):
            run = _read_run(folder / str(number) / RUN)
            if run is not None and run.bot == bot:
                self._runs[number] = run

    def number_of(self, digest: str) -> int:
        """Return the number of the version with this program; for a new program the next number."""
        for number, run in self._runs.items():
            if run.digest == digest:
                return number
        return self.next_number

    @property
    def best(self) -> Version | None:
        """The best version, as the newest run names it; None if there is no run.

        If the user has removed the folder of that version, the version that the run before names is
        taken, and so on.
        """
        for run in reversed(self._runs.values()):
            best_run = self._runs.get(run.best)
            if best_run is not None:
                folder = self._folder / str(self._newest_run_of(best_run.digest))
                return Version(run.best, folder, best_run)
        return None

    def _newest_run_of(self, digest: str) -> int:
        """Return the number of the last run in which the program with this digest played."""
        return max(number for number, run in self._runs.items() if run.digest == digest)

    @property
    def panel(self) -> Sequence[str]:
        """The sample bots to play against, about as strong as the bot.

        They are those of the newest run, or stronger ones if the bot's score was high against them,
        or weaker ones if it was low. Runs against opponents that are no group of `_PANELS`, which
        the user has named, are skipped.
        """
        index = FIRST_PANEL
        for run in reversed(self._runs.values()):
            opponents = tuple(run.panel)
            if opponents in _PANELS:
                index = _PANELS.index(opponents)
                if run.score >= BEATEN:
                    index += 1
                elif run.score < BEATS:
                    index -= 1
                break
        return _PANELS[min(max(index, 0), len(_PANELS) - 1)]


_PANELS = [SAMPLES[first : first + PANEL] for first in range(len(SAMPLES) - PANEL + 1)]
"""All groups of opponents, the weakest group first."""


def keep_run(folder: Path, run: Run, program: dict[str, bytes]) -> None:
    """Store a run in its folder, with the files of the program that played."""
    from deepsea_bundle.reader import write_folder

    write_folder(program, folder / PROGRAM)
    write_atomically(folder / RUN, msgspec.json.format(msgspec.json.encode(run)).decode() + "\n")


def _read_run(path: Path) -> Run | None:
    """Read the file of a run; return None if there is no such file.

    A run has none if its bot did not play. Raises UserError if the file is damaged.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Run)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: not a run of improve: {error}; remove its folder") from None

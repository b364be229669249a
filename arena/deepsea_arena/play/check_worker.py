"""Checks submissions in a worker process: reads an archive, and plays admission games.

Invariants: an archive is read in a process of its own with limits, never here; nothing here knows
the store.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

from deepsea_arena.play.admission import play_admission
from deepsea_arena.play.rated_games import own_folder
from deepsea_bundle.errors import BundleError
from deepsea_bundle.reader import BotBundle
from deepsea_ladder.model import SubmissionRefusal
from deepsea_ladder.season import Season
from deepsea_referee.bots.resolve import read_in_subprocess
from deepsea_referee.workers import Link, Perform

_ZIP = b"PK"
_NAMELESS = "-"
"""The name of a file that makes no bot's name."""


@dataclass(frozen=True, slots=True)
class ReadArchive:
    """The task to read an archive: a zip, or a Python file."""

    content: bytes
    bot: str
    """The bot's name; "" is that of its bot.toml."""


@dataclass(frozen=True, slots=True)
class PlayAdmission:
    """The task to play a bot's admission games in these seasons."""

    bundle: BotBundle
    seasons: tuple[Season, ...]


class AdmissionPlayed(NamedTuple):
    """The end of the admission games: no other answer accepts a bot."""

    refusal: SubmissionRefusal | None


@contextmanager
def check_worker(link: Link) -> Iterator[Perform]:
    """Set up a worker that checks submissions; after each admission game it sends their number."""

    def perform(task: ReadArchive | PlayAdmission) -> BotBundle | str | AdmissionPlayed:
        if isinstance(task, ReadArchive):
            return _read(task)
        games = count(1)
        return AdmissionPlayed(
            play_admission(task.bundle, task.seasons, lambda: link.send(next(games)))
        )

    yield perform


def _read(task: ReadArchive) -> BotBundle | str:
    """The bot of an archive, or why it is none."""
    with own_folder() as folder:
        path = folder / f"{task.bot or _NAMELESS}{_ending(task.content)}"
        path.write_bytes(task.content)
        try:
            return read_in_subprocess(path, task.bot or None)
        except BundleError as error:
            found = str(error).removeprefix(f"bot {str(path)!r}: ")
    if found.startswith("the folder's or file's name"):
        found = 'the bot has no name: write name = "..." in bot.toml, or give one when you submit'
    return found


def _ending(content: bytes) -> str:
    """The file's ending: a text that is no zip may be a Python file."""
    if content.startswith(_ZIP) or b"\0" in content:
        return ".zip"
    try:
        content.decode()
    except UnicodeDecodeError:
        return ".zip"
    return ".py"

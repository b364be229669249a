"""Submitting: a bot is read, plays its admission games, and gets a version on the ladder.

Invariants: what is stored is what was checked and played, to the byte; a bot that is refused
changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from deepsea_arena.admission import AdmissionRefusal, games_of, play_admission
from deepsea_bundle import names
from deepsea_bundle.submission import Submission, read_submission
from deepsea_ladder.season import Season
from deepsea_ladder.store import Store
from deepsea_referee.bots.resolve import sample_bots


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitResult:
    """A bot that was taken in, or refused after a game."""

    bot: str
    author: str
    digest: str
    version: int | None
    """The number of the new version; None if it was refused."""
    refusal: AdmissionRefusal | None


def read_bot(text: str, name: str | None = None) -> tuple[str, Submission]:
    """The name and the files of the bot at a path, or of the sample bot of that name.

    Its name is the one given, else that in bot.toml, else the file's.
    """
    samples = sample_bots()
    if text in samples and not Path(text).exists():
        path, stem = samples[text], text
    else:
        path = Path(text)
        stem = path.resolve().stem
    submission = read_submission(path)
    return name or submission.manifest.name or stem, submission


def submit(
    store: Store,
    name: str,
    author: str,
    submission: Submission,
    on_game: Callable[[], object] = lambda: None,
) -> SubmitResult:
    """Let a bot play its admission games, and store it if none shows a fault of its own.

    `on_game` is called after each game. Raises an error with one line for a bad name, somebody
    else's bot, or files that are on the ladder already.
    """
    names.checked("the bot's name", name)
    names.checked("the author's name", author)
    refusal = play_admission(submission, name, _seasons(store), on_game)
    version = None if refusal else store.bots.submit(name, author, submission)
    return SubmitResult(
        bot=version.bot if version else name,
        author=author,
        digest=submission.digest,
        version=version.number if version else None,
        refusal=refusal,
    )


def admission_games(store: Store) -> int:
    """How many admission games a bot plays at most."""
    return games_of(_seasons(store))


def _seasons(store: Store) -> list[Season]:
    """The seasons that a bot has to be fit for; where none is open, one with default settings."""
    opened = [stored.season for stored in store.seasons.all() if stored.closed_at is None]
    return opened or [Season(name="none")]

"""Submits a bot from afar, and shows how far that is."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from deepsea_cli.errors import Interrupted
from deepsea_cli.progress import Progress
from deepsea_cli.remote.answers import Submission
from deepsea_cli.remote.client import Note
from deepsea_cli.remote.errors import BadServer
from deepsea_cli.remote.logins import Target
from deepsea_cli.remote.submitting import header_of, submit
from deepsea_referee.errors import UserError
from deepsea_sdk.entropy import fresh_token

if TYPE_CHECKING:
    from deepsea_bundle.reader import BotBundle

KIB = 1024


def submit_bot(
    target: Target,
    bundle: BotBundle,
    note: Note,
    pause: Callable[[float], object] | None = None,
) -> Submission:
    """The submission in its last state. Raises UserError for what the ladder does not take.

    pause  waits so many seconds before a broken connection is made again
    """
    archive = bundle.archive
    shown = _Shown(len(archive), note)
    with target.client(note) as client:
        most = client.server().limit("archive_bytes")
        if most is not None and len(archive) > most:
            raise UserError(
                f"{bundle.name} has {len(archive)} bytes as an archive, and "
                f"{target.address.url} takes {most}: leave out what it does not need"
            )
        try:
            found = submit(
                client,
                header_of(bundle.name, archive, fresh_token()),
                archive,
                sent=shown.sent,
                news=shown.news,
                broken=shown.broken,
                pause=pause or threading.Event().wait,
            )
        except KeyboardInterrupt:
            raise Interrupted(shown.interruption()) from None
        finally:
            shown.close()
    if found.state == "accepted" and (found.version is None or found.digest != bundle.digest):
        raise BadServer(f"{target.address.url} has accepted something else than was sent")
    return found


class _Shown:
    """A line on the terminal: what was sent, then how many games were played."""

    def __init__(self, size: int, note: Note) -> None:
        self._note = note
        self._upload = Progress(max(1, size // KIB), "KiB")
        self._games: Progress | None = None
        self._sent = 0
        """Of this attempt."""
        self._drawn = 0
        self._played = 0
        self._state = self._words = ""
        self.submission: Submission | None = None

    def sent(self, count: int) -> None:
        """So many more bytes were sent."""
        self._sent += count
        self._upload.advance(max(0, self._sent // KIB - self._drawn), "uploading")
        self._drawn = max(self._drawn, self._sent // KIB)

    def news(self, now: Submission) -> None:
        """The submission's present state."""
        self.submission = now
        words = _words(now)
        if now.state != self._state:
            self._note(f"submission {int(now.id)}: {words}")
        changed = words != self._words
        self._state, self._words = now.state, words
        if self._games is None and now.of_games > 0:
            self._upload.close()
            self._games = Progress(now.of_games)
        if self._games is None:
            self._upload.advance(0, words, at_once=changed)
        else:
            self._games.advance(max(0, now.games - self._played), words, at_once=changed)
            self._played = max(self._played, now.games)

    def broken(self, error: Exception) -> None:
        """The connection broke, and is made again."""
        self._sent = 0
        self._note(f"{error}; it goes on")

    def interruption(self) -> str:
        """What Ctrl-C leaves behind."""
        if self.submission is None:
            return "before the ladder said that it has the bot"
        number = int(self.submission.id)
        return f"while it is {self._state}; the ladder goes on with submission {number} by itself"

    def close(self) -> None:
        """Clear the line."""
        self._upload.close()
        if self._games is not None:
            self._games.close()


def _words(now: Submission) -> str:
    if now.state == "queued":
        return f"waiting, {now.ahead} before it" if now.ahead else "waiting, the next"
    if now.state == "checking" and not now.of_games:
        return "its files are being read"
    if now.state == "checking":
        return f"checking, game {min(now.games + 1, now.of_games)} of {now.of_games}"
    return now.state

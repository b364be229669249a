"""Submits a bot to a ladder on another machine, also over a connection that breaks.

Invariant: one submission, however often the connection breaks: an upload is repeated with the same
key until the ladder has said that it has it, and from then on it is only followed.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deepsea_arena.api.errors import ApiError, BadServer, Kind, Unreachable
from deepsea_cli.errors import Interrupted
from deepsea_cli.progress import Progress
from deepsea_cli.remote.logins import Target
from deepsea_referee.errors import UserError
from deepsea_sdk.entropy import fresh_token

if TYPE_CHECKING:
    from deepsea_arena.api.ladder_api import LadderApi
    from deepsea_arena.api.types import SubmissionStep
    from deepsea_bundle.reader import BotBundle
    from deepsea_ladder.model.bots import Submission

KIB = 1024
CHUNK = 32 * KIB
"""Bytes of an upload that are sent at a time."""
RETRIES = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 30.0)
"""Seconds before each further attempt; after news they begin anew."""
LONGEST_WAIT = 60
"""Seconds that a ladder may ask for."""
MOST_BREAKS = 100
"""Broken connections after which it is given up, whatever came between."""
Note = Callable[[str], object]


@dataclass(frozen=True)
class Package:
    """An archive on its way to a ladder."""

    bot: str
    content: bytes
    key: str
    sent: Callable[[int], object] = lambda count: None
    """Called with the number of bytes that were sent since the last call."""

    @property
    def size(self) -> int:
        return len(self.content)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    def parts(self) -> Iterator[bytes]:
        """The bytes in parts; each counts as sent when the next one is taken."""
        for start in range(0, len(self.content), CHUNK):
            part = self.content[start : start + CHUNK]
            yield part
            self.sent(len(part))


def submit_bot(
    target: Target,
    bundle: BotBundle,
    note: Note,
    pause: Callable[[float], object] | None = None,
) -> Submission:
    """The submission in its last state. Raises UserError for what the ladder does not take.

    pause  waits so many seconds before a broken connection is made again
    """
    shown = _Shown(len(bundle.archive), note)
    url = target.address.url
    with target.opened() as ladder:
        limits = {one.name: one.value for one in ladder.server().limits}
        most = limits.get("archive_bytes", len(bundle.archive))
        if len(bundle.archive) > most:
            raise UserError(
                f"{bundle.name} has {len(bundle.archive)} bytes as an archive, and "
                f"{url} takes {most}: leave out what it does not need"
            )
        package = Package(bundle.name, bundle.archive, fresh_token(), shown.sent)
        try:
            found = followed(
                ladder, package, shown.news, shown.broken, pause or threading.Event().wait
            )
        except KeyboardInterrupt:
            raise Interrupted(shown.interruption()) from None
        finally:
            shown.close()
    if found.state == "accepted" and (found.version is None or found.digest != bundle.digest):
        raise BadServer(f"{url} has accepted something else than was sent")
    return found


def followed(
    ladder: LadderApi,
    package: Package,
    news: Callable[[Submission], object],
    broken: Callable[[Exception], object],
    pause: Callable[[float], object],
) -> Submission:
    """The submission in its last state.

    news    called with each state
    broken  called when the connection broke, before `pause`
    pause   waits so many seconds

    Raises ApiError if it is not taken, Unreachable if the ladder does not come back.
    """
    found: Submission | None = None
    waits = iter(RETRIES)
    for _ in range(MOST_BREAKS):
        try:
            for step in filter(None, _steps(ladder, found, package)):
                found, waits = step.submission, iter(RETRIES)
                news(found)
                if found.state.is_final:
                    return found
            trouble: ApiError | Unreachable = Unreachable("the ladder ended the answer too early")
        except Unreachable as error:
            trouble = error
        except ApiError as error:
            # Of a submission that the ladder has, only that it is asked for too often.
            if found is None or error.kind is not Kind.EXHAUSTED:
                raise
            trouble = error
        wait = next(waits, None)
        if wait is None:
            raise trouble
        broken(trouble)
        pause(max(wait, min(trouble.retry_after or 0, LONGEST_WAIT)))
    raise BadServer("the connection to the ladder breaks again and again")


def _steps(
    ladder: LadderApi, found: Submission | None, package: Package
) -> Iterator[SubmissionStep | None]:
    if found is None:
        return ladder.submit(package)
    return ladder.watch_submission(id=found.id)


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
        self._sent += count
        self._upload.advance(max(0, self._sent // KIB - self._drawn), "uploading")
        self._drawn = max(self._drawn, self._sent // KIB)

    def news(self, now: Submission) -> None:
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

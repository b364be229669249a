"""Folders of results, in particular of a match: records, logs, and results.json of any length.

Invariants: while a process writes a folder, no other process can, and the lock ends with the
process; files are written atomically (temporary file, fsync, rename), results.json last; a folder
has one match, and files of an earlier match are not touched. Games are stored on disk and not in
memory, in the order in which they end; they are read back in the order of their numbers, while the
text of results.json is written (docs/results.md describes it). Calls that may block run in a
thread, in order; their exceptions are raised in the caller; a caller that is faster than the thread
gets a future to wait for, so that the queue is limited.
"""

from __future__ import annotations

import json
import os
import re
import struct
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, ParamSpec, Self

import msgspec
from msgspec import Meta, Struct

from deepsea_bundle.atomic import write_atomically
from deepsea_referee.bots.output import BotLog, log_name
from deepsea_referee.bots.resolve import BotSpec
from deepsea_referee.errors import UserError
from deepsea_referee.summary import GameResult, MatchResult, VoidGame, record_name
from deepsea_referee.system import SYSTEM
from deepsea_rules.game import GameRecord
from deepsea_sdk.bot import Note, note_of, rows_of

RESULTS = "results.json"
BOTS = "bots.json"
"""The file with the arguments of the bots that play, from which `branch` and `debug` find them."""
LOCK = ".lock"
"""The file that is locked, and exists, while a process writes the folder."""
_RESULT_FILES = re.compile(
    rf"{re.escape(RESULTS)}|{re.escape(BOTS)}|(?:comparison|rank|tune)\.jsonl|(?:game|analysis|notes)-\d+\.json"
    r"|bot-\d+-.*\.log"
)
FORMAT = "deepsea-results/1"
_POSITION = struct.Struct("=QQ")
"""The offset of a text in the file, and its length in bytes; both 0 for a missing text."""
_LONGEST_QUEUE = 64
"""The number of queued calls from which on the caller has to wait."""
_P = ParamSpec("_P")


def refuse_match_folder(folder: Path) -> None:
    """Raise UserError if the folder has files of a match or a comparison already."""
    names = (path.name for path in folder.iterdir())
    first_file = min(filter(_RESULT_FILES.fullmatch, names), default=None)
    if first_file is not None:
        raise UserError(
            f"the folder {str(folder)!r} has files of an earlier match ({first_file}): "
            "name another folder, or remove that one first"
        )


class FolderWriter:
    """A folder of results that only this process writes while the context manager is open.

    A thread does the writing, so that a slow disk does not delay the clocks of games.
    """

    def __init__(self, folder: Path | None, bots: Iterable[BotSpec] = ()) -> None:
        """Create and lock the folder; None is for results that are not stored.

        bots  the bots that play, whose arguments are stored beside the records

        Raises UserError if the folder cannot be written, if another process writes it, or if it has
        other results already.
        """
        self._folder = folder
        self._lock_descriptor: int | None = None
        try:
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
                self._lock_descriptor = _lock(folder)
            self._open()
            if folder is not None and (arguments := {bot.digest: bot.argument for bot in bots}):
                write_atomically(folder / BOTS, json.dumps(arguments, indent=1) + "\n")
        except OSError as error:
            self._unlock()
            raise UserError(
                f"cannot write to the folder {str(folder)!r}: {error.strerror or error}"
            ) from None
        except BaseException:
            self._unlock()
            raise
        self._thread = WriteBehind("results")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """Wait for the queued writes, ignoring their errors, and unlock the folder."""
        try:
            self._thread.close()
            self._close()
        finally:
            self._unlock()

    def _open(self) -> None:
        """Check the content of the locked folder, and open files; for subclasses."""

    def _close(self) -> None:
        """Close the files; for subclasses."""

    def _unlock(self) -> None:
        """Remove the lock file, and end the lock; do nothing if the folder is not locked."""
        if self._folder is not None and self._lock_descriptor is not None:
            with suppress(OSError):  # Windows removes no file that is open
                (self._folder / LOCK).unlink()
            os.close(self._lock_descriptor)  # this ends the lock
            self._lock_descriptor = None


def _lock(folder: Path) -> int:
    """Lock a folder for this process, and return the descriptor of the locked file.

    The lock ends when the descriptor is closed. Raises UserError if another process has the lock.
    """
    path = folder / LOCK
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if not SYSTEM.lock(descriptor):
                owner = os.read(descriptor, 20).decode() or "another one"
                since = datetime.fromtimestamp(os.fstat(descriptor).st_mtime)
                raise UserError(
                    f"the folder {str(folder)!r} is being written by process {owner}, since "
                    f"{since:%Y-%m-%d %H:%M:%S}: wait for its end, or name another folder"
                )
            if _is_file_at(path, descriptor):
                # The id of this process, for the message above in another one.
                os.ftruncate(descriptor, 0)
                os.lseek(descriptor, 0, os.SEEK_SET)
                os.write(descriptor, str(os.getpid()).encode())
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        # The former owner has just removed the file: the lock is on a file without a name, which
        # other processes cannot see. Try again with a new file.
        os.close(descriptor)


def _is_file_at(path: Path, descriptor: int) -> bool:
    """Return True if the path still names the open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


class ResultsFolder(FolderWriter):
    """Writes the records of a match while it is played, and its results at the end.

    Without a folder, it only collects the content of results.json in `document`.
    """

    def _open(self) -> None:
        """Refuse a folder with other results, and begin results.json."""
        if self._folder is not None:
            refuse_match_folder(self._folder)
        self.document = ResultsJson(self._folder)

    def _close(self) -> None:
        self.document.close()

    def add(self, result: GameResult, record: GameRecord) -> Future[object] | None:
        """Queue a game and its record to be written by the thread, without waiting for that.

        Return None, or if the disk is too slow a future for which the caller should wait before the
        next game. An OSError while writing is raised by a later call, or by `finish`.
        """
        record_text = None if self._folder is None else record.to_json()
        notes = rows_of(result.notes, record.decisions) if result.notes else []
        return self._thread.submit(self._write_game, result, record_text, notes)

    def add_void(self, void: VoidGame) -> Future[object] | None:
        """Queue a void game to be written; the result and the errors are those of `add`."""
        return self._thread.submit(self.document.add_void, void)

    def add_analysis(self, game: int, analysis: object) -> None:
        """Write the analysis of a game, which counts from 1, to a JSON file beside its record."""
        if self._folder is not None:
            path = self._folder / f"analysis-{game:04}.json"
            self._thread.put(write_atomically, path, json.dumps(analysis, indent=2) + "\n")

    def finish(self, match: MatchResult) -> None:
        """Write results.json, after waiting until all files that it names are written.

        Raises the OSError of any write of the match.
        """
        self._thread.finish()
        if self._folder is not None:
            write_atomically(self._folder / RESULTS, self.document.pieces(match))

    def _write_game(self, result: GameResult, record: str | None, notes: list[Any]) -> None:
        """Write a game's notes and record, and add it to results.json; runs in the thread.

        The notes come first, so that a record never lacks its notes.
        """
        if self._folder is not None and record is not None:
            path = self._folder / record_name(result.game)
            if notes:
                write_atomically(notes_path(path), json.dumps(notes, indent=1) + "\n")
            write_atomically(path, record)
        self.document.add(result)


# results.json


class Spool:
    """Numbered texts on disk, which are written in any order and read in the order of numbers.

    A file has the texts; a second one has the position of each text, at an offset that follows from
    its number.
    """

    def __init__(self, folder: Path | None) -> None:
        """Create temporary files in the folder; None is for the system's folder."""
        # Neither file has a name: nothing remains of them, however this process ends.
        self._texts = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  (`close` closes it)
        self._positions = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115

    def put(self, number: int, text: str) -> None:
        """Store a text under its number. The text must not be empty.

        Texts may come in any order: one file has them one after another, and a second file has, in
        the order of the numbers, the position of each in the first one.
        """
        data = text.encode()
        offset = self._texts.seek(0, os.SEEK_END)
        self._texts.write(data)
        self._positions.seek(number * _POSITION.size)
        self._positions.write(_POSITION.pack(offset, len(data)))

    def __iter__(self) -> Iterator[str]:
        """Yield the texts in the order of their numbers."""
        self._positions.seek(0)
        while position := self._positions.read(_POSITION.size):
            offset, length = _POSITION.unpack(position)
            if length:  # numbers without a text have zeros
                self._texts.seek(offset)
                yield self._texts.read(length).decode()

    def close(self) -> None:
        """Delete the texts."""
        self._texts.close()
        self._positions.close()


class ResultsJson:
    """The text of results.json: games are added one by one, and the text is read in pieces."""

    def __init__(self, folder: Path | None = None) -> None:
        """Begin without games; `folder` is for temporary files, None for the system's folder."""
        self._games = Spool(folder)
        self._voids = Spool(folder)

    def close(self) -> None:
        """Delete the temporary files with the games."""
        self._games.close()
        self._voids.close()

    def add(self, result: GameResult) -> None:
        """Add a game that counts."""
        row = game_fields(result) | {"record": record_name(result.game)}
        self._games.put(result.game, _line(row))

    def add_void(self, void: VoidGame) -> None:
        """Add a void game."""
        self._voids.put(void.game, _line(_fields(void)))

    def pieces(self, match: MatchResult) -> Iterator[str]:
        """Yield the text of results.json in pieces, as it may be too long for the memory.

        The summary comes from `match`. It is followed by the games and the void games, one on each
        line, and the names of the log files.
        """
        yield "{\n"
        summary = {
            "format": FORMAT,
            "rules": {"name": match.rules.name, "options": match.rules.options()},
            "clock": match.time_control.format(),
            "seed": match.seed.hex(),
            "games_asked": match.games_asked,
            "isolation": match.isolation,
            "tables": match.tables,
            "interrupted": match.interrupted,
            "bots": [
                {"digest": spec.digest} | _fields(row)
                for spec, row in zip(match.bots, match.summaries(), strict=True)
            ],
        }
        for key, value in summary.items():
            yield f' "{key}": {_indented(value)},\n'
        for key, rows in (("games", self._games), ("void", self._voids)):
            yield f' "{key}": ['
            separator = ""
            for row in rows:
                yield f"{separator}\n  {row}"
                separator = ","
            yield "\n ],\n" if separator else "],\n"  # an empty list stays on its line
        yield f' "logs": {_indented(log_names(match.logs))}\n}}\n'


def notes_path(record: Path) -> Path:
    """Return the path of the file with the notes of bots in a game, beside the game's record."""
    return record.with_name(f"notes-{record.name.removeprefix('game-')}")


class _NoteRow(Struct):
    """A note of a bot about one of its decisions, as the file of notes has it."""

    decision: Annotated[int, Meta(ge=0, le=10**15)]
    text: str
    numbers: dict[str, float]


def notes_beside(record: Path) -> dict[int, Note]:
    """Return the notes that bots made in a recorded game, by the number of the decision.

    They are read from the file beside the record; without such a file there are none. Raises
    UserError if the file cannot be read or is damaged.
    """
    path = notes_path(record)
    try:
        rows = msgspec.json.decode(path.read_bytes(), type=list[_NoteRow])
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: not the notes of a game: {error}") from None
    return {row.decision: note_of(row.text, row.numbers.items()) for row in rows}


def bots_beside(record: Path) -> dict[str, str]:
    """Return the command-line argument of each bot of a recorded game, by the bot's digest.

    The argument tells where the bot's program is. All are read from the file beside the record;
    without such a file there are none. A bot that no argument can name is left out. Raises
    UserError if the file cannot be read or is damaged.
    """
    path = record.with_name(BOTS)
    try:
        argument_of_digest = msgspec.json.decode(path.read_bytes(), type=dict[str, str | None])
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: not the bots of its records: {error}") from None
    return {
        digest: argument for digest, argument in argument_of_digest.items() if argument is not None
    }


def game_fields(result: GameResult) -> dict[str, Any]:
    """Return the fields of a game's result by name, as results.json has them."""
    fields = _fields(result)
    del fields["notes"]  # they have a file of their own
    return fields | {
        "forfeits": [forfeit._asdict() for forfeit in result.forfeits],
        "faults": [_fields(report) for report in result.faults],
    }


def log_names(logs: Iterable[BotLog]) -> list[str]:
    """Return the names of the files with the output of bots, sorted."""
    return sorted(log_name(log.bot, log.start, log.worker) for log in logs if log.in_file)


def _line(value: object) -> str:
    """Return JSON on one line. Indented JSON would take ten times as long for 100,000 games."""
    return json.dumps(value, ensure_ascii=False)


def _indented(value: object) -> str:
    """Return JSON for a field of results.json, indented for human readers.

    Every line end is between values, since JSON escapes those within a text.
    """
    return json.dumps(value, ensure_ascii=False, indent=1).replace("\n", "\n ")


def _fields(row: Any) -> dict[str, Any]:
    """Return the fields of a dataclass with slots; unlike `asdict`, without copying the values."""
    return {name: getattr(row, name) for name in row.__slots__}


# A thread that writes


class WriteBehind:
    """A thread that makes queued calls one after another."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, name)
        self._queue: deque[Future[object]] = deque()

    def submit(
        self, call: Callable[_P, object], *args: _P.args, **kwargs: _P.kwargs
    ) -> Future[object] | None:
        """Queue a call without blocking.

        Return None, or if the queue is full the future of its oldest call, for which the caller
        should wait before the next call. Raises the exception of an earlier call that has failed.
        """
        while self._queue and self._queue[0].done():
            self._queue.popleft().result()
        self._queue.append(self._thread.submit(call, *args, **kwargs))
        return self._queue[0] if len(self._queue) > _LONGEST_QUEUE else None

    def put(self, call: Callable[_P, object], *args: _P.args, **kwargs: _P.kwargs) -> None:
        """Queue a call, and block until the queue has room: for callers without an event loop.

        Raises the exception of an earlier call.
        """
        oldest = self.submit(call, *args, **kwargs)
        if oldest is not None:
            oldest.result()

    def finish(self) -> None:
        """Wait until all calls are made. Raises the exception of the first call that failed."""
        self._thread.shutdown()
        for call in self._queue:
            call.result()

    def close(self) -> None:
        """Wait until all calls are made, ignoring their exceptions."""
        self._thread.shutdown()

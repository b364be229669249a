"""Writes a folder of results, and that of a match: records, logs, and results.json of any length.

Invariants: a folder that is written belongs to one process, until that ends in whichever way; files
are written atomically (temporary file, fsync, rename), results.json last; a folder has one match,
and files of an earlier one are not touched. Games are kept on disk and not in memory, in the order
in which they end; they are read back in the order of their numbers, while the text of results.json
is written (docs/results.md describes it). Calls that may block run in a thread, in order; their
exceptions are raised in the caller; a caller that is faster than the thread gets a future to wait
for, so that the queue is limited.
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
from deepsea_referee.results.summary import GameResult, MatchResult, VoidGame, record_name
from deepsea_referee.system import SYSTEM
from deepsea_rules.record import GameRecord
from deepsea_sdk.notes import Note, note_of, rows_of

RESULTS = "results.json"
BOTS = "bots.json"
"""The file that says where the programs are that play: so `branch` and `debug` find them."""
LOCK = ".lock"
"""The file by which a folder belongs to the process that writes it; there only meanwhile."""
_OURS = re.compile(
    rf"{re.escape(RESULTS)}|{re.escape(BOTS)}|(?:comparison|rank|tune)\.jsonl|(?:game|analysis|notes)-\d+\.json"
    r"|bot-\d+-.*\.log"
)
FORMAT = "deepsea-results/1"
_PLACE = struct.Struct("=QQ")
"""Where a text begins, and its length; both 0 if there is none."""
_WAITING = 64
_P = ParamSpec("_P")


def refuse_match_folder(folder: Path) -> None:
    """Raise UserError for a folder that holds a match or a comparison already."""
    names = (path.name for path in folder.iterdir())
    if found := min(filter(_OURS.fullmatch, names), default=None):
        raise UserError(
            f"the folder {str(folder)!r} has files of an earlier match ({found}): "
            "name another folder, or remove that one first"
        )


class FolderWriter:
    """A folder of results that this process alone writes: a context manager.

    What is written goes through a thread, so that the disk does not block the clocks.
    """

    def __init__(self, folder: Path | None, bots: Iterable[BotSpec] = ()) -> None:
        """Make and lock the folder; None is for results that are not kept.

        bots  those that play, whose arguments are kept beside the records
        Raises UserError for a folder that cannot be written, that another process writes, or that
        holds something else.
        """
        self._folder = folder
        self._locked: int | None = None
        try:
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
                self._locked = _lock(folder)
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
        try:
            self._thread.close()
            self._close()
        finally:
            self._unlock()

    def _open(self) -> None:
        """Look at what is in the folder, and open files."""

    def _close(self) -> None:
        """Close the files."""

    def _unlock(self) -> None:
        if self._folder is not None and self._locked is not None:
            with suppress(OSError):  # Windows removes no file that is open
                (self._folder / LOCK).unlink()
            os.close(self._locked)
            self._locked = None


def _lock(folder: Path) -> int:
    """Lock a folder for this process; returns the open file. Raises UserError if another has it."""
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
            with suppress(FileNotFoundError):
                # Not if its former owner has just removed it: then others cannot see this lock.
                if os.path.samestat(os.fstat(descriptor), path.stat()):
                    os.ftruncate(descriptor, 0)
                    os.lseek(descriptor, 0, os.SEEK_SET)
                    os.write(descriptor, str(os.getpid()).encode())
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


class ResultsFolder(FolderWriter):
    """Writes the records of a match while it is played, and its results.

    Without a folder it keeps what results.json has, and no records.
    """

    def _open(self) -> None:
        if self._folder is not None:
            refuse_match_folder(self._folder)
        self.document = ResultsJson(self._folder)

    def _close(self) -> None:
        self.document.close()

    def add(self, result: GameResult, record: GameRecord) -> Future[object] | None:
        """Write a record. An OSError of an earlier one is raised here, or by `finish`.

        Returns a future to wait for before the next record if the disk is too slow.
        """
        text = None if self._folder is None else record.to_json()
        notes = rows_of(result.notes, record.decisions) if result.notes else []
        return self._thread.do(self._write_game, result, text, notes)

    def add_void(self, void: VoidGame) -> Future[object] | None:
        """Write a void game, like `add`."""
        return self._thread.do(self.document.add_void, void)

    def add_analysis(self, game: int, analysis: object) -> None:
        """Write what was found of a game."""
        if self._folder is not None:
            path = self._folder / f"analysis-{game:04}.json"
            self._thread.put(write_atomically, path, json.dumps(analysis, indent=2) + "\n")

    def finish(self, match: MatchResult) -> None:
        """Write results.json, once everything that it names is there."""
        self._thread.finish()
        if self._folder is not None:
            write_atomically(self._folder / RESULTS, self.document.pieces(match))

    def _write_game(self, result: GameResult, record: str | None, notes: list[Any]) -> None:
        if self._folder is not None and record is not None:
            path = self._folder / record_name(result.game)
            if notes:
                write_atomically(notes_path(path), json.dumps(notes, indent=1) + "\n")
            write_atomically(path, record)
        self.document.add(result)


# results.json


class Spool:
    """Texts with numbers, on disk: written in any order, read in that of the numbers."""

    def __init__(self, folder: Path | None) -> None:
        # Neither file has a name: nothing is left of them, however this process ends.
        self._texts = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  (`close` closes it)
        self._places = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115

    def put(self, number: int, text: str) -> None:
        """Keep a text, which must not be empty."""
        data = text.encode()
        place = self._texts.seek(0, os.SEEK_END)
        self._texts.write(data)
        self._places.seek(number * _PLACE.size)
        self._places.write(_PLACE.pack(place, len(data)))

    def __iter__(self) -> Iterator[str]:
        self._places.seek(0)
        while entry := self._places.read(_PLACE.size):
            place, length = _PLACE.unpack(entry)
            if length:
                self._texts.seek(place)
                yield self._texts.read(length).decode()

    def close(self) -> None:
        self._texts.close()
        self._places.close()


class ResultsJson:
    """The text of results.json: first game by game, at last in pieces."""

    def __init__(self, folder: Path | None = None) -> None:
        """`folder` is for the temporary files; None for the system's folder."""
        self._games = Spool(folder)
        self._voids = Spool(folder)

    def close(self) -> None:
        """Delete the games."""
        self._games.close()
        self._voids.close()

    def add(self, result: GameResult) -> None:
        """Keep a game that counts."""
        row = game_fields(result) | {"record": record_name(result.game)}
        self._games.put(result.game, _line(row))

    def add_void(self, void: VoidGame) -> None:
        """Keep a game that does not count."""
        self._voids.put(void.game, _line(_fields(void)))

    def pieces(self, match: MatchResult) -> Iterator[str]:
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
            gap = ""
            for row in rows:
                yield f"{gap}\n  {row}"
                gap = ","
            yield "\n ],\n" if gap else "],\n"
        yield f' "logs": {_indented(log_names(match.logs))}\n}}\n'


def notes_path(record: Path) -> Path:
    """The file with what bots noted in a game, beside its record."""
    return record.with_name(f"notes-{record.name.removeprefix('game-')}")


class _NoteRow(Struct):
    """A note in that file."""

    decision: Annotated[int, Meta(ge=0, le=10**15)]
    text: str
    numbers: dict[str, float]


def notes_beside(record: Path) -> dict[int, Note]:
    """What bots noted in a game, by the number of the decision; nothing without such a file.

    Raises UserError for a file that is damaged.
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
    """The arguments BOT of those that played, by digest; nothing without such a file.

    Raises UserError for a file that is damaged.
    """
    path = record.with_name(BOTS)
    try:
        arguments = msgspec.json.decode(path.read_bytes(), type=dict[str, str | None])
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: not the bots of its records: {error}") from None
    return {digest: argument for digest, argument in arguments.items() if argument is not None}


def game_fields(result: GameResult) -> dict[str, Any]:
    """A game as JSON has it."""
    fields = _fields(result)
    del fields["notes"]
    return fields | {
        "forfeits": [forfeit._asdict() for forfeit in result.forfeits],
        "faults": [_fields(report) for report in result.faults],
    }


def log_names(logs: Iterable[BotLog]) -> list[str]:
    """The files with the output of bots."""
    return sorted(log_name(log.bot, log.start, log.worker) for log in logs if log.in_file)


def _line(value: object) -> str:
    """On one line, which costs a tenth of many; there may be a hundred thousand."""
    return json.dumps(value, ensure_ascii=False)


def _indented(value: object) -> str:
    """One step in, for people; a line end within a text is never written as one."""
    return json.dumps(value, ensure_ascii=False, indent=1).replace("\n", "\n ")


def _fields(row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__slots__}


# A thread that writes


class WriteBehind:
    """A thread and its queue."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, name)
        self._waiting: deque[Future[object]] = deque()

    def do(
        self, call: Callable[_P, object], *args: _P.args, **kwargs: _P.kwargs
    ) -> Future[object] | None:
        """Queue a call; if a future is returned, wait for it before the next one.

        Raises what an earlier call raised.
        """
        while self._waiting and self._waiting[0].done():
            self._waiting.popleft().result()
        self._waiting.append(self._thread.submit(call, *args, **kwargs))
        return self._waiting[0] if len(self._waiting) > _WAITING else None

    def put(self, call: Callable[_P, object], *args: _P.args, **kwargs: _P.kwargs) -> None:
        """Queue a call, and wait until there is room for the next one: for callers without a loop.

        Raises what an earlier call raised.
        """
        if (room := self.do(call, *args, **kwargs)) is not None:
            room.result()

    def finish(self) -> None:
        """Wait until everything is done. Raises what a call raised."""
        self._thread.shutdown()
        for done in self._waiting:
            done.result()

    def close(self) -> None:
        """Wait until everything is done, ignoring exceptions."""
        self._thread.shutdown()

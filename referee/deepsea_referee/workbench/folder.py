"""The folder of a comparison or a ranking: a record for each game, and a file to go on from.

The file is comparison.jsonl or rank.jsonl. A search for better numbers has tune.jsonl, whose steps
have no games.

Invariants: the first line of the file says what is compared, each other line is one block
that was counted, in order; a block's line is written after its records, so that what it names is
there; a torn last line, after a power cut, is dropped and its block is played again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta, Struct

from deepsea_bundle.atomic import write_atomically
from deepsea_referee.bots.resolve import BotSpec
from deepsea_referee.errors import UserError
from deepsea_referee.results.folder import FolderWriter, game_fields, refuse_match_folder
from deepsea_referee.results.summary import GameResult, record_name
from deepsea_rules.faults import Fault, FaultReport
from deepsea_rules.game import Forfeit
from deepsea_rules.printable import quoted
from deepsea_rules.record import GameRecord
from deepsea_rules.ruleset import DIVES, MAX_PLAYERS

_SHOWN = 200
"""The largest number of characters of a value in an error message."""


def kept_seed(folder: Path, kind: str = "comparison") -> str | None:
    """Return the seed of the earlier run in a folder, or None if there is no run.

    A damaged file also gives None: its error is reported when the folder is opened.
    """
    try:
        lines = _whole_lines(folder / f"{kind}.jsonl")
        head = msgspec.json.decode(lines[0], type=dict[str, Any]) if lines else {}
        return str(head["seed"]) if head else None
    except (OSError, ValueError, KeyError, RecursionError):
        return None


_Count: TypeAlias = Annotated[int, Meta(ge=0, le=10**15)]
_Score: TypeAlias = Annotated[float, Meta(ge=-1000, le=1000)]


class _Forfeit(Struct):
    """A forfeit as a block's line has it."""

    seat: Annotated[int, Meta(ge=0, lt=MAX_PLAYERS)]
    fault: Fault
    decision: _Count


class _Game(Struct):
    """A game as a block's line has it."""

    game: _Count
    game_id: str
    seats: tuple[_Count, ...]
    points: tuple[Annotated[int, Meta(ge=0, le=100_000)], ...]
    placements: tuple[Annotated[int, Meta(ge=1, le=MAX_PLAYERS)], ...]
    forfeits: list[_Forfeit]
    faults: tuple[FaultReport, ...]
    drowned: Annotated[tuple[tuple[_Count, ...], ...], Meta(max_length=DIVES)]

    def __post_init__(self) -> None:
        by_seat = (self.points, self.placements, *self.drowned)
        if any(len(row) != len(self.seats) for row in by_seat):
            raise ValueError("Expected as many `points`, `placements` and `drowned` as `seats`")

    def result(self) -> GameResult:
        """Return the game's result, as if it had just been played."""
        forfeits = tuple(Forfeit(row.seat, row.fault, row.decision) for row in self.forfeits)
        return GameResult(**msgspec.structs.asdict(self) | {"forfeits": forfeits})


class KeptBlock(Struct, frozen=True):
    """A counted block: a line of the file of a comparison, a ranking, or a search."""

    number: _Count = msgspec.field(name="block")
    kept: list[_Game] = msgspec.field(name="games")
    luck: tuple[_Score, _Score] | None = None
    """The luck of A in a block of a comparison; None if it was not measured."""
    lead: _Score = 0.0
    """The lead of the first setting over the second one, in a step of a search."""
    spent: _Count = 0
    """The part of the budget that a step of a search has used, in games or microseconds."""

    @property
    def games(self) -> list[GameResult]:
        """The results of the block's games."""
        return [game.result() for game in self.kept]


def block_line(number: int, games: Iterable[GameResult], fields: Mapping[str, Any]) -> bytes:
    """Return a block as JSON on one line; `fields` are its further fields of `KeptBlock`."""
    line = {"block": number, **fields, "games": [game_fields(result) for result in games]}
    return json.dumps(line, ensure_ascii=False).encode()


read_block = msgspec.json.Decoder(KeptBlock).decode
"""Return the block of a line. Raises ValueError if the line is damaged."""


class ComparisonFolder(FolderWriter):
    """A folder that stores the blocks of a comparison, a ranking, or a search, run after run."""

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, Any],
        kind: str = "comparison",
        bots: Iterable[BotSpec] = (),
    ) -> None:
        """Open the folder, and read the blocks of earlier runs.

        settings  the settings that all runs in the folder must have in common, by name
        kind      the name of the file without its suffix
        bots      the bots that play, whose arguments are stored beside the records

        Raises UserError if the folder is damaged or in use, or has a run with other settings.
        """
        self._head = {"format": f"deepsea-{kind}/1", **settings}
        self._path = folder / f"{kind}.jsonl"
        self.blocks: list[KeptBlock] = []
        """The blocks of earlier runs."""
        super().__init__(folder, bots)

    def _open(self) -> None:
        """Read the blocks of earlier runs, or begin a new file; drop a torn last line."""
        path, head = self._path, self._head
        lines = _whole_lines(path) if path.exists() else []
        if lines:
            try:
                _refuse_other_settings(
                    path.parent, msgspec.json.decode(lines[0], type=dict[str, Any]), head
                )
                self.blocks = _blocks(lines[1:])
            except (ValueError, KeyError, RecursionError) as error:
                raise UserError(f"{path} is damaged ({error}): name another folder") from None
            os.truncate(path, sum(len(line) for line in lines))
        else:
            refuse_match_folder(path.parent)
            write_atomically(path, json.dumps(head, ensure_ascii=False) + "\n")
        self._file = path.open("ab")

    def _close(self) -> None:
        self._file.close()

    def __exit__(self, *error: object) -> None:
        """Write the blocks that are queued, and close the folder. Raises OSError of a write."""
        try:
            self._thread.finish()
        finally:
            super().__exit__(*error)

    def record_of(self, game: GameResult) -> Path:
        """Return the path of a game's record."""
        return self._path.with_name(record_name(game.game))

    def add(
        self,
        number: int,
        games: Sequence[tuple[GameResult, GameRecord]],
        fields: Mapping[str, Any] | None = None,
    ) -> None:
        """Write a block and the records of its games in a thread; wait if the disk is too slow.

        `fields` are further fields of `KeptBlock`. An OSError while writing is raised by a later
        call, or when the folder is closed.
        """
        self._thread.put(self._write, number, games, fields or {})

    def _write(
        self,
        number: int,
        games: Sequence[tuple[GameResult, GameRecord]],
        fields: Mapping[str, Any],
    ) -> None:
        """Write the records of a block, then its line, which promises that the records exist."""
        for result, record in games:
            write_atomically(self.record_of(result), record.to_json())
        self._file.write(block_line(number, (result for result, _ in games), fields) + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def kept_folder(
    opened: ExitStack,
    out: Path | None,
    settings: Mapping[str, Any],
    kind: str,
    bots: Iterable[BotSpec] = (),
) -> ComparisonFolder | None:
    """Open the folder `out`, to be closed by the exit stack `opened`; return None if `out` is None.

    The other arguments, and the errors, are those of `ComparisonFolder`.
    """
    if out is None:
        return None
    return opened.enter_context(ComparisonFolder(out, settings, kind, bots))


def _blocks(lines: Iterable[bytes]) -> list[KeptBlock]:
    """Return the blocks of these lines. Raises ValueError for a damaged or a repeated block."""
    blocks: dict[int, KeptBlock] = {}
    for block in map(read_block, lines):
        if blocks.setdefault(block.number, block) is not block:
            raise ValueError(f"block {block.number} is there twice")
    return [*blocks.values()]


def _whole_lines(path: Path) -> list[bytes]:
    """Return the lines of a file with their line ends, without a last line that has none."""
    return [line for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]


def _refuse_other_settings(
    folder: Path, stored: Mapping[str, Any], settings: Mapping[str, Any]
) -> None:
    """Raise UserError that names the first difference between stored settings and those of now.

    Raises KeyError for a setting that is not stored.
    """
    for key, value in settings.items():
        setting, before, now = key.replace("_", " "), stored[key], value
        if before == now:
            continue
        if isinstance(now, Mapping) and isinstance(before, Mapping):
            # A setting with parts, such as the rules: name the part that differs.
            part = next(name for name in [*now, *before] if before.get(name) != now.get(name))
            before, now = before.get(part), now.get(part)
            if part != "name":
                setting = f"{setting}, {part}"
        change = f"{setting} was {quoted(before, _SHOWN)} and is {quoted(now, _SHOWN)} now"
        if setting.startswith("program"):
            change = f"{setting} changed since the games were played"
        raise UserError(
            f"the folder {str(folder)!r} holds another comparison: {change}; "
            "name another folder, or ask for the same"
        )

"""The folder of a comparison or a ranking: a record for each game, and a file to go on from.

The file is comparison.jsonl or rank.jsonl; that of a search is tune.jsonl, whose steps keep no
games.

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
"""Characters of a value in a refusal."""


def kept_seed(folder: Path, kind: str = "comparison") -> str | None:
    """The seed of the comparison or ranking in a folder; None if there is none."""
    try:
        lines = _whole_lines(folder / f"{kind}.jsonl")
        head = msgspec.json.decode(lines[0], type=dict[str, Any]) if lines else {}
        return str(head["seed"]) if head else None
    except (OSError, ValueError, KeyError, RecursionError):
        return None  # damaged, which is said when it is opened


_Count: TypeAlias = Annotated[int, Meta(ge=0, le=10**15)]
_Score: TypeAlias = Annotated[float, Meta(ge=-1000, le=1000)]


class _Forfeit(Struct):
    seat: Annotated[int, Meta(ge=0, lt=MAX_PLAYERS)]
    fault: Fault
    decision: _Count


class _Game(Struct):
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
        forfeits = tuple(Forfeit(row.seat, row.fault, row.decision) for row in self.forfeits)
        return GameResult(**msgspec.structs.asdict(self) | {"forfeits": forfeits})


class KeptBlock(Struct, frozen=True):
    """A block that was counted: a line of the file."""

    number: _Count = msgspec.field(name="block")
    kept: list[_Game] = msgspec.field(name="games")
    luck: tuple[_Score, _Score] | None = None
    """Of a comparison: the luck in it, if that was measured."""
    lead: _Score = 0.0
    """The lead of the first setting, in a step of a search."""
    spent: _Count = 0
    """The part of the budget that a step of a search took."""

    @property
    def games(self) -> list[GameResult]:
        """The results of its games."""
        return [game.result() for game in self.kept]


def block_line(number: int, games: Iterable[GameResult], notes: Mapping[str, Any]) -> bytes:
    """A block as JSON on one line; `notes` are the further fields of `KeptBlock`."""
    line = {"block": number, **notes, "games": [game_fields(result) for result in games]}
    return json.dumps(line, ensure_ascii=False).encode()


read_block = msgspec.json.Decoder(KeptBlock).decode
"""The block of a line."""


class ComparisonFolder(FolderWriter):
    """Keeps the blocks of a comparison or a ranking, those of earlier runs included."""

    def __init__(
        self,
        folder: Path,
        asked: Mapping[str, Any],
        kind: str = "comparison",
        bots: Iterable[BotSpec] = (),
    ) -> None:
        """`asked` is what is compared; its keys name the difference to an earlier run."""
        self._head = {"format": f"deepsea-{kind}/1", **asked}
        self._path = folder / f"{kind}.jsonl"
        self.blocks: list[KeptBlock] = []
        """The blocks that were there."""
        super().__init__(folder, bots)

    def _open(self) -> None:
        path, head = self._path, self._head
        lines = _whole_lines(path) if path.exists() else []
        if lines:
            try:
                kept = msgspec.json.decode(lines[0], type=dict[str, Any])
                _refuse_another(path.parent, kept, head)
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
        try:
            self._thread.finish()
        finally:
            super().__exit__(*error)

    def record_of(self, game: GameResult) -> Path:
        """The path of a game's record."""
        return self._path.with_name(record_name(game.game))

    def add(
        self,
        number: int,
        games: Sequence[tuple[GameResult, GameRecord]],
        notes: Mapping[str, Any] | None = None,
    ) -> None:
        """Write a block in a thread; waits if the disk is too slow.

        An OSError of an earlier one is raised here or at the end.
        """
        self._thread.put(self._write, number, games, notes or {})

    def _write(
        self,
        number: int,
        games: Sequence[tuple[GameResult, GameRecord]],
        notes: Mapping[str, Any],
    ) -> None:
        for result, record in games:
            write_atomically(self.record_of(result), record.to_json())
        self._file.write(block_line(number, (result for result, _ in games), notes) + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def kept_folder(
    opened: ExitStack,
    out: Path | None,
    asked: Mapping[str, Any],
    kind: str,
    bots: Iterable[BotSpec] = (),
) -> ComparisonFolder | None:
    """The folder `out`, if one is named, closed with `opened`."""
    return None if out is None else opened.enter_context(ComparisonFolder(out, asked, kind, bots))


def _blocks(lines: Iterable[bytes]) -> list[KeptBlock]:
    """The blocks of these lines, each of which was counted once."""
    blocks: dict[int, KeptBlock] = {}
    for block in map(read_block, lines):
        if blocks.setdefault(block.number, block) is not block:
            raise ValueError(f"block {block.number} is there twice")
    return [*blocks.values()]


def _whole_lines(path: Path) -> list[bytes]:
    return [line for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]


def _refuse_another(folder: Path, kept: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    """Raises UserError that names the first difference."""
    for key, value in asked.items():
        what, was, now = key.replace("_", " "), kept[key], value
        if isinstance(now, Mapping) and isinstance(was, Mapping) and was != now:
            what, was, now = next(
                (what if name == "name" else f"{what}, {name}", was.get(name), now.get(name))
                for name in [*now, *was]
                if was.get(name) != now.get(name)
            )
        if was != now:
            change = f"{what} was {quoted(was, _SHOWN)} and is {quoted(now, _SHOWN)} now"
            if what.startswith("program"):
                change = f"{what} changed since the games were played"
            raise UserError(
                f"the folder {str(folder)!r} holds another comparison: {change}; "
                "name another folder, or ask for the same"
            )

"""Games of a comparison, in blocks of games on one seed with swapped seats; and its folder.

Start reading at `play_blocks`, which plays them, and `ComparisonFolder`, which stores them.

Invariants of blocks: a block is closed under swapping the two bots, so that bots that play alike
differ only by their own random numbers; blocks differ only in their seeds; they are reported in the
order of their numbers, whichever ended first, because counting short games first would bias early
stopping. A block with a void game does not count: after the others it is played again, whole, on
new luck. The luck of a block is that of all its games together, since they have the same dice and
the same values; its mean is 0 for any bots that do not know the seed, and no process of theirs
does: each plays one game of a block at most (bots/pool.py).

The folder of a comparison or a ranking has a record for each game, and a file to continue from:
comparison.jsonl or rank.jsonl. A search for better numbers has tune.jsonl, whose steps have no
games.

Invariants of the folder: the first line of the file says what is compared, each other line is one
block that was counted, in order; a block's line is written after its records, so that all records
that it names exist; a torn last line, after a power cut, is dropped and its block is played again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias

import msgspec
from msgspec import Meta, Struct

from deepsea_bundle.atomic import write_atomically
from deepsea_referee.bots.resolve import BotSpec, with_unique_names
from deepsea_referee.errors import UserError
from deepsea_referee.match import MatchSettings
from deepsea_referee.results_folder import FolderWriter, game_fields, refuse_match_folder
from deepsea_referee.shared_match import run_match_with_workers
from deepsea_referee.summary import GameResult, MatchResult, VoidGame, record_name
from deepsea_referee.workbench.comparison import LUCK_BOUND, Comparison, largest_lead
from deepsea_referee.workbench.confidence import ALPHA, MARGIN
from deepsea_rules.faults import Fault, FaultReport
from deepsea_rules.game import Forfeit, GameRecord, replay
from deepsea_rules.printable import quoted
from deepsea_rules.randomness import game_seed
from deepsea_rules.ruleset import DIVES, MAX_PLAYERS, MIN_PLAYERS, USUAL_PLAYERS

if TYPE_CHECKING:
    from deepsea_sdk.coach.formula import LuckSums


PlayedBlock: TypeAlias = Sequence[tuple[GameResult, GameRecord]]
OnBlock: TypeAlias = Callable[[int, PlayedBlock], bool]
"""Receives a block's number and games; returns True to stop."""
SaveBlock: TypeAlias = Callable[[int, PlayedBlock, Mapping[str, Any]], object]
"""Stores a counted block; receives its number, its games, and the measurements of the games."""
ATTEMPTS = 3
"""The number of times that a block is tried if it has a void game each time."""


@dataclass(frozen=True, slots=True)
class GroupSettings(MatchSettings):
    """A match of whole groups of games that count together: blocks, or the rounds of a ranking."""

    kind: ClassVar[str]
    """The name of the file in the results folder, without its suffix."""
    seed_text: str = ""
    """The text from which `seed` was derived."""
    margin: float = MARGIN
    """The largest difference in placement score that counts as none."""
    alpha: float = ALPHA
    """The accepted probability of a wrong verdict."""
    until_decided: bool = False
    """True to stop as soon as there is a verdict."""
    done: int = 0
    """The number of the first group to play; those before it were played in earlier runs."""

    @property
    def size(self) -> int:
        """The number of games in a group."""
        raise NotImplementedError

    @property
    def blocks(self) -> Sequence[int]:
        """The numbers of the groups to play: those of `part` if it is set, else all from `done`."""
        if self.part is None:
            return range(self.done, self.block_of(self.games))
        # Several games of `part` have the same group: a dictionary keeps the order without repeats.
        return [*dict.fromkeys(map(self.block_of, self.part))]

    def block_of(self, game: int) -> int:
        """Return the number of the group that a game belongs to; both numbers count from 0."""
        return game // self.size

    def games_of(self, blocks: Iterable[int]) -> Iterator[int]:
        """Return the numbers of the games that belong to these groups."""
        return (block * self.size + index for block in blocks for index in range(self.size))

    def numbers(self) -> Iterable[int]:
        """The numbers of the games to play."""
        return self.games_of(self.blocks) if self.part is None else self.part

    def worker_of(self, place: int, workers: int) -> int:
        """Return the worker that plays the game at this place of the list of games to play."""
        # The games of a group go to different workers: no process of a bot may meet a seed twice,
        # so a worker needs more processes, the more games of a group it has.
        return place % workers

    def check_stored_block(self, block: StoredBlock) -> None:
        """Raise UserError if a stored block has other games or line-ups than in these settings."""
        # Games of the settings count from 0, stored games from 1.
        expected = [(game + 1, self.line_up(game)) for game in self.games_of([block.number])]
        stored = [(game.game, game.seats) for game in block.stored_games]
        if stored != expected:
            raise UserError(
                f"block {block.number} of the folder is damaged, its games are not those that "
                "are played in it: name another folder"
            )

    def game_seed(self, game: int) -> bytes:
        """Return the seed of a game, which all games of its group have in common."""
        return game_seed(self.seed, self.block_of(game), self.attempt)

    def fields_to_match(self) -> dict[str, object]:
        """Return the settings, by name, that a run must share with a folder to continue there."""
        return {
            "seats": len(self.line_up(0)),
            "rules": {"name": self.rules.name, **self.rules.options()},
            "seed": self.seed_text,
            "clock": self.time_control.format(),
            "margin": self.margin,
            "alpha": self.alpha,
        }


@dataclass(frozen=True, slots=True)
class BlockSettings(GroupSettings):
    """A match of blocks, all with the same line-ups."""

    kind = "comparison"
    line_ups: tuple[tuple[int, ...], ...] = ()
    """The games of a block: the bot in each seat."""
    ours: tuple[int, ...] = (0,)
    """The indices in `bots` of the copies of A."""
    theirs: tuple[int, ...] = (1,)
    """The indices in `bots` of the copies of B."""
    field: tuple[BotSpec, ...] = ()
    """The bots that the user named for the other seats."""
    luck_adjusted: bool = False
    """True to decide by the lead minus the luck in it."""

    @classmethod
    def of(
        cls,
        a: BotSpec,
        b: BotSpec,
        field: Sequence[BotSpec] = (),
        seats: int | None = None,
        *,
        blocks: int,
        **others: Any,
    ) -> BlockSettings:
        """Return the settings of a comparison of bots a and b in at most `blocks` blocks.

        field   the bots for the other seats
        seats   the number of seats; None chooses it by the size of the field
        others  the values of further fields of this class

        Raises UserError if the number of seats is not allowed, or the field has too many bots.
        """
        # `bots` has several copies of a and of b: `ours` and `theirs` are their indices.
        bots, line_ups, ours, theirs = seated(a, b, field, seats)
        return cls(
            bots=bots,
            games=blocks * len(line_ups),
            line_ups=line_ups,
            ours=ours,
            theirs=theirs,
            field=tuple(field),
            **others,
        )

    @property
    def pair(self) -> tuple[BotSpec, BotSpec]:
        """Bots A and B."""
        return self.bots[self.ours[0]], self.bots[self.theirs[0]]

    @property
    def names(self) -> list[str]:
        """The names of A and B; they differ even if both bots have the same name."""
        return [bot.name for bot in with_unique_names(self.pair)]

    @property
    def luck_by(self) -> str:
        """The version of the formula that measures the luck; "no" if luck is not measured.

        It is stored with the blocks, since blocks of different versions cannot be counted together.
        """
        from deepsea_sdk.coach.formula import VERSION  # slow to import, and seldom needed

        return VERSION if self.luck_adjusted else "no"

    def fields_to_match(self) -> dict[str, object]:
        """Return the settings, by name, that a comparison must share with its folder to continue.

        A digest identifies the files of a bot's program.
        """
        a, b = self.pair
        return {
            "bot_A": a.name,
            "bot_B": b.name,
            "field": [bot.name for bot in self.field],
            "program_of_A": a.digest,
            "program_of_B": b.digest,
            "programs_of_the_field": [bot.digest for bot in self.field],
            **GroupSettings.fields_to_match(self),
            "luck_adjusted": self.luck_by,
        }

    @property
    def size(self) -> int:
        return len(self.line_ups)

    def line_up(self, game: int) -> tuple[int, ...]:
        return self.line_ups[game % self.size]

    def worker_of(self, place: int, workers: int) -> int:
        """Return the worker that plays the game at this place of the list of games to play."""
        if len({tuple(sorted(line_up)) for line_up in self.line_ups}) > 1:
            # A has more seats in one game than in the next: each worker gets as many of both.
            return self.block_of(place) % workers
        return GroupSettings.worker_of(self, place, workers)


def seated(
    a: BotSpec, b: BotSpec, field: Sequence[BotSpec], seats: int | None
) -> tuple[list[BotSpec], tuple[tuple[int, ...], ...], tuple[int, ...], tuple[int, ...]]:
    """Seat bots a and b, and the field, in the games of a block.

    Returns four values: the list of bots, the line-ups (for each game the index in that list of
    the bot in each seat), the indices of a's copies, and the indices of b's copies.

    With a field, a and b have one seat each, and the field has the others. A block has a game for
    each rotation of the circle a, b, field and of the circle b, a, field. Without a field, copies
    of a and b alternate around the table, and a block has two games: one in which a has the first
    seat, and one in which b has it.

    Raises UserError if the number of seats is not allowed, or the field has too many bots.
    """
    players = seats or (2 + len(field) if field else USUAL_PLAYERS)
    if not MIN_PLAYERS <= players <= MAX_PLAYERS:
        raise UserError(f"a game has {MIN_PLAYERS} to {MAX_PLAYERS} seats, not {players}")
    if len(field) > players - 2:
        raise UserError(
            f"{players} seats have room for a field of {players - 2}, not {len(field)}: "
            "name fewer bots or more seats"
        )
    if field:
        others = [field[i % len(field)] for i in range(players - 2)]
        circles = [(*pair, *range(2, players)) for pair in ((0, 1), (1, 0))]
        line_ups = [
            circle[-shift:] + circle[:-shift] for circle in circles for shift in range(players)
        ]
        return [a, b, *others], tuple(line_ups), (0,), (1,)
    # With an odd number of seats, the bot in the first seat has one seat more than the other one.
    copies = (players + 1) // 2
    ours, theirs = tuple(range(copies)), tuple(range(copies, 2 * copies))
    pairs = [(ours, theirs), (theirs, ours)]
    # Even seats have the copies of the first bot of the pair, odd seats those of the second one.
    line_ups = [tuple(pair[seat % 2][seat // 2] for seat in range(players)) for pair in pairs]
    return [a] * copies + [b] * copies, tuple(line_ups), ours, theirs


class BlockLuck:
    """Measures how far dice and hidden chip values moved the lead of A over B in a block."""

    def __init__(
        self, line_ups: Sequence[Sequence[int]], ours: Collection[int], theirs: Collection[int]
    ) -> None:
        """`ours` and `theirs` are the indices in the line-ups of the copies of A and of B."""
        # The lead is the mean score of all seats of A minus that of all seats of B, so each score
        # of A is weighted by 1 / (seats of A), each of B by -1 / (seats of B).
        self._weights = {
            bot: sign / sum(bot in side for line_up in line_ups for bot in line_up)
            for side, sign in ((ours, 1), (theirs, -1))
            for bot in side
        }
        self.bound = LUCK_BOUND * largest_lead(line_ups, ours, theirs)
        """The limit of the luck of a block, in placement score."""

    def measure(self, played: PlayedBlock) -> LuckSums:
        """Return how far luck has moved the lead of A over B in a block, in placement score.

        It is returned in two forms: limited to at most `self.bound`, and limited to at least
        `-self.bound`. The first is for a statistical bet that A is the stronger bot, the second for
        one that B is (see `AdjustedSequence.add`).
        """
        from deepsea_sdk.coach.formula import chance_sum, formula  # slow to import, seldom needed

        weighted_games = []
        for result, record in played:
            # Bots of the field, in the other seats, do not count for the lead.
            weights = [self._weights.get(bot, 0.0) for bot in result.seats]
            weighted_games.append((replay(record), weights))
        return chance_sum(weighted_games, self.bound, formula)


class CompareGames:
    """The games of a comparison, which continues after the blocks of earlier runs."""

    def __init__(
        self,
        settings: BlockSettings,
        stored_blocks: Iterable[StoredBlock] = (),
        save_block: SaveBlock = lambda *block: None,
    ) -> None:
        """Count the blocks of earlier runs.

        stored_blocks  the blocks of earlier runs, in order
        save_block     stores each new block once it is counted
        """
        sides = settings.line_ups, settings.ours, settings.theirs
        self.comparison = Comparison(
            *sides,
            margin=settings.margin,
            alpha=settings.alpha,
            luck_adjusted=settings.luck_adjusted,
        )
        self._luck = BlockLuck(*sides) if settings.luck_adjusted else None
        self._save_block = save_block
        done = settings.done
        for block in stored_blocks:
            settings.check_stored_block(block)
            self.comparison.add(block.games, block.luck)
            done = max(done, block.number + 1)
        self.settings = replace(settings, done=done)

    @property
    def left(self) -> int:
        """The largest number of blocks that are still to be played; 0 once it is decided."""
        decided = self.settings.until_decided and self.comparison.verdict is not None
        return 0 if decided else len(self.settings.blocks)

    def play(
        self,
        on_block: Callable[[PlayedBlock], object],
        *,
        workers: int = 1,
        in_process: bool = False,
    ) -> bool:
        """Play the remaining blocks; return True if Ctrl-C interrupted them.

        They end early if the comparison is to be played only `until_decided`, and has a verdict.

        on_block  receives each block once it is counted; returns True to stop
        Raises UserError for a bot that cannot be started or imported.
        """

        def count_block(number: int, played: PlayedBlock) -> bool:
            """Count and store a block; return True to stop playing."""
            luck = None
            stored_fields = {}
            if self._luck is not None:
                luck = self._luck.measure(played)
                stored_fields["luck"] = luck
            results = [result for result, _record in played]
            self.comparison.add(results, luck)
            self._save_block(number, played, stored_fields)
            if on_block(played) is True:
                return True
            return self.settings.until_decided and self.comparison.verdict is not None

        if not self.left:
            return False
        return play_blocks(self.settings, count_block, workers=workers, in_process=in_process)


class _EndOfBlocks(Exception):
    """Raised in the callback of a game to end the match: no more games are needed."""


def play_blocks(
    settings: GroupSettings,
    on_block: OnBlock,
    *,
    workers: int = 1,
    in_process: bool = False,
    play: Callable[..., MatchResult] = run_match_with_workers,
) -> bool:
    """Play all blocks, or until `on_block` returns True; return True if Ctrl-C interrupted them.

    Blocks with a void game are played again, whole and on new luck, at most `ATTEMPTS` times.

    play  plays a match, with the signature of `shared_match.run_match_with_workers`
    Raises UserError for a bot that cannot be started or imported.
    """
    for attempt in range(ATTEMPTS):
        settings = replace(settings, attempt=attempt)
        collector = _BlockCollector(settings.blocks, settings.size, settings.block_of, on_block)
        try:
            result = play(
                settings,
                workers,
                collector.add,
                collector.leave_out,
                in_process=in_process,
                replay=True,
            )
        except _EndOfBlocks:
            break
        if result.interrupted:
            return True
        if not collector.void:
            break
        settings = replace(settings, part=tuple(settings.games_of(collector.void)))
    return False


class _BlockCollector:
    """Collects games, which end in any order, into blocks, and reports the blocks in their order.

    The games of a block are sorted by number. A block with a void game is not reported but listed
    in `void`. Adding a game raises `_EndOfBlocks` if `on_block` returns True.
    """

    def __init__(
        self,
        blocks: Sequence[int],
        size: int,
        block_of: Callable[[int], int],
        on_block: OnBlock,
    ) -> None:
        self._blocks = iter(blocks)
        self._next_block = next(self._blocks, None)
        """The block to be reported next; None once all are reported."""
        self._size = size
        self._block_of = block_of
        self._on_block = on_block
        self.void: list[int] = []
        """The numbers of the blocks with a void game."""
        self._games: dict[int, list[tuple[GameResult, GameRecord] | None]] = {}
        """The games of each block that is not complete or not its turn; None for a void game."""

    def add(self, result: GameResult, record: GameRecord) -> None:
        """Add a game that counts."""
        self._collect(result.game - 1, (result, record))

    def leave_out(self, void: VoidGame) -> None:
        """Add a void game, because of which its block does not count."""
        self._collect(void.game - 1, None)

    def _collect(self, number: int, game: tuple[GameResult, GameRecord] | None) -> None:
        """Add a game to its block, and report the blocks that are complete, in their order.

        A complete block waits for incomplete ones before it.

        number  the number of the game, from 0
        game    the result and the record; None for a void game
        """
        self._games.setdefault(self._block_of(number), []).append(game)
        while self._next_block is not None and self._is_complete(self._next_block):
            block = self._next_block
            self._next_block = next(self._blocks, None)
            self._report(block)

    def _report(self, block: int) -> None:
        """Pass a complete block to its receiver, or list it in `void` if it has a void game.

        Raises _EndOfBlocks, which ends the match, if the receiver wants no more blocks.
        """
        games = [game for game in self._games.pop(block) if game is not None]
        if len(games) < self._size:
            self.void.append(block)
            return
        games.sort(key=lambda game: game[0].game)  # workers end their games in any order
        is_enough = self._on_block(block, games)
        if is_enough:
            raise _EndOfBlocks

    def _is_complete(self, block: int) -> bool:
        """Return True if all games of a block have ended."""
        return len(self._games.get(block, ())) == self._size


# ----- The folder of a comparison or a ranking

_SHOWN = 200
"""The largest number of characters of a value in an error message."""


def stored_seed(folder: Path, kind: str = "comparison") -> str | None:
    """Return the seed of the earlier run in a folder, or None if there is no run.

    A damaged file also gives None: its error is reported when the folder is opened.

    kind  the name of the folder's file, without its suffix
    """
    try:
        lines = _whole_lines(folder / f"{kind}.jsonl")
        if not lines:
            return None
        settings = msgspec.json.decode(lines[0], type=dict[str, Any])
        return str(settings["seed"])
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


class StoredBlock(Struct, frozen=True):
    """A counted block: a line of the file of a comparison, a ranking, or a search."""

    number: _Count = msgspec.field(name="block")
    stored_games: list[_Game] = msgspec.field(name="games")
    luck: tuple[_Score, _Score] | None = None
    """The luck of A in a block of a comparison; None if it was not measured."""
    lead: _Score = 0.0
    """The lead of the first setting over the second one, in a step of a search."""
    spent: _Count = 0
    """The part of the budget that a step of a search has used, in games or microseconds."""

    @property
    def games(self) -> list[GameResult]:
        """The results of the block's games."""
        return [game.result() for game in self.stored_games]


def block_line(number: int, games: Iterable[GameResult], fields: Mapping[str, Any]) -> bytes:
    """Return a block as JSON on one line; `fields` are its further fields of `StoredBlock`."""
    line = {"block": number, **fields, "games": [game_fields(result) for result in games]}
    return json.dumps(line, ensure_ascii=False).encode()


read_block = msgspec.json.Decoder(StoredBlock).decode
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
        self._settings = {"format": f"deepsea-{kind}/1", **settings}
        """The settings, which are the first line of the file."""
        self._path = folder / f"{kind}.jsonl"
        self.blocks: list[StoredBlock] = []
        """The blocks of earlier runs."""
        super().__init__(folder, bots)

    def _open(self) -> None:
        """Open the file for new blocks: read those of earlier runs, or begin a new file.

        The first line has the settings, each other line a block. A torn last line is dropped.
        Raises UserError if the file is damaged, or was begun with other settings.
        """
        path = self._path
        lines = _whole_lines(path) if path.exists() else []
        if lines:
            try:
                stored_settings = msgspec.json.decode(lines[0], type=dict[str, Any])
                _refuse_other_settings(path.parent, stored_settings, self._settings)
                self.blocks = _read_blocks(lines[1:])
            except (ValueError, KeyError, RecursionError) as error:
                raise UserError(f"{path} is damaged ({error}): name another folder") from None
            os.truncate(path, sum(len(line) for line in lines))
        else:
            refuse_match_folder(path.parent)
            write_atomically(path, json.dumps(self._settings, ensure_ascii=False) + "\n")
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

        `fields` are further fields of `StoredBlock`. An OSError while writing is raised by a later
        call, or when the folder is closed.
        """
        self._thread.put(self._write, number, games, fields or {})

    def _write(
        self,
        number: int,
        games: Sequence[tuple[GameResult, GameRecord]],
        fields: Mapping[str, Any],
    ) -> None:
        """Write the records of a block, and then its line, which promises that the records exist.

        fields  further fields of `StoredBlock`
        """
        for result, record in games:
            write_atomically(self.record_of(result), record.to_json())
        results = [result for result, _record in games]
        self._file.write(block_line(number, results, fields) + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def open_folder(
    stack: ExitStack,
    out: Path | None,
    settings: Mapping[str, Any],
    kind: str,
    bots: Iterable[BotSpec] = (),
) -> ComparisonFolder | None:
    """Open a folder for the blocks of a run; return None if nothing is to be stored.

    stack     closes the folder at its end
    out       the folder; None to store nothing
    settings  the settings that all runs in the folder must have in common, by name
    kind      the name of the file without its suffix
    bots      the bots that play, whose arguments are stored beside the records

    Raises UserError if the folder is damaged or in use, or has a run with other settings.
    """
    if out is None:
        return None
    return stack.enter_context(ComparisonFolder(out, settings, kind, bots))


def _read_blocks(lines: Iterable[bytes]) -> list[StoredBlock]:
    """Return the blocks of these lines. Raises ValueError for a damaged or a repeated block."""
    blocks: dict[int, StoredBlock] = {}
    for line in lines:
        block = read_block(line)
        if block.number in blocks:
            raise ValueError(f"block {block.number} is there twice")
        blocks[block.number] = block
    return list(blocks.values())


def _whole_lines(path: Path) -> list[bytes]:
    """Return the lines of a file with their line ends, without a last line that has none."""
    return [line for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]


def _refuse_other_settings(
    folder: Path, stored: Mapping[str, Any], settings: Mapping[str, Any]
) -> None:
    """Raise UserError if the settings of a run are not those that its folder has stored.

    The error names the first difference. Raises KeyError for a setting that is not stored.
    """
    for name, value in settings.items():
        if stored[name] != value:
            raise UserError(
                f"the folder {str(folder)!r} holds another comparison: "
                f"{_change_text(name, stored[name], value)}; "
                "name another folder, or ask for the same"
            )


def _change_text(name: str, before: object, now: object) -> str:
    """Describe for a person how a setting has changed.

    name         the name of the setting
    before, now  its stored value, and its value in this run
    """
    setting = name.replace("_", " ")
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        # A setting with parts, such as the rules: name the first part that differs.
        all_parts = [*now, *before]
        part = next(part for part in all_parts if before.get(part) != now.get(part))
        before, now = before.get(part), now.get(part)
        if part != "name":
            setting = f"{setting}, {part}"
    if setting.startswith("program"):  # its value is a digest, which tells a person nothing
        return f"{setting} changed since the games were played"
    return f"{setting} was {quoted(before, _SHOWN)} and is {quoted(now, _SHOWN)} now"

"""A comparison as it is played: blocks of games on one seed, in which two bots swap their seats.

Invariants: a block is closed under swapping the two bots, so that bots that play alike differ only
by their own random numbers; blocks differ only in their seeds; they are reported in the order of
their numbers, whichever ended first, because counting short games first would bias early stopping.
A block with a void game does not count: after the others it is played again, whole, on new luck.
The luck of a block is that of all its games together, since they have the same dice and the same
values; its mean is 0 for any bots that do not know the seed, and no process of theirs does: each
plays one game of a block at most (bots/meetings.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from deepsea_referee.bots.resolve import BotSpec, with_unique_names
from deepsea_referee.errors import UserError
from deepsea_referee.match import MatchSettings
from deepsea_referee.results.summary import GameResult, MatchResult, VoidGame
from deepsea_referee.shared_match import run_match
from deepsea_referee.workbench.comparison import LUCK_BOUND, Comparison, largest_lead
from deepsea_referee.workbench.confidence import ALPHA, MARGIN
from deepsea_rules.randomness import game_seed
from deepsea_rules.record import GameRecord, replay
from deepsea_rules.ruleset import MAX_PLAYERS, MIN_PLAYERS, USUAL_PLAYERS

if TYPE_CHECKING:
    from deepsea_referee.workbench.folder import KeptBlock
    from deepsea_sdk.coach.chance_sum import Luck

PlayedBlock: TypeAlias = Sequence[tuple[GameResult, GameRecord]]
OnBlock: TypeAlias = Callable[[int, PlayedBlock], bool]
"""Receives a block's number and games; returns True to stop."""
Keep: TypeAlias = Callable[[int, PlayedBlock, Mapping[str, Any]], object]
"""Keeps a block that was counted: its number, its games, and what was measured in them."""
ATTEMPTS = 3
"""How often a block is played that has a void game each time."""


@dataclass(frozen=True, slots=True)
class GroupSettings(MatchSettings):
    """A match of whole groups of games that count together: blocks, or the rounds of a ranking."""

    kind: ClassVar[str]
    """What it is called in its folder."""
    seed_text: str = ""
    """The text that `seed` was made from."""
    margin: float = MARGIN
    """The largest difference in placement score that counts as none."""
    alpha: float = ALPHA
    """The probability of a wrong verdict that is accepted."""
    until_decided: bool = False
    """Stop at the verdict."""
    done: int = 0
    """Groups before this one were played earlier."""

    @property
    def size(self) -> int:
        """The games of a group."""
        raise NotImplementedError

    @property
    def blocks(self) -> Sequence[int]:
        """The numbers of the groups that are played."""
        if self.part is None:
            return range(self.done, self.block_of(self.games))
        return [*dict.fromkeys(map(self.block_of, self.part))]

    def block_of(self, game: int) -> int:
        """The group that a game belongs to; both count from 0."""
        return game // self.size

    def games_of(self, blocks: Iterable[int]) -> Iterator[int]:
        """The numbers of the games of these groups."""
        return (block * self.size + place for block in blocks for place in range(self.size))

    def numbers(self) -> Iterable[int]:
        return self.games_of(self.blocks) if self.part is None else self.part

    def worker_of(self, place: int, workers: int) -> int:
        # Not a whole group: the fewer of its games a worker has, the fewer processes it needs.
        return place % workers

    def check_kept(self, block: KeptBlock) -> None:
        """Raise UserError if a block that was kept has other games than these settings give it."""
        games = [(game + 1, self.line_up(game)) for game in self.games_of([block.number])]
        if [(game.game, game.seats) for game in block.kept] != games:
            raise UserError(
                f"block {block.number} of the folder is damaged, its games are not those that "
                "are played in it: name another folder"
            )

    def game_seed(self, game: int) -> bytes:
        return game_seed(self.seed, self.block_of(game), self.attempt)

    def asked(self) -> dict[str, object]:
        """What has to be the same for a run to go on from its folder."""
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
    """The bots that are copies of A,"""
    theirs: tuple[int, ...] = (1,)
    """and those of B."""
    field: tuple[BotSpec, ...] = ()
    """The bots that were named for the other seats."""
    luck_adjusted: bool = False
    """Decide by the lead less the luck in it."""

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
        """At most so many blocks between a and b; `others` are fields of the settings."""
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
        return self.bots[self.ours[0]], self.bots[self.theirs[0]]

    @property
    def names(self) -> list[str]:
        """Of A and B, each its own."""
        return [bot.name for bot in with_unique_names(self.pair)]

    @property
    def luck_by(self) -> str:
        """What the luck is measured by, with its version, since others give other sums."""
        from deepsea_sdk.coach.formula import VERSION

        return VERSION if self.luck_adjusted else "no"

    def asked(self) -> dict[str, object]:
        a, b = self.pair
        return {
            "bot_A": a.name,
            "bot_B": b.name,
            "field": [bot.name for bot in self.field],
            "program_of_A": a.digest,
            "program_of_B": b.digest,
            "programs_of_the_field": [bot.digest for bot in self.field],
            **GroupSettings.asked(self),
            "luck_adjusted": self.luck_by,
        }

    @property
    def size(self) -> int:
        return len(self.line_ups)

    def line_up(self, game: int) -> tuple[int, ...]:
        return self.line_ups[game % self.size]

    def worker_of(self, place: int, workers: int) -> int:
        if len({tuple(sorted(line_up)) for line_up in self.line_ups}) > 1:
            # A has more seats in one game than in the next: each worker gets as many of both.
            return self.block_of(place) % workers
        return GroupSettings.worker_of(self, place, workers)


def seated(
    a: BotSpec, b: BotSpec, field: Sequence[BotSpec], seats: int | None
) -> tuple[list[BotSpec], tuple[tuple[int, ...], ...], tuple[int, ...], tuple[int, ...]]:
    """The bots of a comparison, the line-ups of a block, and which bots are a's and b's copies.

    With a field, a and b have a seat each, the field has the rest, and all rotate, once in the
    order a b and once in the order b a. Without one, a and b share all seats in turns, once
    beginning with a and once with b: that makes two games, whatever the number of seats.
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
        line_ups = [c[-i:] + c[:-i] for c in circles for i in range(players)]
        return [a, b, *others], tuple(line_ups), (0,), (1,)
    copies = (players + 1) // 2
    ours, theirs = tuple(range(copies)), tuple(range(copies, 2 * copies))
    pairs = [(ours, theirs), (theirs, ours)]
    line_ups = [tuple(pair[s % 2][s // 2] for s in range(players)) for pair in pairs]
    return [a] * copies + [b] * copies, tuple(line_ups), ours, theirs


class BlockLuck:
    """Measures the luck of A: how far dice and hidden values moved its lead over B in a block."""

    def __init__(
        self, line_ups: Sequence[Sequence[int]], ours: Collection[int], theirs: Collection[int]
    ) -> None:
        """`ours` and `theirs` are the bots in the line-ups that are copies of A and of B."""
        self._share = {
            bot: sign / sum(bot in side for line_up in line_ups for bot in line_up)
            for side, sign in ((ours, 1), (theirs, -1))
            for bot in side
        }
        self.bound = LUCK_BOUND * largest_lead(line_ups, ours, theirs)
        """The luck of a block is at most that, or at least minus that."""

    def of(self, played: PlayedBlock) -> Luck:
        """The luck of A in a block, as placement score."""
        from deepsea_sdk.coach.chance_sum import chance_sum  # seldom needed
        from deepsea_sdk.coach.formula import formula

        games = [
            (replay(record), [self._share.get(bot, 0.0) for bot in result.seats])
            for result, record in played
        ]
        return chance_sum(games, self.bound, formula)


class CompareGames:
    """The games of a comparison: blocks that were kept count, and it goes on from there."""

    def __init__(
        self,
        settings: BlockSettings,
        kept: Iterable[KeptBlock] = (),
        keep: Keep = lambda *block: None,
    ) -> None:
        """`kept` has the blocks of earlier runs, in order."""
        sides = settings.line_ups, settings.ours, settings.theirs
        self.comparison = Comparison(
            *sides,
            margin=settings.margin,
            alpha=settings.alpha,
            luck_adjusted=settings.luck_adjusted,
        )
        self._luck = BlockLuck(*sides) if settings.luck_adjusted else None
        self._keep = keep
        done = settings.done
        for block in kept:
            settings.check_kept(block)
            self.comparison.add(block.games, block.luck)
            done = max(done, block.number + 1)
        self.settings = replace(settings, done=done)

    @property
    def left(self) -> int:
        """The blocks that are still to be played, at most."""
        decided = self.settings.until_decided and self.comparison.verdict is not None
        return 0 if decided else len(self.settings.blocks)

    def play(
        self,
        on_block: Callable[[PlayedBlock], object],
        *,
        workers: int = 1,
        in_process: bool = False,
    ) -> bool:
        """Play on to the end; returns whether Ctrl-C ended it before.

        on_block  receives each block once it is counted; returns True to stop
        Raises UserError for a bot that cannot be started or imported.
        """

        def count(number: int, played: PlayedBlock) -> bool:
            luck = None if self._luck is None else self._luck.of(played)
            self.comparison.add([result for result, _ in played], luck)
            self._keep(number, played, {} if luck is None else {"luck": luck})
            enough = on_block(played) is True
            return enough or (self.settings.until_decided and self.comparison.verdict is not None)

        if not self.left:
            return False
        return play_blocks(self.settings, count, workers=workers, in_process=in_process)


class _Enough(Exception):
    """Ends a match of which enough was played."""


def play_blocks(
    settings: GroupSettings,
    on_block: OnBlock,
    *,
    workers: int = 1,
    in_process: bool = False,
    play: Callable[..., MatchResult] = run_match,
) -> bool:
    """Play all blocks, or until `on_block` stops it; returns whether Ctrl-C ended it before.

    play  plays a match, as `shared_match.run_match` does
    Raises UserError for a bot that cannot be started or imported.
    """
    for attempt in range(ATTEMPTS):
        settings = replace(settings, attempt=attempt)
        in_order = _InOrder(settings.blocks, settings.size, settings.block_of, on_block)
        on_game, on_void = in_order.add, in_order.leave_out
        try:
            if play(
                settings, workers, on_game, on_void, in_process=in_process, replay=True
            ).interrupted:
                return True
        except _Enough:
            break
        if not in_order.void:
            break
        settings = replace(settings, part=tuple(settings.games_of(in_order.void)))
    return False


class _InOrder:
    """Combines games that come in any order into blocks in the given order, each in its own order.

    Raises `_Enough` once a block was enough.
    """

    def __init__(
        self,
        blocks: Sequence[int],
        size: int,
        block_of: Callable[[int], int],
        on_block: OnBlock,
    ) -> None:
        self._blocks = iter(blocks)
        self._next = next(self._blocks, None)
        self._size = size
        self._block_of = block_of
        self._on_block = on_block
        self.void: list[int] = []
        """Blocks with a void game."""
        self._games: dict[int, list[tuple[GameResult, GameRecord] | None]] = {}
        """By block; None for a void game."""

    def add(self, result: GameResult, record: GameRecord) -> None:
        self._add(result.game - 1, (result, record))

    def leave_out(self, void: VoidGame) -> None:
        self._add(void.game - 1, None)

    def _add(self, number: int, game: tuple[GameResult, GameRecord] | None) -> None:
        self._games.setdefault(self._block_of(number), []).append(game)
        while self._next is not None and len(self._games.get(self._next, ())) == self._size:
            block, self._next = self._next, next(self._blocks, None)
            games = [game for game in self._games.pop(block) if game is not None]
            games.sort(key=lambda game: game[0].game)  # workers share it
            if len(games) < self._size:
                self.void.append(block)
            elif self._on_block(block, games):
                raise _Enough

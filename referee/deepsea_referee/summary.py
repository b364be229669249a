"""The results of a match: the numbers per bot, and the first faults and void games.

Invariants: the numbers are derived only from the games' results; games are summed and not stored,
so that a match of any length uses the same memory; the order of games does not change the result.
All games are in results.json (results_folder.py). Faults of the same bot are of one kind if their
messages are equal, or if they come from the same place in the author's code; of each kind the first
fault is stored. A time is only counted in a bucket: up to 1,023 us a bucket is one microsecond,
above that it spans at most 1/512 of the time; the slowest time is exact.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from deepsea_referee.bots.output import BotLog, frames
from deepsea_referee.bots.resolve import BotSpec
from deepsea_referee.errors import UserError
from deepsea_referee.pauses import OffTurn
from deepsea_rules.faults import Fault, FaultReport
from deepsea_rules.game import Decision, Forfeit
from deepsea_rules.printable import html_table, one_line
from deepsea_rules.ruleset import DIVES, SEAT_LETTERS, RuleSet
from deepsea_rules.time_control import TimeControl, duration_text
from deepsea_sdk.bot import Note
from deepsea_sdk.table import PlayedGame

EXPLAINED = 10
"""The number of void games that are stored to be explained; the others are only counted."""
MOST_GROUPS = 100
"""The largest number of groups of faults that are distinguished.

Later ones are combined by bot, fault, and stage of the game.
"""
_LONGEST_MESSAGE = 160
"""The largest number of characters of a fault's message in a line."""
_BITS = 10
"""The number of leading binary digits of a time that determine its bucket."""
_EXACT_US = 1 << _BITS
"""Shorter times have a bucket each."""


# Faults, those that are alike counted together


@dataclass(slots=True)
class FaultGroup:
    """Faults of one bot that are alike: of one kind (`Fault`), and with the same cause."""

    bot: int
    game: int
    """The number of the first game with such a fault, from 1."""
    first: FaultReport
    """The first fault of this group in that game."""
    count: int = 0
    forfeits: int = 0

    def line(self, name: str) -> str:
        """Describe the faults in one line: their kind, their number, and where the first one was.

        name  the name of the bot
        """
        first = self.first
        is_absent = first.when == "absent"  # the bot forfeited games in which it could not play
        line = f"{name}: {'forfeited' if is_absent else first.fault}"
        if self.count > 1:
            line += f" ×{self.count}, first"
        line += f" in game {self.game}, seat {SEAT_LETTERS[first.seat]}"
        if first.when == "decision":
            line += f", decision {first.decision}, after {duration_text(first.us)}"
        line += f": {one_line(first.came, _LONGEST_MESSAGE)}"
        if self.forfeits and not is_absent:
            line += "; forfeited"
            if self.forfeits > 1:
                line += f" {self.forfeits} games"
        return line


class FaultGroups:
    """The faults of a match, combined into groups of those that are alike."""

    def __init__(self) -> None:
        self.count = 0
        """The number of faults. Forfeits of a bot that was absent from a game are not faults."""
        self._groups: dict[tuple[object, ...], FaultGroup] = {}

    def add(self, game: int, bot: int, report: FaultReport) -> None:
        """Count one fault of a bot. Games may come in any order, the faults of a game in order.

        game  the number of the game, from 1
        bot   the index of the bot
        """
        if report.when != "absent":  # a bot that could not play in a game has no fault there
            self.count += 1
        # Faults with the same key are counted together.
        key: tuple[object, ...] = (bot, report.fault, report.when, _cause(report))
        if key not in self._groups and len(self._groups) >= MOST_GROUPS:
            key = key[:3]  # from now on without the cause, so that there are few more groups
        group = self._groups.setdefault(key, FaultGroup(bot, game, report))
        if game < group.game:
            group.game = game
            group.first = report
        group.count += 1
        group.forfeits += report.forfeit

    def __iter__(self) -> Iterator[FaultGroup]:
        """Yield the groups in the order in which they first happened."""
        return iter(
            sorted(self._groups.values(), key=lambda group: (group.game, group.first.decision))
        )


def _cause(report: FaultReport) -> object:
    """Return a value that is equal for faults with the same cause, to count them together.

    That is the place in the author's code if the fault has a traceback, else its message. All
    timeouts are alike, since their messages differ in the limit only.
    """
    if report.fault is Fault.TIMEOUT:
        return None
    return frames(report.error) or report.came


# Times of decisions


class LatencyHistogram:
    """Counts the times of many decisions, in microseconds, with little memory."""

    def __init__(self) -> None:
        self._slowest = 0
        self._counts: Counter[int] = Counter()
        """The number of decisions in each bucket, by the middle of the bucket."""

    def add(self, times_us: Iterable[int]) -> None:
        """Count the times of some decisions."""
        times = [*times_us]
        self._slowest = max([self._slowest, *times])
        self._counts.update([us if us < _EXACT_US else _middle(us) for us in times])

    @property
    def count(self) -> int:
        """The number of decisions."""
        return self._counts.total()

    @property
    def slowest_us(self) -> int | None:
        """The slowest time; None if there is no decision."""
        return self._slowest if self._counts else None

    def quantile_us(self, percent: int) -> int | None:
        """Return the shortest time that at least `percent` of the decisions do not exceed.

        For 50 that is the lower median. Return None if there is no decision. A time up to 1,023 us
        is exact; a longer one is off by at most 0.1 %, since it is the middle of its bucket.
        """
        total = self.count
        decisions_so_far = 0
        for us, decisions in self.counts():
            decisions_so_far += decisions
            if 100 * decisions_so_far >= percent * total:
                return us
        return None

    def counts(self) -> list[tuple[int, int]]:
        """Return a sorted list of times with their numbers; a time is the middle of its bucket."""
        # The middle of the last bucket may be longer than the slowest time.
        return [(min(us, self._slowest), count) for us, count in sorted(self._counts.items())]


def _middle(us: int) -> int:
    """Return the middle of the bucket in which a time of at least `_EXACT_US` is counted.

    A bucket has all times with the same first `_BITS` binary digits, so that longer times have
    wider buckets.
    """
    other_digits = us.bit_length() - _BITS
    bucket_start = (us >> other_digits) << other_digits  # the other digits become 0
    bucket_width = 1 << other_digits
    return bucket_start + bucket_width // 2


# Games and matches


@dataclass(frozen=True, slots=True)
class GameResult:
    """The result of a game that counts."""

    game: int
    """The number of the game in the match, from 1."""
    game_id: str
    seats: tuple[int, ...]
    """The index of the bot in each seat."""
    points: tuple[int, ...]
    placements: tuple[int, ...]
    forfeits: tuple[Forfeit, ...]
    faults: tuple[FaultReport, ...]
    drowned: tuple[tuple[int, ...], ...] = ()
    """The number of units that each seat lost at the end of each dive that was played."""
    notes: Mapping[int, Note] = field(default_factory=dict)
    """The notes of bots, by the number of the decision."""

    @classmethod
    def of(cls, number: int, seats: Sequence[int], played: PlayedGame) -> Self:
        """Return the result of a played game.

        number  the number of the game in the match, from 0
        seats   the index of the bot in each seat
        """
        record = played.record
        return cls(
            game=number + 1,
            game_id=record.game_id,
            seats=tuple(seats),
            points=record.points,
            placements=record.placements,
            forfeits=record.forfeits,
            faults=played.faults,
            drowned=played.drowned,
            notes=played.notes,
        )


@dataclass(frozen=True, slots=True)
class VoidGame:
    """A game that does not count, because the referee or the host failed."""

    game: int
    game_id: str
    reason: str
    seat: int | None = None
    """The seat whose bot could not be timed; None for other reasons."""
    out_of_memory: bool = False
    """True if the reason is that this machine had no free memory."""


@dataclass(frozen=True, slots=True)
class BotSummary:
    """The numbers of one bot in a match: a row of the table."""

    name: str
    games: int
    wins: int
    """The number of games in placement 1, shared or alone."""
    mean_placement: float | None
    mean_points: float | None
    drowned: tuple[int, ...]
    """The number of games in which the bot lost units at the end of a dive, for each dive."""
    faults: int
    forfeits: int
    decisions: int
    median_us: int | None
    slowest_us: int | None
    off_turn: float | None
    """The CPU seconds per second that the bot used outside of its turns; None if not measured."""


class VoidGames:
    """The number of void games, and the first `EXPLAINED` of them."""

    def __init__(self) -> None:
        self.count = 0
        self._first: list[VoidGame] = []

    def add(self, void: VoidGame) -> None:
        """Count a void game. Games may come in any order; those with the lowest numbers stay."""
        self.count += 1
        insort(self._first, void, key=lambda void: void.game)
        del self._first[EXPLAINED:]

    def __iter__(self) -> Iterator[VoidGame]:
        return iter(self._first)


class _Tally:
    """The sums of one bot over all games."""

    def __init__(self) -> None:
        self.games = 0
        self.wins = 0
        self.placements = 0
        self.points = 0
        self.drowned = [0] * DIVES
        self.faults = 0
        self.forfeits = 0
        self.times = LatencyHistogram()


@dataclass(slots=True)
class MatchResult:
    """The results of a match, to which games are added."""

    bots: tuple[BotSpec, ...]
    rules: RuleSet
    time_control: TimeControl
    seed: bytes
    games_asked: int
    isolation: str
    """The level of isolation."""
    games: int = 0
    """The number of games that count."""
    first_game: GameResult | None = None
    """The game with the lowest number of all that count; None before the first game."""
    faults: FaultGroups = field(default_factory=FaultGroups)
    voids: VoidGames = field(default_factory=VoidGames)
    logs: list[BotLog] = field(default_factory=list)
    off_turn: list[OffTurn] = field(default_factory=list)
    interrupted: bool = False
    tables: int = 1
    """The largest number of games that were played at the same time over the same streams."""
    late_share: float = 0.0
    """The share of the time in which the referee itself was late.

    It is only measured where the kernel does not report how long processes wait.
    """
    _tallies: list[_Tally] = field(init=False)

    def __post_init__(self) -> None:
        self._tallies = [_Tally() for _ in self.bots]

    def __repr__(self) -> str:
        rows = ", ".join(f"{row.name} {row.wins} won" for row in self.ranked())
        return f"<MatchResult, {self._facts}: {rows}>"

    def _repr_html_(self) -> str:
        """Return the table of the bots as HTML; a notebook calls this to show the result."""
        head = ("bot", "games", "wins", "placement", "points", "drowned in dive 1, 2, 3", "faults")
        rows = []
        for bot in self.ranked():
            # A bot without games has no means.
            placement = "-" if bot.mean_placement is None else f"{bot.mean_placement:.2f}"
            points = "-" if bot.mean_points is None else f"{bot.mean_points:.1f}"
            drowned = ", ".join(map(str, bot.drowned))
            rows.append((bot.name, bot.games, bot.wins, placement, points, drowned, bot.faults))
        return html_table(self._facts, head, rows)

    @property
    def _facts(self) -> str:
        ended = ", interrupted" if self.interrupted else ""
        return f"{self.games} of {self.games_asked} games, {self.rules.name} rules{ended}"

    def add(self, result: GameResult, decisions: Iterable[Decision]) -> None:
        """Add a finished game that counts to the sums of its bots.

        decisions  the game's decisions, whose times are counted
        """
        self.games += 1
        if self.first_game is None or result.game < self.first_game.game:
            self.first_game = result
        self._add_times(result, decisions)
        for seat, bot in enumerate(result.seats):
            tally = self._tallies[bot]
            tally.games += 1
            tally.wins += result.placements[seat] == 1
            tally.placements += result.placements[seat]
            tally.points += result.points[seat]
            for dive, lost_units in enumerate(result.drowned):
                tally.drowned[dive] += lost_units[seat] > 0
        for report in result.faults:
            bot = result.seats[report.seat]
            if report.when != "absent":  # a bot that could not play in a game has no fault there
                self._tallies[bot].faults += 1
            self.faults.add(result.game, bot, report)
        for forfeit in result.forfeits:
            bot = result.seats[forfeit.seat]
            self._tallies[bot].forfeits += 1

    def _add_times(self, result: GameResult, decisions: Iterable[Decision]) -> None:
        """Count the times of a game's decisions, except those that no bot was asked for."""
        not_asked = {report.decision for report in result.faults if report.when != "decision"}
        times_us: list[list[int]] = [[] for _ in result.seats]
        for number, decision in enumerate(decisions):
            if number not in not_asked:
                times_us[decision.seat].append(decision.us)
        for bot, times_of_seat in zip(result.seats, times_us, strict=True):
            self._tallies[bot].times.add(times_of_seat)

    def add_void(self, void: VoidGame) -> None:
        """Add a void game."""
        self.voids.add(void)

    def fault_lines(self) -> list[str]:
        """Return the groups of faults that are alike, each described in one line."""
        return [group.line(self.bots[group.bot].name) for group in self.faults]

    def summaries(self) -> list[BotSummary]:
        """Return the rows of the table, in the order of the bots."""
        return [
            BotSummary(
                name=spec.name,
                games=tally.games,
                wins=tally.wins,
                mean_placement=tally.placements / tally.games if tally.games else None,
                mean_points=tally.points / tally.games if tally.games else None,
                drowned=tuple(tally.drowned),
                faults=tally.faults,
                forfeits=tally.forfeits,
                decisions=tally.times.count,
                median_us=tally.times.quantile_us(50),
                slowest_us=tally.times.slowest_us,
                off_turn=self.off_turn[bot].share if self.off_turn else None,
            )
            for bot, (spec, tally) in enumerate(zip(self.bots, self._tallies, strict=True))
        ]

    def ranked(self) -> list[BotSummary]:
        """Return the rows of the table, the best bot first.

        Bots are sorted by mean placement, then by mean points; bots without games come last.
        """

        def standing(row: BotSummary) -> tuple[bool, float, float]:
            has_no_games = row.games == 0
            return has_no_games, row.mean_placement or 0, -(row.mean_points or 0)

        return sorted(self.summaries(), key=standing)


def record_name(game: int) -> str:
    """Return the name of the file with a game's record; `game` counts from 1."""
    return f"game-{game:04}.json"


class BotHangs(UserError):
    """Raised if a bot in this process does not return from a call; `detail` is its stack."""

    result: MatchResult
    """The result of the match up to then: its complete games."""

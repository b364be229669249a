"""The state of a tournament: the tables that are played next, ranks and winners.

Invariants: pure; the state follows from the plan, the games and when bots left, so that run,
continued run and pages say the same, in whatever order results come. A bot that left stays out,
also if it is enabled again. Bots that are level share their rank; where only one may go on, the
better seed does, and the table says so.

A final: a race that a bot leaves as soon as it is surely not among the best.

Invariants: what is known follows from the rotations of the tournament's season alone, in their
order, so that the page says what the tournament goes by; all that is said of any two bots is right
together with 95 %, however often it is looked at; that a bot is better than another means so in the
company in which both played, which is drawn from all that were left.

A bot's k-th rotation is compared with another's k-th one: by the mean placement score, which in a
rotation does not depend on seats.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, groupby, takewhile
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

from msgspec import Struct

from deepsea_ladder.errors import PairingError
from deepsea_ladder.model import QueuedJob
from deepsea_ladder.pairing import LineUp, RandomStream
from deepsea_ladder.rating import SeatResult
from deepsea_ladder.standings import CONFIDENCE
from deepsea_ladder.tournament import (
    FINAL_GAMES,
    Score,
    elimination,
    gauntlet,
    round_robin,
    scores,
)
from deepsea_referee.workbench.confidence import STEPS, PairSequence

if TYPE_CHECKING:
    from deepsea_ladder.model import BotVersion


TournamentKind = Literal["round-robin", "gauntlet", "elimination", "final"]


class TournamentPlan(Struct, frozen=True, kw_only=True):
    """The games of a tournament, as its season keeps it: the same plan has the same games."""

    kind: TournamentKind
    seats: int
    meetings: int
    bots: tuple[int, ...]
    """Versions, in the order of the seeds."""
    by_runner: bool = False
    """True if the tournament was begun from afar: the ladder's runner plays it."""
    top: int = 0
    """The number of winners of a final."""
    most_games: int = 0
    """The budget of a final in games."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a round of an elimination."""

    bots: tuple[int, ...]
    """The bots in order: the best first, those that left before all games were played last."""
    games: tuple[QueuedJob, ...]
    """Games of the table that have a result."""
    scores: Mapping[int, Score]
    is_over: bool
    winner: int | None = None
    """The bot that advances, once the whole round is over; None also if all bots left."""
    level: tuple[int, ...] = ()
    """The winner and the bots that were level with it, by seed; empty if no bot was."""


class Draw(NamedTuple):
    """Tables of a tournament that are played next, or are being played."""

    round: int
    """The number of the round, from 1; 0 where there are no rounds."""
    tables: int
    bots: int


@dataclass(frozen=True, slots=True)
class TournamentState:
    """The state that follows from the games of a tournament until now."""

    is_over: bool = False
    """True if no game is to be played any more."""
    next: tuple[LineUp, ...] = ()
    """Tables to queue next, each for a rotation, in one or more portions."""
    after: int = 0
    """The number of the last job before the tables in `next`."""
    draw: Draw | None = None
    """The last draw; None before the first one."""
    rounds: tuple[tuple[Table, ...], ...] = ()
    """The rounds of an elimination, with the one to queue."""
    champion: int | None = None
    """The winner of an elimination or a final; None while it is not decided."""
    race: Race | None = None
    """The standing of a final; None for other kinds."""
    ranks: tuple[tuple[int, Score], ...] = ()
    """Bots that played, with their ranks, the best first."""
    winners: tuple[int, ...] = ()
    """The winners if the tournament is over; several share the win."""


def tournament_state(
    plan: TournamentPlan,
    seed: bytes,
    games: Sequence[QueuedJob],
    exits: Mapping[int, int],
    found: Iterable[Score],
    *,
    is_closed: bool = False,
) -> TournamentState:
    """The state of a tournament.

    seed       of the draw
    games      in the order of their numbers; of a round-robin or a gauntlet the results are not
               read, and none of its games if its season `is_closed`
    exits      by bot that left the number of the last job that was queued then
    found      the scores of all games
    """
    match plan.kind:
        case "elimination":
            state = _elimination(plan, games, exits)
        case "final":
            state = _final(plan, seed, games, exits)
        case _:
            state = TournamentState(True) if is_closed else _schedule(plan, seed, games, exits)
    ranks = _ranks(found, state.champion, state.race)
    winners: tuple[int, ...] = ()
    if state.champion is not None:
        winners = (state.champion,)
    elif state.race is not None and state.race.decided:
        winners = tuple(state.race.order()[: len(state.race.left)])
    elif plan.kind in ("round-robin", "gauntlet"):
        winners = tuple(score.bot for rank, score in ranks if rank == 1)
    return replace(state, ranks=ranks, winners=winners)


def _ranks(
    found: Iterable[Score], champion: int | None, race: Race | None
) -> tuple[tuple[int, Score], ...]:
    """Ranks: the champion first, then in a final those that were out last, then by scores."""
    places = {} if race is None else race.places()

    def key(score: Score) -> Any:
        return score.bot != champion, places.get(score.bot, ()), score.standing

    ranks: list[tuple[int, Score]] = []
    ordered = sorted(found, key=lambda score: (key(score), score.bot))
    for _, level in groupby(ordered, key=key):
        rank = len(ranks) + 1
        ranks += [(rank, score) for score in level]
    return tuple(ranks)


def _schedule(
    plan: TournamentPlan,
    seed: bytes,
    games: Sequence[QueuedJob],
    exits: Mapping[int, int],
) -> TournamentState:
    """The games of a round-robin or a gauntlet are queued all at once.

    As long as a game is open the tables are not drawn: a run that was killed while it queued them
    goes on with them later.
    """
    if any(game.is_open for game in games):
        return TournamentState(False)
    bots = [bot for bot in plan.bots if not _is_gone(bot, exits, 0)]
    tables: list[LineUp] = []
    if plan.kind == "round-robin" and len(bots) >= plan.seats:
        tables = round_robin(bots, plan.seats, seed, plan.meetings)
    elif bots[:1] == [plan.bots[0]] and len(bots) >= plan.seats:
        tables = gauntlet(bots[0], bots[1:], plan.seats, seed, plan.meetings)
    tables = _not_queued(tables, games, exits)
    return TournamentState(not tables, tuple(tables), games[-1].number if games else 0)


def _not_queued(
    tables: Sequence[LineUp], games: Sequence[QueuedJob], exits: Collection[int]
) -> list[LineUp]:
    """The tables that are still to be queued after some games, in their order.

    Tables of bots that had left were passed over, and are.
    """
    coming = iter(tables)
    for _, rotation in groupby(games, key=attrgetter("rotation")):
        bots = {*next(rotation).lineup}
        next((table for table in coming if bots == {*table.bots}), None)
    return [table for table in coming if not any(bot in exits for bot in table.bots)]


def _elimination(
    plan: TournamentPlan, games: Sequence[QueuedJob], exits: Mapping[int, int]
) -> TournamentState:
    entrants: Sequence[int] = plan.bots
    rounds: list[tuple[Table, ...]] = []
    after = played = 0
    draw = None
    while True:
        present = [bot for bot in entrants if not _is_gone(bot, exits, after)]
        if rounds and entrants and not present:
            # As if each exit had been looked at by itself: the last one had nobody left to beat. Or
            # it is the winner of the last table, which left after it.
            present = [max(entrants, key=[*exits].index)]
        if len(present) < 2:
            champion = present[0] if present else None
            return TournamentState(True, (), after, draw, tuple(rounds), champion)
        tables, byes = elimination(present, plan.seats)
        draw = Draw(len(rounds) + 1, len(tables), len(present))
        ours = _of_tables(tables, games[played:])
        if not ours and played < len(games):
            raise PairingError("its games are not those of its plan")
        last = ours[-1].number if ours else after
        played += len(ours)
        found = [_table(plan, table, ours, exits, last) for table in tables]
        is_over = bool(ours) and all(table.is_over for table in found)
        if is_over:
            rounds.append(tuple(found))
            going = {table.winner for table in found} | byes
            entrants = [bot for bot in present if bot in going]
            after = last
            continue
        rounds.append(tuple(replace(table, winner=None, level=()) for table in found))
        drawn = chain.from_iterable([table] * plan.meetings for table in tables)
        queue = _not_queued([*drawn], ours, exits)
        return TournamentState(False, tuple(queue), last, draw, tuple(rounds))


def _of_tables(tables: Iterable[LineUp], games: Iterable[QueuedJob]) -> list[QueuedJob]:
    """The first games, as far as they are of these tables: no later round has the same ones."""
    drawn = {frozenset(table.bots) for table in tables}
    return list(takewhile(lambda game: frozenset(game.lineup) in drawn, games))


def _table(
    plan: TournamentPlan,
    table: LineUp,
    games: Sequence[QueuedJob],
    exits: Mapping[int, int],
    last: int,
) -> Table:
    """A table whose round ends with job `last`."""
    ours = [game for game in games if frozenset(game.lineup) == frozenset(table.bots)]
    played = tuple(game for game in ours if game.seats)
    is_complete = len(played) >= len(table.bots) * plan.meetings
    left = {bot for bot in table.bots if not is_complete and _is_gone(bot, exits, last)}
    found = {score.bot: score for score in scores(game.seats for game in played)}

    def key(bot: int) -> Any:
        return bot in left, found[bot].standing if bot in found else ()

    order = sorted(table.bots, key=lambda bot: (key(bot), plan.bots.index(bot)))
    is_over = is_complete or bool(left and not any(game.is_open for game in ours))
    winner = None if order[0] in left else order[0]
    first = [bot for bot in order if key(bot) == key(order[0])]
    level = tuple(first) if winner is not None and len(first) > 1 else ()
    return Table(tuple(order), played, found, is_over, winner, level)


def _final(
    plan: TournamentPlan,
    seed: bytes,
    games: Sequence[QueuedJob],
    exits: Mapping[int, int],
) -> TournamentState:
    race = Race(plan.bots, plan.top)
    rotations = [list(group) for _, group in groupby(games, key=lambda game: game.rotation)]
    after = number = bots = played = 0
    draw = None
    while True:
        race.take_out([bot for bot in plan.bots if _is_gone(bot, exits, after)])
        tables = () if race.is_over else race.tables(plan.seats, seed, plan.most_games - race.games)
        if not tables:
            is_over = played >= len(rotations)
            return TournamentState(is_over, (), after, draw, champion=race.champion, race=race)
        if bots != len(race.left):
            number, bots = number + 1, len(race.left)
        draw = Draw(number, len(tables), bots)
        ours = rotations[played : played + len(tables)]
        if not ours:
            return TournamentState(False, tuple(tables), after, draw, race=race)
        played += len(ours)
        after = ours[-1][-1].number
        # Before their games count: else they might take the last others with them.
        race.take_out([bot for bot in plan.bots if _is_gone(bot, exits, after)])
        for rotation in ours:
            if any(game.is_open for game in rotation):
                return TournamentState(False, (), after, draw, champion=race.champion, race=race)
            if len(found := [game.seats for game in rotation if game.seats]) == len(
                rotation[0].lineup
            ):
                race.add(found)


def _is_gone(bot: int, exits: Mapping[int, int], last: int) -> bool:
    """True if a bot left before any job after `last` was queued."""
    return bot in exits and exits[bot] <= last


_AT_ONCE = 60
"""About how many games are queued before it is looked at who leaves: workers should not wait."""


_Bot = TypeVar("_Bot")


@dataclass(frozen=True, slots=True)
class Leaver(Generic[_Bot]):
    """A bot that left a final, by the number of its version, or by its name."""

    bot: _Bot
    after_games: int
    """The games of the final until then."""
    behind: _Bot | None = None
    """A bot that is surely better, of several the one that is furthest ahead; None if it was
    taken out."""
    lead: float | None = None
    """By how much that one was ahead then, in placement score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalReport:
    """The state of a final."""

    top: int
    """The number of winners."""
    most_games: int
    confidence: float
    decided: bool
    """True if these are the winners; else they may be among them."""
    winners: tuple[str, ...]
    """The best first."""
    left: tuple[Leaver[str], ...]
    """The bots that left, in this order."""


class _Pair(PairSequence):
    """The evidence for the better of two bots: bets of PairSequence against no difference alone."""

    def __init__(self, alpha: float) -> None:
        super().__init__(alpha)
        self._first = self._last = STEPS // 2
        self.better = 0
        """1: the first, -1: the second, for good; 0: open."""

    def compare(self, value: float) -> None:
        """Add by how much the first one was ahead."""
        self.add(value)
        if not self.better:
            larger, smaller = self._larger[self._first], self._smaller[self._first]
            self.better = (larger >= self._limit) - (smaller >= self._limit)


class Race:
    """The bots that may still be among the best `top` of some."""

    def __init__(self, bots: Collection[int], top: int) -> None:
        share = (1 - CONFIDENCE) / max(1, len(bots) * (len(bots) - 1) // 2)
        self._pairs = {pair: _Pair(share) for pair in combinations(bots, 2)}
        self._rotations: dict[int, list[float]] = {bot: [] for bot in bots}
        self._better: dict[int, set[int]] = {bot: set() for bot in bots}
        """By bot those that are surely better."""
        self.top = top
        self.left = list(bots)
        self.gone: list[Leaver[int]] = []
        self.games = 0

    @property
    def decided(self) -> bool:
        return 0 < len(self.left) <= self.top

    @property
    def is_over(self) -> bool:
        """True if the final is decided, or nobody is left."""
        return len(self.left) <= self.top

    @property
    def champion(self) -> int | None:
        """The winner, if one was wanted and is known."""
        return self.left[0] if self.top == 1 and len(self.left) == 1 else None

    def add(self, games: Sequence[Sequence[SeatResult]]) -> None:
        """Count a rotation: the games of a table, with every bot once in every seat."""
        self.games += len(games)
        for score in scores(games):
            self._rotations[score.bot].append(score.share)
        for a, b in combinations(self.left, 2):
            pair = self._pairs[a, b]
            if pair.count < min(len(self._rotations[a]), len(self._rotations[b])):
                pair.compare(self._rotations[a][pair.count] - self._rotations[b][pair.count])
                if pair.better:
                    self._better[b if pair.better > 0 else a].add(a if pair.better > 0 else b)
        for bot in [bot for bot in self.left if len(self._better[bot]) >= self.top]:
            if not self.decided:
                lead, best = max((self._lead(other, bot), other) for other in self._better[bot])
                self._leave(Leaver(bot, self.games, best, lead))

    def take_out(self, bots: Collection[int]) -> None:
        """Let bots leave that were taken out."""
        for bot in [bot for bot in self.left if bot in bots]:
            self._leave(Leaver(bot, self.games))

    def _leave(self, leaver: Leaver[int]) -> None:
        self.left.remove(leaver.bot)
        self.gone.append(leaver)

    def _lead(self, bot: int, other: int) -> float:
        pair = self._pairs.get((bot, other))
        return -self._pairs[other, bot].mean if pair is None else pair.mean

    def places(self) -> dict[int, tuple[bool, float]]:
        """The sort key of each bot: those that are left by their scores, then who left last."""
        places: dict[int, tuple[bool, float]] = {}
        for bot in self.left:
            means = self._rotations[bot]
            places[bot] = False, -sum(means) / len(means) if means else 0.0
        places |= {one.bot: (True, -number) for number, one in enumerate(self.gone)}
        return places

    def order(self) -> list[int]:
        """The bots, the best first."""
        places = self.places()
        return sorted(places, key=places.__getitem__)

    def tables(self, seats: int, seed: bytes, most: int = FINAL_GAMES) -> list[LineUp]:
        """The next tables, drawn from all that are left: each bot at one or more in each round.

        most  the games that they may have together
        """
        players = min(seats, len(self.left))
        count = -(-len(self.left) // players)
        tables = []
        for number in range(max(1, round(_AT_ONCE / (count * players)))):
            circle = RandomStream(seed, f"final {self.games} {number}").shuffled(self.left)
            # Who begins the circle also fills its last table.
            circle += circle[: count * players - len(circle)]
            tables += [
                LineUp(tuple(circle[at : at + players])) for at in range(0, len(circle), players)
            ]
        return tables[: most // players]


def final_report(race: Race, most_games: int, versions: Mapping[int, BotVersion]) -> FinalReport:
    """The race as people read it."""
    return FinalReport(
        top=race.top,
        most_games=most_games,
        confidence=CONFIDENCE,
        decided=race.decided,
        winners=tuple(versions[bot].bot for bot in race.order()[: len(race.left)]),
        left=tuple(
            Leaver(
                versions[one.bot].bot,
                one.after_games,
                None if one.behind is None else versions[one.behind].bot,
                one.lead,
            )
            for one in race.gone
        ),
    )

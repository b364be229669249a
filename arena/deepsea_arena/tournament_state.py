"""The state of a tournament: the tables that are played next, the ranks and the winners.

Start reading at `tournament_state`. `Race` is the evidence of a final, which a bot leaves as soon
as it is surely not among the best.

Invariants: pure; the state follows from the plan, the games and when bots left, so that the run, a
continued run and the pages agree, whatever the order of the results; a bot that left stays out,
even if it is enabled again; bots that are level share their rank; where only one can go on, the
better seed does, and the table says so.

Of a final, what is known follows from its rotations in their order. All statements about two bots
are right together with 95 %, however often one looks. That a bot is better than another means so in
the company in which both played, which is drawn from all that were left. The k-th rotation of a bot
is compared with the k-th one of the other by the mean placement score, which does not depend on
seats in a rotation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, groupby, takewhile
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
    """Ids of versions, in the order of their seeds."""
    by_runner: bool = False
    """True if the tournament was begun from afar: the ladder's runner plays it."""
    top: int = 0
    """Number of winners of a final."""
    most_games: int = 0
    """The budget of a final in games."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a round of an elimination."""

    bots: tuple[int, ...]
    """The bots, the best first. Bots that left before all games were played come last."""
    games: tuple[QueuedJob, ...]
    """Games of the table that have a result."""
    scores: Mapping[int, Score]
    is_over: bool
    winner: int | None = None
    """The bot that advances; None before the whole round is over, and if all bots left."""
    level: tuple[int, ...] = ()
    """The winner and the bots that were level with it, by seed; empty if no bot was."""


class Draw(NamedTuple):
    """Tables of a tournament that are played next, or are being played."""

    round: int
    """The number of the round, from 1."""
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
    """Number of the last job before those of the tables in `next`."""
    draw: Draw | None = None
    """The last draw; None before the first one."""
    rounds: tuple[tuple[Table, ...], ...] = ()
    """The rounds of an elimination, with the one whose tables are queued next."""
    champion: int | None = None
    """The winner of an elimination or a final; None while it is not decided."""
    race: Race | None = None
    """The standing of a final; None for other kinds."""
    ranks: tuple[tuple[int, Score], ...] = ()
    """The rank and the score of each bot that played, the best first."""
    winners: tuple[int, ...] = ()
    """The winners once they are known; several share the win."""


def tournament_state(
    plan: TournamentPlan,
    seed: bytes,
    games: Sequence[QueuedJob],
    exits: Mapping[int, int],
    bot_scores: Iterable[Score],
    *,
    is_closed: bool = False,
) -> TournamentState:
    """Return the state of a tournament.

    seed        the seed of its draws
    games       its jobs, in the order of their numbers; for a round-robin or a gauntlet the results
                are not read, and there may be none if the season `is_closed`
    exits       for each bot that left, the number of the last job that was queued before
    bot_scores  the scores of bots in all games
    """
    match plan.kind:
        case "elimination":
            state = _elimination(plan, games, exits)
        case "final":
            state = _final(plan, seed, games, exits)
        case _:
            state = (
                TournamentState(is_over=True) if is_closed else _schedule(plan, seed, games, exits)
            )
    ranks = _ranks(bot_scores, state.champion, state.race)
    winners: tuple[int, ...] = ()
    if state.champion is not None:
        winners = (state.champion,)
    elif state.race is not None and state.race.decided:
        winners = tuple(state.race.order()[: len(state.race.left)])
    elif plan.kind in ("round-robin", "gauntlet"):
        winners = tuple(score.bot for rank, score in ranks if rank == 1)
    return replace(state, ranks=ranks, winners=winners)


def _ranks(
    bot_scores: Iterable[Score], champion: int | None, race: Race | None
) -> tuple[tuple[int, Score], ...]:
    """Return ranks with scores, the best first; bots that are level share a rank.

    The champion comes first. In a final the bots that are left follow, and then those that left
    last. Other bots are ordered by their scores.
    """
    race_keys = {} if race is None else race.sort_keys()

    def sort_key(score: Score) -> Any:
        return score.bot != champion, race_keys.get(score.bot, ()), score.standing

    ranks: list[tuple[int, Score]] = []
    # Of level bots the one with the smaller id comes first, so that the order is always the same.
    ordered = sorted(bot_scores, key=lambda score: (sort_key(score), score.bot))
    for _, level_scores in groupby(ordered, key=sort_key):
        rank = len(ranks) + 1
        ranks += [(rank, score) for score in level_scores]
    return tuple(ranks)


def _schedule(
    plan: TournamentPlan,
    seed: bytes,
    games: Sequence[QueuedJob],
    exits: Mapping[int, int],
) -> TournamentState:
    """Return the state of a round-robin or a gauntlet, whose games are all queued at once.

    While a game is open no tables are drawn. A run that was killed while it queued them queues the
    others when these games are over.
    """
    if any(game.is_open for game in games):
        return TournamentState(is_over=False)
    # Bots that left before the first job take no part; the others are in the draw.
    bots = [bot for bot in plan.bots if not _has_left(bot, exits, 0)]
    tables: list[LineUp] = []
    if plan.kind == "round-robin" and len(bots) >= plan.seats:
        tables = round_robin(bots, plan.seats, seed, plan.meetings)
    elif bots[:1] == [plan.bots[0]] and len(bots) >= plan.seats:
        tables = gauntlet(bots[0], bots[1:], plan.seats, seed, plan.meetings)
    tables = _not_queued(tables, games, exits)
    last_number = games[-1].number if games else 0
    return TournamentState(is_over=not tables, next=tuple(tables), after=last_number)


def _not_queued(
    tables: Sequence[LineUp], games: Sequence[QueuedJob], exits: Collection[int]
) -> list[LineUp]:
    """Return the tables that are still to be queued after these games, in their order.

    Tables with a bot that had left were passed over when the games were queued, and are left out
    now.
    """
    remaining = iter(tables)
    for _, rotation in groupby(games, key=attrgetter("rotation")):
        queued_bots = {*next(rotation).lineup}
        for table in remaining:  # up to the queued one; those before it were passed over
            if {*table.bots} == queued_bots:
                break
    return [table for table in remaining if not any(bot in exits for bot in table.bots)]


def _elimination(
    plan: TournamentPlan, games: Sequence[QueuedJob], exits: Mapping[int, int]
) -> TournamentState:
    """Return the state of an elimination, from its games round by round.

    The bots that are present at the beginning of a round are seeded to tables. The winners, and
    bots without a table, go on to the next round.
    """
    entrants: Sequence[int] = plan.bots
    rounds: list[tuple[Table, ...]] = []
    after = played = 0
    draw = None
    while True:
        present = [bot for bot in entrants if not _has_left(bot, exits, after)]
        if rounds and entrants and not present:
            # All have left. The champion is the bot that left last: nobody was left to beat it.
            # `exits` has the bots in the order in which they left.
            present = [max(entrants, key=[*exits].index)]
        if len(present) < 2:
            champion = present[0] if present else None
            return TournamentState(
                is_over=True, after=after, draw=draw, rounds=tuple(rounds), champion=champion
            )
        tables, byes = elimination(present, plan.seats)
        draw = Draw(len(rounds) + 1, len(tables), len(present))
        round_games = _games_of_tables(tables, games[played:])
        if not round_games and played < len(games):
            raise PairingError("its games are not those of its plan")
        last_number = round_games[-1].number if round_games else after
        played += len(round_games)
        round_tables = [
            _round_table(plan, table, round_games, exits, last_number) for table in tables
        ]
        if round_games and all(table.is_over for table in round_tables):
            rounds.append(tuple(round_tables))
            advancing = {table.winner for table in round_tables} | byes
            entrants = [bot for bot in present if bot in advancing]
            after = last_number
            continue
        # Nobody advances before the whole round is over.
        rounds.append(tuple(replace(table, winner=None, level=()) for table in round_tables))
        all_meetings = [table for table in tables for _ in range(plan.meetings)]
        return TournamentState(
            is_over=False,
            next=tuple(_not_queued(all_meetings, round_games, exits)),
            after=last_number,
            draw=draw,
            rounds=tuple(rounds),
        )


def _games_of_tables(tables: Iterable[LineUp], games: Iterable[QueuedJob]) -> list[QueuedJob]:
    """Return the games up to the first one that is of none of these tables.

    These are the games of a round, since no later round has the same tables.
    """
    drawn = {frozenset(table.bots) for table in tables}
    return list(takewhile(lambda game: frozenset(game.lineup) in drawn, games))


def _round_table(
    plan: TournamentPlan,
    table: LineUp,
    games: Sequence[QueuedJob],
    exits: Mapping[int, int],
    last: int,
) -> Table:
    """Return a table of an elimination, with its order, its winner and the bots that are level.

    games  the games of the round
    last   the number of the last job of the round; a bot that left by then has left the table,
           unless all games of the table were played
    """
    table_games = [game for game in games if frozenset(game.lineup) == frozenset(table.bots)]
    played = tuple(game for game in table_games if game.seats)
    is_complete = len(played) >= len(table.bots) * plan.meetings
    leavers = {bot for bot in table.bots if not is_complete and _has_left(bot, exits, last)}
    bot_scores = {score.bot: score for score in scores(game.seats for game in played)}

    def result_key(bot: int) -> Any:
        return bot in leavers, bot_scores[bot].standing if bot in bot_scores else ()

    def sort_key(bot: int) -> Any:
        return result_key(bot), plan.bots.index(bot)  # of level bots the better seed first

    order = sorted(table.bots, key=sort_key)
    has_open_game = any(game.is_open for game in table_games)
    is_over = is_complete or (bool(leavers) and not has_open_game)
    winner = None if order[0] in leavers else order[0]
    best = [bot for bot in order if result_key(bot) == result_key(order[0])]
    level = tuple(best) if winner is not None and len(best) > 1 else ()
    return Table(tuple(order), played, bot_scores, is_over, winner, level)


def _final(
    plan: TournamentPlan,
    seed: bytes,
    games: Sequence[QueuedJob],
    exits: Mapping[int, int],
) -> TournamentState:
    """Return the state of a final, from its rotations in their order.

    Tables are drawn in portions from the bots that are left; bots that left are taken out before
    and after each portion. A rotation counts only if all of its games have a result.
    """
    race = Race(plan.bots, plan.top)
    rotations = [list(group) for _, group in groupby(games, key=lambda game: game.rotation)]
    after = round_number = bot_count = played_rotations = 0
    draw = None
    while True:
        race.take_out([bot for bot in plan.bots if _has_left(bot, exits, after)])
        tables: Sequence[LineUp] = ()
        if not race.is_over:
            tables = race.tables(plan.seats, seed, plan.most_games - race.games)
        if not tables:
            is_over = played_rotations >= len(rotations)
            return TournamentState(is_over, (), after, draw, champion=race.champion, race=race)
        if bot_count != len(race.left):  # a round has the same bots
            round_number += 1
            bot_count = len(race.left)
        draw = Draw(round_number, len(tables), bot_count)
        portion = rotations[played_rotations : played_rotations + len(tables)]
        if not portion:
            return TournamentState(False, tuple(tables), after, draw, race=race)
        played_rotations += len(portion)
        after = portion[-1][-1].number
        # Before the games count: otherwise a bot that left might still beat the last others.
        race.take_out([bot for bot in plan.bots if _has_left(bot, exits, after)])
        for rotation in portion:
            if any(game.is_open for game in rotation):
                return TournamentState(False, (), after, draw, champion=race.champion, race=race)
            results = [game.seats for game in rotation if game.seats]
            if len(results) == len(rotation[0].lineup):
                race.add(results)


def _has_left(bot: int, exits: Mapping[int, int], last: int) -> bool:
    """Return True if a bot left before the job after `last` was queued.

    `exits` has, for each bot that left, the number of the last job that was queued before.
    """
    return bot in exits and exits[bot] <= last


# ------------------------------------------------------------------------------------------ finals

_GAMES_AT_ONCE = 60
"""Number of games, about, in a portion of a final. It is large, so that workers do not wait."""


_Bot = TypeVar("_Bot")


@dataclass(frozen=True, slots=True)
class Leaver(Generic[_Bot]):
    """A bot that left a final, as the id of its version, or by its name."""

    bot: _Bot
    after_games: int
    """Number of games of the final before it left."""
    behind: _Bot | None = None
    """The bot that is surely better, and furthest ahead of it; None if it was taken out."""
    lead: float | None = None
    """Placement score by which that bot was ahead; None if the leaver was taken out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalReport:
    """The state of a final."""

    top: int
    """Number of winners."""
    most_games: int
    """The budget of the final in games."""
    confidence: float
    """The confidence with which all bots that left by their results are not among the best."""
    decided: bool
    """True if `winners` are the winners; otherwise these are among them."""
    winners: tuple[str, ...]
    """The bots that can still win, the best first."""
    left: tuple[Leaver[str], ...]
    """The bots that left, in the order in which they did."""


class _Pair(PairSequence):
    """The evidence for which of two bots is better.

    It uses the bets of `PairSequence` against one hypothesis alone, that there is no difference.
    """

    def __init__(self, alpha: float) -> None:
        super().__init__(alpha)
        # The grid of hypotheses reaches from -1 to 1, so that its middle is no difference.
        self._first = self._last = STEPS // 2
        self.better = 0
        """1 if the first bot is surely better, -1 if the second is; 0 while that is open."""

    def compare(self, lead: float) -> None:
        """Add an observation: the placement score by which the first bot was ahead."""
        self.add(lead)
        if not self.better:
            is_first_better = self._larger[self._first] >= self._limit
            is_second_better = self._smaller[self._first] >= self._limit
            self.better = is_first_better - is_second_better


class Race:
    """The bots of a final that may still be among the best `top`, and the evidence for it."""

    def __init__(self, bots: Collection[int], top: int) -> None:
        """Begin a race of these bots, of which `top` win."""
        # Bonferroni: the pairs share the probability of an error.
        pair_count = max(1, len(bots) * (len(bots) - 1) // 2)
        alpha = (1 - CONFIDENCE) / pair_count
        self._pairs = {pair: _Pair(alpha) for pair in combinations(bots, 2)}
        self._rotations: dict[int, list[float]] = {bot: [] for bot in bots}
        """Each bot's placement score in each of its rotations."""
        self._better: dict[int, set[int]] = {bot: set() for bot in bots}
        """The bots that are surely better than each bot."""
        self.top = top
        self.left = list(bots)
        """The bots that may still win."""
        self.leavers: list[Leaver[int]] = []
        """The bots that left, in the order in which they did."""
        self.games = 0

    @property
    def decided(self) -> bool:
        """True if the bots that are left are the winners."""
        return 0 < len(self.left) <= self.top

    @property
    def is_over(self) -> bool:
        """True if the final is decided, or nobody is left."""
        return len(self.left) <= self.top

    @property
    def champion(self) -> int | None:
        """The winner, if there is one winner and it is known; else None."""
        return self.left[0] if self.top == 1 and len(self.left) == 1 else None

    def add(self, games: Sequence[Sequence[SeatResult]]) -> None:
        """Count a rotation: the games of a table, with every bot once in every seat.

        Then bots leave that are surely worse than `top` others, until the final is decided.
        """
        self.games += len(games)
        for score in scores(games):
            self._rotations[score.bot].append(score.share)
        for a, b in combinations(self.left, 2):
            pair = self._pairs[a, b]
            # The k-th rotation of a bot is compared with the k-th one of the other.
            if pair.count < min(len(self._rotations[a]), len(self._rotations[b])):
                pair.compare(self._rotations[a][pair.count] - self._rotations[b][pair.count])
                if pair.better > 0:
                    self._better[b].add(a)
                elif pair.better < 0:
                    self._better[a].add(b)
        beaten = [bot for bot in self.left if len(self._better[bot]) >= self.top]
        for bot in beaten:
            if not self.decided:
                lead, best = max((self._lead(other, bot), other) for other in self._better[bot])
                self._leave(Leaver(bot, self.games, best, lead))

    def take_out(self, bots: Collection[int]) -> None:
        """Let the bots leave that were taken out of the ladder."""
        for bot in [bot for bot in self.left if bot in bots]:
            self._leave(Leaver(bot, self.games))

    def _leave(self, leaver: Leaver[int]) -> None:
        """Move a bot from those that are left to those that left."""
        self.left.remove(leaver.bot)
        self.leavers.append(leaver)

    def _lead(self, bot: int, other: int) -> float:
        """Return the placement score by which a bot is ahead of another one; below 0 if behind."""
        if (bot, other) in self._pairs:
            return self._pairs[bot, other].mean
        return -self._pairs[other, bot].mean

    def sort_keys(self) -> dict[int, tuple[bool, float]]:
        """Return a key for each bot, by which the best sorts first.

        Bots that are left come first, by their mean scores; then the bots that left, the last one
        first.
        """
        keys: dict[int, tuple[bool, float]] = {}
        for bot in self.left:
            rotation_scores = self._rotations[bot]
            mean = sum(rotation_scores) / len(rotation_scores) if rotation_scores else 0.0
            keys[bot] = False, -mean
        for number, leaver in enumerate(self.leavers):
            keys[leaver.bot] = True, -number
        return keys

    def order(self) -> list[int]:
        """Return all bots, the best first."""
        keys = self.sort_keys()
        return sorted(keys, key=lambda bot: keys[bot])

    def tables(self, seats: int, seed: bytes, most_games: int = FINAL_GAMES) -> list[LineUp]:
        """Return the next portion of tables, drawn from all bots that are left.

        In each round every bot sits at one table or more. The tables have at most `most_games`
        games together.
        """
        players = min(seats, len(self.left))
        tables_per_round = -(-len(self.left) // players)  # rounded up
        tables = []
        for round_number in range(max(1, round(_GAMES_AT_ONCE / (tables_per_round * players)))):
            circle = RandomStream(seed, f"final {self.games} {round_number}").shuffled(self.left)
            # The first bots of the circle also fill its last table.
            circle += circle[: tables_per_round * players - len(circle)]
            tables += [
                LineUp(tuple(circle[first : first + players]))
                for first in range(0, len(circle), players)
            ]
        # The rotation of a table has a game for each seat.
        return tables[: most_games // players]


def final_report(race: Race, most_games: int, versions: Mapping[int, BotVersion]) -> FinalReport:
    """Return the state of a final, with the names of bots."""
    return FinalReport(
        top=race.top,
        most_games=most_games,
        confidence=CONFIDENCE,
        decided=race.decided,
        winners=tuple(versions[bot].bot for bot in race.order()[: len(race.left)]),
        left=tuple(
            Leaver(
                versions[leaver.bot].bot,
                leaver.after_games,
                None if leaver.behind is None else versions[leaver.behind].bot,
                leaver.lead,
            )
            for leaver in race.leavers
        ),
    )

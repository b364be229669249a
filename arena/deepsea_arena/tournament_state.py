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
from math import ceil
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

    version_ids: tuple[int, ...]
    """The ids of its bots' versions, the best first.

    Bots that left before all games were played come last.
    """
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
                TournamentState(is_over=True)
                if is_closed
                else _single_draw(plan, seed, games, exits)
            )
    ranks = _ranks(bot_scores, state.champion, state.race)
    winners: tuple[int, ...] = ()
    if state.champion is not None:
        winners = (state.champion,)
    elif state.race is not None and state.race.decided:
        winners = tuple(state.race.order()[: len(state.race.left)])
    elif plan.kind in ("round-robin", "gauntlet"):
        winners = tuple(score.version_id for rank, score in ranks if rank == 1)
    return replace(state, ranks=ranks, winners=winners)


def _ranks(
    bot_scores: Iterable[Score], champion: int | None, race: Race | None
) -> tuple[tuple[int, Score], ...]:
    """Return the rank and the score of each bot, the best first; equal bots share a rank.

    The champion is first. The others are ordered by their scores; in a final, whose `race` is
    passed, those that can still win come before those that left, and of these the last one is best.
    """
    race_keys = {} if race is None else race.sort_keys()

    def rank_key(score: Score) -> Any:
        is_no_champion = score.version_id != champion  # False sorts before True
        return is_no_champion, race_keys.get(score.version_id, ()), score.standing

    # Of equal bots the one with the smaller id comes first, so that the order is always the same.
    best_first = sorted(bot_scores, key=lambda score: (rank_key(score), score.version_id))
    ranks: list[tuple[int, Score]] = []
    for _, equal_scores in groupby(best_first, key=rank_key):
        shared_rank = len(ranks) + 1
        ranks += [(shared_rank, score) for score in equal_scores]
    return tuple(ranks)


def _single_draw(
    plan: TournamentPlan,
    seed: bytes,
    games: Sequence[QueuedJob],
    exits: Mapping[int, int],
) -> TournamentState:
    """Return the state of a round-robin or a gauntlet, whose tables are all drawn at the beginning.

    seed   the seed of the draw
    games  the games that were queued so far
    exits  for each bot that left, the number of the last job that was queued before

    The tournament is over when no game is open and no table remains to be queued. A table remains
    if the run was killed while it queued them.
    """
    if any(game.is_open for game in games):
        return TournamentState(is_over=False)
    tables = _not_queued(_all_tables(plan, seed, exits), games, exits)
    last_number = games[-1].number if games else 0
    return TournamentState(is_over=not tables, next=tuple(tables), after=last_number)


def _all_tables(plan: TournamentPlan, seed: bytes, exits: Mapping[int, int]) -> list[LineUp]:
    """Return all tables of a round-robin or a gauntlet, without bots that left before the draw."""
    bots = [bot for bot in plan.bots if not _has_left(bot, exits, last=0)]
    if len(bots) < plan.seats:
        return []
    if plan.kind == "round-robin":
        return round_robin(bots, plan.seats, seed, plan.meetings)
    # A gauntlet without its first bot has no games.
    challenger = plan.bots[0]
    if challenger not in bots:
        return []
    return gauntlet(challenger, bots[1:], plan.seats, seed, plan.meetings)


def _not_queued(
    tables: Sequence[LineUp], games: Sequence[QueuedJob], exits: Collection[int]
) -> list[LineUp]:
    """Return the tables whose games still have to be queued, in their order.

    tables  all tables, in the order in which their games are queued
    games   the games that were queued so far
    exits   the bots that left; their tables get no games
    """
    next_index = 0  # of the first table that was neither queued nor skipped
    for _, rotation in groupby(games, key=attrgetter("rotation")):
        queued_bots = {*next(rotation).lineup}  # all games of a rotation have the same bots
        # Tables before that of this rotation were skipped, since one of their bots had left.
        while next_index < len(tables) and {*tables[next_index].version_ids} != queued_bots:
            next_index += 1
        next_index += 1
    left_bots = set(exits)
    return [table for table in tables[next_index:] if left_bots.isdisjoint(table.version_ids)]


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
    """Return the first of the games, as long as they are played at one of these tables.

    With the tables of a round these are the games of that round, since no later round has the same
    tables.
    """
    line_ups = {frozenset(table.version_ids) for table in tables}
    return list(takewhile(lambda game: frozenset(game.lineup) in line_ups, games))


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
    table_games = [game for game in games if frozenset(game.lineup) == frozenset(table.version_ids)]
    played = tuple(game for game in table_games if game.seats)
    is_complete = len(played) >= len(table.version_ids) * plan.meetings
    leavers = {bot for bot in table.version_ids if not is_complete and _has_left(bot, exits, last)}
    bot_scores = {score.version_id: score for score in scores(game.seats for game in played)}

    def result_key(bot: int) -> Any:
        return bot in leavers, bot_scores[bot].standing if bot in bot_scores else ()

    def sort_key(bot: int) -> Any:
        return result_key(bot), plan.bots.index(bot)  # of level bots the better seed first

    order = sorted(table.version_ids, key=sort_key)
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
        self._lowest = self._highest = STEPS // 2
        self.better = 0
        """1 if the first bot is surely better, -1 if the second is; 0 while that is open."""

    def compare(self, lead: float) -> None:
        """Add an observation: the placement score by which the first bot was ahead.

        Once one of the bots is surely better, that verdict stays.
        """
        self.add(lead)
        if self.better:
            return
        # Of two gamblers, one bets that the first bot is better, the other that the second one is.
        # If the bots were equally good, hardly any gambler's capital would ever reach `_limit`.
        if self._capital_on_larger[self._lowest] >= self._limit:
            self.better = 1
        elif self._capital_on_smaller[self._lowest] >= self._limit:
            self.better = -1


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
        """Count the games of a rotation, and let the bots leave that can no longer win.

        A bot leaves once `top` others are surely better, unless the final is decided: then the bots
        that are left are the winners. In a rotation every bot of a table has every seat once.
        """
        self.games += len(games)
        for score in scores(games):
            self._rotations[score.version_id].append(score.share)
        for first_bot, second_bot in combinations(self.left, 2):
            self._compare(first_bot, second_bot)
        beaten_bots = [bot for bot in self.left if len(self._better[bot]) >= self.top]
        for bot in beaten_bots:
            if self.decided:  # perhaps since the bot before this one left
                break
            leads = [(self._lead(other, bot), other) for other in self._better[bot]]
            lead, best_bot = max(leads)  # the largest lead; of equal ones the higher bot id
            self._leave(Leaver(bot, after_games=self.games, behind=best_bot, lead=lead))

    def _compare(self, first_bot: int, second_bot: int) -> None:
        """Compare two bots by their next rotations, and note which is surely better, if any.

        The k-th rotation of a bot is compared with the k-th one of the other, as soon as both have
        played it.
        """
        pair = self._pairs[first_bot, second_bot]
        first_scores, second_scores = self._rotations[first_bot], self._rotations[second_bot]
        next_rotation = pair.count
        if next_rotation >= min(len(first_scores), len(second_scores)):
            return
        pair.compare(first_scores[next_rotation] - second_scores[next_rotation])
        if pair.better > 0:
            self._better[second_bot].add(first_bot)
        elif pair.better < 0:
            self._better[first_bot].add(second_bot)

    def take_out(self, bots: Collection[int]) -> None:
        """Let the bots leave that were taken out of the ladder."""
        for bot in [bot for bot in self.left if bot in bots]:
            self._leave(Leaver(bot, after_games=self.games))

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
        """Return a sort key for each bot, by which the best one comes first.

        Bots that can still win come first, by their mean scores; then the bots that left, the last
        one first.
        """
        keys: dict[int, tuple[bool, float]] = {}  # True for bots that left, which sorts last
        for bot in self.left:
            rotation_scores = self._rotations[bot]
            mean = sum(rotation_scores) / len(rotation_scores) if rotation_scores else 0.0
            keys[bot] = (False, -mean)
        for exit_number, leaver in enumerate(self.leavers):
            keys[leaver.bot] = (True, -exit_number)
        return keys

    def order(self) -> list[int]:
        """Return all bots, the best first."""
        keys = self.sort_keys()
        return sorted(keys, key=lambda bot: keys[bot])

    def tables(self, seats: int, seed: bytes, most_games: int = FINAL_GAMES) -> list[LineUp]:
        """Draw the next portion of tables among the bots that can still win.

        seats       largest number of bots at a table
        seed        the seed of the draw
        most_games  largest number of games of all tables together

        A portion has about `_GAMES_AT_ONCE` games, in rounds. In each round every bot sits at one
        table, or at two if the bots do not fill the last one.
        """
        bots_per_table = min(seats, len(self.left))
        tables_per_round = ceil(len(self.left) / bots_per_table)
        # A table plays one game for each of its seats.
        games_per_round = tables_per_round * bots_per_table
        rounds = max(1, round(_GAMES_AT_ONCE / games_per_round))
        tables = []
        for round_number in range(rounds):
            shuffled = RandomStream(seed, f"final {self.games} {round_number}").shuffled(self.left)
            # The first bots also sit at the last table, if that has free seats.
            free_seats = games_per_round - len(shuffled)
            bots = [*shuffled, *shuffled[:free_seats]]
            tables += [
                LineUp(tuple(bots[first : first + bots_per_table]))
                for first in range(0, len(bots), bots_per_table)
            ]
        return tables[: most_games // bots_per_table]


def final_report(race: Race, most_games: int, versions: Mapping[int, BotVersion]) -> FinalReport:
    """Return the state of a final in a report, with the names of bots instead of ids.

    most_games  the budget of the final in games
    versions    the versions of the bots, by id
    """

    def name_of(version_id: int) -> str:
        return versions[version_id].bot

    leavers = [
        Leaver(
            bot=name_of(leaver.bot),
            after_games=leaver.after_games,
            behind=None if leaver.behind is None else name_of(leaver.behind),
            lead=leaver.lead,
        )
        for leaver in race.leavers
    ]
    possible_winners = race.order()[: len(race.left)]  # those that left come after them
    return FinalReport(
        top=race.top,
        most_games=most_games,
        confidence=CONFIDENCE,
        decided=race.decided,
        winners=tuple(map(name_of, possible_winners)),
        left=tuple(leavers),
    )

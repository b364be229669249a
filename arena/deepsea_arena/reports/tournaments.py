"""Tournaments as people look at them: the list, and one with its scores and its rounds.

Invariants: scores are those that the tournament itself goes by; a round is over when every table
has all its games, or no more to play since a bot was withdrawn or disabled.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec import Struct

from deepsea_arena.documents import read_json
from deepsea_arena.reports.finals import FinalReport, Race, final_report, race_of
from deepsea_arena.reports.standings import taken_out
from deepsea_arena.seasons import SeasonInfo, season_info
from deepsea_ladder.errors import NotOnLadder
from deepsea_ladder.model.bots import BotVersion
from deepsea_ladder.model.games import JobStatus, StoredSeason
from deepsea_ladder.scheduling.tournament import Elimination, Score, scores
from deepsea_ladder.values import Time, utc_time

if TYPE_CHECKING:
    from deepsea_ladder.store import Store
    from deepsea_ladder.store.history import GameOutcomes

Kind = Literal["round-robin", "gauntlet", "elimination", "final"]
_OUT = -1.0
"""Less than any share."""


class TournamentPlan(Struct, frozen=True, kw_only=True):
    """The games of a tournament, as its season keeps it: the same plan has the same games."""

    kind: Kind
    seats: int
    meetings: int
    bots: tuple[int, ...]
    """Versions, in the order of the seeds."""
    by_runner: bool = False
    """Whether it was begun from afar, so that the ladder's runner plays it."""
    top: int = 0
    """Of a final: how many winners are wanted,"""
    most_games: int = 0
    """and its budget."""


class TournamentLine(Struct, frozen=True, kw_only=True):
    """A tournament in the list."""

    name: str
    kind: Kind
    seats: int
    bots: int
    opened_at: Time
    closed_at: Time | None
    played: int
    """Games that have a result."""
    games: int
    """All that were queued until now; an elimination queues a round at a time."""
    winner: str | None
    """Of one that has ended: the bot with rank 1, of an elimination or a final its champion."""


class TournamentList(Struct, frozen=True):
    """Every tournament, the newest first."""

    tournaments: tuple[TournamentLine, ...]


class TableLine(Struct, frozen=True, kw_only=True):
    """One bot at a table of a round."""

    bot: str
    version: int
    games: int
    placement_score: float | None
    """None before its first game."""
    advances: bool


class TournamentTable(Struct, frozen=True, kw_only=True):
    """A table of a round."""

    lines: tuple[TableLine, ...]
    """The best first."""
    games: tuple[str, ...]
    """The ids of its games."""


class ScoreLine(Struct, frozen=True, kw_only=True):
    """A bot's results in a tournament."""

    rank: int
    bot: str
    version: int
    author: str
    games: int
    placement_score: float
    """The mean share of the others at its tables that it was ahead of; level counts half."""
    wins: int
    """First places, shared ones too."""
    mean_points: float


class TournamentReport(Struct, frozen=True, kw_only=True):
    """A tournament."""

    tournament: TournamentLine
    entrants: tuple[tuple[str, int], ...]
    """Names and versions, in the order of the seeds."""
    commitment: str
    """SHA-256 of its season's seed, in hex."""
    season: SeasonInfo
    seed: str | None
    """In hex; None before its end."""
    scores: tuple[ScoreLine, ...]
    """The best first, the champion before all."""
    champion: str | None
    rounds: tuple[tuple[TournamentTable, ...], ...]
    """Of an elimination."""
    final: FinalReport | None = None
    """Of a final."""


def plan_of(season: StoredSeason) -> TournamentPlan:
    """The plan of a tournament's season."""
    return read_json(TournamentPlan, season.tournament or "")


def for_runner(store: Store, but: Collection[int] = ()) -> StoredSeason | None:
    """The oldest tournament that the ladder's runner is to play; without those in `but`, and those
    that have games that were set aside."""
    for season in store.seasons.all():
        if season.tournament is None or season.closed_at is not None or season.id in but:
            continue
        if plan_of(season).by_runner and not store.queue.counts(season).quarantined:
            return season
    return None


class _Results(NamedTuple):
    """What the games of a tournament say."""

    versions: Mapping[int, BotVersion]
    champion: int | None = None
    rounds: Sequence[tuple[TournamentTable, ...]] = ()
    table: Sequence[Score] = ()
    """The scores, the best first, the champion before all."""
    race: Race | None = None


def tournaments(store: Store) -> TournamentList:
    """The list of tournaments."""
    return TournamentList(
        tuple(
            _line(store, season)
            for season in reversed(store.seasons.all())
            if season.tournament is not None
        )
    )


def tournament_report(store: Store, name: str) -> TournamentReport:
    """One tournament. Raises NotOnLadder if there is none of that name."""
    season = store.seasons.get(name)
    if season.tournament is None:
        raise NotOnLadder(f"season {name!r} is no tournament's")
    return report_of(store, season)


def report_of(store: Store, season: StoredSeason) -> TournamentReport:
    """The tournament of a season."""
    plan = plan_of(season)
    found = _results(store, season)
    versions, champion = found.versions, found.champion
    return TournamentReport(
        tournament=_line(store, season, found),
        entrants=tuple((versions[bot].bot, versions[bot].number) for bot in plan.bots),
        commitment=season.commitment,
        season=season_info(season),
        seed=store.seasons.revealed_seed(season),
        scores=tuple(
            _score_line(rank, score, versions[score.bot])
            for rank, score in enumerate(found.table, 1)
        ),
        champion=None if champion is None else versions[champion].bot,
        rounds=tuple(found.rounds),
        final=None if found.race is None else final_report(found.race, plan.most_games, versions),
    )


def _results(store: Store, season: StoredSeason) -> _Results:
    plan = plan_of(season)
    versions = {version.id: version for version in store.bots.versions_of(plan.bots)}
    champion: int | None = None
    rounds: Sequence[tuple[TournamentTable, ...]] = ()
    race = None
    if plan.kind == "elimination":
        games = store.history.outcomes(season)
        champion, rounds = _Rounds(store, season, plan, versions, games).played()
    elif plan.kind == "final":
        race = race_of(store, season, plan.top, versions, store.history.outcomes(season))
        champion = race.champion
    table = in_order(store.sums.scores(season), champion, race)
    return _Results(versions, champion, rounds, table, race)


def in_order(found: Iterable[Score], champion: int | None, race: Race | None) -> list[Score]:
    """Scores, the best first: the champion before all, in a final who left last before others."""
    order = [] if race is None else race.order()
    place = {bot: number for number, bot in enumerate(order)}
    return sorted(found, key=lambda score: (score.bot != champion, place.get(score.bot, 0)))


def _line(store: Store, season: StoredSeason, found: _Results | None = None) -> TournamentLine:
    """A line of the list; `found` are the tournament's results, if they are known already."""
    plan = plan_of(season)
    closed = season.closed_at
    winner: str | None = None
    counts = store.queue.counts(season)
    played = counts.done
    queued = played + counts.waiting + counts.leased + counts.expired + counts.quarantined
    if played and closed is not None:
        found = found or _results(store, season)
        decided = plan.kind in ("elimination", "final")
        best = found.champion if decided else found.table[0].bot
        winner = None if best is None else found.versions[best].bot
    return TournamentLine(
        name=season.name,
        kind=plan.kind,
        seats=plan.seats,
        bots=len(plan.bots),
        opened_at=utc_time(season.created_at),
        closed_at=None if closed is None else utc_time(closed),
        played=played,
        games=queued,
        winner=winner,
    )


class _Rounds:
    """The rounds of an elimination until now."""

    def __init__(
        self,
        store: Store,
        season: StoredSeason,
        plan: TournamentPlan,
        versions: Mapping[int, BotVersion],
        games: Iterable[GameOutcomes],
    ) -> None:
        self._plan = plan
        self._versions = versions
        self._closed = season.closed_at is not None
        gone = taken_out(store, season)
        self._out = {number for number, version in versions.items() if version.bot in gone}
        leased = store.queue.listed(season, JobStatus.LEASED)
        self._playing = {frozenset(job.lineup) for job in leased}
        self._games: dict[frozenset[int], list[GameOutcomes]] = {}
        """By the bots at the table: no two rounds have the same."""
        for game in games:
            self._games.setdefault(frozenset(seat.version_id for seat in game.seats), []).append(
                game
            )

    def played(self) -> tuple[int | None, Sequence[tuple[TournamentTable, ...]]]:
        """The champion, if there is one yet, and the rounds."""
        bracket = Elimination(self._plan.bots, self._plan.seats)
        rounds: list[tuple[TournamentTable, ...]] = []
        while bracket.champion is None:
            tables = [table.bots for table in bracket.tables()]
            found = {
                score.bot: score
                for score in scores(game.seats for table in tables for game in self._of(table))
            }
            over = self._closed or all(map(self._is_over, tables))
            if over:
                meetings = self._plan.meetings
                bracket = bracket.after(
                    score
                    for table in tables
                    for score in table_results(table, meetings, found, self._out)
                )
            winners = bracket.entrants if over else ()
            rounds.append(tuple(self._table(table, found, winners) for table in tables))
            if not over:
                break
        return bracket.champion, rounds

    def _of(self, table: Sequence[int]) -> list[GameOutcomes]:
        return self._games.get(frozenset(table), [])

    def _is_over(self, table: Sequence[int]) -> bool:
        """Whether a table has all its games, or no more to play since a bot was taken out."""
        if len(self._of(table)) == len(table) * self._plan.meetings:
            return True
        labels = frozenset(self._versions[bot].label for bot in table)
        return not self._out.isdisjoint(table) and labels not in self._playing

    def _table(
        self, table: Sequence[int], found: Mapping[int, Score], winners: Collection[int]
    ) -> TournamentTable:
        shares = {bot: found[bot].share for bot in table if bot in found}
        return TournamentTable(
            lines=tuple(
                TableLine(
                    bot=self._versions[bot].bot,
                    version=self._versions[bot].number,
                    games=found[bot].games if bot in found else 0,
                    placement_score=shares.get(bot),
                    advances=bot in winners,
                )
                for bot in sorted(table, key=lambda bot: -shares.get(bot, -1.0))
            ),
            games=tuple(game.game_id for game in self._of(table)),
        )


def _score_line(rank: int, score: Score, version: BotVersion) -> ScoreLine:
    """A score as people read it."""
    return ScoreLine(
        rank=rank,
        bot=version.bot,
        version=version.number,
        author=version.author,
        games=score.games,
        placement_score=score.share,
        wins=score.wins,
        mean_points=score.mean_points,
    )


def table_results(
    table: Sequence[int], meetings: int, scores: Mapping[int, Score], out: Collection[int]
) -> list[Score]:
    """The scores by which bots of a table of an elimination advance.

    A bot in `out`, withdrawn or disabled, is behind the others unless all games were played.
    """
    results = []
    for bot in table:
        score = scores.get(bot, Score(bot, 1, 0.0, 0, 0.0))
        if bot in out and (bot not in scores or score.games < len(table) * meetings):
            score = Score(bot, 1, _OUT, 0, 0.0)
        results.append(score)
    return results

"""Tournaments as people look at them: the list, and one with its scores and its rounds."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from deepsea_arena.documents import read_json
from deepsea_arena.seasons import SeasonInfo, season_info
from deepsea_arena.standings import games_in_words, order_report
from deepsea_arena.tournament_state import (
    FinalReport,
    Table,
    TournamentKind,
    TournamentPlan,
    TournamentState,
    final_report,
    tournament_state,
)
from deepsea_ladder.errors import NotOnLadder
from deepsea_ladder.model import BotVersion, StoredSeason, Time, utc_time
from deepsea_ladder.tournament import Score

if TYPE_CHECKING:
    from deepsea_ladder.store import Store


class TournamentLine(Struct, frozen=True, kw_only=True):
    """A tournament in the list."""

    name: str
    kind: TournamentKind
    seats: int
    bots: int
    opened_at: Time
    closed_at: Time | None
    played: int
    """Games that have a result."""
    games: int
    """All that were queued until now; an elimination queues a round at a time."""
    winners: tuple[str, ...]
    """The winners; empty before the end. Bots with rank 1 share the win of a round-robin or a
    gauntlet."""


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
    level: tuple[str, ...]
    """Names of bots that were level: the first, the best seed of these, advances."""


class ScoreLine(Struct, frozen=True, kw_only=True):
    """A bot's results in a tournament."""

    rank: int
    """Bots that are level share it."""
    bot: str
    version: int
    author: str
    games: int
    placement_score: float
    """The mean share of the others at its tables that it was ahead of; level counts half."""
    wins: int
    """First places, shared ones too."""
    mean_points: float


class RankCertainty(Struct, frozen=True, kw_only=True):
    """The certainty of the ranks of a round-robin, by the ratings of its games."""

    confidence: float
    """The confidence for each two neighbours."""
    pairs: int
    """The number of pairs of neighbours."""
    open_pairs: int
    """Pairs whose order is open."""
    least_games: int
    """About how many more games it takes to settle the order, if neighbours prove to be further
    apart than it seems now."""
    most_games: int | None
    """About how many if they are as far apart as it seems now; None if no number is enough."""

    @property
    def words(self) -> str:
        """The certainty in a sentence without its end."""
        sure = f"{self.pairs - self.open_pairs} of {self.pairs}"
        games = games_in_words(self.least_games, self.most_games)
        needs = f"; for all it takes more games, about {games}" if self.open_pairs else ""
        confidence = f"{100 * self.confidence:g} %"
        return f"ranks are sure with {confidence} for {sure} pairs of neighbours{needs}"


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
    """The rounds of an elimination; empty for other kinds."""
    final: FinalReport | None = None
    """The standing of a final; None for other kinds."""
    certainty: RankCertainty | None = None
    """The certainty of the ranks of a round-robin; None for other kinds, and before a game."""


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


def tournaments(store: Store) -> tuple[TournamentLine, ...]:
    """Every tournament, the newest first."""
    return tuple(
        _line(store, season)
        for season in reversed(store.seasons.all())
        if season.tournament is not None
    )


def tournament_report(store: Store, name: str) -> TournamentReport:
    """One tournament. Raises NotOnLadder if there is none of that name."""
    season = store.seasons.get(name)
    if season.tournament is None:
        raise NotOnLadder(f"season {name!r} is no tournament's")
    return report_of(store, season)


def state_of(store: Store, season: StoredSeason) -> TournamentState:
    """The state of a tournament's season."""
    plan = plan_of(season)
    has_draws = plan.kind in ("elimination", "final")
    is_closed = season.closed_at is not None
    jobs, exits = [], {}
    if has_draws or not is_closed:
        jobs, exits = store.queue.arranged(season), store.seasons.exits(season)
    results = store.history.outcomes(season) if has_draws else {}
    games = [job._replace(seats=results.get(job.game_id, ())) for job in jobs]
    found = store.sums.scores(season)
    seed = season.commitment.encode()
    return tournament_state(plan, seed, games, exits, found, is_closed=is_closed)


def report_of(store: Store, season: StoredSeason) -> TournamentReport:
    """The tournament of a season."""
    plan, state = plan_of(season), state_of(store, season)
    versions = {version.id: version for version in store.bots.versions_of(plan.bots)}
    is_ranked = plan.kind == "round-robin" and len(state.ranks) > 1
    return TournamentReport(
        tournament=_line(store, season, state),
        entrants=tuple((versions[bot].bot, versions[bot].number) for bot in plan.bots),
        commitment=season.commitment,
        season=season_info(season),
        seed=store.seasons.revealed_seed(season),
        scores=tuple(_score_line(rank, score, versions[score.bot]) for rank, score in state.ranks),
        champion=None if state.champion is None else versions[state.champion].bot,
        rounds=tuple(
            tuple(_table(season, table, versions) for table in tables) for tables in state.rounds
        ),
        final=None if state.race is None else final_report(state.race, plan.most_games, versions),
        certainty=_certainty(store, season, plan) if is_ranked else None,
    )


def _certainty(store: Store, season: StoredSeason, plan: TournamentPlan) -> RankCertainty:
    order = order_report(store, season, among=plan.bots)
    return RankCertainty(
        confidence=order.confidence,
        pairs=len(order.neighbours),
        open_pairs=order.open_pairs,
        least_games=order.least_games,
        most_games=order.most_games,
    )


def _line(
    store: Store, season: StoredSeason, state: TournamentState | None = None
) -> TournamentLine:
    """A line of the list; `state` is the tournament's, if it is known already."""
    plan = plan_of(season)
    closed = season.closed_at
    winners: tuple[str, ...] = ()
    counts = store.queue.counts(season)
    played = counts.done
    queued = played + counts.waiting + counts.leased + counts.expired + counts.quarantined
    if played and closed is not None:
        state = state or state_of(store, season)
        by_id = {version.id: version.bot for version in store.bots.versions_of(state.winners)}
        winners = tuple(by_id[bot] for bot in state.winners)
    return TournamentLine(
        name=season.name,
        kind=plan.kind,
        seats=plan.seats,
        bots=len(plan.bots),
        opened_at=utc_time(season.created_at),
        closed_at=None if closed is None else utc_time(closed),
        played=played,
        games=queued,
        winners=winners,
    )


def _table(
    season: StoredSeason, table: Table, versions: Mapping[int, BotVersion]
) -> TournamentTable:
    return TournamentTable(
        lines=tuple(
            TableLine(
                bot=versions[bot].bot,
                version=versions[bot].number,
                games=table.scores[bot].games if bot in table.scores else 0,
                placement_score=table.scores[bot].share if bot in table.scores else None,
                advances=bot == table.winner,
            )
            for bot in table.bots
        ),
        games=tuple(f"{season.name}-{game.number}" for game in table.games),
        level=tuple(versions[bot].bot for bot in table.level),
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

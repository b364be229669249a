"""Reports of tournaments: the list, and one tournament with its scores and its rounds.

Start reading at `tournaments` and `tournament_report`; `state_of` reads the state that both show.
"""

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
    """Number of games that have a result."""
    games: int
    """Number of games that were queued so far; an elimination queues a round at a time."""
    winners: tuple[str, ...]
    """The winners; empty before the end.

    All bots with rank 1 win a round-robin or a gauntlet.
    """


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
    """Names of the bots that were level. The first one, which has the best seed, advances."""


class ScoreLine(Struct, frozen=True, kw_only=True):
    """A bot's results in a tournament."""

    rank: int
    """The rank from 1; bots that are level share it."""
    bot: str
    version: int
    author: str
    games: int
    placement_score: float
    """Mean share of the other seats that it was ahead of; a tie counts half."""
    wins: int
    """Number of first places, shared ones too."""
    mean_points: float


class RankCertainty(Struct, frozen=True, kw_only=True):
    """The certainty of the ranks of a round-robin, by the ratings of its games."""

    confidence: float
    """The confidence with which the order of two neighbours has to be certain."""
    pairs: int
    """Number of pairs of neighbours."""
    open_pairs: int
    """Number of pairs whose order is open."""
    least_games: int
    """About how many more games settle the order in a good case.

    Neighbours prove to be further apart than it seems now.
    """
    most_games: int | None
    """About how many more games settle the order if neighbours are as far apart as it seems now.

    None if no number is enough.
    """

    @property
    def words(self) -> str:
        """A sentence, without its full stop, about how many neighbours in the ranks are certain."""
        confidence = f"{100 * self.confidence:g} %"
        certain_pairs = f"{self.pairs - self.open_pairs} of {self.pairs}"
        sentence = f"ranks are sure with {confidence} for {certain_pairs} pairs of neighbours"
        if not self.open_pairs:
            return sentence
        games = games_in_words(self.least_games, self.most_games)
        return f"{sentence}; for all it takes more games, about {games}"


class TournamentReport(Struct, frozen=True, kw_only=True):
    """A tournament with its scores, and the rounds or the standing of its kind."""

    tournament: TournamentLine
    entrants: tuple[tuple[str, int], ...]
    """Names and versions, in the order of the seeds."""
    commitment: str
    """SHA-256 of its season's seed, in hex."""
    season: SeasonInfo
    seed: str | None
    """The seed of its season in hex; None before its end."""
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
    """Return the plan of a tournament, which its season has."""
    return read_json(TournamentPlan, season.tournament or "")


def next_for_runner(store: Store, excluded_ids: Collection[int] = ()) -> StoredSeason | None:
    """Return the season of the oldest tournament that the ladder's runner has to play, or None.

    The runner plays tournaments that clients have begun. Those with quarantined games wait for an
    operator, and those whose season ids are in `excluded_ids` are left out, too.
    """
    for season in store.seasons.all():
        is_open = season.tournament is not None and season.closed_at is None
        if not is_open or season.id in excluded_ids:
            continue
        is_stuck = bool(store.queue.counts(season).quarantined)
        if plan_of(season).by_runner and not is_stuck:
            return season
    return None


def tournaments(store: Store) -> tuple[TournamentLine, ...]:
    """Return the lines of all tournaments, the newest first."""
    return tuple(
        _tournament_line(store, season)
        for season in reversed(store.seasons.all())
        if season.tournament is not None
    )


def tournament_report(store: Store, name: str) -> TournamentReport:
    """Return the report of a tournament. Raises NotOnLadder if there is none of that name."""
    season = store.seasons.get(name)
    if season.tournament is None:
        raise NotOnLadder(f"season {name!r} is no tournament's")
    return report_of(store, season)


def state_of(store: Store, season: StoredSeason) -> TournamentState:
    """Return the state of a season's tournament, with the tables that are to be played next.

    Only what the kind of tournament needs is read from the store.
    """
    plan = plan_of(season)
    is_closed = season.closed_at is not None
    # The tables of these kinds are drawn again and again, by the results until then.
    depends_on_results = plan.kind in ("elimination", "final")
    jobs, exits = [], {}
    if depends_on_results or not is_closed:
        jobs, exits = store.queue.all_jobs(season), store.seasons.exits(season)
    results = store.history.results_by_game(season) if depends_on_results else {}
    games = [job._replace(seats=results.get(job.game_id, ())) for job in jobs]
    return tournament_state(
        plan,
        seed=season.commitment.encode(),
        games=games,
        exits=exits,
        bot_scores=store.sums.scores(season),
        is_closed=is_closed,
    )


def report_of(store: Store, season: StoredSeason) -> TournamentReport:
    """Return the report of a season's tournament: its plan, its scores and its rounds."""
    plan, state = plan_of(season), state_of(store, season)
    versions = {version.id: version for version in store.bots.versions_of(plan.bots)}
    entrants = [versions[version_id] for version_id in plan.bots]
    is_ranked = plan.kind == "round-robin" and len(state.ranks) > 1
    return TournamentReport(
        tournament=_tournament_line(store, season, state),
        entrants=tuple((version.bot, version.number) for version in entrants),
        commitment=season.commitment,
        season=season_info(season),
        seed=store.seasons.revealed_seed(season),
        scores=tuple(
            _score_line(rank, score, versions[score.version_id]) for rank, score in state.ranks
        ),
        champion=None if state.champion is None else versions[state.champion].bot,
        rounds=tuple(
            tuple(_reported_table(season, table, versions) for table in tables)
            for tables in state.rounds
        ),
        final=None if state.race is None else final_report(state.race, plan.most_games, versions),
        certainty=_certainty(store, season, plan) if is_ranked else None,
    )


def _certainty(store: Store, season: StoredSeason, plan: TournamentPlan) -> RankCertainty:
    """Return the certainty of the ranks of a round-robin."""
    order = order_report(store, season, among=plan.bots)
    return RankCertainty(
        confidence=order.confidence,
        pairs=len(order.neighbours),
        open_pairs=order.open_pairs,
        least_games=order.least_games,
        most_games=order.most_games,
    )


def _tournament_line(
    store: Store, season: StoredSeason, state: TournamentState | None = None
) -> TournamentLine:
    """Return the line of a tournament in the list of all: its settings, games and winners.

    `state` is the state of the tournament if the caller has it; otherwise it is read if needed.
    """
    plan = plan_of(season)
    counts = store.queue.counts(season)
    open_games = counts.waiting + counts.leased + counts.expired + counts.quarantined
    winners: tuple[str, ...] = ()
    if counts.done and season.closed_at is not None:
        winner_ids = (state or state_of(store, season)).winners
        names = {version.id: version.bot for version in store.bots.versions_of(winner_ids)}
        winners = tuple(names[winner_id] for winner_id in winner_ids)
    return TournamentLine(
        name=season.name,
        kind=plan.kind,
        seats=plan.seats,
        bots=len(plan.bots),
        opened_at=utc_time(season.created_at),
        closed_at=None if season.closed_at is None else utc_time(season.closed_at),
        played=counts.done,
        games=counts.done + open_games,
        winners=winners,
    )


def _reported_table(
    season: StoredSeason, table: Table, versions: Mapping[int, BotVersion]
) -> TournamentTable:
    """Return a table of an elimination for a report, with the names of bots instead of ids.

    `versions` has the versions of the bots by id.
    """
    lines = []
    for version_id in table.version_ids:
        version = versions[version_id]
        score = table.scores.get(version_id)  # None before its first game
        lines.append(
            TableLine(
                bot=version.bot,
                version=version.number,
                games=0 if score is None else score.games,
                placement_score=None if score is None else score.share,
                advances=version_id == table.winner,
            )
        )
    return TournamentTable(
        lines=tuple(lines),
        games=tuple(f"{season.name}-{game.number}" for game in table.games),
        level=tuple(versions[version_id].bot for version_id in table.level),
    )


def _score_line(rank: int, score: Score, version: BotVersion) -> ScoreLine:
    """Return a bot's rank and score, with its name."""
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

"""Begins tournaments and plays them with the ladder's runner.

Start reading at `play_tournament`. The kinds are round-robin, gauntlet, elimination and final.

Invariants: a tournament is a season of its own, so that its games change no other rating; the
next tables follow from its plan, its games and the bots that left, so that the same request
continues an interrupted tournament; at its end the season is closed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from msgspec import Struct, structs

from deepsea_arena.documents import to_json
from deepsea_arena.run_report import RunEnd, RunWatcher, Stop
from deepsea_arena.runner import RunGoal, RunStopped, no_source, play
from deepsea_arena.seasons import FreshSeed, find_season
from deepsea_arena.standings import best_of_authors
from deepsea_arena.tournament_state import (
    FinalReport,
    TournamentKind,
    TournamentPlan,
    TournamentState,
)
from deepsea_arena.tournaments import (
    RankCertainty,
    ScoreLine,
    TournamentTable,
    plan_of,
    report_of,
    state_of,
)
from deepsea_arena.workers import MakePool
from deepsea_ladder.accounts import MACHINE, Actor
from deepsea_ladder.errors import LadderError, PairingError, StoreDamaged
from deepsea_ladder.model import BotState, StoredSeason, TaskState
from deepsea_ladder.store import Store
from deepsea_ladder.tournament import (
    FINAL_GAMES,
    MOST_GAMES,
    check_entrants,
    fewest_gauntlet_games,
    fewest_round_robin_games,
    most_elimination_games,
)
from deepsea_referee.errors import RefereeError, UserError
from deepsea_sdk.entropy import fresh_seed

_SHRINKING = ("elimination", "final")
"""The kinds whose last tables may have fewer bots."""
PORTION = 500
"""Number of games that are queued in one transaction, which takes some tens of milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TournamentRequest:
    """The request of a tournament."""

    kind: TournamentKind
    name: str
    """The name of the tournament and its season."""
    bots: tuple[str, ...] = ()
    """The names of the bots, in the order of their seeds. In a gauntlet the first meets all others.

    If it is empty, all bots take part that get games. If the season lists the best bot of each
    author, these take part, in the order of its standings.
    """
    seats: int = 2
    meetings: int = 1
    """Number of meetings of every two bots, or of rotations of each table of an elimination."""
    top: int = 0
    """Number of winners of a final; 0 takes one."""
    games: int = 0
    """Budget of a final in games; 0 takes FINAL_GAMES."""
    season: str | None = None
    """The season whose rules, clock and isolation it uses; None takes the open one."""


class TournamentResult(Struct, frozen=True, kw_only=True):
    """A tournament that was played to its end."""

    tournament: str
    kind: TournamentKind
    games: int
    seed: str
    """The seed of its season, in hex."""
    winners: tuple[str, ...]
    """The winners, who share the win; empty if a final is undecided, or an elimination has none."""
    champion: str | None
    """The winner of the last table of an elimination, or of a decided final; None for others."""
    scores: tuple[ScoreLine, ...]
    """The best first, the champion before all."""
    rounds: tuple[tuple[TournamentTable, ...], ...]
    """The rounds of an elimination; empty for other kinds."""
    final: FinalReport | None = None
    certainty: RankCertainty | None = None


def play_tournament(
    store: Store,
    request: TournamentRequest,
    make_pool: MakePool,
    watcher: RunWatcher,
    stop: Stop,
    fresh: FreshSeed = fresh_seed,
) -> TournamentResult:
    """Play a tournament, or the games that an interrupted one still has, and close its season.

    fresh  returns the seed of its season

    Raises RunStopped at a request to stop, RefereeError if games failed.
    """
    season = begin_tournament(store, request, fresh)
    state = state_of(store, season)
    reported_round = 0
    while not state.is_over:
        if state.draw is not None and state.draw.round > reported_round:
            reported_round = state.draw.round
            watcher.round_begins(*state.draw)
        has_queued_games = not state.next or _queue_next_tables(store, season, state)
        if has_queued_games:
            _play_queued_games(store, season, make_pool, watcher, stop)
        state = state_of(store, season)
    seed, _ = store.seasons.close(request.name)
    if seed is None:
        raise RefereeError(f"another run still plays games of {request.name}; `ladder close` it")
    report = report_of(store, store.seasons.get(request.name))
    return TournamentResult(
        tournament=request.name,
        kind=request.kind,
        games=report.tournament.played,
        seed=seed,
        winners=report.tournament.winners,
        champion=report.champion,
        scores=report.scores,
        rounds=report.rounds,
        final=report.final,
        certainty=report.certainty,
    )


def play_begun(
    store: Store, make_pool: MakePool, watcher: RunWatcher, stop: Stop, season: StoredSeason
) -> bool:
    """Play a tournament that was begun by a client, and that this runner has to play.

    Return False if an error ended it that another try would not change; errors are reported to the
    watcher. Raises RunStopped at a request to stop.
    """
    plan = plan_of(season)
    request = TournamentRequest(
        kind=plan.kind,
        name=season.name,
        seats=plan.seats,
        meetings=plan.meetings,
        top=plan.top,
        games=plan.most_games,
    )
    try:
        play_tournament(store, request, make_pool, watcher, stop)
    except (RefereeError, UserError, LadderError) as error:
        watcher.trouble(f"tournament {season.name}: {error}")
        # Trouble of this machine, or failed games that an operator may have requeued.
        return isinstance(error, RefereeError)
    return True


def begin_tournament(
    store: Store,
    request: TournamentRequest,
    fresh: FreshSeed = fresh_seed,
    by: Actor | None = None,
) -> StoredSeason:
    """Open the season of a tournament, or return the one that was begun with the same request.

    fresh  returns the seed of the season
    by     the person who begins it for the ladder's runner; None plays it in this process

    Raises UserError or PairingError for a request that makes no tournament.
    """
    begun_season = _begun_season(store, request.name)
    version_ids = _participants(store, request, begun_season)
    is_final = request.kind == "final"
    if not is_final and (request.top or request.games):
        raise UserError("a number of winners and a budget of games are for a final")
    plan = TournamentPlan(
        kind=request.kind,
        seats=request.seats,
        meetings=request.meetings,
        bots=version_ids,
        by_runner=by is not None,
        top=request.top or int(is_final),
        most_games=request.games or (FINAL_GAMES if is_final else 0),
    )
    if plan.top >= len(version_ids):
        raise PairingError(
            f"a final with {plan.top} of {len(version_ids)} bots as winners has no games"
        )
    check_entrants(version_ids, 1 if request.kind in _SHRINKING else request.seats)
    _check_games(plan)
    if begun_season is None:
        return _open_season(store, request, plan, fresh, by or MACHINE)
    _check_same_plan(begun_season, plan)
    return begun_season


def _check_games(plan: TournamentPlan) -> None:
    """Raise PairingError for a tournament with more games than a ladder takes."""
    bots, seats, meetings = len(plan.bots), max(2, plan.seats), plan.meetings
    match plan.kind:
        case "round-robin":
            games = fewest_round_robin_games(bots, seats, meetings)
        case "gauntlet":
            games = fewest_gauntlet_games(bots, seats, meetings)
        case "elimination":
            games = most_elimination_games(bots, meetings)
        case _:
            games = plan.most_games
    if games > MOST_GAMES:
        size = "" if plan.kind == "final" else f"of {bots} bots with {meetings:,} meetings "
        raise PairingError(
            f"a {plan.kind} {size}has {games:,} games, and a tournament {MOST_GAMES:,} at most"
        )


def _begun_season(store: Store, name: str) -> StoredSeason | None:
    """Return the season of the tournament of this name that was begun; None if there is none.

    Raises UserError if another kind of season has the name, or if the tournament is over.
    """
    by_name = {season.name: season for season in store.seasons.all()}
    if name not in by_name:
        return None
    season = by_name[name]
    if season.tournament is None:
        raise UserError(f"season {name!r} is no tournament's; choose another name")
    if season.closed_at is not None:
        raise UserError(f"season {name!r} is closed; choose another name")
    return season


def _check_same_plan(begun_season: StoredSeason, plan: TournamentPlan) -> None:
    """Raise PairingError if the tournament that was begun has another plan than this one.

    Plans that differ only in the program that plays the games count as the same.
    """
    begun_plan = plan_of(begun_season)
    comparable_plan = structs.replace(plan, by_runner=begun_plan.by_runner)
    if comparable_plan != begun_plan:
        raise _other_tables_error(begun_season)


def _open_season(
    store: Store, request: TournamentRequest, plan: TournamentPlan, fresh: FreshSeed, by: Actor
) -> StoredSeason:
    """Open a season for a tournament, with the rules, clock and limits of the requested season.

    fresh  returns the secret seed of the season
    by     the person or program that opens it, for the audit log
    """
    model = find_season(store, request.season).settings
    table_sizes: tuple[int, ...] = (request.seats,)
    if request.kind in _SHRINKING:
        table_sizes = tuple(range(2, request.seats + 1))
    settings = structs.replace(
        model,
        name=request.name,
        seats=table_sizes,
        # Only the present version of each bot takes part.
        pairing=structs.replace(model.pairing, former_versions=False),
        best_of_author=False,
    )
    plan_json = json.dumps(to_json(plan))
    return store.seasons.open(settings, fresh(), plan_json, actor=by, entrants=plan.bots)


def _other_tables_error(season: StoredSeason) -> PairingError:
    """Return the error for a tournament whose games do not follow from the request."""
    return PairingError(f"tournament {season.name!r} was begun with other bots or tables")


def _participants(
    store: Store, request: TournamentRequest, begun_season: StoredSeason | None
) -> tuple[int, ...]:
    """Return the ids of the versions that take part in a tournament, in the order of their seeds.

    They are the bots that the request names. Without names they are those of `begun_season`, the
    season of an interrupted tournament, or else all active bots; if the requested season lists the
    best bot of each author, only these.
    """
    if request.bots:
        version_ids = [store.bots.get(name).current.id for name in request.bots]
        if len(set(version_ids)) != len(version_ids):
            raise UserError("a bot takes part in a tournament once")
        return tuple(version_ids)
    if begun_season is not None:
        return plan_of(begun_season).bots
    active_bots = [bot for bot in store.bots.all() if bot.state is BotState.ACTIVE]
    active_ids = dict.fromkeys(bot.current.id for bot in active_bots)  # in order, quick to look up
    season = find_season(store, request.season)
    if not season.settings.best_of_author:
        return tuple(active_ids)
    entries = store.ratings.entries(season, ())
    best_entries = best_of_authors(entry for entry in entries if entry.version.id in active_ids)
    return tuple(entry.version.id for entry in best_entries)


def _queue_next_tables(store: Store, season: StoredSeason, state: TournamentState) -> bool:
    """Queue the games of the next tables, and return True.

    Return False if the tables have to be drawn again: a bot has left since the draw, or another run
    has queued games.
    """
    tables, last_number = list(state.next), state.after
    while tables:
        # A transaction takes only a portion of the tables, since nobody else can write meanwhile.
        portion_size = max(1, PORTION // len(tables[0].version_ids))
        rotations = [table.seatings() for table in tables[:portion_size]]
        # `whole`: add the games of all these tables, or none.
        added_jobs = store.jobs.add(season, rotations, after=last_number, whole=True)
        if not added_jobs:
            # The store refuses tables with a bot that left, and tables after a newer job.
            exits = store.seasons.exits(season)
            has_left_bot = any(bot in exits for table in tables for bot in table.version_ids)
            has_newer_job = store.queue.last_number(season) != last_number
            if has_left_bot or has_newer_job:
                return False
            raise _other_tables_error(season)
        last_number += len(added_jobs)
        del tables[:portion_size]
    return True


def _play_queued_games(
    store: Store, season: StoredSeason, make_pool: MakePool, watcher: RunWatcher, stop: Stop
) -> None:
    """Play all queued games of a tournament, and report that to the watcher.

    Raises RunStopped at a request to stop, RefereeError if games failed or this machine cannot
    play, UserError if the season was closed meanwhile.
    """
    report = play(store, season, no_source, RunGoal(), make_pool, watcher, stop)
    quarantined = store.queue.counts(season).quarantined
    if quarantined or report.ended is RunEnd.TOO_MANY_FAILURES:
        raise RefereeError(
            f"{quarantined} of the games of {season.name} failed{_failed_game(store, season)}: "
            "`ladder status` has the reasons; `ladder requeue` them, and repeat the command"
        )
    if report.ended is RunEnd.HOST:
        raise RefereeError(f"this machine cannot play now: {report.trouble}")
    if report.ended is RunEnd.CLOSED:
        raise UserError(f"season {season.name!r} was closed before its games were played")
    if report.ended is RunEnd.STOPPED:
        raise RunStopped(report)
    watcher.played(report)


def _failed_game(store: Store, season: StoredSeason) -> str:
    """Return words for an error message: the newest game that failed, with the reason.

    Return "" if no game has failed.
    """
    try:
        failed_games = store.queue.listed(season, TaskState.QUARANTINED)
    except StoreDamaged as damage:  # a damaged version in a line-up, which is also why games failed
        return f" ({damage})"
    if not failed_games:
        return ""
    newest = failed_games[-1]
    return f", such as {newest.game_id} ({newest.note})"

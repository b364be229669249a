"""Tournaments: round-robin, gauntlet, elimination and final, over the ladder's runner.

Invariants: a tournament is a season of its own, so that its games change no other rating; what
it plays follows from its plan, its games and who left, so the same request continues an interrupted
one; at its end the season is closed.
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
"""The kinds whose last tables may be smaller."""
PORTION = 500
"""The games that are queued in one transaction: some tens of milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TournamentRequest:
    """The request of a tournament."""

    kind: TournamentKind
    name: str
    """The name of the tournament and its season."""
    bots: tuple[str, ...] = ()
    """If none are named, all that get games, or if the season has the best bot of each author
    these, in the order of its standings. In a gauntlet the first meets all others, an elimination
    seeds them in this order."""
    seats: int = 2
    meetings: int = 1
    """Meetings of every two bots, or rotations of each table of an elimination."""
    top: int = 0
    """Of a final: how many winners are wanted; 0: one."""
    games: int = 0
    """Its budget; 0: FINAL_GAMES."""
    season: str | None = None
    """The season whose rules, clock and isolation it uses; by default the open one."""


class TournamentResult(Struct, frozen=True, kw_only=True):
    """A tournament that was played to its end."""

    tournament: str
    kind: TournamentKind
    games: int
    seed: str
    """The seed of its season, in hex."""
    winners: tuple[str, ...]
    """Several share the win; none if a final is undecided, or if all left an elimination."""
    champion: str | None
    """The winner of the last table of an elimination, or of a final that was decided."""
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
    """Play a tournament, or the rest of it, and close its season.

    Raises `RunStopped` on a request to stop, `RefereeError` if games failed.
    """
    season = begin_tournament(store, request, fresh)
    state, number = state_of(store, season), 0
    while not state.is_over:
        if state.draw is not None and state.draw.round > number:
            number = state.draw.round
            watcher.round_begins(*state.draw)
        if not state.next or _queue(store, season, state):
            _run(store, season, make_pool, watcher, stop)
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
    """Play a tournament that was begun from afar; whether it may be tried again if it is open.

    Raises `RunStopped` on a request to stop; other troubles are reported.
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
        return isinstance(error, RefereeError)
    return True


def begin_tournament(
    store: Store,
    request: TournamentRequest,
    fresh: FreshSeed = fresh_seed,
    by: Actor | None = None,
) -> StoredSeason:
    """Open the season of a tournament, or find the one that was begun.

    by  who begins it for the ladder's runner
    """
    begun = _begun(store, request.name)
    bots = _participants(store, request, begun)
    is_final = request.kind == "final"
    if not is_final and (request.top or request.games):
        raise UserError("a number of winners and a budget of games are for a final")
    plan = TournamentPlan(
        kind=request.kind,
        seats=request.seats,
        meetings=request.meetings,
        bots=bots,
        by_runner=by is not None,
        top=request.top or int(is_final),
        most_games=request.games or FINAL_GAMES * is_final,
    )
    if plan.top >= len(bots):
        raise PairingError(f"a final with {plan.top} of {len(bots)} bots as winners has no games")
    check_entrants(bots, 1 if request.kind in _SHRINKING else request.seats)
    _check_games(plan)
    return _continued(begun, request, plan) or _begin(store, request, plan, fresh, by or MACHINE)


def _check_games(plan: TournamentPlan) -> None:
    """Raise `PairingError` for a tournament of more games than a ladder takes."""
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
        of_what = f"of {bots} bots with {meetings:,} meetings " * (plan.kind != "final")
        raise PairingError(
            f"a {plan.kind} {of_what}has {games:,} games, and a tournament {MOST_GAMES:,} at most"
        )


def _begun(store: Store, name: str) -> StoredSeason | None:
    """The season of a tournament that was begun and not ended."""
    season = next((season for season in store.seasons.all() if season.name == name), None)
    if season is not None and season.tournament is None:
        raise UserError(f"season {name!r} is no tournament's; choose another name")
    if season is not None and season.closed_at is not None:
        raise UserError(f"season {name!r} is closed; choose another name")
    return season


def _continued(
    begun: StoredSeason | None, request: TournamentRequest, plan: TournamentPlan
) -> StoredSeason | None:
    """The season of a tournament that was begun, if it was this one."""
    if begun is None:
        return None
    if plan_of(begun) != structs.replace(plan, by_runner=plan_of(begun).by_runner):
        raise _other_tables(begun)
    return begun


def _begin(
    store: Store, request: TournamentRequest, plan: TournamentPlan, fresh: FreshSeed, by: Actor
) -> StoredSeason:
    settings = find_season(store, request.season).settings
    seats = request.seats
    sizes = tuple(range(2, seats + 1)) if request.kind in _SHRINKING else (seats,)
    pairing = structs.replace(settings.pairing, former_versions=False)  # it has the newest ones
    settings = structs.replace(
        settings, name=request.name, seats=sizes, pairing=pairing, best_of_author=False
    )
    text = json.dumps(to_json(plan))
    return store.seasons.open(settings, fresh(), text, actor=by, entrants=plan.bots)


def _other_tables(season: StoredSeason) -> PairingError:
    return PairingError(f"tournament {season.name!r} was begun with other bots or tables")


def _participants(
    store: Store, request: TournamentRequest, begun: StoredSeason | None
) -> tuple[int, ...]:
    """The ids of the participants' versions, in their order."""
    if request.bots:
        found = [store.bots.get(name).current for name in request.bots]
    elif begun is not None:
        return plan_of(begun).bots
    else:
        found = [bot.current for bot in store.bots.all() if bot.state is BotState.ACTIVE]
        season = find_season(store, request.season)
        if season.settings.best_of_author:
            active = {version.id for version in found}
            entries = store.ratings.entries(season, ())
            best = best_of_authors(one for one in entries if one.version.id in active)
            found = [entry.version for entry in best]
    versions = tuple(version.id for version in found)
    if len(set(versions)) != len(versions):
        raise UserError("a bot takes part in a tournament once")
    return versions


def _queue(store: Store, season: StoredSeason, state: TournamentState) -> bool:
    """Queue the next tables; False if they have to be drawn again, since a bot has left.

    A transaction has a portion of them: meanwhile nobody else can write.
    """
    tables, after = list(state.next), state.after
    while tables:
        size = max(1, PORTION // len(tables[0].bots))
        rotations = [table.seatings() for table in tables[:size]]
        added = store.jobs.add(season, rotations, after=after, whole=True)
        if not added:
            left = store.seasons.exits(season)
            is_next = store.queue.last_number(season) == after
            if is_next and not any(bot in left for table in tables for bot in table.bots):
                raise _other_tables(season)
            return False
        after += len(added)
        del tables[:size]
    return True


def _run(
    store: Store, season: StoredSeason, make_pool: MakePool, watcher: RunWatcher, stop: Stop
) -> None:
    """Play the queued games; raises unless all of them have a result."""
    report = play(store, season, no_source, RunGoal(), make_pool, watcher, stop)
    stuck = store.queue.counts(season).quarantined
    if stuck or report.ended is RunEnd.TOO_MANY_FAILURES:
        raise RefereeError(
            f"{stuck} of the games of {season.name} failed{_example(store, season)}: `ladder "
            "status` has the reasons; `ladder requeue` them, and repeat the command"
        )
    if report.ended is RunEnd.HOST:
        raise RefereeError(f"this machine cannot play now: {report.trouble}")
    if report.ended is RunEnd.CLOSED:
        raise UserError(f"season {season.name!r} was closed before its games were played")
    if report.ended is RunEnd.STOPPED:
        raise RunStopped(report)
    watcher.played(report)


def _example(store: Store, season: StoredSeason) -> str:
    """The newest game that was set aside, with its reason in parentheses; "" for none."""
    try:
        failed = store.queue.listed(season, TaskState.QUARANTINED)
    except StoreDamaged as damage:  # of a version in a line-up, which is the reason
        return f" ({damage})"
    return f", such as {failed[-1].game_id} ({failed[-1].note})" if failed else ""

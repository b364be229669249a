"""Opens, closes and finds seasons.

Invariants: a season's settings never change, other settings are another season; seat A begins in
every season, since its games rotate the seats; the clock is one that the referee can read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from deepsea_arena.lease_owner import take_back
from deepsea_ladder.accounts import MACHINE, Actor
from deepsea_ladder.errors import NotOnLadder, StoreDamaged
from deepsea_ladder.model import StoredSeason, Time, milliseconds, utc_time
from deepsea_ladder.season import Isolation, Season
from deepsea_referee.errors import UserError
from deepsea_rules.ruleset import PRESETS, RuleSet
from deepsea_rules.time_control import TimeControl

if TYPE_CHECKING:
    from deepsea_ladder.store import Store

_SEAT_A = ", seat A begins"
FreshSeed = Callable[[], bytes]
"""Draws the 32 bytes of a season's seed."""


class SeasonInfo(Struct, frozen=True, kw_only=True):
    """The public facts of a season."""

    name: str
    rules: str
    """The name of its rule set."""
    seats: tuple[int, ...]
    """Bots at a table; several numbers mix sizes."""
    clock: str
    isolation: Isolation
    packages: tuple[str, ...]
    """The packages for bots besides the SDK."""
    missing_packages: tuple[str, ...]
    """The packages that this environment lacks."""
    memory_mib: int
    """The resource limits of a bot with all its processes."""
    processes: int
    require_cgroups: bool
    """True if it is only played where control groups enforce these limits."""
    same_author: bool
    """True if bots of one author may meet."""
    former_versions: bool
    """True if former versions of bots continue to play."""
    best_of_author: bool
    """True if its standings have the best bot of each author only."""
    commitment: str
    """SHA-256 of the season's seed, in hex."""
    place: int
    """The last place of its chain: its games, and its attempts without a result."""
    head: str
    """The head of its chain at that place, in hex (docs/records.md)."""
    opened_at: Time
    closed_at: Time | None
    submissions_until: Time | None = None
    """Its deadline, after which no bots are taken in; None if they are until it is closed."""
    paused_at: Time | None = None
    """Since when no games of it are started; None if they are."""


class ClosedSeason(Struct, frozen=True):
    """A season that is closed, or is to be."""

    season: str
    seed: str | None
    """In hex; the seeds of its games are derived from it. None as long as games are in play."""
    in_play: int
    """Games that are being played, and count."""
    unfinished: Unfinished | None = None
    """The bots and submissions that it waits for before it is closed; None of one that is."""


class Unfinished(Struct, frozen=True):
    """Bots and submissions that a season waits for before it is closed."""

    bots: tuple[str, ...]
    """Bots whose present versions have played fewer than `games` games, and former ones some."""
    games: int
    submissions: int
    """Submissions that came in time and are to be checked."""


def season_info(stored: StoredSeason) -> SeasonInfo:
    """The public facts of a stored season."""
    season = stored.settings
    return SeasonInfo(
        name=season.name,
        rules=season.rules.name,
        seats=season.seats,
        clock=season.clock,
        isolation=season.isolation,
        packages=season.packages,
        missing_packages=_missing(season.packages),
        memory_mib=season.limits.memory_mib,
        processes=season.limits.processes,
        require_cgroups=season.limits.require_cgroups,
        same_author=season.pairing.same_author,
        former_versions=season.pairing.former_versions,
        best_of_author=season.best_of_author,
        commitment=stored.commitment,
        place=stored.place,
        head=stored.head,
        opened_at=utc_time(stored.created_at),
        closed_at=_time(stored.closed_at),
        submissions_until=_time(stored.submissions_until),
        paused_at=_time(stored.paused_at),
    )


def _time(ms: int | None) -> Time | None:
    return None if ms is None else utc_time(ms)


def _missing(packages: Sequence[str]) -> tuple[str, ...]:
    if not packages:
        return ()
    # Most seasons name none, and it takes a while to import.
    from deepsea_referee.workbench.advice import missing_here, parse_requirements

    return tuple(missing_here(parse_requirements("\n".join(packages))))


def find_season(store: Store, name: str | None) -> StoredSeason:
    """The season of that name; without a name the open one that is no tournament's, or the newest
    if none is open."""
    seasons = store.seasons.all()
    if name is not None:
        named = (season for season in seasons if season.name == name)
        return next(named, None) or store.seasons.get(name)  # which says so if there is none
    if not seasons:
        for damage in store.seasons.damages():
            raise StoreDamaged(damage)
        raise NotOnLadder("this ladder has no season: open one with `ladder season NAME`")
    opened = open_seasons(seasons)
    if len(opened) > 1:
        names = ", ".join(season.name for season in opened)
        raise UserError(f"several seasons are open: name one of {names} with --season")
    return (opened or seasons)[-1]


def open_seasons(seasons: Sequence[StoredSeason]) -> list[StoredSeason]:
    """Those of the seasons that are open and no tournament's."""
    return [one for one in seasons if one.closed_at is None and one.tournament is None]


def season_settings(season: Season) -> Season:
    """A season of rated games with these settings, checked by the referee."""
    return structs.replace(
        season,
        rules=seat_a_begins(season.rules),
        clock=TimeControl.parse(season.clock).format(),
        packages=_packages(season.packages),
    )


def _packages(given: Sequence[str]) -> tuple[str, ...]:
    """The packages as they are stored; raises `BundleError` for one that is none."""
    if not given:
        return ()
    from deepsea_referee.workbench.advice import checked_package

    return tuple(sorted(set(map(checked_package, given))))


def seat_a_begins(rules: RuleSet) -> RuleSet:
    """The same rules, with seat A beginning: every bot of a rotation sits there once.

    A roll-off would only add luck. Records say so with the name of the rules.
    """
    if rules.first_player == "seat_a":
        return rules
    name = f"{rules.name}{_SEAT_A}" if rules.name in PRESETS else rules.name
    return replace(rules, name=name, first_player="seat_a")


def preset_of(name: str) -> RuleSet | None:
    """The preset that a season's rules with this name are; None for rules of its own."""
    return PRESETS.get(name.removesuffix(_SEAT_A))


def open_season(
    store: Store,
    settings: Season,
    fresh: FreshSeed | None = None,
    submissions_until: datetime | None = None,
    by: Actor = MACHINE,
) -> SeasonInfo:
    """Open another season; its seed is a random one, or a given one.

    submissions_until  after it the ladder takes in no bots while the season is open
    """
    if fresh is None:
        from deepsea_sdk.entropy import fresh_seed  # the whole SDK comes with it

        fresh = fresh_seed
    until = None if submissions_until is None else milliseconds(submissions_until)
    return season_info(store.seasons.open(settings, fresh(), submissions_until=until, actor=by))


def close_season(
    store: Store, name: str, by: Actor = MACHINE, *, at_once: bool = True
) -> ClosedSeason:
    """Give a season no more games. Those that are being played still count.

    at_once  whether it does not wait for the bots that were submitted: else no more are taken in
             first, so that nobody keeps the rank of a former version by replacing it at the end
    """
    if not at_once:
        bots, submissions = store.seasons.end_submissions(name, by)
        if bots or submissions:
            games = max(1, store.seasons.get(name).settings.pairing.provisional_games)
            return ClosedSeason(name, None, 0, Unfinished(tuple(bots), games, submissions))
    store.seasons.close(name, by)
    take_back(store)  # of runs that were killed: these are not played
    return ClosedSeason(name, *store.seasons.close(name))


def missing_sandbox(isolation: Isolation) -> str | None:
    """The reason why this machine cannot play such a season, and a remedy; None if it can."""
    if isolation == "process":
        return None
    # Half of what this module would take to import, for those who only look.
    from deepsea_referee.sandbox.probe import sandbox_trouble

    if not (trouble := sandbox_trouble()):
        return None
    return f"{trouble.found or trouble.name}. {trouble.remedy}"


def own_cgroups() -> str:
    """The control groups that bots have here, in words."""
    return without_cgroups("sandbox") or "control groups are used for all"


def without_cgroups(isolation: Isolation) -> str | None:
    """The way in which this machine times bots without control groups; None if it has them."""
    if isolation == "process":
        return None
    from deepsea_referee.sandbox.cgroup import hierarchies

    places = hierarchies()
    if not (missing := places.missing()):
        return None
    # As `rated_games.hosting` chooses.
    charged = "bots are charged the wall time, also while others use the CPUs; "
    return (
        f"no control groups here for {', '.join(missing)}: "
        f"{'' if places.counts_cpu else charged}see `deepsea-referee doctor`"
    )

"""Opens, closes and finds seasons.

Start reading at `open_season`, `find_season` and `close_season`.

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
"""End of the name of rules in which seat A always begins."""
FreshSeed = Callable[[], bytes]
"""Returns the 32 bytes of a new season's seed."""


class SeasonInfo(Struct, frozen=True, kw_only=True):
    """The public facts of a season."""

    name: str
    rules: str
    """The name of its rule set."""
    seats: tuple[int, ...]
    """Numbers of bots at a table; with several, tables have several sizes."""
    clock: str
    isolation: Isolation
    packages: tuple[str, ...]
    """The packages that bots can use besides the SDK."""
    missing_packages: tuple[str, ...]
    """The packages that this environment lacks."""
    memory_mib: int
    """Limit of the memory of a bot, with all its processes."""
    processes: int
    """Limit of the number of its processes."""
    require_cgroups: bool
    """True if it is played only where control groups enforce these limits."""
    same_author: bool
    """True if bots of one author may meet."""
    former_versions: bool
    """True if former versions of bots continue to play."""
    best_of_author: bool
    """True if its standings list only the best bot of each author."""
    commitment: str
    """SHA-256 of the season's seed, in hex."""
    place: int
    """The last place in its chain of games and of attempts without a result."""
    head: str
    """The head of its chain at that place, in hex (docs/records.md)."""
    opened_at: Time
    closed_at: Time | None
    submissions_until: Time | None = None
    """The deadline for new bots; None if bots are taken in until it is closed."""
    paused_at: Time | None = None
    """When it was paused; None while its games are started."""


class ClosedSeason(Struct, frozen=True):
    """The outcome of a request to close a season."""

    season: str
    seed: str | None
    """The season's seed in hex, from which its games' seeds follow; None while games are played."""
    in_play: int
    """Number of games that are still being played, and count."""
    unfinished: Unfinished | None = None
    """The bots and submissions that it waits for; None if it is closed."""


class Unfinished(Struct, frozen=True):
    """Bots and submissions that a season waits for before it is closed."""

    bots: tuple[str, ...]
    """Bots whose present versions have played fewer than `games` games, and former ones some."""
    games: int
    submissions: int
    """Number of submissions that came in time and wait for their check."""


def season_info(stored: StoredSeason) -> SeasonInfo:
    """Return the public facts of a stored season."""
    season = stored.settings
    return SeasonInfo(
        name=season.name,
        rules=season.rules.name,
        seats=season.seats,
        clock=season.clock,
        isolation=season.isolation,
        packages=season.packages,
        missing_packages=_missing_packages(season.packages),
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
        closed_at=_utc_time_or_none(stored.closed_at),
        submissions_until=_utc_time_or_none(stored.submissions_until),
        paused_at=_utc_time_or_none(stored.paused_at),
    )


def _utc_time_or_none(ms: int | None) -> Time | None:
    """Return a stored time in UTC; None stays None."""
    return None if ms is None else utc_time(ms)


def _missing_packages(packages: Sequence[str]) -> tuple[str, ...]:
    """Return the packages that are not installed in this environment."""
    if not packages:
        return ()
    # Most seasons name none, and it takes a while to import.
    from deepsea_referee.workbench.advice import missing_here, parse_requirements

    return tuple(missing_here(parse_requirements("\n".join(packages))))


def find_season(store: Store, name: str | None) -> StoredSeason:
    """Return the season of that name, or without a name the one that pages show.

    This is the open season that is no tournament's. If none is open, it is the newest one. Raises
    UserError if several are open, NotOnLadder if there is no such season.
    """
    seasons = store.seasons.all()
    if name is not None:
        by_name = {season.name: season for season in seasons}
        return by_name.get(name) or store.seasons.get(name)  # raises NotOnLadder if there is none
    if not seasons:
        for damage in store.seasons.damage_lines():
            raise StoreDamaged(damage)
        raise NotOnLadder("this ladder has no season: open one with `ladder season NAME`")
    opened = open_seasons(seasons)
    if len(opened) > 1:
        names = ", ".join(season.name for season in opened)
        raise UserError(f"several seasons are open: name one of {names} with --season")
    return (opened or seasons)[-1]


def open_seasons(seasons: Sequence[StoredSeason]) -> list[StoredSeason]:
    """Return the seasons that are open and no tournament's."""
    return [season for season in seasons if season.closed_at is None and season.tournament is None]


def season_settings(season: Season) -> Season:
    """Return settings for a season of rated games.

    Seat A begins in them, and the clock and the packages were checked.
    """
    return structs.replace(
        season,
        rules=seat_a_begins(season.rules),
        clock=TimeControl.parse(season.clock).format(),
        packages=_checked_packages(season.packages),
    )


def _checked_packages(packages: Sequence[str]) -> tuple[str, ...]:
    """Return packages as they are stored: checked, sorted and each once.

    Raises BundleError for a text that names no package.
    """
    if not packages:
        return ()
    from deepsea_referee.workbench.advice import checked_package

    return tuple(sorted(set(map(checked_package, packages))))


def seat_a_begins(rules: RuleSet) -> RuleSet:
    """Return the same rules with seat A beginning, since each bot of a rotation sits there once.

    A roll-off for the first turn would only add luck. The name of the rules says so in records.
    """
    if rules.first_player == "seat_a":
        return rules
    name = f"{rules.name}{_SEAT_A}" if rules.name in PRESETS else rules.name
    return replace(rules, name=name, first_player="seat_a")


def preset_of(name: str) -> RuleSet | None:
    """Return the preset of which a season's rules have the name; None for rules of its own."""
    return PRESETS.get(name.removesuffix(_SEAT_A))


def open_season(
    store: Store,
    settings: Season,
    fresh: FreshSeed | None = None,
    submissions_until: datetime | None = None,
    by: Actor = MACHINE,
) -> SeasonInfo:
    """Open a season and return its facts.

    fresh              returns its seed; None draws a random one
    submissions_until  deadline after which the ladder takes in no bots for the season
    by                 the person or program that opens it, for the audit log
    """
    if fresh is None:
        from deepsea_sdk.entropy import fresh_seed  # the whole SDK comes with it

        fresh = fresh_seed
    deadline_ms = None if submissions_until is None else milliseconds(submissions_until)
    return season_info(
        store.seasons.open(settings, fresh(), submissions_until=deadline_ms, actor=by)
    )


def close_season(
    store: Store, name: str, by: Actor = MACHINE, *, at_once: bool = True
) -> ClosedSeason:
    """Close a season: it gets no more games, and those that are being played still count.

    at_once  False first takes in no more bots and waits for those that were submitted, so that
             nobody keeps the rank of a former version by replacing it at the end
    """
    if not at_once:
        bots, submissions = store.seasons.end_submissions(name, by)
        if bots or submissions:
            games = max(1, store.seasons.get(name).settings.pairing.provisional_games)
            unfinished = Unfinished(tuple(bots), games, submissions)
            return ClosedSeason(name, seed=None, in_play=0, unfinished=unfinished)
    store.seasons.close(name, by)
    take_back(store)  # games of runs that were killed are not being played
    seed, in_play = store.seasons.close(name)
    return ClosedSeason(name, seed, in_play)


def missing_sandbox(isolation: Isolation) -> str | None:
    """Return why this machine cannot play a season with this isolation, and a remedy.

    Return None if it can.
    """
    if isolation == "process":
        return None
    # Imported only here, since it doubles the time to import this module.
    from deepsea_referee.sandbox.probe import sandbox_trouble

    trouble = sandbox_trouble()
    if not trouble:
        return None
    return f"{trouble.found or trouble.name}. {trouble.remedy}"


def own_cgroups() -> str:
    """Return in words which control groups bots have on this machine."""
    return without_cgroups("sandbox") or "control groups are used for all"


def without_cgroups(isolation: Isolation) -> str | None:
    """Return how this machine times bots for lack of control groups; None if it lacks none."""
    if isolation == "process":
        return None
    from deepsea_referee.sandbox.cgroup import hierarchies

    groups = hierarchies()
    missing = groups.missing()
    if not missing:
        return None
    charge = ""
    if not groups.counts_cpu:  # `rated_games.hosting` takes the wall clock then
        charge = "bots are charged the wall time, also while others use the CPUs; "
    return f"no control groups here for {', '.join(missing)}: {charge}see `deepsea-referee doctor`"

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
from deepsea_ladder.season import Isolation, SeasonSettings
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
    """Return the season of that name; None takes the open season, or else the newest one.

    Seasons of tournaments do not count as open. Raises UserError for None if several seasons are
    open, NotOnLadder if there is no such season, StoreDamaged if it cannot be read.
    """
    seasons = store.seasons.all()
    if name is not None:
        by_name = {season.name: season for season in seasons}
        # A season that is missing may be damaged: `get` raises the right error.
        return by_name.get(name) or store.seasons.get(name)
    if not seasons:
        damage = store.seasons.damage_lines()
        if damage:
            raise StoreDamaged(damage[0])
        raise NotOnLadder("this ladder has no season: open one with `ladder season NAME`")
    opened = open_seasons(seasons)
    if len(opened) > 1:
        names = ", ".join(season.name for season in opened)
        raise UserError(f"several seasons are open: name one of {names} with --season")
    return opened[0] if opened else seasons[-1]


def open_seasons(seasons: Sequence[StoredSeason]) -> list[StoredSeason]:
    """Return the seasons that are open and no tournament's."""
    return [season for season in seasons if season.closed_at is None and season.tournament is None]


def checked_settings(season: SeasonSettings) -> SeasonSettings:
    """Return the settings of a season in the form in which it is opened for rated games.

    Seat A always begins, and the clock and the packages are checked and written in one way. Raises
    an error for a clock or a package that makes no sense.
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
    """Return rules like these by which seat A begins each game, instead of a roll of the dice.

    Each bot of a rotation sits in seat A once, so that a roll would only add luck. The name of a
    preset gets an addition that says so.
    """
    if rules.first_player == "seat_a":
        return rules
    name = rules.name
    if name in PRESETS:
        name += _SEAT_A
    return replace(rules, name=name, first_player="seat_a")


def preset_of(name: str) -> RuleSet | None:
    """Return the preset of which a season's rules have the name; None for rules of its own."""
    return PRESETS.get(name.removesuffix(_SEAT_A))


def open_season(
    store: Store,
    settings: SeasonSettings,
    fresh: FreshSeed | None = None,
    submissions_until: datetime | None = None,
    by: Actor = MACHINE,
) -> SeasonInfo:
    """Open a season, and return its public facts.

    fresh              returns the season's secret seed; None draws a random one
    submissions_until  deadline after which the ladder takes in no bots for the season; None: none
    by                 the person or program that opens it, for the audit log
    """
    if fresh is None:
        # Imported only here, since it loads the whole SDK.
        from deepsea_sdk.entropy import fresh_seed

        fresh = fresh_seed
    deadline_ms = None if submissions_until is None else milliseconds(submissions_until)
    stored = store.seasons.open(settings, fresh(), submissions_until=deadline_ms, actor=by)
    return season_info(stored)


def close_season(
    store: Store, name: str, by: Actor = MACHINE, *, at_once: bool = True
) -> ClosedSeason:
    """Close a season, so that no more of its games are started; those under way still count.

    at_once  True closes the season now. False ends its submissions now, and closes it only if every
             bot has played enough games; otherwise the result says what the season waits for. So
             nobody keeps the rank of a former version by replacing it just before the end.
    by       the person or program that closes it, for the audit log
    """
    if not at_once:
        unfinished = _end_submissions(store, name, by)
        if unfinished is not None:
            return ClosedSeason(name, seed=None, in_play=0, unfinished=unfinished)
    store.seasons.close(name, by)
    # Games of killed runs still count as under way until their leases are ended. The second call
    # of `close` changes no state: it counts the games again, and reveals the seed if none is left.
    take_back(store)
    seed, in_play = store.seasons.close(name)
    return ClosedSeason(name, seed, in_play)


def _end_submissions(store: Store, name: str, by: Actor) -> Unfinished | None:
    """Take in no more bots for a season, and return what it has to wait for before it is closed.

    Return None if it need not wait for any bot's games or submission.
    """
    bots, submissions = store.seasons.end_submissions(name, by)
    if not bots and not submissions:
        return None
    provisional_games = store.seasons.get(name).settings.pairing.provisional_games
    return Unfinished(tuple(bots), max(1, provisional_games), submissions)


def isolation_trouble(isolation: Isolation) -> str | None:
    """Return why this machine cannot play a season with this isolation, with a remedy.

    Return None if it can play it.
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
    """Return a note that this machine lacks control groups, and how bots are timed without them.

    Return None if it lacks none, or if the isolation needs none.
    """
    if isolation == "process":
        return None
    from deepsea_referee.sandbox.cgroup import hierarchies

    groups = hierarchies()
    missing = groups.missing()
    if not missing:
        return None
    timing = ""
    if not groups.counts_cpu:  # `rated_games.hosting` takes the wall clock then
        timing = "bots are charged the wall time, also while others use the CPUs; "
    return f"no control groups here for {', '.join(missing)}: {timing}see `deepsea-referee doctor`"

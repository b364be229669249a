"""Checks of a ladder's machine, each with a remedy for its operator.

Invariants: nothing but a test is written; damage ends the checks, which read what it is in; each
check says what was found, and what to do if that is not enough; a ladder on a database server has
no files here, so none are looked at.

Compares stored ratings with those that follow from the games.

Invariant: a check compares bit for bit, and changes nothing.
"""

from __future__ import annotations

import shlex
import ssl
import stat
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import chain, islice
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from deepsea_arena.status import upkeep
from deepsea_ladder.backup import season_differences, unfinished_copies
from deepsea_ladder.chain import Prove, RecordedGame, prove
from deepsea_ladder.errors import StoreDamaged, StoreError
from deepsea_ladder.model import StoredSeason, milliseconds
from deepsea_ladder.rating import Audit
from deepsea_ladder.store import Store
from deepsea_ladder.store.database import find_damage
from deepsea_referee.workbench.advice import CheckResult
from deepsea_referee.workers import Link, Perform, results_in_order

LEAST_DAYS = 14
"""Days that a certificate has to be good for yet."""
SLACK_S = 60
"""By how much the newest stored time may be ahead of the clock, which is set back now and then."""


def examine(store: Store, certificate: Path | None, key: Path | None) -> Iterator[CheckResult]:
    """The checks of a ladder's machine; with a certificate and its key, these too."""
    yield from _permissions(store.database.path, key)
    yield _writable(store)
    content = _content(store)
    yield content
    if not content.ok:
        return  # the other checks read it
    yield from upkeep(store.counts.read())
    yield _copies(store)
    yield _clock(store)
    yield _sandbox(store)
    if certificate is not None:
        yield _certificate(certificate, key, store.now() // 1000)


def _permissions(ladder: Path | None, key: Path | None) -> Iterator[CheckResult]:
    """The check that no other user can read secret seeds or replace the ladder's file."""
    asked: dict[Path, tuple[int, str]] = {}
    if ladder is not None:
        place = ladder.resolve()
        asked[place.parent] = (0o022, "go-w")
        asked |= {Path(f"{place}{end}"): (0o077, "go=") for end in ("", "-wal", "-shm")}
    if key is not None:
        asked[key.resolve()] = (0o027, "g-w,o=")  # its group may be a proxy's
    modes = {path: path.stat().st_mode for path in asked if path.exists()}
    # In a folder like /tmp others make files and replace none.
    wrong = [
        f"chmod {asked[path][1]} {path}"
        for path, mode in modes.items()
        if mode & asked[path][0] and not mode & stat.S_ISVTX
    ]
    if modes:
        who = "others may" if wrong else "nobody else may"
        found = f"{who} read or replace what is secret in {', '.join(map(str, modes))}"
        yield CheckResult("permissions", not wrong, True, found, "; ".join(wrong))


def _writable(store: Store) -> CheckResult:
    trouble = ""
    try:
        store.database.check_writable()
    except StoreError as error:
        trouble = str(error)
    remedy = "run this as the ladder's user; free some space if the disk is full"
    found = trouble or f"{store.database} can be written"
    return CheckResult("store", not trouble, True, found, remedy)


def _content(store: Store) -> CheckResult:
    found = "; ".join(find_damage(store.database))
    remedy = "restore a backup at another place: `ladder restore BACKUP --store FILE`"
    return CheckResult("content", not found, True, found or "no stored value is damaged", remedy)


def _copies(store: Store) -> CheckResult:
    """The check that no killed backup has left a copy, which has the seeds of games to come."""
    copies = [shlex.quote(str(copy)) for copy in unfinished_copies(store)]
    found = "no unfinished copy of a ladder is left"
    if copies:
        found = f"killed backups or restores left copies, with secret seeds: {', '.join(copies)}"
    remedy = f"rm -r {' '.join(copies)}; the next backup to the same folder does it, too"
    return CheckResult("copies", not copies, True, found, remedy)


def _clock(store: Store) -> CheckResult:
    """Stored times are the clock's own, so none is ahead of it unless it was wrong then or is."""
    stored = [milliseconds(game.played_at) for game in store.history.latest(1)]
    stored += [milliseconds(entry.at) for entry in store.audit.latest(1)]
    ahead_s = (max(stored, default=0) - store.now()) // 1000
    wrong = ahead_s > SLACK_S
    found = f"the newest stored time is {ahead_s} s ahead" if wrong else "no stored time is ahead"
    remedy = "set the clock, and have it kept right: `timedatectl set-ntp true`"
    return CheckResult("clock", not wrong, True, found, remedy)


def _sandbox(store: Store) -> CheckResult:
    from deepsea_referee.sandbox import probe

    opened = [one.settings for one in store.seasons.all() if one.closed_at is None]
    found = probe.checks()
    missing = {check.name for check in found if check.needed and not check.ok}
    # A service may have control groups that a shell has not.
    needed = any(one.isolation == "sandbox" for one in opened) and (
        missing != {"control groups"} or any(one.limits.require_cgroups for one in opened)
    )
    remedy = "see `deepsea-referee doctor`, by the user and as the service that plays games"
    return CheckResult("sandbox", not missing, needed, probe.verdict(found), remedy)


def _certificate(chain: Path, key: Path | None, now_s: int) -> CheckResult:
    words = ("openssl", "x509", "-noout", "-enddate", "-in", str(chain))
    try:
        if key is not None:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(chain, key, lambda: "")
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ValueError("it is no certificate in PEM")
        end_s = ssl.cert_time_to_seconds(done.stdout.strip().removeprefix("notAfter="))
    except (OSError, ValueError) as error:  # without the program openssl, too
        days, found = -1, f"{chain} cannot be used: {error}"
    else:
        days = (end_s - now_s) // 86_400
        found = f"{chain} is good for {days} more days" if days >= 0 else f"{chain} has ended"
    remedy = "renew it, or see why nothing has; `serve` takes the new files without a restart"
    return CheckResult("certificate", days >= LEAST_DAYS, True, found, remedy)


Progress: TypeAlias = Callable[[int], AbstractContextManager[Callable[[int], object]]]
PORTION = 50
"""Games that a worker takes at once. Fewer than two portions are not worth a worker's start."""


def no_progress(games: int) -> AbstractContextManager[Callable[[int], object]]:
    """Show nothing."""
    return nullcontext(lambda more: None)


class RatingCheck(Struct, frozen=True, kw_only=True):
    """A season's stored ratings, compared with those that follow from its games."""

    season: str
    games: int
    sound: bool
    differences: tuple[str, ...]
    """The first differences, one line each."""


def check_ratings(
    store: Store,
    season_name: str | None = None,
    *,
    records: bool = False,
    workers: int = 1,
    progress: Progress = no_progress,
) -> tuple[RatingCheck, ...]:
    """Compare one season or all.

    records   as for `season_differences`
    workers   how many processes re-run records; the result is the same
    progress  called with the number of games, for what is called with how many more were re-run
    Raises `StoreDamaged` if the database is damaged, RefereeError if a worker ended.
    """
    if damage := find_damage(store.database):
        raise StoreDamaged(f"the ladder at {store.database} is damaged: {damage[0]}")
    seasons = _seasons(store, season_name)
    games = [store.queue.counts(season).done for season in seasons]
    checks = []
    with progress(sum(games)) as on_games:
        proof = prove_with(workers, on_games)
        for season, number in zip(seasons, games, strict=True):
            found = tuple(season_differences(store, season, records=records, proof=proof))
            checks.append(
                RatingCheck(
                    season=season.name,
                    games=number,
                    sound=not found,
                    differences=found,
                )
            )
    return tuple(checks)


def _seasons(store: Store, name: str | None) -> Sequence[StoredSeason]:
    return store.seasons.all() if name is None else [store.seasons.get(name)]


def audit_ratings(store: Store, season_name: str | None = None) -> dict[str, Audit]:
    """Compare the ratings of one season or all, by name, with those by the package `trueskill`."""
    return {season.name: store.ratings.audit(season) for season in _seasons(store, season_name)}


def prove_with(
    workers: int, on_games: Callable[[int], object] = lambda games: None, *, portion: int = PORTION
) -> Prove:
    """A way to look at games with so many workers.

    on_games  receives how many more games have been looked at
    Raises RefereeError if a worker ended.
    """

    def look(games: Iterable[RecordedGame]) -> Iterator[str]:
        left = iter(games)
        portions: Iterator[list[RecordedGame]] = iter(lambda: list(islice(left, portion)), [])
        first = list(islice(portions, 2))
        portions = chain(first, portions)
        if workers == 1 or len(first) < 2:
            results: Iterable[tuple[int, list[str]]] = map(_proved, portions)
        else:
            name = "a worker that re-runs records"
            results = results_in_order(_prover, portions, workers, name)
        for number, differences in results:
            yield from differences
            on_games(number)

    return look


def _proved(games: Sequence[RecordedGame]) -> tuple[int, list[str]]:
    """The number of the games, and their differences."""
    return len(games), list(prove(games))


@contextmanager
def _prover(link: Link) -> Iterator[Perform]:
    """The setup of a worker."""
    yield _proved

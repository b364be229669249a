"""Checks of a ladder's machine and of its stored ratings.

Start reading at `examine`, which `ladder doctor` calls, and `check_ratings`.

Invariants: nothing but a test is written; damage of the store ends the checks of the machine, since
the other ones read the store; each check has its finding and a remedy; a ladder on a database
server has no files here, so none are looked at; ratings are compared bit for bit.
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
from deepsea_referee.workers import Link, TaskFunction, results_in_order

LEAST_DAYS = 14
"""Least number of days for which a certificate has to be valid."""
SLACK_S = 60
"""Seconds by which the newest stored time may be ahead of the clock.

A clock is set back a little now and then.
"""


def examine(store: Store, certificate: Path | None, key: Path | None) -> Iterator[CheckResult]:
    """Yield the results of all checks of a ladder's machine: files, store, clock and sandbox.

    A certificate is checked with its key if one is given. If stored values are damaged, the checks
    that read the store are left out.
    """
    yield from _permissions(store.database.path, key)
    yield _writable(store)
    content = _content(store)
    yield content
    if not content.ok:
        return
    yield from upkeep(store.counts.read())
    yield _copies(store)
    yield _clock(store)
    yield _sandbox(store)
    if certificate is not None:
        yield _certificate(certificate, key, store.now() // 1000)


def _permissions(ladder: Path | None, key: Path | None) -> Iterator[CheckResult]:
    """Check that no other user can read secret seeds or replace the ladder's files.

    ladder  the file of the database; None if it is on a server
    key     the private key of the certificate; None if there is none

    Yield no check if none of the files exists.
    """
    # For each file the bits of the mode that it must not have, and the mode for chmod without them.
    forbidden_modes: dict[Path, tuple[int, str]] = {}
    if ladder is not None:
        database = ladder.resolve()
        forbidden_modes[database.parent] = (0o022, "go-w")
        for suffix in ("", "-wal", "-shm"):
            forbidden_modes[Path(f"{database}{suffix}")] = (0o077, "go=")
    if key is not None:
        # The group may read the key: a proxy may belong to it.
        forbidden_modes[key.resolve()] = (0o027, "g-w,o=")
    existing_paths = [path for path in forbidden_modes if path.exists()]
    if not existing_paths:
        return
    remedies = []
    for path in existing_paths:
        forbidden_bits, chmod_mode = forbidden_modes[path]
        mode = path.stat().st_mode
        # In a folder with the sticky bit, like /tmp, others can make files but replace none.
        is_sticky = bool(mode & stat.S_ISVTX)
        if mode & forbidden_bits and not is_sticky:
            remedies.append(f"chmod {chmod_mode} {path}")
    subject = "others may" if remedies else "nobody else may"
    finding = f"{subject} read or replace what is secret in {', '.join(map(str, existing_paths))}"
    yield CheckResult(
        "permissions", ok=not remedies, needed=True, found=finding, remedy="; ".join(remedies)
    )


def _writable(store: Store) -> CheckResult:
    """Check that the store can be written."""
    trouble = ""
    try:
        store.database.check_writable()
    except StoreError as error:
        trouble = str(error)
    remedy = "run this as the ladder's user; free some space if the disk is full"
    finding = trouble or f"{store.database} can be written"
    return CheckResult("store", ok=not trouble, needed=True, found=finding, remedy=remedy)


def _content(store: Store) -> CheckResult:
    """Check that no stored value is damaged."""
    damage = "; ".join(find_damage(store.database))
    finding = damage or "no stored value is damaged"
    remedy = "restore a backup at another place: `ladder restore BACKUP --store FILE`"
    return CheckResult("content", ok=not damage, needed=True, found=finding, remedy=remedy)


def _copies(store: Store) -> CheckResult:
    """Check that no backup that was killed has left an unfinished copy of the ladder.

    Such a copy has the secret seeds of games to come.
    """
    copies = [shlex.quote(str(copy)) for copy in unfinished_copies(store)]
    finding = "no unfinished copy of a ladder is left"
    if copies:
        finding = f"killed backups or restores left copies, with secret seeds: {', '.join(copies)}"
    remedy = f"rm -r {' '.join(copies)}; the next backup to the same folder does it, too"
    return CheckResult("copies", ok=not copies, needed=True, found=finding, remedy=remedy)


def _clock(store: Store) -> CheckResult:
    """Check that the newest stored times are not ahead of the clock.

    All times were stored by this clock. If one is ahead, the clock was wrong then, or is wrong now.
    """
    newest_ms = [milliseconds(game.played_at) for game in store.history.latest(1)]
    newest_ms += [milliseconds(entry.at) for entry in store.audit.latest(1)]
    ahead_s = (max(newest_ms, default=0) - store.now()) // 1000
    is_ahead = ahead_s > SLACK_S
    finding = "no stored time is ahead"
    if is_ahead:
        finding = f"the newest stored time is {ahead_s} s ahead"
    remedy = "set the clock, and have it kept right: `timedatectl set-ntp true`"
    return CheckResult("clock", ok=not is_ahead, needed=True, found=finding, remedy=remedy)


def _sandbox(store: Store) -> CheckResult:
    """Check that bots can be run in the sandbox on this machine.

    That is needed if an open season uses the sandbox. If only control groups are missing, it is
    needed only if a season requires them: the service that plays games may have control groups
    although the shell of this command has none.
    """
    from deepsea_referee.sandbox import probe

    open_seasons = [stored.settings for stored in store.seasons.all() if stored.closed_at is None]
    parts = probe.checks()
    missing = {part.name for part in parts if part.needed and not part.ok}
    is_used = any(season.isolation == "sandbox" for season in open_seasons)
    requires_cgroups = any(season.limits.require_cgroups for season in open_seasons)
    lacks_only_cgroups = missing == {"control groups"}
    return CheckResult(
        "sandbox",
        ok=not missing,
        needed=is_used and (requires_cgroups or not lacks_only_cgroups),
        found=probe.verdict(parts),
        remedy="see `deepsea-referee doctor`, by the user and as the service that plays games",
    )


def _certificate(certificate: Path, key: Path | None, now_s: int) -> CheckResult:
    """Check that a certificate fits its key, and is valid for `LEAST_DAYS` more days."""
    is_valid = False
    try:
        if key is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            # With an empty password an encrypted key is an error, and nobody is asked for one.
            context.load_cert_chain(certificate, key, password="")
        end_s = _certificate_end_s(certificate)
    except (OSError, ValueError) as error:  # OSError: the program openssl is missing, too
        finding = f"{certificate} cannot be used: {error}"
    else:
        days = (end_s - now_s) // 86_400
        is_valid = days >= LEAST_DAYS
        finding = f"{certificate} is good for {days} more days"
        if days < 0:
            finding = f"{certificate} has ended"
    remedy = "renew it, or see why nothing has; `serve` takes the new files without a restart"
    return CheckResult("certificate", ok=is_valid, needed=True, found=finding, remedy=remedy)


def _certificate_end_s(certificate: Path) -> int:
    """Return the time at which a certificate ends, in seconds since 1970, by the program openssl.

    Raises ValueError if the file is no certificate, OSError if there is no program openssl.
    """
    command = ("openssl", "x509", "-noout", "-enddate", "-in", str(certificate))
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        raise ValueError("it is no certificate in PEM")
    return ssl.cert_time_to_seconds(process.stdout.strip().removeprefix("notAfter="))


# ---------------------------------------------------------------------------------- stored ratings

Progress: TypeAlias = Callable[[int], AbstractContextManager[Callable[[int], object]]]
"""A display of progress.

It is called with the number of all games, and returns a context whose value is called with the
number of further games that are done.
"""
PORTION = 50
"""Number of games that a worker takes at once.

Fewer than two portions are re-run in this process, since a worker takes longer to start.
"""


def no_progress(games: int) -> AbstractContextManager[Callable[[int], object]]:
    """Return a `Progress` context that shows nothing."""
    return nullcontext(lambda more_games: None)


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
    """Compare the stored ratings of one season, or of all, with those that its games give.

    records   True also re-runs every record: see `season_differences`
    workers   number of processes that re-run records; the result is the same with any
    progress  shows how many records were re-run

    Raises StoreDamaged if the database is damaged, RefereeError if a worker ended.
    """
    if damage := find_damage(store.database):
        raise StoreDamaged(f"the ladder at {store.database} is damaged: {damage[0]}")
    seasons = _seasons(store, season_name)
    game_counts = [store.queue.counts(season).done for season in seasons]
    checks = []
    with progress(sum(game_counts)) as on_games:
        prove_games = prove_with(workers, on_games)
        for season, game_count in zip(seasons, game_counts, strict=True):
            differences = tuple(
                season_differences(store, season, records=records, proof=prove_games)
            )
            checks.append(
                RatingCheck(
                    season=season.name,
                    games=game_count,
                    sound=not differences,
                    differences=differences,
                )
            )
    return tuple(checks)


def _seasons(store: Store, name: str | None) -> Sequence[StoredSeason]:
    """Return the season of that name, or all seasons if there is no name."""
    return store.seasons.all() if name is None else [store.seasons.get(name)]


def audit_ratings(store: Store, season_name: str | None = None) -> dict[str, Audit]:
    """Compare ratings with those of the package `trueskill`; return the audits by season name.

    Without a name all seasons are compared.
    """
    return {season.name: store.ratings.audit(season) for season in _seasons(store, season_name)}


def prove_with(
    workers: int,
    on_games: Callable[[int], object] = lambda games: None,
    *,
    portion_size: int = PORTION,
) -> Prove:
    """Return a function that re-runs recorded games, and yields the differences from the records.

    workers       number of processes that re-run games
    on_games      called with the number of further games that were re-run
    portion_size  number of games that a worker takes at once

    The function raises RefereeError if a worker ended.
    """

    def prove_games(games: Iterable[RecordedGame]) -> Iterator[str]:
        """Re-run the games, and yield a line for each difference from their records."""
        portions = _portions(games, portion_size)
        # A worker takes longer to start than one portion takes, so look whether there are two.
        first_portions = list(islice(portions, 2))
        all_portions = chain(first_portions, portions)
        results: Iterable[tuple[int, list[str]]]
        if workers == 1 or len(first_portions) < 2:
            results = map(_prove_portion, all_portions)
        else:
            name = "a worker that re-runs records"
            results = results_in_order(_proving_worker, all_portions, workers, name)
        for game_count, differences in results:
            yield from differences
            on_games(game_count)

    return prove_games


def _portions(games: Iterable[RecordedGame], size: int) -> Iterator[list[RecordedGame]]:
    """Yield the games in lists of this size; the last one may be shorter."""
    remaining = iter(games)
    while portion := list(islice(remaining, size)):
        yield portion


def _prove_portion(games: Sequence[RecordedGame]) -> tuple[int, list[str]]:
    """Re-run games, and return their number and their differences."""
    return len(games), list(prove(games))


@contextmanager
def _proving_worker(link: Link) -> Iterator[TaskFunction]:
    """Set up a worker, and yield its function that re-runs a portion of games."""
    yield _prove_portion

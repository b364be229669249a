"""Upkeep of a ladder: status, games set aside, backups, and the ratings."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deepsea_cli.errors import DONE, NEGATIVE
from deepsea_cli.ladder.options import (
    Place,
    check_is_here,
    open_store,
    place_option,
    season_option,
    store_option,
)
from deepsea_cli.options import needs_linux, number_option, path_option
from deepsea_cli.output import (
    closed_or_paused,
    count,
    counting,
    echo,
    minute,
    peculiarities,
    print_check,
    print_extensions,
    print_json,
)
from deepsea_ladder.accounts import MACHINE
from deepsea_ladder.limits import size_in_words
from deepsea_ladder.rating import TOLERANCE, Audit
from deepsea_referee.errors import UserError

if TYPE_CHECKING:
    from deepsea_arena.doctor import RatingCheck
    from deepsea_arena.status import LadderStatus, SeasonStatus
    from deepsea_ladder.model import BotConduct, LadderCounts

LISTED = 10


@click.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@place_option
@click.pass_context
def status(ctx: click.Context, *, place: Place, as_json: bool) -> None:
    """Show each season's queue and leases, the rate of games, and problems.

    Exit status: 0, or 1 if something that is stored is damaged.
    """
    from deepsea_arena.status import status_document

    with place.opened(own=True) as ladder:
        found = ladder.status()
    if as_json:
        print_json(status_document(found))
    else:
        _show_status(found)
    ctx.exit(NEGATIVE if found.counts.damage else DONE)


@click.command("doctor")
@path_option("--tls-cert", help="The certificate chain that is served, as PEM.")
@path_option("--tls-key", help="Its private key, as PEM.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@store_option
@click.pass_context
def doctor(
    ctx: click.Context, store_text: str, tls_cert: Path | None, tls_key: Path | None, as_json: bool
) -> None:
    """Check the ladder's machine: files, disk, backup, runner, clock, sandbox, certificate.

    Exit status: 0 all is well, 1 something must be done.
    """
    needs_linux("ladder doctor")
    from deepsea_arena.doctor import examine

    with open_store(store_text) as store:
        checks = list(examine(store, tls_cert, tls_key))
    fine = all(check.ok for check in checks if check.needed)
    if as_json:
        print_json({"fine": fine, "checks": [asdict(check) for check in checks]})
    else:
        for one in checks:
            print_check(one.ok, one.needed, f"{one.name}: {one.found}", one.remedy)
    ctx.exit(DONE if fine else NEGATIVE)


def _show_status(found: LadderStatus) -> None:
    out = found.taken_out
    echo(f"{found.store}: {count(found.bots, 'bot')}, {count(len(out), 'bot')} taken out")
    for bot in out:
        echo(f"  {bot.bot} is {bot.state}: {bot.reason}")
    for copy in found.copies[:LISTED]:
        echo(f"  {copy.version}: same files as {copy.same_files_as}")
    if (more := len(found.copies) - LISTED) > 0:
        echo(f"  and {count(more, 'more version')} with files of other authors")
    if found.shown and found.played and found.shown not in found.played:
        played = " and ".join(found.played)
        echo(f"pages show season {found.shown}, but games of {played} are played")
    _show_counts(found.counts)
    if found.runner is not None:
        echo(f"the runner: {found.runner}")
    for season in found.seasons:
        _show_season(season)
    if waiting := found.submissions:
        click.echo()
        echo(f"{count(len(waiting), 'submission')}: `ladder run` checks them")
        for one in waiting[:LISTED]:
            games = f", game {one.games} of {one.of_games}" if one.of_games else ""
            echo(f"  {f'{one.bot} ' if one.bot else ''}of {one.author}: {one.state}{games}")
    if analyses := found.analyses:
        click.echo()
        echo(f"{count(len(analyses), 'game')} to be analysed: `ladder run` does it")
        for analysis in analyses[:LISTED]:
            echo(f"  {analysis.game_id}: {analysis.state}")
    click.echo()
    echo("recently:")
    for entry in found.audit:
        echo(f"  {minute(entry.at)} {entry.kind} {entry.subject}: {entry.note}")


def _show_counts(found: LadderCounts) -> None:
    """Sizes, runners and decisions, with what to do where something is wrong."""
    from deepsea_arena.status import upkeep

    free = found.disk_free_bytes
    room = "" if free is None else f", {size_in_words(free)} free on its disk"
    echo(f"{count(found.games, 'game')} in {size_in_words(found.store_bytes)}{room}")
    for check in upkeep(found):
        if not check.ok:
            echo(f"{check.found}: {check.remedy}")
    for line in found.resting_runners:
        echo(line)
    if times := found.recent_decision_seconds:
        slow = [f"{float(part):.0%} within {1000 * time:.1f} ms" for part, time in times.items()]
        faults = [f"{number} {kind}" for kind, number in found.recent_faults.items()]
        newest = count(found.recent_games, "newest game")
        echo(f"decisions in {newest}: {', '.join(slow + faults)}")


def _show_season(found: SeasonStatus) -> None:
    click.echo()
    season = found.season
    echo(f"season {season.name}{closed_or_paused(season)}: {count(found.done, 'game')} played")
    if found.unplayable is not None:
        echo(f"  no game can be scheduled: {found.unplayable}")
    for name in found.unknown_panel:
        echo(f"  no bot has the name {name!r}, which is in its [verdicts] panel")
    echo(f"  head {season.place}: {season.head}")
    for line in peculiarities(season):
        echo(f"  {line}")
    print_extensions(found.extensions)
    if (rate := found.games_per_second) is not None:
        echo(f"  {rate:.2g} games a second recently, the last at {minute(found.last_game_at)}")
    echo(
        f"  waiting {found.waiting}, the oldest for {found.oldest_wait_seconds:.0f} s; "
        f"leased {found.leased}, run out {found.expired}, cancelled {found.cancelled}"
    )
    if found.lost:
        lost = ", ".join(f"{number} {ended}" for ended, number in sorted(found.lost.items()))
        echo(f"  attempts without a result: {lost}")
    for one in found.strikes[:LISTED]:
        echo(f"  {one.bot}: {_strikes(one)}")
    for job in found.leases[:LISTED]:
        echo(f"  {job.game_id} is played by {job.owner}, attempt {job.attempt}")
    if stuck := found.quarantined:
        echo(f"  {count(len(stuck), 'game')} set aside; `ladder requeue GAME` tries one again:")
        for job in stuck[:LISTED]:
            echo(f"  {job.game_id} {job.note}")


def _strikes(line: BotConduct) -> str:
    counted = (
        (line.absences, "in a row without it"),
        (line.spoiled, "of its last 10 forfeited, or with two faults"),
        (line.voids, "of its last 20 void while it was asked"),
    )
    return "games " + ", ".join(f"{number} {words}" for number, words in counted if number)


@click.command("requeue")
@click.argument("game_id", metavar="[GAME]", required=False)
@click.option("--all", "every", is_flag=True, help="All games that were set aside.")
@click.option("--run", "owner", metavar="OWNER", help="What a run does, as `status` names it.")
@store_option
def requeue(*, store_text: str, game_id: str | None, every: bool, owner: str | None) -> None:
    """Retry GAME, which was set aside because it failed too often, or all of these.

    With --run those of a run that has ended without giving up its leases, on another machine: they
    need not wait until the leases expire, nor its checks and analyses. If it still plays, the first
    result of a game counts.

    Only games are set aside: checks and analyses that failed too often have ended, and are asked
    for again.
    """
    if every + (game_id is not None) + (owner is not None) != 1:
        raise UserError("name a game, or --all, or --run OWNER")
    from deepsea_arena.lease_owner import release_leases

    with open_store(store_text) as store:
        if owner is not None:
            echo(f"{count(release_leases(store, owner), 'task')} will be done again")
        elif game_id is None:
            echo(f"{count(store.jobs.requeue_all(actor=MACHINE), 'game')} will be tried again")
        else:
            state = store.jobs.requeue(game_id, MACHINE)
            echo(f"{game_id} is {state} again" if state == "queued" else f"{game_id} is {state}")


# Storage, and the ratings


@click.command("backup")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@store_option
def backup(*, store_text: str, file: Path) -> None:
    """Copy the ladder to the new file FILE while it runs, and verify the copy.

    The copy is a ladder like any other. Keep it as secret as the ladder: it contains the seeds of
    future games.
    """
    from deepsea_ladder.backup import back_up

    with open_store(store_text) as store:
        games = back_up(store, file)
    echo(f"{file}: {count(games, 'game')}, ratings verified to the last bit")


@click.command("restore")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--verify", is_flag=True, help="Re-run every record first.")
@click.option("--dry-run", is_flag=True, help="Only verify FILE; create nothing.")
@store_option
@click.pass_context
def restore(
    ctx: click.Context, *, store_text: str, file: Path, verify: bool, dry_run: bool
) -> None:
    """Create a ladder at an empty place from the backup FILE, after comparing its ratings.

    Exit status: 0 it is sound, 1 it is damaged and nothing was created.
    """
    from deepsea_ladder import backup

    if verify or dry_run:
        if differences := backup.verify(file, records=verify):
            echo(f"{file} is damaged:")
            for line in differences:
                echo(f"  {line}")
            ctx.exit(NEGATIVE)
        again = ", every record played again" if verify else ""
        echo(f"{file} is sound: the same to the last bit{again}")
    if not dry_run:
        games = backup.restore(file, store_text)
        with open_store(store_text) as store:
            echo(f"a ladder with {count(games, 'game')} at {store.database}")


@click.command("upgrade")
@store_option
def upgrade(*, store_text: str) -> None:
    """Migrate the ladder's tables to the schema of this program, in one transaction."""
    from deepsea_ladder.store import migrate
    from deepsea_ladder.store.database import Database
    from deepsea_ladder.store.schema import REVISION

    check_is_here(store_text)
    with closing(Database(store_text)) as database:
        former = migrate.upgrade(database) or "none"
    if former == REVISION:
        echo(f"{database} has this program's schema {REVISION} already")
    else:
        echo(f"{database}: schema {REVISION}, upgraded from {former}")


@click.command("refold")
@season_option
@click.option("--check", is_flag=True, help="Compare bit for bit, all seasons (the default).")
@click.option("--records", is_flag=True, help="Also re-run every record, and compare.")
@click.option(
    "--trueskill", is_flag=True, help="Compare with the package `trueskill`, all seasons."
)
@number_option(
    "--workers",
    help="Processes that re-run records; the result is the same.  [default: one for each CPU]",
)
@click.option("--rewrite", is_flag=True, help="Replace the season's stored ratings.")
@store_option
@click.pass_context
def refold(
    ctx: click.Context,
    *,
    store_text: str,
    season_name: str | None,
    check: bool,
    records: bool,
    workers: int | None,
    trueskill: bool,
    rewrite: bool,
) -> None:
    """Recompute the ratings from the stored games, in their order.

    It compares them with the stored ratings, and exits 1 if any differ, as with --trueskill, which
    computes them with another program.
    """
    if (check or records) + trueskill + rewrite > 1:
        raise UserError("a check, --trueskill and --rewrite exclude each other")
    from deepsea_arena.doctor import audit_ratings, check_ratings
    from deepsea_arena.seasons import find_season
    from deepsea_referee.system import SYSTEM

    with open_store(store_text) as store:
        if trueskill:
            audits = audit_ratings(store, season_name)
            if not all(map(_show_audit, audits, audits.values())):
                ctx.exit(NEGATIVE)
        elif rewrite:
            found = find_season(store, season_name)
            games = count(store.ratings.rewrite(found), "game")
            echo(f"season {found.name}: ratings recomputed from {games}")
        else:
            proof: dict[str, Any] = {}
            if records:
                proof = {"workers": workers or SYSTEM.cpus(), "progress": counting}
            checks = check_ratings(store, season_name, records=records, **proof)
            for season in checks:
                _show_check(season, records=records)
            if not all(season.sound for season in checks):
                ctx.exit(NEGATIVE)


def _show_check(season: RatingCheck, *, records: bool) -> None:
    if season.sound:
        again = ", every record played again" if records else ""
        games = count(season.games, "game")
        echo(f"season {season.season}: {games}, the same to the last bit{again}")
        return
    echo(f"season {season.season}: the stored ratings are not those of its games")
    for line in season.differences:
        echo(f"  {line}")


def _show_audit(season: str, found: Audit) -> bool:
    """Show it; whether the ratings are those of the package but for rounding."""
    agrees = found.difference <= TOLERANCE
    words = f"{found.difference:.1e}" + (f" after game {found.sequence}" if found.sequence else "")
    echo(
        f"season {season}: {count(found.games, 'game')}, "
        f"{'as' if agrees else 'not as'} the package trueskill rates them; largest difference "
        f"{words}, rounding explains {TOLERANCE:.0e}"
    )
    return agrees

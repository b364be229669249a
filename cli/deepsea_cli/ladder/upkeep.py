"""Commands for the upkeep of a ladder: status, games set aside, backups, and checked ratings."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deepsea_cli.errors import DONE, NEGATIVE
from deepsea_cli.ladder.options import (
    Location,
    location_option,
    open_store,
    refuse_if_elsewhere,
    season_option,
    store_option,
)
from deepsea_cli.options import number_option, path_option, require_linux
from deepsea_cli.output import (
    closed_or_paused,
    count,
    echo,
    games_progress,
    minute,
    print_check,
    print_extensions,
    print_json,
    unusual_settings,
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
"""Lines of each list that `status` prints; JSON has all."""


@click.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@location_option
@click.pass_context
def status(ctx: click.Context, *, location: Location, as_json: bool) -> None:
    """Show each season's queue and leases, the rate of games, and problems.

    Exit status: 0, or 1 if something that is stored is damaged.
    """
    from deepsea_arena.status import status_document

    with location.open_ladder(needs_token=True) as ladder:
        ladder_status = ladder.status()
    if as_json:
        print_json(status_document(ladder_status))
    else:
        _print_status(ladder_status)
    ctx.exit(NEGATIVE if ladder_status.counts.damage else DONE)


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
    require_linux("ladder doctor")
    from deepsea_arena.doctor import examine

    with open_store(store_text) as store:
        checks = list(examine(store, tls_cert, tls_key))
    is_fine = all(check.ok for check in checks if check.needed)
    if as_json:
        print_json({"fine": is_fine, "checks": [asdict(check) for check in checks]})
    else:
        for check in checks:
            print_check(check.ok, check.needed, f"{check.name}: {check.found}", check.remedy)
    ctx.exit(DONE if is_fine else NEGATIVE)


def _print_status(status: LadderStatus) -> None:
    """Print a ladder's status: its bots and counts, each season, tasks that wait, the audit log."""
    taken_out = status.taken_out
    echo(f"{status.store}: {count(status.bots, 'bot')}, {count(len(taken_out), 'bot')} taken out")
    for bot in taken_out:
        echo(f"  {bot.bot} is {bot.state}: {bot.reason}")
    _print_copies(status)
    # Readers would look at a season in which nothing happens.
    if status.shown and status.played and status.shown not in status.played:
        played_seasons = " and ".join(status.played)
        echo(f"pages show season {status.shown}, but games of {played_seasons} are played")
    _print_counts(status.counts)
    if status.runner is not None:
        echo(f"the runner: {status.runner}")
    for season in status.seasons:
        _print_season(season)
    _print_tasks(status)
    click.echo()
    echo("recently:")
    for entry in status.audit:
        echo(f"  {minute(entry.at)} {entry.kind} {entry.subject}: {entry.note}")


def _print_copies(status: LadderStatus) -> None:
    """Print the first versions of bots that have the same files as one of another author."""
    for copy in status.copies[:LISTED]:
        echo(f"  {copy.version}: same files as {copy.same_files_as}")
    not_listed = len(status.copies) - LISTED
    if not_listed > 0:
        echo(f"  and {count(not_listed, 'more version')} with files of other authors")


def _print_tasks(status: LadderStatus) -> None:
    """Print the submissions and analyses that wait for a run, or are being done."""
    if status.submissions:
        click.echo()
        echo(f"{count(len(status.submissions), 'submission')}: `ladder run` checks them")
        for submission in status.submissions[:LISTED]:
            bot = f"{submission.bot} " if submission.bot else ""
            games = ""
            if submission.of_games:
                games = f", game {submission.games} of {submission.of_games}"
            echo(f"  {bot}of {submission.author}: {submission.state}{games}")
    if status.analyses:
        click.echo()
        echo(f"{count(len(status.analyses), 'game')} to be analysed: `ladder run` does it")
        for analysis in status.analyses[:LISTED]:
            echo(f"  {analysis.game_id}: {analysis.state}")


def _print_counts(counts: LadderCounts) -> None:
    """Print the ladder's size, its checks that failed, and how fast bots decided recently."""
    from deepsea_arena.status import upkeep

    free_bytes = counts.disk_free_bytes
    free_space = "" if free_bytes is None else f", {size_in_words(free_bytes)} free on its disk"
    echo(f"{count(counts.games, 'game')} in {size_in_words(counts.store_bytes)}{free_space}")
    for check in upkeep(counts):
        if not check.ok:
            echo(f"{check.found}: {check.remedy}")
    for sentence in counts.resting_runners:
        echo(sentence)
    if counts.recent_decision_seconds:
        echo(_recent_decisions(counts))


def _recent_decisions(counts: LadderCounts) -> str:
    """Return a line on the decisions in the newest games: their times, and faults by kind.

    The times are such as "90% within 2.1 ms": 90 % of the decisions took no longer than this.
    """
    times = [
        f"{float(share):.0%} within {1000 * seconds:.1f} ms"
        for share, seconds in counts.recent_decision_seconds.items()
    ]
    faults = [f"{number} {kind}" for kind, number in counts.recent_faults.items()]
    games = count(counts.recent_games, "newest game")
    return f"decisions in {games}: {', '.join(times + faults)}"


def _print_season(status: SeasonStatus) -> None:
    """Print a season's games: their number and rate, those that wait or failed, and strikes."""
    click.echo()
    season = status.season
    echo(f"season {season.name}{closed_or_paused(season)}: {count(status.done, 'game')} played")
    if status.unplayable is not None:
        echo(f"  no game can be scheduled: {status.unplayable}")
    for name in status.unknown_panel:
        echo(f"  no bot has the name {name!r}, which is in its [verdicts] panel")
    echo(f"  head {season.place}: {season.head}")
    for line in unusual_settings(season):
        echo(f"  {line}")
    print_extensions(status.extensions)
    if (rate := status.games_per_second) is not None:
        echo(f"  {rate:.2g} games a second recently, the last at {minute(status.last_game_at)}")
    echo(
        f"  waiting {status.waiting}, the oldest for {status.oldest_wait_seconds:.0f} s; "
        f"leased {status.leased}, run out {status.expired}, cancelled {status.cancelled}"
    )
    if status.lost:
        endings = ", ".join(f"{number} {ending}" for ending, number in sorted(status.lost.items()))
        echo(f"  attempts without a result: {endings}")
    for conduct in status.strikes[:LISTED]:
        echo(f"  {conduct.bot}: {_strike_words(conduct)}")
    for job in status.leases[:LISTED]:
        echo(f"  {job.game_id} is played by {job.owner}, attempt {job.attempt}")
    if quarantined := status.quarantined:
        games = count(len(quarantined), "game")
        echo(f"  {games} set aside; `ladder requeue GAME` tries one again:")
        for job in quarantined[:LISTED]:
            echo(f"  {job.game_id} {job.note}")


def _strike_words(conduct: BotConduct) -> str:
    """Return the numbers of a bot's recent games that count against it, by the reason.

    For example "games 2 in a row without it, 3 of its last 20 void while it was asked".
    """
    games_by_reason = {
        "in a row without it": conduct.absences,
        "of its last 10 forfeited, or with two faults": conduct.spoiled,
        "of its last 20 void while it was asked": conduct.voids,
    }
    reasons = [f"{games} {reason}" for reason, games in games_by_reason.items() if games]
    return f"games {', '.join(reasons)}"


@click.command("requeue")
@click.argument("game_id", metavar="[GAME]", required=False)
@click.option("--all", "all_games", is_flag=True, help="All games that were set aside.")
@click.option("--run", "owner", metavar="OWNER", help="What a run does, as `status` names it.")
@store_option
def requeue(*, store_text: str, game_id: str | None, all_games: bool, owner: str | None) -> None:
    """Retry GAME, which was set aside because it failed too often, or all of these.

    With --run, the games, checks and analyses of a run are done again that has ended on another
    machine without giving up its leases: they need not wait until the leases expire. If the run
    still plays, the first result of a game counts.

    Only games are set aside: checks and analyses that failed too often have ended, and have to be
    asked for again.
    """
    choices = [all_games, game_id is not None, owner is not None]
    if choices.count(True) != 1:
        raise UserError("name a game, or --all, or --run OWNER")
    from deepsea_arena.lease_owner import release_leases

    with open_store(store_text) as store:
        if owner is not None:
            tasks = release_leases(store, owner)
            echo(f"{count(tasks, 'task')} will be done again")
        elif game_id is not None:
            state = store.jobs.requeue(game_id, MACHINE)
            again = " again" if state == "queued" else ""
            echo(f"{game_id} is {state}{again}")
        else:
            games = store.jobs.requeue_all(actor=MACHINE)
            echo(f"{count(games, 'game')} will be tried again")


# ----- Storage, and the ratings


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
        differences = backup.verify(file, records=verify)
        if differences:
            echo(f"{file} is damaged:")
            for line in differences:
                echo(f"  {line}")
            ctx.exit(NEGATIVE)
        records = ", every record played again" if verify else ""
        echo(f"{file} is sound: the same to the last bit{records}")
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

    refuse_if_elsewhere(store_text)
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
            for name, audit in audits.items():
                _print_audit(name, audit)
            if not all(_agrees(audit) for audit in audits.values()):
                ctx.exit(NEGATIVE)
        elif rewrite:
            season = find_season(store, season_name)
            games = count(store.ratings.rewrite(season), "game")
            echo(f"season {season.name}: ratings recomputed from {games}")
        else:
            options: dict[str, Any] = {}
            if records:
                options = {"workers": workers or SYSTEM.cpus(), "progress": games_progress}
            rating_checks = check_ratings(store, season_name, records=records, **options)
            for rating_check in rating_checks:
                _print_rating_check(rating_check, with_records=records)
            if not all(rating_check.sound for rating_check in rating_checks):
                ctx.exit(NEGATIVE)


def _print_rating_check(check: RatingCheck, *, with_records: bool) -> None:
    """Print the result of comparing a season's stored ratings with those computed from its games.

    If they differ, every difference gets a line.

    with_records  True if every record was played again, too
    """
    if check.sound:
        records = ", every record played again" if with_records else ""
        games = count(check.games, "game")
        echo(f"season {check.season}: {games}, the same to the last bit{records}")
        return
    echo(f"season {check.season}: the stored ratings are not those of its games")
    for line in check.differences:
        echo(f"  {line}")


def _agrees(audit: Audit) -> bool:
    """Return True if rounding explains all differences from the package `trueskill`."""
    return audit.difference <= TOLERANCE


def _print_audit(season: str, audit: Audit) -> None:
    """Print the result of comparing a season's ratings with those of the package `trueskill`.

    The line has the number of rated games, says if the ratings agree up to rounding, and names the
    largest difference.
    """
    difference = f"{audit.difference:.1e}"
    number_of_game = audit.sequence  # after this game the difference was largest; 0 for none
    if number_of_game:
        difference += f" after game {number_of_game}"
    agreement = "as" if _agrees(audit) else "not as"
    # Up to TOLERANCE, a difference can come from the rounding of floating-point numbers alone.
    echo(
        f"season {season}: {count(audit.games, 'game')}, {agreement} the package trueskill rates "
        f"them; largest difference {difference}, rounding explains {TOLERANCE:.0e}"
    )

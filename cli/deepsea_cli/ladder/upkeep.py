"""`ladder backup`, `restore` and `upgrade`."""

from __future__ import annotations

from pathlib import Path

import click

from deepsea_cli.errors import NEGATIVE
from deepsea_cli.ladder.options import open_store, store_option
from deepsea_cli.ladder.tables import count
from deepsea_cli.output import echo


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
    from deepsea_arena.backups import check_backup, restore_backup

    if verify or dry_run:
        check = check_backup(file, records=verify)
        if not check.sound:
            echo(f"{file} is damaged:")
            for line in check.differences:
                echo(f"  {line}")
            ctx.exit(NEGATIVE)
        again = ", every record played again" if verify else ""
        echo(f"{file} is sound: the same to the last bit{again}")
    if not dry_run:
        restored = restore_backup(file, store_text)
        echo(f"a ladder with {count(restored.games, 'game')} at {restored.store}")


@click.command("upgrade")
@store_option
def upgrade(*, store_text: str) -> None:
    """Migrate the ladder's tables to the schema of this program, in one transaction."""
    from deepsea_arena.backups import upgrade_ladder

    upgraded = upgrade_ladder(store_text)
    echo(f"{upgraded.store}: upgraded from schema {upgraded.former_schema or 'none'}")

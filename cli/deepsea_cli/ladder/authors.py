"""Commands about rights on a ladder: authors, tokens, codes, the audit log, and its settings.

Invariant: a secret is printed once, by the command that made it, and listed by none.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from deepsea_cli.ladder.options import (
    Location,
    location_option,
    open_store,
    season_option,
    store_option,
)
from deepsea_cli.lazy import LazyCommand, LazyGroup
from deepsea_cli.options import number_option, path_option, read_text
from deepsea_cli.output import Column, columns_of, count, echo, grid, minute, print_document
from deepsea_ladder.limits import CODE_DAYS
from deepsea_referee.errors import UserError

if TYPE_CHECKING:
    from deepsea_ladder.accounts import CodeLine

CUT = "- " * 31 + "8<"
"""The line between two slips of paper."""

VERBS = {
    "list": ("list_authors", "List authors with their role and state."),
    "admin": ("admin", "Make an admin, and print a token."),
    "tokens": ("tokens", "List or end the tokens of an author."),
    "reset": ("reset", "End an author's tokens; print a code for a new one."),
    "rename": ("rename", "Give an author another name."),
    "block": ("block", "Block an author: rights end, bots stay; or lift it."),
    "anonymise": ("anonymise", "Remove an author's name and rights for good."),
    "audit": ("audit", "Print who did what."),
}
"""The commands of `ladder author` in the order of help, with their short help."""


@click.group(
    "author",
    cls=LazyGroup,
    entries={verb: LazyCommand(f"{__name__}:{name}", line) for verb, (name, line) in VERBS.items()},
    words="ladder author",
)
def author() -> None:
    """List and change authors, their rights and tokens."""


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@location_option
def list_authors(*, location: Location, as_json: bool) -> None:
    """List all authors with their role and state."""
    with location.open_ladder(needs_token=True) as ladder:
        authors = ladder.authors()
    if as_json:
        print_document({"authors": authors})
        return
    grid(
        Column("author", [line.author for line in authors], text=True),
        Column("role", [line.role for line in authors], text=True),
        Column("state", [line.state for line in authors], text=True),
        Column("bots", [str(line.bots) for line in authors]),
        Column("tokens", [str(line.tokens) for line in authors]),
        Column("since", [minute(line.created_at) for line in authors], spare=1),
    )


@click.command("overview")
@season_option
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@location_option
def overview(*, location: Location, season_name: str | None, as_csv: bool, as_json: bool) -> None:
    """Show who has joined, submitted what, was refused why, and stands where.

    There is a line for each author, with the bot that stands best, and with versions of other
    authors that have the same files.
    """
    from deepsea_arena.documents import csv_lines, to_object
    from deepsea_arena.status import CSV_COLUMNS, OVERVIEW_COLUMNS

    if as_csv and as_json:
        raise UserError("choose one of --csv and --json")
    with location.open_ladder(needs_token=True) as ladder:
        page = ladder.overview(season=season_name or "")
    if as_json:
        print_document(page)
        return
    if as_csv:
        rows = map(to_object, page.authors)
        click.echo("".join(csv_lines(rows, CSV_COLUMNS)), nl=False)
        return
    echo(f"season {page.season}; times are UTC")
    click.echo()
    grid(*columns_of(OVERVIEW_COLUMNS, page.authors))


@click.command("tokens")
@click.argument("author", metavar="[AUTHOR]", required=False)
@number_option("--revoke", metavar="ID", help="End this token.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@location_option
def tokens(*, location: Location, author: str | None, revoke: int | None, as_json: bool) -> None:
    """List the tokens of AUTHOR, or from afar your own, without their secrets."""
    with location.open_account(author) as ladder:
        if revoke is not None:
            ladder.revoke_token(id=revoke)
            of_author = "" if author is None else f" of {author}"
            echo(f"token {revoke}{of_author} has ended, and what was open with it")
            return
        valid_tokens = ladder.tokens()
    if as_json:
        print_document({"tokens": valid_tokens})
    elif not valid_tokens:
        echo(f"{author} has no valid token; `ladder author reset` prints a code for one")
    else:
        grid(
            Column("id", [str(token.id) for token in valid_tokens]),
            Column("starts", [token.start for token in valid_tokens]),
            Column("label", [token.label for token in valid_tokens], text=True),
            Column("scopes", [" ".join(token.scopes) for token in valid_tokens]),
            Column("last used", [token.last_used or "-" for token in valid_tokens], spare=1),
            Column("until", [minute(token.expires_at) for token in valid_tokens]),
        )


@click.command("reset")
@click.argument("author", metavar="AUTHOR")
@location_option
def reset(*, location: Location, author: str) -> None:
    """End all tokens and sessions of AUTHOR, and print a code for a new token.

    For a token that was lost, or that somebody else may have seen.
    """
    with location.open_ladder(needs_token=True) as ladder:
        code = ladder.reset_author(author=author)
    click.echo(code.code)


@click.command("rename")
@click.argument("author", metavar="AUTHOR")
@click.argument("name", metavar="NAME")
@location_option
def rename(*, location: Location, author: str, name: str) -> None:
    """Give AUTHOR the new name NAME, with all bots and tokens."""
    with location.open_ladder(needs_token=True) as ladder:
        line = ladder.rename_author(author=author, to=name)
    echo(f"{author} is {line.author} now")


@click.command("block")
@click.argument("author", metavar="AUTHOR")
@click.option("--undo", is_flag=True, help="Give the author rights again; old tokens stay dead.")
@location_option
def block(*, location: Location, author: str, undo: bool) -> None:
    """End all tokens and sessions of AUTHOR, who gets no new ones; bots stay."""
    with location.open_ladder(needs_token=True) as ladder:
        account = ladder.block_author(author=author, blocked=not undo)
    if undo:
        state = f"{account.state}; `ladder author reset` prints a code for a new token"
    else:
        bots = count(account.bots, "bot")
        state = f"blocked, with {bots} on the ladder; `ladder disable` takes a bot out"
    echo(f"{account.author} is {state}")


@click.command("anonymise")
@click.argument("author", metavar="AUTHOR")
@click.option("--yes", is_flag=True, help="Do it: it cannot be undone.")
@location_option
def anonymise(*, location: Location, author: str, yes: bool) -> None:
    """Remove the name and all rights of AUTHOR for good; bots and games stay."""
    if not yes:
        raise UserError(f"{author} would lose name and rights for good: say --yes")
    with location.open_ladder(needs_token=True) as ladder:
        account = ladder.anonymise_author(author=author)
    echo(f"{author} is {account.author} now, with {count(account.bots, 'bot')} on the ladder")


@click.command("admin")
@click.option("--author", metavar="NAME", default="", help="The admin to be.  [default: admin]")
@click.option("--label", metavar="TEXT", default="", help="What the token is for, such as laptop.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@store_option
def admin(*, store_text: str, author: str, label: str, as_json: bool) -> None:
    """Make an admin, and print a token with every right, this one time."""
    from deepsea_arena.api.local import ladder_of

    with open_store(store_text) as store:
        new_token = ladder_of(store).admin_token(author, label)
    if as_json:
        print_document(new_token)
    else:
        click.echo(new_token.token)


@click.command("codes")
@number_option("--count", help="Make codes for new authors.")
@path_option(
    "--authors",
    "authors_file",
    help="Make a code for each name, one on a line or in the column `name` of a CSV file.",
)
@number_option("--days", show_default=f"{CODE_DAYS}", help="Days until they end.")
@click.option("--slips", is_flag=True, help="Print slips of paper to cut out.")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
@click.option("--url", metavar="URL", help="The ladder's address, for links.")
@number_option("--revoke", metavar="ID", help="End this code.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@location_option
def codes(
    *,
    location: Location,
    count: int | None,
    authors_file: Path | None,
    days: int | None,
    slips: bool,
    as_csv: bool,
    url: str | None,
    revoke: int | None,
    as_json: bool,
) -> None:
    """List the codes that may be redeemed, without their secrets; or make some.

    A code lets somebody in once. A code of --count is for a new author, who chooses a name; a code
    of --authors is for the author of that name, new or not.
    """
    if slips + as_csv + as_json > 1:
        raise UserError("choose one of --slips, --csv and --json")
    names = [] if authors_file is None else _read_names(authors_file)
    is_making = bool(count or authors_file)
    has_options_of_new_codes = bool(days or slips or as_csv or url)
    if (is_making and not count and not names) or (not is_making and has_options_of_new_codes):
        raise UserError("say for how many: --count N, or --authors FILE")
    if is_making and revoke is not None:
        raise UserError("--revoke and new codes exclude each other")
    with location.open_ladder(needs_token=True) as ladder:
        if revoke is not None:
            ladder.revoke_code(id=revoke)
            echo(f"code {revoke} has ended")
            return
        if is_making:
            lines = ladder.create_codes(count=count or 0, authors=names, days=days or 0)
        else:
            lines = ladder.codes()
    address = url.rstrip("/") if url else None
    if as_json:
        print_document({"codes": lines})
    elif slips:
        _print_slips(lines, address)
    elif is_making:
        _print_new_codes(lines, address, as_csv=as_csv)
    elif not lines:
        echo("no code may be redeemed; `ladder codes --count N` makes some")
    else:
        grid(
            Column("id", [str(line.id) for line in lines]),
            Column("for", [line.author or "anybody" for line in lines], text=True),
            Column("until", [minute(line.expires_at) for line in lines]),
        )


def _read_names(file: Path) -> list[str]:
    """Return the authors' names in a file: one on each line, or those of a CSV file.

    Empty lines and lines that begin with # have no name.
    """
    # A file of Windows may begin with a byte order mark.
    lines = read_text(file).removeprefix("\ufeff").splitlines()
    if file.suffix.lower() == ".csv":
        return _names_in_csv(file, lines)
    stripped_lines = [line.strip() for line in lines]
    return [line for line in stripped_lines if line and not line.startswith("#")]


def _names_in_csv(file: Path, lines: Sequence[str]) -> list[str]:
    """Return the names in the column `name` of a CSV file, without empty cells.

    Columns are separated by commas, or by semicolons as spreadsheets do in some languages. Raises
    UserError if no column has this name.

    file  path of the file, for the error
    """
    first_line = lines[0] if lines else ""
    delimiter = ";" if first_line.count(";") > first_line.count(",") else ","
    rows = list(csv.reader(lines, delimiter=delimiter))
    headings = [cell.strip().lower() for cell in rows[0]] if rows else []
    if "name" not in headings:
        raise UserError(f"{file}: its first line names the columns, and none is `name`")
    column = headings.index("name")
    # A row that is too short has no name.
    names = [row[column].strip() for row in rows[1:] if len(row) > column]
    return [name for name in names if name]


def _print_new_codes(codes: Sequence[CodeLine], url: str | None, *, as_csv: bool) -> None:
    """Print new codes, each with the name of its author if it is for a certain author.

    url     URL of the ladder, with which each code is printed as a link that redeems it
    as_csv  True to print the columns `name`, `code` and `link`
    """
    from deepsea_arena.documents import csv_lines

    link_prefix = f"{url}/join#" if url else ""
    if not as_csv:
        for code in codes:
            click.echo(f"{link_prefix}{code.code}  {code.author}".rstrip())
        return
    rows = []
    for code in codes:
        link = f"{link_prefix}{code.code}" if url else ""
        rows.append({"name": code.author, "code": code.code, "link": link})
    click.echo("".join(csv_lines(rows, ("name", "code", "link"))), nl=False)


def _print_slips(codes: Sequence[CodeLine], url: str | None) -> None:
    """Print slips to cut out: each has a code, how to use it, and until when.

    url  URL of the ladder; without it slips do not say how to use the code
    """
    for code in codes:
        for_author = f": {code.author}" if code.author else ""
        click.echo(CUT)
        click.echo(f"Your code for the ladder{for_author}")
        click.echo()
        click.echo(f"    {code.code}")
        click.echo()
        if url:
            click.echo(f"In a browser:  {url}/join")
            click.echo(f"In a terminal: deepsea-referee ladder login {url} --code -")
        click.echo(f"Good once, until {minute(code.expires_at)} UTC. Keep it to yourself.")
    click.echo(CUT)


@click.command("audit")
@click.option("--author", metavar="NAME", default="", help="Only what NAME did, or is about NAME.")
@number_option("--limit", most=1000, default=100, help="Number of entries, the newest.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@location_option
def audit(*, location: Location, author: str, limit: int, as_json: bool) -> None:
    """Print the audit log, the newest entries first: who did what, from where."""
    with location.open_ladder(needs_token=True, author=author or None) as ladder:
        entries = ladder.audit(limit=limit, everybody=not author)
    if as_json:
        print_document({"entries": entries})
        return
    for entry in entries:
        address = f" at {entry.address}" if entry.address else ""
        actor = f"{entry.actor or 'the ladder'}{address}"
        note = f": {entry.note}" if entry.note else ""
        echo(f"{entry.at:%Y-%m-%d %H:%M:%S} {actor}: {entry.kind} {entry.subject}{note}")


@click.command("settings")
@click.argument("name", metavar="[NAME]", required=False)
@click.argument("value", metavar="[VALUE]", type=int, required=False)
@click.option("--default", is_flag=True, help="Give NAME its default again.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@location_option
def settings(
    *, location: Location, name: str | None, value: int | None, default: bool, as_json: bool
) -> None:
    """Print the settings of the ladder, or NAME alone; with VALUE change it.

    A change is in force within 5 seconds, also where the ladder is served.
    """
    if default and (name is None or value is not None):
        raise UserError("--default: name the setting, and no value")
    is_change = default or value is not None
    with location.open_ladder(needs_token=is_change) as ladder:
        if is_change:
            ladder.set_setting(name=name or "", value=value)  # with None its default again
        shown_settings = ladder.settings(name=name or "")
    if as_json:
        print_document({"settings": shown_settings})
        return
    # Printed without `grid`, which cuts words to fit the terminal.
    name_width = max(len(setting.name) for setting in shown_settings)
    unit_width = max(len(setting.unit) for setting in shown_settings)
    for setting in shown_settings:
        is_default = setting.value == setting.default
        about = setting.about if is_default else f"{setting.about} Default: {setting.default:,}."
        echo(
            f"{setting.name:<{name_width}}  {setting.value:>11,} "
            f"{setting.unit:<{unit_width}}  {about}"
        )

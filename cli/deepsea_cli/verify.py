"""`deepsea-referee verify`: repeats recorded games and compares the results.

A record that differs from its re-run was altered (exit 1); a file that is not a record is bad
input (exit 2). Every file gets its own line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import click

from deepsea_cli.errors import BAD_INPUT, DONE, NEGATIVE
from deepsea_cli.options import load_record
from deepsea_cli.output import count, echo, print_json
from deepsea_referee.errors import UserError
from deepsea_rules.errors import InvalidRecord
from deepsea_rules.game import GameRecord, verify
from deepsea_rules.randomness import commitment, game_seed

if TYPE_CHECKING:
    from deepsea_ladder.chain import Link

_HEAD_BYTES = 4096
_BESIDE_RECORDS = re.compile(r"(?:analysis|notes)-\d+\.json|(?:bots|run)\.json")
"""The names of files that `analyse` and `match` write beside records."""


class RecordCheck(NamedTuple):
    """The outcome for one file.

    The verdict "summary" is for a file that `match` or `analyse` wrote beside records.
    """

    path: str
    verdict: Literal["ok", "altered", "unreadable", "summary"]
    game_id: str | None = None
    difference: str | None = None
    """The first difference or error, in one line."""


@click.command("verify")
@click.argument("records", metavar="[RECORD]...", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--chain",
    metavar="EXPORT [HEAD]",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Follow the chain in a ladder's export, and find the head that was published.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def command(
    ctx: click.Context, records: tuple[Path, ...], chain: Path | None, as_json: bool
) -> None:
    """Re-run each RECORD and compare commitment and result.

    A folder stands for the records in it: results.json, bots.json, run.json, analyses and notes
    are skipped, but records beside a results.json must have the seeds that follow
    from that of the match.

    With --chain, EXPORT is a file of `ladder export`. Without HEAD it says which heads there are:
    compare one with what you kept.

    Exit status: 0 all are right, 1 a record or an export was altered, 2 a file is neither.
    """
    if (chain is None and not records) or (chain and (as_json or len(records) > 1)):
        raise click.UsageError("name records, or with --chain an export and a head")
    if chain is not None:
        ctx.exit(verify_chain(chain, *map(str, records)))
    checks = []
    for path in _files(records):
        check = check_record(path)
        checks.append(check)
        if not as_json:
            echo(_line(check))
    if as_json:
        print_json({"records": [check._asdict() for check in checks]})
    verdicts = {check.verdict for check in checks}
    if "altered" in verdicts:
        ctx.exit(NEGATIVE)
    ctx.exit(BAD_INPUT if "unreadable" in verdicts or "ok" not in verdicts else DONE)


def _files(paths: tuple[Path, ...]) -> Iterator[Path]:
    """Yield the files to verify: all JSON files of a folder, and other paths as they are."""
    for path in paths:
        if path.is_dir():
            files = sorted(path.glob("*.json"))
            if not files:
                raise UserError(f"{path}: there are no records in this folder")
            yield from files
        else:
            yield path


def check_record(path: Path) -> RecordCheck:
    """Check a file that should be a record: play its game again and compare the result.

    A file that is no record, or no longer one, is never an error, but has a verdict of its own.
    """
    try:
        record = load_record(path)
    except (InvalidRecord, UserError) as error:
        if _is_beside_records(path):
            return RecordCheck(str(path), "summary")
        reason = str(error).removeprefix(f"{path}: ")
        return RecordCheck(str(path), "unreadable", game_id=None, difference=reason)
    try:
        verify(record)
        _compare_seeds(record, path.with_name("results.json"))
    except InvalidRecord as error:
        return RecordCheck(str(path), "altered", record.game_id, difference=str(error))
    return RecordCheck(str(path), "ok", record.game_id)


def _is_beside_records(path: Path) -> bool:
    """Return True for a file that `match` or `analyse` writes beside records."""
    is_results_file = _match_seed(path) is not None
    return is_results_file or _BESIDE_RECORDS.fullmatch(path.name) is not None


def _compare_seeds(record: GameRecord, results: Path) -> None:
    """Raise InvalidRecord if a game's seed does not follow from the seed of its match.

    Nothing is compared without a seed of the match, or if the game is from another match.

    results  path of the match's results.json, which need not exist
    """
    seed_hex = _match_seed(results)
    if not seed_hex:
        return
    match_seed = bytes.fromhex(seed_hex)
    # The identifier of a game is the commitment to the seed of its match, and its number from 1.
    game_id = re.fullmatch(f"{commitment(match_seed)[:12]}-([0-9]{{4,18}})", record.game_id)
    if game_id is None:
        return
    number = int(game_id[1])
    if record.seed != game_seed(match_seed, number - 1, record.attempt):
        raise InvalidRecord(
            f"seed is not that of game {number}, attempt {record.attempt}, "
            f"of the match in {results.name}"
        )


def _match_seed(path: Path) -> str | None:
    """Return the seed of a match in hex, from its results.json; "" if this has no seed.

    Return None if the file cannot be read, or does not have the format of a results.json.
    """
    from deepsea_referee.results_folder import FORMAT

    # Only the beginning is read, because the file of a long match may have any size.
    try:
        with path.open("rb") as file:
            beginning = file.read(_HEAD_BYTES)
    except OSError:
        return None
    if not re.match(rb'\s*\{\s*"format"\s*:\s*"%b"' % FORMAT.encode(), beginning):
        return None
    seed_field = re.search(rb'"seed"\s*:\s*"([0-9a-f]{64})"', beginning)
    return seed_field[1].decode() if seed_field else ""


def _line(check: RecordCheck) -> str:
    if check.verdict == "summary":
        return f"skipped {check.path}: only game records can be verified"
    reason = f": {check.difference}" if check.difference else ""
    return f"{check.verdict} {check.path}{reason}"


def verify_chain(export: Path, head: str = "") -> int:
    """Follow the chain of a ladder's export, print the outcome and return the exit status.

    head  a published head in hex that must be in the chain; "" prints the last head of each season
    """
    from deepsea_ladder.chain import follow
    from deepsea_ladder.errors import ChainBroken, NotAChain
    from deepsea_ladder.export import UNREADABLE, read_export

    last_links: dict[str, Link] = {}
    games: dict[str, int] = {}
    published: Link | None = None
    try:
        for link in follow(read_export(export)):
            last_links[link.season] = link
            games[link.season] = games.get(link.season, 0) + link.is_game
            if link.head == head.lower():
                published = link
        if not last_links:
            raise NotAChain("it has no line of an export")
    except ChainBroken as broken:
        echo(f"altered {export}: {broken}")
        return NEGATIVE
    except (NotAChain, *UNREADABLE) as error:
        raise UserError(f"{export}: {error}") from None
    for season, link in last_links.items():
        void_attempts = count(link.place - games[season], "attempt")
        last_head = "" if head else f", head {link.place} is {link.head}"
        echo(
            f"season {season}: {count(games[season], 'game')}, "
            f"{void_attempts} without a result{last_head}"
        )
    if not head:
        echo(f"ok {export}: compare a head with one that was kept")
        return DONE
    if published is None:
        echo(f"altered {export}: the head {head} is not in it")
        return NEGATIVE
    end = last_links[published.season].place
    echo(
        f"ok {export}: the head is that of place {published.place} of {end} "
        f"in season {published.season}"
    )
    return DONE

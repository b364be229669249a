"""Arguments that the commands of the ladder share.

Invariant: the ladder's arguments are interpreted here alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar, cast

import click

from deepsea_cli.options import RULES_HELP, load_rules, read_text, refuse_workers_of_cluster
from deepsea_referee.errors import UserError

if TYPE_CHECKING:
    from deepsea_arena.runs import MakePool
    from deepsea_ladder.season import Season
    from deepsea_ladder.store import Store

VARIABLE: Final = "DEEPSEA_LADDER"
FIRST_SEASON: Final = "main"
_F = TypeVar("_F", bound=Callable[..., Any])


def default_store() -> str:
    """The default ladder, in the user's data folder."""
    data = os.environ.get("XDG_DATA_HOME", "")
    # By the XDG specification: a path that is not absolute counts as not set.
    base = Path(data) if data.startswith("/") else Path.home() / ".local" / "share"
    return str(base / "deepsea-referee" / "ladder.db")


def store_option(function: _F) -> _F:
    """Add the parameter `store_text` to a command.

    What the command cannot print because the ladder is damaged becomes a `StoreDamaged`, like what
    it cannot read.
    """

    @wraps(function)
    def command(*arguments: Any, store_text: str, **rest: Any) -> Any:
        try:
            return function(*arguments, store_text=store_text, **rest)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            _explain(error, store_text)

    option = click.option(
        "--store",
        "store_text",
        metavar="FILE|URL",
        envvar=VARIABLE,
        default=default_store,
        help=f"The ladder's file or URL.  [default: ${VARIABLE}, or a file in your data folder]",
    )
    return cast("_F", option(command))


def _explain(error: Exception, store_text: str) -> NoReturn:
    from deepsea_ladder.errors import StoreDamaged, StoreError

    try:
        with open_store(store_text):
            raise error  # the store looks for damage that explains it
    except StoreDamaged:
        raise
    except StoreError:
        raise error from None  # it was no ladder on this machine


def read_time(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> datetime | None:
    """A time of RFC 3339; one without an offset from UTC would be another one elsewhere."""
    if value is None:
        return None
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise click.BadParameter(
            f"{value!r} is no time with its offset, such as 2027-01-31T18:00Z", context, parameter
        )
    return time


def make_workers(store: Store, workers: int | None, cluster: str | None) -> MakePool:
    """The workers of a run: processes, or those of a cluster."""
    from deepsea_arena import runs

    refuse_workers_of_cluster(cluster, workers)
    if cluster is not None:
        return runs.cluster_workers(store, cluster)
    return runs.local_workers(store, workers or 1)


def season_option(function: _F) -> _F:
    """Add the parameter `season_name` to a command."""
    return click.option(
        "--season",
        "season_name",
        metavar="NAME",
        help="The season.  [default: the open one]",
    )(function)


def settings_options(function: _F) -> _F:
    """Add a season's settings to a command; `season_from` reads them."""
    for option in reversed(_SETTINGS):
        function = option(function)
    return function


_SETTINGS: Final = (
    click.option("--rules", metavar="NAME|FILE.toml", help=RULES_HELP),
    click.option(
        "--seats",
        metavar="N[,N]...",
        show_default="4",
        help="Bots at a table; several numbers mix sizes.",
    ),
    click.option(
        "--clock",
        metavar="TIME+BANK",
        show_default="100ms+2s",
        help="Time for each decision, and a bank for each game for longer ones.",
    ),
    click.option(
        "--isolation",
        type=click.Choice(["sandbox", "process"]),
        show_default="sandbox",
        help="Isolation of bots; `process` is for bots that you trust.",
    ),
    click.option("--trusted", is_flag=True, help="The same as --isolation process."),
    click.option(
        "--packages",
        metavar="NAME[,NAME]...",
        help="Packages that bots may use beside the SDK, such as numpy==2.1.0; you install them.",
    ),
    click.option(
        "--memory",
        metavar="MIB",
        type=int,
        show_default="512",
        help="Memory limit of a bot with all its processes.",
    ),
    click.option(
        "--processes",
        metavar="N",
        type=int,
        show_default="64",
        help="Limit of a bot's processes and threads.",
    ),
    click.option(
        "--require-cgroups",
        is_flag=True,
        help="Play only where control groups limit bots and count their CPU time.",
    ),
    click.option("--same-author", is_flag=True, help="Let bots of one author meet."),
    click.option(
        "--former-versions", is_flag=True, help="Former versions of bots continue to play."
    ),
    click.option(
        "--best-of-author",
        is_flag=True,
        help="The standings, and tournaments, have the best bot of each author.",
    ),
    click.option(
        "--beta",
        metavar="X",
        type=float,
        help="The luck in a game for the ratings; use 8 for seasons of two seats.",
    ),
    click.option(
        "--settings",
        "settings_file",
        metavar="FILE.toml",
        type=click.Path(path_type=Path),
        help="File with any of a season's settings; other options override it.",
    ),
)


def season_from(name: str | None, given: Mapping[str, Any]) -> Season:
    """The season that the options describe; without a name it has the file's, or is `main`."""
    from deepsea_arena.reports.seasons import SeasonOptions, season_settings
    from deepsea_ladder.season import Season

    file = given["settings_file"]
    usual = FIRST_SEASON if name is None else name
    base = Season(usual) if file is None else _settings_in(file, name)
    options = SeasonOptions(
        rules=None if given["rules"] is None else load_rules(given["rules"]),
        seats=None if given["seats"] is None else _seats(given["seats"]),
        clock=given["clock"],
        isolation="process" if given["trusted"] else given["isolation"],
        packages=None if given["packages"] is None else _words(given["packages"]),
        memory_mib=given["memory"],
        processes=given["processes"],
        require_cgroups=given["require_cgroups"] or None,
        beta=given["beta"],
        same_author=given["same_author"] or None,
        former_versions=given["former_versions"] or None,
        best_of_author=given["best_of_author"] or None,
    )
    return season_settings(base, options)


def _settings_in(file: Path, name: str | None) -> Season:
    from deepsea_ladder.errors import SeasonError
    from deepsea_ladder.season import Season

    try:
        return Season.from_toml(read_text(file), name, FIRST_SEASON)
    except SeasonError as error:
        raise SeasonError(f"{file}: {error}") from None


def _seats(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UserError(f"--seats {text!r}: write numbers such as 4 or 2,3,4") from None


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def open_store(text: str) -> Store:
    """Open the ladder; raises `StoreError` if there is none."""
    if text.startswith(("http://", "https://")):
        raise UserError(f"{text} is a ladder on another machine: name it with --remote")
    from deepsea_ladder.store import Store

    return Store.open(text)

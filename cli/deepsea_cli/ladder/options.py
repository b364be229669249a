"""Options of the ladder's commands: which ladder, which season, and a season's settings.

A ladder is on this machine, or asked from afar.
Invariants: `--remote` and `--store` exclude each other; without them it is that of the variable,
else the one in the user's data folder, else the one that the user logged in to last; what is
printed does not depend on which.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args

import click
from click.core import ParameterSource

from deepsea_cli.options import (
    RULES_HELP,
    DecimalNumber,
    WholeNumber,
    load_rules,
    path_option,
    read_text,
    refuse_workers_of_cluster,
)
from deepsea_cli.texts import refuse_odd_text
from deepsea_referee.errors import UserError

if TYPE_CHECKING:
    from deepsea_arena.api.ladder_api import LadderApi
    from deepsea_arena.play.workers import MakePool
    from deepsea_cli.ladder.logins import Target
    from deepsea_ladder.season import Season
    from deepsea_ladder.store import Store

_F = TypeVar("_F", bound=Callable[..., Any])
_T = TypeVar("_T")
VARIABLE = "DEEPSEA_LADDER"
FIRST_SEASON = "main"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a ladder is: `store_text` is a file or URL of a database, if `remote` is None."""

    store_text: str
    remote: Target | None
    verbose: bool

    @contextmanager
    def opened(self, *, author: str | None = None, own: bool = False) -> Iterator[LadderApi]:
        """The ladder, for as long as it is used.

        own     whether it is about somebody's own account, and so needs a token from afar
        author  whose account, for a ladder on this machine
        """
        if self.remote is None:
            from deepsea_arena.api.local import ladder_of

            with open_store(self.store_text) as store:
                yield ladder_of(store, author)
            return
        if author is not None:
            raise UserError(f"AUTHOR: at {self.remote.url} your token says who you are")
        with (self.remote.authorised() if own else self.remote).opened() as ladder:
            yield ladder

    @contextmanager
    def account(self, author: str | None) -> Iterator[LadderApi]:
        """The ladder with AUTHOR's account, or from afar with the caller's."""
        if self.remote is None and author is None:
            raise click.UsageError("Missing argument 'AUTHOR'.", click.get_current_context())
        with self.opened(author=author, own=True) as ladder:
            yield ladder

    def refuse_options(self, **given: object) -> None:
        """Refuse options that are for a ladder on this machine alone; names as in Python."""
        names = [f"--{name.replace('_', '-')}" for name, value in given.items() if value]
        if self.remote is not None and names:
            raise UserError(
                f"{' and '.join(names)}: only for a ladder on this machine, and this one is at "
                f"{self.remote.url}"
            )

    def note(self, line: str) -> None:
        """Say something to those who have asked for it with -v."""
        if self.verbose:
            click.echo(line, err=True)


def place_option(function: _F) -> _F:
    """Add the parameter `place` to a command, of --store, --remote and --verbose."""

    @wraps(function)
    def command(
        *arguments: Any, store_text: str, remote: str | None, verbose: bool, **rest: Any
    ) -> Any:
        place = _place(click.get_current_context(), store_text, remote, verbose=verbose)
        return function(*arguments, place=place, **rest)

    with_remote = click.option(
        "--remote", metavar="NAME|URL", help="A ladder on another machine; see `ladder login`."
    )
    with_verbose = click.option(
        "-v", "--verbose", is_flag=True, help="Say more about a ladder on another machine."
    )
    return cast("_F", store_option(with_remote(with_verbose(command))))


def _place(ctx: click.Context, store_text: str, remote: str | None, *, verbose: bool) -> Place:
    given = ctx.get_parameter_source("store_text")
    if remote is not None:
        if given is ParameterSource.COMMANDLINE:
            raise UserError("--remote and --store exclude each other")
        from deepsea_cli.ladder.logins import find_target

        return Place(store_text, find_target(remote), verbose)
    target = None
    if given is ParameterSource.DEFAULT and not Path(default_store()).exists():
        from deepsea_cli.ladder.logins import default_target

        target = default_target()
        if target is None:
            raise UserError(
                f"there is no ladder at {default_store()}: make one with `ladder init`, or name "
                "one on another machine with --remote"
            )
    return Place(store_text, target, verbose)


def default_store() -> str:
    """The default ladder, in the user's data folder."""
    data = os.environ.get("XDG_DATA_HOME", "")
    # By the XDG specification: a path that is not absolute counts as not set.
    base = Path(data) if data.startswith("/") else Path.home() / ".local" / "share"
    return str(base / "deepsea-referee" / "ladder.db")


def _checked_store(_ctx: click.Context, _option: click.Parameter, text: str) -> str:
    refuse_odd_text("--store", text)  # the variable is no argument
    return text


def store_option(function: _F) -> _F:
    """Add the parameter `store_text` to a command."""
    option = click.option(
        "--store",
        "store_text",
        metavar="FILE|URL",
        envvar=VARIABLE,
        default=default_store,
        callback=_checked_store,
        help=f"The ladder's file or URL.  [default: ${VARIABLE}, or a file in your data folder]",
    )
    return option(function)


def read_time(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> datetime | None:
    """A time of RFC 3339; one without an offset from UTC would be another one elsewhere."""
    if value is None:
        return None
    from deepsea_ladder.model import NO_TIME, parse_time

    if (time := parse_time(value)) is None:
        raise click.BadParameter(f"{value!r} is {NO_TIME}", context, parameter)
    return time


SETTLED = "settled"
until_option = click.option(
    "--until",
    metavar="settled|TIME",
    callback=lambda ctx, option, text: text if text == SETTLED else read_time(ctx, option, text),
    help="Play until the order of the standings is settled, or until a time.",
)


def make_workers(store: Store, workers: int | None, cluster: str | None) -> MakePool:
    """The workers of a run: processes, or those of a cluster."""
    from deepsea_arena.play.workers import cluster_workers, local_workers

    refuse_workers_of_cluster(cluster, workers)
    if cluster is not None:
        return cluster_workers(store, cluster)
    return local_workers(store, workers or 1)


season_option = click.option(
    "--season", "season_name", metavar="NAME", help="The season.  [default: the open one]"
)


def _given(read: Callable[[str], _T]) -> Callable[[object, object, str | None], _T | None]:
    """A callback that reads an option where it is given."""
    return lambda _context, _parameter, text: None if text is None else read(text)


def _seats(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UserError(f"--seats {text!r}: write numbers such as 4 or 2,3,4") from None


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def settings_options(function: _F) -> _F:
    """Add a season's settings to a command, each with the season's default; see `season_from`."""
    from deepsea_ladder.season import Season  # here, for the commands that have no settings

    usual = Season(FIRST_SEASON)
    for option in reversed([*_settings(usual)]):
        function = option(function)
    return function


def _settings(usual: Season) -> Iterator[Callable[[_F], _F]]:
    """The options; the parameter `limits__processes` is the setting `limits.processes`."""
    from deepsea_ladder.season import Isolation

    def setting(flag: str, place: str, about: str, **more: Any) -> Callable[[_F], _F]:
        more.setdefault("show_default", f"{attrgetter(place)(usual)}")
        return click.option(flag, place.replace(".", "__"), help=about, **more)

    def switch(flag: str, place: str, about: str) -> Callable[[_F], _F]:
        return setting(flag, place, about, is_flag=True, show_default=False)

    rules = {"metavar": "NAME|FILE.toml", "callback": _given(load_rules), "show_default": False}
    yield setting("--rules", "rules", RULES_HELP, **rules)
    seats = {"callback": _given(_seats), "show_default": ",".join(map(str, usual.seats))}
    about = "Bots at a table; several numbers mix sizes."
    yield setting("--seats", "seats", about, metavar="N[,N]...", **seats)
    about = "Time for each decision, and a bank for each game for longer ones."
    yield setting("--clock", "clock", about, metavar="TIME+BANK")
    about = "Isolation of bots; `process` is for bots that you trust."
    yield setting("--isolation", "isolation", about, type=click.Choice(get_args(Isolation)))
    about = "Packages that bots may use beside the SDK, such as numpy==2.1.0; you install them."
    packages = {"callback": _given(_words), "show_default": ",".join(usual.packages) or "none"}
    yield setting("--packages", "packages", about, metavar="NAME[,NAME]...", **packages)
    about = "Memory limit of a bot with all its processes."
    yield setting("--memory", "limits.memory_mib", about, metavar="MIB", type=WholeNumber(1))
    about = "Limit of a bot's processes and threads."
    yield setting("--processes", "limits.processes", about, metavar="N", type=WholeNumber(1))
    about = "Play only where control groups limit bots and count their CPU time."
    yield switch("--require-cgroups", "limits.require_cgroups", about)
    yield switch("--same-author", "pairing.same_author", "Let bots of one author meet.")
    about = "Former versions of bots continue to play."
    yield switch("--former-versions", "pairing.former_versions", about)
    about = "Standings and tournaments include only the best bot of each author."
    yield switch("--best-of-author", "best_of_author", about)
    about = (
        "TrueSkill's beta, in points of skill: how much luck decides a single game; 8 is right for "
        "two seats."
    )
    beta = {"type": DecimalNumber(0, min_open=True), "show_default": f"{usual.rating.beta:g}"}
    yield setting("--beta", "rating.beta", about, metavar="X", **beta)
    yield path_option(
        "--settings",
        "settings_file",
        metavar="FILE.toml",
        help="File with any of a season's settings; other options override it.",
    )


def season_from(name: str | None, given: dict[str, Any]) -> Season:
    """The season that the options describe; without a name it has the file's, or is `main`."""
    from deepsea_arena.seasons import season_settings
    from deepsea_ladder.errors import SeasonError
    from deepsea_ladder.season import Season

    file: Path | None = given.pop("settings_file")
    base = Season(FIRST_SEASON if name is None else name)
    if file is not None:
        try:
            base = Season.from_toml(read_text(file), name, FIRST_SEASON)
        except SeasonError as error:
            raise SeasonError(f"{file}: {error}") from None
    # A flag that is not given says nothing.
    chosen = {key: one for key, one in given.items() if one is not None and one is not False}
    return season_settings(
        base.with_settings({key.replace("__", "."): one for key, one in chosen.items()})
    )


def open_store(text: str) -> Store:
    """Open the ladder; raises `StoreError` if there is none."""
    if text.startswith(("http://", "https://")):
        raise UserError(f"{text} is a ladder on another machine: name it with --remote")
    check_is_here(text)
    from deepsea_ladder.store import Store

    return Store.open(text)


def check_is_here(text: str) -> None:
    """Raise UserError if the only ladder that the user knows is on another machine."""
    if text != default_store() or Path(text).exists():
        return
    from deepsea_cli.ladder.logins import default_target

    if (target := default_target()) is not None:
        raise UserError(
            f"this is done on the ladder's machine alone: run it where {target.url} is "
            f"served; here is no ladder at {text}"
        )

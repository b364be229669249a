"""Options of the ladder's commands: which ladder, which season, and a season's settings.

A ladder is on this machine, or asked from afar.
Invariants: `--remote` and `--store` exclude each other; without them it is that of the variable,
else the one in the user's data folder, else the one that the user logged in to last; what is
printed does not depend on which.

Ladders on other machines: how users write their addresses, and the file with the user's tokens.

Invariants: an address that was accepted is safe for a token: it has TLS, or it is this machine;
nobody but the user may read the file, and one that others can read is refused; it is written whole
or not at all; no token is ever an argument, part of a message or of a URL.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import wraps
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args
from urllib.parse import urlsplit

import click
from click.core import ParameterSource

from deepsea_arena.documents import DocumentError, json_text, read_json
from deepsea_bundle.atomic import write_atomically
from deepsea_cli.errors import refuse_odd_text
from deepsea_cli.options import (
    RULES_HELP,
    DecimalNumber,
    WholeNumber,
    load_rules,
    path_option,
    read_text,
    refuse_workers_of_cluster,
)
from deepsea_ladder.accounts import is_loopback
from deepsea_referee.errors import UserError
from deepsea_rules.printable import quoted

if TYPE_CHECKING:
    from deepsea_arena.api.ladder_api import LadderApi
    from deepsea_arena.api.remote import RemoteLadder
    from deepsea_arena.workers import MakePool
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

        return Place(store_text, find_target(remote), verbose)
    target = None
    if given is ParameterSource.DEFAULT and not Path(default_store()).exists():
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
    from deepsea_arena.workers import cluster_workers, local_workers

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

    if (target := default_target()) is not None:
        raise UserError(
            f"this is done on the ladder's machine alone: run it where {target.url} is "
            f"served; here is no ladder at {text}"
        )


TOKEN_VARIABLE = "DEEPSEA_LADDER_TOKEN"
FORMAT = "deepsea-ladders/1"
LONGEST = 500
_PORTS = {"http": 80, "https": 443}
_PREFIX = re.compile(r"[A-Za-z0-9._~/-]*")
_HOST = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+")
_LARGEST = 1 << 20
_TOKEN = re.compile(r"[A-Za-z0-9_.-]{16,200}")


def read_url(text: str) -> str:
    """The one way to write a ladder's address. Raises UserError if it is none, or not safe."""
    if "@" in text:
        raise UserError("the address of a ladder has no user and no password in it")
    none = UserError(f"{quoted(text)} is no address of a ladder, such as https://ladder.example")
    try:
        parts = urlsplit(text.strip()[:LONGEST])
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise none from None
    if (
        parts.scheme not in _PORTS
        or not _HOST.fullmatch(host)
        or parts.query
        or parts.fragment
        or not _PREFIX.fullmatch(parts.path)
        or ".." in parts.path
        or port == 0
    ):
        raise none
    if parts.scheme == "http" and not is_loopback(host):
        raise UserError(
            f"{quoted(text)}: without TLS everybody on the way could read the token; use https://"
        )
    place = f"[{host}]" if ":" in host else host
    if port not in (None, _PORTS[parts.scheme]):
        place += f":{port}"
    return f"{parts.scheme}://{place}{parts.path.rstrip('/')}"


def name_of(url: str) -> str:
    """By which users may call a ladder: its URL without the scheme."""
    return url.partition("://")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLogin:
    token: str = field(repr=False)
    author: str
    certificate: str | None = None
    """The one certificate that is accepted there, as PEM; None: any that the system trusts."""


@dataclass(frozen=True, slots=True)
class Logins:
    """The ladders that the user has logged in to, by URL."""

    ladders: Mapping[str, StoredLogin] = field(default_factory=dict)
    default: str | None = None
    """The URL of the one that is meant where none is named."""
    format: str = field(default="", compare=False)

    def with_login(self, url: str, login: StoredLogin) -> Logins:
        """With another one, which is the default from now on."""
        return Logins({**self.ladders, url: login}, url)

    def without(self, url: str) -> Logins:
        """Without one; the default is then the last of the others."""
        rest = {name: login for name, login in self.ladders.items() if name != url}
        default = self.default if self.default != url else next(reversed(rest), None)
        return Logins(rest, default)


def logins_file() -> Path:
    """The file with the user's tokens, in its folder for settings."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    # By the XDG specification: a path that is not absolute counts as not set.
    if not Path(base).is_absolute():
        base = os.environ.get("APPDATA", "") if sys.platform == "win32" else ""
    folder = Path(base) if base else Path.home() / ".config"
    return folder / "deepsea-referee" / "ladders.json"


def checked_token(text: str, where: str) -> str:
    """The text, if it can be a token. Raises UserError, which does not show it."""
    if not _TOKEN.fullmatch(text):
        raise UserError(f"{where} is no token of a ladder: one begins with dsl_ and has no spaces")
    return text


def read_logins() -> Logins:
    """The logins; none if there is no file. Raises UserError if others can read it."""
    path = logins_file()
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(_LARGEST)
    except FileNotFoundError:
        return Logins()
    if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
        raise UserError(
            f"{path} has tokens, and others on this machine can read it: run `chmod 600 {path}`"
        )
    try:
        logins = read_json(Logins, content)
        for url, login in logins.ladders.items():
            checked_token(login.token, read_url(url))
        if logins.format != FORMAT or logins.default not in (None, *logins.ladders):
            raise DocumentError
    except (DocumentError, UserError):
        raise UserError(
            f"{path} is damaged: remove it, and log in again with `ladder login`"
        ) from None
    return logins


def write_logins(logins: Logins) -> None:
    path = logins_file()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomically(path, json_text(replace(logins, format=FORMAT)), mode=0o600)


@dataclass(frozen=True, slots=True)
class Target:
    """A ladder on another machine, and what is known of the user there."""

    url: str
    login: StoredLogin | None
    token: str | None = field(repr=False)
    """That of the environment, else that of the login; None asks as a visitor."""

    def opened(self) -> RemoteLadder:
        from deepsea_arena.api.remote import RemoteLadder

        pinned = None if self.login is None else self.login.certificate
        return RemoteLadder(self.url, self.token, pinned)

    def authorised(self) -> Target:
        """This one, if there is a token; raises UserError if there is none."""
        if self.token is None:
            raise UserError(
                f"you are not logged in at {self.url}: run "
                f"`deepsea-referee ladder login {self.url}`, or set {TOKEN_VARIABLE}"
            )
        return self


def find_target(text: str) -> Target:
    """The ladder that `text` names: its URL, or that of a login without its scheme."""
    logins = read_logins()
    return _target(logins, read_url(text) if "://" in text else _named(logins, text))


def default_target() -> Target | None:
    """The ladder of the last login; None if there is none."""
    logins = read_logins()
    return None if logins.default is None else _target(logins, logins.default)


def _target(logins: Logins, url: str) -> Target:
    login = logins.ladders.get(url)
    if given := os.environ.get(TOKEN_VARIABLE, "").strip():
        return Target(url, login, checked_token(given, f"${TOKEN_VARIABLE}"))
    return Target(url, login, None if login is None else login.token)


def _named(logins: Logins, text: str) -> str:
    known = list(logins.ladders)
    found = [url for url in known if text.lower() in (name_of(url).lower(), urlsplit(url).hostname)]
    if len(found) == 1:
        return found[0]
    names = ", ".join(map(name_of, found or known))
    if found:
        raise UserError(f"{quoted(text)} is several ladders: name one of {names}")
    hint = f"; you are logged in at {names}" if names else ""
    raise UserError(f"there is no login at {quoted(text)}{hint}; for another ladder write its URL")

"""Options of the ladder's commands: the ladder, the season and its settings, and stored logins.

Start reading at `Location`: a ladder is on this machine, or on another one, and `open_ladder` opens
either. `Target` is a ladder on another machine, with the user's token from the file of logins.

Invariants: `--remote` and `--store` exclude each other; without them the ladder is that of the
variable, else the one in the user's data folder, else the one that the user logged in to last; the
output does not depend on which. An address that was accepted is safe for a token: it has TLS, or it
is this machine; nobody but the user may read the file of logins, and one that others can read is
refused; it is written whole or not at all; no token is ever an argument, part of a message or of a
URL.
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
    from deepsea_ladder.season import SeasonSettings
    from deepsea_ladder.store import Store


_F = TypeVar("_F", bound=Callable[..., Any])
_T = TypeVar("_T")
VARIABLE = "DEEPSEA_LADDER"
"""The environment variable with the ladder's file or URL."""
FIRST_SEASON = "main"
"""Name of a ladder's first season, unless another one is given."""


@dataclass(frozen=True, slots=True)
class Location:
    """The location of the ladder that a command is about: on this machine, or on another one."""

    store_text: str
    """File or URL of the ladder's database, if it is on this machine."""
    remote: Target | None
    """The ladder on another machine; None if it is on this one."""
    verbose: bool

    @contextmanager
    def open_ladder(
        self, *, author: str | None = None, needs_token: bool = False
    ) -> Iterator[LadderApi]:
        """Yield the ladder, which is open until the end of the `with` block.

        author       name of the author for whom the command acts; refused for a ladder on another
                     machine, where the user's token says who that is
        needs_token  True to refuse a ladder on another machine if the user is not logged in there
        """
        if self.remote is None:
            from deepsea_arena.api.local import ladder_of

            with open_store(self.store_text) as store:
                yield ladder_of(store, author)
            return
        if author is not None:
            raise UserError(f"AUTHOR: at {self.remote.url} your token says who you are")
        target = self.remote.authorised() if needs_token else self.remote
        with target.connect() as ladder:
            yield ladder

    @contextmanager
    def open_account(self, author: str | None) -> Iterator[LadderApi]:
        """Open the ladder with AUTHOR's account; on another machine, with that of the token."""
        if self.remote is None and author is None:
            raise click.UsageError("Missing argument 'AUTHOR'.", click.get_current_context())
        with self.open_ladder(author=author, needs_token=True) as ladder:
            yield ladder

    def refuse_options(self, **options: object) -> None:
        """Raise UserError if the ladder is on another machine and one of these options is given.

        An option `--dry-run` is the argument `dry_run`, which is None or False if it is not given.
        """
        names = [f"--{name.replace('_', '-')}" for name, value in options.items() if value]
        if self.remote is not None and names:
            raise UserError(
                f"{' and '.join(names)}: only for a ladder on this machine, and this one is at "
                f"{self.remote.url}"
            )

    def note(self, line: str) -> None:
        """Print a line to stderr, if the user asked for more with -v."""
        if self.verbose:
            click.echo(line, err=True)


def location_option(function: _F) -> _F:
    """Add the options --store, --remote and --verbose to a function that is a command.

    The function does not get these options, but the ladder that they mean, as `location`.
    """

    @wraps(function)
    def command(
        *arguments: Any, store_text: str, remote: str | None, verbose: bool, **options: Any
    ) -> Any:
        location = _location(click.get_current_context(), store_text, remote, verbose=verbose)
        return function(*arguments, location=location, **options)

    with_remote = click.option(
        "--remote", metavar="NAME|URL", help="A ladder on another machine; see `ladder login`."
    )
    with_verbose = click.option(
        "-v", "--verbose", is_flag=True, help="Say more about a ladder on another machine."
    )
    return cast("_F", store_option(with_remote(with_verbose(command))))


def _location(
    ctx: click.Context, store_text: str, remote: str | None, *, verbose: bool
) -> Location:
    """Return the location of the ladder that the options --store and --remote mean.

    If neither they nor the environment name one, it is the ladder in the user's data folder, or if
    there is none, that of the last login. Raises UserError if there is none either.
    """
    store_source = ctx.get_parameter_source("store_text")
    if remote is not None:
        if store_source is ParameterSource.COMMANDLINE:
            raise UserError("--remote and --store exclude each other")
        return Location(store_text, find_target(remote), verbose)
    is_named = store_source is not ParameterSource.DEFAULT
    if is_named or Path(default_store()).exists():
        return Location(store_text, None, verbose)
    target = default_target()
    if target is None:
        raise UserError(
            f"there is no ladder at {default_store()}: make one with `ladder init`, or name "
            "one on another machine with --remote"
        )
    return Location(store_text, target, verbose)


def default_store() -> str:
    """Return the file of the default ladder, in the user's data folder."""
    data = os.environ.get("XDG_DATA_HOME", "")
    # By the XDG specification: a path that is not absolute counts as not set.
    base = Path(data) if data.startswith("/") else Path.home() / ".local" / "share"
    return str(base / "deepsea-referee" / "ladder.db")


def _checked_store(_ctx: click.Context, _option: click.Parameter, text: str) -> str:
    # All arguments were checked before; the text may come from the variable.
    refuse_odd_text("--store", text)
    return text


def store_option(function: _F) -> _F:
    """Add the option --store to a command, as its parameter `store_text`."""
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
    """Return an option's value as a time; None if it is not given. A callback of click.

    The value is a time of RFC 3339 with its offset from UTC, as 2027-01-31T18:00Z: without one it
    would mean another time on another machine.
    """
    if value is None:
        return None
    from deepsea_ladder.model import NO_TIME, parse_time

    time = parse_time(value)
    if time is None:
        raise click.BadParameter(f"{value!r} is {NO_TIME}", context, parameter)
    return time


SETTLED = "settled"
"""Value of --until for a run that ends when the order of the standings is settled."""
until_option = click.option(
    "--until",
    metavar="settled|TIME",
    callback=lambda ctx, option, text: text if text == SETTLED else read_time(ctx, option, text),
    help="Play until the order of the standings is settled, or until a time.",
)


def make_workers(store: Store, workers: int | None, cluster: str | None) -> MakePool:
    """Return the function by which a run makes its workers.

    workers  number of processes on this machine; None for one
    cluster  address of the Dask scheduler whose workers play instead; None for this machine

    Raises UserError if both are given.
    """
    from deepsea_arena.workers import cluster_workers, local_workers

    refuse_workers_of_cluster(cluster, workers)
    if cluster is not None:
        return cluster_workers(store, cluster)
    return local_workers(store, workers or 1)


season_option = click.option(
    "--season", "season_name", metavar="NAME", help="The season.  [default: the open one]"
)


def _reader(read: Callable[[str], _T]) -> Callable[[object, object, str | None], _T | None]:
    """Return a click callback that reads an option's text with `read`, and None as None."""
    return lambda _context, _parameter, text: None if text is None else read(text)


def _read_seats(text: str) -> tuple[int, ...]:
    """Read numbers of seats such as `2,3,4`; raises UserError for other texts."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UserError(f"--seats {text!r}: write numbers such as 4 or 2,3,4") from None


def _read_packages(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def settings_options(function: _F) -> _F:
    """Add an option for each setting of a season to a command; `season_from` reads them."""
    from deepsea_ladder.season import SeasonSettings  # here, for the commands that have no settings

    decorators = list(_settings(defaults=SeasonSettings(FIRST_SEASON)))
    # Help lists the option that was added last first, so they are added in reverse order.
    for add_option in reversed(decorators):
        function = add_option(function)
    return function


def _settings(defaults: SeasonSettings) -> Iterator[Callable[[_F], _F]]:
    """Yield the options of a season's settings, with the settings of `defaults` in their help.

    The parameter of a setting in a table has two underscores for the dot: `limits__processes` is
    the setting `limits.processes`.
    """
    from deepsea_ladder.season import Isolation

    def setting(flag: str, name: str, about: str, **attributes: Any) -> Callable[[_F], _F]:
        attributes.setdefault("show_default", f"{attrgetter(name)(defaults)}")
        return click.option(flag, name.replace(".", "__"), help=about, **attributes)

    def switch(flag: str, name: str, about: str) -> Callable[[_F], _F]:
        return setting(flag, name, about, is_flag=True, show_default=False)

    rules = {"metavar": "NAME|FILE.toml", "callback": _reader(load_rules), "show_default": False}
    yield setting("--rules", "rules", RULES_HELP, **rules)
    seats_default = ",".join(map(str, defaults.seats))
    seats = {"callback": _reader(_read_seats), "show_default": seats_default}
    about = "Bots at a table; several numbers mix sizes."
    yield setting("--seats", "seats", about, metavar="N[,N]...", **seats)
    about = "Time for each decision, and a bank for each game for longer ones."
    yield setting("--clock", "clock", about, metavar="TIME+BANK")
    about = "Isolation of bots; `process` is for bots that you trust."
    yield setting("--isolation", "isolation", about, type=click.Choice(get_args(Isolation)))
    about = "Packages that bots may use beside the SDK, such as numpy==2.1.0; you install them."
    packages_default = ",".join(defaults.packages) or "none"
    packages = {"callback": _reader(_read_packages), "show_default": packages_default}
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
    beta = {"type": DecimalNumber(0, min_open=True), "show_default": f"{defaults.rating.beta:g}"}
    yield setting("--beta", "rating.beta", about, metavar="X", **beta)
    yield path_option(
        "--settings",
        "settings_file",
        metavar="FILE.toml",
        help="File with any of a season's settings; other options override it.",
    )


def season_from(name: str | None, given: dict[str, Any]) -> SeasonSettings:
    """Return the season that a command's options describe.

    A setting that no option gives is that of the file of --settings, or has its default. Raises
    SeasonError if a setting makes no sense.

    name   name of the season; None for that in the file, or else `main`
    given  values of the options that `settings_options` added, by parameter
    """
    from deepsea_arena.seasons import checked_settings
    from deepsea_ladder.errors import SeasonError
    from deepsea_ladder.season import SeasonSettings

    file: Path | None = given.pop("settings_file")
    season = SeasonSettings(FIRST_SEASON if name is None else name)
    if file is not None:
        try:
            season = SeasonSettings.from_toml(read_text(file), name, FIRST_SEASON)
        except SeasonError as error:
            raise SeasonError(f"{file}: {error}") from None
    settings = {}
    for parameter, value in given.items():
        is_given = value is not None and value is not False  # a flag that is not given is False
        if is_given:
            # The parameter `limits__memory_mib` is the setting `limits.memory_mib`.
            settings[parameter.replace("__", ".")] = value
    return checked_settings(season.with_settings(settings))


def open_store(text: str) -> Store:
    """Open the ladder on this machine that --store names, by its file or the URL of its database.

    Raises StoreError if there is none.
    """
    if text.startswith(("http://", "https://")):
        raise UserError(f"{text} is a ladder on another machine: name it with --remote")
    refuse_if_elsewhere(text)
    from deepsea_ladder.store import Store

    return Store.open(text)


def refuse_if_elsewhere(text: str) -> None:
    """Raise UserError if the ladder that the user means is on another machine.

    That is so if no option names a ladder, there is none in the user's data folder, and the user
    is logged in at another machine. Without a login opening the ladder fails with a better error.

    text  file or URL of the ladder's database
    """
    is_default = text == default_store()
    if not is_default or Path(text).exists():
        return
    target = default_target()
    if target is not None:
        raise UserError(
            f"this is done on the ladder's machine alone: run it where {target.url} is "
            f"served; here is no ladder at {text}"
        )


# ----- Logins at ladders on other machines

TOKEN_VARIABLE = "DEEPSEA_LADDER_TOKEN"
"""The environment variable with a token that is used instead of that of a login."""
FORMAT = "deepsea-ladders/1"
"""The format that the file of logins names."""
LONGEST = 500
"""Characters of an address."""
_PORTS = {"http": 80, "https": 443}
_PREFIX = re.compile(r"[A-Za-z0-9._~/-]*")
_HOST = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+")
_LARGEST = 1 << 20
"""Bytes that are read of the file of logins."""
_TOKEN = re.compile(r"[A-Za-z0-9_.-]{16,200}")


def read_url(text: str) -> str:
    """Return a ladder's address in the one form in which it is stored and compared.

    The form has lower case, no usual port and no slash at its end. Raises UserError if the text is
    no address, or if a token sent there could be read by others.
    """
    if "@" in text:
        raise UserError("the address of a ladder has no user and no password in it")
    no_address = UserError(
        f"{quoted(text)} is no address of a ladder, such as https://ladder.example"
    )
    try:
        parts = urlsplit(text.strip()[:LONGEST])
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise no_address from None
    if (
        parts.scheme not in _PORTS
        or not _HOST.fullmatch(host)
        or parts.query
        or parts.fragment
        or not _PREFIX.fullmatch(parts.path)
        or ".." in parts.path
        or port == 0
    ):
        raise no_address
    if parts.scheme == "http" and not is_loopback(host):
        raise UserError(
            f"{quoted(text)}: without TLS everybody on the way could read the token; use https://"
        )
    location = f"[{host}]" if ":" in host else host
    if port not in (None, _PORTS[parts.scheme]):
        location += f":{port}"
    return f"{parts.scheme}://{location}{parts.path.rstrip('/')}"


def name_of(url: str) -> str:
    """Return the name by which users may call a ladder: its URL without the scheme."""
    return url.partition("://")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLogin:
    """A login at a ladder on another machine, as the user's file has it."""

    token: str = field(repr=False)
    author: str
    """Name of the author whose token it is."""
    certificate: str | None = None
    """The only certificate that is accepted there, as PEM; None: any that the system trusts."""


@dataclass(frozen=True, slots=True)
class Logins:
    """The ladders that the user has logged in to, by URL."""

    ladders: Mapping[str, StoredLogin] = field(default_factory=dict)
    default: str | None = None
    """The URL of the ladder that is meant if a command names none."""
    format: str = field(default="", compare=False)
    """The format of the file; "" until they are written."""

    def with_login(self, url: str, login: StoredLogin) -> Logins:
        """Return the logins with another one, which is the default from now on."""
        return Logins({**self.ladders, url: login}, url)

    def without(self, url: str) -> Logins:
        """Return the logins without the one at this URL.

        If it was the default, the newest of the others becomes the default.
        """
        other_logins = {other: login for other, login in self.ladders.items() if other != url}
        if self.default != url:
            return Logins(other_logins, self.default)
        newest = list(other_logins)[-1] if other_logins else None
        return Logins(other_logins, newest)


def logins_file() -> Path:
    """Return the path of the file with the user's tokens, in the user's folder for settings."""
    settings_folder = os.environ.get("XDG_CONFIG_HOME", "")
    # By the XDG specification: a path that is not absolute counts as not set.
    if not Path(settings_folder).is_absolute():
        settings_folder = os.environ.get("APPDATA", "") if sys.platform == "win32" else ""
    folder = Path(settings_folder) if settings_folder else Path.home() / ".config"
    return folder / "deepsea-referee" / "ladders.json"


def checked_token(text: str, where: str) -> str:
    """Return the text if it has the form of a token; raises UserError if not.

    where  words for the place of the text in the error, which does not show the text
    """
    if not _TOKEN.fullmatch(text):
        raise UserError(f"{where} is no token of a ladder: one begins with dsl_ and has no spaces")
    return text


def read_logins() -> Logins:
    """Read the file of logins; without a file there are none.

    Raises UserError if the file is damaged, or if other users of this machine can read it.
    """
    path = logins_file()
    try:
        with path.open("rb") as file:
            permissions = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            content = file.read(_LARGEST)
    except FileNotFoundError:
        return Logins()
    is_open_to_others = os.name == "posix" and permissions & 0o077  # the group and all others
    if is_open_to_others:
        raise UserError(
            f"{path} has tokens, and others on this machine can read it: run `chmod 600 {path}`"
        )
    try:
        logins = read_json(Logins, content)
        _check_logins(logins)
    except (DocumentError, UserError):
        raise UserError(
            f"{path} is damaged: remove it, and log in again with `ladder login`"
        ) from None
    return logins


def _check_logins(logins: Logins) -> None:
    """Raise DocumentError or UserError if a file of logins was not written by this program."""
    for url, login in logins.ladders.items():
        checked_token(login.token, read_url(url))
    if logins.format != FORMAT:
        raise DocumentError
    if logins.default is not None and logins.default not in logins.ladders:
        raise DocumentError


def write_logins(logins: Logins) -> None:
    """Write the file of logins, which nobody but the user can read."""
    path = logins_file()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomically(path, json_text(replace(logins, format=FORMAT)), mode=0o600)


@dataclass(frozen=True, slots=True)
class Target:
    """A ladder on another machine, with the user's login and token there."""

    url: str
    login: StoredLogin | None
    """The stored login; None if there is none."""
    token: str | None = field(repr=False)
    """The token of the environment, else that of the login; None for a visitor without one."""

    def connect(self) -> RemoteLadder:
        """Return a client of the ladder with the user's token; it is closed at the end of `with`.

        If the login has a certificate of the ladder's own, no other one is accepted.
        """
        from deepsea_arena.api.remote import RemoteLadder

        only_certificate = None if self.login is None else self.login.certificate
        return RemoteLadder(self.url, self.token, only_certificate)

    def authorised(self) -> Target:
        """Return this target if the user has a token; raises UserError if there is none."""
        if self.token is None:
            raise UserError(
                f"you are not logged in at {self.url}: run "
                f"`deepsea-referee ladder login {self.url}`, or set {TOKEN_VARIABLE}"
            )
        return self


def find_target(text: str) -> Target:
    """Return the ladder that a text names: by its URL, or as a login's URL without the scheme."""
    logins = read_logins()
    return _target(logins, read_url(text) if "://" in text else _url_of_login(logins, text))


def default_target() -> Target | None:
    """Return the ladder of the last login; None if there is none."""
    logins = read_logins()
    return None if logins.default is None else _target(logins, logins.default)


def _target(logins: Logins, url: str) -> Target:
    """Return the ladder at a URL, with its login; the token of the environment goes first."""
    login = logins.ladders.get(url)
    if token := os.environ.get(TOKEN_VARIABLE, "").strip():
        return Target(url, login, checked_token(token, f"${TOKEN_VARIABLE}"))
    return Target(url, login, None if login is None else login.token)


def _url_of_login(logins: Logins, text: str) -> str:
    """Return the URL of the login that a text names, by the host alone or with its port and path.

    Raises UserError if there is no such login, or more than one.
    """
    name = text.lower()
    matches = [
        url for url in logins.ladders if name in (name_of(url).lower(), urlsplit(url).hostname)
    ]
    if len(matches) == 1:
        return matches[0]
    if matches:
        names = ", ".join(map(name_of, matches))
        raise UserError(f"{quoted(text)} is several ladders: name one of {names}")
    all_names = ", ".join(map(name_of, logins.ladders))
    hint = f"; you are logged in at {all_names}" if all_names else ""
    raise UserError(f"there is no login at {quoted(text)}{hint}; for another ladder write its URL")

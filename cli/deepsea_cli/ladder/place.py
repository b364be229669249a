"""Which ladder a command is about: one on this machine, or one that is asked from afar.

Invariants: `--remote` and `--store` exclude each other; without them it is that of the variable,
else the one in the user's data folder, else the one that the user logged in to last; what is
printed does not depend on which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import click
from click.core import ParameterSource

from deepsea_cli.ladder.options import default_store, open_store, store_option
from deepsea_referee.errors import UserError

if TYPE_CHECKING:
    from deepsea_arena.bot_profiles import BotProfile
    from deepsea_arena.games import BotLogLine, GamesPage
    from deepsea_arena.standings import Standings
    from deepsea_cli.remote.logins import Target
    from deepsea_ladder.model.games import GameFilter

_F = TypeVar("_F", bound=Callable[..., Any])


class Source(Protocol):
    """A ladder to be read, wherever it is."""

    def standings(self, season: str | None, *, everybody: bool, best_of_author: bool) -> Standings:
        """The standings of a season."""

    def bot(self, name: str, version: int | None, season: str | None) -> BotProfile:
        """The profile of a bot."""

    def games(self, limit: int, season: str | None, wanted: GameFilter) -> GamesPage:
        """The newest games."""

    def record(self, game_id: str) -> str:
        """The record of a game."""

    def logs(self, game_id: str) -> Sequence[BotLogLine]:
        """What bots left of a game."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a ladder is: `store_text` is a file or URL of a database, if `remote` is None."""

    store_text: str
    remote: Target | None
    verbose: bool

    @contextmanager
    def opened(self) -> Iterator[Source]:
        """The ladder, for as long as it is read."""
        if self.remote is None:
            from deepsea_cli.ladder.local import LocalSource

            with open_store(self.store_text) as store:
                yield LocalSource(store)
            return
        from deepsea_cli.remote.source import RemoteSource

        with self.remote.client(self.note) as client:
            yield RemoteSource(client)

    def refuse_options(self, **given: object) -> None:
        """Refuse options that are for a ladder on this machine alone; names as in Python."""
        names = [f"--{name.replace('_', '-')}" for name, value in given.items() if value]
        if self.remote is not None and names:
            raise UserError(
                f"{' and '.join(names)}: only for a ladder on this machine, and this one is at "
                f"{self.remote.address.url}"
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
        "-v", "--verbose", is_flag=True, help="Say how a ladder on another machine is reached."
    )
    return cast("_F", store_option(with_remote(with_verbose(command))))


def _place(ctx: click.Context, store_text: str, remote: str | None, *, verbose: bool) -> Place:
    given = ctx.get_parameter_source("store_text")
    if remote is not None:
        if given is ParameterSource.COMMANDLINE:
            raise UserError("--remote and --store exclude each other")
        from deepsea_cli.remote.logins import find_target

        return Place(store_text, find_target(remote), verbose)
    target = None
    if given is ParameterSource.DEFAULT and not Path(default_store()).exists():
        from deepsea_cli.remote.logins import default_target

        target = default_target()
        if target is None:
            raise UserError(
                f"there is no ladder at {default_store()}: make one with `ladder init`, or name "
                "one on another machine with --remote"
            )
    return Place(store_text, target, verbose)

"""Which ladder a command is about: one on this machine, or one that is asked from afar.

Invariants: `--remote` and `--store` exclude each other; without them it is that of the variable,
else the one in the user's data folder, else the one that the user logged in to last; what is
printed does not depend on which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from click.core import ParameterSource

from deepsea_cli.ladder.options import default_store, open_store, store_option
from deepsea_referee.errors import UserError

if TYPE_CHECKING:
    from deepsea_arena.api.ladder_api import LadderApi
    from deepsea_cli.remote.logins import Target

_F = TypeVar("_F", bound=Callable[..., Any])


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
            raise UserError(f"AUTHOR: at {self.remote.address.url} your token says who you are")
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
        "-v", "--verbose", is_flag=True, help="Say more about a ladder on another machine."
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

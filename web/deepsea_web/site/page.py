"""Pages of the site, their parameters, and the visits of readers.

Invariant: rights are decided by the API alone, in `Visit.ladder`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

from starlette.requests import Request

from deepsea_arena.api.ladder_api import LadderApi
from deepsea_arena.api.local import LocalLadder
from deepsea_arena.api.service import LadderService
from deepsea_arena.documents import parameter
from deepsea_ladder.accounts import Caller, Role
from deepsea_ladder.store import Store
from deepsea_ladder.store.changes import LastChanges
from deepsea_referee.errors import UserError

LONGEST = 100
"""Characters of a parameter."""
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Visit:
    """Somebody who looks at pages."""

    caller: Caller
    service: LadderService

    @cached_property
    def ladder(self) -> LocalLadder:
        """The ladder, as the caller may use it."""
        return LocalLadder(self.service, self.caller)

    @property
    def author(self) -> str:
        """The name of who looks; "" of a visitor."""
        return self.caller.author

    @property
    def is_admin(self) -> bool:
        """Whether links to the pages of admins are shown."""
        return self.caller.role >= Role.ADMIN


@dataclass(frozen=True)
class Query:
    """The parameters of a page. Raises UserError if one makes no sense."""

    path: Mapping[str, str] = field(default_factory=dict)
    """The parts of the path that the page's address names."""
    given: Mapping[str, str] = field(default_factory=dict)
    """The parameters, of those that the page knows; an empty one was not given."""

    def text(self, name: str) -> str | None:
        """A parameter, or a part of the path; None if it was not given."""
        return self.path.get(name, self.given.get(name))

    def flag(self, name: str) -> bool:
        """Whether a box was ticked."""
        given = self.given.get(name)
        return bool(given) and bool(parameter(bool, name, given, is_text=True))

    def number(self, name: str) -> int:
        """A whole number; 0 if it was not given. Its bounds are those of the API."""
        given = self.text(name)
        return int(parameter(int, name, given, is_text=True)) if given else 0


class Over(NamedTuple):
    """Something that pages are about and that may be over: then they are kept until it changes."""

    parameter: str
    """The parameter of a page, or the part of its path, that names it."""
    changes: Callable[[Store, str], LastChanges | None]
    """The last changes of the subject; None if it is not over."""


GAME_OVER = Over("id", lambda store, game_id: store.changes.of_game(game_id))
SEASON_OVER = Over("season", lambda store, name: store.changes.of_season(name))


@dataclass(frozen=True, kw_only=True)
class Page(Generic[T]):
    """A page of the site, the same for everybody.

    `read` asks the ladder for a document; NotOnLadder is the status 404 and UserError 400, each
    with its message. The template has the document as `data`, and besides it what `extras` makes,
    such as pictures.
    """

    path: str
    """Its address, such as `/bots/{name}`; a part in braces has no slash."""
    template: str
    """In `templates/site`."""
    read: Callable[[LadderApi, Query], T]
    title: Callable[[T], str]
    """Its name in a tab, a list of bookmarks and a preview."""
    summary: Callable[[T], str]
    """A sentence for previews and search engines."""
    parameters: tuple[str, ...] = ()
    """The parameters that it knows, besides `format`."""
    rows: Callable[[T], Iterable[Mapping[str, Any]]] | None = None
    """The rows of its CSV; None: it has no CSV."""
    extras: Callable[[T], Mapping[str, Any]] = lambda data: {}
    over: Over | None = None
    """The game or season that it is about; None: what it shows is never over."""
    nav: str | None = None
    """Its name in the navigation; None: it is not there."""

    @property
    def formats(self) -> tuple[str, ...]:
        return ("html", "csv") if self.rows else ("html",)


def parameters_of(request: Request, names: Iterable[str]) -> dict[str, str]:
    """The parameters with these names, so that nobody fills a cache with addresses of one page.

    Raises UserError for one that is given twice, or too long.
    """
    known = tuple(names)
    given: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name not in known:
            continue
        if len(value) > LONGEST:
            raise UserError(f"{name} has more than {LONGEST} characters")
        if name in given:
            raise UserError(f"{name} is given twice")
        given[name] = value
    return given


def season_of(ladder: LadderApi, query: Query) -> str:
    """The season that a page is about: the newest open one, unless another was named."""
    return query.text("season") or ladder.season_name

"""Pages of the site: their parameters, the visits of readers, and the way from a page to a body of
a response: HTML, packing, kept pages, refusals.

Invariants: rights are decided by the API alone, in `Visit.ladder`; the same page gives the same
bytes; a refusal says nothing of this program's inside.
"""

from __future__ import annotations

import gzip
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, cached_property
from http import HTTPStatus
from typing import Any, Generic, NamedTuple, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from deepsea_arena.api.errors import STATUS, ApiError, RefusalKind, refusal_of
from deepsea_arena.api.ladder_api import LadderApi
from deepsea_arena.api.local import LocalLadder
from deepsea_arena.api.service import LadderService
from deepsea_arena.documents import parameter
from deepsea_ladder.accounts import Caller, Role
from deepsea_ladder.errors import NotOnLadder, StoreDamaged, StoreError, StoreUnavailable
from deepsea_ladder.model import utc_time
from deepsea_ladder.store import Store
from deepsea_ladder.store.counts import LastChanges
from deepsea_referee.errors import UserError
from deepsea_rules.printable import one_line
from deepsea_web.access import Access
from deepsea_web.assets import load_template, static_names, static_texts
from deepsea_web.http import FILE_KINDS
from deepsea_web.site import words

KINDS = {
    "html": "text/html; charset=utf-8",
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
}
"""The media types of pages, documents and tables."""
MOST_BYTES = 32 * 1024 * 1024
_SMALL = 512
"""Bytes; a shorter body is not worth packing."""
LONGEST_SENTENCE = 300
"""Characters of a sentence."""
_SENTENCES = {
    404: "There is no such page.",
    405: "This address can be read, and nothing else.",
    503: "The ladder cannot be read at the moment; try again.",
}
_FAILED = "This page cannot be made; the operator's log says why."
LONGEST_PARAMETER = 100
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
        """True if links to the pages of admins are shown."""
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
        """True if a box was ticked."""
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
class Csv(Generic[T]):
    """The CSV of a page."""

    columns: Sequence[str]
    rows: Callable[[T], Iterable[Mapping[str, Any]]]
    name: Callable[[T], str]
    """What its file is called, such as `standings-spring`; the time comes behind it."""


@dataclass(frozen=True, kw_only=True)
class Page(Generic[T]):
    """A page of the site, the same for everybody but for those who have more time to submit.

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
    csv: Csv[T] | None = None
    extras: Callable[[T], Mapping[str, Any]] = lambda data: {}
    over: Over | None = None
    """The game or season that it is about; None: what it shows is never over."""
    nav: str | None = None
    """Its name in the navigation; None: it is not there."""
    shows_deadline: bool = False
    """True if it shows a deadline, and so differs for members who have more time than others."""

    @property
    def formats(self) -> tuple[str, ...]:
        return ("html", "csv") if self.csv else ("html",)


def csv_file(name: str, now_ms: int) -> str:
    """The name of a CSV file: of what it is, and of when it was made."""
    return f"{name}-{utc_time(now_ms):%Y-%m-%dT%H%MZ}.csv"


def parameters_of(request: Request, names: Iterable[str]) -> dict[str, str]:
    """The parameters with these names, so that nobody fills a cache with addresses of one page.

    Raises UserError for one that is given twice, or too long.
    """
    known = tuple(names)
    given: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name not in known:
            continue
        if len(value) > LONGEST_PARAMETER:
            raise UserError(f"{name} has more than {LONGEST_PARAMETER} characters")
        if name in given:
            raise UserError(f"{name} is given twice")
        given[name] = value
    return given


def season_of(ladder: LadderApi, query: Query) -> str:
    """The season that a page is about: the newest open one, unless another was named."""
    return query.text("season") or ladder.season_name


class Refusal(NamedTuple):
    """The answer to a request that gets no page."""

    status: int
    sentence: str
    retry_after: int | None = None
    """In so many seconds it is worth another try."""

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}

    @property
    def title(self) -> str:
        return HTTPStatus(self.status).phrase


@dataclass(frozen=True)
class Rendered:
    """The body of a response."""

    body: bytes
    kind: str
    """Its media type."""
    packed: bytes | None = field(repr=False)
    """The body by gzip, for clients that take it."""
    tag: str
    """The body's ETag: the digest of its bytes."""
    file: str = ""
    """The name of the file as which browsers save it; "": they show it."""

    @classmethod
    def of(cls, text: str, kind: str, file: str = "") -> Rendered:
        """The body with this text."""
        # Half a character, as a damaged record may have, becomes a question mark.
        body = text.encode(errors="replace")
        packed = gzip.compress(body, 6, mtime=0) if len(body) >= _SMALL else None
        # Weak: the packed form has the same one.
        return cls(body, kind, packed, f'W/"{hashlib.sha256(body).hexdigest()[:24]}"', file)

    @property
    def size(self) -> int:
        return len(self.body) + len(self.packed or b"")


class KeptAnswer(NamedTuple):
    """A body that is sent to all who ask for it."""

    rendered: Rendered
    changes: LastChanges | None
    """The last changes of what it shows, when it was made; None if that was not over."""
    until_us: int
    """The time until which it is sent, if what it shows is not over."""

    def is_fresh(self, now_us: int) -> bool:
        """True if it may be sent without a look into the store."""
        return self.changes is None and now_us < self.until_us


class Cache:
    """Answers by key, within a bound of memory; one event loop uses it."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._size = 0
        self._kept: OrderedDict[Hashable, KeptAnswer] = OrderedDict()

    def get(self, key: Hashable) -> KeptAnswer | None:
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def put(self, key: Hashable, answer: KeptAnswer) -> None:
        """Keep it in place of a former one, and forget those that were used longest ago."""
        former = self._kept.pop(key, None)
        self._size -= 0 if former is None else former.rendered.size
        if answer.rendered.size > self._most:
            return
        self._kept[key] = answer
        self._size += answer.rendered.size
        while self._size > self._most:
            _, gone = self._kept.popitem(last=False)
            self._size -= gone.rendered.size


def same(request: Request, tag: str) -> bool:
    """True if the reader has this already."""
    given = request.headers.get("if-none-match", "")
    return tag in [one.strip() for one in given.split(",")]


def sent(request: Request, rendered: Rendered, headers: Mapping[str, str]) -> Response:
    """A body as the reader takes it: packed, or as it is."""
    packed = rendered.packed is not None and _takes_gzip(request)
    body = rendered.packed if packed and rendered.packed is not None else rendered.body
    encoding = {"Content-Encoding": "gzip"} if packed else {}
    return Response(body, headers={**headers, **encoding}, media_type=rendered.kind)


def _takes_gzip(request: Request) -> bool:
    for word in request.headers.get("accept-encoding", "").lower().split(","):
        name, _, quality = word.partition(";")
        if name.strip() == "gzip":
            return quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


@cache
def static_files() -> Mapping[str, Rendered]:
    """The files of the site by their names with a digest."""
    names = static_names()
    return {
        names[name]: Rendered.of(text, FILE_KINDS[name.rpartition(".")[2]])
        for name, text in static_texts().items()
    }


def refusal(error: Exception) -> Refusal:
    """The refusal that an error stands for; 500 for a mistake of this program's own."""
    match error:
        case ApiError(kind=kind, retry_after=after):
            return Refusal(STATUS[kind], _sentence(error), after)
        case NotOnLadder():
            return Refusal(404, _sentence(error))
        case UserError():
            return Refusal(400, _sentence(error))
        case StoreUnavailable(reason=""):
            return Refusal(503, _SENTENCES[503])
        case StoreUnavailable() | OSError() if refusal_of(error).kind is RefusalKind.UNAVAILABLE:
            return refusal(refusal_of(error))
        case StoreDamaged(row=row) if row:
            return refusal(refusal_of(error))
        case StoreError():
            return Refusal(500, _FAILED)
        case HTTPException(status_code=status, detail=detail):
            usual = detail == HTTPStatus(status).phrase
            return Refusal(status, _SENTENCES.get(status, detail) if usual else detail)
    return Refusal(500, _FAILED)


def _sentence(error: Exception) -> str:
    text = one_line(str(error), LONGEST_SENTENCE)
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


@dataclass(frozen=True)
class PageRenderer:
    """Renders pages; every template has it as `site`."""

    access: Access
    navigation: Sequence[tuple[str, str]]
    """Names and paths of the pages that are linked from every page."""
    author_cookie: str
    """The name of the cookie by which scripts know who is logged in."""
    now_ms: Callable[[], int]
    """The time by the ladder's clock, in milliseconds since 1970."""
    private: bool = False
    """True if visitors see the login and nothing else."""
    install: str = ""
    """The line that installs the program."""
    alone: bool = False
    """True if its pages are those of one seat, without the others of a ladder."""

    def url(self, path: str, **query: object) -> str:
        return self.access.url(path, **query)

    def now(self) -> datetime:
        """The time by the ladder's clock."""
        return utc_time(self.now_ms())

    def static(self, name: str) -> str:
        """The address of a script or a style sheet."""
        return self.access.url(f"/static/{static_names()[name]}")

    def page(
        self,
        page: Page[T],
        query: Query,
        data: T,
    ) -> str:
        """A page as HTML."""
        path = page.path.format_map(query.path)
        return self._render(
            page.template,
            data=data,
            here=path,
            query=query,
            with_query=lambda **changed: {**query.given, **changed},
            title=words.name(page.title(data)),
            summary=words.name(page.summary(data)),
            canonical=self.access.canonical(path, **query.given),
            csv=self.url(path, **query.given, format="csv") if page.csv else None,
            current=page.nav,
            **page.extras(data),
        )

    def own(self, template: str, title: str, visit: Visit, values: Mapping[str, Any]) -> str:
        """A page that depends on who looks, as HTML."""
        given = {"query": Query(), "done": None, "problem": None, "typed": {}, **values}
        given.setdefault("current", "Account")
        return self._render(
            template,
            visit=visit,
            title=words.name(title),
            summary=words.name(title),
            canonical=None,
            closed=self.private and not visit.author,
            **given,
        )

    def refusal(self, refusal: Refusal, *, member: bool = False) -> str:
        """The page of a refusal; on a private ladder visitors see no navigation there."""
        return self._render(
            "error.html",
            refusal=refusal,
            title=refusal.title,
            summary=refusal.sentence,
            canonical=None,
            current=None,
            closed=self.private and not member,
        )

    def _render(self, template: str, **values: Any) -> str:
        given: Mapping[str, Any] = {"site": self, "w": words, "closed": False, **values}
        return load_template(f"site/{template}").render(given)

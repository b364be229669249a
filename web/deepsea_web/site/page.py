"""Public pages, their parameters, the visits of readers, and how a page becomes a response.

Start reading at `Page`. `PageRenderer` makes its HTML, `ResponseBody` packs it, `Cache` keeps it,
and `refusal` says what an error means for a reader.

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
from deepsea_ladder.errors import NotOnLadder, StoreDamaged, StoreUnavailable
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
"""Size of all responses in the cache, with their packed forms."""
_LEAST_PACKED_BYTES = 512
"""Size of the smallest body that is worth packing."""
LONGEST_SENTENCE = 300
"""Characters of a refusal's sentence; the rest is cut off."""
_SENTENCES = {
    404: "There is no such page.",
    405: "This address can be read, and nothing else.",
    503: "The ladder cannot be read at the moment; try again.",
}
_PAGE_FAILED = "This page cannot be made; the operator's log says why."
LONGEST_PARAMETER = 100
"""Characters of a parameter in an address; a longer one is refused."""
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Visit:
    """A visit of a reader, with the reader's rights: a member's with a session, or a visitor's."""

    caller: Caller
    service: LadderService

    @cached_property
    def ladder(self) -> LocalLadder:
        """The ladder with the caller's rights: a method that they lack raises ApiError."""
        return LocalLadder(self.service, self.caller)

    @property
    def author(self) -> str:
        """The reader's name as an author; "" for a visitor."""
        return self.caller.author

    @property
    def is_member(self) -> bool:
        """True if the reader has a session."""
        return bool(self.caller.author_id)

    @property
    def is_admin(self) -> bool:
        """True if the reader is an admin, and so sees links to the pages of admins."""
        return self.caller.role >= Role.ADMIN


@dataclass(frozen=True)
class Query:
    """The parameters with which a page is asked for. Raises UserError if one makes no sense."""

    path: Mapping[str, str] = field(default_factory=dict)
    """Values of the parts in braces of the page's path, by name."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Values of the parameters that the page knows, by name; empty ones are left out."""

    def text(self, name: str) -> str | None:
        """Return a part of the path or a parameter; None if it was not given."""
        return self.path.get(name, self.parameters.get(name))

    def flag(self, name: str) -> bool:
        """Return True if the parameter of a box says that it was ticked."""
        text = self.parameters.get(name)
        return bool(text) and bool(parameter(bool, name, text, is_text=True))

    def number(self, name: str) -> int:
        """Return a parameter as a whole number, 0 if it was not given; the API checks bounds."""
        text = self.text(name)
        return int(parameter(int, name, text, is_text=True)) if text else 0


class Subject(NamedTuple):
    """The game or season of a page. Once it is over, the page is kept until it changes."""

    parameter: str
    """Name of the parameter, or of the part of the path, that names the subject."""
    last_changes: Callable[[Store, str], LastChanges | None]
    """Returns the last changes of the subject with this name; None if it is not over."""


GAME_SUBJECT = Subject("id", lambda store, game_id: store.changes.of_game(game_id))
SEASON_SUBJECT = Subject("season", lambda store, name: store.changes.of_season(name))


@dataclass(frozen=True, kw_only=True)
class Csv(Generic[T]):
    """The CSV of a page, made of the page's document."""

    columns: Sequence[str]
    rows: Callable[[T], Iterable[Mapping[str, Any]]]
    """Returns the rows of a document; each has a value for every column."""
    name: Callable[[T], str]
    """Returns the name of the file, such as `standings-spring`; `csv_file` adds the time."""


@dataclass(frozen=True, kw_only=True)
class Page(Generic[T]):
    """A page of the site, the same for everybody except authors who have more time to submit.

    `read` asks the ladder for the page's document. If it raises NotOnLadder, the reader gets the
    status 404, and 400 for UserError, each with the error's message. The template gets the document
    as `data`, and the values that `extras` makes of it, such as pictures.
    """

    path: str
    """Path of its address, such as `/bots/{name}`; a part in braces has no slash."""
    template: str
    """Name of the template's file in `templates/site`."""
    read: Callable[[LadderApi, Query], T]
    title: Callable[[T], str]
    """Returns the page's title in a tab, a list of bookmarks and a preview."""
    summary: Callable[[T], str]
    """Returns a sentence for previews and search engines."""
    parameters: tuple[str, ...] = ()
    """Names of the parameters that it knows, besides `format`."""
    csv: Csv[T] | None = None
    extras: Callable[[T], Mapping[str, Any]] = lambda data: {}
    subject: Subject | None = None
    """The game or season that it is about; None if what it shows is never over."""
    nav: str | None = None
    """The page's name in the navigation; None if it is not linked there."""
    shows_deadline: bool = False
    """True if it shows a deadline, and so differs for authors who have more time than others."""

    @property
    def formats(self) -> tuple[str, ...]:
        """The values of the parameter `format` that the page answers."""
        return ("html", "csv") if self.csv else ("html",)


def csv_file(name: str, now_ms: int) -> str:
    """Return the name of a CSV file with the time at which it is made, to the minute."""
    return f"{name}-{utc_time(now_ms):%Y-%m-%dT%H%MZ}.csv"


def parameters_of(request: Request, names: Iterable[str]) -> dict[str, str]:
    """Return the parameters of a request that have these names; others are left out.

    A page is kept by its parameters: if others counted, a reader who adds some to the address could
    fill the cache with copies of one page. Raises UserError if a parameter is given twice or is too
    long.
    """
    known_names = tuple(names)
    parameters: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name not in known_names:
            continue
        if len(value) > LONGEST_PARAMETER:
            raise UserError(f"{name} has more than {LONGEST_PARAMETER} characters")
        if name in parameters:
            raise UserError(f"{name} is given twice")
        parameters[name] = value
    return parameters


def season_of(ladder: LadderApi, query: Query) -> str:
    """Return the season that a page is about: the named one, else the newest open season."""
    return query.text("season") or ladder.season_name


class Refusal(NamedTuple):
    """The answer to a request that gets no page."""

    status: int
    sentence: str
    retry_after: int | None = None
    """Seconds after which it is worth another try; None if there is no such time."""

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}

    @property
    def title(self) -> str:
        return HTTPStatus(self.status).phrase


@dataclass(frozen=True)
class ResponseBody:
    """The body of a response in both forms in which it is sent, as it is and packed."""

    plain: bytes
    media_type: str
    gzipped: bytes | None = field(repr=False)
    """The body packed by gzip, for clients that take it; None if it is too short for that."""
    etag: str
    """The ETag of both forms: a digest of the plain one."""
    file: str = ""
    """Name of the file as which browsers save it; "" if they show it instead."""

    @classmethod
    def of_text(cls, text: str, media_type: str, file: str = "") -> ResponseBody:
        """Return the body with a text: encode and pack it, and compute its ETag."""
        # Half a character, as a damaged record may have, becomes a question mark.
        plain = text.encode(errors="replace")
        # mtime=0: the same text gives the same bytes, whenever it is packed.
        gzipped = gzip.compress(plain, 6, mtime=0) if len(plain) >= _LEAST_PACKED_BYTES else None
        # A weak tag (`W/`), since the packed form, which has other bytes, has the same one.
        etag = f'W/"{hashlib.sha256(plain).hexdigest()[:24]}"'
        return cls(plain, media_type, gzipped, etag, file)

    @property
    def size(self) -> int:
        """The memory that both forms take, in bytes."""
        return len(self.plain) + len(self.gzipped or b"")


class KeptAnswer(NamedTuple):
    """A body in the cache, which is sent to everybody who asks for it."""

    body: ResponseBody
    changes: LastChanges | None
    """The last changes of the page's subject when it was made; None if that was not over."""
    until_us: int
    """The time until which the body is sent, if its subject is not over."""

    def is_fresh(self, now_us: int) -> bool:
        """Return True if it may be sent without reading the store."""
        return self.changes is None and now_us < self.until_us


class Cache:
    """Answers by key, within a bound of memory; it is used in one event loop alone."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._size = 0
        self._answers: OrderedDict[Hashable, KeptAnswer] = OrderedDict()
        """The answers, those that were used longest ago first."""

    def get(self, key: Hashable) -> KeptAnswer | None:
        """Return the answer with a key and count this as its last use; None if there is none."""
        answer = self._answers.get(key)
        if answer is not None:
            self._answers.move_to_end(key)
        return answer

    def put(self, key: Hashable, answer: KeptAnswer) -> None:
        """Keep an answer in place of a former one, and drop those that were used longest ago.

        An answer that is larger than the whole cache is not kept, and no other is dropped for it.
        """
        former = self._answers.pop(key, None)
        if former is not None:
            self._size -= former.body.size
        if answer.body.size > self._most_bytes:
            return
        self._answers[key] = answer
        self._size += answer.body.size
        while self._size > self._most_bytes:
            _, oldest = self._answers.popitem(last=False)
            self._size -= oldest.body.size


def reader_has(request: Request, etag: str) -> bool:
    """Return True if the reader's browser has the body with this ETag already."""
    etags = request.headers.get("if-none-match", "").split(",")
    return etag in [text.strip() for text in etags]


def response_of(request: Request, body: ResponseBody, headers: Mapping[str, str]) -> Response:
    """Return the response with a body, packed if the reader takes that."""
    content, encoding = body.plain, {}
    if body.gzipped is not None and _takes_gzip(request):
        content, encoding = body.gzipped, {"Content-Encoding": "gzip"}
    return Response(content, headers={**headers, **encoding}, media_type=body.media_type)


def _takes_gzip(request: Request) -> bool:
    """Return True if the header Accept-Encoding, such as `gzip;q=0.5, br`, allows gzip."""
    for coding in request.headers.get("accept-encoding", "").lower().split(","):
        name, _, quality = coding.partition(";")
        if name.strip() == "gzip":
            # The quality 0, written with up to three decimals, forbids it.
            return quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


@cache
def static_files() -> Mapping[str, ResponseBody]:
    """Return the scripts and styles of the site, by their file names with a digest in them."""
    names = static_names()
    return {
        names[name]: ResponseBody.of_text(text, FILE_KINDS[name.rpartition(".")[2]])
        for name, text in static_texts().items()
    }


def refusal(error: Exception) -> Refusal:
    """Return the status and the sentence with which an error is shown to a reader.

    An error that this function does not know is a mistake in this program: it gives the status 500,
    and its message, which may name files, is not shown.
    """
    match error:
        case ApiError(kind=kind, retry_after=retry_after):
            return Refusal(STATUS[kind], _sentence(error), retry_after)
        case NotOnLadder():
            return Refusal(404, _sentence(error))
        case UserError():
            return Refusal(400, _sentence(error))
        case StoreUnavailable(reason=""):  # the store is busy
            return Refusal(503, _SENTENCES[503])
        case StoreUnavailable():  # an operator has to act first, as the API's sentence says
            return refusal(refusal_of(error))
        case OSError() if refusal_of(error).kind is RefusalKind.UNAVAILABLE:  # a full disk
            return refusal(refusal_of(error))
        case StoreDamaged(row=row) if row:
            return refusal(refusal_of(error))
        case HTTPException(status_code=status, detail=detail):
            # Without a detail of its own the exception has the bare phrase of its status.
            has_own_detail = detail != HTTPStatus(status).phrase
            return Refusal(status, detail if has_own_detail else _SENTENCES.get(status, detail))
    return Refusal(500, _PAGE_FAILED)


def _sentence(error: Exception) -> str:
    """Return an error's message as a sentence, with a capital and a full stop."""
    text = one_line(str(error), LONGEST_SENTENCE)
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


@dataclass(frozen=True)
class PageRenderer:
    """Renders templates to HTML; every template has the renderer as `site`."""

    access: Access
    navigation: Sequence[tuple[str, str]]
    """Name and path of each page that is linked from every page."""
    author_cookie: str
    """Name of the cookie from which scripts read the name of the reader."""
    now_ms: Callable[[], int]
    """Returns the time by the ladder's clock, in milliseconds since 1970."""
    private: bool = False
    """True if visitors see the login and nothing else."""
    install: str = ""
    """The command that installs the program, as pages show it."""
    alone: bool = False
    """True if the site is one seat of `play --browser`, without the other pages of a ladder."""

    def url(self, path: str, **query: object) -> str:
        """Return the address of a path of this site; parameters that are None are left out."""
        return self.access.url(path, **query)

    def now(self) -> datetime:
        """Return the time by the ladder's clock."""
        return utc_time(self.now_ms())

    def static(self, name: str) -> str:
        """Return the address of a script or a style sheet."""
        return self.access.url(f"/static/{static_names()[name]}")

    def page(self, page: Page[T], query: Query, data: T) -> str:
        """Render a page of the site with its document, as HTML.

        The template can call `with_query` for a link to the same page with changed parameters.
        """

        def with_query(**changed: object) -> Mapping[str, object]:
            """Return the parameters of this page, with those that are changed or added."""
            return {**query.parameters, **changed}

        path = page.path.format_map(query.path)
        return self._render(
            page.template,
            data=data,
            here=path,
            query=query,
            with_query=with_query,
            title=words.name(page.title(data)),
            summary=words.name(page.summary(data)),
            canonical=self.access.canonical(path, **query.parameters),
            csv=self.url(path, **query.parameters, format="csv") if page.csv else None,
            current=page.nav,
            **page.extras(data),
        )

    def personal_page(
        self, template: str, title: str, visit: Visit, values: Mapping[str, Any]
    ) -> str:
        """Render a page that depends on its reader, as HTML.

        `values` are the values of the template. The template of every such page has the names in
        `defaults`, which `values` may replace.
        """
        defaults: Mapping[str, Any] = {
            "query": Query(),
            "done": None,
            "problem": None,
            "typed": {},
            "current": "Account",
        }
        return self._render(
            template,
            visit=visit,
            title=words.name(title),
            summary=words.name(title),
            canonical=None,
            closed=self.private and not visit.author,
            **{**defaults, **values},
        )

    def refusal(self, refusal: Refusal, *, is_member: bool = False) -> str:
        """Render the page of a refusal; visitors of a private ladder see no navigation on it."""
        return self._render(
            "error.html",
            refusal=refusal,
            title=refusal.title,
            summary=refusal.sentence,
            canonical=None,
            current=None,
            closed=self.private and not is_member,
        )

    def _render(self, template: str, **values: Any) -> str:
        """Render a template; `closed` hides the navigation from visitors of a private ladder."""
        context: Mapping[str, Any] = {"site": self, "w": words, "closed": False, **values}
        return load_template(f"site/{template}").render(context)

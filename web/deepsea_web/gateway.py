"""The gateway of all requests: callers, rates, streams, uploads, and the threads of the store.

Invariants: a caller within its rates is never refused; memory is bounded, whatever keys come, and a
forgotten key counts as a new one; a wrong token costs a place in the rate of its address before it
costs a thread; the queue for threads is bounded, and beyond it requests get 503; a stream ends when
its token or session does; an upload leaves nothing behind, whenever its sender leaves.

Uploads: the archive of a bot that arrives over the API or with a form of the pages.

Invariants: the bytes lie in a temporary file, so that many uploads at once take little memory;
nothing in them is read as an archive here; one that is too slow, too long or not what its header
says is refused, and leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    Callable,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from tempfile import SpooledTemporaryFile
from typing import IO, Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from deepsea_arena.api.declarations import Flow, Method
from deepsea_arena.api.errors import (
    INVALID_TOKEN,
    MINUTE_US,
    MOST_KEYS,
    ApiError,
    Rate,
    RefusalKind,
    refusal_of,
)
from deepsea_arena.api.ladder_api import METHODS
from deepsea_arena.api.local import LocalLadder, check_call
from deepsea_arena.api.service import LadderService, visitor
from deepsea_arena.api.submissions import Archive
from deepsea_ladder.accounts import Caller, SecretKind, is_loopback, secret_digest, source
from deepsea_ladder.limits import RemoteLimits
from deepsea_referee.clock import Clock, time_limit
from deepsea_rules.printable import one_line
from deepsea_web.http import BodyTooLong, at_most, body_parts

_SECOND_US = 1_000_000
THREADS = 8
MOST_WAITING = 256
"""Calls and pages that wait for a thread; beyond it they are refused."""
RECHECK_US = 3_000_000
"""The time after which a stream checks its token or session again."""
LOOK_US = 2_000_000
"""The time after which the settings of the ladder are read again."""
NEWS_US = 250_000
"""The least time between two questions of a stream for news."""
EACH_US = 1_500
"""And for each open stream: at most about a fifth of a core asks for news, however many watch."""
BATCH = 64
"""Answers of a stream that are made at a time."""
PLAIN = "a token was sent where others can read it, so it is not taken: use the https address"
_BEARER = "bearer "
_TOO_MANY_STREAMS = "too many streams are open; try again"
_log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Batch:
    """Answers of a stream."""

    answers: list[Any]
    ended: bool = False
    quiet: bool = False
    """True if there is nothing new after these."""


class Slots:
    """Limits of what is open at once: `most()` of each key, and in all; `settings` names both."""

    def __init__(
        self,
        most: Callable[[], tuple[int, int]],
        *,
        settings: tuple[str, str] = ("streams_of_address", "streams"),
        too_many: str = _TOO_MANY_STREAMS,
        too_many_of_key: str = _TOO_MANY_STREAMS,
        retry_s: int = 30,
    ) -> None:
        self._most = most
        self._settings = settings
        self._too_many = too_many
        self._too_many_of_key = too_many_of_key
        self._retry_s = retry_s
        self._open: Counter[Hashable] = Counter()
        self.refused = 0

    @property
    def open(self) -> int:
        return self._open.total()

    @property
    def closed_by(self) -> str:
        """The setting that is 0, so that there is never a place; "" if none is."""
        return next(
            (name for name, most in zip(self._settings, self._most(), strict=True) if not most), ""
        )

    @contextmanager
    def taken(self, key: Hashable | None) -> Iterator[None]:
        """Hold a slot; those without a key are bounded in all alone. Raises ApiError if there is
        none."""
        of_key = 0 if key is None else self._open[key]
        most_of_key, most = self._most()
        if self.open >= most or of_key >= most_of_key:
            self.refused += 1
            if name := self.closed_by:
                said = f"this ladder does not do that: its operator has set `{name}` to 0"
                raise ApiError(RefusalKind.EXHAUSTED, said)
            is_of_key = of_key >= most_of_key
            sentence = self._too_many_of_key if is_of_key else self._too_many
            open_ones = of_key if is_of_key else self.open
            raise ApiError(RefusalKind.EXHAUSTED, sentence.format(open_ones), self._retry_s)
        self._open[key] += 1
        try:
            yield
        finally:
            self._open[key] -= 1
            if not self._open[key]:
                del self._open[key]


class Gateway:
    """The way of all requests; one event loop uses it."""

    def __init__(self, service: LadderService, clock: Clock) -> None:
        self.service = service
        self.clock = clock
        self.closing = asyncio.Event()
        """Set when the server ends: streams end then."""
        self._threads = ThreadPoolExecutor(THREADS, "service")
        self._waiting = 0
        self.requests: Counter[tuple[str, str]] = Counter()
        """Answers that were begun, by route and status."""
        self.calls = Rate(lambda: service.limits.calls_per_minute, MINUTE_US, clock.now_us)
        self.visits = Rate(lambda: service.limits.pages_per_minute, MINUTE_US, clock.now_us)
        """Calls and pages of an address."""
        self._authors: dict[str, int] = {}
        """The author of each token that was valid lately, by its digest."""
        self.streams = Slots(lambda: (service.limits.streams_of_address, service.limits.streams))
        self.heavy = Slots(
            lambda: (service.limits.heavy, service.limits.streams), settings=("heavy", "streams")
        )
        self.uploads = Slots(
            lambda: (service.limits.open_submissions, service.limits.queue),
            too_many="{} uploads are under way; come back",
            too_many_of_key="{} uploads of yours are under way; wait for their end",
            settings=("open_submissions", "queue"),
            retry_s=5,
        )

    def close(self) -> None:
        """End the threads; what they do now is done first."""
        self._threads.shutdown(cancel_futures=True)

    async def follow_settings(self) -> None:
        """Read the ladder's settings again every LOOK_US, until the server ends."""
        in_trouble = False
        while not self.closing.is_set():
            try:  # in a thread of its own, so that it waits for no call
                await asyncio.to_thread(self.service.read_settings)
                in_trouble = False
            except Exception as error:  # noqa: BLE001  (whatever it is, the next look may succeed)
                if not in_trouble:
                    _log.error("the settings stay as they are: %s", one_line(str(error)))
                in_trouble = True
            with suppress(TimeoutError):
                async with time_limit(self.clock, LOOK_US):
                    await self.closing.wait()

    # ------------------------------------------------------------------------------- who calls

    async def caller(self, headers: Sequence[str], address: str, *, secret: bool) -> Caller:
        """The caller, by the values of `authorization`; the call is counted.

        secret  whether nobody else can read what is sent
        """
        if headers:
            return await self._with_token(headers, address, secret=secret)
        self.count_visit(address)
        return visitor(address)

    def count_visit(self, address: str) -> None:
        """Count a call or a page of an address. Raises ApiError if there were too many."""
        if not is_loopback(address):  # that may be everybody, behind a proxy
            self._check_visits(address)

    async def _with_token(self, headers: Sequence[str], address: str, *, secret: bool) -> Caller:
        plain = len(headers) == 1 and headers[0][: len(_BEARER)].lower() == _BEARER
        token = headers[0][len(_BEARER) :] if plain else ""
        digest = secret_digest(SecretKind.TOKEN, token) or ""
        author = self._authors.get(digest)
        if author is None:  # before it costs a thread
            self._check_visits(address)
        else:
            self._check_calls(author)
        if not secret:
            raise ApiError(RefusalKind.UNAUTHENTICATED, PLAIN)
        try:
            if not digest:
                raise ApiError(RefusalKind.UNAUTHENTICATED, INVALID_TOKEN)
            caller = await self.in_thread(lambda: self.service.caller_of(token, address))
        except ApiError as error:
            if error.kind is RefusalKind.UNAUTHENTICATED:
                self._authors.pop(digest, None)
                self.service.count_failure(address)
            raise
        if author is None:
            self._authors[digest] = caller.author_id
            if len(self._authors) > MOST_KEYS:
                del self._authors[next(iter(self._authors))]
            self._check_calls(caller.author_id)
        return caller

    def _check_visits(self, address: str) -> None:
        self.visits.take(source(address), "too many requests from your address")

    def _check_calls(self, author_id: int) -> None:
        self.calls.take(author_id, "too many calls with your tokens")

    # ----------------------------------------------------------------------------------- calls

    async def one(self, caller: Caller, method: Method, fields: Mapping[str, Any]) -> Any:
        """The one answer of a method."""
        return await self.in_thread(lambda: self._call(caller, method, fields))

    async def stream(
        self, caller: Caller, method: Method, fields: Mapping[str, Any]
    ) -> AsyncGenerator[Batch]:
        """The answers of a method as they come; an empty batch now and then if nothing is new."""
        check_call(self.service, caller, method)
        with self.place(caller.address) if method.flow is Flow.EVENTS else self._long_place(caller):
            async for batch in self._answers(caller, method, fields):
                yield batch

    @contextmanager
    def uploading(self, caller: Caller) -> Iterator[None]:
        """Hold the place of an upload. Raises ApiError for callers who may not submit, or of whom
        too many uploads come in at this moment."""
        check_call(self.service, caller, METHODS["submit"])
        with self.uploads.taken(caller.author_id):
            yield

    async def upload(
        self, caller: Caller, announced: Archive, request: Request
    ) -> AsyncGenerator[Batch]:
        """The answers to an upload, as they come once it is there; the first one alone where the
        ladder has no streams.

        announced  the archive that its header says
        """
        has_streams = not self.streams.closed_by
        place = self.place(caller.address) if has_streams else nullcontext()
        with place, ExitStack() as held:
            held.enter_context(self.uploading(caller))
            file = held.enter_context(SpooledTemporaryFile(max_size=PART))
            archive = await self._received(caller, announced, request, file)
            async for batch in self._answers(caller, METHODS["submit"], {"archive": archive}):
                held.close()  # it is stored
                yield batch
                if not has_streams:
                    return

    async def _received(
        self, caller: Caller, announced: Archive, request: Request, file: IO[bytes]
    ) -> Archive:
        """The archive when all of it is in the file; the bytes of one that is known are not kept.

        Raises ApiError if it is refused.
        """
        ladder = LocalLadder(self.service, caller)
        parts = upload_parts(request, self.service.limits, self.clock)
        is_known = await self.in_thread(lambda: ladder.is_known(announced))
        checked = self.clock.now_us()
        try:
            async for part in at_most(parts, announced.size):
                checked = await self.recheck(caller, checked)
                if part and not is_known:
                    await self.in_thread(partial(file.write, part))
        except BodyTooLong:
            said = f"more than the {announced.size} bytes came that the header says"
            raise ApiError(RefusalKind.INVALID, said) from None
        except ClientDisconnect:
            raise ApiError(RefusalKind.INVALID, "the upload broke off") from None
        if is_known:
            return announced
        archive = await self.in_thread(lambda: archive_in(file, announced.bot, announced.key))
        check_arrived(archive, announced)
        return archive

    def _call(self, caller: Caller, method: Method, fields: Mapping[str, Any]) -> Any:
        return getattr(LocalLadder(self.service, caller), method.name)(**fields)

    async def _answers(
        self, caller: Caller, method: Method, fields: Mapping[str, Any]
    ) -> AsyncGenerator[Batch]:
        answers = await self.in_thread(lambda: iter(self._call(caller, method, fields)))
        checked = self.clock.now_us()
        try:
            while not self.closing.is_set():
                batch = await self.in_thread(lambda: _next(answers))
                yield batch
                if batch.ended:
                    return
                if batch.quiet:
                    await self._rest(checked + RECHECK_US)
                checked = await self.recheck(caller, checked)
        finally:
            if (close := getattr(answers, "close", None)) is not None:
                self._threads.submit(close)

    async def recheck(self, caller: Caller, checked: int) -> int:
        """When the token was checked last; it is now, if it is time. Raises ApiError."""
        now = self.clock.now_us()
        if now - checked < RECHECK_US:
            return checked
        if not await self.in_thread(lambda: self.service.still_valid(caller)):
            raise ApiError(RefusalKind.UNAUTHENTICATED, INVALID_TOKEN)
        return now

    async def _rest(self, until: int) -> None:
        """Wait before news are asked for again, but not longer than `until`."""
        wait = min(max(NEWS_US, self.streams.open * EACH_US), until - self.clock.now_us())
        try:
            async with time_limit(self.clock, max(wait, 0)):
                await self.closing.wait()
        except TimeoutError:
            pass

    def place(self, address: str) -> AbstractContextManager[None]:
        """Hold a stream's place. Raises ApiError if there is none, of all or of this address."""
        return self.streams.taken(_key(address))

    def _long_place(self, caller: Caller) -> AbstractContextManager[None]:
        """Hold the place of an export or a download, of which an author, or else an address, has
        few: a download that is not read on holds a whole archive."""
        return self.heavy.taken(caller.author_id or _key(caller.address))

    # --------------------------------------------------------------------------------- threads

    async def in_thread(self, work: Callable[[], T]) -> T:
        """The result of work that reads or writes the store; ApiError if too much waits."""
        if self._waiting >= MOST_WAITING:
            raise ApiError(RefusalKind.UNAVAILABLE, "too many calls at the moment; try again", 1)
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._waiting -= 1


def refused(error: Exception) -> ApiError:
    """The refusal that a caller gets; a mistake of this program goes to the operator's log, too."""
    found = refusal_of(error)
    if found.kind is RefusalKind.INTERNAL:
        cause = error.__cause__ or error
        _log.error("a call from afar: %s", one_line(str(cause)), exc_info=cause)
    return found


def _key(address: str) -> str | None:
    return None if is_loopback(address) else source(address)  # that may be everybody


def _next(answers: Iterator[Any]) -> Batch:
    found: list[Any] = []
    for answer in islice(answers, BATCH):
        if answer is None:
            return Batch(found, quiet=True)
        found.append(answer)
    return Batch(found, ended=len(found) < BATCH)


# The routes of requests, for their metrics

ROUTE = "deepsea.route"
"""The key of a list in the scope of a request, to which its route is added."""


def name_routes(routes: Iterable[BaseRoute], root: str = "") -> None:
    """Let each route say its path, with the names of parameters, to the metrics."""
    for route in routes:
        if isinstance(route, Route):
            route.app = partial(_named, route.app, f"{root}{route.path}")


async def _named(app: ASGIApp, path: str, scope: Scope, receive: Receive, send: Send) -> None:
    scope.get(ROUTE, []).append(path)
    await app(scope, receive, send)


PART = 256 * 1024
"""Bytes of a part as it is stored, and bytes of an upload that stay in memory."""
_START_US = 10_000_000
"""Time that an upload has before its speed counts."""


async def upload_parts(
    request: Request, limits: RemoteLimits, clock: Clock
) -> AsyncGenerator[bytes]:
    """The body of an upload in parts, as they come.

    Raises ApiError if it is too slow, ClientDisconnect if its sender has left.
    """

    def allowed_us(received: int) -> int:
        pace = _START_US + 1_000_000 * received // limits.upload_bytes_per_second
        return min(1_000_000 * limits.upload_seconds, pace)

    try:
        async for part in body_parts(request, clock, allowed_us):
            yield part
    except TimeoutError:
        raise ApiError(
            RefusalKind.EXHAUSTED,
            f"the upload is too slow: it may take {limits.upload_seconds} seconds, and "
            f"{limits.upload_bytes_per_second} bytes a second are the least",
            1,
        ) from None


def archive_in(file: IO[bytes], bot: str, key: str) -> Archive:
    """The archive that has arrived in a file, which stays open until the archive is stored."""
    digest, size, parts = hashlib.sha256(), 0, partial(_parts, file)
    for part in parts():
        digest.update(part)
        size += len(part)
    return Archive(bot=bot, key=key, size=size, sha256=digest.hexdigest(), parts=parts)


def check_arrived(archive: Archive, announced: Archive) -> None:
    """Raise ApiError unless an archive has the size and the digest that its header says."""
    if archive.size != announced.size:
        raise ApiError(
            RefusalKind.INVALID,
            f"the upload ended after {archive.size} of {announced.size} bytes; send it again with "
            "the same key",
        )
    if archive.sha256 != announced.sha256:
        raise ApiError(
            RefusalKind.INVALID,
            f"the archive's SHA-256 is {archive.sha256}, and the header says {announced.sha256}",
        )


def _parts(file: IO[bytes]) -> Iterator[bytes]:
    file.seek(0)
    while part := file.read(PART):
        yield part

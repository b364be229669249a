"""The gateway of all requests: callers, rates, streams, uploads, and the threads of the store.

Start reading at Gateway. An upload is the archive of a bot that arrives over the API or with a form
of the pages.

Invariants: a caller within its rates is never refused; memory is bounded, whatever keys come, and a
forgotten key counts as a new one; a wrong token counts in the rate of its address before it costs a
thread; the queue for threads is bounded, and beyond it requests get 503; a stream ends when its
token or session does; the bytes of an upload lie in a temporary file, so that many uploads at once
take little memory, and are not read as an archive here; an upload that is too slow, too long or not
what its header says is refused; an upload leaves nothing behind, whenever its sender leaves.
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
from deepsea_ladder.accounts import Caller, SecretKind, address_key, is_loopback, secret_digest
from deepsea_ladder.limits import RemoteLimits
from deepsea_referee.clock import Clock, time_limit
from deepsea_rules.printable import one_line
from deepsea_web.http import BodyTooLong, at_most, body_parts

_SECOND_US = 1_000_000
THREADS = 8
"""Number of threads that read and write the store."""
MOST_WAITING = 256
"""Maximum number of calls and pages that wait for a thread or run in one."""
RECHECK_US = 3_000_000
"""The time after which a stream checks its token or session again."""
SETTINGS_US = 2_000_000
"""The time after which the settings of the ladder are read again."""
POLL_US = 250_000
"""Minimum pause of a stream between two polls of the store for news."""
POLL_PER_STREAM_US = 1_500
"""Minimum pause between two polls, for each open stream.

It keeps polling below a fifth of a core, whatever the number of streams.
"""
BATCH = 64
"""Maximum number of a stream's answers that are made at a time."""
SENT_IN_CLEAR = (
    "a token was sent where others can read it, so it is not taken: use the https address"
)
_BEARER = "bearer "
_TOO_MANY_STREAMS = "too many streams are open; try again"
_log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Batch:
    """The next answers of a stream."""

    answers: list[Any]
    is_last: bool = False
    """True if the stream ends after these answers."""
    is_quiet: bool = False
    """True if there is nothing new after these answers at the moment."""


class Slots:
    """A limit on how many things, such as streams, are open at once: for each key, and in all.

    limits           returns the maximum of a key and the maximum in all
    settings         the names of the ladder's settings for these two limits
    too_many         the sentence of a refusal for the maximum in all; {} stands for the number
    too_many_of_key  the sentence of a refusal for the maximum of a key
    retry_s          seconds after which a refused caller should try again
    """

    def __init__(
        self,
        limits: Callable[[], tuple[int, int]],
        *,
        settings: tuple[str, str] = ("streams_of_address", "streams"),
        too_many: str = _TOO_MANY_STREAMS,
        too_many_of_key: str = _TOO_MANY_STREAMS,
        retry_s: int = 30,
    ) -> None:
        """Begin with no open slots; for the arguments see the class."""
        self._limits = limits
        self._settings = settings
        self._too_many = too_many
        self._too_many_of_key = too_many_of_key
        self._retry_s = retry_s
        self._open: Counter[Hashable] = Counter()
        """The number of open slots of each key."""
        self.refused = 0
        """Number of slots that were refused."""

    @property
    def open(self) -> int:
        """Number of open slots of all keys."""
        return self._open.total()

    @property
    def closed_by(self) -> str:
        """The name of the setting that is 0, so that no slot is ever free; "" if neither is."""
        for name, limit in zip(self._settings, self._limits(), strict=True):
            if limit == 0:
                return name
        return ""

    @contextmanager
    def hold(self, key: Hashable | None) -> Iterator[None]:
        """Hold a slot, the right to have one thing such as a stream open, during the context.

        Raises ApiError if the key, or all keys together, have as many slots as they may. With the
        key None only the maximum of all keys counts.
        """
        most_of_key, most_of_all = self._limits()
        open_of_key = 0 if key is None else self._open[key]
        if open_of_key >= most_of_key:
            raise self._refusal(self._too_many_of_key.format(open_of_key))
        if self.open >= most_of_all:
            raise self._refusal(self._too_many.format(self.open))
        self._open[key] += 1
        try:
            yield
        finally:
            self._open[key] -= 1
            if not self._open[key]:
                del self._open[key]

    def _refusal(self, sentence: str) -> ApiError:
        """Count a refusal, and return it with a sentence that says which slots are all in use.

        If a setting is 0, so that no slot is ever free, the sentence names the setting instead.
        """
        self.refused += 1
        setting = self.closed_by
        if setting:
            sentence = f"this ladder does not do that: its operator has set `{setting}` to 0"
            return ApiError(RefusalKind.EXHAUSTED, sentence)
        return ApiError(RefusalKind.EXHAUSTED, sentence, self._retry_s)


class Gateway:
    """The way of all requests of the API and of the pages. One event loop uses it."""

    def __init__(self, service: LadderService, clock: Clock) -> None:
        """Start the threads; the limits of rates and slots follow the settings of the service."""
        self.service = service
        self.clock = clock
        self.closing = asyncio.Event()
        """Set when the server ends, so that streams end."""
        self._threads = ThreadPoolExecutor(THREADS, "service")
        self._waiting = 0
        """Number of calls and pages that wait for a thread or run in one."""
        self.requests: Counter[tuple[str, str]] = Counter()
        """The number of responses that were begun, by route and status."""
        self.calls = Rate(lambda: service.limits.calls_per_minute, MINUTE_US, clock.now_us)
        """The rate of calls by author."""
        self.visits = Rate(lambda: service.limits.pages_per_minute, MINUTE_US, clock.now_us)
        """The rate of pages, and of calls without a known token, by address."""
        self._authors: dict[str, int] = {}
        """The id of the author of each token that was valid lately, by the token's digest."""
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
        """End the threads; they finish the work that they have begun."""
        self._threads.shutdown(cancel_futures=True)

    async def follow_settings(self) -> None:
        """Read the ladder's settings again every SETTINGS_US, until the server ends.

        If that fails, the settings that were read last stay in force. Of several failures in a row
        only the first one is logged.
        """
        has_failed = False
        while not self.closing.is_set():
            try:
                # Not in the gateway's threads, so that the settings do not wait for calls.
                await asyncio.to_thread(self.service.read_settings)
                has_failed = False
            except Exception as error:  # noqa: BLE001  (after any error the next try may succeed)
                if not has_failed:
                    _log.error("the settings stay as they are: %s", one_line(str(error)))
                has_failed = True
            with suppress(TimeoutError):  # a pause that the end of the server cuts short
                async with time_limit(self.clock, SETTINGS_US):
                    await self.closing.wait()

    # ------------------------------------------------------------------------------- who calls

    async def caller(self, headers: Sequence[str], address: str, *, secret: bool) -> Caller:
        """Return the caller of a request, and count the call in the caller's rate.

        headers  the values of the header `authorization`; none for a visitor
        address  the network address of the request
        secret   True if nobody else can read the request; a token is refused otherwise
        Raises ApiError for a token that is not valid, and for a caller who calls too often.
        """
        if headers:
            return await self._token_holder(headers, address, secret=secret)
        self.count_visit(address)
        return visitor(address)

    def count_visit(self, address: str) -> None:
        """Count a call or a page of an address. Raises ApiError beyond the rate."""
        if not is_loopback(address):  # loopback may be everybody, behind a proxy
            self._check_visits(address)

    async def _token_holder(self, headers: Sequence[str], address: str, *, secret: bool) -> Caller:
        """Return the author who holds the token of a request, as its caller.

        The call counts in the author's rate if the token was valid lately, else in that of the
        address before the store is asked, so that wrong tokens cannot take all threads.
        """
        is_bearer = len(headers) == 1 and headers[0][: len(_BEARER)].lower() == _BEARER
        token = headers[0][len(_BEARER) :] if is_bearer else ""
        digest = secret_digest(SecretKind.TOKEN, token) or ""
        author_id = self._authors.get(digest)
        if author_id is None:
            self._check_visits(address)
        else:
            self._check_calls(author_id)
        if not secret:
            raise ApiError(RefusalKind.UNAUTHENTICATED, SENT_IN_CLEAR)
        try:
            if not digest:
                raise ApiError(RefusalKind.UNAUTHENTICATED, INVALID_TOKEN)
            caller = await self.in_thread(lambda: self.service.caller_of(token, address))
        except ApiError as error:
            if error.kind is RefusalKind.UNAUTHENTICATED:
                self._authors.pop(digest, None)
                self.service.count_failure(address)
            raise
        if author_id is None:
            self._authors[digest] = caller.author_id
            if len(self._authors) > MOST_KEYS:
                oldest_digest = next(iter(self._authors))
                del self._authors[oldest_digest]
            self._check_calls(caller.author_id)
        return caller

    def _check_visits(self, address: str) -> None:
        self.visits.take(address_key(address), "too many requests from your address")

    def _check_calls(self, author_id: int) -> None:
        self.calls.take(author_id, "too many calls with your tokens")

    # ----------------------------------------------------------------------------------- calls

    async def answer(self, caller: Caller, method: Method, fields: Mapping[str, Any]) -> Any:
        """Call a method that has one response, and return that."""
        return await self.in_thread(lambda: self._call(caller, method, fields))

    async def stream(
        self, caller: Caller, method: Method, fields: Mapping[str, Any]
    ) -> AsyncGenerator[Batch]:
        """Call a method that has many answers, and yield them in batches as they come.

        While nothing is new, a batch without answers comes now and then. Raises ApiError if too
        many streams or downloads are open.
        """
        check_call(self.service, caller, method)
        if method.flow is Flow.EVENTS:
            slot = self.stream_slot(caller.address)
        else:  # lines of an export, or parts of a file
            slot = self._download_slot(caller)
        with slot:
            async for batch in self._answer_batches(caller, method, fields):
                yield batch

    @contextmanager
    def uploading(self, caller: Caller) -> Iterator[None]:
        """Hold the slot of an upload during the context.

        Raises ApiError for a caller who may not submit, or who has too many uploads under way.
        """
        check_call(self.service, caller, METHODS["submit"])
        with self.uploads.hold(caller.author_id):
            yield

    async def upload(
        self, caller: Caller, announced: Archive, request: Request
    ) -> AsyncGenerator[Batch]:
        """Receive and submit an archive, then yield the answers of its check in batches.

        If the operator has turned streams off, only the first batch is yielded, so that no stream
        stays open during the check.

        announced  the archive as the request's header describes it
        """
        streams_are_off = bool(self.streams.closed_by)
        stream_slot = nullcontext() if streams_are_off else self.stream_slot(caller.address)
        with stream_slot, ExitStack() as receiving:
            receiving.enter_context(self.uploading(caller))
            file = receiving.enter_context(SpooledTemporaryFile(max_size=PART))
            archive = await self._receive_archive(caller, announced, request, file)
            batches = self._answer_batches(caller, METHODS["submit"], {"archive": archive})
            async for batch in batches:
                # The first answer says that the archive is stored: free its file and the slot of
                # the upload now, since the check takes long. To close them again does nothing.
                receiving.close()
                yield batch
                if streams_are_off:
                    return

    async def _receive_archive(
        self, caller: Caller, announced: Archive, request: Request, file: IO[bytes]
    ) -> Archive:
        """Receive an upload into the file, and return its archive.

        If the archive is a submission already, because its sender repeats an upload, its bytes are
        read but not written to the file, and `announced` is returned. Raises ApiError if the upload
        is refused or breaks off.
        """
        ladder = LocalLadder(self.service, caller)
        parts = upload_parts(request, self.service.limits, self.clock)
        is_known = await self.in_thread(lambda: ladder.is_known(announced))
        checked_us = self.clock.now_us()  # the time when the token was last checked
        try:
            async for part in at_most(parts, announced.size):
                checked_us = await self.recheck(caller, checked_us)
                if part and not is_known:
                    await self.in_thread(partial(file.write, part))
        except BodyTooLong:
            sentence = f"more than the {announced.size} bytes came that the header says"
            raise ApiError(RefusalKind.INVALID, sentence) from None
        except ClientDisconnect:
            raise ApiError(RefusalKind.INVALID, "the upload broke off") from None
        if is_known:
            return announced
        archive = await self.in_thread(lambda: archive_in(file, announced.bot, announced.key))
        check_arrived(archive, announced)
        return archive

    def _call(self, caller: Caller, method: Method, fields: Mapping[str, Any]) -> Any:
        """Call a method of the ladder for a caller; runs in a thread of the store."""
        return getattr(LocalLadder(self.service, caller), method.name)(**fields)

    async def _answer_batches(
        self, caller: Caller, method: Method, fields: Mapping[str, Any]
    ) -> AsyncGenerator[Batch]:
        """Yield the answers of a method in batches, until they or the server end.

        Raises ApiError when the caller's token or session ends meanwhile.
        """
        answers = await self.in_thread(lambda: iter(self._call(caller, method, fields)))
        checked_us = self.clock.now_us()  # the time when the token or session was last checked
        try:
            while not self.closing.is_set():
                batch = await self.in_thread(lambda: _next_batch(answers))
                yield batch
                if batch.is_last:
                    return
                if batch.is_quiet:
                    await self._pause(checked_us + RECHECK_US)
                checked_us = await self.recheck(caller, checked_us)
        finally:
            close = getattr(answers, "close", None)  # only generators have it
            if close is not None:
                # In a thread, as its other steps; not awaited, since this task may be cancelled.
                self._threads.submit(close)

    async def recheck(self, caller: Caller, checked_us: int) -> int:
        """Check the caller's token or session again, unless that was done in the last RECHECK_US.

        checked_us  the time of the last check
        Returns the time of the last check: now if this was one, else `checked_us`. Raises ApiError
        if the token or session has ended.
        """
        now_us = self.clock.now_us()
        if now_us - checked_us < RECHECK_US:
            return checked_us
        if not await self.in_thread(lambda: self.service.still_valid(caller)):
            raise ApiError(RefusalKind.UNAUTHENTICATED, INVALID_TOKEN)
        return now_us

    async def _pause(self, until_us: int) -> None:
        """Wait before the store is polled again, but not beyond `until_us` or the server's end.

        The more streams are open, the longer is the pause of each, so that all streams together
        take a bounded part of a core.
        """
        pause_us = max(POLL_US, self.streams.open * POLL_PER_STREAM_US)
        left_us = max(0, until_us - self.clock.now_us())
        with suppress(TimeoutError):
            async with time_limit(self.clock, min(pause_us, left_us)):
                await self.closing.wait()

    def stream_slot(self, address: str) -> AbstractContextManager[None]:
        """Return a context that holds the slot of a stream.

        Entering it raises ApiError if there are too many streams, of all or of the address.
        """
        return self.streams.hold(_slot_key(address))

    def _download_slot(self, caller: Caller) -> AbstractContextManager[None]:
        """Return a context that holds the slot of an export or a download.

        An author has few of these slots, and so has the address of a visitor: a download keeps a
        whole archive in memory for as long as its reader takes.
        """
        return self.heavy.hold(caller.author_id or _slot_key(caller.address))

    # --------------------------------------------------------------------------------- threads

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Run work that reads or writes the store in a thread, and return its result.

        Raises ApiError instead if too many calls wait for a thread.
        """
        if self._waiting >= MOST_WAITING:
            sentence = "too many calls at the moment; try again"
            raise ApiError(RefusalKind.UNAVAILABLE, sentence, retry_after=1)
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._waiting -= 1


def logged_refusal(error: Exception) -> ApiError:
    """Return the refusal that a caller over HTTP gets for an error.

    If the error is a fault of this program, its cause is logged, which the refusal does not name.
    """
    refusal = refusal_of(error)
    if refusal.kind is RefusalKind.INTERNAL:
        cause = error.__cause__ or error
        _log.error("a call from afar: %s", one_line(str(cause)), exc_info=cause)
    return refusal


def _slot_key(address: str) -> str | None:
    """Return the key under which slots of an address count; None if they count only in all.

    Loopback has no key, since behind a proxy it may be everybody.
    """
    return None if is_loopback(address) else address_key(address)


def _next_batch(answers: Iterator[Any]) -> Batch:
    """Take the next answers of a stream, BATCH at most, and return them as a batch.

    A batch has fewer answers if the stream ends, or if it yields None, which stands for no news.
    """
    next_answers: list[Any] = []
    for answer in islice(answers, BATCH):
        if answer is None:
            return Batch(next_answers, is_quiet=True)
        next_answers.append(answer)
    return Batch(next_answers, is_last=len(next_answers) < BATCH)


# ------------------------------------------------------------- routes of requests, for the metrics

ROUTE = "deepsea.route"
"""The key of a list in the scope of a request, to which the path of its route is added."""


def name_routes(routes: Iterable[BaseRoute], root: str = "") -> None:
    """Make each route name itself in the requests that it takes, so that metrics can count them.

    The name is the path of the route below `root`, with the names of parameters, not their values,
    such as `/bots/{bot}`. It is added to the list in the request's scope under the key ROUTE.
    """
    for route in routes:
        if isinstance(route, Route):
            # The route's application is wrapped in one that adds the name first.
            route.app = partial(_run_named, route.app, f"{root}{route.path}")


async def _run_named(app: ASGIApp, name: str, scope: Scope, receive: Receive, send: Send) -> None:
    """Add the name of a route to the list in a request's scope, and run the route's application.

    A request that is not counted has no such list.
    """
    if ROUTE in scope:
        scope[ROUTE].append(name)
    await app(scope, receive, send)


# ----------------------------------------------------------------------------------------- uploads

PART = 256 * 1024
"""Bytes of a part as it is stored, and bytes of an upload that stay in memory."""
_START_US = 10_000_000
"""Time that an upload has before its speed counts."""


async def upload_parts(
    request: Request, limits: RemoteLimits, clock: Clock
) -> AsyncGenerator[bytes]:
    """Yield the body of an upload in parts, as they arrive.

    Raises ApiError if the upload is too slow, ClientDisconnect if its sender has left.
    """

    def allowed_us(received_bytes: int) -> int:
        """Return the time after its beginning by which the upload has to make progress again."""
        at_minimum_speed_us = _SECOND_US * received_bytes // limits.upload_bytes_per_second
        whole_upload_us = _SECOND_US * limits.upload_seconds
        return min(_START_US + at_minimum_speed_us, whole_upload_us)

    try:
        async for part in body_parts(request, clock, allowed_us):
            yield part
    except TimeoutError:
        raise ApiError(
            RefusalKind.EXHAUSTED,
            f"the upload is too slow: it may take {limits.upload_seconds} seconds, and "
            f"{limits.upload_bytes_per_second} bytes a second are the least",
            retry_after=1,
        ) from None


def archive_in(file: IO[bytes], bot: str, key: str) -> Archive:
    """Return the archive whose bytes are in a file.

    The archive reads its parts from the file, which has to stay open until the archive is stored.

    bot  the bot's name; "" stands for the one in its bot.toml
    key  the sender's key of the upload
    """
    digest, size = hashlib.sha256(), 0
    for part in _file_parts(file):
        digest.update(part)
        size += len(part)
    parts = partial(_file_parts, file)  # each call reads the file again from its beginning
    return Archive(bot=bot, key=key, size=size, sha256=digest.hexdigest(), parts=parts)


def check_arrived(archive: Archive, announced: Archive) -> None:
    """Raise ApiError unless an archive has the size and the digest that were announced."""
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


def _file_parts(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the bytes of a file from its beginning, in parts of PART."""
    file.seek(0)
    while part := file.read(PART):
        yield part

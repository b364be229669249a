"""What gRPC and the HTTP API have in common: who calls, how often, in a thread, as a stream.

Invariants: a token is taken from the header `authorization` alone, and only where nobody else can
read it; a call is counted before it costs a thread, for its author if its token was valid lately,
else for its address; a stream ends within RECHECK_US of its token, and at once when the server
ends; what waits for a thread is bounded; what goes wrong inside is written to the operator's log
and told in a sentence without details.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar

from deepsea_arena.service.caller import Caller, visitor
from deepsea_arena.service.errors import INVALID, Kind, ServiceError, refusal_of
from deepsea_arena.service.login import caller_of_token, still_valid
from deepsea_arena.service.service import LadderService
from deepsea_arena.service.submissions import begin_upload
from deepsea_arena.service.table import Method
from deepsea_ladder.accounts import source, token_digest
from deepsea_referee.timing.clock import Clock, time_limit
from deepsea_rules.printable import one_line
from deepsea_web.remote.rates import MINUTE_US, MOST_KEYS, Rate, Slots
from deepsea_web.remote.uploads import Beginning, Part, Parts, receive
from deepsea_web.site.access import is_loopback

THREADS: Final = 4
MOST_WAITING: Final = 256
"""Calls that wait for a thread; what comes then is refused."""
RECHECK_US: Final = 3_000_000
"""How long a stream believes in its token."""
NEWS_US: Final = 250_000
"""How often a stream asks for news, at least."""
EACH_US: Final = 1_500
"""And for each open stream: at most about a fifth of a core asks for news, however many watch."""
BATCH: Final = 64
"""Answers of a stream that are made at a time."""
PLAIN: Final = (
    "a token was sent where others can read it, so it is not taken: use the https address"
)
_BEARER: Final = "bearer "
_log = logging.getLogger(__name__)
T = TypeVar("T")


class _Batch(NamedTuple):
    answers: list[Any]
    ended: bool
    quiet: bool
    """Whether there is nothing new after these."""


class Front:
    """The service for callers from afar; one event loop uses it."""

    def __init__(
        self,
        service: LadderService,
        clock: Clock,
        closing: asyncio.Event | None = None,
    ) -> None:
        limits = service.limits
        self.service = service
        self.clock = clock
        self.closing = closing or asyncio.Event()
        """Set when the server ends."""
        self._threads = ThreadPoolExecutor(THREADS, "service")
        self._waiting = 0
        self._streams = 0
        self._calls = Rate(limits.calls_per_minute, MINUTE_US, clock.now_us)
        self.visits = Rate(limits.pages_per_minute, MINUTE_US, clock.now_us)
        """Calls and pages of an address."""
        self._authors: dict[str, int] = {}
        """The author of each token that was valid lately, by its digest."""
        self._slots = Slots(limits.streams_of_address, limits.streams)
        self._exports = Slots(limits.heavy, limits.streams)

    def close(self) -> None:
        """End the threads; what they do now is done first."""
        self._threads.shutdown(cancel_futures=True)

    # ------------------------------------------------------------------------------- who calls

    async def who(self, headers: Sequence[str], address: str, *, secret: bool) -> Caller:
        """Who calls, by the values of `authorization`.

        secret  whether nobody else can read what is sent
        """
        if headers:
            return await self._with_token(headers, address, secret=secret)
        if not is_loopback(address):  # as pages: that may be everybody
            self._check_visits(address)
        return visitor(address)

    async def _with_token(self, headers: Sequence[str], address: str, *, secret: bool) -> Caller:
        plain = len(headers) == 1 and headers[0][: len(_BEARER)].lower() == _BEARER
        token = headers[0][len(_BEARER) :] if plain else ""
        digest = token_digest(token) or ""
        author = self._authors.get(digest)
        if author is None:  # before it costs a thread
            self._check_visits(address)
        else:
            self._check_calls(author)
        if not secret:
            raise ServiceError(Kind.UNAUTHENTICATED, PLAIN)
        try:
            if not digest:
                raise ServiceError(Kind.UNAUTHENTICATED, INVALID)
            caller = await self.in_thread(lambda: caller_of_token(self.service, token, address))
        except ServiceError as error:
            if error.kind is Kind.UNAUTHENTICATED:
                self._authors.pop(digest, None)
                self.service.failures.add(address)
            raise
        if author is None:
            self._authors[digest] = caller.author_id
            if len(self._authors) > MOST_KEYS:
                del self._authors[next(iter(self._authors))]
            self._check_calls(caller.author_id)
        return caller

    def _check_visits(self, address: str) -> None:
        _check(self.visits.take(source(address)), "too many calls from your address")

    def _check_calls(self, author_id: int) -> None:
        _check(self._calls.take(author_id), "too many calls with your tokens")

    # ----------------------------------------------------------------------------------- calls

    async def one(self, caller: Caller, name: str, fields: Mapping[str, Any]) -> Any:
        """The one answer of a method."""
        return await self.in_thread(lambda: self.service.call(caller, name, **fields))

    def allowed(self, caller: Caller, name: str) -> Method:
        """The method. Raises ServiceError if the caller may not call it."""
        return self.service.allowed(caller, name)

    async def stream(
        self, caller: Caller, name: str, fields: Mapping[str, Any]
    ) -> AsyncGenerator[list[Any]]:
        """The answers of a method as they come; an empty list now and then if nothing is new."""
        self.allowed(caller, name)
        with self._slot(caller, name):
            async for batch in self._answers(caller, name, fields):
                yield batch

    async def upload(self, caller: Caller, name: str, parts: Parts) -> AsyncGenerator[list[Any]]:
        """The answers to an upload, as they come once it is there."""
        self.allowed(caller, name)
        with self._slot(caller, name):
            beginning = Beginning(lambda: begin_upload(self.service, caller))
            checked = self.clock.now_us()

            async def believed() -> Part | None:
                nonlocal checked
                part = await parts()
                checked = await self._believe(caller, checked)
                return part

            try:
                upload = await self.in_thread(beginning)
                await receive(upload, believed, self.in_thread, self.clock)
                async for batch in self._answers(caller, name, {"upload": upload}):
                    upload.close()  # it is stored
                    yield batch
            finally:
                beginning.close()

    async def _answers(
        self, caller: Caller, name: str, fields: Mapping[str, Any]
    ) -> AsyncGenerator[list[Any]]:
        answers = await self.in_thread(lambda: iter(self.service.call(caller, name, **fields)))
        try:
            async for batch in self._batches(caller, answers):
                yield batch
        finally:
            if (close := getattr(answers, "close", None)) is not None:
                self._threads.submit(close)

    async def _batches(self, caller: Caller, answers: Iterator[Any]) -> AsyncGenerator[list[Any]]:
        checked = self.clock.now_us()
        while not self.closing.is_set():
            batch = await self.in_thread(lambda: _next(answers))
            yield batch.answers
            if batch.ended:
                return
            if batch.quiet:
                await self._rest(checked + RECHECK_US)
            checked = await self._believe(caller, checked)

    async def _believe(self, caller: Caller, checked: int) -> int:
        """When the token was checked last; it is now, if it is time. Raises ServiceError."""
        now = self.clock.now_us()
        if now - checked < RECHECK_US:
            return checked
        await self._check_still(caller)
        return now

    async def _check_still(self, caller: Caller) -> None:
        """Raise ServiceError if the token has ended."""
        if caller.token_id and not await self.in_thread(lambda: still_valid(self.service, caller)):
            raise ServiceError(Kind.UNAUTHENTICATED, INVALID)

    async def _rest(self, until: int) -> None:
        """Wait before news are asked for again, but not longer than `until`."""
        wait = min(max(NEWS_US, self._streams * EACH_US), until - self.clock.now_us())
        try:
            async with time_limit(self.clock, max(wait, 0)):
                await self.closing.wait()
        except TimeoutError:
            pass

    @contextmanager
    def _slot(self, caller: Caller, name: str) -> Iterator[None]:
        """Hold a stream's place. Raises ServiceError if there is none."""
        key = source(caller.address)
        slots = self._exports if name in ONE_AT_A_TIME else self._slots
        with slots.taken(key) as found:
            if not found:
                raise ServiceError(Kind.EXHAUSTED, "too many of these are open; try again", 30)
            self._streams += 1
            try:
                yield
            finally:
                self._streams -= 1

    # --------------------------------------------------------------------------------- threads

    async def in_thread(self, work: Callable[[], T]) -> T:
        """The result of work that reads or writes the store. Raises ServiceError, nothing else."""
        if self._waiting >= MOST_WAITING:
            raise ServiceError(Kind.UNAVAILABLE, "too many calls at the moment; try again", 1)
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except Exception as error:
            raise refused(error) from error
        finally:
            self._waiting -= 1


ONE_AT_A_TIME: Final = frozenset({"Export"})
"""Streams that are long: one of each address."""


def refused(error: Exception) -> ServiceError:
    """What a caller is told; what is a mistake of this program goes to the operator's log, too."""
    found = refusal_of(error)
    if found.kind is Kind.INTERNAL:
        cause = error.__cause__ or error
        _log.error("a call from afar: %s", one_line(str(cause)), exc_info=cause)
    return found


def _check(wait_s: int, sentence: str) -> None:
    if wait_s:
        raise ServiceError(Kind.EXHAUSTED, sentence, wait_s)


def _next(answers: Iterator[Any]) -> _Batch:
    found: list[Any] = []
    for answer in islice(answers, BATCH):
        if answer is None:
            return _Batch(found, ended=False, quiet=True)
        found.append(answer)
    return _Batch(found, ended=len(found) < BATCH, quiet=False)

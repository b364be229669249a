"""The client of a Dask cluster: sends games and bots, and follows workers that join and leave.

Invariants: a game is sent to one worker and to no other, and Dask repeats none; a bot goes to a
worker once, when that says that it lacks it; a worker is used only if it has the same programs and
the isolation that the season asks for; what cannot be fixed here is reported once, in one line.

It has an event loop in a thread of its own; only `play`, `end` and `close` are called from others.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import pickle
import threading
import warnings
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeVar

import distributed

from deepsea_arena.worker_protocol import Outcome, VoidOutcome
from deepsea_arena.workers import dask_agent
from deepsea_arena.workers.local import failure
from deepsea_ladder.errors import WorkerError
from deepsea_ladder.model import Job
from deepsea_referee.errors import UserError
from deepsea_sdk.entropy import fresh_seed

_T = TypeVar("_T")

CONNECT_SECONDS: Final = 10.0
"""Timeout for the scheduler, and for the first worker."""
MEET_SECONDS: Final = 60.0
"""Timeout for a worker's answer whether it can play; without an answer it is not used."""
LOOK_SECONDS: Final = 5.0
"""Interval of requests for the list of workers, even without news of a change."""
ALONE_SECONDS: Final = 60.0
"""The time for which a run waits for a worker when all have left."""
_TOPIC: Final = "all"
"""Where the scheduler tells, among other things, of workers that come and leave."""


class Came(NamedTuple):
    """A worker that can play."""

    address: str
    threads: int


class AgentRefusal(NamedTuple):
    """A worker that cannot."""

    address: str
    reason: str


class Left(NamedTuple):
    """A worker that is gone, or may be a new one by now; its games have no outcome."""

    address: str


class Lost(NamedTuple):
    """The cluster can no longer be used."""

    reason: str


News = Came | AgentRefusal | Left | Lost
_Errand = tuple[str, str]
"""The address of a worker, and the digest of a bot that it lacks."""


class Link:
    """A client of the scheduler at `address`. `on_news` is called in its thread.

    Raises `WorkerError` if the scheduler cannot be reached or none of its workers can play.
    """

    def __init__(
        self,
        address: str,
        fetch: Callable[[str], bytes],
        isolation: str,
        on_news: Callable[[News], None],
    ) -> None:
        self._address = address
        self._fetch = fetch
        self._isolation = isolation
        self._on_news = on_news
        self._run = f"run-{fresh_seed().hex()[:16]}"
        self._numbers = itertools.count(1)
        self._known: dict[str, asyncio.Task[str | None]] = {}
        """Why a worker is not used, or None, once it has said so."""
        self._usable: set[str] = set()
        self._bringing: defaultdict[_Errand, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._brought: dict[_Errand, int] = {}
        self._broken = False
        self._changed = asyncio.Event()
        self._stop = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        begun: Future[None] = Future()
        self._thread = threading.Thread(target=self._serve, args=(begun,), daemon=True)
        self._thread.start()
        try:
            begun.result()
        except BaseException:
            self.close()
            raise

    def play(self, address: str, job: Job) -> Future[Outcome]:
        """Let a worker play; cancelled if the scheduler is lost."""
        return self._call(self._play(address, job))

    def end(self, addresses: Sequence[str], game_id: str | None = None) -> Future[None]:
        """Let workers end a game, or all of this run, and wait for that."""
        return self._call(self._end(addresses, game_id))

    def close(self) -> None:
        """Leave the cluster."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _call(self, work: Coroutine[Any, Any, _T]) -> Future[_T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _serve(self, begun: Future[None]) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._live(begun))

    async def _live(self, begun: Future[None]) -> None:
        work = asyncio.create_task(self._work(begun))
        await self._stop.wait()
        work.cancel()
        await asyncio.wait({work})

    async def _work(self, begun: Future[None]) -> None:
        try:
            self._client = await _joined(self._address)
            try:
                await self._begin()
                begun.set_result(None)
                await self._watch()
            finally:
                await _left(self._client)
        except Exception as error:
            if begun.done():
                raise
            begun.set_exception(error)
        finally:
            begun.cancel()  # has no effect on what is done

    # Who is there

    async def _begin(self) -> None:
        """See whether there is a worker that can play."""
        self._client.subscribe_topic(_TOPIC, self._on_event)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                scheduler = (await self._client.scheduler.versions())["packages"]
                ours = {"distributed": dask_agent.programs()["distributed"]}
                if found := dask_agent.difference(scheduler, ours):
                    raise WorkerError(f"the scheduler at {self._address} cannot be used: {found}")
                while not await self._survey():
                    await self._next_change()
        except TimeoutError:
            raise WorkerError(
                f"the scheduler at {self._address} has no workers: start some with "
                f"`dask worker {self._address}`"
            ) from None
        await asyncio.wait(meetings := list(self._known.values()))
        if not self._usable:
            reasons = [meeting.result() for meeting in meetings if not meeting.cancelled()]
            words = reasons[0] if reasons else "it has left"
            raise WorkerError(f"no worker of {self._address} can play; the first: {words}")

    async def _watch(self) -> None:
        """Follow workers that join and leave, until the scheduler or all workers are gone."""
        alone_since: float | None = None
        clock = asyncio.get_running_loop().time
        words = "what was being played will be played again"
        try:
            while not self._broken and self._client.status == "running":
                await self._survey()
                await self._next_change()
                if self._usable:
                    alone_since = None
                elif alone_since is None:
                    alone_since = clock()
                elif clock() - alone_since >= ALONE_SECONDS:
                    self._on_news(Lost(f"no worker of {self._address} is left"))
                    return
        except Exception as error:  # noqa: BLE001  (a run must not wait for who is not there)
            words = failure(error).reason
        self._on_news(Lost(f"the scheduler at {self._address} is gone: {words}"))

    async def _survey(self) -> int:
        """Ask the scheduler for its workers; how many there are."""
        threads: Mapping[str, int] = await self._client.nthreads()
        for address in self._known.keys() - threads.keys():
            self._forget(address)
        for address in threads.keys() - self._known.keys():
            meeting = self._meet(address, threads[address])
            self._known[address] = asyncio.create_task(meeting)
        return len(self._known)

    async def _next_change(self) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), LOOK_SECONDS)
        self._changed.clear()

    def _on_event(self, event: tuple[float, Mapping[str, Any]]) -> None:
        """The scheduler tells of something."""
        message = event[1]
        if message.get("action") in ("add-worker", "remove-worker"):
            if message["action"] == "remove-worker":
                self._forget(message["worker"])
            self._changed.set()

    def _forget(self, address: str) -> None:
        self._usable.discard(address)
        if (meeting := self._known.pop(address, None)) is not None:
            meeting.cancel()
            self._on_news(Left(address))

    async def _meet(self, address: str, threads: int) -> str | None:
        """Ask a worker whether it can play; returns the reason why not, or None."""
        reason: str | None
        try:
            async with asyncio.timeout(MEET_SECONDS):
                answers = await self._client.run(
                    dask_agent.look, dask_agent.programs(), self._isolation, workers=[address]
                )
            reason = answers[address]
        except TimeoutError:
            reason = f"it gave no answer within {MEET_SECONDS:g} seconds"
        except OSError:  # it has left meanwhile, or else the next survey finds it again
            self._known.pop(address, None)
            return "it cannot be reached"
        except Exception as error:  # noqa: BLE001  (whatever it is, others may do)
            reason = failure(error).reason
        if reason is None:
            self._usable.add(address)
            self._on_news(Came(address, threads))
        else:
            self._on_news(AgentRefusal(address, reason))
        return reason

    # Games and bots

    async def _play(self, address: str, job: Job) -> Outcome:
        packed = pickle.dumps(job)
        for _ in range(2):
            sent = next(self._numbers)
            answer = await self._ask(address, packed)
            if not isinstance(answer, dask_agent.Lacks):
                return answer
            for digest in answer.digests:
                await self._bring(address, digest, sent)
        return VoidOutcome(f"the worker {address} does not keep the bots that it is given")

    async def _ask(self, address: str, packed: bytes) -> Outcome | dask_agent.Lacks:
        """Let one worker play, as a task that is like no other and may run nowhere else."""
        key = f"deepsea-{self._run}-{next(self._numbers)}"
        future = self._client.submit(
            dask_agent.play, self._run, packed, key=key, workers=[address], pure=False, retries=0
        )
        try:
            answer: Outcome | dask_agent.Lacks = await future
        except CancelledError:  # Dask's own: this one is an Exception
            if self._client.status == "running":
                raise RuntimeError("the cluster has cancelled the game") from None
            # By the time that this is looked at it may have connected again, without the games.
            self._broken = True
            self._changed.set()
            raise asyncio.CancelledError from None
        finally:
            future.release()
        return answer

    async def _bring(self, address: str, digest: str, since: int) -> None:
        """Send a bot to a worker, unless it came there after the job `since` was sent."""
        errand = (address, digest)
        async with self._bringing[errand]:
            if self._brought.get(errand, 0) > since:
                return
            archive = await asyncio.to_thread(self._fetch, digest)
            await self._client.run(dask_agent.keep, digest, archive, workers=[address])
            self._brought[errand] = next(self._numbers)

    async def _end(self, addresses: Sequence[str], game_id: str | None) -> None:
        """End a game, or all of this run."""
        if addresses:
            await self._client.run(
                dask_agent.end, self._run, game_id, workers=addresses, on_error="ignore"
            )


async def _joined(address: str) -> Any:
    """A client of the scheduler at that address."""
    # What Dask has to say of lost connections is said here, in one line.
    for name in ("distributed", "distributed.client", "tornado"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        client = distributed.Client(
            address,
            asynchronous=True,
            timeout=CONNECT_SECONDS,
            set_as_default=False,
            name="deepsea-ladder",
        )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # versions are compared with better words
                # The client's own limit does not hold for a server that accepts and is silent.
                async with asyncio.timeout(CONNECT_SECONDS):
                    await client
        except BaseException:
            await _left(client)
            raise
    except (OSError, ImportError) as error:  # TimeoutError is an OSError
        words = str(error) or f"no answer within {CONNECT_SECONDS:g} seconds"
        raise WorkerError(f"no scheduler can be reached at {address}: {words}") from None
    except (ValueError, TypeError, RuntimeError) as error:
        raise UserError(f"--cluster {address}: {error}") from None
    return client


async def _left(client: Any) -> None:
    with suppress(OSError):
        if client.status == "running":
            # Else the scheduler tries to tell us that we have left.
            client.unsubscribe_topic(_TOPIC)
        async with asyncio.timeout(CONNECT_SECONDS):
            await client.close()

"""Readers who stop in the middle of an answer: what they hold, and what they do not."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sqlalchemy import QueuePool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deepsea_arena.api.service import LadderService
from deepsea_ladder.limits import RemoteLimits
from deepsea_ladder.store import Store
from deepsea_web.access import Access
from deepsea_web.gateway import BATCH, THREADS, Gateway
from deepsea_web.http import PATIENCE_US
from deepsea_web.http_api import http_api
from helpers.manual_clock import ManualClock
from helpers.members import a_service, a_token
from helpers.site import ask, scope_of
from helpers.steps import repeated


class Stopped:
    """Readers of an API who take nothing of the body."""

    def __init__(self, service: LadderService) -> None:
        self.gateway = Gateway(service, ManualClock())
        self.api = SimpleNamespace(app=http_api(self.gateway, Access("https://games.example")))
        self._reached = asyncio.Semaphore(0)
        self._readers: list[asyncio.Task[Any]] = []

    async def begin(self, path: str, **said: Any) -> None:
        """Ask, and stop reading."""
        slow = cast("Any", SimpleNamespace(app=self._stopped(self.api.app)))
        self._readers.append(asyncio.create_task(ask(slow, path, **said)))
        await self._reached.acquire()

    def _stopped(self, app: ASGIApp) -> ASGIApp:
        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            async def take(message: Message) -> None:
                if message.get("more_body"):
                    self._reached.release()
                    await asyncio.Event().wait()
                await send(message)

            await app(scope, receive, take)

        return answer

    async def status(self, path: str, **said: Any) -> int:
        """The status for a reader who reads."""
        return (await ask(cast("Any", self.api), path, **said)).status

    async def leave(self) -> None:
        """End all that was begun."""
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)

    async def close(self) -> None:
        await self.leave()
        self.gateway.close()


def token_of(service: LadderService, author: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {a_token(service, author)}"}


async def test_a_stopped_reader_holds_no_thread_and_no_transaction(
    played_file: Path, tmp_path: Path
) -> None:
    with Store.open(repeated(played_file, tmp_path / "ladder.db", 1 + BATCH // 8)) as played:
        service = a_service(played, limits=RemoteLimits(heavy=2 * THREADS))
        token = token_of(service, "anna-senior")
        readers = Stopped(service)
        for path in ("/export", "/bots/anna/archive") * THREADS:
            await readers.begin(path, headers=token)
        assert cast("QueuePool", played.database.engine.pool).checkedout() == 0
        played.bots.withdraw("dan")
        assert await readers.status("/standings") == 200
        await readers.close()


@pytest.mark.parametrize("path", ["/export", "/bots/anna/archive"])
async def test_an_author_holds_few_long_answers_wherever_they_go(played: Store, path: str) -> None:
    """Each may hold an archive of 16 MiB, and an address may be a whole class."""
    service = a_service(played, limits=RemoteLimits(heavy=2))
    anna, ben = token_of(service, "anna-senior"), token_of(service, "ben-senior")
    readers = Stopped(service)
    for client in ("203.0.113.5", "127.0.0.1"):
        await readers.begin(path, headers=anna, client=client)
    assert await readers.status(path, headers=anna, client="203.0.113.6") == 429
    other = path.replace("anna", "ben")
    assert await readers.status(other, headers=ben, client="203.0.113.5") == 200
    await readers.begin("/feed?after=1", headers=anna, client="203.0.113.5")  # has other places
    await readers.leave()
    assert await readers.status(path, headers=anna, client="203.0.113.5") == 200
    await readers.close()


async def test_an_address_without_tokens_holds_few_exports(played: Store) -> None:
    readers = Stopped(a_service(played, limits=RemoteLimits(heavy=1)))
    await readers.begin("/export", client="203.0.113.5")
    assert await readers.status("/export", client="203.0.113.5") == 429
    assert await readers.status("/export", client="203.0.113.6") == 200
    await readers.close()


async def exported(store: Store, times_us: Iterable[int]) -> tuple[list[bytes], bool]:
    """Return the parts of an export for a reader of these times, and True if it has ended.

    Further parts take the reader no time.
    """
    clock, sent, times = ManualClock(), list[Message](), iter(times_us)
    gateway = Gateway(a_service(store), clock)

    async def send(message: Message) -> None:
        sent.append(message)
        if message.get("more_body"):
            us = next(times, 0)
            clock.jump(us)
            if us > PATIENCE_US:
                await asyncio.Event().wait()

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    app: Any = http_api(gateway, Access("https://games.example"))
    await app(scope_of("/export"), receive, send)
    gateway.close()
    return [message["body"] for message in sent[1:]], not sent[-1].get("more_body")


async def test_a_reader_of_half_a_kilobyte_a_second_gets_all_of_an_export(played: Store) -> None:
    parts, has_ended = await exported(played, itertools.repeat(PATIENCE_US - 1))
    assert has_ended
    assert max(map(len, parts)) * 1_000_000 / PATIENCE_US < 550
    lines = [json.loads(json.loads(line)["line"]) for line in b"".join(parts).splitlines()]
    assert [line["place"] for line in lines] == [*range(len(lines))]
    assert lines[-1]["head"] == played.seasons.get("s1").head


async def test_an_export_that_was_not_read_in_time_says_so_and_has_no_end(played: Store) -> None:
    parts, has_ended = await exported(played, [0, PATIENCE_US + 1])
    assert not has_ended
    assert len(parts) == 3
    error = json.loads(parts[-1])["error"]
    assert (error["code"], error["message"][:15]) == ("UNAVAILABLE", "this is not all")
    assert parts[-1].startswith(b"\n")  # behind a part of a line

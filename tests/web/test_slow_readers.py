"""Readers who stop in the middle of an answer: what they hold, and what they do not."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from sqlalchemy import QueuePool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deepsea_ladder.remote_limits import RemoteLimits
from deepsea_ladder.store import Store
from deepsea_web.remote.front import BATCH, THREADS, Front
from deepsea_web.remote.http_api import http_api
from helpers import ladder
from helpers.manual_clock import ManualClock
from helpers.members import a_service, a_token
from helpers.site import LOCAL, ask


def stopped(app: ASGIApp, reached: asyncio.Semaphore) -> Any:
    """The application for readers who take nothing of the body."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def take(message: Message) -> None:
            if message.get("more_body"):
                reached.release()
                await asyncio.Event().wait()
            await send(message)

        await app(scope, receive, take)

    return SimpleNamespace(app=answer)


async def test_a_stopped_reader_holds_no_thread_and_no_transaction(played: Store) -> None:
    season = played.seasons.get("s1")
    played.jobs.add(season, ladder.rotations(ladder.ids(played)[:4], 2) * (BATCH // 2))
    ladder.play_all(played, season)
    service = a_service(played, played, limits=RemoteLimits(heavy=THREADS))
    token = {"Authorization": f"Bearer {a_token(service, 'anna-senior')}"}
    front = Front(service, ManualClock())
    api = SimpleNamespace(app=http_api(front, LOCAL))
    reached = asyncio.Semaphore(0)
    slow = stopped(api.app, reached)
    paths = ("/export", "/bots/anna/archive") * THREADS
    readers = [asyncio.create_task(ask(slow, path, headers=token)) for path in paths]
    for _ in readers:
        await reached.acquire()
    assert cast("QueuePool", played.database.engine.pool).checkedout() == 0
    played.bots.withdraw("dan")
    assert (await ask(cast("Any", api), "/standings")).status == 200
    for reader in readers:
        reader.cancel()
    await asyncio.gather(*readers, return_exceptions=True)
    front.close()

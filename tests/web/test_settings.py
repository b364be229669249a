"""Settings of a ladder that is served: changed beside it, in force soon, and shown to authors."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

import pytest

from deepsea_arena.api.errors import ApiError
from deepsea_arena.api.local import LocalLadder
from deepsea_arena.api.service import MACHINE, visitor
from deepsea_ladder.errors import StoreUnavailable
from deepsea_ladder.store import Store
from deepsea_referee.clock import Alarm
from deepsea_web.access import Access
from helpers.manual_clock import ManualClock
from helpers.members import a_service, a_token, caller_of
from helpers.site import a_site, ask, get

ABROAD = "203.0.113.7"


class Noted(ManualClock):
    """A clock that says when somebody waits for an alarm."""

    def __init__(self) -> None:
        super().__init__()
        self.awaited = asyncio.Event()

    def at(self, when_us: int, ring: Callable[[], object]) -> Alarm:
        self.awaited.set()
        return super().at(when_us, ring)


async def test_what_is_changed_beside_a_server_is_in_force_within_five_seconds(
    played: Store, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Noted()
    service = a_service(played, clock=clock)
    site = a_site(service, Access("https://x.example", everybody=True), clock)
    gateway = site.gateway
    following = asyncio.create_task(gateway.follow_settings())

    async def changed(**values: int | None) -> None:
        """Another process changes settings, and five seconds go by."""
        with Store.open(str(played.database)) as beside:
            for name, value in values.items():
                beside.settings.change(name, value, MACHINE.by)
        await soon()

    async def soon() -> None:
        clock.awaited.clear()
        clock.jump(5_000_000)
        await clock.awaited.wait()

    def failures(count: int) -> list[str]:
        found = []
        for _ in range(count):
            try:
                service.count_failure(ABROAD)
            except ApiError as error:
                found.append(str(error))
        return found

    await clock.awaited.wait()
    assert (await ask(site, "/", client=ABROAD)).status == 200
    await changed(pages_per_minute=10, streams_of_address=1, failures_per_hour=2)
    statuses = [(await ask(site, "/", client=ABROAD)).status for _ in range(12)]
    assert statuses.index(429) in (9, 10)
    assert len(failures(3)) == 1
    with gateway.stream_slot(ABROAD), pytest.raises(ApiError, match="too many streams"):
        gateway.stream_slot(ABROAD).__enter__()
    await changed(pages_per_minute=1000, streams_of_address=2, failures_per_hour=None)
    statuses = [(await ask(site, "/", client=ABROAD)).status for _ in range(12)]
    assert statuses == [200] * 12
    clock.jump(3_600_000_000 // 20)
    assert failures(2) == ["too many wrong codes or tokens from your address"]
    with gateway.stream_slot(ABROAD), gateway.stream_slot(ABROAD):
        pass

    def away(*_: object) -> None:
        raise StoreUnavailable("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(service.store.settings, "changed", away)
        await soon()
        await soon()
    assert service.limits.pages_per_minute == 1000
    assert caplog.text.count("the settings stay as they are: the disk is full") == 1
    await changed(pages_per_minute=None)
    assert service.limits.pages_per_minute == 300
    gateway.closing.set()
    await following
    gateway.close()


def test_who_may_change_settings_and_what_calls_then_see(played: Store) -> None:
    service = a_service(played)
    author = caller_of(service, a_token(service, "anna-senior"))
    for caller in (visitor(), author):
        ladder = LocalLadder(service, caller)
        with pytest.raises(ApiError):
            ladder.set_setting(name="bots", value=1)
    assert played.settings.changed() == {}
    LocalLadder(service, MACHINE).set_setting(name="analyses_per_day", value=0)
    service.read_settings()
    with pytest.raises(ApiError, match="at most 0 are taken"):
        LocalLadder(service, author).request_analysis(game_id="s1-1")
    assert LocalLadder(service, visitor()).settings(name="analyses_per_day")[0].value == 0


def test_the_page_shows_authors_the_limits_of_the_moment(played: Store) -> None:
    def shown() -> dict[str, str]:
        cell = r"<code>([\w.]+)</code></small></th><td>(.*?)</td>"
        return dict(re.findall(cell, get(site, "/how").text))

    site = a_site(played)
    assert shown()["bots"] == "5"
    assert shown()["play_tables"] == "4"
    assert "codes" not in shown()
    before = get(site, "/how").headers["etag"]
    played.settings.change("bots", 12, MACHINE.by)
    played.settings.change("play_tables", 1, MACHINE.by)
    assert (shown()["bots"], shown()["play_tables"]) == ("12", "1")
    assert get(site, "/how").headers["etag"] != before

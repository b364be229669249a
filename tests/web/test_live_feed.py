"""The match's side of the page: games are handed over, and the match never waits."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from deepsea_web.live.feed import GAP_US, LivePage, Standing
from helpers.commands import played, record_of
from helpers.manual_clock import ManualClock

RECORD = record_of(played())


def standing(games: int = 0) -> Standing:
    return {"facts": f"{games} games", "table": {"head": ["bot"], "rows": [["greedy"]]}}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def page(clock: ManualClock) -> Iterator[LivePage]:
    with closing(LivePage("greedy, random", standing(), clock)) as page:
        yield page


def last_news(address: str) -> dict[str, Any]:
    """What a reader has received when the match is over."""
    url = urlsplit(address)
    assert url.hostname is not None
    games: list[Any] = []
    with closing(HTTPConnection(url.hostname, url.port)) as connection:
        connection.request("GET", f"{url.path}news")
        with connection.getresponse() as answer:
            while line := answer.readline():
                if line.startswith(b"data: "):
                    update: dict[str, Any] = json.loads(line[6:])
                    games += update["games"]
                    if update["over"] is not None:
                        return {**update, "games": games}
    raise AssertionError("the page ended before the match")


def test_games_and_the_end_are_shown(page: LivePage, clock: ManualClock) -> None:
    for number in (1, 2, 3):
        clock.jump(GAP_US)
        page.add(number, RECORD, number - 1, lambda: standing(1))
    page.end("over", standing(3))
    address = page.address()
    assert address is not None
    news = last_news(address)
    assert [game["number"] for game in news["games"]] == [1, 2, 3]
    one, two, three = (game["words"] for game in news["games"])
    assert "fault" not in one
    assert two == f"{one}; 1 fault"
    assert three == f"{one}; 2 faults"
    assert (news["over"], news["facts"]) == ("over", "3 games")


def test_of_many_games_at_once_the_first_and_the_last_are_shown(page: LivePage) -> None:
    for number in range(1, 1001):
        page.add(number, RECORD, 0, lambda: standing(1))
    page.end("over", standing(1000))
    address = page.address()
    assert address is not None
    news = last_news(address)
    assert [game["number"] for game in news["games"]] == [1, 1000]
    assert news["facts"] == "1000 games"


def test_every_page_has_an_address_of_its_own_until_it_is_closed(page: LivePage) -> None:
    with closing(LivePage("another", standing())) as other:
        paths = {urlsplit(str(one.address())).path for one in (page, other)}
        assert len(paths) == 2
        assert all(len(path) > 40 for path in paths)
        other.close()
        assert not Path(f"/proc/{other.pid}").exists()
        assert not other.alive
        other.wait()


@pytest.mark.parametrize("deed", [signal.SIGSTOP, signal.SIGKILL])
def test_a_page_that_hangs_or_dies_does_not_stop_the_match(
    page: LivePage, clock: ManualClock, deed: signal.Signals
) -> None:
    assert page.address()
    os.kill(page.pid, deed)
    for number in range(1, 1001):  # far more than the pipe and the queue hold
        clock.jump(GAP_US)
        page.add(number, RECORD, 0, standing)
    page.end("over", standing())

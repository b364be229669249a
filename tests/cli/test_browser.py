"""`match --browser` and `compare --browser`: the page lives as long as it is wanted."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

import pytest

from helpers.commands import Process, Run, one_line, start
from helpers.programs import program_in, soon

MATCH = ("match", "greedy", "random", "--in-process", "--seed", "demo")
STAYS = "the page stays until it is closed or for a minute; Ctrl-C ends it"
Start = Callable[..., Process]


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A browser that writes down which address it is asked to open."""
    browser = tmp_path / "browser"
    part, whole = tmp_path / "part", tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {part}\nmv {part} {whole}\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(browser))
    return whole


@pytest.fixture
def begin(opened: Path) -> Iterator[Start]:
    """Starts commands, and ends those that a failed test leaves."""
    begun: list[Process] = []

    def begin(*words: object) -> Process:
        begun.append(start(*words))
        return begun[-1]

    yield begin
    for process in begun:
        process.kill()
        process.communicate()


def address(process: Process) -> SplitResult:
    line = process.stderr.readline().strip()
    assert line.startswith("the games are shown at http://127.0.0.1:")
    return urlsplit(line.split()[-1])


def events(answer: HTTPResponse) -> Iterator[dict[str, Any]]:
    while line := answer.readline():
        if line.startswith(b"data: "):
            yield json.loads(line[6:])


def until_over(news: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for update in news:
        yield update
        if update["over"] is not None:
            return


def is_gone(url: SplitResult) -> bool:
    with closing(HTTPConnection(url.netloc)) as connection:
        try:
            connection.connect()
        except ConnectionRefusedError:
            return True
    return False


def test_the_page_is_readable_after_ctrl_c_and_a_second_one_ends_it(
    begin: Start, opened: Path
) -> None:
    process = begin(*MATCH, "--games", 1_000_000, "--browser")
    url = address(process)
    with closing(HTTPConnection(url.netloc)) as reader:
        reader.request("GET", f"{url.path}news")
        with reader.getresponse() as answer:
            news = events(answer)
            game = next(game for update in news for game in update["games"])
            assert soon(opened.exists)
            assert opened.read_text(encoding="utf-8") == url.geturl()
            process.send_signal(signal.SIGINT)
            assert {"interrupted"} == {update["over"] for update in until_over(news)} - {None}
            assert process.stderr.readline().strip() == STAYS
            with closing(HTTPConnection(url.netloc)) as another:
                another.request("GET", f"{url.path}games/{game['number']}")
                with another.getresponse() as story:
                    assert story.status == 200
                    assert b"dive 1: " in story.read()
            process.send_signal(signal.SIGINT)
            assert [*news] == []
    out, err = process.communicate()
    assert process.returncode == 130
    assert "greedy" in out
    assert one_line(err).startswith("deepsea-referee: interrupted after ")
    assert is_gone(url)


# How long a page stays: tests/web/test_live_feed.py, and with a match above.
@pytest.mark.release
def test_the_page_goes_with_its_last_reader(begin: Start) -> None:
    process = begin("compare", *MATCH[1:], "--blocks", 2, "--browser")
    url = address(process)
    with closing(HTTPConnection(url.netloc)) as reader:
        reader.request("GET", f"{url.path}news")
        with reader.getresponse() as answer:
            *_, last = until_over(events(answer))
            assert process.stderr.readline().strip() == STAYS
    assert last["over"] == "over"
    assert last["facts"].startswith("2 blocks of 2 games")
    assert [row[0] for row in last["table"]["rows"]] == ["greedy", "random", "lead"]
    out, err = process.communicate()
    assert process.returncode == 1
    assert "undecided after 2 blocks" in out
    assert err == ""
    assert is_gone(url)


def test_the_page_ends_with_a_command_that_is_killed(begin: Start, tmp_path: Path) -> None:
    bot = program_in(tmp_path, "idle", "signal.pause()")
    process = begin("match", bot, "random", "--in-process", "--browser")
    url = address(process)
    process.kill()
    process.communicate()
    assert soon(lambda: is_gone(url))


@pytest.mark.parametrize("command", ["match", "compare"])
def test_bad_input_is_one_line_and_no_page(run: Run, opened: Path, command: str) -> None:
    assert "nobody" in run(command, "greedy", "nobody", "--browser", "--in-process").refusal
    assert not opened.exists()

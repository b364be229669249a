"""`play --browser`: games at a page, and what is left when it ends, however it ends."""

from __future__ import annotations

import json
import os
import select
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from html import unescape
from pathlib import Path

import pytest

from deepsea_arena.coach.document import read_analysis
from deepsea_rules.record import GameRecord, verify
from helpers.commands import one_line, start
from helpers.games import Chooser
from helpers.programs import program_in
from helpers.seat_page import ASKED, Visitor

pytestmark = pytest.mark.slow


class Played:
    """The command with one bot, and a visitor of its page."""

    def __init__(self, folder: Path, *options: object) -> None:
        self._pids, self.out = folder / "pids", folder / "out"
        telling = f"import os\nopen({str(self._pids)!r}, 'w').write(str(os.getpid()))"
        bot = program_in(folder, "told", first=telling)
        plain = ("--isolation", "process", "--out", self.out)
        self.process = start("play", bot, "--browser", *plain, *options)
        address = self.process.stderr.readline().removeprefix("play at ").strip()
        self.process.stderr.readline()
        self.visitor = Visitor(address)
        self.visitor.enter()
        self._bot: int | None = None

    def ends(self) -> tuple[int, str, str]:
        """Wait for the command and its bot; returns the status and what was said."""
        pid = self._pids.read_text()
        bot = os.pidfd_open(int(pid)) if Path(f"/proc/{pid}").exists() else None
        out, err = self.process.communicate()
        if bot is not None:
            select.select([bot], [], [])
            os.close(bot)
        return self.process.returncode, out, err

    def record(self, number: int) -> GameRecord:
        record = GameRecord.from_json((self.out / f"game-000{number}.json").read_text())
        verify(record)
        return record


@contextmanager
def played(folder: Path, *options: object) -> Iterator[Played]:
    found = Played(folder, *options)
    # Somebody reads all the time: else the page is closed for the command.
    with closing(found.visitor.stream()):
        yield found


def test_one_game_after_the_other_until_ctrl_c(tmp_path: Path) -> None:
    with played(tmp_path, "--seed", "demo", "--seat", "A") as one:
        page = unescape(one.visitor.play(Chooser("browser")))
        page = unescape(one.visitor.settled())
        assert "of placement score in all; luck gave you" in page
        one.visitor.post("deed", what="next", asked=0)
        assert "You are B, manual rules" in one.visitor.settled()
        one.process.send_signal(signal.SIGINT)
        status, _, err = one.ends()
    assert status == 130
    assert "interrupted after 1 game; their records are in" in one_line(err)
    record = one.record(1)
    assert record.seats[0].name == "you"
    analysis = read_analysis((one.out / "analysis-0001.json").read_text())
    assert len(analysis.analysis(record).decisions) == sum(d.seat == 0 for d in record.decisions)
    assert not (one.out / "game-0002.json").exists()
    assert json.loads((one.out / "results.json").read_text())["games_asked"] == 1


def test_who_leaves_ends_the_command(tmp_path: Path) -> None:
    with played(tmp_path) as one:
        [asked] = set(ASKED.findall(one.visitor.settled()))
        one.visitor.post("deed", what="drop", asked=asked)
        assert "You left" in one.visitor.settled()
    status, said, err = one.ends()
    assert (status, err) == (0, "")
    assert said.splitlines()[-1] == "you left: the last game was dropped"


def test_the_last_game_ends_the_command_once_the_page_is_closed(tmp_path: Path) -> None:
    with played(tmp_path, "--no-judge", "--games", 2) as one:
        one.visitor.play(Chooser("last"))
        one.visitor.post("deed", what="next", asked=0)
        page = one.visitor.play(Chooser("last"))
        while "That was the last game" not in page:  # the results are being written
            page = one.visitor.settled()
    status, said, err = one.ends()
    assert (status, err) == (0, "")
    assert "you left" not in said
    one.record(2)


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="Linux ends bots of a killed referee")
def test_a_killed_command_leaves_no_bot(tmp_path: Path) -> None:
    with played(tmp_path) as one:
        one.visitor.settled()
        one.process.kill()
        assert one.ends()[0] == -signal.SIGKILL

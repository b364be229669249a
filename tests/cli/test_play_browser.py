"""`play --browser`: games at a page, and what is left when it ends, however it ends."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from html import unescape
from pathlib import Path

import pytest

from deepsea_arena.analysis_document import read_analysis
from deepsea_rules.faults import Fault
from deepsea_rules.game import GameRecord, verify
from helpers.commands import Run, one_line, start
from helpers.games import Chooser
from helpers.programs import program_in
from helpers.seat_page import ASKED, Visitor

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The commands' folder for temporary files; its path is short, as a socket's has to be."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("TMPDIR", folder)
        yield Path(folder)


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


def test_one_game_after_the_other_until_ctrl_c(tmp_path: Path, temporary: Path) -> None:
    with played(tmp_path, "--seed", "demo", "--seat", "A") as one:
        page = unescape(one.visitor.play(Chooser("browser")))
        page = unescape(one.visitor.settled())
        assert "of placement score in all; luck gave you" in page
        one.visitor.deed("next", 0)
        assert "You are B, manual rules" in one.visitor.settled()
        one.process.send_signal(signal.SIGINT)
        status, _, err = one.ends()
    assert status == 130
    assert [*temporary.iterdir()] == []
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
        one.visitor.deed("drop", asked)
        assert "You left" in one.visitor.settled()
    status, said, err = one.ends()
    assert (status, err) == (0, "")
    assert said.splitlines()[-1] == "you left: the last game was dropped"


def test_the_last_game_ends_the_command_once_the_page_is_closed(tmp_path: Path) -> None:
    with played(tmp_path, "--no-judge", "--games", 2) as one:
        one.visitor.play(Chooser("last"))
        one.visitor.deed("next", 0)
        with closing(one.visitor.stream()):
            page = one.visitor.play(Chooser("last"))
            while "That was the last game" not in page:  # the results are being written
                page = one.visitor.settled()
    status, said, err = one.ends()
    assert (status, err) == (0, "")
    assert "you left" not in said
    one.record(2)


def test_all_that_a_match_takes_may_be_chosen(tmp_path: Path) -> None:
    """Rules, clock, name and seat of one's own; a bot twice, with parameters, by a command line."""
    rules = tmp_path / "mine.toml"
    rules.write_text('name = "mine"\nbase = "publisher"\n[options]\nrelost_stack = "chips"\n')
    deep = tmp_path / "deep.py"
    deep.write_text(
        "from deepsea_sdk import Bot, run\n"
        "class Deep(Bot):\n"
        "    depth = 3\n"
        "if __name__ == '__main__':\n"
        "    run(Deep)\n"
    )
    bots = ("greedy", "greedy", f"{deep},depth=5", f"cmd:{sys.executable} {deep}")
    chosen = ("--rules", rules, "--clock", "600s", "--name", "Zoe", "--seat", "B", "--games", 1)
    with played(tmp_path, *bots, *chosen, "--no-judge", "--freeze") as one:
        page = unescape(one.visitor.settled())
        for words in ("You are B, mine rules", "Zoe", "greedy 2", "deep,depth=5", "s left"):
            assert words in page
        [asked] = set(ASKED.findall(page))
        one.visitor.deed("hint", asked)
        while "hint: " not in one.visitor.settled():
            pass
        page = unescape(one.visitor.play(Chooser("chosen")))
        assert "next game" not in page
    status, said, _ = one.ends()
    assert status == 0
    assert "1 game, mine rules" in said
    record = one.record(1)
    assert record.rules.relost_stack == "chips"
    names = [seat.name for seat in record.seats]
    assert names[1] == "Zoe (hints)"
    assert {"told", "greedy", "greedy 2", "deep", "deep,depth=5"} == {names[0], *names[2:]}


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="Linux ends bots of a killed referee")
def test_a_killed_command_leaves_no_bot_and_the_next_one_removes_its_ladder(
    tmp_path: Path, temporary: Path
) -> None:
    with played(tmp_path) as one:
        one.visitor.settled()
        one.process.kill()
        assert one.ends()[0] == -signal.SIGKILL
    assert [*temporary.iterdir()]
    start("match", "random", "random", "--isolation", "process").communicate()
    assert [*temporary.iterdir()] == []


def test_who_is_too_late_forfeits_and_sees_the_end(tmp_path: Path) -> None:
    with played(tmp_path, "--clock", "200ms", "--games", 1, "--no-judge") as one:
        while 'class="seat-end"' not in (page := one.visitor.get().text):
            one.visitor.wait(page)
        assert "Game 1 is over" in page
    assert one.ends()[0] == 0
    record = one.record(1)
    assert [forfeit.fault for forfeit in record.forfeits] == [Fault.TIMEOUT]


def test_sigterm_leaves_nothing(tmp_path: Path, temporary: Path) -> None:
    with played(tmp_path) as one:
        one.visitor.settled()
        one.process.terminate()
        assert one.ends()[0] == 130
    assert [*temporary.iterdir()] == []


@pytest.mark.parametrize("bots", [("nobody",), ("greedy",) * 6])
def test_bad_input_is_one_line_and_no_ladder(run: Run, bots: tuple[str, ...]) -> None:
    assert "bots" in run("play", *bots, "--browser").refusal or "nobody" in bots

"""The author's commands, with what macOS or Windows lack taken away from Python.

What this cannot show stands in docs/platforms.md: nothing here runs on those systems.
"""

from __future__ import annotations

import json
import urllib.request
import zipfile
from contextlib import closing
from pathlib import Path

import pytest

from helpers.commands import Run, one_line
from helpers.games import Chooser
from helpers.seat_page import Visitor
from platforms.desk import FORMS, WINDOWS, Desk, without_times

MATCH = ("match", "greedy", "cautious", "--games", 2, "--seed", "desk")
pytestmark = pytest.mark.slow


@pytest.fixture(params=FORMS)
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Desk:
    return Desk(request.param, tmp_path)


@pytest.fixture(scope="module", params=WINDOWS)
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A folder with a match of two workers in `runs`, for tests that only read it."""
    desk = Desk(request.param, tmp_path_factory.mktemp(request.param))
    done = desk.run(*MATCH, "--workers", 2, "--out", "runs")
    assert (done.status, done.err) == (0, "")
    assert "process, wall clock" in done.out
    return desk


def same_as_on_linux(there: Path, here: Path, run: Run) -> None:
    """Play the match here, on Linux: it has the same records."""
    assert run(*MATCH, "--out", here).status == 0
    for name in (f"game-{number:04}.json" for number in range(1, 3)):
        assert without_times(there / name) == without_times(here / name)
    for file in there.iterdir():
        assert b"\r" not in file.read_bytes()


def test_a_match_has_the_same_records_as_on_linux(played: Desk, tmp_path: Path, run: Run) -> None:
    same_as_on_linux(played.folder / "runs", tmp_path / "here", run)


@pytest.mark.release
def test_a_match_of_one_worker_has_the_same_records(desk: Desk, run: Run) -> None:
    done = desk.run(*MATCH, "--out", "there")
    assert done.status == 0, done.err
    assert "process, wall clock" in done.out
    same_as_on_linux(desk.folder / "there", desk.folder / "here", run)


@pytest.mark.parametrize("desk", WINDOWS, indirect=True)
def test_what_a_bot_prints_and_how_it_ends_is_known(desk: Desk) -> None:
    (desk.folder / "talks.py").write_text(
        "from deepsea_sdk import Bot, run\n"
        "class Talks(Bot):\n"
        "    def decide(self, view):\n"
        "        print('grüße', flush=True)\n"
        "        raise ValueError('häßlich')\n"
        "run(Talks)\n",
        encoding="utf-8",
    )
    done = desk.run("match", "talks.py", "greedy", "--out", "runs")
    assert done.status == 0, done.err
    assert "ValueError: häßlich" in done.out
    logs = [*(desk.folder / "runs").glob("*.log")]
    assert "grüße" in "".join(log.read_text(encoding="utf-8") for log in logs)


def test_a_program_that_cannot_start_is_a_line(desk: Desk) -> None:
    done = desk.run("match", "cmd:no-such-program-here", "greedy")
    assert done.status == 2
    assert "no-such-program-here" in one_line(done.err)


# What plays is what plays a match.
@pytest.mark.release
@pytest.mark.parametrize("desk", WINDOWS, indirect=True)
def test_the_workbench(desk: Desk) -> None:
    assert desk.run("new", "mine").status == 0
    assert all(b"\r" not in file.read_bytes() for file in (desk.folder / "mine").rglob("*.py"))
    done = desk.run("check", "mine")
    assert done.status == 0, done.out
    assert "mine is ready" in done.out


# So is what plays a comparison's blocks.
@pytest.mark.release
@pytest.mark.parametrize("desk", WINDOWS, indirect=True)
def test_a_comparison_in_processes_and_in_this_one(desk: Desk) -> None:
    words = ("compare", "greedy", "cautious", "--blocks", 1, "--seed", "desk", "--json")
    there, here = desk.run(*words), desk.run(*words, "--in-process")
    assert there.status in (0, 1), there.err
    assert here.status == there.status
    both = [json.loads(done.out) for done in (there, here)]
    assert both[0]["points"] == both[1]["points"]


READING = (
    ("show", "runs/game-0001.json"),
    ("show", "runs/game-0001.json", "--events"),
    ("show", "runs", "--html", "page.html"),
    ("verify", "runs/game-0001.json", "runs/game-0002.json"),
    ("debug", "runs/game-0001.json", "greedy", "--seat", "A"),
    ("branch", "runs/game-0001.json", "--at", "3"),
    ("analyse", "runs/game-0001.json", "--rollouts", "8", "--workers", "2"),
    ("explain", "1 1 x 2 [12] {34} | *A3v:1 B5v | d2 a17", "r4"),
    ("rules",),
    ("ladder", "--help"),
)


def test_commands_that_read_print_what_they_print_on_linux(
    played: Desk, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One after another in one program, which takes long to start.
    done = played.python(
        "import json\n"
        "from helpers.commands import called\n"
        "if __name__ == '__main__':\n"
        f"    print(json.dumps([called(*words) for words in {READING!r}]))\n"
    )
    assert done.err == ""
    there = json.loads(done.out)
    page = played.folder / "page.html"
    written = page.read_bytes()
    page.unlink()
    monkeypatch.chdir(played.folder)
    for words, (status, out, err) in zip(READING, there, strict=True):
        assert (status, err) == (0, ""), words
        assert "\r" not in out
        assert out == run(*words).out
    assert page.read_bytes() == written


@pytest.mark.parametrize("desk", WINDOWS, indirect=True)
def test_a_bot_in_a_zip_is_unpacked_and_played(desk: Desk, run: Run) -> None:
    assert run("new", desk.folder / "mine").status == 0
    with zipfile.ZipFile(desk.folder / "mine.zip", "w") as packed:
        for file in (desk.folder / "mine").iterdir():
            if file.is_file():
                packed.write(file, file.name)
    done = desk.run("match", "mine.zip", "greedy", "--json")
    assert done.status == 0, done.err
    assert json.loads(done.out)["games"]


@pytest.mark.parametrize(
    "words",
    [
        "match greedy cautious --bot-uids 60600-60700",
        "doctor",
        "ladder serve",
        *(
            pytest.param(words, marks=pytest.mark.release)
            for words in (
                "match greedy cautious --isolation sandbox",
                "check greedy --isolation sandbox",
                "ladder run",
                "ladder tournament round-robin cup --store ladder.db",
            )
        ),
    ],
)
@pytest.mark.parametrize("desk", WINDOWS, indirect=True)
def test_what_needs_linux_says_so_in_a_line(desk: Desk, words: str) -> None:
    done = desk.run(*words.split())
    assert done.status == 2
    assert "Linux" in one_line(done.err)


@pytest.mark.parametrize("desk", WINDOWS, indirect=True)
def test_the_games_of_a_match_are_a_page(desk: Desk) -> None:
    done = desk.run("match", "greedy", "cautious", "--games", 3, "--browser")
    assert done.status == 0
    page = urllib.request.url2pathname(done.err.strip().partition("file://")[2])
    assert Path(page).read_text(encoding="utf-8").count('class="ds-game"') == 3


def test_a_person_plays_on_the_page_of_a_ladder(desk: Desk) -> None:
    command = desk.start("play", "greedy", "--games", 1, "--no-judge", "--browser")
    try:
        assert command.stderr is not None
        visitor = Visitor(command.stderr.readline().decode().removeprefix("play at ").strip())
        visitor.enter()
        with closing(visitor.stream()):
            assert "Game 1 is over" in visitor.play(Chooser("desk"))
        assert command.wait() == 0
    finally:
        command.kill()
        command.communicate()

"""`match --browser` and `compare --browser`: the finished games open in the viewer."""

from __future__ import annotations

import signal
import stat
from pathlib import Path

import pytest

from deepsea_cli import pages
from helpers.commands import Done, Run, one_line, start
from helpers.programs import program_in, soon

MATCH = ("greedy", "random", "--in-process", "--seed", "demo")


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A browser that writes down which address it is asked to open."""
    browser, note = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {note}\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return note


def page_of(err: str, words: str = "the games to watch: ") -> Path:
    """The file that the line on stderr names."""
    line = one_line(err)
    assert line.startswith(f"{words}file://")
    return Path(line.partition("file://")[2])


def test_the_games_of_a_match_are_opened_after_it(run: Run, opened: Path, tmp_path: Path) -> None:
    done = run("match", *MATCH, "--games", 2, "--browser")
    assert done.status == 0
    assert "2 games, manual rules" in done.out
    page = page_of(done.err)
    assert opened.read_text(encoding="utf-8") == page.as_uri()
    assert stat.S_IMODE(page.parent.stat().st_mode) == 0o700
    text = page.read_text(encoding="utf-8")
    assert text.count('class="ds-game"') == 2
    assert "deepsea-referee verify game-0002.json" in text


def test_the_games_of_a_comparison_are_opened_after_it(run: Run, opened: Path) -> None:
    done = run("compare", *MATCH, "--blocks", 2, "--browser")
    assert done.status == 1
    assert "undecided after 2 blocks" in done.out
    assert page_of(done.err).read_text(encoding="utf-8").count('class="ds-game"') == 4


def test_of_many_games_the_page_has_the_first_ones(
    run: Run, opened: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "MAX_GAMES", 2)
    done = run("match", *MATCH, "--games", 3, "--browser", "--quiet")
    assert (done.status, done.out) == (0, "")
    note = "the first 2 of 3 games"
    text = page_of(done.err, f"{note} to watch: ").read_text(encoding="utf-8")
    assert text.count('class="ds-game"') == 2
    assert note in text


def test_what_bots_noted_is_on_the_page(run: Run, opened: Path, tmp_path: Path) -> None:
    bot = program_in(tmp_path, "noting", "self.note('load', view.me.load)")
    done = run("match", bot, "random", "--in-process", "--browser")
    assert '"numbers":{"load":0.0}' in page_of(done.err).read_text(encoding="utf-8")


def test_an_interrupted_match_shows_its_complete_games(opened: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = start("match", *MATCH, "--games", 1_000_000, "--out", out, "--browser")
    assert soon((out / "game-0001.json").exists)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    named, _, interrupted = err.partition("\ndeepsea-referee: ")
    assert interrupted.startswith("interrupted after ")
    page = Path(named.partition("file://")[2])
    assert 'class="ds-game"' in page.read_text(encoding="utf-8")
    assert opened.exists()


def test_without_windows_the_page_is_named_and_not_opened(
    run: Run, opened: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A browser in the terminal would hide the results."""
    for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    done = run("match", *MATCH, "--browser")
    assert done.status == 0
    assert page_of(done.err).exists()
    assert not opened.exists()


@pytest.mark.parametrize("command", ["match", "compare"])
def test_bad_input_is_one_line_and_no_page(run: Run, opened: Path, command: str) -> None:
    done: Done = run(command, "greedy", "nobody", "--browser", "--in-process")
    assert "nobody" in done.refusal
    assert not opened.exists()

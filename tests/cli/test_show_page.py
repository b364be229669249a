"""`show --html` and `--browser`: files to watch games in."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from deepsea_cli.pages import show_page
from helpers.commands import Run, faulty, one_line, played, record_of, start, written


def test_a_game_becomes_a_page(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "game.html"
    done = run("show", written(tmp_path, faulty()), "--html", page)
    assert done == (0, f"page: {page}, to open in a browser\n", "")
    text = page.read_text()
    assert text.count('class="ds-game"') == 1
    assert "deepsea-referee verify game-0001.json" in text


def test_a_folder_becomes_a_page_with_its_games(run: Run, tmp_path: Path) -> None:
    text = written(tmp_path, played(players=2)).read_text()
    (tmp_path / "game-0002.json").write_text(text)
    page = tmp_path / "games.html"
    assert run("show", tmp_path, "--html", page).status == 0
    assert page.read_text().count('class="ds-game"') == 2


def test_a_page_of_many_games_has_the_first_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record, page = record_of(played(players=2)), tmp_path / "games.html"
    paths = [tmp_path / f"game-{number}.json" for number in (1, 2, 3)]
    show_page(paths, lambda path: record, page, browser=False, max_games=2)
    said = "the first 2 of 3 games"
    assert said in capsys.readouterr().out
    assert page.read_text().count('class="ds-game"') == 2
    assert said in page.read_text()


def test_a_file_that_exists_is_left_as_it_is(run: Run, tmp_path: Path) -> None:
    record, target = written(tmp_path, played()), tmp_path / "mine"
    target.write_text("precious")
    assert "exists: name another file" in run("show", record, "--html", target).refusal
    assert target.read_text() == "precious"
    nowhere = tmp_path / "nowhere" / "file"
    assert "cannot write to" in run("show", record, "--html", nowhere).refusal


def test_a_damaged_record_makes_no_page(run: Run, tmp_path: Path) -> None:
    data = json.loads(record_of(played()).to_json())
    data["result"]["points"][0] += 1
    record = tmp_path / "game-0001.json"
    for text in (json.dumps(data), "{}"):
        record.write_text(text)
        for source in (record, tmp_path):
            line = run("show", source, "--html", tmp_path / "page.html").refusal
            assert line.count(str(record)) == 1
    assert sorted(tmp_path.iterdir()) == [record]


def test_the_page_is_opened_in_the_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    browser, note = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {note}\n')
    browser.chmod(0o755)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    process = start("show", written(tmp_path, played()), "--browser")
    assert process.communicate() == ("", "")
    assert process.returncode == 0
    page = Path(note.read_text().removeprefix("file://"))
    assert 'class="ds-game"' in page.read_text()
    assert stat.S_IMODE(page.parent.stat().st_mode) == 0o700


def test_without_a_browser_the_page_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    process = start("show", written(tmp_path, played()), "--browser")
    out, err = process.communicate()
    assert (process.returncode, out) == (2, "")
    line = one_line(err)
    assert "no browser" in line
    page = Path(line.partition("file://")[2].split()[0])
    assert 'class="ds-game"' in page.read_text()

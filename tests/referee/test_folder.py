"""The files that a match leaves: whole or not there, and never beside those of another match."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from deepsea_referee.errors import UserError
from deepsea_referee.results.folder import ResultsFolder
from deepsea_rules.record import GameRecord
from helpers.results import FORFEITED, SHARED, VOID, match, record


def test_a_folder_holds_records_and_results(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    with ResultsFolder(folder) as files:
        for game in (SHARED, FORFEITED):
            files.add(game, record())
        files.add_void(VOID)
        files.finish(match())
    names = ["game-0001.json", "game-0002.json", "results.json"]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert GameRecord.from_json((folder / "game-0001.json").read_text()) == record()
    data = json.loads((folder / "results.json").read_text())
    assert [game["game"] for game in data["games"]] == [1, 2]
    assert [void["game"] for void in data["void"]] == [3]


@pytest.mark.parametrize("name", ["results.json", "game-0007.json", "bot-1-start-1.log"])
def test_a_folder_with_an_earlier_match_is_refused_and_left_alone(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_text("old")
    with pytest.raises(
        UserError, match=f"has files of an earlier match \\({name}\\): name another"
    ):
        ResultsFolder(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "old"


def test_what_else_is_in_a_folder_does_no_harm(tmp_path: Path) -> None:
    others = ["game.json", "my-results.json", "notes.txt"]
    for name in others:
        (tmp_path / name).write_text("mine")
    with ResultsFolder(tmp_path) as files:
        files.finish(match())
    assert {*others, "results.json"} <= {path.name for path in tmp_path.iterdir()}


def test_a_match_that_is_broken_off_leaves_what_was_handed_over(tmp_path: Path) -> None:
    with ResultsFolder(tmp_path) as files:
        files.add(FORFEITED, record())
    assert [path.name for path in tmp_path.iterdir()] == ["game-0001.json"]


def test_a_record_that_cannot_be_written_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = ResultsFolder(tmp_path)
    monkeypatch.setattr("os.fsync", lambda descriptor: os.close(-1))
    files.add(FORFEITED, record())
    with files, pytest.raises(OSError, match="Bad file descriptor"):
        files.finish(match())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_refused_before_the_match(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("in the way")
    for folder in (file, file / "below"):
        with pytest.raises(UserError, match="cannot write to the folder"):
            ResultsFolder(folder)

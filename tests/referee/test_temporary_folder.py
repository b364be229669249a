"""Bots connect wherever temporary files lie: addresses do not depend on the form of TMPDIR."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from deepsea_referee.bots.process import Hosting
from deepsea_referee.match import MatchSettings, play_match
from deepsea_referee.sandbox import cleanup, probe
from deepsea_referee.sandbox.interface import IsolationLevel
from deepsea_referee.summary import GameResult
from deepsea_rules.game import GameRecord
from deepsea_rules.time_control import TimeControl
from helpers.in_loop import run
from helpers.programs import lines_bot, opponent, program
from helpers.tiers import daily

NAMES = ("a%2Fb", "a#b", "a?b", "a,b", "a b", "a:b", "a;b$c", "long-" + 90 * "g", "Größe", 'a"b')


@pytest.fixture(params=daily(NAMES, ["a%2Fb", "a#b", NAMES[7]]))
def temporary(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A folder with a name that is hard to write in an address, as TMPDIR gives it."""
    folder = tmp_path / str(request.param)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.mark.parametrize("level", ["process", "sandbox"])
def test_bots_connect_and_nothing_is_left(
    temporary: Path, tmp_path: Path, level: IsolationLevel
) -> None:
    bots = [opponent(tmp_path), opponent(tmp_path)]
    hosting = Hosting(probe.choose(level), start_limit_us=60_000_000)
    settings = MatchSettings(bots=bots, hosting=hosting, time_control=TimeControl(60_000_000))
    result = run(play_match(settings))
    assert (result.games, result.faults.count) == (1, 0)
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("level", ["process", "sandbox"])
def test_folders_that_a_cleaner_has_removed_are_made_again_for_the_next_game(
    tmp_path: Path, level: IsolationLevel
) -> None:
    """The bots read their own files in each game; a start needs a socket."""
    opens = "open(__file__).close()"
    bots = [program(tmp_path, "one", opens), lines_bot(tmp_path, "other", before=opens)]
    hosting = Hosting(probe.choose(level), start_limit_us=60_000_000)
    faults: list[tuple[str, ...]] = []

    def clean(result: GameResult, _record: GameRecord) -> None:
        faults.append(tuple(report.came for report in result.faults))
        for folder in [*cleanup._folders]:
            shutil.rmtree(folder, ignore_errors=True)

    settings = MatchSettings(
        bots=bots, hosting=hosting, games=4, time_control=TimeControl(60_000_000)
    )
    result = run(play_match(settings, clean))
    assert (faults, result.voids.count) == ([()] * 4, 0)


def test_a_folder_for_sockets_is_private_short_and_plain(temporary: Path) -> None:
    folder = cleanup.socket_folder()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert len(os.fsencode(folder)) < 97
    assert str(temporary) not in str(folder)
    cleanup.remove_folder(folder)


def test_a_folder_for_sockets_is_made_in_the_first_place_that_is_possible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [str(tmp_path / "missing"), str(tmp_path / "a#b"), "/tmp"]
    monkeypatch.setattr(cleanup, "_socket_places", lambda: places)
    folder = cleanup.socket_folder()
    assert folder.parent == Path("/tmp")
    cleanup.remove_folder(folder)


def test_doctor_says_so_where_there_is_no_place_for_sockets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup, "_socket_places", lambda: [str(tmp_path / "a#b")])
    (check,) = [check for check in probe.confinement() if check.name == "sockets"]
    assert not check.ok
    assert check.found == f"no folder for sockets can be made in {tmp_path}/a#b"
    assert "XDG_RUNTIME_DIR" in check.remedy

"""The numbers and the files that a match leaves."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from deepsea_referee.bots import BotSpec
from deepsea_referee.clock import TimeControl
from deepsea_referee.errors import UserError
from deepsea_referee.results import (
    BotLog,
    FaultReport,
    GameResult,
    MatchResult,
    ResultsFolder,
    VoidGame,
    write_atomically,
)
from deepsea_rules.faults import Fault
from deepsea_rules.game import Decision, Forfeit, Game
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.record import GameRecord
from deepsea_rules.ruleset import PRESETS

SEED = seed_from_text("results")
MANUAL = PRESETS["manual"]
BOTS = (BotSpec("a", ("x",), None, "aa"), BotSpec("b", ("y",), None, "bb"))
FAULT = FaultReport(
    seat=1,
    decision=2,
    fault=Fault.TIMEOUT,
    kind="declare",
    legal=("down", "turn"),
    came="it had 5 us for the decision",
    us=7,
    played="down",
    forfeit=True,
)


def record(*times_us: tuple[int, int]) -> GameRecord:
    """The record of a game with decisions of these seats and times."""
    game = Game(MANUAL, 2, SEED)
    while game.pending() is not None:
        game.decide(game.pending().legal[0])  # type: ignore[union-attr]
    game.decisions[:] = [Decision(seat, "down", us, None) for seat, us in times_us]
    return GameRecord.of(game, game_id="g", clock="1s", seats=[("a", "aa"), ("b", "bb")])


def result(
    game: int, seats: tuple[int, ...], scores: tuple[int, ...], **more: object
) -> GameResult:
    best = sorted(scores, reverse=True)
    facts = {"forfeits": (), "faults": ()} | more
    return GameResult(
        game=game,
        game_id=f"g{game}",
        seats=seats,
        scores=scores,
        placements=tuple(best.index(score) + 1 for score in scores),
        **facts,  # type: ignore[arg-type]
    )


def match() -> MatchResult:
    it = MatchResult(
        bots=BOTS,
        rules=MANUAL,
        time_control=TimeControl(5),
        seed=SEED,
        games_asked=4,
        isolation="process",
    )
    forfeit = Forfeit(1, Fault.TIMEOUT, 2)
    it.add(result(2, (1, 0), (7, 7)), record((0, 30), (1, 40)))
    it.add(
        result(1, (0, 1), (10, 4), forfeits=(forfeit,), faults=(FAULT,)),
        record((0, 10), (1, 90), (0, 20)),
    )
    it.voids.append(VoidGame(3, "g3", "a bug"))
    it.logs.append(BotLog(1, 2, "--- stderr of b\nhelp\n"))
    it.sort()
    return it


def test_each_bot_has_its_own_numbers_wherever_it_sat() -> None:
    first, second = match().summaries()
    assert (first.name, first.games, first.wins) == ("a", 2, 2)
    assert (first.mean_placement, first.mean_score) == (1.0, 8.5)
    assert (first.faults, first.forfeits) == (0, 0)
    assert (first.decisions, first.median_us, first.slowest_us) == (3, 20, 40)
    # A shared first place is a win for both.
    assert (second.name, second.games, second.wins) == ("b", 2, 1)
    assert (second.mean_placement, second.mean_score) == (1.5, 5.5)
    assert (second.faults, second.forfeits) == (1, 1)
    assert (second.decisions, second.median_us, second.slowest_us) == (2, 30, 90)


def test_without_a_game_there_are_no_means() -> None:
    it = MatchResult(
        bots=BOTS,
        rules=MANUAL,
        time_control=TimeControl(5),
        seed=SEED,
        games_asked=4,
        isolation="process",
    )
    row = it.summaries()[0]
    assert (row.games, row.wins, row.decisions) == (0, 0, 0)
    assert (row.mean_placement, row.mean_score, row.median_us, row.slowest_us) == (None,) * 4
    json.loads(it.to_json())


def test_a_fault_is_explained_in_one_line() -> None:
    (line,) = match().fault_lines()
    assert line == (
        "game 1, b in seat B, decision 2: timeout after 7 us: asked to declare (down, turn), "
        "it had 5 us for the decision; played down; the seat forfeits"
    )


def test_a_folder_holds_records_logs_and_results(tmp_path: Path) -> None:
    it, folder = match(), tmp_path / "new" / "folder"
    with ResultsFolder(folder) as files:
        for game in it.games:
            files.add(game, record())
        files.finish(it)
    names = ["bot-2-start-2.log", "game-0001.json", "game-0002.json", "results.json"]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert GameRecord.from_json((folder / "game-0001.json").read_text()) == record()
    data = json.loads((folder / "results.json").read_text())
    assert list(data) == [
        "format",
        "rules",
        "clock",
        "seed",
        "games_asked",
        "isolation",
        "interrupted",
        "bots",
        "games",
        "void",
        "logs",
    ]
    assert data["format"] == "deepsea-results/1"
    assert data["rules"] == {"name": "manual", "options": MANUAL.options()}
    assert (data["clock"], data["seed"]) == ("5us", SEED.hex())
    assert [(bot["name"], bot["digest"], bot["wins"]) for bot in data["bots"]] == [
        ("a", "aa", 2),
        ("b", "bb", 1),
    ]
    assert data["games"][0] == {
        "game": 1,
        "game_id": "g1",
        "record": "game-0001.json",
        "seats": [0, 1],
        "scores": [10, 4],
        "placements": [1, 2],
        "forfeits": [{"seat": 1, "fault": "timeout", "decision": 2}],
        "faults": [
            {
                "seat": 1,
                "decision": 2,
                "fault": "timeout",
                "kind": "declare",
                "legal": ["down", "turn"],
                "came": "it had 5 us for the decision",
                "us": 7,
                "played": "down",
                "forfeit": True,
            }
        ],
    }
    assert data["void"] == [{"game": 3, "game_id": "g3", "reason": "a bug"}]
    assert data["logs"] == ["bot-2-start-2.log"]


def test_every_key_of_results_json_is_described() -> None:
    text = (Path(__file__).parents[2] / "docs" / "results.md").read_text(encoding="utf-8")

    def keys(data: object) -> set[str]:
        if isinstance(data, dict):
            return set(data) | {key for value in data.values() for key in keys(value)}
        if isinstance(data, list):
            return {key for value in data for key in keys(value)}
        return set()

    data = json.loads(match().to_json())
    del data["rules"]["options"]
    assert {key for key in keys(data) if f"`{key}`" not in text} == set()


def test_a_file_is_whole_or_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results.json"
    write_atomically(path, "old\n")

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, "new\n")
    assert path.read_text() == "old\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["results.json"]
    monkeypatch.undo()
    write_atomically(path, "new\n")
    assert path.read_text() == "new\n"
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_record_that_cannot_be_written_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = match()
    files = ResultsFolder(tmp_path)
    monkeypatch.setattr("os.fsync", lambda descriptor: os.close(-1))
    files.add(it.games[0], record())
    with files, pytest.raises(OSError, match="Bad file descriptor"):
        files.finish(it)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_refused_before_the_match(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("in the way")
    for folder in (file, file / "below"):
        with pytest.raises(UserError, match="cannot write to the folder"):
            ResultsFolder(folder)


def test_a_disk_that_is_full_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as caught:
        write_atomically(tmp_path / "game-0001.json", "{}")
    assert caught.value.filename == str(tmp_path / "game-0001.json")
    assert list(tmp_path.iterdir()) == []

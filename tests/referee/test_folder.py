"""The files that a match leaves: whole or not there, and never beside those of another match."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from deepsea_referee.errors import UserError
from deepsea_referee.results_folder import (
    _LONGEST_QUEUE,
    LOCK,
    FolderWriter,
    ResultsFolder,
    ResultsJson,
    WriteBehind,
)
from deepsea_referee.summary import GameResult, MatchResult, VoidGame
from deepsea_rules.game import GameRecord
from deepsea_rules.ruleset import PRESETS
from helpers.commands import environment
from helpers.results import FORFEITED, SEED, SHARED, VOID, decisions, empty, match, record


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


@pytest.mark.parametrize(
    "name", ["results.json", "rank.jsonl", "game-0007.json", "bot-1-start-1.log"]
)
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


# A folder that is written belongs to one process


def test_a_folder_that_is_written_is_refused_with_who_has_it(tmp_path: Path) -> None:
    with ResultsFolder(tmp_path / "runs") as files:
        before = sorted((tmp_path / "runs").iterdir())
        for _ in range(2):
            with pytest.raises(UserError) as refused:
                ResultsFolder(tmp_path / "runs")
            assert re.fullmatch(
                rf"the folder '{tmp_path}/runs' is being written by process {os.getpid()}, since "
                r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d: wait for its end, or name another folder",
                str(refused.value),
            )
        assert sorted((tmp_path / "runs").iterdir()) == before
        files.finish(match())
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["results.json"]


def test_a_folder_of_a_process_that_was_killed_is_free(tmp_path: Path) -> None:
    holds = (
        "import sys; from pathlib import Path\n"
        "from deepsea_referee.results_folder import FolderWriter\n"
        f"FolderWriter(Path({str(tmp_path)!r})); print(flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", holds], stdin=PIPE, stdout=PIPE, env=environment()
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"\n"
        with pytest.raises(UserError, match=f"written by process {holder.pid}, since"):
            FolderWriter(tmp_path)
        holder.kill()
    assert [path.name for path in tmp_path.iterdir()] == [LOCK]
    with FolderWriter(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_of_many_at_once_one_has_the_folder(tmp_path: Path) -> None:
    having = threading.Semaphore(1)
    had = []

    def take(number: int) -> None:
        while number not in had:
            with suppress(UserError), FolderWriter(tmp_path):
                assert having.acquire(blocking=False)
                had.append(number)
                having.release()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(take, range(40)))
    assert sorted(had) == [*range(40)]
    assert list(tmp_path.iterdir()) == []


# results.json, whatever comes in which order, without holding it in memory


def text(it: MatchResult, *entries: GameResult | VoidGame) -> str:
    with closing(ResultsJson()) as document:
        for entry in entries:
            if isinstance(entry, VoidGame):
                document.add_void(entry)
            else:
                document.add(entry)
        return "".join(document.pieces(it))


def test_everything_is_in_it() -> None:
    data = json.loads(text(match(), SHARED, FORFEITED, VOID))
    assert list(data) == [
        "format", "rules", "clock", "seed", "games_asked", "isolation", "tables", "interrupted",
        "bots", "games", "void", "logs",
    ]  # fmt: skip
    assert data["format"] == "deepsea-results/1"
    manual = PRESETS["manual"]
    assert data["rules"] == {"name": "manual", "options": manual.options()}
    assert (data["clock"], data["seed"]) == ("5us", SEED.hex())
    assert [(bot["name"], bot["digest"], bot["wins"]) for bot in data["bots"]] == [
        ("a", "aa", 2),
        ("b", "bb", 1),
    ]
    assert [game["game"] for game in data["games"]] == [1, 2]
    assert data["games"][0] == {
        "game": 1,
        "game_id": "g1",
        "record": "game-0001.json",
        "seats": [0, 1],
        "points": [10, 4],
        "placements": [1, 2],
        "forfeits": [{"seat": 1, "fault": "timeout", "decision": 2}],
        "faults": [
            {
                "seat": 1,
                "decision": 2,
                "fault": "timeout",
                "kind": "declare",
                "legal": ["down", "back"],
                "came": "it had 5 us for the decision",
                "us": 7,
                "played": "down",
                "forfeit": True,
                "error": "",
                "when": "decision",
            }
        ],
        "drowned": [],
    }
    assert data["void"] == [
        {"game": 3, "game_id": "g3", "reason": "a bug", "seat": None, "out_of_memory": False}
    ]
    assert data["logs"] == ["bot-2-start-2.log"]


def test_each_game_has_a_line_of_its_own() -> None:
    odd = VoidGame(4, "ü", 'two\nlines, "quoted"')
    lines = text(match(), SHARED, FORFEITED, VOID, odd).splitlines()
    start = lines.index(' "games": [')
    assert lines[start + 1].startswith('  {"game": 1, "game_id": "g1", ')
    assert lines[start + 2].startswith('  {"game": 2, ')
    assert lines[start + 3 : start + 5] == [" ],", ' "void": [']
    assert json.loads(lines[start + 6]) == {
        "game": 4,
        "game_id": "ü",
        "reason": 'two\nlines, "quoted"',
        "seat": None,
        "out_of_memory": False,
    }
    nothing = text(empty())
    assert ' "games": [],\n "void": [],\n "logs": []\n}\n' in nothing
    json.loads(nothing)


def test_games_come_in_their_order_in_whichever_they_ended() -> None:
    numbers = [5, 1, 1_000, 3, 2]
    data = json.loads(text(match(), *(replace(SHARED, game=number) for number in numbers)))
    assert [game["game"] for game in data["games"]] == sorted(numbers)


def test_it_can_be_written_twice_and_goes_on() -> None:
    with closing(ResultsJson()) as document:
        document.add(SHARED)
        once = "".join(document.pieces(match()))
        assert "".join(document.pieces(match())) == once
        document.add(FORFEITED)
        assert len(json.loads("".join(document.pieces(match())))["games"]) == 2


def test_many_games_take_no_more_memory_than_some() -> None:
    some = peak_bytes(1_200)
    # What other threads of this process take meanwhile counts, too: now and then, not each time.
    assert any(peak_bytes(3_600) < 1.1 * some for _ in range(3))


def peak_bytes(games: int) -> int:
    """The most memory that so many games, half of them void, hold at a time."""
    it, made = empty(), decisions(*((n % 2, 10 * n) for n in range(16)))
    tracemalloc.start()
    try:
        with closing(ResultsJson()) as document:
            for number in range(1, games + 1, 2):
                result = replace(FORFEITED, game=number)
                it.add(result, made)
                document.add(result)
                document.add_void(replace(VOID, game=number + 1))
            assert sum(map(len, document.pieces(it))) > 200 * games
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_every_key_is_described() -> None:
    page = (Path(__file__).parents[2] / "docs" / "results.md").read_text(encoding="utf-8")

    def keys(data: Any) -> set[str]:
        if isinstance(data, dict):
            return set(data) | {key for value in data.values() for key in keys(value)}
        if isinstance(data, list):
            return {key for value in data for key in keys(value)}
        return set()

    data = json.loads(text(match(), SHARED, FORFEITED, VOID))
    del data["rules"]["options"]
    assert {key for key in keys(data) if f"`{key}`" not in page} == set()


# Things done in a thread: in order, heard of, and never more waiting than there is room for


def test_things_are_done_in_order() -> None:
    done: list[int] = []
    thread = WriteBehind("test")
    for number in range(20):
        thread.submit(done.append, number)
    thread.finish()
    assert done == [*range(20)]


def test_who_is_too_fast_is_told_what_to_wait_for() -> None:
    go_on = threading.Event()
    thread = WriteBehind("test")
    answers = [thread.submit(go_on.wait) for _ in range(_LONGEST_QUEUE + 2)]
    assert answers[:_LONGEST_QUEUE] == [None] * _LONGEST_QUEUE
    first = answers[_LONGEST_QUEUE]
    assert first is not None
    assert not first.done()
    go_on.set()
    assert first.result()
    thread.finish()


def test_what_goes_wrong_is_heard_of() -> None:
    thread = WriteBehind("test")
    thread.submit(int, "no number")
    with pytest.raises(ValueError, match="no number"):
        thread.finish()
    other = WriteBehind("test")
    other.submit(int, "no number")
    other.close()
    with pytest.raises(ValueError, match="no number"):
        other.submit(int, "1")

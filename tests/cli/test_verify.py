"""`verify`: a line for every record, and an exit status for all of them."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from deepsea_cli.options import LARGEST_FILE
from deepsea_ladder.chain import next_head
from deepsea_ladder.export import LONGEST_LINE
from deepsea_referee.results_folder import ResultsJson
from deepsea_rules.game import Game
from deepsea_rules.randomness import commitment, game_seed, seed_from_text
from deepsea_rules.ruleset import PRESETS
from helpers.commands import Run, one_line, played, record_of, written
from helpers.games import Chooser, play_out
from helpers.results import empty


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return written(tmp_path, played(), "good.json")


@pytest.fixture
def altered(tmp_path: Path) -> Path:
    data = json.loads(record_of(played()).to_json())
    data["result"]["points"][0] += 1
    path = tmp_path / "altered.json"
    path.write_text(json.dumps(data))
    return path


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    path = tmp_path / "damaged.json"
    path.write_text(record_of(played()).to_json()[:-20])
    return path


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("players", [2, 6])
def test_a_record_as_it_was_written_is_right(
    run: Run, tmp_path: Path, preset: str, players: int
) -> None:
    path = written(tmp_path, played(preset, players))
    assert run("verify", path) == (0, f"ok {path}\n", "")


def test_the_first_difference_is_named(run: Run, altered: Path) -> None:
    done = run("verify", altered)
    assert (done.status, done.err) == (1, "")
    line = one_line(done.out)
    assert line.startswith(f"altered {altered}: result.points is [")
    assert "but the re-run gives [" in line


@pytest.mark.parametrize(
    ("key", "value"), [("seed", "00" * 32), ("commitment", "00" * 32), ("decisions", [])]
)
def test_whatever_is_altered_is_found(run: Run, tmp_path: Path, key: str, value: object) -> None:
    data = json.loads(record_of(played()).to_json())
    path = tmp_path / "changed.json"
    path.write_text(json.dumps({**data, key: value}))
    assert run("verify", path).status == 1


def test_what_is_no_record_is_bad_input(run: Run, damaged: Path, tmp_path: Path) -> None:
    done = run("verify", damaged, tmp_path / "nothing.json")
    assert (done.status, done.err) == (2, "")
    first, second = done.out.splitlines()
    assert first.startswith(f"unreadable {damaged}: not JSON")
    assert second == f"unreadable {tmp_path / 'nothing.json'}: cannot be read: " + second[-25:]


def test_every_record_has_its_line_and_the_worst_counts(
    run: Run, good: Path, altered: Path, damaged: Path
) -> None:
    done = run("verify", damaged, altered, good)
    assert done.status == 1
    assert [line.split()[0] for line in done.out.splitlines()] == ["unreadable", "altered", "ok"]
    assert run("verify", good, damaged).status == 2


def test_json_has_the_same_in_one_document(run: Run, good: Path, altered: Path) -> None:
    done = run("verify", "--json", good, altered)
    assert done.status == 1
    first, second = json.loads(done.out)["records"]
    assert first == {"path": str(good), "verdict": "ok", "game_id": "demo-0001", "difference": None}
    assert second["verdict"] == "altered"
    assert second["difference"].startswith("result.points")


def test_a_folder_stands_for_its_records_and_what_is_beside_them_is_skipped(
    run: Run, tmp_path: Path
) -> None:
    for number in (1, 2):
        written(tmp_path, played(salt=str(number)), f"game-000{number}.json")
    for beside in ("analysis-0001.json", "notes-0001.json"):
        (tmp_path / beside).write_text('{"format": "another"}')
    summary = tmp_path / "results.json"
    # That of a long match is larger than any record may be.
    summary.write_text('{\n "format": "deepsea-results/1",' + " " * LARGEST_FILE + "}")
    done = run("verify", tmp_path)
    assert done.status == 0
    words = [line.split()[0] for line in done.out.splitlines()]
    assert words == ["skipped", "ok", "ok", "skipped", "skipped"]
    # Alone it proves nothing.
    assert run("verify", summary).status == 2


@pytest.mark.parametrize(
    ("game_id", "attempt", "status"),
    [
        ("{}-0007", 1, 0),
        ("{}-0007", 0, 1),
        ("{}-0007", 2, 1),
        ("{}-0006", 1, 1),
        ("another-0006", 1, 0),
    ],
)
def test_seeds_follow_from_that_of_the_match_in_the_folder(
    run: Run, tmp_path: Path, game_id: str, attempt: int, status: int
) -> None:
    seed = seed_from_text("match")
    game = play_out(Game(PRESETS["manual"], 2, game_seed(seed, 6, 1)), Chooser("seeds", takes=True))
    record = replace(
        record_of(game), game_id=game_id.format(commitment(seed)[:12]), attempt=attempt
    )
    path = tmp_path / "game-0007.json"
    path.write_text(record.to_json())
    assert run("verify", path).status == 0
    with closing(ResultsJson()) as document:
        pieces = document.pieces(replace(empty(), seed=seed))
        (tmp_path / "results.json").write_text("".join(pieces))
    done = run("verify", path)
    assert done.status == status
    words = f"seed is not that of game {game_id[-1]}, attempt {attempt}, of the match in "
    assert (words in done.out) == bool(status)


def test_a_folder_without_records_is_bad_input(run: Run, tmp_path: Path) -> None:
    assert "no records in this folder" in run("verify", tmp_path).refusal


def test_names_from_a_record_cannot_write_to_the_terminal(run: Run, tmp_path: Path) -> None:
    data = json.loads(record_of(played()).to_json())
    data["format"] = "\x1b[2J\n\u202e"
    path = tmp_path / "evil.json"
    path.write_text(json.dumps(data))
    line = one_line(run("verify", path).out)
    assert line.isprintable()


# Exports


def export_of(folder: Path, *changes: dict[str, object], ending: str = "jsonl") -> Path:
    """An export with a line for each of these changes, whose heads are right."""
    head = "00" * 32
    lines = [{"place": 0, "season": "s", "commitment": head, "seed": None, "head": head}]
    for place, change in enumerate(changes, 1):
        line: dict[str, object] = {"place": place, "season": "s", "game_id": "s-1", "attempt": 0}
        line |= {"ended": "done", "seats": [], "record": {"game_id": "s-1", "seats": []}} | change
        head = next_head(head, line)
        lines.append({**line, "head": head})
    path = folder / f"export.{ending}"
    text = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(text) if ending.endswith("gz") else text)
    return path


@pytest.mark.parametrize("attempt", [1, 100_000_000, 10**400])
def test_a_line_that_tells_of_many_attempts_takes_no_memory_for_them(
    run: Run, tmp_path: Path, attempt: int
) -> None:
    lost = {"ended": "void", "attempt": 1}
    path = export_of(tmp_path, lost, {"attempt": attempt})
    tracemalloc.start()
    try:
        done = run("verify", "--chain", path)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
    assert (done.status, done.err) == (1, "")
    assert done.out.endswith("game s-1: there is no line of attempt 0\n")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"attempt": [1]}, "line 2 is none of an export"),
        ({"attempt": "9"}, "line 2 is none of an export"),
        ({"attempt": None}, "line 2 is none of an export"),
        ({"seats": 5}, "line 2 is none of an export"),
        ({"record": [1]}, "line 2 is none of an export"),
        ({"ended": "void", "attempt": {}}, "line 2 is none of an export"),
        ({"words": "x" * LONGEST_LINE}, "a line has more than 8,388,608 characters"),
    ],
)
@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz"])
def test_a_line_that_is_none_of_an_export_is_bad_input(
    run: Run, tmp_path: Path, change: dict[str, object], said: str, ending: str
) -> None:
    assert said in run("verify", "--chain", export_of(tmp_path, change, ending=ending)).refusal


@pytest.mark.parametrize("text", ["", "\n", "[]\n", "\udcff"])
def test_a_file_without_a_line_of_an_export_is_bad_input(
    run: Run, tmp_path: Path, text: str
) -> None:
    path = tmp_path / "export.jsonl"
    path.write_bytes(text.encode(errors="surrogateescape"))
    assert str(path) in run("verify", "--chain", path).refusal

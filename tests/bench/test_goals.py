"""Each benchmark of the goals runs and says what it should; its figures are not judged here.

Before a release, as that is when benchmarks are run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import goals as suite
from figures import Row, beside, measured

BENCH = Path(__file__).parents[2] / "bench"
FEATURES = ["tables in this process: decisions with features, on one core"]
TOPICS = {
    "one-game": ["one game at a time: a decision, against a bare ping-pong"],
    "lines": ["a decision of a bot that speaks lines, against one over gRPC"],
    "many-games": [
        "many games at once: decisions, against bare ping-pongs",
        "many games at once: decisions",
    ],
    "tables": [
        "tables in this process: decisions on one core",
        *FEATURES,
        "roll-outs from view.sample: turns on one core",
        "roll-outs from view.sample, by the steady policy: turns on one core",
    ],
    "batches": [
        "4,096 games at once by the steady policy: decisions on one core",
        "4,096 games at once by the steady policy: decisions on one core, against `roll_out`",
        "1,000 roll-outs of one position by the steady policy, against `roll_out`",
        "4,096 games as an environment, against steady: learner's decisions on one core",
    ],
    "cold-start": [
        "deepsea-referee match greedy cautious --games 1, against `import grpc`",
        "deepsea-referee --help, against `import click`",
    ],
    "ladder": [
        f"deepsea-referee ladder {words}, against `import sqlalchemy`"
        for words in ("standings", "bot veteran", "games")
    ],
    "memory": [
        "peak memory of 4 games (out), against 2",
        "peak memory of 4 games (processes), against 2",
    ],
    "workers": ["match --in-process --workers 2: decisions for each core, against one worker"],
}
"""Their rows that have a goal."""
if find_spec("numpy") is None:
    TOPICS["tables"].remove(*FEATURES)
    TOPICS["batches"].clear()


def goals(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the suite with these arguments."""
    paths = os.pathsep.join(filter(None, sys.path))
    return subprocess.run(
        [sys.executable, str(BENCH / "goals.py"), "--scale", "tiny", *words],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
        check=True,
    )


def check(rows: list[dict[str, Any]], topic: str, shown: str) -> None:
    """The rows with a goal are those of the topic, with figures, and in the table."""
    with_goals = [row for row in rows if row["goal"]]
    assert [row["what"] for row in with_goals] == TOPICS[topic]
    for row in with_goals:
        assert row["ratio"] > 0
        assert isinstance(row["met"], bool)
        assert all(figure > 0 for figure in row["figures"].values())
        assert f"| {row['what']} | {row['measured']} | {row['ratio']:.2f} | " in shown


@pytest.mark.release
@pytest.mark.parametrize("topic", TOPICS)
def test_a_topic_has_a_row_for_each_of_its_goals(topic: str) -> None:
    done = goals("--only", topic, "--json")
    document = json.loads(done.stdout)
    assert document["scale"] == "tiny"
    check(document["rows"], topic, done.stderr)
    assert document["machine"] in done.stderr


@pytest.mark.release
def test_the_quickest_has_a_row_for_each_of_its_goals_and_json_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "goals.json"
    done = goals("--only", "tables", "--json", str(file))
    document = json.loads(file.read_text(encoding="utf-8"))
    assert document["scale"] == "tiny"
    assert document["machine"] in done.stdout
    rows = document["rows"]
    check(rows, "tables", done.stdout)
    assert all(f"| {row['what']} | {row['measured']} | " in done.stdout for row in rows)
    names = [row["what"] for row in rows if not row["goal"]]
    assert [name.split(",")[0] for name in names] == ["OpenSpiel"] * 2 + ["PettingZoo"] * 2


def test_a_topic_that_fails_says_so_and_the_others_stand() -> None:
    def broken() -> Iterator[Row]:
        yield beside("first", "1 ms")
        raise OSError("no such thing")

    shown: list[str] = []
    topics = {"one": broken, "other": lambda: [beside("second", "2 ms")]}
    rows, failed = measured(topics, shown.append)
    assert [row.what for row in rows] == ["first", "second"]
    assert failed == {"one": "OSError: no such thing"}
    assert [text.split(" | ")[0] for text in shown] == ["| first", "| one", "| second"]


def test_there_is_a_test_for_every_topic() -> None:
    assert list(suite.TOPICS) == list(TOPICS)

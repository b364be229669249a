"""Each benchmark of the goals runs and says what it should; its figures are not judged here.

The quickest in every run; the others before a release, as that is when benchmarks are run.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
FEATURES = ["tables in this process: decisions with features, on one core"]
TOPICS = {
    "one-game": ["one game at a time: a decision, against a bare ping-pong"],
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
QUICK = ("tables",)
if find_spec("numpy") is None:
    TOPICS["tables"].remove(*FEATURES)


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


@pytest.mark.parametrize(
    "topic",
    [
        pytest.param(topic, marks=() if topic in QUICK else pytest.mark.release, id=topic)
        for topic in TOPICS
    ],
)
def test_a_topic_has_a_row_for_each_of_its_goals(topic: str) -> None:
    done = goals("--only", topic, "--json")
    document = json.loads(done.stdout)
    assert document["scale"] == "tiny"
    with_goals = [row for row in document["rows"] if row["goal"]]
    assert [row["what"] for row in with_goals] == TOPICS[topic]
    for row in with_goals:
        assert row["ratio"] > 0
        assert isinstance(row["met"], bool)
        assert all(figure > 0 for figure in row["figures"].values())
        assert f"| {row['what']} | {row['measured']} | {row['ratio']:.2f} | " in done.stderr
    assert document["machine"] in done.stderr


def test_json_may_go_to_a_file(tmp_path: Path) -> None:
    file = tmp_path / "goals.json"
    done = goals("--only", "tables", "--json", str(file))
    rows = json.loads(file.read_text(encoding="utf-8"))["rows"]
    assert all(f"| {row['what']} | {row['measured']} | " in done.stdout for row in rows)
    names = [row["what"] for row in rows if not row["goal"]]
    assert [name.split(",")[0] for name in names] == ["OpenSpiel"] * 2 + ["PettingZoo"] * 2


def test_there_is_a_test_for_every_topic() -> None:
    listed = re.search(r"--only \{([\w,-]+)\}", goals("--help").stdout)
    assert listed
    assert listed[1].split(",") == list(TOPICS)

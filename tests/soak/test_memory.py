"""The benchmark of memory runs and tells what it should; its figures are not judged here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench" / "memory.py"


# As that is when benchmarks are run.
@pytest.mark.release
def test_it_tells_the_peaks_of_each_way() -> None:
    words = ["--few", "2", "--many", "4", "--way", "json", "--way", "workers"]
    paths = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, str(BENCH), *words],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    figures = json.loads(done.stdout)
    assert (figures["few"], figures["many"]) == (2, 4)
    assert [row["way"] for row in figures["rows"]] == ["json", "workers"]
    for row in figures["rows"]:
        assert row["few_kib"] > 1_000
        assert row["ratio"] == round(row["many_kib"] / row["few_kib"], 3)
    assert len(done.stderr.splitlines()) == 3

"""The benchmark of the busy host runs and tells what it should; its figures are not judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench" / "host_load.py"


@pytest.mark.slow
def test_it_tells_how_each_bot_fared() -> None:
    options = ["--hogs", "2", "--games", "2", "--cheat-games", "1"]
    done = subprocess.run(
        [sys.executable, str(BENCH), *options], capture_output=True, text=True, check=True
    )
    figures = json.loads(done.stdout)
    assert figures["hogs"] == 2
    bots = ["worker", "sleeper", "spinner", "inflater", "waker"]
    assert [row["bot"] for row in figures["rows"]] == bots
    assert [row["games"] + row["void"] for row in figures["rows"]] == [2, 1, 1, 1, 1]
    assert figures["rows"][0]["decisions"] > 0
    assert 0 <= figures["false_timeout_rate"] <= 1
    assert "| worker | 2 |" in done.stderr

"""The benchmark of the busy host runs and tells what it should; its figures are not judged here.

It keeps the machine busy for a minute of CPU. How time is attributed is tested where it is computed
(tests/referee) and with single attacks (tests/attacks), so that this is for a release.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from host_load import Row, broken

BENCH = Path(__file__).parents[2] / "bench" / "host_load.py"


def row(bot: str, void: int = 0, timeouts: int = 0) -> Row:
    return Row(bot, 3, void, 60, timeouts, 0, 20_000, 30_000)


def test_an_honest_bot_may_not_pay_and_a_cheat_may_spoil_one_game() -> None:
    held = [row("worker"), row("sleeper", timeouts=9), row("in-phase", void=1), row("engine")]
    assert broken(held) == []
    assert broken([row("worker", timeouts=1)]) == [
        "worker: 1 false timeouts, 0 forfeits, 0 void games"
    ]
    assert broken([row("in-phase", void=2), row("engine", void=1)]) == [
        "in-phase: 2 void games",
        "engine: 0 false timeouts, 0 forfeits, 1 void games",
    ]


@pytest.mark.release
def test_it_tells_how_each_bot_fared() -> None:
    options = ["--hogs", "2", "--games", "2", "--cheat-games", "1", "--beside-burners", "1"]
    done = subprocess.run(
        [sys.executable, str(BENCH), *options], capture_output=True, text=True, check=False
    )
    figures = json.loads(done.stdout)
    assert done.returncode == bool(figures["broken"]), done.stderr
    assert figures["hogs"] == 2
    bots = [
        "worker",
        "sleeper",
        "spinner",
        "inflater",
        "waker",
        "in-phase",
        "engine",
        "thinker",
        "starter",
    ]
    assert [row["bot"] for row in figures["rows"]] == bots
    assert [row["games"] + row["void"] for row in figures["rows"]] == [2, *[1] * 8]
    assert figures["rows"][0]["decisions"] > 0
    assert 0 <= figures["false_timeout_rate"] <= 1
    assert "| worker | 2 |" in done.stderr

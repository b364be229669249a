"""Matches that are stopped and go on, by real signals: nobody pays for time in which nothing ran.

Each match takes as long as its stops, so this is for a release; how time is counted is tested in
tests/referee/test_clock.py with made-up time.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from deepsea_referee.sandbox import process_tree

pytestmark = pytest.mark.release

PAUSE_S = 0.5
"""How long something is stopped, and how long it runs then."""
SLEEPER = """
import time
from deepsea_sdk import Bot, run

class Player(Bot):
    def decide(self, view):
        self.work()
        return super().decide(view)

    def work(self):
        time.sleep(0.03)

run(Player)
"""
BURNER = SLEEPER.replace(
    "time.sleep(0.03)",
    "end = time.thread_time() + 0.03\n        while time.thread_time() < end: pass",
)
LINES = """
import json, sys, time
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "hello":
        print('{"type": "ready"}', flush=True)
    elif message["type"] == "decide":
        time.sleep(0.03)
        answer = {"type": "answer", "id": message["id"], "action": message["legal"][0]}
        print(json.dumps(answer), flush=True)
"""
WAYS = {
    "sandbox": ("--isolation", "sandbox"),
    "processes": ("--isolation", "process"),
    "in process": ("--in-process",),
    "workers": ("--isolation", "process", "--workers", "2"),
}
Chosen = Callable[[Sequence[int]], Sequence[int]]
"""The processes that are stopped, of the referee and all below it."""


def bots(folder: Path) -> list[str]:
    for name, source in (("sleeper", SLEEPER), ("burner", BURNER)):
        (folder / f"{name}.py").write_text(source, encoding="utf-8")
    return ["sleeper.py", "burner.py"]


@contextmanager
def stopped_again_and_again(process: subprocess.Popen[bytes], chosen: Chosen) -> Iterator[None]:
    """Stop processes and let them go on, by turns, as long as the body runs."""
    over = threading.Event()

    def stop() -> None:
        while not over.wait(PAUSE_S):
            pids = chosen(process_tree.tree(process.pid))
            process_tree.send_signal(pids, signal.SIGSTOP)
            over.wait(PAUSE_S)
            process_tree.send_signal(pids, signal.SIGCONT)

    thread = threading.Thread(target=stop)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def played(folder: Path, words: Sequence[str], chosen: Chosen) -> Any:
    command = [sys.executable, "-m", "deepsea_cli", "match", *words, "--json"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE) as process:
        with stopped_again_and_again(process, chosen):
            output, _ = process.communicate()
        assert process.returncode == 0
    return json.loads(output)


def everything(pids: Sequence[int]) -> Sequence[int]:
    return pids


def the_referee(pids: Sequence[int]) -> Sequence[int]:
    return pids[:1]


def the_bots(pids: Sequence[int]) -> Sequence[int]:
    return pids[1:]


@pytest.mark.alone
@pytest.mark.parametrize("chosen", [everything, the_referee])
@pytest.mark.parametrize("way", WAYS)
def test_nobody_pays_for_the_time_in_which_the_referee_did_not_run(
    tmp_path: Path, way: str, chosen: Chosen
) -> None:
    words = [*bots(tmp_path), "--games", "3", "--clock", "100ms", *WAYS[way]]
    result = played(tmp_path, words, chosen)
    assert [bot["faults"] for bot in result["bots"]] == [0, 0]
    assert len(result["games"]) == 3


@pytest.mark.alone
@pytest.mark.parametrize("chosen", [everything, the_referee])
def test_nor_does_a_bot_that_speaks_lines(tmp_path: Path, chosen: Chosen) -> None:
    (tmp_path / "lines").mkdir()
    manifest = 'command = ["python3", "bot.py"]\nprotocol = "lines"\n'
    (tmp_path / "lines" / "bot.toml").write_text(f'name = "lines"\n{manifest}', encoding="utf-8")
    (tmp_path / "lines" / "bot.py").write_text(LINES, encoding="utf-8")
    words = ["lines", "lines", "--games", "3", "--clock", "100ms", *WAYS["processes"]]
    result = played(tmp_path, words, chosen)
    assert [bot["faults"] for bot in result["bots"]] == [0, 0]


@pytest.mark.alone
def test_bots_that_are_stopped_alone_earn_nothing(tmp_path: Path) -> None:
    words = [*bots(tmp_path), "--games", "4", "--clock", "100ms", *WAYS["processes"]]
    result = played(tmp_path, words, the_bots)
    assert sum(bot["faults"] for bot in result["bots"]) > 0

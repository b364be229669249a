"""Ctrl-C and bots that hang, where bots are in the process that plays: programs of their own.

A bot says into a named pipe that it is in a game and waits for the test, so no test waits for time
to pass.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest

from helpers.tiers import daily

MEETS = """
import os
import sys
from pathlib import Path
from deepsea_sdk import Bot, run

HERE = Path.cwd()
sys.games = getattr(sys, "games", 0)  # of all copies of this module

class Meets(Bot):
    safe = 1.0

    def on_game_start(self, info):
        sys.games += 1

    def decide(self, view):
        if sys.games == 8:
            self.meet()
        return super().decide(view)

    def meet(self):
        try:
            (HERE / "met").mkdir()  # the first one of all workers
        except FileExistsError:
            return
        with open(HERE / "here", "w") as pipe:
            pipe.write("here")
        {waits}

run(Meets)
"""
WAITS = 'open(HERE / "go").read()'
CATCHES = """while True:
            try:
                open(HERE / "go").read()
            except BaseException:
                pass
"""
OTHER = "from deepsea_sdk import Bot, run\nclass Other(Bot): pass\nrun(Other)\n"
COMMANDS = {
    "match": ("match", "meets.py", "greedy", "--games", "10000", "--out", "kept"),
    "compare": ("compare", "meets.py", "greedy", "--blocks", "10000", "--out", "kept"),
    "rank": ("rank", "meets.py", "greedy", "random", "--games", "9000", "--out", "kept"),
    "tune": ("tune", "meets.py,safe=0.5..1.5", "--budget", "9000", "--out", "kept"),
    "improve": ("improve", "meets.py", "--games", "9000", "--out", "kept"),
}


class Meeting:
    """A command with bots in its process, one of which waits when it begins for the eighth time.

    A bot that has two seats in a game begins it twice.
    """

    def __init__(
        self,
        folder: Path,
        command: Sequence[str],
        waits: str = WAITS,
        clock: str = "600s",
        start: Sequence[str] = (sys.executable, "-m", "deepsea_cli"),
    ) -> None:
        for name in ("here", "go"):
            os.mkfifo(folder / name)
        (folder / "meets.py").write_text(MEETS.replace("{waits}", waits), encoding="utf-8")
        self.folder = folder
        self.process = subprocess.Popen(
            (*start, *command, "--in-process", "--clock", clock),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def interrupt(self, number: signal.Signals = signal.SIGINT) -> None:
        """As a terminal does: the signal reaches workers too."""
        os.killpg(self.process.pid, number)

    def until_it_waits(self) -> None:
        assert (self.folder / "here").read_text(encoding="utf-8") == "here"

    def until_it_finishes(self) -> None:
        """Until the command says that it finishes games."""
        assert self.process.stderr is not None
        while "finishing" not in (line := self.process.stderr.readline()):
            assert line

    def go(self) -> None:
        (self.folder / "go").write_text("go", encoding="utf-8")

    def end(self) -> tuple[int, str, str]:
        """The status, and what it has printed; it must not wait for the bot."""
        out, err = self.process.communicate(timeout=600)
        return self.process.returncode, out, err


@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_first_ctrl_c_finishes_the_game_at_hand(tmp_path: Path, workers: str) -> None:
    meeting = Meeting(tmp_path, (*COMMANDS["match"], "--workers", workers))
    meeting.until_it_waits()
    meeting.interrupt()
    meeting.until_it_finishes()
    meeting.go()
    status, out, err = meeting.end()
    kept = json.loads((tmp_path / "kept" / "results.json").read_bytes())
    games = len(kept["games"])
    assert f"interrupted after {games} of 10000 games; their records are in kept" in err
    assert (status, f"{games} games, manual rules" in out) == (130, True)
    assert len([*(tmp_path / "kept").glob("game-*.json")]) == games
    if workers == "1":
        assert games == 8


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("waits", [WAITS, CATCHES])
def test_the_second_ctrl_c_ends_at_once(tmp_path: Path, workers: str, waits: str) -> None:
    meeting = Meeting(tmp_path, (*COMMANDS["match"], "--workers", workers), waits)
    meeting.until_it_waits()
    meeting.interrupt()
    meeting.until_it_finishes()
    meeting.interrupt()
    status, out, err = meeting.end()
    kept = json.loads((tmp_path / "kept" / "results.json").read_bytes())
    games = len(kept["games"])
    assert f"interrupted after {games} of 10000 games" in err
    assert (status, f"{games} games, manual rules" in out) == (130, True)
    # The worker that waits has played seven; another one may have played some.
    assert games == 7 if workers == "1" else games >= 7


def test_sigterm_ends_at_once(tmp_path: Path) -> None:
    meeting = Meeting(tmp_path, COMMANDS["match"])
    meeting.until_it_waits()
    meeting.interrupt(signal.SIGTERM)
    status, out, err = meeting.end()
    assert "interrupted after 7 of 10000 games" in err
    assert (status, "7 games, manual rules" in out) == (130, True)


PRINTED = {
    "compare": ("meets against greedy: 1 block", "meets against greedy: 2 blocks"),
    "rank": ("3 bots: 6 games in 2 rounds", "3 bots: 6 games in 2 rounds"),
    "tune": ("meets,safe=0.5..1.5: 0 steps", "meets,safe=0.5..1.5: 0 steps"),
    "improve": ("version 1: the first one", "version 1: the first one"),
}
"""How the output begins if the game is given up, and if it is finished."""


@pytest.mark.parametrize(
    ("command", "twice"),
    daily(
        [*product(PRINTED, (True, False))],
        [("compare", True), ("rank", False), ("tune", True), ("improve", False)],
    ),
)
def test_every_command_prints_what_is_complete(tmp_path: Path, command: str, twice: bool) -> None:
    meeting = Meeting(tmp_path, COMMANDS[command])
    meeting.until_it_waits()
    meeting.interrupt()
    meeting.until_it_finishes()
    if twice:
        meeting.interrupt()
    else:
        meeting.go()
    status, out, err = meeting.end()
    assert (status, "interrupted after" in err) == (130, True)
    assert out.startswith(PRINTED[command][0 if twice else 1])


# Bots that hang

SHORT = """
import sys
from deepsea_cli import main
from deepsea_referee import in_process
in_process.SHORTEST_S = 0.5
main(sys.argv[1:])
"""
"""The command line, with hardly any patience."""
KEEPS_THE_LOCK = 'import re; re.match("(a+)+$", "a" * 64 + "b")'


@pytest.mark.parametrize("command", daily(COMMANDS, ["match", "compare", "improve"]))
def test_a_bot_that_hangs_is_named_with_its_stack(tmp_path: Path, command: str) -> None:
    start = (sys.executable, "-c", SHORT)
    meeting = Meeting(tmp_path, COMMANDS[command], CATCHES, "1ms", start)
    meeting.until_it_waits()
    status, out, err = meeting.end()
    assert status == 2
    assert "'meets" in err
    game = 4 if command in ("compare", "tune") else 8  # in which it begins for the eighth time
    assert f"did not return for 0.5 s in game {game} (meets.py, line 30, in meet)" in err
    assert 'meets.py", line 18, in decide' in err
    complete = {"match": "7 games, manual rules"} | {name: out[0] for name, out in PRINTED.items()}
    assert out.startswith(complete[command])
    if command == "match":
        kept = json.loads((tmp_path / "kept" / "results.json").read_bytes())
        assert (len(kept["games"]), kept["interrupted"]) == (7, True)


@pytest.mark.slow
def test_a_bot_that_hangs_in_a_worker_is_named_with_its_stack(tmp_path: Path) -> None:
    meeting = Meeting(tmp_path, (*COMMANDS["match"], "--workers", "2"), CATCHES, "1ms")
    meeting.until_it_waits()
    status, out, err = meeting.end()
    kept = json.loads((tmp_path / "kept" / "results.json").read_bytes())
    assert (status, f"{len(kept['games'])} games, manual rules" in out) == (2, True)
    assert len(kept["games"]) >= 7
    assert "bot 'meets' did not return for 10 s" in err
    assert 'meets.py", line 18, in decide' in err


def test_the_stack_of_code_that_lets_no_thread_run_is_printed(tmp_path: Path) -> None:
    start = (sys.executable, "-c", SHORT)
    meeting = Meeting(tmp_path, COMMANDS["match"], KEEPS_THE_LOCK, "1ms", start)
    try:
        meeting.until_it_waits()
        assert meeting.process.stderr is not None
        while "meets.py" not in (line := meeting.process.stderr.readline()):
            assert line
    finally:
        meeting.interrupt(signal.SIGKILL)
        meeting.end()


# Threads that are no daemons

THREADS = {
    "waits": "threading.Thread(target=wait, name='helper', daemon=False).start()",
    "works": "pool.submit(wait)",
    "timer": "Lasting(1e6, wait).start()",
    "daemon": "threading.Thread(target=wait, name='helper', daemon=True).start()",
    "idle": "pool.submit(int)",
}
"""What a bot starts, and does not end."""
STARTS = """
import threading
from concurrent.futures import ThreadPoolExecutor
from deepsea_sdk import Bot, run

pool = ThreadPoolExecutor(1, "pool")

def wait():
    threading.Event().wait()

class Lasting(threading.Timer):
    daemon = False

class Starts(Bot):
    safe = 1.0

    def __init__(self):
        {start}

run(Starts)
"""
SAID = {
    "waits": "a thread of bot 'starts.*' still runs and is ended with this process: helper, at ",
    "works": "a thread of bot 'starts.*' still runs and is ended with this process: pool_0, at ",
    "timer": "a thread of a bot still runs and is ended with this process: Thread-",
}
FEW = {
    "match": ("match", "starts.py", "greedy", "--games", "1"),
    "workers": ("match", "starts.py", "greedy", "--games", "2", "--workers", "2"),
    "compare": ("compare", "starts.py", "greedy", "--blocks", "1"),
    "rank": ("rank", "starts.py", "greedy", "random", "--games", "6"),
    "tune": ("tune", "starts.py,safe=0.5..1.5", "--budget", "12"),
    "improve": ("improve", "starts.py", "--games", "6"),
}


@pytest.mark.parametrize(
    ("command", "thread"),
    daily(
        [*product(FEW, THREADS)],
        [*product(["match"], THREADS), ("workers", "waits"), ("compare", "works")],
    ),
)
def test_a_thread_of_a_bot_keeps_no_command_from_ending(
    tmp_path: Path, command: str, thread: str
) -> None:
    text = STARTS.replace("{start}", THREADS[thread])
    (tmp_path / "starts.py").write_text(text, encoding="utf-8")
    done = subprocess.run(
        (sys.executable, "-m", "deepsea_cli", *FEW[command], "--in-process"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    assert "starts" in done.stdout
    if thread in SAID:
        assert re.search(SAID[thread], done.stderr)
        assert len(done.stderr.splitlines()) < 20
        assert "make it a daemon" in done.stderr
    else:
        assert "thread" not in done.stderr


SCRIPT = """
import atexit, sys, threading
from deepsea_referee.bots.resolve import resolve
from deepsea_referee import in_process
from deepsea_referee.match import MatchSettings
from deepsea_referee.bots.process import Hosting
from deepsea_referee.sandbox.plain_process import PlainProcess

threading.go = threading.Event()
bots = [resolve("starts.py"), resolve("greedy")]
print(in_process.run_match_in_process(MatchSettings(bots, Hosting(PlainProcess()))).games)
print([one.name for one in threading.enumerate() if not one.daemon][1:])
threading.go.set()
"""


def test_a_script_goes_on_after_a_match_with_such_a_thread(tmp_path: Path) -> None:
    start = "threading.Thread(target=threading.go.wait, name='helper', daemon=False).start()"
    (tmp_path / "starts.py").write_text(STARTS.replace("{start}", start), encoding="utf-8")
    done = subprocess.run(
        (sys.executable, "-c", SCRIPT),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stdout.splitlines() == ["1", "['helper']"]

"""`match`: what is asked for is played, and what cannot be played is refused in one line."""

from __future__ import annotations

import json
import os
import select
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from deepsea_referee import match as referee
from deepsea_referee.bots.resolve import sample_bots
from deepsea_referee.match import MatchSettings, OnGame, OnVoid
from deepsea_referee.sandbox import probe
from deepsea_referee.sandbox.interface import SandboxUnavailable
from deepsea_referee.summary import GameResult, MatchResult, VoidGame
from deepsea_rules.game import Decision, GameRecord, verify
from deepsea_rules.randomness import seed_from_text
from helpers.commands import Process, Run, one_line, start
from helpers.programs import opponent_in, program_in, soon
from helpers.results import ILLEGAL

PLAIN = ("--isolation", "process")


class Asked:
    """Stands for the referee: notes what it is asked to play, and answers with a void game."""

    def __init__(self) -> None:
        self.settings: MatchSettings | None = None
        self.looked: str | None = None
        self.level: str | None = None

    def run_match_over_streams(
        self, settings: MatchSettings, on_game: OnGame, on_void: OnVoid
    ) -> MatchResult:
        self.settings = settings
        void = VoidGame(1, "x-1", "only a test")
        on_void(void)
        result = settings.result("process")
        result.add_void(void)
        return result

    def look(self, level: str) -> AbstractContextManager[None]:
        self.looked = level
        return nullcontext()

    def choose(self, level: str, begun: None) -> object:
        assert self.looked == level
        self.level = level
        return object()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    stand_in = Asked()
    monkeypatch.setattr(referee, "run_match_over_streams", stand_in.run_match_over_streams)
    monkeypatch.setattr(probe, "start_test", stand_in.look)
    monkeypatch.setattr(probe, "choose", stand_in.choose)
    return stand_in


@pytest.fixture
def silly(tmp_path: Path) -> Path:
    bot = tmp_path / "silly.py"
    jumps = "class Silly(Bot):\n    def decide(self, view):\n        return 'jump'\nrun(Silly)"
    bot.write_text(f"from deepsea_sdk import Bot, run\n{jumps}\n")
    return bot


def settings(asked: Asked) -> MatchSettings:
    assert asked.settings is not None
    return asked.settings


def test_the_defaults(run: Run, asked: Asked) -> None:
    run("match", "greedy", "cautious")
    wanted = settings(asked)
    assert [bot.name for bot in wanted.bots] == ["greedy", "cautious"]
    assert (wanted.games, wanted.seating, wanted.tables) == (1, "rotate", None)
    assert (wanted.rules.name, wanted.time_control.format()) == ("manual", "100ms+2s")
    assert wanted.hosting.tcp_host is None
    assert asked.level == "auto"


def test_every_option_gets_through(run: Run, asked: Asked, tmp_path: Path) -> None:
    run(
        *("match", "greedy", "--games", 7, "greedy", "--seed", "demo", "--rules", "guide"),
        *("--clock", "50ms", "--seating", "fixed", "--tables", 3, "--isolation", "sandbox"),
        *("--out", tmp_path / "a" / "b"),
    )
    wanted = settings(asked)
    assert (wanted.games, wanted.seating, wanted.tables) == (7, "fixed", 3)
    assert wanted.seed == seed_from_text("demo")
    assert (wanted.rules.name, wanted.time_control.format()) == ("guide", "50ms")
    assert asked.level == "sandbox"
    assert (tmp_path / "a" / "b" / "results.json").is_file()


def test_more_workers_than_cpus_are_warned_of(run: Run) -> None:
    cpus = len(os.sched_getaffinity(0))
    alone = run("match", "greedy", "--workers", cpus).err  # it takes two to play
    assert run("match", "greedy", "--workers", cpus + 1).err.splitlines() == [
        (
            f"warning: {cpus + 1} workers on a machine with {cpus} CPUs: games may become void, "
            "because bots wait for a CPU"
        ),
        *alone.splitlines(),
    ]


def test_a_ladder_warns_of_more_workers_than_cpus_too(run: Run, tmp_path: Path) -> None:
    store = ("--store", tmp_path / "none.db")
    for command in (("run",), ("tournament", "round-robin", "cup")):
        done = run("ladder", *command, "--workers", "200", *store)
        assert (done.status, done.out) == (2, "")  # there is no ladder
        assert "200 workers on a machine with" in done.err


def test_tcp_is_for_plain_processes(run: Run, asked: Asked) -> None:
    run("match", "greedy", "greedy", "--tcp")
    assert settings(asked).hosting.tcp_host == "127.0.0.1"
    assert asked.level == "process"
    done = run("match", "greedy", "greedy", "--tcp", "--isolation", "sandbox")
    assert "--isolation process" in done.refusal


def test_without_a_seed_every_run_has_a_new_one_that_repeats_it(run: Run, asked: Asked) -> None:
    seeds = []
    for _ in range(2):
        said = run("match", "greedy", "greedy").out
        text = said.rpartition("--seed ")[2].split()[0]
        assert settings(asked).seed == seed_from_text(text)
        assert len(bytes.fromhex(text)) == 8
        assert f", seed {text}\n" in said
        seeds.append(text)
    assert seeds[0] != seeds[1]


def test_how_to_repeat_a_match_is_told_where_it_is_news(
    run: Run, silly: Path, tmp_path: Path
) -> None:
    words = ("match", "greedy", "random", "--in-process")
    assert "no records kept" in run(*words).out
    assert "no records kept" not in run(*words, "--seed", "demo").out
    assert "no records kept" not in run(*words, "--out", tmp_path / "runs").out
    assert "no records kept" in run(*words, silly, "--seed", "demo").out


def test_ctrl_c_shows_what_is_complete(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(wanted: MatchSettings, on_game: OnGame, on_void: OnVoid) -> MatchResult:
        result = wanted.result("process")
        game = GameResult(1, "x-1", (0, 1), (31, 10), (1, 2), (), (ILLEGAL,))
        result.add(game, [Decision(seat, "back", 250, None) for seat in (0, 1)])
        result.interrupted = True
        return result

    monkeypatch.setattr(referee, "run_match_over_streams", interrupted)
    words = ("match", "greedy", "random", "--games", 9, *PLAIN)
    done = run(*words)
    assert done.status == 130
    assert one_line(done.err) == "deepsea-referee: interrupted after 1 of 9 games"
    assert done.out.startswith("1 game, manual rules, clock 100ms+2s, process, seed ")
    assert "\ngreedy      1     1       1.00    31.0       0" in done.out
    assert "it answered 'jump'" in done.out
    assert run(*words, "--quiet").out == ""


def test_all_games_void_is_a_negative_answer(run: Run, asked: Asked) -> None:
    done = run("match", "greedy", "greedy")
    assert (done.status, done.err) == (1, "")
    assert "game 1: only a test" in done.out
    assert run("match", "greedy", "greedy", "--quiet")[:2] == (1, "")


def test_a_sandbox_that_does_not_work_is_bad_input(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def choose(level: str, begun: object) -> object:
        raise SandboxUnavailable("no sandbox here: install bubblewrap")

    monkeypatch.setattr(probe, "choose", choose)
    done = run("match", "greedy", "greedy", "--isolation", "sandbox")
    assert "install bubblewrap" in done.refusal


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("greedy",), "2 to 6 bots, not 1"),
        ((), "2 to 6 bots, not 0"),
        (("greedy",) * 7, "2 to 6 bots, not 7"),
        (("greedy", "cautios"), "did you mean 'cautious'"),
        (("greedy", "nothing_like_it"), ", ".join(sample_bots())),
        (("greedy", "examples/greedi"), "there is no bot 'examples/greedi': a bot"),
        (("greedy", "nothing.py"), "there is no bot 'nothing.py'"),
        (("greedy", "cmd:"), "needs a command line"),
        (("greedy", "greedy", "--rules", "guid"), "did you mean 'guide'"),
        (("greedy", "greedy", "--rules", "house.toml"), "house.toml: cannot be read"),
        (("greedy", "greedy", "--clock", "fast"), "clock 'fast' is not understood"),
        (("greedy", "greedy", "--clock", "0s"), "clock '0s'"),
        (("greedy", "greedy", "--games", "0"), "'--games': 0 is not in the range"),
        (("greedy", "greedy", "--games", "-3"), "'--games': -3 is not in the range"),
        (("greedy", "greedy", "--games", "many"), "'--games'"),
        (("greedy", "greedy", "--tables", "0"), "'--tables': 0 is not in the range"),
        (("greedy", "greedy", "--workers", "0"), "'--workers'"),
        (("greedy", "greedy", "--seating", "swap"), "'rotate', 'fixed'"),
        (("greedy", "greedy", "--isolation", "jail"), "'sandbox'"),
        (("greedy", "greedy", "--in-process", "--tcp"), "--tcp"),
        (("greedy", "greedy", "--in-process", "--tables", "2"), "--tables"),
        (("greedy", "greedy", "--in-process", "--isolation", "process"), "--isolation"),
        (("greedy", "greedy", "--out", "/dev/null/x"), "cannot write to the folder"),
        (("greedy", "greedy", "--out", "/proc"), "cannot write to the folder '/proc'"),
    ],
)
def test_bad_input_costs_one_line(
    run: Run, asked: Asked, arguments: tuple[str, ...], said: str
) -> None:
    assert said in run("match", *arguments).refusal
    assert asked.settings is None


def test_a_file_that_is_not_python_is_refused_before_anything_starts(
    run: Run, asked: Asked, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("def (:\n")
    assert "line 1" in run("match", broken, "greedy").refusal
    assert asked.settings is None


# With real bots


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import nothing_of_the_kind\n", "No module named 'nothing_of_the_kind'"),
        ("raise RuntimeError('first line\\nsecond')\n", "second"),
        ("", "before connecting"),
    ],
)
def test_a_bot_that_does_not_start_is_bad_input(
    run: Run, tmp_path: Path, source: str, said: str
) -> None:
    bot = tmp_path / "bot.py"
    bot.write_text(source)
    done = run("match", bot, "greedy", *PLAIN)
    assert (done.status, done.out) == (2, "")
    first, *below = done.err.splitlines()
    assert first.startswith("deepsea-referee: bot 'bot': exited with status ")
    assert said in done.err
    assert all(line.startswith("  ") for line in below)


def test_a_match_is_played_recorded_and_proven(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    asked = ("match", "greedy", "cautious", "--games", 3, "--seed", "demo", *PLAIN)
    done = run(*asked, "--out", out)
    assert (done.status, done.err) == (0, "")
    head = "3 games, manual rules, clock 100ms+2s, process, seed demo"
    assert done.out.splitlines()[0] == head
    assert f"records and results.json: {out}" in done.out
    assert run("verify", out).status == 0
    assert run("show", out / "game-0001.json", "--events").status == 0
    records = [GameRecord.from_json(path.read_text()) for path in sorted(out.glob("game-*"))]
    assert len(records) == 3
    for record in records:
        verify(record)

    # The same again, as JSON: the same games, and nothing else on stdout.
    done = run(*asked[:-2], "--in-process", "--json")
    data: dict[str, Any] = json.loads(done.out)
    assert (done.status, done.err) == (0, "")
    assert [game["points"] for game in data["games"]] == [list(r.points) for r in records]
    assert data.keys() == json.loads((out / "results.json").read_text()).keys()


def test_a_folder_holds_one_match(run: Run, asked: Asked, tmp_path: Path) -> None:
    words = ("match", "greedy", "greedy", "--out", tmp_path)
    assert run(*words).status == 1
    asked.settings = None
    assert "has files of an earlier match (bots.json)" in run(*words).refusal
    assert asked.settings is None


def test_faults_are_explained_and_no_failure_of_the_match(run: Run, silly: Path) -> None:
    done = run("match", silly, "greedy", "--quiet", "--in-process")
    assert done == (0, "", "")
    done = run("match", silly, "greedy", "--in-process")
    assert done.status == 0
    assert "3 faults:\n  silly: illegal_action ×3, first in game 1, seat A, " in done.out
    assert "greedy (seat B) wins" in done.out


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[Sleeper]:
    ready = tmp_path / "ready"
    told = f"Path({str(ready)!r}).write_text(f'{{os.getpid()}} {{os.getppid()}}\\n')"
    first = "import threading\nfrom pathlib import Path"
    bot = program_in(tmp_path, "sleeper", f"{told}; threading.Event().wait()", first)
    os.mkfifo(ready)
    asked = os.open(ready, os.O_RDWR)
    yield Sleeper(bot, asked)
    os.close(asked)


class Sleeper(NamedTuple):
    """A bot that says that it is asked, and never answers."""

    bot: Path
    asked: int

    def wait_for(self, process: Process, count: int) -> set[int]:
        """The numbers of so many bots that are asked, and of those that started them."""
        told = b""
        while told.count(b"\n") < count:
            readable, _, _ = select.select([self.asked], [], [], 60)
            if not readable:
                process.kill()
                pytest.fail(f"the bot was not asked: {process.communicate()}")
            told += os.read(self.asked, 100)
        return {*map(int, told.split())} - {process.pid}


def test_ctrl_c_is_one_line_and_the_bots_are_gone(sleeper: Sleeper, tmp_path: Path) -> None:
    process = start("match", sleeper.bot, opponent_in(tmp_path, "other"), "--clock", "600s", *PLAIN)
    (pid,) = sleeper.wait_for(process, 1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, out) == (130, "")
    assert one_line(err) == "deepsea-referee: interrupted after 0 of 1 games"
    assert not Path(f"/proc/{pid}").exists()


WORKERS = ("--games", 9, "--workers", 2, "--clock", "600s")
IN_PROCESS = ("--in-process",)


# Of bots in the workers' own processes: tests/cli/test_in_process_ends.py.
def test_ctrl_c_reaches_workers_too_and_is_still_one_line(sleeper: Sleeper) -> None:
    process = start("match", sleeper.bot, "greedy", *WORKERS, *PLAIN, start_new_session=True)
    pids = sleeper.wait_for(process, 2)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, out) == (130, "")
    assert one_line(err) == "deepsea-referee: interrupted after 0 of 9 games"
    assert len(pids) == 4
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@pytest.mark.parametrize("where", [IN_PROCESS, pytest.param(PLAIN, marks=pytest.mark.release)])
def test_workers_and_their_bots_go_with_a_match_that_is_killed(
    sleeper: Sleeper, where: tuple[str, ...]
) -> None:
    process = start("match", sleeper.bot, "greedy", *WORKERS, *where)
    pids = sleeper.wait_for(process, 2)
    process.kill()
    assert process.communicate() == ("", "")  # the workers had these streams too
    assert soon(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))

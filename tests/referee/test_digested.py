"""The program that plays is the one that was digested, whatever its author writes meanwhile."""

from __future__ import annotations

import py_compile
import shutil
import sys
import zipfile
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from deepsea_referee.bots.loading import load
from deepsea_referee.bots.output import OutputPlan
from deepsea_referee.bots.process import Hosting
from deepsea_referee.bots.resolve import BotSpec, resolve
from deepsea_referee.match import MatchSettings
from deepsea_referee.sandbox.interface import IsolationLevel
from deepsea_referee.sandbox.probe import choose
from deepsea_referee.shared_match import run_match_with_workers
from deepsea_referee.summary import GameResult, MatchResult
from deepsea_rules.game import GameRecord
from deepsea_rules.time_control import TimeControl
from helpers.commands import Run
from helpers.programs import opponent
from helpers.tiers import daily

LINES = """
import json, os, sys
import plan

print("plays", plan.VERSION, open("data.txt").read(), flush=True, file=sys.stderr)
print('{"type":"ready"}', flush=True)
asked = 0
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "decide":
        asked += 1
        if asked == 2:
            os._exit(1)  # it is started again for the next game
        answer = {"type": "answer", "id": message["id"], "action": message["legal"][0]}
        print(json.dumps(answer), flush=True)
"""
CALLED = """
from pathlib import Path
import plan
from deepsea_sdk import Bot, run

class Mine(Bot):
    safe = 1

    def on_game_start(self, info):
        print("plays", plan.VERSION, (Path(__file__).parent / "data.txt").read_text())

run(Mine)
"""


def bot(folder: Path, text: str, version: str = "one") -> Path:
    """Write a bot of three files."""
    folder.mkdir(exist_ok=True)
    lines = "import json" in text
    protocol, site = ('protocol = "lines"\n', '"-S", ') if lines else ("", "")
    manifest = f'command = ["python3", {site}"bot.py"]\n{protocol}'
    (folder / "bot.toml").write_text(manifest, encoding="utf-8")
    (folder / "bot.py").write_text(text, encoding="utf-8")
    (folder / "plan.py").write_text(f"VERSION = {version!r}\n", encoding="utf-8")
    (folder / "data.txt").write_text(version, encoding="utf-8")
    return folder


def zipped(folder: Path) -> Path:
    file = folder.with_suffix(".zip")
    with zipfile.ZipFile(file, "w") as archive:
        for path in folder.iterdir():
            archive.write(path, path.name)
    return file


def played(
    folder: Path, mine: BotSpec, isolation: IsolationLevel | None = None, **options: Any
) -> tuple[MatchResult, list[str]]:
    """A match of four games, and what the first bot printed."""
    settings = MatchSettings(
        bots=[mine, opponent(folder) if isolation else resolve("random")],
        hosting=Hosting(choose(isolation or "process"), start_limit_us=60_000_000),
        games=4,
        time_control=TimeControl.parse("60s"),
        output=OutputPlan(folder=folder),
    )
    result = run_match_with_workers(settings, in_process=isolation is None, **options)
    assert result.games == 4
    logs = sorted(folder.glob("bot-1-*.log"))
    return result, [line for log in logs for line in log.read_text().splitlines()]


CASES = [*product(("process", "sandbox", None), (Path, zipped), (1, 2))]
DAILY = [("process", Path, 1), ("sandbox", Path, 1), (None, Path, 2), (None, zipped, 1)]


@pytest.mark.parametrize(("isolation", "form", "workers"), daily(CASES, DAILY))
def test_what_changes_after_the_digest_does_not_play(
    tmp_path: Path, isolation: IsolationLevel | None, form: Callable[[Path], Path], workers: int
) -> None:
    text = CALLED if isolation is None else LINES
    place = form(bot(tmp_path / "mine", text))
    mine = resolve(str(place))

    def change(_game: GameResult, _record: GameRecord) -> None:
        zipped(bot(tmp_path / "mine", text, "three"))

    zipped(bot(tmp_path / "mine", text, "two"))
    _, printed = played(tmp_path, mine, isolation, workers=workers, on_game=change)
    assert len(printed) >= 4
    assert set(printed) == {"plays one one"}
    assert resolve(str(place)).digest != mine.digest


@pytest.mark.parametrize("isolation", ["process", None])
def test_a_folder_may_go_once_it_is_digested(
    tmp_path: Path, isolation: IsolationLevel | None
) -> None:
    mine = resolve(str(bot(tmp_path / "mine", LINES if isolation else CALLED)))
    shutil.rmtree(tmp_path / "mine")
    _, printed = played(tmp_path, mine, isolation)
    assert set(printed) == {"plays one one"}


@pytest.mark.parametrize("isolation", ["process", None])
def test_what_the_digest_leaves_out_does_not_play(
    tmp_path: Path, isolation: IsolationLevel | None
) -> None:
    folder = bot(tmp_path / "mine", LINES if isolation else CALLED)
    (tmp_path / "plan.py").write_text("VERSION = 'compiled'\n")
    cached = folder / "__pycache__" / f"plan.{sys.implementation.cache_tag}.pyc"
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(tmp_path / "plan.py"), str(cached), invalidation_mode=unchecked)
    _, printed = played(tmp_path, resolve(str(folder)), isolation)
    assert set(printed) == {"plays one one"}


CHANGES = """
from pathlib import Path
import plan
from deepsea_sdk import Bot, run

class Mine(Bot):
    safe = 1.0

    def search(self, view):
        Path({plan!r}).write_text("raise SystemExit('another program')")
        return super().search(view)

run(Mine)
"""


COMMANDS = {
    "tune": ("mine,safe=0.0..2.0", "--budget", 80),
    "improve": ("mine", "--games", 2, "--precision", 0.2, "--against-version", "random"),
    "rank": ("mine", "random", "greedy", "--games", 60),
}


@pytest.mark.parametrize("command", daily([*COMMANDS], ["improve"]))
def test_a_command_plays_one_program_from_its_beginning_to_its_end(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    text = CHANGES.format(plan=str(tmp_path / "mine" / "plan.py"))
    bot(tmp_path / "mine", text)
    done = run(command, *COMMANDS[command], "--in-process", "--seed", "x", "--out", "kept")
    assert done.status in (0, 1), done
    assert "another program" in (tmp_path / "mine" / "plan.py").read_text()
    if command == "improve":
        assert (tmp_path / "kept" / "1" / "bot" / "plan.py").read_text() == "VERSION = 'one'\n"


# What its author sees and has


FAILS = {
    True: """
import json, sys
import plan
print('{"type":"ready"}', flush=True)
for line in sys.stdin:
    if json.loads(line)["type"] == "decide":
        plan.fail()
""",
    False: """
import plan
from deepsea_sdk import Bot, run

class Mine(Bot):
    def decide(self, view):
        plan.fail()

run(Mine)
""",
}
PLAN = """
import sys, traceback
from pathlib import Path

def fail():
    try:
        open(Path(__file__).parent / "missing.txt")
    except OSError:
        traceback.print_exc()
        raise
"""


@pytest.mark.parametrize("isolation", daily(["process", "sandbox", None], ["process", None]))
def test_errors_name_the_authors_own_files(
    tmp_path: Path, isolation: IsolationLevel | None
) -> None:
    folder = bot(tmp_path / "mine", LINES if isolation else CALLED)
    (folder / "bot.py").write_text(FAILS[isolation is not None])
    (folder / "plan.py").write_text(PLAN)
    games: list[tuple[GameResult, GameRecord]] = []
    _, printed = played(
        tmp_path, resolve(str(folder)), isolation, on_game=lambda *game: games.append(game)
    )
    text = "\n".join(printed)
    assert f'File "{folder}/plan.py", line 7, in fail' in text
    assert f"No such file or directory: '{folder}/missing.txt'" in text
    (error,) = {report.error for game, _ in games for report in game.faults if report.error}
    assert 'File "plan.py", line 7, in fail' in error
    came = {report.came for game, _ in games for report in game.faults}
    came |= {str(one.came) for _, record in games for one in record.decisions}
    assert any(f"'{folder}/missing.txt'" in words for words in came)
    assert "deepsea-" not in "".join((text, error, *came))


def test_breakpoints_in_the_authors_files_are_met(tmp_path: Path) -> None:
    folder = bot(tmp_path / "mine", CALLED.replace("import plan", "import plan, deep.er"))
    (folder / "deep").mkdir()
    (folder / "deep" / "er.py").write_text("def think(): pass\n")
    with (folder / "bot.py").open("a") as file:
        file.write("Mine.think, Mine.deep = deep.er.think, deep.er\n")
    loaded: Any = load(resolve(str(folder)))
    assert loaded.on_game_start.__code__.co_filename == str(folder / "bot.py")
    assert loaded.think.__code__.co_filename == str(folder / "deep" / "er.py")
    assert not Path(loaded.deep.__file__).is_relative_to(folder)
    (tmp_path / "alone.py").write_text(CALLED.replace("import plan", ""))
    alone: Any = load(resolve(str(tmp_path / "alone.py")))
    assert alone.on_game_start.__code__.co_filename == str(tmp_path / "alone.py")


@pytest.mark.parametrize("isolation", ["process", "sandbox"])
@pytest.mark.parametrize("mode", [0o755, 0o644])
def test_a_program_among_its_files_is_run(
    tmp_path: Path, isolation: IsolationLevel, mode: int
) -> None:
    folder = bot(tmp_path / "mine", LINES)
    (folder / "bin").mkdir()
    (folder / "bin" / "start").write_text(f"#!/bin/sh\nexec {sys.executable} -S bot.py\n")
    (folder / "bin" / "start").chmod(mode)
    (folder / "bot.toml").write_text('command = "bin/start"\nprotocol = "lines"\n')
    _, printed = played(tmp_path, resolve(str(folder)), isolation)
    assert set(printed) == {"plays one one"}


@pytest.mark.needs("bubblewrap")
def test_a_rival_that_its_author_keeps_inside_is_hidden(tmp_path: Path) -> None:
    folder = bot(tmp_path / "mine", LINES.replace("plan.VERSION", "os.listdir('rivals/random')"))
    (folder / "rivals" / "random").mkdir(parents=True)
    inside = bot(folder / "rivals" / "random", LINES)
    settings = MatchSettings(
        bots=[resolve(str(folder)), resolve(str(inside))],
        hosting=Hosting(choose("sandbox"), start_limit_us=60_000_000),
        time_control=TimeControl.parse("60s"),
        output=OutputPlan(folder=tmp_path),
    )
    run_match_with_workers(settings)
    assert (tmp_path / "bot-1-start-1.log").read_text() == "plays [] one\n"

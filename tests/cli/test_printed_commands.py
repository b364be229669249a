"""Every command that the product prints can be pasted: each is run as it was printed.

What takes long has fewer games here, by options that are added behind it.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from helpers.commands import Done, Run
from helpers.tiers import daily

BOT = """
from deepsea_sdk import LEAVE, TAKE, Bot, View, run

class Mine(Bot):
    most = 1

    def search(self, view: View) -> str:
        return TAKE if view.can_take and view.me.load < self.most else LEAVE

    def turn_back(self, view: View) -> bool:
        return view.me.load >= self.most

run(Mine)
"""
FAST = ("--in-process", "--seed", "demo")
SHORTER = {"compare": ["--blocks", "1", "--in-process"], "match": ["--games", "1", "--in-process"]}
"""Options behind a printed command, by its first word."""


def file(place: Path) -> str:
    (place / "mine.py").write_text(BOT, encoding="utf-8")
    return "mine.py"


def folder(place: Path) -> str:
    inside = place / "it's here" / "mine"
    inside.mkdir(parents=True)
    (inside / "bot.py").write_text(BOT, encoding="utf-8")
    (inside / "bot.toml").write_text('command = ["python3", "bot.py"]\n', encoding="utf-8")
    return "it's here/mine"


def packed(place: Path) -> str:
    return str(Path(shutil.make_archive("mine", "zip", place / folder(place))).name)


def with_parameters(place: Path) -> str:
    return f"{file(place)}:Mine,most=1"


FORMS = {form.__name__: form for form in (file, folder, packed, with_parameters)}


def printed(done: Done) -> Iterator[list[str]]:
    """The commands in what was printed, as words."""
    assert "Traceback" not in done.err
    for line in done.out.splitlines():
        if line.startswith(("  deepsea-referee ", "  cp ")):
            yield shlex.split(line)


def paste(run: Run, words: list[str]) -> None:
    program, *rest = words
    if program != "deepsea-referee":
        subprocess.run(words, check=True)
        return
    done = run(*rest, *SHORTER.get(rest[0], ()))
    assert done.status in (0, 1), (words, done.err)
    assert "Traceback" not in done.err


@pytest.fixture
def bot(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    form: Callable[[Path], str] = FORMS[request.param]
    return form(tmp_path)


@pytest.mark.parametrize("bot", daily(FORMS, ["folder"]), indirect=True)
def test_what_commands_print_for_a_bot_can_be_pasted(run: Run, bot: str) -> None:
    """Of match, show, analyse, compare and rank, and of check by its own words."""
    outputs = [
        run("match", bot, "greedy", "--games", "6", *FAST, "--out", "played"),
        run("match", bot, bot, "--games", "1", *FAST),
        run("show", "played"),
        run("analyse", "played", "--precision", "0.2"),
        run("analyse", "played", "--report", "--precision", "0.2"),
        run("compare", bot, "greedy", "--blocks", "1", *FAST, "--out", "compared"),
        run("analyse", "compared", "--precision", "0.2"),
        run("rank", bot, "greedy", "random", "--games", "3", *FAST, "--out", "ranked"),
        run("analyse", "ranked", "--precision", "0.2"),
    ]
    seen = set()
    for done in outputs:
        assert done.status in (0, 1), done.err
        for words in printed(done):
            kind = (words[1], "--report" in words, done is outputs[-1], done is outputs[6])
            if kind not in seen:  # the first of each kind of each output: the others differ in
                seen.add(kind)  # numbers alone
                paste(run, words)
    assert {kind[0] for kind in seen} >= {"show", "branch", "debug"}


@pytest.mark.parametrize("bot", daily(FORMS, ["folder"]), indirect=True)
def test_what_improve_prints_can_be_pasted(run: Run, bot: str) -> None:
    options = (*FAST, "--against", "greedy", "--precision", "0.2", "--minutes", "10")
    first = run("improve", bot, *options, "--games", "16")
    place = Path(bot) if Path(bot).is_dir() else Path(bot.partition(":")[0])
    weaker = BOT.replace("view.me.load >= self.most", "True").replace("< self.most", "< 0")
    if place.is_dir():
        (place / "bot.py").write_text(weaker, encoding="utf-8")
    elif place.suffix == ".py":
        place.write_text(weaker, encoding="utf-8")
    second = run("improve", bot, *options, "--games", "8")
    commands = [words for done in (first, second) for words in printed(done)]
    assert {"debug", "branch"} <= {words[1] for words in commands}
    for words in commands:
        paste(run, words)
    if place.suffix != ".zip":
        assert second.out.startswith("weaker: ")
        program = place / "bot.py" if place.is_dir() else place
        assert program.read_text(encoding="utf-8") == BOT


def test_what_improve_prints_for_a_command_line_can_be_pasted(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bot = f"cmd:python3 {file(tmp_path)}"
    options = ("--against", "greedy", "--precision", "0.2", "--minutes", "10", "--games", "16")
    done = run("improve", bot, *FAST, *options)
    commands = list(printed(done))
    assert [words[1] for words in commands] == ["show", "branch"]
    for words in commands:
        paste(run, words)


def test_what_analyse_prints_for_a_command_line_can_be_pasted(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bot = f"cmd:python3 {file(tmp_path)}"
    run("match", bot, "greedy", "--games", "6", *FAST, "--out", "played")
    worst = run("analyse", "played", "--precision", "0.2")
    report = run("analyse", "played", "--precision", "0.2", "--report", "--bot", "mine")
    for done in (worst, report):
        assert "(steady plays on in all seats: no Python file is known of " in done.out
        commands = list(printed(done))
        assert {words[1] for words in commands} == {"show", "branch"}
        for words in commands[:2]:  # the others differ in numbers alone
            paste(run, words)


def test_a_record_from_stdin_has_a_reason_in_place_of_commands(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run("match", file(tmp_path), "greedy", *FAST, "--games", "2", "--out", "played")
    with Path("played/game-0001.json").open(encoding="utf-8") as record:
        monkeypatch.setattr("sys.stdin", record)
        done = run("analyse", "-", "played/game-0002.json", "--rollouts", "30")
    assert "(read from stdin: keep the record in a file " in done.out
    assert all("-" not in words for words in printed(done))


def test_what_new_tune_and_a_faulty_match_print_can_be_pasted(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = run("new", "fresh")
    assert {words[1] for words in printed(made)} == {"check", "match", "compare"}
    for words in printed(made):
        if words[1] != "check":  # a whole check takes some seconds, and prints no command
            paste(run, words)
    path = Path(file(tmp_path))
    path.write_text(BOT.replace("most = 1", "most = 0"), encoding="utf-8")
    tuned = run("tune", f"{path},most=0..3", "--against", "none", "--budget", "160", *FAST)
    (words,) = printed(tuned)
    paste(run, words)
    path.write_text(BOT.replace("TAKE if", "1 / 0 if"), encoding="utf-8")
    faulty = run("match", path, "greedy", *FAST, "--out", "faulty")
    for words in printed(faulty):
        paste(run, words)


def test_a_record_of_a_bot_that_is_gone_says_what_to_name(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path(file(tmp_path))
    run("match", path, "greedy", *FAST, "--out", "played")
    record = "played/game-0001.json"
    assert f"programs: A {path.absolute()}, B greedy\n" in run("branch", record, "--at", "3").out
    path.write_text(BOT + "# changed\n", encoding="utf-8")
    assert "(changed since the game)" in run("branch", record, "--at", "3").out
    path.unlink()
    assert "there is no bot" in run("branch", record, "--at", "3").refusal
    Path("played/bots.json").unlink()
    assert "name a bot for each seat" in run("branch", record, "--at", "3").refusal
    Path("played/bots.json").write_text("[]", encoding="utf-8")
    assert "not the bots of its records" in run("branch", record, "--at", "3").refusal

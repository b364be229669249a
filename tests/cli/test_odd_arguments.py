"""Odd values for every option and argument of every command: one line, status 2, nothing written.

The commands are walked, so a new option is tried without a line here. Values are chosen by the type
of the parameter, and those of a text that has a form of its own by its metavar.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from deepsea_cli.ladder.options import VARIABLE
from deepsea_cli.options import NewFile, Seat
from helpers.commands import Run, every_command, played, written

COMMANDS = {
    words: command
    for words, command in every_command().items()
    if not isinstance(command, click.Group)
}

MINE = "from deepsea_sdk import Bot, run\nclass Mine(Bot):\n    most = 2\nrun(Mine)\n"
TEXTS = ["", " ", "\x07bell", "two\nlines", "\u2028", "\x7f", "\udcff"]
"""No parameter takes these."""
NUMBERS = ["nan", "NaN", "inf", "-inf", "infinity", "1e999", "9" * 30, "9" * 5000, "notes.txt"]
FORMS = {
    "A": ["notes.txt", "folder", "nan"],
    "A B C...": ["notes.txt", "folder", "nan"],
    "A,B,...": ["notes.txt", "folder", "nan"],
    "ADDRESS": ["nan", "notes.txt"],
    "B": ["notes.txt", "folder", "nan"],
    "BOT": ["notes.txt", "folder", "nan"],
    "BOT BOT [BOT]...": ["notes.txt", "folder", "nan"],
    "C,D,...": ["notes.txt", "folder", "nan"],
    "FILE|URL": ["notes.txt", "folder"],
    "FIRST-LAST": ["nan-inf", "nan", "1-inf", "notes.txt", "9" * 30],
    "MINE": ["notes.txt", "folder", "nan"],
    "MINE,NAME=LOW..HIGH,...": ["notes.txt", "greedy,x=nan..inf", "greedy,x=0..inf"],
    "N[,N]...": ["nan", "inf", "2,nan", "9" * 30, "notes.txt"],
    "NAME|FILE.toml": ["nan", "notes.txt", "folder", "data.toml", "text.toml"],
    "TIME": ["nan", "inf", "9" * 30, "notes.txt"],
    "TIME+BANK": ["nan", "nanms+2s", "100ms+infs", "1e999ms+2s", f"{'9' * 30}s+2s", "notes.txt"],
    "TIME|GAMES": ["nan", "infs", "nanm", "1e999h", "notes.txt"],
    "[TIME]": ["nan", "inf", "notes.txt"],
    "ACTION": ["nan", "notes.txt"],
    "PATH": ["notes.txt", "folder", "nan"],
    "[BOT]...": ["notes.txt", "folder", "nan"],
    "NAME|URL": ["nan", "notes.txt"],
    "SHA256": ["nan", "notes.txt"],
    "[STEP]...": ["nan", "roll:nan", "notes.txt"],
    "position": ["nan", "notes.txt"],
    "settled|TIME": ["nan", "inf", "notes.txt"],
}
"""Texts of a form, by the metavar of the option or argument. `data.toml` is no UTF-8."""
REPORTED = {"ladder doctor", "verify"}
"""Commands that report what they read in a file that is none of theirs, as they should."""
FREE = {
    "-",
    "AUTHOR",
    "GAME",
    "LINE",
    "NAME",
    "NAME[,NAME]...",
    "OWNER",
    "TEXT",
    "URL",
    "[AUTHOR]",
    "[BOT]",
    "[GAME]",
    "[NAME]",
    "[SEASON]",
    "[URL]",
    "name",
}
"""Metavars of names and free texts, which any other text may be."""
NO_INPUT = {"ladder serve": "--host", "ladder make-cert": "--host"}
"""An address of this machine: any name may be one, so only the general values are tried."""
ALSO = {
    "debug": ["--seat", "A"],
    "ladder author anonymise": ["--yes"],
    "ladder disable": ["--reason=odd"],
    "ladder submit": ["--author=me"],
}
"""Options without which a command refuses to do anything."""
USUAL = {
    "a": ["greedy"],
    "at": ["3"],
    "author": ["me"],
    "b": ["random"],
    "bot": ["greedy"],
    "bots": ["greedy", "random"],
    "file": ["a-new-file"],
    "folder": ["a-new-folder"],
    "game_id": ["1"],
    "hosts": ["localhost"],
    "branch bots": ["greedy"],
    "ladder settings name": ["bots"],
    "kind": ["round-robin"],
    "name": ["thing"],
    "path": ["greedy"],
    "position": ["1 1 1 1 | *A2v B0v | d1 a25"],
    "record": ["game-0001.json"],
    "records": ["game-0001.json"],
    "seat": ["A"],
    "shell": ["bash"],
    "tune bot": ["mine.py,most=0..4"],
    "url": ["http://127.0.0.1:1"],
}
"""Values of the arguments, and of required options, that are not tried: by their names in Python,
or by the command's words and name."""


def values(words: str, parameter: click.Parameter) -> list[str]:
    """The odd values of a parameter."""
    kind = parameter.type
    odd = list(TEXTS)
    if isinstance(kind, click.IntRange | click.FloatRange) or kind in (click.INT, click.FLOAT):
        odd += NUMBERS
    elif isinstance(kind, click.Choice | Seat):
        odd += ["nan", "notes.txt"]
    elif isinstance(kind, NewFile):
        odd += ["notes.txt", "folder", "missing/file.svg", "data.toml"]
    elif isinstance(kind, click.Path) and words not in REPORTED:
        odd += ["data.toml"] if "--authors" in parameter.opts else ["notes.txt"]
    elif NO_INPUT.get(words) not in parameter.opts:
        odd += FORMS.get(parameter.metavar or "", [])
    return odd


def line(words: str, command: click.Command, tried: click.Parameter, value: str) -> Iterator[str]:
    """The command's words with the value for one parameter."""
    yield from words.split()
    for parameter in command.params:
        if not isinstance(parameter, click.Option):
            continue
        if parameter is tried:
            yield from (max(parameter.opts, key=len), value)
        elif parameter.required:
            yield from (parameter.opts[0], *USUAL[parameter.name or ""])
    if tried.opts[0] not in ALSO.get(words, []):
        yield from ALSO.get(words, [])
    yield "--"
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            usual = USUAL.get(f"{words} {parameter.name}", USUAL.get(parameter.name or "", []))
            if parameter is tried:
                yield from (value, *usual[1:])
            else:
                yield from usual


def files(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def test_every_text_has_a_form_or_is_free() -> None:
    metavars = {
        parameter.metavar or parameter.name
        for command in COMMANDS.values()
        for parameter in command.params
        if parameter.type == click.STRING
    }
    assert metavars == FORMS.keys() | FREE


@pytest.fixture
def here(tmp_path: Path, pattern: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a ladder, a record, and files that are neither."""
    shutil.copy(pattern, tmp_path / "ladder.db")
    written(tmp_path, played())
    (tmp_path / "notes.txt").write_text("a line\n")
    (tmp_path / "text.toml").write_text("a line\n")
    (tmp_path / "data.toml").write_bytes(b"\xff\x00")
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "notes.txt").write_text("a line\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(VARIABLE, "ladder.db")
    return tmp_path


@pytest.mark.parametrize("words", COMMANDS)
def test_every_odd_value_is_refused_in_one_line(run: Run, here: Path, words: str) -> None:
    before = files(here)
    command = COMMANDS[words]
    for parameter in command.params:
        if isinstance(parameter, click.Option) and (parameter.is_flag or parameter.count):
            continue
        for value in values(words, parameter):
            arguments = list(line(words, command, parameter, value))
            done = run(*arguments)
            assert (done.status, done.out) == (2, ""), (arguments, done)
            assert len(done.err.splitlines()) == 1, (arguments, done)
            if value not in TEXTS:  # the general check names the place of an argument
                names = [*value[:40].split(","), *parameter.opts]
                assert any(name in done.err for name in names), (arguments, done)
            assert files(here) == before, arguments

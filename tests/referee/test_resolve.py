"""From what the user writes to a bot that can be started, without running any of it."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest

from deepsea_referee.bots.resolve import BotSpec, resolve, sample_bots, with_unique_names
from deepsea_referee.errors import UserError

SOURCE = "raise SystemExit('never run here')\n"


def write(path: Path, text: str = SOURCE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_python_file_runs_with_this_python_in_its_own_folder(tmp_path: Path) -> None:
    file = write(tmp_path / "my_bot.py")
    assert resolve(str(file)) == BotSpec(
        name="my_bot",
        command=(sys.executable, str(file)),
        folder=tmp_path,
        digest=hashlib.sha256(SOURCE.encode()).hexdigest(),
    )


def test_a_folder_names_its_command(tmp_path: Path) -> None:
    write(tmp_path / "deep" / "bot.toml", 'command = "python main.py --fast"\nname = "Deep One"\n')
    bot = resolve(str(tmp_path / "deep"))
    assert bot.name == "Deep One"
    assert bot.command == (sys.executable, "main.py", "--fast")
    assert bot.folder == tmp_path / "deep"


def test_a_folders_command_may_be_a_list_and_its_name_be_left_out(tmp_path: Path) -> None:
    write(tmp_path / "rusty" / "bot.toml", 'command = ["./rusty", "two words"]\n')
    bot = resolve(str(tmp_path / "rusty"))
    assert (bot.name, bot.command) == ("rusty", ("./rusty", "two words"))


def test_a_command_line_runs_where_the_user_stands(tmp_path: Path) -> None:
    file = write(tmp_path / "b.js")
    bot = resolve(f"cmd:node {file} --depth 3")
    assert bot.command == ("node", str(file), "--depth", "3")
    assert (bot.name, bot.folder) == ("b", None)
    digest = bot.digest
    write(file, "other")
    assert resolve(f"cmd:node {file} --depth 3").digest != digest
    assert resolve(f"cmd:node {file} --depth 4").digest != resolve(f"cmd:node {file}").digest


def test_a_folders_digest_changes_with_every_byte_and_name_and_with_nothing_else(
    tmp_path: Path,
) -> None:
    def digest(files: dict[str, str], number: int) -> str:
        folder = tmp_path / str(number) / "bot"
        for name, text in files.items():
            write(folder / name, text)
        return resolve(str(folder)).digest

    base = {"bot.toml": 'command = "./a"', "a": "1", "lib/b": "2"}
    variants = [
        base,
        base | {"a": "2"},
        base | {"a": "12", "lib/b": ""},
        base | {"c": ""},
        {"bot.toml": base["bot.toml"], "a": "1", "lib/c": "2"},
    ]
    digests = [digest(files, number) for number, files in enumerate(variants)]
    assert len(set(digests)) == len(variants)
    reordered = dict(reversed(base.items())) | {"__pycache__/a.pyc": "x", "lib/__pycache__/b": ""}
    assert digest(reordered, 99) == digests[0]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{tmp}/missing.py", "there is no bot"),
        ("", "there is no bot"),
        ("no\0such", "there is no bot"),
        ("{tmp}/notes.txt", "not a Python file"),
        ("{tmp}/broken.py", "line 2: "),
        ("{tmp}/binary.py", "not valid Python"),
        ("{tmp}/empty", "has no bot.toml"),
        ("{tmp}/bad_toml", "not valid TOML"),
        ("{tmp}/bad_key", "unknown key 'comand'"),
        ("{tmp}/no_command", "command is"),
        ("{tmp}/empty_command", "command is"),
        ("{tmp}/number_command", "command is"),
        ("{tmp}/blank_name", "name is"),
        ("cmd:", "needs a command line"),
        ("cmd:python 'unclosed", "not a command line"),
        ("cmd:''", "needs a command line"),
    ],
)
def test_what_is_no_bot_is_refused_in_one_line(tmp_path: Path, text: str, why: str) -> None:
    write(tmp_path / "notes.txt")
    write(tmp_path / "broken.py", "x = 1\ndef (:\n")
    (tmp_path / "binary.py").write_bytes(b"\0\1\2")
    (tmp_path / "empty").mkdir()
    write(tmp_path / "bad_toml/bot.toml", "command = ")
    write(tmp_path / "bad_key/bot.toml", 'comand = "x"')
    write(tmp_path / "no_command/bot.toml", 'name = "x"')
    write(tmp_path / "empty_command/bot.toml", "command = []")
    write(tmp_path / "number_command/bot.toml", "command = 7")
    write(tmp_path / "blank_name/bot.toml", 'command = "x"\nname = " \\n"')
    with pytest.raises(UserError) as caught:
        resolve(text.replace("{tmp}", str(tmp_path)))
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_misspelt_sample_is_guessed() -> None:
    with pytest.raises(UserError, match="did you mean 'greedy'"):
        resolve("gredy")


def test_samples_have_names() -> None:
    samples = sample_bots()
    assert set(samples) >= {"random", "cautious", "greedy"}
    for name, path in samples.items():
        bot = resolve(name)
        assert bot.name == name
        assert bot.command == (sys.executable, str(path.resolve()))


def test_a_file_goes_before_a_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "greedy" / "bot.toml", 'command = "./mine"')
    monkeypatch.chdir(tmp_path)
    assert resolve("greedy").command == ("./mine",)


def test_names_are_safe_to_print(tmp_path: Path) -> None:
    write(tmp_path / "x" / "bot.toml", 'command = "x"\nname = "\\u001b[31mred\\u202e\\nline %s"')
    assert resolve(str(tmp_path / "x")).name == "[31mred line %s"
    write(tmp_path / "x" / "bot.toml", f'command = "x"\nname = "{"y" * 500}"')
    assert len(resolve(str(tmp_path / "x")).name) == 40


@pytest.mark.parametrize(
    ("given", "unique"),
    [
        (["a", "b"], ["a", "b"]),
        (["a", "a", "a"], ["a", "a 2", "a 3"]),
        (["a", "a", "a 2"], ["a", "a 3", "a 2"]),
        (["a 2", "a", "a"], ["a 2", "a", "a 3"]),
    ],
)
def test_the_same_bot_twice_gets_a_number(given: list[str], unique: list[str]) -> None:
    bots = [BotSpec(name, ("x",), None, "00") for name in given]
    assert [bot.name for bot in with_unique_names(bots)] == unique

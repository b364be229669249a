"""A new bot's folder plays at once, and nothing that is there is touched."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from deepsea_bundle.errors import BundleError
from deepsea_referee.bots.loading import load
from deepsea_referee.bots.resolve import resolve
from deepsea_referee.errors import UserError
from deepsea_referee.workbench.scaffold import Template, create
from deepsea_sdk.table import play
from helpers.programs import HEAD
from helpers.tiers import daily

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("name", "class_name"),
    [
        ("mine", "Mine"),
        ("my-bot_2", "MyBot2"),
        ("7.up", "Bot7Up"),
        ("bot", "BotBot"),
        ("none", "NoneBot"),
    ],
)
def test_the_bot_is_one(tmp_path: Path, name: str, class_name: str) -> None:
    files = create(str(tmp_path / name))
    assert sorted(file.name for file in files) == ["bot.py", "bot.toml", "test_bot.py"]
    assert sorted((tmp_path / name).iterdir()) == sorted(files)
    spec = resolve(str(tmp_path / name))
    assert spec.name == name
    bot = load(spec)
    assert isinstance(bot, type)
    assert bot.__name__ == class_name
    assert all(decision.fault is None for decision in play([bot, bot, bot]).decisions)


def test_a_bot_in_javascript_is_that_of_the_protocols_page(tmp_path: Path) -> None:
    files = create(str(tmp_path / "My-Bot"), "node")
    assert [file.name for file in files] == ["bot.js", "bot.toml", "package.json", "play.proto"]
    page = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```js\n// node_bot/bot.js\n(.*?)^```$", page, re.M | re.S)
    assert (tmp_path / "My-Bot" / "bot.js").read_text(encoding="utf-8") == block
    proto = ROOT / "proto" / "deepsea" / "play" / "v1" / "play.proto"
    assert (tmp_path / "My-Bot" / "play.proto").read_bytes() == proto.read_bytes()
    packages = json.loads((tmp_path / "My-Bot" / "package.json").read_text(encoding="utf-8"))
    assert set(packages["dependencies"]) == set(re.findall(r'require\("(.*?)"\)', block))
    bot = resolve(str(tmp_path / "My-Bot"))
    assert (bot.name, bot.command) == ("My-Bot", ("node", "bot.js"))


@pytest.mark.parametrize("template", daily(["simple", "search"], ["simple"]))
def test_its_test_passes(tmp_path: Path, template: Template) -> None:
    create(str(tmp_path / "mine"), template=template)
    file = tmp_path / "mine" / "test_bot.py"
    text = file.read_text(encoding="utf-8").replace("trials = 10", "trials = 2")
    fewer = text.replace("range(2, 7)", "(4,)").replace("range(20)", "range(5)")
    file.write_text(fewer, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "unittest", "-q"],
        cwd=tmp_path / "mine",
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Ran 3 tests" in done.stderr


@pytest.mark.parametrize("template", get_args(Template))
def test_its_code_is_clean(tmp_path: Path, template: Template) -> None:
    for file in create(str(tmp_path / "mine"), template=template):
        lines = file.read_text(encoding="utf-8").splitlines()
        assert max(map(len, lines)) <= 100


@pytest.mark.parametrize("template", get_args(Template))
def test_its_first_lines_name_the_page_of_methods_and_views(
    tmp_path: Path, template: Template
) -> None:
    create(str(tmp_path / "mine"), template=template)
    module = ast.parse((tmp_path / "mine" / "bot.py").read_text(encoding="utf-8"))
    assert "one page: sdk/README.md in the project" in (ast.get_docstring(module) or "")


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "bot.py").write_text(HEAD, encoding="utf-8")
    (tmp_path / "file").write_text("", encoding="utf-8")
    for name in ("mine", "file"):
        with pytest.raises(UserError, match="exists already"):
            create(str(tmp_path / name))
    assert [file.name for file in (tmp_path / "mine").iterdir()] == ["bot.py"]
    assert (tmp_path / "mine" / "bot.py").read_text(encoding="utf-8") == HEAD


@pytest.mark.parametrize("name", ["", ".", "..", "_a", "a b", "a-v2", "x" * 41, "bücher"])
def test_names_that_cannot_be(tmp_path: Path, name: str) -> None:
    with pytest.raises((BundleError, UserError), match=r"the bot's name|exists already"):
        create(f"{tmp_path}/{name}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["greedy", "random", "Steady"])
def test_the_name_of_a_sample_bot_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BundleError, match=f"name {name} is that of a sample bot: choose another"):
        create(f"{tmp_path}/{name}")
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_not_taken_for_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"makes a folder, not a file: write .*mine"):
        create(f"{tmp_path}/mine.py")


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(UserError, match="cannot be created"):
        create(str(tmp_path / "file" / "mine"))

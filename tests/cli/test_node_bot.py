"""The whole bot in Node.js of docs/protocol.md plays in the sandbox, as its page says.

The packages that it needs are in the folder that DEEPSEA_NODE_MODULES names (`.ci/run` installs
them there), or in node_modules at the root of the repository.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from helpers.commands import environment, program

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
MODULES = Path(os.environ.get("DEEPSEA_NODE_MODULES", ROOT / "node_modules"))

pytestmark = [
    pytest.mark.slow,
    # Where CI says that they are there, a missing one is a failure.
    pytest.mark.skipif(
        not MODULES.is_dir() and not {"CI", "DEEPSEA_NODE_MODULES"} & os.environ.keys(),
        reason="npm install --no-save @grpc/grpc-js @grpc/proto-loader",
    ),
]


def block(name: str) -> str:
    """The block of the page whose first line names this file."""
    (text,) = re.findall(rf"^```\w+\n((?://|#) {re.escape(name)}\n.*?)^```$", PAGE, re.M | re.S)
    return str(text)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What a reader has before the commands: the repository's proto and the bot's two files."""
    (tmp_path / "proto").symlink_to(ROOT / "proto")
    (tmp_path / "node_bot").mkdir()
    shutil.copytree(MODULES, tmp_path / "node_bot" / "node_modules", symlinks=True)
    for name in ("node_bot/bot.js", "node_bot/bot.toml"):
        (tmp_path / name).write_text(block(name), encoding="utf-8")
    blocks = re.findall(r"^```shell\n(.*?)^```$", PAGE, re.M | re.S)
    (commands,) = [text for text in blocks if "npm install" in text]
    copy, install, match = commands.splitlines()
    subprocess.run(copy.split(), cwd=tmp_path, check=True)
    assert install.startswith("npm install ")
    assert match == "deepsea-referee match node_bot random --games 3"
    return tmp_path


# In a plain process before a release: there it plays on after a fault, below.
@pytest.mark.parametrize(
    "isolation", ["sandbox", pytest.param("process", marks=pytest.mark.release)]
)
def test_the_bot_of_the_page_plays(folder: Path, isolation: str) -> None:
    results = played(folder, isolation, "--tables", "3")
    assert (results["isolation"].split()[0], results["bots"][0]["games"]) == (isolation, 3)
    assert results["bots"][0]["decisions"] > 20
    assert [bot["faults"] for bot in results["bots"]] == [0, 0]


def test_what_it_raises_is_a_fault_with_its_stack_and_its_notes_are_kept(folder: Path) -> None:
    bot = folder / "node_bot" / "bot.js"
    text = bot.read_text(encoding="utf-8")
    broken = text.replace(
        "const { cargo, space }", "if (Number(id) === 3) null.x; const { cargo, space }"
    )
    broken = broken.replace("function decide(seat, {", "function decide(seat, { request_id: id,")
    assert broken.count("request_id: id") == broken.count("null.x") == 1
    before = "action: decide(seats.get(request.game_id), request) }"
    noted = "note: { text: request.kind, numbers: [{ name: 'air', value: request.view.air }] }"
    assert broken.count(before) == 1
    bot.write_text(broken.replace(before, f"{before[:-2]}, {noted} }}"), encoding="utf-8")
    results = played(folder, "process")
    notes = json.loads((folder / "kept" / "notes-0001.json").read_text(encoding="utf-8"))
    assert {note["seat"] for note in notes} == {0}
    assert notes[0]["text"].startswith("DECISION_KIND_")
    assert 0 < notes[0]["numbers"]["air"] <= 25
    faults = [fault for game in results["games"] for fault in game["faults"]]
    assert [fault["fault"] for fault in faults] == ["exception"]
    assert faults[0]["came"].startswith("it raised TypeError: Cannot read properties of null")
    assert "at decide (" in faults[0]["error"]
    assert results["bots"][0]["forfeits"] == 0


def test_a_new_bot_plays_after_what_is_printed(folder: Path) -> None:
    printed = ran(folder, "new", "fresh", "--language", "node")
    assert "\n  npm install --prefix fresh\n" in printed
    shutil.copytree(MODULES, folder / "fresh" / "node_modules", symlinks=True)
    results = played(folder, "sandbox", bot="fresh")
    assert results["bots"][0]["name"] == "fresh"
    assert [bot["faults"] for bot in results["bots"]] == [0, 0]


def ran(folder: Path, *words: str) -> str:
    """The output of a command that is run in the folder."""
    done = subprocess.run(
        program(*words), cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def played(folder: Path, isolation: str, *options: str, bot: str = "node_bot") -> dict[str, Any]:
    """The results of the page's match."""
    words = ["match", bot, "random", "--games", "3", "--seed", "node", "--out", "out"]
    ran(folder, *words, "--isolation", isolation, "--clock", "60s", *options)
    results = json.loads((folder / "out" / "results.json").read_text(encoding="utf-8"))
    (folder / "out").replace(folder / "kept")
    return dict(results)

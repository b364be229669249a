"""The bots of docs/protocol.md that speak lines play as they stand there, and a new one is one."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from deepsea_bundle.reader import read_bot
from helpers.commands import Run
from helpers.tools import TOOLS, require

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## Lines instead of gRPC\n")[2].partition("\n## ")[0]
BLOCKS = dict(re.findall(r"^```\w+\n(?:#|//) (\w+_bot/\S+)\n(.*?)^```$", SECTION, re.M | re.S))
BOTS = sorted({name.partition("/")[0] for name in BLOCKS})
SEATED = ("--clock", "60s", "--seed", "lines")

MISTAKEN = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "hello":
        print('{"type":"ready","features":["no_events"]}', flush=True)
    elif message["type"] == "decide":
        assert message["events"] == []
        print("I think about it", flush=True)
"""


def folder_of(bot: str, place: Path) -> Path:
    """A bot of the page as a folder; skips if its interpreter is not here."""
    program = tomllib.loads(BLOCKS[f"{bot}/bot.toml"])["command"].split()[0]
    if program in TOOLS:
        require(program)
    for name, text in BLOCKS.items():
        if name.startswith(f"{bot}/"):
            (place / name).parent.mkdir(exist_ok=True)
            (place / name).write_text(text, encoding="utf-8")
    return place / bot


def test_the_page_has_bots_in_four_languages_of_ten_lines() -> None:
    assert BOTS == ["awk_bot", "bash_bot", "node_lines_bot", "perl_bot"]
    for name, text in BLOCKS.items():
        lines = [line for line in text.splitlines() if not line.startswith(("#", "//"))]
        assert len(lines) <= 12, name


@pytest.mark.parametrize("bot", BOTS)
def test_a_bot_of_the_page_plays_without_a_fault(run: Run, tmp_path: Path, bot: str) -> None:
    folder, out = folder_of(bot, tmp_path), tmp_path / "out"
    preset = ("manual", "publisher")[BOTS.index(bot) % 2]
    match = ("match", folder, folder, "--games", 2, "--rules", preset, "--out", out, *SEATED)
    assert run(*match).status == 0
    results = json.loads((out / "results.json").read_text(encoding="utf-8"))
    assert [seat["faults"] for seat in results["bots"]] == [0, 0]
    assert sum(sum(game["points"]) for game in results["games"]) > 0


def test_a_bot_may_open_its_streams_by_their_names(run: Run, tmp_path: Path) -> None:
    folder = folder_of("bash_bot", tmp_path)
    program = folder / "bot.sh"
    text = program.read_text(encoding="utf-8").replace("echo ", "echo > /dev/stdout ")
    text = text.replace("\ndone\n", "\n  echo read > /dev/stderr\ndone < /dev/stdin\n")
    assert text.count("/dev/") == 4
    program.write_text(text, encoding="utf-8")
    out = tmp_path / "out"
    assert run("match", folder, "random", "--out", out, *SEATED).status == 0
    results = json.loads((out / "results.json").read_text(encoding="utf-8"))
    assert results["bots"][0]["faults"] == 0
    (log,) = out.rglob("bot-1-start-1.log")
    assert set(log.read_text(encoding="utf-8").split("\n")) == {"read", ""}


@pytest.mark.parametrize(("language", "bot"), [("bash", "bash_bot"), ("perl", "perl_bot")])
def test_a_new_bot_is_that_of_the_page(run: Run, tmp_path: Path, language: str, bot: str) -> None:
    shown = read_bot(folder_of(bot, tmp_path))
    assert run("new", tmp_path / "fresh", "--language", language).status == 0
    fresh = read_bot(tmp_path / "fresh")
    assert (fresh.name, fresh.command, fresh.protocol) == ("fresh", shown.command, "lines")
    (program,) = fresh.files.keys() - {"bot.toml"}
    assert fresh.files[program] == shown.files[program]


def test_what_it_writes_wrongly_is_in_the_results_and_beside_its_stderr(
    run: Run, tmp_path: Path
) -> None:
    folder = tmp_path / "mistaken"
    folder.mkdir()
    (folder / "bot.py").write_text(MISTAKEN, encoding="utf-8")
    (folder / "bot.toml").write_text('command = "python3 bot.py"\nprotocol = "lines"\n')
    out = tmp_path / "out"
    done = run("match", folder, "random", "--out", out, "--isolation", "process", *SEATED)
    assert done.status == 0
    results = json.loads((out / "results.json").read_text(encoding="utf-8"))
    ((fault,),) = [game["faults"] for game in results["games"]]
    assert (fault["fault"], fault["forfeit"]) == ("protocol_error", True)
    assert fault["came"] == "it wrote 'I think about it', which is not JSON"
    (log,) = out.rglob("bot-1-start-1.log")
    assert f"deepsea-referee: {fault['came']}" in log.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["match", "BOT", "random", "--in-process"], "is not one Python file"),
        (
            ["match", "BOT,depth=3", "random"],
            "parameters (depth=3) are for Python bots with the SDK",
        ),
        (["match", "BOT", "random"], "bot 'bot': it wrote 'hello', which is not JSON\n"),
    ],
)
def test_what_it_cannot_do_is_one_line(
    run: Run, tmp_path: Path, words: list[str], what: str
) -> None:
    folder = tmp_path / "bot"
    folder.mkdir()
    (folder / "bot.py").write_text("print('hello', flush=True)\nwhile True: pass\n")
    (folder / "bot.toml").write_text('command = "python3 bot.py"\nprotocol = "lines"\n')
    done = run(*[word.replace("BOT", str(folder)) for word in words])
    assert done.status == 2
    assert what in done.err

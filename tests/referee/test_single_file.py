"""A bot of a single file sees that file alone, in every isolation, and learns so beforehand."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from deepsea_bundle.errors import BundleError
from deepsea_referee import in_process
from deepsea_referee.bots.process import Hosting
from deepsea_referee.bots.resolve import bundle_for_ladder, resolve
from deepsea_referee.match import MatchSettings, play_match
from deepsea_referee.sandbox.interface import IsolationLevel
from deepsea_referee.sandbox.probe import choose
from deepsea_referee.summary import MatchResult
from deepsea_rules.time_control import TimeControl
from helpers.programs import opponent

LOOKS_AROUND = """
import os
from deepsea_sdk import Bot, run

class Looks(Bot):
    def search(self, view):
        here = os.path.dirname(os.path.abspath(__file__))
        assert not os.path.exists(os.path.join(here, "wei" + "ghts.json")), "data"
        assert sorted(os.listdir(here)) == ["bot.py", "bot.toml"], os.listdir(here)
        try:
            __import__("hel" + "per")
        except ModuleNotFoundError:
            return "leave"
        raise AssertionError("helper")

if __name__ == "__main__":
    run(Looks)
"""


def beside(folder: Path) -> None:
    """What a bot might like to use."""
    (folder / "helper.py").write_text("x = 1\n")
    (folder / "package").mkdir()
    (folder / "package" / "module.py").write_text("")
    (folder / "random.py").write_text("raise SystemExit\n")
    (folder / "weights.json").write_text("{}")


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("import helper\n", "the module 'helper'"),
        ("from helper import x\n", "the module 'helper'"),
        ("import os, package.module\n", "the module 'package.module'"),
        ("def later():\n    import helper\n", "the module 'helper'"),
        ("open('weights.json')\n", "the file 'weights.json'"),
        ("open(f'{__file__}/../weights.json')\nhere = './weights.json'\n", "the file './weights"),
        ("x = f'{__file__}/weights.json'\n", "the file '/weights.json'"),
    ],
)
def test_a_file_that_uses_what_lies_beside_it_is_refused_everywhere(
    tmp_path: Path, source: str, what: str
) -> None:
    beside(tmp_path)
    file = tmp_path / "bot.py"
    file.write_text(source)
    for read in (resolve, bundle_for_ladder):
        with pytest.raises(BundleError) as refused:
            read(str(file))
        assert f"it uses {what}" in str(refused.value)
        assert "only bot.py is visible in the sandbox: make a folder with bot.toml" in str(
            refused.value
        )


@pytest.mark.parametrize(
    "source",
    [
        "import random\n",  # the standard library's: nothing beside it comes first
        "import deepsea_sdk\n",
        "x = 'bot.py'\ny = 'weights'\nz = 'other.json'\nw = 'see weights.json'\n",
        "from . import helper\n",
    ],
)
def test_a_file_that_uses_nothing_of_the_kind_is_taken(tmp_path: Path, source: str) -> None:
    beside(tmp_path)
    (tmp_path / "bot.py").write_text(source)
    assert resolve(str(tmp_path / "bot.py")).digest


def played(file: Path, isolation: IsolationLevel | None) -> MatchResult:
    settings = MatchSettings(
        bots=[resolve(str(file)), opponent(file.parent) if isolation else resolve("random")],
        hosting=Hosting(choose(isolation or "process"), start_limit_us=60_000_000),
        games=1,
        time_control=TimeControl.parse("60s"),
    )
    return (
        asyncio.run(play_match(settings))
        if isolation
        else in_process.run_match_in_process(settings)
    )


@pytest.mark.parametrize("isolation", ["sandbox", "process", None])
def test_what_it_computes_is_not_there_in_any_isolation(
    tmp_path: Path, isolation: IsolationLevel | None
) -> None:
    beside(tmp_path)
    (tmp_path / "looks.py").write_text(LOOKS_AROUND)
    assert played(tmp_path / "looks.py", isolation).fault_lines() == []

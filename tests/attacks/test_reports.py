"""`match greedy cautious cmd:HOSTILE` for every hostile bot: a clear report, a good record.

Everything is real here: the command line, processes in sandboxes, and files. A hostile bot is one
file that holds its program and the guard. Every attack is made in the other modules of this folder,
where more is looked at; a report differs by the kind of fault alone, so that one bot for each kind
has to do, several in a match.
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from attacks import guard, raw
from attacks.harness import PROGRAMS
from attacks.matches import CANARY_VARIABLE
from deepsea_rules.faults import Fault
from deepsea_rules.game import GameRecord, verify
from helpers.commands import Run

CLOCK = "300ms+500ms"
CRASH, TIMEOUT, REFUSED = Fault.CRASH, Fault.TIMEOUT, Fault.PROTOCOL_ERROR
ILLEGAL, LIMIT = Fault.ILLEGAL_ACTION, Fault.RESOURCE_LIMIT
# The bot, and one of which faults it is reported with; none: it plays to the end.
BOTS: dict[str, set[Fault]] = {
    "p04_uninvited stale": {REFUSED},
    "p08_actions escapes": {ILLEGAL},
    "p08_errors escapes": {Fault.EXCEPTION},
    "p18_endings kill": {CRASH},
    "t01_time sleeps": {TIMEOUT},
    "s00_as_bot s11_strange_output": set(),
    "s00_as_bot s03_memory_bomb private": {LIMIT, TIMEOUT},
}
MAY_PLAY_ON = "s00_as_bot s03"
"""Whether it loses anything depends on how long the attack takes."""
CASES = [list(BOTS)[:4], list(BOTS)[4:]]


def in_one_file(folder: Path, program: str) -> Path:
    """A hostile program and all that it needs in one file that Python runs."""
    file = folder / "hostile.pyz"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("attacks/__init__.py", "")
        for module in (guard, raw):
            path = Path(str(module.__file__))
            archive.write(path, f"attacks/{path.name}")
        archive.write(PROGRAMS / f"{program}.py", "__main__.py")
        for other in PROGRAMS.glob("*.py"):
            archive.write(other, other.name)
    file.chmod(0o644)
    return file


def referee(*arguments: str, canary: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command line as a program of its own."""
    return subprocess.run(
        [sys.executable, "-m", "deepsea_cli", *arguments],
        env={**os.environ, CANARY_VARIABLE: canary, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def faults_of(bot: int, results: dict[str, Any]) -> set[str]:
    """The faults that were counted for one bot of the match."""
    return {
        report["fault"]
        for game in results["games"]
        for report in game["faults"]
        if game["seats"][report["seat"]] == bot
    }


def hostile(case: str, folder: Path) -> str:
    """A hostile bot as an argument of `match`."""
    folder.mkdir()
    program, *arguments = case.split()
    told = f"{guard.HOST_VARIABLE}={json.dumps(guard.namespaces())}"
    file = in_one_file(folder, program)
    return "cmd:" + shlex.join(["env", told, sys.executable, str(file), *arguments])


@pytest.mark.parametrize("cases", CASES, ids=map(str, CASES))
def test_a_match_with_hostile_bots_ends_with_a_clear_report(
    verified: None, run: Run, tmp_path: Path, cases: list[str]
) -> None:
    out, canary = tmp_path / "out", f"canary-{secrets.token_hex(16)}"
    done = referee(
        "match",
        "greedy",
        "cautious",
        *(hostile(case, tmp_path / f"bot{number}") for number, case in enumerate(cases)),
        *("--isolation", "sandbox", "--clock", CLOCK, "--seed", "attacks", "--out", str(out)),
        canary=canary,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    for name in ("greedy", "cautious", "hostile"):
        assert name in done.stdout
    results = json.loads((out / "results.json").read_text())
    assert results["void"] == []
    assert faults_of(0, results) == faults_of(1, results) == set()
    for number, case in enumerate(cases, 2):
        found = faults_of(number, results)
        expected = BOTS[case]
        if not case.startswith(MAY_PLAY_ON):
            assert bool(found) == bool(expected)
        assert found <= {str(fault) for fault in expected} | ({"timeout"} if found else set())
        for fault in found:
            assert fault in done.stdout
    (record_file,) = out.glob("game-*.json")
    assert run("verify", record_file).status == 0
    record = GameRecord.from_json(record_file.read_text())
    verify(record)
    everything = done.stdout + done.stderr
    everything += "".join(path.read_text() for path in out.iterdir())
    assert canary not in everything
    assert not set(everything) & set("\x1b\x00\x08\x07\r")


def test_every_hostile_program_is_played() -> None:
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("*.py"))
    assert [path.stem for path in PROGRAMS.glob("*.py") if path.stem not in tests] == []

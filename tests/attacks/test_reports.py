"""`match greedy cautious cmd:HOSTILE` for every hostile bot: a clear report, a good record.

Everything is real here: the command line, processes in sandboxes, and files. A hostile bot is one
file that holds its program and the guard. Every attack is made in the other modules of this folder,
where more is looked at; a report differs by the kind of fault alone, so that one bot for each kind
has to do, several in a match, and the others are for a release.
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
from attacks.matches import CANARY_VARIABLE, HANDSHAKE
from deepsea_rules.faults import Fault
from deepsea_rules.record import GameRecord, verify
from helpers.commands import Run

CLOCK = "300ms+500ms"
CRASH, TIMEOUT, REFUSED = Fault.CRASH, Fault.TIMEOUT, Fault.PROTOCOL_ERROR
ILLEGAL, LIMIT, START = Fault.ILLEGAL_ACTION, Fault.RESOURCE_LIMIT, Fault.START_TIMEOUT
# The bot, and one of which faults it is reported with; none: it plays to the end.
QUICK: dict[str, set[Fault]] = {
    "p04_uninvited stale": {REFUSED},
    "p08_actions escapes": {ILLEGAL},
    "p08_errors escapes": {Fault.EXCEPTION},
    "p18_endings kill": {CRASH},
    "t01_time sleeps": {TIMEOUT},
    "s00_as_bot s11_strange_output": set(),
    "s00_as_bot s03_memory_bomb private": {LIMIT, TIMEOUT},
}
RELEASE: dict[str, set[Fault]] = {
    "p00_no_attack": set(),
    "p01_tokens": set(),
    "p02_second beside": set(),
    "p02_second after": {CRASH},
    "p04_uninvited twice": {REFUSED},
    "p08_actions long": {ILLEGAL},
    "p09_malformed nested": {REFUSED},
    "p09_unknown_fields": set(),
    "p10_large large later": {CRASH},
    "p10_large bomb later": {REFUSED},
    "p13_methods": set(),
    "p14_garbage": {TIMEOUT},
    "p14_left_open": set(),
    "p15_streams": set(),
    "p16_flood": {REFUSED},
    "p17_never_reads 0": {CRASH, TIMEOUT},
    "p18_endings half_close": {CRASH},
    "p18_endings reset_within_message": {CRASH},
    "p18_endings hang_up_within_frame": {CRASH},
    "p18_endings exit": {CRASH},
    "p21_frames ping": {CRASH},
    "p21_frames rapid_reset": {CRASH},
    "p26_features": set(),
    "t01_time never": {TIMEOUT},
    "t01_time spins": {TIMEOUT},
    "t01_time children": {TIMEOUT},
    "t01_time threads": {TIMEOUT},
    "t01_time drips": {TIMEOUT},
    "t01_time stops": {TIMEOUT},
    "t01_time late": {TIMEOUT},
    "t01_time drains": set(),
    "t05_ponders": set(),
    "t07_start never": {START},
    "s00_as_bot s01_fork_bomb": {TIMEOUT, CRASH},
    "s00_as_bot s02_thread_bomb": {TIMEOUT, CRASH},
    "s00_as_bot s04_memory_of_children": {LIMIT, TIMEOUT},
    "s00_as_bot s05_s06_hidden_memory": {TIMEOUT, CRASH},
    "s00_as_bot s07_s09_fill_disk": {TIMEOUT, CRASH, LIMIT},
    "s00_as_bot s08_inodes": {TIMEOUT, LIMIT, CRASH},
    "s00_as_bot s10_flood": {TIMEOUT, CRASH},
    "s00_as_bot s12_read_canaries": {TIMEOUT, CRASH},
    "s00_as_bot s14_other_processes": {TIMEOUT, CRASH},
    "s00_as_bot s15_signals 1": {TIMEOUT, CRASH},
    "s00_as_bot s16_network 1 nobody /tmp/nobody": {TIMEOUT, CRASH},
    "s00_as_bot s18_channel sender": {TIMEOUT, CRASH},
    "s00_as_bot s19_kernel": {TIMEOUT, CRASH},
    "s00_as_bot s20_s21_rights": {TIMEOUT, CRASH},
    "s00_as_bot s22_own_code": {TIMEOUT, CRASH},
    "s00_as_bot s23_hard_to_end ignore": {TIMEOUT, CRASH},
    "s00_as_bot s23_hard_to_end tree": {TIMEOUT, CRASH},
    "s00_as_bot s23_hard_to_end daemon": {CRASH},
    "s00_as_bot s28_abort": {CRASH},
    "s00_as_bot s36_placement": {TIMEOUT, CRASH},
    "s00_as_bot s30_s31_descriptors": {TIMEOUT, CRASH},
    "s00_as_bot s33_in_flight burner": {TIMEOUT, CRASH},
}
ELSEWHERE = {
    "p17_shuts",
    "p27_lines",
    "t14_starves",
    "t15_burners",
    "t16_burner",
    "t17_unseen",
    "t18_second_try",
    "t21_exits",
    "v01_victims",
}
"""Need bots beside them, frozen or not, a clock of their own, or lines: test_time.py, _burners.py,
_together.py and _protocol.py play them."""
MAY_PLAY_ON = ("drains", "p14_", "p21_", "s0", "s1", "s2", "s3")
"""Whether these lose anything depends on how long the attack takes, or on the kernel."""
OPEN = "p14_left_open"
TOGETHER = [list(QUICK)[:4], list(QUICK)[4:6], list(QUICK)[6:]]
CASES = [
    *(pytest.param(cases, id=", ".join(cases)) for cases in TOGETHER),
    *(pytest.param([case], id=case, marks=pytest.mark.release) for case in RELEASE if case != OPEN),
    pytest.param([OPEN], id=OPEN, marks=[pytest.mark.release, HANDSHAKE]),
]


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


@pytest.mark.parametrize("cases", CASES)
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
        expected = QUICK.get(case) or RELEASE.get(case) or set()
        if not any(sign in case for sign in MAY_PLAY_ON):
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
    played = {word for case in (*QUICK, *RELEASE) for word in case.split()}
    programs = {path.stem for path in PROGRAMS.glob("*.py")}
    assert programs - ELSEWHERE <= played
    assert programs >= ELSEWHERE

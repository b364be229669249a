"""The guard comes first: no hostile program runs where it could do harm."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from attacks import guard
from attacks.harness import PROGRAMS
from deepsea_referee.sandbox import probe
from deepsea_referee.sandbox.plain_process import PlainProcess

HARMLESS = "from attacks.guard import run\nrun(lambda: {'ran': True})\n"
# What a test would tell a program in a sandbox, with numbers that are nobody's.
FORGED = json.dumps(dict.fromkeys(guard.NAMESPACES, "pid:[1]"))


@pytest.fixture
def bot(tmp_path: Path) -> Path:
    """A program that does nothing but call the guard."""
    (tmp_path / "attacks").mkdir()
    (tmp_path / "attacks" / "guard.py").write_bytes(Path(guard.__file__).read_bytes())
    (tmp_path / "program.py").write_text(HARMLESS)
    return tmp_path


@pytest.mark.parametrize("told", [None, "", "{}", "nonsense", FORGED])
def test_it_refuses_on_the_host_whatever_it_is_told(bot: Path, told: str | None) -> None:
    environment = {} if told is None else {guard.HOST_VARIABLE: told}
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=bot,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == guard.REFUSED
    assert done.stdout == ""
    assert "refuses to run outside a sandbox" in done.stderr


def test_it_refuses_in_a_plain_process(bot: Path) -> None:
    told = {guard.HOST_VARIABLE: json.dumps(guard.namespaces())}
    outcome = probe.run(
        PlainProcess(), (sys.executable, "program.py"), folder=bot, environment=told
    )
    assert outcome.returncode == guard.REFUSED
    assert outcome.stdout == ""


def test_it_refuses_on_any_single_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    # This very process: told other numbers for all namespaces, it still finds the other signs.
    monkeypatch.setenv(guard.HOST_VARIABLE, FORGED)
    reasons = guard.reasons_to_refuse()
    assert "process 1 can be seen" in reasons
    assert "no system call filter" in reasons or "can gain rights" in reasons
    # And told the truth, the namespaces alone are enough.
    monkeypatch.setenv(guard.HOST_VARIABLE, json.dumps(guard.namespaces()))
    assert "the host's pid namespace" in guard.reasons_to_refuse()


@pytest.mark.parametrize("program", sorted(path.name for path in PROGRAMS.glob("*.py")))
def test_every_hostile_program_starts_with_the_guard(program: str) -> None:
    # Read, not run: before the guard there may be nothing but definitions.
    defining = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.Assign, ast.AnnAssign)
    _docstring, *statements = ast.parse((PROGRAMS / program).read_text()).body
    first = next(one for one in statements if not isinstance(one, defining))
    assert ast.unparse(first) in ("insist()", "run(attack)")

"""A run of the tests that stands still ends, and prints where, whatever it stands in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
STILL = """
import threading
import pytest

def stands_still():
    threading.Event().wait()
"""
A_TEST = """
def test_it():
    stands_still()
"""
A_FIXTURE = """
@pytest.fixture
def never_ends():
    yield
    stands_still()

def test_it(never_ends):
    assert False
"""
THE_END = """
def test_it():
    threading.Thread(target=stands_still).start()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "options"),
    [
        pytest.param(A_FIXTURE, [], id="a fixture after a test that failed"),
        # Each waits two seconds for a limit of its own.
        *(
            pytest.param(code, options, id=name, marks=pytest.mark.release)
            for name, code, options in (
                ("an import", "stands_still()", []),
                ("a worker's test", A_TEST, ["--numprocesses=1", "--max-worker-restart=0"]),
                ("the end of the run", THE_END, []),
            )
        ),
    ],
)
def test_it_ends_and_prints_where(
    code: str, options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    file = tmp_path / "test_still.py"
    file.write_text(STILL + code, encoding="utf-8")
    pytest_here = [sys.executable, "-m", "pytest", "-c", str(TESTS.parent / "pyproject.toml")]
    ours = ["-p", "conftest", "-p", "no:cacheprovider", "-o", "faulthandler_timeout=2"]
    done = subprocess.run(
        [*pytest_here, *ours, *options, str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "Timeout" in done.stderr
    assert "in stands_still" in done.stderr

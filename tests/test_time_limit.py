"""A run of the tests that stands still ends, and prints where, whatever it stands in."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import pytest

from helpers import in_loop

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


@asynccontextmanager
async def never_closes() -> AsyncIterator[None]:
    try:
        yield
    finally:
        await asyncio.Event().wait()  # the last client


async def waits() -> None:
    await asyncio.Event().wait()  # an answer


async def fails() -> None:
    async with never_closes():
        raise AssertionError("another answer")


@pytest.fixture
def idle_machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine on which a test has waited for as long as it may after ten looks at it."""
    seconds = count()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    monkeypatch.setattr(in_loop, "idle_seconds", lambda: float(next(seconds)))
    monkeypatch.setattr(in_loop, "PULSE_S", 0.001)
    monkeypatch.setattr(in_loop, "IDLE_S", 0.0095)
    monkeypatch.setattr(in_loop, "errors", nowhere)
    yield
    os.close(nowhere)


def test_a_test_of_an_event_loop_that_hangs_says_where(idle_machine: None) -> None:
    with pytest.raises(in_loop.StandsStill, match=r"(?s)in waits\n.*# an answer"):
        in_loop.run(waits())


def test_a_failed_test_whose_end_hangs_says_what_failed(idle_machine: None) -> None:
    with pytest.raises(in_loop.StandsStill, match="async with never_closes") as failed:
        in_loop.run(fails())
    cancelled = failed.value.__cause__
    assert cancelled is not None
    assert str(cancelled.__context__) == "another answer"


def test_a_long_test_says_on_the_terminal_where_it_waits_and_goes_on(
    idle_machine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = os.pipe()
    monkeypatch.setattr(in_loop, "errors", writing)

    async def waits_for_the_word() -> bytes:
        return await asyncio.to_thread(os.read, reading, 100_000)

    said = in_loop.run(waits_for_the_word(), is_long=True).decode()
    assert "test_a_long_test_says_on_the_terminal" in said
    assert "in waits_for_the_word" in said
    os.close(reading)
    os.close(writing)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says how long its CPUs had no work")
def test_a_hanging_test_fails_within_twenty_seconds_on_an_idle_machine() -> None:
    assert in_loop.IDLE_S + 2 * in_loop.PULSE_S < 20
    assert in_loop.idle_seconds() > 0

"""Tests say which programs they need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from helpers import tools


def test_a_test_that_starts_a_tool_without_saying_so_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "_tools_by_path", lambda: {sys.executable: "nginx"})
    subprocess.run([sys.executable, "-c", ""], check=True)
    with pytest.raises(AssertionError, match=r"starts nginx is marked with pytest\.mark\.needs"):
        tools.check_test()
    monkeypatch.setattr(tools, "path_of", lambda name: name)
    tools.require("nginx")
    tools.check_test()


def test_a_missing_tool_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(pytest.skip.Exception, match=r"no wget here \(apt-get install wget\)"):
        tools.require("wget")


def test_tests_that_start_processes_are_written_down(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(tools.STARTING, str(tmp_path / "names"))
    with tools.watched_test("tests/test_one.py::test_it"):
        subprocess.run([sys.executable, "-c", ""], check=True)
    with tools.watched_test("tests/test_two.py::test_it"):
        pass
    assert (tmp_path / "names").read_text() == "tests/test_one.py::test_it\n"

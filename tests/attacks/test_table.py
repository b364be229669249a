"""The tables of attacks in the docs are whole, and the tests that they name exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "dev" / "attacks.md").read_text(encoding="utf-8")


def rows(letter: str) -> dict[str, str]:
    """The last column of each row of a list, by its case."""
    found = re.findall(rf"^\| ({letter}\d+) \|.*\| (.*) \|$", PAGE, re.M)
    assert len(found) == len(dict(found))
    return dict(found)


@pytest.mark.parametrize(("letter", "last"), [("S", 37), ("T", 26), ("A", 18), ("W", 19), ("R", 6)])
def test_every_case_is_in_its_table(letter: str, last: int) -> None:
    assert list(rows(letter)) == [f"{letter}{number}" for number in range(1, last + 1)]


@pytest.mark.parametrize(
    ("letter", "usual"),
    [
        ("S", "tests/attacks/test_sandbox.py"),
        ("A", ""),
        ("W", ""),
        ("R", "tests/ladder/test_store_submissions.py"),
    ],
)
def test_every_test_of_the_table_exists(letter: str, usual: str) -> None:
    for case, cell in rows(letter).items():
        for part in cell.split(";"):
            file = usual
            for word in reversed(re.findall(r"`([^`]+)`", part)):
                if word.endswith(".py"):
                    file = word  # of the tests that are named before it
                else:
                    assert f"def {word}(" in (ROOT / file).read_text(encoding="utf-8"), case

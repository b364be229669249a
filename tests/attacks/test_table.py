"""The table of attacks in the docs is whole, and the tests that it names exist."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
PAGE = (TESTS.parent / "docs" / "dev" / "attacks.md").read_text(encoding="utf-8")


def rows() -> dict[str, str]:
    """The last column of each row of list S, by its case."""
    found = re.findall(r"^\| (S\d+) \|.*\| (.*) \|$", PAGE, re.M)
    assert len(found) == len(dict(found))
    return dict(found)


def test_every_case_of_the_sandbox_is_in_the_table() -> None:
    assert list(rows()) == [f"S{number}" for number in range(1, 37)]


def test_every_test_of_the_table_exists() -> None:
    for case, cell in rows().items():
        name, *file = re.findall(r"`([^`]+)`", cell)
        path = TESTS.parent / file[0] if file else TESTS / "attacks" / "test_sandbox.py"
        assert f"def {name}(" in path.read_text(encoding="utf-8"), case

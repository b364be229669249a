"""CSV is for spreadsheets, and strangers write some of its cells."""

from __future__ import annotations

import pytest

from deepsea_arena.wire.csv import csv_lines

ROW = {"bot": "=HYPERLINK(1)", "change": -1.5, "none": None, "new": True}


def test_a_cell_that_a_spreadsheet_would_run_is_a_text() -> None:
    assert [*csv_lines([ROW])] == ["bot,change,none,new\r\n", "'=HYPERLINK(1),-1.5,,true\r\n"]


@pytest.mark.parametrize("first", [*"=+-@\t\r\n ", *"\uff1d\uff0b\uff0d\uff20"])
def test_whatever_a_cell_begins_with_it_is_no_formula(first: str) -> None:
    """Spreadsheets may pass over white space, and read wide signs like others."""
    _, line = csv_lines([{"name": f"{first}1+1"}])
    assert line.strip('"\r\n') == f"'{first}1+1"


@pytest.mark.parametrize("rows", [[], [ROW]])
def test_the_columns_that_are_named_are_there_without_rows_too(rows: list[object]) -> None:
    lines = [*csv_lines([ROW] if rows else [], ("new", "change"))]
    assert lines == ["new,change\r\n", "true,-1.5\r\n"][: 1 + len(rows)]

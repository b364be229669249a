"""CSV of what the arena returns, the same for the command line and web pages.

Invariants: numbers are not rounded; a cell that a spreadsheet would run as a formula is marked as
text; a line ends in CR and LF.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from deepsea_arena.wire.json import Json, to_json

_FORMULA: Final = tuple("=+-@\t\r\n \uff1d\uff0b\uff0d\uff20")


def csv_lines(
    rows: Iterable[Mapping[str, object]], columns: Sequence[str] | None = None
) -> Iterator[str]:
    """The names of the columns, by default those of the first row, and a line for each row."""
    if columns is not None:
        yield _line(columns)
    for row in rows:
        if columns is None:
            columns = list(row)
            yield _line(columns)
        yield _line([_cell(to_json(row[column])) for column in columns])


def _line(cells: Sequence[object]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerow(cells)
    return text.getvalue()


def _cell(value: Json) -> object:
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str | int | float | None) else json.dumps(value)

"""The terminal, the page, CSV and the docs draw the columns that a report declares, all of them."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from html import unescape
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec import Struct

from deepsea_arena import standings, status
from deepsea_arena.documents import TableColumn
from deepsea_arena.status import AuthorOverview
from deepsea_ladder.standings import StandingLine
from deepsea_web.site import words
from helpers.commands import Run
from helpers.world import World

DOCS = Path(__file__).parents[2] / "docs"


class Table(NamedTuple):
    """A table, and where it is drawn."""

    columns: Sequence[TableColumn]
    line: type[Struct]
    command: str
    path: str
    label: str
    """Of the table on the page."""
    docs: str
    section: str


TABLES = {
    "standings": Table(
        standings.COLUMNS, StandingLine, "standings", "/", "Standings", "rating.md", "Standings"
    ),
    "overview": Table(
        status.OVERVIEW_COLUMNS,
        AuthorOverview,
        "overview",
        "/admin",
        "authors",
        "ladder.md",
        "overview",
    ),
}
EACH = pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)


@EACH
def test_every_field_of_a_line_is_in_a_column_and_no_column_has_another(table: Table) -> None:
    fields = [field for column in table.columns for field in fields_of(column)]
    assert len(fields) == len(set(fields))
    missing = set(table.line.__struct_fields__) - set(fields)
    assert not missing, f"{table.line.__name__}: no column of COLUMNS has {missing}"
    assert set(fields) <= set(table.line.__struct_fields__)


@EACH
def test_the_docs_have_each_column_with_its_fields_and_its_meaning(table: Table) -> None:
    page = (DOCS / table.docs).read_text(encoding="utf-8")
    section = re.search(rf"^## {table.section}\n(.*?)(?=^## |\Z)", page, re.M | re.S)
    assert section is not None
    assert all(column.meaning for column in table.columns)
    for column in table.columns:
        fields = ", ".join(f"`{field}`" for field in fields_of(column))
        row = f"| {column.head} | {fields} | {column.meaning} |\n"
        assert row in section[1], f"docs/{table.docs}, {table.section}: write {row}"
    rows = re.findall(r"^\| ([\w ]+) \| `.*` \| ", section[1], re.M)
    assert rows == [column.head for column in table.columns]


@EACH
def test_the_terminal_draws_each_column(
    table: Table, world: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    place = ("--store", world.service.store.database.path)
    printed = run("ladder", table.command, *place).out
    first = table.columns[0].head
    head = next(line for line in printed.splitlines() if re.match(rf" *{first}  ", line))
    assert re.split(r"  +", head.strip()) == [column.head for column in table.columns]
    found = csv.DictReader(io.StringIO(run("ladder", table.command, "--csv", *place).out))
    assert {column.field for column in table.columns} <= set(found.fieldnames or ())


@EACH
def test_the_page_draws_each_column_with_its_cells(table: Table, world: World) -> None:
    html = world.person("admin").get(table.path).text
    label = rf'aria-label(?:ledby)?="{table.label}"'
    drawn = re.search(rf"{label}>\s*<table.*?</table>", html, re.S)
    assert drawn is not None
    head, body = drawn[0].split("</thead>")
    heads = [text(one) for one in re.findall(r'<th scope="col".*?</th>', head, re.S)]
    shown = [column for column in table.columns if column.on_page]
    for drawn_head, column in zip(heads, shown, strict=True):
        assert drawn_head.startswith(words.head(column))
    for row in re.findall(r"<tr.*?</tr>", body, re.S):
        assert len(re.findall(r"<t[dh][ >]", row)) == len(shown)


def fields_of(column: TableColumn) -> tuple[str, ...]:
    return (column.field, *column.beside)


def text(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())

"""The overview of a class: on the first page of admins, by a command and as CSV."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from html import unescape

import pytest

from deepsea_arena.status import OVERVIEW_COLUMNS
from deepsea_ladder.errors import SubmissionError
from deepsea_ladder.model import SubmissionRefusal, parse_time
from deepsea_ladder.store import schema
from helpers import ladder, submissions
from helpers.commands import Run
from helpers.members import forms_of
from helpers.world import ANNA, BEN, World

REASON = "greedy v1 raised ValueError in search"
COPIES = ("copy v1 by ben-senior", "anna v1 by anna-senior")


@pytest.fixture
def school(world: World) -> World:
    """That ladder, where ben has submitted anna's files, zoe was refused and ida did not come."""
    store = world.service.store
    ladder.submit(store, "copy", "anna", BEN)
    zoe = submissions.an_author(store, "zoe")
    refused = submissions.add(store, zoe, "bad", bot="bad")
    lease = store.submissions.claim("runner", 60, int(refused.id))
    assert lease is not None
    assert store.submissions.refuse(lease, SubmissionRefusal(REASON), 0)
    world.ladder("admin").create_codes(authors=["ida"])
    return world


def rows(text: str) -> dict[str, dict[str, str]]:
    """The rows of the overview as CSV, by author."""
    return {row["author"]: row for row in csv.DictReader(io.StringIO(text))}


def seen(html: str) -> dict[str, list[str]]:
    """The cells of the page's first table, by author."""
    body = html.partition("<tbody>")[2].partition("</tbody>")[0]
    table = {}
    for row in body.split("</tr>"):
        cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
        texts = [" ".join(unescape(re.sub("<[^>]+>", " ", one)).split()) for one in cells]
        if texts:
            table[texts[0]] = texts
    return table


def test_the_overview_says_who_joined_submitted_was_refused_and_stands_where(
    school: World,
) -> None:
    answer = school.person("admin").get("/admin/overview.csv")
    assert answer.status == 200
    found = rows(answer.text)
    standings = {line.bot: line for line in school.ladder("admin").standings(season="s1").standings}
    anna, ben, zoe, ida = (found[name] for name in (ANNA, BEN, "zoe", "ida"))
    assert parse_time(anna["joined_at"]) is not None
    assert (anna["bot"], anna["version"]) == ("anna", "1")
    assert anna["rank"] == str(standings["anna"].rank)
    assert anna["games"] == str(standings["anna"].games)
    assert anna["submissions"] == "1"
    assert json.loads(anna["same_files"]) == [COPIES[0]]
    # Of two bots the one that stands better.
    assert (ben["bots"], ben["bot"]) == ("2", "ben")
    assert json.loads(ben["same_files"]) == [COPIES[1]]
    assert (zoe["refusal"], zoe["joined_at"]) == (REASON, "")
    assert parse_time(zoe["refused_at"]) is not None
    assert (ida["joined_at"], ida["submissions"], ida["bot"], ida["rank"]) == ("", "0", "", "")


def test_page_command_and_csv_have_the_same_rows_and_columns(
    school: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    html = school.person("admin").get("/admin").text
    assert html.index("<table") < html.index('id="queue"')
    heads = re.findall(r'<th scope="col"[^>]*>(.*?)</th>', html.partition("</thead>")[0])
    assert [head.lower() for head in heads] == [column.head for column in OVERVIEW_COLUMNS]
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setenv("DEEPSEA_LADDER", str(school.service.store.database.path))
    printed = run("ladder", "overview").out
    table = printed[printed.index("author ") :].splitlines()
    assert table[0].split("  ")[0] == "author"
    assert re.split(r"  +", table[0].strip()) == [column.head for column in OVERVIEW_COLUMNS]
    found = rows(run("ladder", "overview", "--csv").out)
    assert found == rows(school.person("admin").get("/admin/overview.csv").text)
    assert [*seen(html)] == [*found] == [line.split()[0] for line in table[1:]]
    for name, row in found.items():
        (line,) = [one for one in table[1:] if one.split()[0] == name]
        for field in ("bot", "refusal"):
            assert row[field] in line
            assert any(row[field] in cell for cell in seen(html)[name])
    document = json.loads(run("ladder", "overview", "--json").out)
    assert [one["author"] for one in document["authors"]] == [*found]


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_a_refusal_is_read_whole_in_a_terminal_of_any_width(
    school: World, run: Run, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = run("ladder", "overview", "--store", school.service.store.database.path).out
    text = " ".join(lines.split())
    assert REASON in text
    assert all(copy in text for copy in COPIES)
    assert max(map(len, lines.splitlines())) <= columns


def test_the_operator_reads_who_has_the_same_files(
    school: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the status, the table of bots, the queue's table, and lists of submissions."""
    store = school.service.store
    place = ("--store", store.database.path)
    status = run("ladder", "status", *place).out
    assert f"{COPIES[0]}: same files as {COPIES[1]}" in status
    admin = school.person("admin")
    html = admin.get("/admin/bots").text
    assert f"same files as {COPIES[0]}" in html
    assert f"same files as {COPIES[1]}" in html
    # A copy that goes through the queue.
    zoe = store.authors.id_of("zoe")
    added = submissions.add(store, zoe, "anna", bot="third")
    lease = store.submissions.claim("runner", 60, int(added.id))
    assert lease is not None
    bundle = replace(ladder.a_bundle("anna"), name="third")
    assert store.submissions.accept(lease, bundle, submissions.LIMITS, 0, has_played=True)
    said = "same files as anna v1 by anna-senior, copy v1 by ben-senior"
    monkeypatch.setenv("COLUMNS", "200")
    assert said in run("ladder", "submissions", "zoe", *place).out
    one = run("ladder", "submissions", "--id", str(int(added.id)), *place).out
    assert said in one
    assert said in admin.get("/admin/authors/zoe").text
    assert said in admin.get(f"/submissions/{int(added.id)}").text
    # Authors read nothing of others.
    for path in ("/account", "/submissions/1"):
        assert "same files" not in school.person(ANNA).get(path).text


def test_the_field_of_a_deadline_has_the_present_one(world: World) -> None:
    world.ladder("admin").set_deadline(season="s1", until="2031-05-04T17:30Z")
    answer = world.person("admin").get("/admin/season")
    fields = [dict(form.fields) for form in forms_of(answer) if "author" not in form.names]
    assert "2031-05-04T17:30" in [one.get("until") for one in fields]


EMPTY = (
    *("/?find=nobody", "/games?bot=copy", "/bots/copy", "/pairs?start=1000"),
    *("/tournaments", "/admin/overview.csv"),
)


@pytest.mark.parametrize("path", EMPTY)
def test_csv_has_its_columns_without_rows_and_a_name_that_says_what_and_when(
    school: World, path: str
) -> None:
    separator = "&" if "?" in path else "?"
    address = path if path.endswith(".csv") else f"{path}{separator}format=csv"
    answer = school.person("admin").get(address)
    head, *more = answer.text.splitlines()
    assert answer.status == 200
    assert len(head.split(",")) > 3
    assert bool(more) == path.startswith("/admin")
    what = re.match(r"/admin/(\w+)|/(\w*)", path)
    assert what
    name = {"": "standings", "bots": "course"}.get(word := what[1] or what[2], word)
    disposition = answer.headers["content-disposition"]
    assert re.fullmatch(
        rf'attachment; filename="{name}[A-Za-z0-9-]*-\d{{4}}-\d\d-\d\dT\d{{4}}Z\.csv"', disposition
    ), disposition


QUARK = "Zwetlana Quark"


def test_no_text_of_the_store_has_the_name_of_an_author_who_was_anonymised(world: World) -> None:
    """Not in what others keep either: refusals, the audit log, cancelled tasks, extensions."""
    store, admin = world.service.store, world.ladder("admin")
    ladder.submit(store, "gluon", author=QUARK)
    quark = store.authors.id_of(QUARK)
    for author, text, bot in ((store.authors.id_of(BEN), "x", "gluon"), (quark, "gluon", "muon")):
        added = submissions.add(store, author, text, bot="")
        lease = store.submissions.claim("runner", 60, int(added.id))
        assert lease is not None
        bundle = replace(ladder.a_bundle(text), name=bot)
        with pytest.raises(SubmissionError) as refused:
            store.submissions.accept(lease, bundle, submissions.LIMITS, 0, has_played=True)
        refusal = SubmissionRefusal(refused.value.found, refused.value.remedy)
        assert store.submissions.refuse(lease, refusal, 0)
    admin.set_deadline(season="s1", until="2031-05-04T17:30Z")
    admin.set_deadline(season="s1", until="2031-05-05T17:30Z", author=QUARK)
    admin.rename_author(author=QUARK, to=f"{QUARK} II")
    waits = submissions.add(store, quark, "late", bot="")
    admin.block_author(author=f"{QUARK} II", blocked=True)
    lease = store.submissions.claim("runner", 60, int(waits.id))
    assert lease is not None
    with pytest.raises(SubmissionError) as refused:
        store.submissions.accept(
            lease, ladder.a_bundle("late"), submissions.LIMITS, 0, has_played=True
        )
    store.submissions.refuse(lease, SubmissionRefusal(str(refused.value)), 0)
    store.bots.withdraw("gluon")
    admin.anonymise_author(author=f"{QUARK} II")
    with store.database.read() as connection:
        for table in schema.metadata.sorted_tables:
            rows = connection.exec_driver_sql(f"SELECT * FROM {table.name}").all()
            assert not [row for row in rows if "quark" in str(tuple(row)).lower()], table.name

"""Accounts by commands on the ladder's machine: admins, codes, authors, tokens, the audit log."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from pathlib import Path

import pytest

from deepsea_ladder.accounts import NewToken, SecretKind, secret_digest
from deepsea_ladder.limits import USUAL_LIMITS
from deepsea_ladder.store import Store
from helpers import ladder
from helpers.commands import Run

ROOT = Path(__file__).parents[2]
CODE = re.compile(r"[A-Z2-7]{4}(?:-[A-Z2-7]{4}){3}")


@pytest.fixture(scope="module")
def two_authors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ladder with two authors, to be copied."""
    path = tmp_path_factory.mktemp("accounts") / "ladder.db"
    with ladder.created(path) as store:
        for name in ("anna", "ben"):
            ladder.submit(store, f"bot-of-{name}", author=name)
    return path


@pytest.fixture(autouse=True)
def place(two_authors: Path, place: Path) -> Path:
    """That ladder, where the commands find it."""
    return Path(shutil.copy(two_authors, place))


def redeem(place: Path, code: str, author: str = "") -> str:
    """The author that a code gives a token of."""
    digest = secret_digest(SecretKind.CODE, code)
    nobodys = ladder.SEED.hex()[:-16] + code.replace("-", "")
    token = NewToken(nobodys, "dsl_test", "", 9, ())
    assert digest is not None
    with Store.open(place) as store:
        return store.accounts.redeem(digest, author, token, "").author


def test_an_admin_token_is_all_that_is_printed(run: Run, place: Path) -> None:
    done = run("ladder", "author", "admin")
    assert (done.status, done.err) == (0, "")
    digest = secret_digest(SecretKind.TOKEN, done.out.strip())
    assert digest is not None
    with Store.open(place) as store:
        found = store.accounts.holder_by_digest(SecretKind.TOKEN, digest)
    assert found is not None
    assert (found.author, found.role.word) == ("admin", "admin")
    made = json.loads(run("ladder", "author", "admin", "--author", "anna", "--json").out)
    assert made["account"]["author"] == "anna"
    assert made["account"]["scopes"] == ["read", "submit", "admin"]


def test_codes_are_printed_one_on_a_line(run: Run, place: Path) -> None:
    codes = run("ladder", "codes", "--count", 3).out.split()
    assert len(set(codes)) == 3
    assert all(CODE.fullmatch(code) for code in codes)
    assert redeem(place, codes[1], "Zoe") == "Zoe"
    lines = run("ladder", "codes").out.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [["1", "anybody"], ["3", "anybody"]]
    assert not CODE.search("".join(lines))


def test_a_file_of_names_gives_each_a_code(run: Run, place: Path, tmp_path: Path) -> None:
    names = tmp_path / "class.txt"
    names.write_text("anna\n\n# who came late\nZoe\n", encoding="utf-8")
    done = run("ladder", "codes", "--authors", names, "--url", "https://ladder.example/")
    links = [line.split() for line in done.out.splitlines()]
    assert [name for _, name in links] == ["anna", "Zoe"]
    for link, name in links:
        address, _, code = link.partition("#")
        assert address == "https://ladder.example/join"
        assert redeem(place, code) == name


@pytest.mark.parametrize(
    "text",
    [
        "\ufeffNr;Name;Code\n1;Anna Müller;\n2;\n;;\n3; zoe ;x\n",
        'name,mail\n"Anna Müller",a@b\nzoe\n',
    ],
)
def test_a_class_list_and_codes_go_by_csv(run: Run, tmp_path: Path, text: str) -> None:
    (names := tmp_path / "class.CSV").write_text(text, encoding="utf-8")
    done = run("ladder", "codes", "--authors", names, "--csv", "--url", "https://l.example")
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert [row["name"] for row in rows] == ["Anna Müller", "zoe"]
    assert all(row["link"] == f"https://l.example/join#{row['code']}" for row in rows)
    names.write_text("Anna,1\n", encoding="utf-8")
    assert "none is `name`" in run("ladder", "codes", "--authors", names).refusal


def test_slips_have_what_somebody_needs(run: Run) -> None:
    done = run("ladder", "codes", "--count", 2, "--slips", "--url", "https://ladder.example")
    assert done.out.count("8<") == 3
    assert len(CODE.findall(done.out)) == 2
    assert done.out.count("deepsea-referee ladder login https://ladder.example --code -") == 2
    assert max(map(len, done.out.splitlines())) <= 80


@pytest.mark.parametrize(
    "words",
    [
        ("--days", "3"),
        ("--count", "1", "--revoke", "1"),
        ("--count", "-1"),
        ("--count", "501"),
        ("--count", "1", "--days", "0"),
        ("--count", "1", "--days", "366"),
        ("--count", "1", "--slips", "--json"),
        ("--authors", "nothing.txt"),
    ],
)
def test_invitations_that_make_no_sense_make_no_code(run: Run, words: tuple[str, ...]) -> None:
    assert run("ladder", "codes", *words).refusal
    assert json.loads(run("ladder", "codes", "--json").out) == {"codes": []}


def test_a_bad_name_in_a_file_makes_no_code(run: Run, tmp_path: Path) -> None:
    names = tmp_path / "class.txt"
    names.write_text("Zoe\nNo/Name\n", encoding="utf-8")
    assert "No/Name" in run("ladder", "codes", "--authors", names).refusal
    assert "Zoe" not in run("ladder", "author", "list").out


def test_the_machine_may_end_the_last_admins_token_but_not_the_last_admin(run: Run) -> None:
    run("ladder", "author", "admin")
    assert run("ladder", "author", "tokens", "admin", "--revoke", 1).status == 0
    done = run("ladder", "author", "block", "admin")
    assert "deepsea-referee ladder author admin --author" in done.refusal
    run("ladder", "author", "admin", "--author", "anna")
    assert run("ladder", "author", "block", "admin").status == 0


def test_no_limit_is_for_show() -> None:
    packages = ("ladder/deepsea_ladder", "arena/deepsea_arena", "web/deepsea_web")
    texts = [path.read_text("utf-8") for one in packages for path in (ROOT / one).rglob("*.py")]
    enforced = set(re.findall(r"limits(?:\(\)|_now\(\w+\))?\.(\w+)", "".join(texts)))
    assert {line.name for line in USUAL_LIMITS.table()} - enforced == set()


def test_settings_are_printed_and_changed(run: Run) -> None:
    table = json.loads(run("ladder", "settings", "--json").out)["settings"]
    assert {line["name"]: line["value"] for line in table} == {
        line["name"]: line["default"] for line in table
    }
    assert [line["name"] for line in table] == [line.name for line in USUAL_LIMITS.table()]
    shown = run("ladder", "settings").out
    for line in table:
        assert line["name"] in shown
        assert line["about"] in shown
    assert run("ladder", "settings", "bots", 10).out.endswith(
        "10 bots  Of an author. Default: 5.\n"
    )
    assert json.loads(run("ladder", "settings", "bots", "--json").out)["settings"] == [
        {"name": "bots", "value": 10, "unit": "bots", "about": "Of an author.", "default": 5}
    ]
    assert "machine: setting bots: 10, was the default\n" in run("ladder", "author", "audit").out
    assert run("ladder", "settings", "bots", "--default").out.endswith("5 bots  Of an author.\n")


def test_a_setting_that_makes_no_sense_changes_nothing(run: Run) -> None:
    before = run("ladder", "settings"), run("ladder", "author", "audit")
    for words, found in (
        ("bot 3", "did you mean bots?"),
        ("xyz 3", "`ladder settings` lists them"),
        ("play.visitors 1", "there is no setting 'play.visitors'"),
        ("bots 0", "bots must lie between 1 and"),
        ("play_tables 101", "play_tables must lie between 0 and 100, not 101"),
        (f"bots {2**63}", "bots must lie between"),
        ("bots many", "'many' is not a valid integer"),
        ("bots 3.5", "'3.5' is not a valid integer"),
        ("bots 3 --default", "--default"),
        ("--default", "--default"),
    ):
        assert found in run("ladder", "settings", *words.split()).refusal
    assert (run("ladder", "settings"), run("ladder", "author", "audit")) == before

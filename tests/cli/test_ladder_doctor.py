"""`ladder doctor`: each thing that can be wrong with a ladder's machine is found, and alone."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from deepsea_ladder.accounts import MACHINE, AuditKind
from deepsea_ladder.store import Database, Store
from deepsea_referee.sandbox import probe
from deepsea_referee.sandbox.probe import Check
from helpers import certificates, ladder
from helpers.commands import Done, Run, called
from helpers.damage import damage

WORKS, NO_GROUPS, NO_SANDBOX = (
    [Check(name, "", ok=ok) for name, ok in (("programs", works), ("control groups", grouped))]
    for works, grouped in ((True, True), (True, False), (False, True))
)
NAMES = [
    *("permissions", "store", "content", "disk", "backup", "memory", "CPU", "runner"),
    *("copies", "clock", "sandbox"),
]


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ladder with a game and a backup, to be copied."""
    folder = tmp_path_factory.mktemp("healthy")
    path = folder / "ladder.db"
    with ladder.created(path) as store:
        ladder.to_play(store)
        ladder.play_all(store, store.seasons.get("s1"))
    assert called("ladder", "backup", folder / "copy.db", "--store", path).status == 0
    return path


@pytest.fixture(autouse=True)
def sandbox(monkeypatch: pytest.MonkeyPatch) -> list[Check]:
    """What is found of the sandbox, whose own tests look at this machine's."""
    found = list(WORKS)
    monkeypatch.setattr(probe, "checks", lambda: found)
    return found


@pytest.fixture
def ladder_file(place: Path, healthy: Path) -> Path:
    place.parent.chmod(0o755)
    shutil.copy(healthy, place)
    place.chmod(0o600)
    return place


def failed(done: Done) -> tuple[int, list[str]]:
    """The exit status, and the checks that failed."""
    lines = done.out.splitlines()
    return done.status, [line[5:].partition(":")[0] for line in lines if line[:4] == "FAIL"]


def test_a_ladder_in_order_has_nothing_to_be_done(run: Run, ladder_file: Path) -> None:
    done = run("ladder", "doctor")
    assert failed(done) == (0, [])
    assert "to do" not in done.out
    document = json.loads(run("ladder", "doctor", "--json").out)
    assert document["fine"] is True
    assert [check["name"] for check in document["checks"]] == NAMES


def sql(statement: str) -> Callable[[Path], object]:
    def change(path: Path) -> None:
        with Store.open(path) as store, store.database.write() as connection:
            connection.exec_driver_sql(statement)

    return change


def damaged(path: Path) -> None:
    """A value that no writer stores."""
    damage(path, "UPDATE bots SET state = 'actve' WHERE id = 1")


def short_of(kind: AuditKind) -> Callable[[Path], object]:
    """A machine that plays had too little of something for a bot."""

    def change(path: Path) -> None:
        with Store.open(path) as store:
            store.audit.note_shortage(kind, "s1-1", "this machine was short of it")

    return change


def killed_copy(path: Path) -> None:
    """A killed backup left its copy beside the ladder."""
    Path(path.parent, ".x.db-12345678.unfinished-copy").mkdir()


def games_wait(path: Path) -> None:
    """Games wait, and no runner has a lease."""
    with Store.open(path) as store:
        store.jobs.add(store.seasons.get("s1"), ladder.rotations(ladder.ids(store), 2))


@pytest.mark.parametrize(
    ("change", "name", "remedy"),
    [
        (lambda path: path.chmod(0o640), "permissions", "chmod go= {}"),
        (lambda path: path.parent.chmod(0o777), "permissions", "chmod go-w {.parent}"),
        (short_of(AuditKind.OUT_OF_MEMORY), "memory", "give it more memory"),
        (short_of(AuditKind.STARVED), "CPU", "have fewer --workers"),
        (sql("UPDATE audit SET at = at - 2 * 86400000"), "backup", "`ladder backup FILE`"),
        (sql("UPDATE games SET played_at = played_at + 3600000"), "clock", "set the clock"),
        (sql("UPDATE audit SET at = at + 3600000"), "clock", "set the clock"),
        (games_wait, "runner", "start `ladder run --forever`"),
        (
            damaged,
            "content",
            "restore a backup at another place: `ladder restore BACKUP --store FILE`",
        ),
        (killed_copy, "copies", "rm -r {.parent}/.x.db-12345678.unfinished-copy;"),
    ],
)
def test_what_is_wrong_with_the_ladder_is_said_with_what_to_do(
    run: Run, ladder_file: Path, change: Callable[[Path], object], name: str, remedy: str
) -> None:
    change(ladder_file)
    done = run("ladder", "doctor")
    assert failed(done) == (1, [name])
    assert f"     to do: {remedy.format(ladder_file)}" in done.out
    document = json.loads(run("ladder", "doctor", "--json").out)
    assert not document["fine"]
    assert [check["name"] for check in document["checks"] if not check["ok"]] == [name]


def test_a_full_disk_has_no_room_for_changes_and_none_for_a_backup(
    run: Run, ladder_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = {20 << 20: [], 17 << 20: [], 16 << 20: ["disk"], 1000: ["store", "disk"]}
    for size, expected in free.items():
        monkeypatch.setattr(Database, "free_bytes", lambda _, size=size: size)
        assert failed(run("ladder", "doctor")) == (bool(expected), expected)


@pytest.mark.parametrize(
    ("found", "trusted", "with_groups", "marks"),
    [
        (NO_SANDBOX, False, False, "FAIL"),
        (NO_GROUPS, False, False, "note"),  # a service has more than a shell
        (NO_GROUPS, False, True, "FAIL"),
        (NO_SANDBOX, True, False, "note"),
        (WORKS, False, True, "ok  "),
    ],
)
def test_the_sandbox_is_needed_by_seasons_of_strangers_bots(
    run: Run,
    ladder_file: Path,
    sandbox: list[Check],
    found: list[Check],
    trusted: bool,
    with_groups: bool,
    marks: str,
) -> None:
    sandbox[:] = found
    with Store.open(ladder_file) as store:
        store.seasons.close("s1", MACHINE)
        season = replace(ladder.a_season("s2"), isolation="process" if trusted else "sandbox")
        limits = replace(season.limits, require_cgroups=with_groups)
        store.seasons.open(replace(season, limits=limits), ladder.SEED)
    done = run("ladder", "doctor")
    assert f"{marks} sandbox: " in done.out
    assert failed(done) == ((1, ["sandbox"]) if marks == "FAIL" else (0, []))


def test_a_certificate_is_good_for_a_fortnight_and_its_key_is_its_own_and_nobody_elses(
    run: Run, ladder_file: Path, tmp_path: Path
) -> None:
    good, short, over = (
        certificates.make(tmp_path, f"of-{days}", days=days) for days in (16, 13, -1)
    )
    no_pem = tmp_path / "no.pem"
    no_pem.touch()

    def asked(chain: Path, key: Path, mode: int) -> tuple[list[str], str]:
        key.chmod(mode)
        done = run("ladder", "doctor", "--tls-cert", chain, "--tls-key", key)
        return failed(done)[1], done.out

    for chain, key, mode, expected, said in (
        (good.certificate, good.key, 0o640, [], "good for 1[56] more days"),
        (good.certificate, good.key, 0o644, ["permissions"], re.escape(f"chmod g-w,o= {good.key}")),
        (short.certificate, short.key, 0o600, ["certificate"], "good for 1[23] more days"),
        (over.certificate, over.key, 0o600, ["certificate"], "has ended"),
        (good.certificate, over.key, 0o600, ["certificate"], "cannot be used: "),
        (no_pem, good.key, 0o600, ["certificate"], "cannot be used: "),
        (tmp_path / "none", good.key, 0o600, ["certificate"], "No such file"),
    ):
        names, out = asked(chain, key, mode)
        assert names == expected, out
        assert re.search(said, out)  # the last day has begun, or begins within this second
    done = run("ladder", "doctor", "--tls-cert", no_pem)
    assert "it is no certificate in PEM" in done.out


def test_a_ladder_that_is_none_is_refused(run: Run, tmp_path: Path) -> None:
    assert "there is no ladder" in run("ladder", "doctor", "--store", tmp_path / "x.db").refusal

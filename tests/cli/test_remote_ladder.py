"""A ladder from afar: what commands print is what they print on its machine.

Their JSON, and what is refused there and here, is compared in tests/web/test_api_golden.py.
"""

from __future__ import annotations

import io
import json
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from deepsea_arena.analysis import AnalysisSettings
from deepsea_arena.api.remote import RemoteLadder
from deepsea_arena.api.service import LadderService
from deepsea_arena.ladder_analyses import plan
from deepsea_arena.task_workers import AnalyseGame, analyse
from deepsea_bundle.reader import read_bot
from deepsea_ladder.accounts import MACHINE
from deepsea_ladder.limits import USUAL_LIMITS
from deepsea_ladder.model import AnalysisPlan
from deepsea_ladder.store import Store, schema
from deepsea_sdk.coach.decisions import Effort
from deepsea_sdk.entropy import fresh_seed
from helpers import ladder
from helpers.commands import Process, Run, free_port, one_line, start
from helpers.programs import opponent_in
from helpers.remote import Server, a_token, served
from helpers.tiers import daily

pytestmark = pytest.mark.usefixtures("home")
CODE = re.compile(r"[A-Z2-7]{4}(?:-[A-Z2-7]{4}){3}")


@dataclass
class Afar:
    """A ladder that is served."""

    file: Path
    store: Store
    service: LadderService
    server: Server

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    def token(self, author: str, *, admin: bool = False) -> str:
        return a_token(self.service, author, admin=admin)


@pytest.fixture(scope="module")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ladder with 24 games, of which three have faults of ben's."""
    faults = {f"s1-{number}": ["ben"] for number in (3, 8, 21)}
    return ladder.played(tmp_path_factory.mktemp("pattern") / "ladder.db", 24, faults)


@pytest.fixture
def afar(pattern: Path, tmp_path: Path) -> Iterator[Afar]:
    file = Path(shutil.copy(pattern, tmp_path))
    with Store.open(file) as store:
        service = LadderService(store, entropy=fresh_seed, is_local=True)
        with served(service) as server:
            yield Afar(file, store, service, server)


def test_what_is_printed_is_the_same_as_on_the_ladders_machine(run: Run, afar: Afar) -> None:
    ladder.submit(afar.store, "eve", author="ben-senior")
    afar.store.bots.withdraw("dan")
    for words in (
        "standings",
        "standings --all --season s1",
        "standings --best-of-author",
        "bot BEN",
        "bot anna --version 1 --season s1",
        "bot eve",
        "games",
        "games --bot ben --faults",
        "games --limit 1000",
    ):
        here = run("ladder", *words.split(), "--store", afar.file)
        assert here.status == 0
        assert run("ladder", *words.split(), "--remote", afar.url) == here


ODD = ["../../etc/passwd", "..", "a/b?c#d", "%2e%2e", "\u202e", "\udcff", "x" * 5000, "x" * 70_000]


@pytest.mark.parametrize("name", daily(ODD, ODD[::3]))
def test_a_name_is_a_name_whatever_is_in_it(run: Run, afar: Afar, name: str) -> None:
    for words in (("bot", name), ("record", name), ("log", name), ("games", "--bot", name)):
        assert run("ladder", *words, "--remote", afar.url).refusal.isascii()


def test_the_token_says_who_one_is(run: Run, afar: Afar, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEPSEA_LADDER_TOKEN", afar.token("ben-senior"))
    refusals = {
        "submissions": "this needs an admin's token",
        "author tokens": "your token says who you are",
    }
    for name, refusal in refusals.items():
        words = ("ladder", *name.split())
        here = run(*words, "ben-senior", "--store", afar.file)
        assert run(*words, "--remote", afar.url) == here
        assert refusal in run(*words, "anna-senior", "--remote", afar.url).refusal
        assert "Missing argument 'AUTHOR'" in run(*words, "--store", afar.file).refusal


def test_ones_own_bots_and_tokens_are_taken_back(
    run: Run, afar: Afar, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEEPSEA_LADDER_TOKEN", afar.token("ben-senior"))
    withdrawn = run("ladder", "withdraw", "Ben", "--remote", afar.url)
    assert withdrawn.out == "ben is withdrawn: withdrawn by its author\n"
    assert afar.store.bots.get("ben").state == "withdrawn"
    (token,) = afar.store.accounts.tokens(afar.store.authors.id_of("ben-senior"))
    assert run("ladder", "author", "tokens", "--revoke", token.id, "--remote", afar.url).status == 0
    assert run("ladder", "author", "tokens", "--remote", afar.url).status == 2


def test_everybody_reads_the_own_deadline(
    run: Run, afar: Afar, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = 4_136_659_200_000
    afar.store.seasons.set_deadline("s1", later, MACHINE)
    afar.store.seasons.extend("s1", "anna-senior", later + 86_400_000, MACHINE)
    ladder.write(afar.store, "UPDATE seasons SET submissions_until = created_at + 1")
    here = run("ladder", "deadline", "--store", afar.file).out.splitlines()
    assert here[1:2] == ["  anna-senior may submit until 2101-02-02 00:00 UTC"]
    assert here[2].startswith("now: season s1 has taken in bots until")
    asked = ("ladder", "deadline", "--remote", afar.url)
    for token in (None, afar.token("ben-senior")):
        if token:
            monkeypatch.setenv("DEEPSEA_LADDER_TOKEN", token)
        shown = run(*asked).out.splitlines()
        assert shown[0] == here[0].replace("bots", "your bots")
        assert shown[1:] == here[2:]
    monkeypatch.setenv("DEEPSEA_LADDER_TOKEN", afar.token("anna-senior"))
    hers = "season s1 takes in your bots until 2101-02-02 00:00 UTC\n"
    assert run(*asked).out == hers
    table = run("ladder", "standings", *asked[2:]).out
    assert "takes in bots until 2101-02-02 00:00 UTC" in table.splitlines()
    assert "admin" in run(*asked, "2101-03-01T00:00Z").refusal
    monkeypatch.setenv("DEEPSEA_LADDER_TOKEN", afar.token("chief", admin=True))
    assert run(*asked).out.splitlines() == here


ADMINS = (
    ("author list", "ben-senior +author +active"),
    ("codes --count 1", CODE.pattern),
    ("codes", "anybody"),
    ("codes --revoke 4", "has ended"),
    ("author reset ben-senior", CODE.pattern),
    ("author rename ben-senior zoe", "ben-senior is zoe now"),
    ("author block zoe", "zoe is blocked, with 1 bot on the ladder"),
    ("author block --undo zoe", "zoe is active"),
    ("author anonymise zoe --yes", "zoe is anonymous-"),
    ("disable cleo --reason x", "cleo is disabled: x"),
    ("disable --undo cleo", "cleo is active with version 1"),
    ("status", r"season s1.*: 24 games played"),
    ("season s2 --seats 2 --deadline 2099-01-31T18:00Z", "season s2: rules 'manual, seat A beg"),
    ("tournament gauntlet cup cleo ben --season s2", "gauntlet cup of 2 bots is begun\n.*/cup$"),
    ("tournament gauntlet cup cleo ben --season s2 --json", '"kind": "gauntlet"'),
    ("close s2 --at-once", "season s2 is closed; seed [0-9a-f]{64}"),
    ("author audit", "chief at .*: enabled cleo"),
)
"""Commands of admins, one after another, and what they print."""


def test_admins_work_from_afar_and_nobody_else(
    run: Run, afar: Afar, monkeypatch: pytest.MonkeyPatch
) -> None:
    author, admin = afar.token("anna-senior"), afar.token("chief", admin=True)
    before = afar.store.audit.latest()
    for token, is_admin in ((author, False), (admin, True)):
        monkeypatch.setenv("DEEPSEA_LADDER_TOKEN", token)
        for words, said in ADMINS:
            done = run("ladder", *words.split(), "--remote", afar.url)
            if is_admin:
                assert done.status == 0, done
                assert re.search(said, done.out), done
            else:
                assert "admin" in done.refusal
        assert (afar.store.audit.latest() == before) is not is_admin


# ------------------------------------------------------------------------------- all of it at once


@pytest.mark.slow
def test_a_bot_is_submitted_watched_and_withdrawn_with_nothing_but_a_code(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = ("--store", tmp_path / "ladder.db")

    def ran(*words: object, given: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
        return run("ladder", *words)

    assert ran("init", "--isolation", "process", "--seats", 2, *place)[0] == 0
    invited = ran("codes", "--count", 1, *place)[1]
    (code,) = CODE.findall(invited)
    # 2: what it says is shown with the failure of this test.
    serve = start("ladder", "serve", "--port", 0, *place, stderr=2)
    try:
        url = re.findall(r"http://\S+", serve.stdout.readline())[0]
        login = ("login", url, "--code", "-", "--author", "zoe")
        status, out, err = ran(*login[:-2], given=f"{code}\n")
        assert (status, out) == (2, "")
        assert "choose a name, with --author NAME" in one_line(err)
        assert ran(*login, given=f"{code}\n")[0] == 0
        mine = opponent_in(tmp_path, "greedy")
        status, out, err = ran("submit", mine, "-v")
        assert (status, out.splitlines()[0]) == (0, "greedy version 1 by zoe is on the ladder")
        assert "accepted" in err
        status, out, _ = ran("submit", mine)  # the same files make no new version
        assert (status, out.splitlines()[0]) == (0, "greedy version 1 by zoe is on the ladder")
        # Only now there are two to play: games take the time of all else.
        with Store.open(tmp_path / "ladder.db") as store:
            store.bots.submit("random", "demo", read_bot(opponent_in(tmp_path, "random")))
        status, out, _ = ran("record", first_game(url))
        (tmp_path / "game.json").write_text(out)
        verified = run("verify", tmp_path / "game.json")
        assert (verified.status, verified.err) == (0, "")
        assert ran("withdraw", "greedy")[1].startswith("greedy is ")
        assert ran("withdraw", "random")[0] == 2
        assert ran("standings")[0] == 0
        assert ran("logout")[0] == 0
        assert ran("withdraw", "greedy", "--remote", url)[0] == 2
    finally:
        serve.terminate()
        serve.communicate()
    assert serve.returncode == 0


def first_game(url: str) -> str:
    """The id of a game, as soon as the ladder tells of one."""
    with RemoteLadder(url.rstrip("/")) as there:
        return next(step.game_id for step in there.feed(after=1) if step is not None)


# In every run tests/cli/test_remote_submit.py breaks the connection, and
# tests/ladder/test_store_submissions.py kills who checks.
@pytest.mark.release
def test_a_submission_outlives_a_server_that_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ladder.db"
    with Store.create(file) as store:
        store.seasons.open(ladder.a_season(seats=(2,)), ladder.SEED)
        service = LadderService(store, entropy=fresh_seed)
        monkeypatch.setenv("DEEPSEA_LADDER_TOKEN", a_token(service, "zoe"))
    port = free_port()

    def serve(*words: object) -> Process:
        place = ("--port", port, "--store", file)
        process = start("ladder", "serve", *words, *place, stderr=sys.stderr)
        assert process.stdout.readline().startswith("the ladder is shown at ")
        return process

    server = serve("--no-run")  # nothing is checked before the server is killed
    try:
        url = f"http://127.0.0.1:{port}"
        submitting = start(
            "ladder", "submit", opponent_in(tmp_path, "greedy"), "-v", "--remote", url
        )
        assert submitting.stderr.readline().startswith("submission 1: waiting")
        server.kill()
        server.communicate()
        assert "; it goes on" in submitting.stderr.readline()
        server = serve()
        out, err = submitting.communicate()
        assert submitting.returncode == 0, err
        assert out.startswith("greedy version 1 by zoe is on the ladder\n")
        assert "submission 1: accepted" in err
    finally:
        server.terminate()
        server.communicate()
    with Store.open(file) as store:
        assert len(store.bots.versions("greedy")) == 1


def test_an_analysis_is_asked_for_and_printed_as_on_the_machine(
    run: Run, afar: Afar, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("ladder", "analyse", "s1-1", "--remote", afar.url)
    assert "ladder login" in run(*asked).refusal
    assert run("ladder", "analyse", "s1-99", "--remote", afar.url).status == 2
    monkeypatch.setenv("DEEPSEA_LADDER_TOKEN", afar.token("anna-senior"))
    assert run(*asked).out == "analysis of s1-1: queued, it is next\n"
    found = json.loads(run(*asked, "--json").out)
    assert (found["last"]["state"], found["document"]) == ("queued", None)
    lease = afar.store.analyses.claim("runner", 60)
    assert lease is not None
    quick = AnalysisSettings(effort=Effort.of(2), luck=2)

    def make() -> None:
        made = analyse(AnalyseGame(lease.record, quick), int)
        # As if it had been made by the settings that were asked for.
        text = json.dumps({**json.loads(made.document), **json.loads(lease.settings)})
        assert afar.store.analyses.finish(lease, made.policy, text, USUAL_LIMITS)

    runner = threading.Thread(target=make)
    runner.start()
    try:
        done = run(*asked, "--wait")
    finally:
        runner.join()
    assert done.status == 0, done.err
    assert "luck  own dice" in done.out
    monkeypatch.delenv("DEEPSEA_LADDER_TOKEN")
    here = ("ladder", "analyse", "s1-1", "--store", afar.file)
    for more in ((), ("--all",), ("--json",)):
        assert run(*asked, *more).out == run(*here, *more).out


def test_an_analysis_without_sense_is_refused_in_a_line(run: Run, afar: Afar) -> None:
    text = afar.store.games.record("s1-1")
    good = analyse(AnalyseGame(text, AnalysisSettings(effort=Effort.of(2))), int).document
    evil = "\x1b[2J"
    changes: list[dict[str, Any]] = [{"format": evil}, {"games": []}]
    for number, change in enumerate(changes):
        policy = f"steady-x{number}"
        asked = AnalysisPlan(policy, "{}")
        afar.store.analyses.request("s1-1", None, asked, USUAL_LIMITS)
        lease = afar.store.analyses.claim("runner", 60)
        assert lease is not None
        bad = json.dumps({**json.loads(good), **change})
        assert afar.store.analyses.finish(lease, plan().policy, bad, USUAL_LIMITS)
        with afar.store.database.write() as connection:  # as if it were what was asked for
            connection.execute(update(schema.analyses).values(settings=plan().settings))
        done = run("ladder", "analyse", "s1-1", "--remote", afar.url)
        assert done.refusal.startswith("deepsea-referee: the analysis of s1-1 cannot be read")
        assert "\x1b" not in done.refusal

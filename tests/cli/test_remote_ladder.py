"""A ladder from afar: what commands print is what they print on its machine, both ways."""

from __future__ import annotations

import io
import json
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from sqlalchemy import update

from deepsea_arena.analysis import AnalysisSettings
from deepsea_arena.analysis_worker import AnalyseGame, analyse
from deepsea_arena.ladder_analyses import plan
from deepsea_arena.service.caller import MACHINE
from deepsea_arena.service.methods import METHODS
from deepsea_arena.service.service import LadderService, ServerAddress
from deepsea_arena.service.table import Flow
from deepsea_arena.service.upload import Uploads
from deepsea_cli.ladder.local import LocalSource
from deepsea_cli.remote.address import read_address
from deepsea_cli.remote.client import Client
from deepsea_cli.remote.routes import ROUTES
from deepsea_cli.remote.source import RemoteSource
from deepsea_ladder.model.analyses import AnalysisPlan
from deepsea_ladder.model.games import GameFilter, SeatLog
from deepsea_ladder.model.submissions import SubmissionRefusal
from deepsea_ladder.remote_limits import USUAL_LIMITS
from deepsea_ladder.store import Store, schema
from deepsea_referee.bots.resolve import bundle_for_ladder
from deepsea_referee.timing.clock import SystemClock
from deepsea_sdk.coach.decisions import Effort
from deepsea_sdk.entropy import fresh_seed
from helpers import ladder, submissions
from helpers.commands import Run, one_line, start
from helpers.remote import Server, a_token, served


@dataclass
class Afar:
    """A ladder that is served."""

    file: Path
    store: Store
    service: LadderService
    server: Server

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server.http}"

    def token(self, author: str) -> str:
        """A token of an author."""
        return a_token(self.service, author)


@contextmanager
def serving(file: Path, way: str, *, private: bool = False) -> Iterator[Afar]:
    with Store.open(file) as store, Store.open(file, read_only=True, public=True) as public:
        service = LadderService(
            store,
            public,
            METHODS,
            entropy=fresh_seed,
            private=private,
            uploads=Uploads(SystemClock(), local=True),
        )
        with served(service) as server:
            url = f"http://127.0.0.1:{server.http}"
            where = f"127.0.0.1:{server.rpc}" if way == "grpc" else ""
            service.address = ServerAddress(url, where)
            yield Afar(file, store, service, server)


@pytest.fixture(scope="module")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ladder with 24 games, of which three have faults of ben's."""
    file = tmp_path_factory.mktemp("pattern") / "ladder.db"
    with Store.create(file) as store:
        season = ladder.stocked(store)
        store.jobs.add(season, ladder.rotations(ladder.ids(store), 4) * 6)
        faults = {f"s1-{number}": ["ben"] for number in (3, 8, 21)}
        ladder.play_all(store, season, faults)
    return file


@pytest.fixture(params=["grpc", "http"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def afar(
    pattern: Path, tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Afar]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("DEEPSEA_LADDER", raising=False)
    file = tmp_path / "ladder.db"
    shutil.copy(pattern, file)
    with serving(file, way) as found:
        yield found


def test_the_routes_of_clients_are_those_of_the_server() -> None:
    assert {name: (METHODS[name].verb, METHODS[name].path) for name in ROUTES} == {
        name: tuple(route) for name, route in ROUTES.items()
    }
    flows = {name for name in ROUTES if METHODS[name].flow is not Flow.ONE}
    assert flows == {"Submit", "WatchSubmission", "WatchAnalysis"}


@pytest.mark.parametrize(
    "words",
    [
        ("standings",),
        ("standings", "--all"),
        ("standings", "--json"),
        ("standings", "--csv"),
        ("standings", "--season", "s1", "--all", "--json"),
        ("standings", "--best-of-author"),
        ("bot", "ben"),
        ("bot", "BEN", "--json"),
        ("bot", "anna", "--version", "1", "--season", "s1"),
        ("bot", "eve"),
        ("games",),
        ("games", "--json"),
        ("games", "--bot", "anna", "--against", "ben", "--lost", "--limit", "3", "--json"),
        ("games", "--faults"),
        ("games", "--bot", "ben", "--faults", "--json"),
        ("games", "--limit", "1000"),
        ("record", "s1-7"),
    ],
)
def test_what_is_printed_is_the_same_as_on_the_ladders_machine(
    run: Run, afar: Afar, words: tuple[str, ...], way: str
) -> None:
    ladder.submit(afar.store, "eve", author="ben-senior")
    afar.store.bots.withdraw("dan")
    here = run("ladder", *words, "--store", afar.file)
    there = run("ladder", *words, "--remote", afar.url, "-v")
    assert here.status == there.status == 0
    assert there.out == here.out
    assert one_line(there.err).startswith("gRPC at port " if way == "grpc" else "HTTP API at ")


@pytest.mark.parametrize(
    "words",
    [
        ("standings", "--season", "s9"),
        ("bot", "nobody"),
        ("bot", "ben", "--version", "9"),
        ("games", "--season", "s9"),
        ("games", "--bot", "nobody"),
        ("games", "--lost"),
        ("record", "s9-1"),
    ],
)
def test_what_there_is_not_is_refused_as_on_the_ladders_machine(
    run: Run, afar: Afar, words: tuple[str, ...]
) -> None:
    here = run("ladder", *words, "--store", afar.file)
    there = run("ladder", *words, "--remote", afar.url)
    assert here.status == there.status == 2
    assert (one_line(there.err), there.out) == (one_line(here.err), "")


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b?c#d", "%2e%2e", "\u202e", "x" * 5000])
def test_a_name_is_a_name_whatever_is_in_it(run: Run, afar: Afar, name: str) -> None:
    for words in (("bot", name), ("record", name), ("log", name), ("games", "--bot", name)):
        done = run("ladder", *words, "--remote", afar.url)
        assert (done.status, done.out) == (2, "")
        assert one_line(done.err).isascii()


def test_plots_are_drawn_from_afar(run: Run, afar: Afar, tmp_path: Path) -> None:
    pictures = []
    for name, place in (("here", ("--store", afar.file)), ("there", ("--remote", afar.url))):
        picture = tmp_path / f"{name}.svg"
        assert run("ladder", "bot", "anna", "--plot", picture, *place).status == 0
        pictures.append(picture.read_text())
    assert pictures[0] == pictures[1]


def test_pages_of_games_are_put_together(afar: Afar) -> None:
    here = LocalSource(afar.store)
    with Client(read_address(afar.url)) as client:
        there = RemoteSource(client, page=7)
        for limit in (7, 8, 20, 24, 25):
            expected = here.games(limit, None, GameFilter())
            assert there.games(limit, None, GameFilter()) == expected


def test_tracebacks_and_logs_are_for_the_author(
    run: Run, afar: Afar, monkeypatch: pytest.MonkeyPatch
) -> None:
    season = afar.store.seasons.get("s1")
    (newest, *_) = afar.store.history.faulty(season, afar.store.bots.get("ben").current.id, 1)[1]
    seat = next(index for index, one in enumerate(newest.seats) if one.version.bot == "ben")
    afar.store.logs.add(newest.seq, [SeatLog(seat, "Traceback:\n\x1b[2J boom", "its output\n")])
    game = newest.game_id
    for author, owns in ((None, False), ("anna-senior", False), ("ben-senior", True)):
        if author is not None:
            monkeypatch.setenv("DEEPSEA_LADDER_TOKEN", afar.token(author))
        bot = run("ladder", "bot", "ben", "--remote", afar.url)
        assert ("boom" in bot.out) is owns
        assert (bot.out == run("ladder", "bot", "ben", "--store", afar.file).out) is owns
        log = run("ladder", "log", game, "--remote", afar.url)
        assert ("boom" in log.out) is owns
        if owns:
            assert log == run("ladder", "log", game, "--store", afar.file)
            assert "\\x1b[2J boom" in log.out
            found = json.loads(run("ladder", "log", game, "--json", "--remote", afar.url).out)
            (kept,) = found["logs"]
            assert (kept["seat"], kept["output"]) == (seat, "its output\n")
            empty = run("ladder", "log", "s1-1", "--json", "--remote", afar.url)
            assert (empty.status, json.loads(empty.out)) == (1, {"logs": []})
            assert run("ladder", "log", "s1-1", "--remote", afar.url).status == 1
        else:
            assert log.status == (2 if author is None else 1)


def test_what_one_has_submitted_is_listed(
    run: Run, afar: Afar, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = ("ladder", "submissions", "--remote", afar.url)
    here = ("ladder", "submissions", "ben-senior", "--store", str(afar.file))
    assert run(*there).status == 2
    monkeypatch.setenv("DEEPSEA_LADDER_TOKEN", afar.token("ben-senior"))
    assert run(*there).out == run(*here).out == "nothing was submitted from afar\n"
    for name in ("first", "second"):
        submissions.add(afar.store, submissions.an_author(afar.store, "ben-senior"), name, name)
    submissions.add(afar.store, submissions.an_author(afar.store, "anna-senior"), "x", "hers")
    lease = afar.store.submissions.claim("runner", 60)
    assert lease is not None
    afar.store.submissions.refuse(lease, SubmissionRefusal("it\x1b[2J crashed"), 1)
    listed = run(*there)
    assert listed == run(*here)
    assert [line.split()[1] for line in listed.out.splitlines()] == ["bot", "second", "first"]
    assert "refused" in listed.out
    assert "\x1b" not in listed.out
    assert "hers" not in listed.out
    document = run(*there, "--json")
    assert document == run(*here, "--json")
    (second,) = json.loads(run(*there, "--json", "--limit", 1).out)["submissions"]
    assert (second["bot"], second["state"], second["ahead"]) == ("second", "queued", 1)
    wrong = run(*there, "anna-senior")
    assert "your token says who you are" in one_line(wrong.err)
    missing = run("ladder", "submissions", "--store", afar.file)
    assert "Missing argument 'AUTHOR'" in one_line(missing.err)


def test_withdrawing_is_for_the_author(
    run: Run, afar: Afar, monkeypatch: pytest.MonkeyPatch
) -> None:
    withdraw = ("ladder", "withdraw", "Ben", "--remote", afar.url)
    assert run(*withdraw).status == 2
    monkeypatch.setenv("DEEPSEA_LADDER_TOKEN", afar.token("anna-senior"))
    done = run(*withdraw)
    assert (done.status, done.out) == (2, "")
    assert "you have no bot 'Ben'" in one_line(done.err)
    assert afar.store.bots.get("ben").state == "active"
    monkeypatch.setenv("DEEPSEA_LADDER_TOKEN", afar.token("ben-senior"))
    done = run(*withdraw)
    assert done.out == "ben is withdrawn: withdrawn by its author\n"
    assert afar.store.bots.get("ben").state == "withdrawn"


def test_ones_own_tokens_are_listed_and_ended(
    run: Run, afar: Afar, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, second, other = (afar.token(name) for name in ("zoe", "zoe", "ben-senior"))
    monkeypatch.setenv("DEEPSEA_LADDER_TOKEN", own)
    there = run("ladder", "tokens", "--remote", afar.url)
    assert there == run("ladder", "tokens", "zoe", "--store", afar.file)
    assert [secret[:8] in there.out for secret in (own, second, other)] == [True, True, False]
    assert own not in there.out
    document = json.loads(run("ladder", "tokens", "--json", "--remote", afar.url).out)
    revoke = ("ladder", "tokens", "--revoke", document["tokens"][1]["id"], "--remote", afar.url)
    monkeypatch.setenv("DEEPSEA_LADDER_TOKEN", other)
    assert run(*revoke).status == 2
    monkeypatch.setenv("DEEPSEA_LADDER_TOKEN", own)
    assert run(*revoke).status == 0
    assert second[:8] not in run("ladder", "tokens", "--remote", afar.url).out
    wrong = run("ladder", "tokens", "ben-senior", "--remote", afar.url)
    assert "your token says who you are" in one_line(wrong.err)
    missing = run("ladder", "tokens", "--store", afar.file)
    assert "Missing argument 'AUTHOR'" in one_line(missing.err)


def test_login_with_a_code_and_logout(
    run: Run, afar: Afar, monkeypatch: pytest.MonkeyPatch
) -> None:
    (code,) = afar.service.call(MACHINE, "CreateCodes", count=1).codes
    login = ("ladder", "login", afar.url, "--code", "-", "--author", "zoe", "--label", "laptop")
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{code.code.lower()}\n"))
    assert run(*login).status == 0
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{code.code}\n"))
    again = run(*login)
    assert (again.status, again.out) == (2, "")
    assert code.code not in one_line(again.err)
    assert re.match(
        r"zoe \(author\), who may read, submit, until \d{4}-", run("ladder", "whoami").out
    )
    (token,) = afar.store.accounts.tokens(afar.store.authors.get("zoe").id)
    assert token.label == "laptop"
    assert run("ladder", "logout").status == 0
    assert list(afar.store.accounts.tokens(afar.store.authors.get("zoe").id)) == []
    assert run("ladder", "whoami").status == 2


def test_a_private_ladder_is_read_with_a_token_alone(
    run: Run, pattern: Path, tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ladder.db"
    shutil.copy(pattern, file)
    with serving(file, way, private=True) as afar:
        done = run("ladder", "standings", "--remote", afar.url)
        assert done.status == 2
        assert "this needs a token: deepsea-referee ladder login" in one_line(done.err)
        monkeypatch.setenv("DEEPSEA_LADDER_TOKEN", afar.token("anna-senior"))
        assert run("ladder", "standings", "--remote", afar.url).status == 0
        monkeypatch.setenv("DEEPSEA_LADDER_TOKEN", "dsl_" + "a" * 49)
        done = run("ladder", "standings", "--remote", afar.url)
        assert done.status == 2
        assert "token" in one_line(done.err)


def test_a_submission_is_followed_to_its_verdict(
    run: Run, afar: Afar, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runner's side is played by a thread that refuses what it finds."""
    from deepsea_ladder.model.submissions import SubmissionRefusal

    monkeypatch.setenv("DEEPSEA_LADDER_TOKEN", afar.token("zoe"))
    ended = threading.Event()

    def refuse_all() -> None:
        with Store.open(afar.file) as store:
            while not ended.wait(0.05):
                lease = store.submissions.claim("runner", 60)
                if lease is not None:
                    why = SubmissionRefusal("it crashed", "correct it", ("a line",), "Traceback")
                    store.submissions.refuse(lease, why, 10)

    runner = threading.Thread(target=refuse_all)
    runner.start()
    try:
        done = run("ladder", "submit", "greedy", "--remote", afar.url)
    finally:
        ended.set()
        runner.join()
    assert (done.status, done.err) == (1, "")
    assert done.out.splitlines() == [
        "greedy is refused: it crashed",
        "  Traceback",
        "to do: correct it",
        "for more:",
        "  deepsea-referee check greedy",
    ]
    taken = run("ladder", "submit", "greedy", "--name", "ben", "--remote", afar.url)
    assert (taken.status, taken.out) == (2, "")
    assert "ben-senior" in one_line(taken.err)


# ------------------------------------------------------------------------------- all of it at once

LATE = """
from deepsea_sdk import Bot, run

class Late(Bot):
    \"\"\"Fails in the fifth game of a process: admission has fewer.\"\"\"

    games = 0

    def on_game_start(self, info):
        Late.games += 1

    def search(self, view):
        if Late.games > 4:
            print("so late", flush=True)
            raise ValueError("too many games")
        return super().search(view)

run(Late)
"""


# By HTTP before a release only: above, what each command prints is the same either way.
@pytest.mark.slow
@pytest.mark.parametrize(
    "grpc_port", [(), pytest.param(("--grpc-port", "0"), marks=pytest.mark.release)]
)
def test_a_bot_is_submitted_watched_and_withdrawn_with_nothing_but_a_code(
    run: Run, tmp_path: Path, grpc_port: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("config", "data"):
        monkeypatch.setenv(f"XDG_{name.upper()}_HOME", str(tmp_path / name))
    monkeypatch.delenv("DEEPSEA_LADDER", raising=False)
    place = ("--store", tmp_path / "ladder.db")

    def ran(*words: object, given: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
        return run("ladder", *words)

    assert ran("init", "--trusted", "--seats", 2, *place)[0] == 0
    invited = ran("invite", "--count", 1, *place)[1]
    code = re.findall(r"[A-Z2-7]{4}(?:-[A-Z2-7]{4}){3}", invited)[0]
    # 2: what it says is shown with the failure of this test.
    serve = start("ladder", "serve", "--port", 0, *grpc_port, *place, stderr=2)
    assert serve.stdout is not None
    try:
        url = re.findall(r"http://\S+", serve.stdout.readline())[0]
        login = ("login", url, "--code", "-", "--author", "zoe")
        assert ran(*login, given=f"{code}\n")[0] == 0
        status, out, err = ran("submit", "greedy", "-v")
        assert (status, out.splitlines()[0]) == (0, "greedy version 1 by zoe is on the ladder")
        assert ("gRPC at port" in err) is not bool(grpc_port)
        assert "accepted" in err
        status, out, _ = ran("submit", "greedy")  # the same files make no new version
        assert (status, out.splitlines()[0]) == (0, "greedy version 1 by zoe is on the ladder")
        (tmp_path / "bad.py").write_text(LATE.replace("> 4", "> 0"))
        status, out, _ = ran("submit", tmp_path / "bad.py")
        assert status == 1
        assert re.match(r"bad is refused: season main, against itself, 2 seats, seat A", out)
        assert "ValueError: too many games" in out
        assert "to do: fix the error" in out
        (tmp_path / "late.py").write_text(LATE)
        status, out, _ = ran("submit", tmp_path / "late.py", "--name", "greedy")
        assert (status, out.splitlines()[0]) == (0, "greedy version 2 by zoe is on the ladder")
        # Only now there are two to play: games take the time of all else.
        with Store.open(tmp_path / "ladder.db") as store:
            store.bots.submit("random", "demo", bundle_for_ladder("random"))
        game = first_fault_of("greedy", url)
        asked = ("games", "--bot", "greedy", "--faults")
        assert game in ran(*asked)[1]
        status, out, _ = ran("log", game)
        assert status == 0
        assert "ValueError: too many games" in out
        assert "so late" in out
        assert "the error in main-" in ran("bot", "greedy")[1]
        status, out, _ = ran("record", game)
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


def first_fault_of(bot: str, url: str) -> str:
    """The id of a game in which it had a fault, as soon as the ladder tells of one."""
    with urlopen(f"{url.rstrip('/')}/api/v1/feed?after=1") as feed:
        return next(
            str(game["game_id"])
            for line in feed
            if line.strip()
            for game in [json.loads(line)["game"]]
            if any(seat["bot"] == bot and seat["faults"] for seat in game["seats"])
        )


# By HTTP before a release: connections by HTTP break in tests/cli/test_remote_submit.py.
@pytest.mark.slow
@pytest.mark.parametrize("way", ["grpc", pytest.param("http", marks=pytest.mark.release)])
def test_a_submission_outlives_a_server_that_is_killed(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ladder.db"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with Store.create(file) as store:
        store.seasons.open(ladder.a_season(seats=(2,)), ladder.SEED)
        service = LadderService(store, store, METHODS, entropy=fresh_seed)
        monkeypatch.setenv("DEEPSEA_LADDER_TOKEN", a_token(service, "zoe"))
    with free_ports() as (port, grpc_port):
        pass
    ports = ("--port", port, "--grpc-port", grpc_port if way == "grpc" else 0)

    def serve(*words: object) -> subprocess.Popen[str]:
        process = start("ladder", "serve", *ports, *words, "--store", file, stderr=sys.stderr)
        assert process.stdout is not None
        assert process.stdout.readline().startswith("the ladder is shown at ")
        return process

    server = serve("--no-run")  # nothing is checked before the server is killed
    try:
        url = f"http://127.0.0.1:{port}"
        submitting = start("ladder", "submit", "greedy", "-v", "--remote", url)
        assert submitting.stderr is not None
        said = [submitting.stderr.readline(), submitting.stderr.readline()]
        assert said[0].startswith("gRPC at port" if way == "grpc" else "HTTP API at")
        assert said[1].startswith("submission 1: waiting")
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


@contextmanager
def free_ports() -> Iterator[tuple[int, int]]:
    """Two ports that nobody listens on."""
    anywhere = ("127.0.0.1", 0)
    with socket.create_server(anywhere) as one, socket.create_server(anywhere) as two:
        yield one.getsockname()[1], two.getsockname()[1]


def test_an_analysis_is_asked_for_and_printed_as_on_the_machine(
    run: Run, afar: Afar, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("ladder", "analyse", "s1-1", "--remote", afar.url)
    refused = run(*asked)
    assert refused.status == 2
    assert "ladder login" in refused.err
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


def test_an_analysis_without_sense_is_refused_in_a_line(
    run: Run, afar: Afar, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = afar.store.games.record("s1-1")
    good = analyse(AnalyseGame(text, AnalysisSettings(effort=Effort.of(2))), int).document
    game = json.loads(good)["games"][0]
    evil = "\x1b[2J"
    changes: list[dict[str, Any]] = [
        {"format": evil},
        {"games": []},
        {"policy": evil},
        {"rollouts": -1},
        {"precision": 1e300},
        {"games": [{**game, "game_id": "s1-2"}]},
        {"games": [{**game, "decisions": [{**game["decisions"][0], "played": evil}]}]},
        {"games": [{**game, "decisions": [{**game["decisions"][0], "decision": 10**6}]}]},
        {"games": [{**game, "decisions": [{**game["decisions"][0], "options": None}]}]},
        {"games": [{**game, "chances": [{"turn": 1}]}]},
        {"games": {}},
    ]
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
        assert done.status == 2, change
        assert one_line(done.err).startswith("deepsea-referee: the analysis of s1-1 cannot be read")
        assert "\x1b" not in done.out + done.err

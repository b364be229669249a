"""Fixtures that several folders share: the command line, and stores on SQLite and PostgreSQL."""

from __future__ import annotations

import faulthandler
import gc
import inspect
import os
import shutil
import signal
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from sqlalchemy import URL, Engine, create_engine

from deepsea_cli import main
from deepsea_ladder.model import StoredSeason
from deepsea_ladder.store import Store, database
from deepsea_referee.system import SYSTEM
from helpers import in_loop, ladder, tools
from helpers.commands import Done, Run
from helpers.postgres import Postgres
from helpers.tiers import daily

Contents = Callable[[Store], object]

# Thousands of tests that are collected are no garbage, and take long to be looked through.
gc.disable()


# A test that stands still prints where, and ends its process: pytest does that (see pyproject.toml)
# until the test fails or ends. The rest of a run has the same time limit from here.
_errors = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    """Keep the error output: what tests print is captured. Make room for control groups first."""
    SYSTEM.make_room()
    tools.watch()
    config.stash[_errors] = in_loop.errors = os.dup(2)


def _limit_time(config: pytest.Config) -> None:
    seconds = float(config.getini("faulthandler_timeout"))
    faulthandler.dump_traceback_later(seconds, exit=True, file=config.stash[_errors])


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Limit the time of an import."""
    _limit_time(collector.config)


def pytest_collection_finish() -> None:
    """From here on garbage is looked for, among what comes later."""
    faulthandler.cancel_dump_traceback_later()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Limit the time of fixtures that end, after a test that failed too."""
    _limit_time(item.config)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Limit the time until the process has ended; xdist ends its workers by itself."""
    _limit_time(session.config)
    yield
    if hasattr(session.config, "workerinput"):
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Give tests with a mark more time in their event loops; others do milliseconds of work."""
    in_loop.is_marked = any(map(item.get_closest_marker, ("slow", "release")))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Watch which programs a test starts, with its fixtures."""
    with tools.watched_test(item.nodeid):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """Fail a test that starts a program without saying so."""
    yield
    tools.check_test()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = inspect.signature(pyfuncitem.obj).parameters
    test = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in wanted})
    in_loop.run(test)
    return True


# No test depends on speed: an example may take as long as a busy machine needs. CI has the same
# examples every time.
settings.register_profile(
    "here", max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("ci", parent=settings.get_profile("here"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")

# What is killed here loses nothing, as the machine goes on; the server has no `fsync` either.
database.SYNCHRONOUS = "OFF"

# A store that was just opened compiles its statements, which takes longer than to run them. Here
# all on SQLite have one dialect, and with it what was compiled.
_compiled = create_engine("sqlite://", query_cache_size=5000)
_compiled.connect().close()


def _engine(url: URL, **options: Any) -> Engine:
    engine = create_engine(url, **options)
    if engine.dialect.name == "sqlite":
        engine.dialect, engine._compiled_cache = _compiled.dialect, _compiled._compiled_cache
    return engine


database.create_engine = _engine  # type: ignore[attr-defined, assignment]

# A shell ignores Ctrl-C for what it runs in the background, and nohup a closed terminal; programs
# that tests start inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def _tools(request: pytest.FixtureRequest) -> None:
    """Skip a test whose marks name a missing tool, and cases of the sandbox where none works."""
    for mark in request.node.iter_markers("needs"):
        tools.require(*mark.args)
    case = getattr(request.node, "callspec", None)
    if case and "sandbox" in (case.params.get("isolation"), case.params.get("level")):
        tools.require("bubblewrap")


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the surroundings of the tests must not change."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nowhere")  # no logins
    for name in ("NO_COLOR", "FORCE_COLOR", "DEEPSEA_LADDER_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command line with these arguments in this process."""

    def call(*arguments: object) -> Done:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        code = ended.value.code
        assert isinstance(code, int)
        return Done(code, out, err)

    return call


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server for this test run."""
    tools.require("postgresql")
    with Postgres() as server:
        yield server


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test of the store on SQLite, and on PostgreSQL where that may go otherwise.

    That is if it is marked `databases`, and before a release; a test of a module with `KINDS` runs
    on these.
    """
    given = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "kind" in metafunc.fixturenames and not any("kind" in names for names in given):
        both = getattr(metafunc.module, "KINDS", ["sqlite", "postgresql"])
        chosen = both if metafunc.definition.get_closest_marker("databases") else ["sqlite"]
        metafunc.parametrize("kind", daily(both, chosen), indirect=True)


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> str:
    """The kind of database."""
    return str(request.param)


@pytest.fixture
def empty(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a ladder can be made."""
    if kind == "sqlite":
        return str(tmp_path / "ladder.db")
    server: Postgres = request.getfixturevalue("postgres")
    # A new database for each test would be slower.
    server.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    return server.url("postgres")


@pytest.fixture(scope="session")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ladder in a file, to be copied: faster than making one for each test."""
    path = tmp_path_factory.mktemp("pattern") / "ladder.db"
    ladder.created(path).close()
    return path


@pytest.fixture(scope="session")
def pattern_database(postgres: Postgres) -> str:
    """The same as a database on PostgreSQL, which no test opens."""
    name = postgres.new_database()
    Store.create(postgres.url(name)).close()
    return name


@pytest.fixture(scope="session")
def played_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ladder with a season of eight games between four bots; ben crashed in two of them."""
    return ladder.played(tmp_path_factory.mktemp("played") / "ladder.db")


@pytest.fixture
def played(played_file: Path, tmp_path: Path) -> Iterator[Store]:
    """That ladder, for one test."""
    path = tmp_path / "ladder.db"
    shutil.copy(played_file, path)
    with Store.open(path) as store:
        yield store


@pytest.fixture(scope="session")
def patterns(pattern: Path) -> dict[tuple[str, Contents], str]:
    """The ladders to be copied, by database and contents."""
    return {("sqlite", ladder.nothing): str(pattern)}


@pytest.fixture
def contents(request: pytest.FixtureRequest) -> Contents:
    """What the ladder of a test has from the beginning: nothing, or its module's `CONTENTS`."""
    found: Contents = getattr(request.module, "CONTENTS", ladder.nothing)
    return found


@pytest.fixture
def target(
    kind: str,
    contents: Contents,
    pattern: Path,
    patterns: dict[tuple[str, Contents], str],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[str]:
    """Where a ladder is, with these contents."""
    server: Postgres | None = None
    if kind == "postgresql":
        server = request.getfixturevalue("postgres")
    made = patterns.get((kind, contents))
    if made is None:
        if server is not None:
            made = server.new_database(request.getfixturevalue("pattern_database"))
        else:
            made = str(shutil.copy(pattern, tmp_path_factory.mktemp("pattern") / "x.db"))
        with Store.open(server.url(made) if server else made) as store:
            contents(store)
        if server is not None:
            server.keep(made)
        patterns[kind, contents] = made
    if server is None:
        yield str(shutil.copy(made, tmp_path / "ladder.db"))
    else:
        yield server.url(made)
        server.restore(made)


@pytest.fixture(scope="session")
def stores() -> dict[str, Store]:
    """The stores that were opened on PostgreSQL: each keeps the statements that it compiled."""
    return {}


@pytest.fixture
def store(kind: str, target: str, stores: dict[str, Store]) -> Iterator[Store]:
    """A ladder with these contents: nothing, or what the module has for all its tests."""
    store = stores.get(target) or Store.open(target)
    if kind == "postgresql":
        stores[target] = store
    with store:
        yield store


@pytest.fixture
def season(store: Store) -> StoredSeason:
    """The season of a ladder that has one from the beginning."""
    return store.seasons.get("s1")


@pytest.fixture
def another(target: str) -> Iterator[Callable[[], Store]]:
    """Opens the same ladder again, as another process would."""
    opened: list[Store] = []

    def open_it() -> Store:
        opened.append(Store.open(target))
        return opened[-1]

    yield open_it
    for store in opened:
        store.close()

"""A damaged ladder: whatever stands in a column, a command says one line and shows no traceback."""

from __future__ import annotations

import csv
import json
import re
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import (
    Engine,
    ForeignKeyConstraint,
    LargeBinary,
    PrimaryKeyConstraint,
    String,
    Table,
    UniqueConstraint,
    event,
    insert,
)

from deepsea_arena import ladder_analyses, runner
from deepsea_arena.analysis import AnalysisSettings
from deepsea_arena.handlers import ANALYSES, CHECKS, COMPARISONS, STEPS
from deepsea_arena.run_report import RunWatcher, Stop, StopRequest
from deepsea_arena.runner import RunRequest
from deepsea_arena.runner import run as run_ladder
from deepsea_arena.task_workers import AnalyseGame, analyse
from deepsea_arena.tasks import FinishedGame, JobOutcome
from deepsea_arena.tournament_run import TournamentRequest, begin_tournament, play_begun
from deepsea_cli import main
from deepsea_ladder.accounts import MACHINE, NewToken, Scope
from deepsea_ladder.errors import StoreDamaged
from deepsea_ladder.model import Job, Receipt, ReceiptStatus, SeatLog
from deepsea_ladder.store import Store, schema
from deepsea_ladder.store.columns import Choice, Record, packed
from deepsea_ladder.store.database import find_damage
from deepsea_rules.randomness import seed_from_text
from deepsea_sdk.coach.decisions import Effort
from deepsea_web.http_api import http_api
from deepsea_web.serve import with_api
from helpers import comparisons, ladder, submissions
from helpers.commands import Run, one_line
from helpers.damage import damage
from helpers.inline import InlineWorker
from helpers.members import a_service
from helpers.people import Runner, new_game
from helpers.remote import OK, Remote, served
from helpers.site import a_site, get
from helpers.tiers import daily

JUNK = (b"\xff\xfe\x00junk", "junk", -1, 2**62, "CAST(x'ff41' AS TEXT)", "[" * 100_000)
COMMANDS = (
    ("refold", "--records"),
    ("standings", "--all"),
    ("status",),
    ("games", "--bot", "ben"),
    ("export",),
    ("bot", "ben"),
    ("log", "s1-2"),
    ("record", "s1-3"),
    ("analyse", "s1-3"),
    ("verdicts", "anna"),
    ("submissions", "Ada"),
    ("author", "list"),
    ("author", "tokens", "Ada"),
    ("codes",),
    ("author", "audit"),
    ("settings",),
)
NO_JSON = {("export",), ("record", "s1-3")}
ALL_GAMES = {"s1-1", "s1-2", "s1-3"}
QUICK = AnalysisSettings(effort=Effort.of(2), luck=2)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ladder with rows in every table: one game with a crash, one played after a void."""
    path = tmp_path_factory.mktemp("sound") / "ladder.db"
    with ladder.created(path) as store:
        season = ladder.stocked(store, seats=(2, 4))
        store.jobs.add(season, ladder.rotations(ladder.ids(store), 3))
        store.jobs.fail(ladder.claim(store, season), "the host was busy", 1)
        ladder.play_all(store, season, {"s1-2": ["ben"]})
        store.logs.add(
            2, [SeatLog(seat, "anna v1", "an error", "some output") for seat in range(4)]
        )
        # From afar: a code that waits, one that became a token, a session of it, an upload.
        by_name = {name: seed_from_text(name).hex() for name in ("code", "other", "token", "page")}
        codes = [(by_name["code"], ""), (by_name["other"], "")]
        store.accounts.make_codes(codes, 14, MACHINE)
        token = NewToken(by_name["token"], "dsl_test", "laptop", 365, (Scope.READ, Scope.SUBMIT))
        ada = store.accounts.redeem(by_name["code"], "Ada", token, "192.0.2.0/24").author_id
        assert store.accounts.open_session(token.digest, by_name["page"], 14, 9, "192.0.2.0/24")
        submissions.add(store, ada, "mine")
        later = season.created_at + 10**9
        store.seasons.set_deadline(season.name, later, MACHINE)
        store.seasons.extend(season.name, "Ada", later + 10**9, MACHINE)
        new_game(store, author_id=ada)
        Runner(store).play_on()
        plan = ladder_analyses.plan()
        store.analyses.request("s1-3", ada, plan, submissions.LIMITS)
        lease = store.analyses.claim("runner", 60)
        assert lease is not None
        found = analyse(AnalyseGame(lease.record, QUICK), int).document
        assert store.analyses.finish(lease, plan.policy, found, submissions.LIMITS)
        ladder.submit(store, "anna", "anna, once more")
        comparisons.add(store, comparisons.claim(store), verdict="better")
        for name in ("bots", "verdict_seconds"):
            store.settings.change(name, 600, MACHINE)
        store.tasks.note_rest("runner", "its order is settled", 60)
        with store.database.write() as connection:
            left = {"season_id": season.id, "version_id": ladder.ids(store)[0]}
            left |= {"after_number": 1, "place": 0}
            connection.execute(insert(schema.tournament_exits).values(left))
    return path


COLUMNS = [
    (table.name, column.name) for table in schema.metadata.sorted_tables for column in table.columns
]
"""Every column of the schema."""


# One column in five in every run: they meet every value and every command by turns.
@pytest.mark.slow
@pytest.mark.parametrize(("table", "column"), daily(COLUMNS, COLUMNS[::5]))
def test_no_value_in_any_column_gives_a_traceback(
    asked: Callable[..., None], table: str, column: str
) -> None:
    # Each column meets a value; in 84 columns that follow each other each command meets each value.
    rest, number = divmod(COLUMNS.index((table, column)), len(JUNK))
    asked(table, column, JUNK[number], [COMMANDS[rest % len(COMMANDS)]])


@pytest.mark.release
@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_no_command_that_reads_a_table_gives_a_traceback(
    asked: Callable[..., None], readers: dict[str, list[tuple[str, ...]]], table: str, column: str
) -> None:
    # Every value in every column, with every command that reads the table: to the others the
    # ladder is as before. `refold` looks at all tables first, so that one value in each will do.
    (slowest, *_) = COMMANDS
    number = COLUMNS.index((table, column)) % len(JUNK)
    plain = [one for one in readers[table] if one != slowest]
    # A document can have any text.
    documents = [(*one, "--json") for one in plain if one not in NO_JSON]
    for junk in JUNK:
        asked(table, column, junk, plain + (documents if junk in (JUNK[0], 2**62) else []))
    asked(table, column, JUNK[number], [slowest])


DOCUMENTS = [
    ("authors", "name", "author list"),
    ("seasons", "place", "standings"),
    ("bot_versions", "digest", "bot anna"),
    ("analyses", "policy", "analyse s1-3"),
    ("audit", "note", "author audit"),
]


@pytest.mark.parametrize(("table", "column", "command"), daily(DOCUMENTS, DOCUMENTS[::3]))
def test_what_no_document_can_have_is_named_as_damage(
    run: Run, sound: Path, place: Path, table: str, column: str, command: str
) -> None:
    assert damaged(sound, place, table, column, b"\xff\xfe")
    done = run("ladder", *command.split(), "--json")
    assert (done.status, done.out) == (1, "")
    assert f"is damaged: table {table}" in one_line(done.err)


@pytest.fixture(scope="module")
def readers(sound: Path) -> dict[str, list[tuple[str, ...]]]:
    """By table the commands with a statement that names it, without damage."""
    statements: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        statements.append(statement)

    found: dict[str, list[tuple[str, ...]]] = {name: [] for name in schema.metadata.tables}
    event.listen(Engine, "before_cursor_execute", note)
    try:
        for command in COMMANDS:
            statements.clear()
            with pytest.raises(SystemExit) as ended:
                main(["ladder", *command, "--store", str(sound)])
            assert ended.value.code == 0
            named = set(re.findall(r"\w+", " ".join(statements)))
            for table in named & found.keys():
                found[table].append(command)
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    return found


def test_without_damage_a_ladder_with_rows_in_every_table_is_sound(
    run: Run, sound: Path, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(sound)) as connection:
        for table in schema.metadata.sorted_tables:
            assert connection.execute(f"SELECT count(*) FROM {table.name}").fetchone() > (0,)
    for command in (*COMMANDS, ("backup", tmp_path / "backup.db")):
        done = run("ladder", *command, "--store", sound)
        assert (done.status, done.err) == (0, ""), command


@pytest.fixture
def asked(run: Run, sound: Path, place: Path) -> Callable[..., None]:
    """Put a value into a column, and run commands, which must answer in a line."""

    def ask(table: str, column: str, junk: object, commands: Sequence[tuple[str, ...]]) -> None:
        if not damaged(sound, place, table, column, junk):
            return
        for command in commands:
            done = run("ladder", *command)
            assert done.status in (0, 1, 2), (junk, command)
            if done.err:
                assert one_line(done.err).isprintable()

    return ask


def damaged(sound: Path, place: Path, table: str, column: str, junk: object) -> bool:
    """Put something into the newest row of a column; whether the database took it."""
    shutil.copy(sound, place)
    is_sql = isinstance(junk, str) and junk.startswith("CAST")
    value, values = (junk, ()) if is_sql else ("?", (junk,))
    newest = f"WHERE rowid = ({_newest(table)})"
    try:
        damage(place, f"UPDATE {table} SET {column} = {value} {newest}", values=values)
    except sqlite3.IntegrityError:
        return False
    return True


def _newest(table: str) -> str:
    """A query for the newest row; of tasks, for that of a check, which `status` reads."""
    which = " WHERE kind = 'check'" if table == "tasks" else ""
    return f"SELECT max(rowid) FROM {table}{which}"


LOOKS = (("status",), ("games",), ("log", "s1-2"))
PAGES = ("/", "/games", "/games/s1-1", "/bots/anna", "/tv", "/tournaments", "/play")
METHODS = ("standings", "games", "games/s1-1", "bots/anna", "seasons", "tournaments", "export")
OF_OTHERS = ("/", "/games", "/bots/ben", *(f"/api/v1/{name}" for name in METHODS[:2]))
"""Pages and methods that need none of the newest rows."""


class Patience(Stop):
    """A stop that is requested when a run has waited five times."""

    def __init__(self) -> None:
        super().__init__()
        self._waits = 0

    def pause(self, seconds: float) -> None:
        self._waits += 1
        if self._waits > 5:
            self.ask(StopRequest.HAND_BACK)


class Troubles(RunWatcher):
    """Keeps what a run says of troubles."""

    def __init__(self) -> None:
        self.troubles: list[str] = []

    def trouble(self, message: str) -> None:
        self.troubles.append(message)


class TwoGames(Troubles):
    """Ends a run after two results."""

    def __init__(self, stop: Stop) -> None:
        super().__init__()
        self.games = 0
        self._stop = stop

    def finished(self, job: Job, receipt: Receipt) -> None:
        self.games += receipt.status is ReceiptStatus.ACCEPTED
        if self.games == 2:
            self._stop.ask(StopRequest.HAND_BACK)


@pytest.fixture(scope="module")
def two_seasons(sound: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same ladder with a later season, which is closed."""
    path = tmp_path_factory.mktemp("later") / "ladder.db"
    shutil.copy(sound, path)
    with Store.open(path) as store:
        store.seasons.open(ladder.a_season("later"), seed_from_text("later"))
        store.seasons.close("later")
        # The person of the game that waits for one is silent by now.
        ladder.write(store, "UPDATE tasks SET until = 1 WHERE state = 'asked'")
    return path


def values_of(table: Table) -> list[tuple[str, str]]:
    """The columns of a table by which no row is found: others lead to other rows, or to none."""
    keys = {
        column.name
        for constraint in table.constraints
        if isinstance(constraint, PrimaryKeyConstraint | ForeignKeyConstraint | UniqueConstraint)
        for column in constraint.columns
    }
    return [(table.name, column.name) for column in table.columns if column.name not in keys]


VALUES_OF = {table.name: values_of(table) for table in schema.metadata.sorted_tables}
VALUES = list(VALUES_OF.values())


def is_text(table: str, column: str) -> bool:
    """Whether a column has texts."""
    kind = schema.metadata.tables[table].columns[column].type
    return isinstance(kind, String) or isinstance(getattr(kind, "impl", None), String)


NO_UTF_8 = "CAST(x'ff41' AS TEXT)"
TEXTS = [[one for one in values if is_text(*one)] for values in VALUES]


# A column of each table in every run; they meet a value of another kind.
@pytest.mark.parametrize(
    ("table", "column"),
    daily(
        [one for values in VALUES for one in values], [values[-1] for values in VALUES if values]
    ),
)
def test_a_damaged_value_is_named_and_keeps_nobody_from_the_rest(
    survives: Callable[[str, str, object], None], table: str, column: str
) -> None:
    kind = schema.metadata.tables[table].columns[column].type
    of_another_kind = "junk" if isinstance(kind, LargeBinary | Record) else b"\xff\xfe"
    survives(table, column, of_another_kind)


@pytest.mark.parametrize(
    ("table", "column"),
    daily([one for texts in TEXTS for one in texts], [texts[-1] for texts in TEXTS if texts]),
)
def test_a_text_that_is_not_utf_8_is_named_and_keeps_nobody_from_the_rest(
    survives: Callable[[str, str, object], None], table: str, column: str
) -> None:
    survives(table, column, NO_UTF_8)


WORDS = [
    (table, column)
    for values in VALUES
    for table, column in values
    if isinstance(schema.metadata.tables[table].columns[column].type, Choice)
]


@pytest.mark.parametrize(("table", "column"), daily(WORDS, [("bots", "state"), ("tasks", "state")]))
def test_a_word_that_its_column_does_not_know_is_named_and_keeps_nobody_from_the_rest(
    survives: Callable[[str, str, object], None], table: str, column: str
) -> None:
    survives(table, column, "actve")


OF_A_BOT = [
    (table, column)
    for table, column in [*VALUES_OF["authors"], *VALUES_OF["bots"], *VALUES_OF["bot_versions"]]
    if (table, column) not in [("authors", "role"), ("authors", "state"), ("authors", "created_at")]
    and column != "after_job"  # by which a pairing only counts
]


@pytest.mark.parametrize(
    ("table", "column"), daily(OF_A_BOT, [("bots", "state"), ("authors", "name")])
)
def test_a_bot_that_cannot_be_read_is_left_out_and_the_others_play_on(
    two_seasons: Path, place: Path, monkeypatch: pytest.MonkeyPatch, table: str, column: str
) -> None:
    shutil.copy(two_seasons, place)
    with Store.open(place) as store:
        (anna, *others) = ladder.ids(store)
        store.jobs.add(store.seasons.get("s1"), ladder.rotations([others[0], anna], 2))
    word = "actve" if column == "state" else b"\xff\xfe"
    which = "id = 5" if table == "bot_versions" else "id = 1"  # anna's second version
    damage(place, f"UPDATE {table} SET {column} = ? WHERE {which}", values=(word,))
    monkeypatch.setattr(runner, "in_background", lambda *_, **__: nullcontext())
    with Store.open(place) as store, closing(Patience()) as stop:
        site = a_site(store)
        api = http_api(site.gateway, site.access)
        site.app = with_api(site.app, api, site.access)
        for path in OF_OTHERS:
            assert get(site, path).status == 200, path
        for path in ("/bots/anna", "/api/v1/bots/anna"):
            answer = get(site, path)
            if column != "name":  # by which it is found
                assert answer.status == 500
                assert re.search(rf"since table {table}, row \d is damaged", answer.text), path
        site.gateway.close()
        last = store.ratings.last_seq()
        watcher = TwoGames(stop)
        run_ladder(store, RunRequest(forever=True), lambda *_: InlineWorker(play), watcher, stop)
        assert watcher.games == 2, watcher.troubles
        said = [line for line in watcher.troubles if line.endswith("that bot gets no games")]
        assert len(said) == 1
        assert f"table {table}, row" in said[0]
        (played,) = {
            frozenset(seat.bot for seat in game.seats) - {"ben", "cleo", "dan"}
            for game in store.history.games_after(last, 9)
        }
        assert not played
        quarantined = store.queue.counts(store.seasons.get("s1")).quarantined
        assert quarantined == 2


@pytest.mark.parametrize(
    ("table", "column"), daily(OF_A_BOT, [("bots", "version"), ("authors", "name")])
)
def test_a_tournament_with_an_entrant_that_cannot_be_read_says_which_row_is_damaged(
    two_seasons: Path, place: Path, table: str, column: str
) -> None:
    shutil.copy(two_seasons, place)
    request = TournamentRequest(kind="round-robin", name="open")
    with Store.open(place) as store:
        begin_tournament(store, request, lambda: ladder.SEED, MACHINE)
    which = "id = 5" if table == "bot_versions" else "id = 1"  # anna's second version
    damage(place, f"UPDATE {table} SET {column} = ? WHERE {which}", values=(b"\xff\xfe",))
    with Store.open(place) as store, closing(Stop()) as stop:
        watcher, season = Troubles(), store.seasons.get("open")
        play_begun(store, lambda *_: InlineWorker(play), watcher, stop, season)
        (line,) = [line for line in watcher.troubles if line.startswith("tournament open: ")]
        assert f"table {table}, row" in line
        named = replace(request, bots=("ben", "anna"), name="another")
        if column != "name" or table == "authors":  # by which it is found
            with pytest.raises(StoreDamaged, match=f"table {table}, row"):
                begin_tournament(store, named, lambda: ladder.SEED)


OF_TASKS = [(column, b"\xff\xfe") for _, column in VALUES_OF["tasks"]] + [
    (column, 2**62) for table, column in VALUES_OF["tasks"] if not is_text(table, column)
]


@pytest.mark.parametrize(
    ("column", "value"), daily(OF_TASKS, [("failures", b"\xff\xfe"), ("change", 2**62)])
)
def test_a_game_whose_task_cannot_be_read_is_set_aside(
    run: Run,
    two_seasons: Path,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    column: str,
    value: object,
) -> None:
    shutil.copy(two_seasons, place)
    with Store.open(place) as store:
        store.jobs.add(store.seasons.get("s1"), ladder.rotations(ladder.ids(store), 4))
    first = "(SELECT min(subject) FROM tasks WHERE kind = 'game' AND state = 'queued')"
    where = f"kind = 'game' AND subject = {first}"
    damage(place, f"UPDATE tasks SET {column} = ? WHERE {where}", values=(value,))
    monkeypatch.setattr(runner, "in_background", lambda *_, **__: nullcontext())
    assert run("ladder", "status").status == 0
    with Store.open(place) as store, closing(Patience()) as stop:
        assert re.match(rf"table tasks, row \d+: {column} is", find_damage(store.database)[0])
        watcher = TwoGames(stop)
        run_ladder(store, RunRequest(forever=True), lambda *_: InlineWorker(play), watcher, stop)
        assert watcher.games == 2, watcher.troubles


@pytest.fixture
def survives(
    run: Run,
    two_seasons: Path,
    place: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[str, str, object], None]:
    """Damage a column's newest value: it is named, and pages, commands and a run go on."""

    def damage_and_look(table: str, column: str, value: object) -> None:
        if not damaged(two_seasons, place, table, column, value):
            return
        with closing(sqlite3.connect(place)) as connection:
            ((row,),) = connection.execute(_newest(table))
        monkeypatch.setattr(runner, "in_background", lambda *_, **__: nullcontext())
        with Store.open(place) as store:
            (named, *_) = find_damage(store.database)
            assert named.startswith(f"table {table}, row {row}: {column} is ")
            site = a_site(store)
            api = http_api(site.gateway, site.access)
            site.app = with_api(site.app, api, site.access)
            # The newest seat is ben's.
            others = [
                path.replace("ben", "cleo") if table == "game_seats" else path for path in OF_OTHERS
            ]
            for path in (*PAGES, *others, *(f"/api/v1/{name}" for name in METHODS)):
                caplog.clear()
                status = get(site, path).status
                may_fail = status == 500 and f"table {table}" in caplog.text
                assert status == 200 or (may_fail and path not in others), path
            site.gateway.close()
            # The feed; the newest bot sat in every game, which shows its name.
            fed = [] if (table, column) == ("bots", "name") else [1]
            assert [game.seq for game in store.history.games_after(0, 1)] == fed
            store.comparisons.due()
            for handler in (ANALYSES, CHECKS, COMPARISONS, STEPS):
                handler.queue(store).claim("runner", 60)  # which ended the run, if it raised
        for command in LOOKS:
            done = run("ladder", *command)
            assert done.status == 0 or f"table {table}" in done.out + done.err, command
        with Store.open(place) as store, closing(Patience()) as stop:
            watcher = TwoGames(stop)
            run_ladder(
                store, RunRequest(forever=True), lambda *_: InlineWorker(play), watcher, stop
            )
        assert watcher.games == 2, watcher.troubles

    return damage_and_look


def play(job: Job) -> JobOutcome:
    return FinishedGame(ladder.play(job))


DAMAGE = [
    ("games", "record", b"\xff\xfe", "table games, row 3: record is X'FFFE'"),
    ("games", "record", "{}", "table games, row 3: record is '{}'"),
    ("games", "record", packed(b"\xff\xfe"), "a record is damaged: 'utf-8' codec"),
    ("games", "record", packed(b"[" * 100_000), "game s1-3: the record is wrong: not JSON"),
    ("games", "record", packed(b"1" * 5000), "game s1-3: the record is wrong: not JSON"),
    ("games", "played_at", 2**62, "table games, row 3: played_at is 4611686018427387904"),
    ("games", "seq", 7, "what it refers to is gone"),
    ("game_seats", "mu", "x", "table game_seats, row 12: mu is 'x'"),
    ("game_seats", "version_id", 1, "another version sat there"),
    ("bots", "state", "asleep", "table bots, row 4: state is 'asleep'"),
    ("bots", "version", 9, "table bots, row 4: version is 9, which 'dan' does not have"),
    ("secrets", "scopes", "read all", "table secrets, row 4: scopes is 'read all'"),
    ("tasks", "state", "nonsense", "state is 'nonsense'"),
    ("tasks", "state", "asked", "state is 'asked'"),  # a state of a person's game, not of a check
    ("audit", "kind", "read", "kind is 'read'"),
    ("submissions", "needs_sandbox", 2, "table submissions, row 1: needs_sandbox is 2"),
    ("submissions", "by_machine", 2, "table submissions, row 1: by_machine is 2"),
    ("seasons", "seed", "beef", "season 's1': its name, seed or head is another one"),
    ("seasons", "settings", "{}", "season 's1': a season needs a name"),
    ("ratings", "wins", 40, "wins is 40, the games give"),
]


# Every second one in every run; what a fold finds: tests/ladder/test_store_ratings.py.
@pytest.mark.parametrize(("table", "column", "junk", "words"), daily(DAMAGE, DAMAGE[::2]))
def test_damage_is_named_by_refold(
    run: Run, sound: Path, place: Path, table: str, column: str, junk: object, words: str
) -> None:
    assert damaged(sound, place, table, column, junk)
    done = run("ladder", "refold", "--records")
    assert done.status == 1
    assert words in done.out + done.err
    # A backup looks at everything, but does not re-run the records.
    unseen = "not JSON" in words
    backup = place.with_name("backup.db")
    assert run("ladder", "backup", backup).status == (0 if unseen else 1)
    assert backup.exists() == unseen


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [("tasks", "state", "nonsense"), ("bots", "state", b"out")],
)
def test_what_its_column_forbids_is_named_by_backup_doctor_and_status(
    run: Run, sound: Path, place: Path, table: str, column: str, value: object
) -> None:
    assert damaged(sound, place, table, column, value)
    with closing(sqlite3.connect(place)) as connection:
        ((row,),) = connection.execute(_newest(table))
    words = f"table {table}, row {row}: {column} is "
    for command in (("backup", place.with_name("backup.db")), ("doctor",), ("status",)):
        done = run("ladder", *command)
        assert done.status == 1, command
        assert words in done.out + done.err, command


@pytest.fixture
def flipped(two_seasons: Path, place: Path) -> str:
    """The words on a bit of the record of s1-3 that flipped."""
    with closing(sqlite3.connect(two_seasons)) as connection:
        ((content,),) = connection.execute("SELECT record FROM games WHERE seq = 3")
    middle = len(content) // 2
    changed = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
    assert damaged(two_seasons, place, "games", "record", changed)
    return "table games, row 3: the record of s1-3 is damaged"


def test_a_flipped_bit_in_a_record_is_named_with_its_game(
    run: Run, place: Path, flipped: str
) -> None:
    for command in (("backup", place.with_name("backup.db")), ("doctor",), ("record", "s1-3")):
        done = run("ladder", *command)
        assert done.status == 1, command
        assert flipped in done.out + done.err, command
    listed = run("ladder", "games")
    assert (listed.status, "s1-3" in listed.out) == (0, True)


def test_an_export_leaves_out_a_season_with_a_damaged_record(run: Run, flipped: str) -> None:
    # The chain of a part of its lines could not be followed to the head that somebody kept.
    of_it = run("ladder", "export", "--season", "s1")
    assert (of_it.status, of_it.out) == (1, "")
    assert flipped in one_line(of_it.err)
    of_all = run("ladder", "export")
    assert {json.loads(line)["season"] for line in of_all.out.splitlines()} == {"later"}
    assert (of_all.status, of_all.err) == (1, of_it.err)


def test_an_export_of_results_needs_no_records(run: Run, flipped: str) -> None:
    done = run("ladder", "export", "--csv")
    assert (done.status, done.err) == (0, "")
    assert {row["game_id"] for row in csv.DictReader(done.out.splitlines())} == ALL_GAMES


def test_an_export_of_results_leaves_out_a_damaged_game_and_names_it(
    run: Run, two_seasons: Path, place: Path
) -> None:
    assert damaged(two_seasons, place, "game_seats", "mu", "x")
    done = run("ladder", "export", "--csv")
    assert done.status == 1
    assert "table game_seats, row" in one_line(done.err)
    assert {row["game_id"] for row in csv.DictReader(done.out.splitlines())} == ALL_GAMES - {"s1-3"}


def test_from_afar_a_damaged_record_is_named_and_its_game_listed(
    run: Run, place: Path, flipped: str
) -> None:
    where = flipped[: flipped.index(":")]
    with Store.open(place) as store, served(a_service(store)) as server:
        url = f"http://127.0.0.1:{server.port}"
        for words in (("games",), ("games", "--bot", "ben", "--json"), ("games", "--season", "s1")):
            listed = run("ladder", *words, "--remote", url)
            assert (listed.status, listed.err) == (0, ""), words
            assert "s1-3" in listed.out, words
        done = run("ladder", "record", "s1-3", "--remote", url)
        assert (done.status, done.out) == (1, "")
        assert where in one_line(done.err)
        for name in ("record", "frames"):
            answer = Remote(server).call(name, game_id="s1-3")
            assert (answer.code, where in answer.message) == ("INTERNAL", True), name
            assert Remote(server).call(name, game_id="s1-2").code == OK
        answer = Remote(server).call("export", season="s1")
        assert (answer.code, where in answer.message) == ("INTERNAL", True)
        assert Remote(server).call("export", season="later").code == OK


def test_a_limit_that_no_database_can_take_is_refused(run: Run, sound: Path) -> None:
    assert "--limit" in run("ladder", "games", "--limit", 10**20, "--store", sound).refusal

"""`ladder`: what is asked for comes out of the store, and what cannot be is refused in one line."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import shlex
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from deepsea_arena.seasons import seat_a_begins
from deepsea_cli.ladder import options
from deepsea_cli.output import Column, table
from deepsea_ladder.rating import RatingParameters
from deepsea_ladder.season import BotLimits, PairingSettings, SeasonSettings
from deepsea_ladder.store import Database, Store
from deepsea_ladder.store.schema import REVISION
from deepsea_rules.game import GameRecord, verify
from deepsea_rules.randomness import commitment
from deepsea_rules.ruleset import PRESETS
from helpers import ladder
from helpers.commands import Run, one_line
from helpers.postgres import Postgres


@pytest.fixture(scope="session")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ladder with a season of eight games between four bots, to be copied."""
    return ladder.played(tmp_path_factory.mktemp("pattern") / "ladder.db", crashing={})


@pytest.fixture
def played(place: Path, pattern: Path) -> Path:
    """That ladder, where every command finds it."""
    shutil.copy(pattern, place)
    return place


# Making a ladder


def test_a_ladder_is_made_in_the_users_data_folder(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(options.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    done = run("ladder", "init", "--isolation", "process")
    assert (done.status, done.err) == (0, "")
    assert (tmp_path / "deepsea-referee" / "ladder.db").is_file()
    assert "season main" in run("ladder", "standings").out
    assert "already" in run("ladder", "init", "--isolation", "process").refusal


def test_a_relative_data_folder_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "here")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert options.default_store() == "/home/somebody/.local/share/deepsea-referee/ladder.db"


def test_a_season_takes_in_bots_until_a_time(run: Run, place: Path) -> None:
    assert run("ladder", "init", "--isolation", "process").status == 0
    until = ("--isolation", "process", "--deadline")
    done = run("ladder", "season", "cup", *until, "2101-01-31T18:00+02:00")
    assert done.status == 0
    assert "takes in bots until 2101-01-31 16:00 UTC" in done.out.splitlines()
    with Store.open(place) as store:
        assert store.seasons.get("cup").submissions_until == 4136630400000
    for text, words in (
        ("2101-01-31T18:00", "is no time with its offset"),
        ("2001-01-31T18:00Z", "a deadline is in the future: that time is over"),
    ):
        assert words in run("ladder", "season", "late", *until, text).refusal


def test_a_deadline_is_shown_and_changed(run: Run, played: Path) -> None:
    lasting = "season s1 takes in bots until it is closed\n"
    assert run("ladder", "deadline").out == lasting
    until = "season s1 takes in bots until 2101-01-31 16:00 UTC\n"
    assert run("ladder", "deadline", "2101-01-31T18:00+02:00").out == until
    more = f"{until}  anna-senior may submit until 2101-02-02 18:00 UTC\n"
    late = ("--author", "anna-senior")
    assert run("ladder", "deadline", "2101-02-02T18:00Z", *late).out == more
    assert "takes in bots until 2101-01-31 16:00 UTC" in run("ladder", "standings").out
    status = run("ladder", "status").out
    assert "  anna-senior may submit until 2101-02-02 18:00 UTC" in status.splitlines()
    assert run("ladder", "deadline", "--remove", *late).out == until
    assert run("ladder", "deadline", "--remove").out == lasting
    for words, refusal in (
        (("2101-01-31T18:00Z", "--remove"), "exclude each other"),
        (late, "say until when"),
        (("2101-02-02T18:00Z", "--author", "nobody"), "no author 'nobody'"),
        (("2101-01-31T18:00",), "is no time with its offset"),
    ):
        assert refusal in run("ladder", "deadline", *words).refusal


SENSELESS = (
    *(("--seats", "four"), ("--seats", "7"), ("--clock", "soon"), ("--clock", "0s")),
    *(("--clock", "25h"), ("--beta", "0"), ("--beta", "nan"), ("--rules", "chess")),
)


def test_settings_that_make_no_sense_make_no_ladder_and_no_season(run: Run, place: Path) -> None:
    for words in (*SENSELESS, ("--season", "No Name")):
        assert run("ladder", "init", "--isolation", "process", *words).refusal
    assert not place.exists()
    assert run("ladder", "init", "--isolation", "process").status == 0
    no_game = "  no game can be scheduled: the smallest game needs 4 bots of different authors"
    assert no_game in run("ladder", "status").out
    for words in SENSELESS:
        assert run("ladder", "season", "other", *words).refusal
    with Store.open(place) as store:
        assert [season.name for season in store.seasons.all()] == ["main"]


def test_every_setting_can_be_reached_from_a_file_or_from_options(
    run: Run, place: Path, tmp_path: Path
) -> None:
    file = tmp_path / "winter.toml"
    file.write_text(
        """
        name = "winter"
        seats = [2, 3]
        packages = ["click", "numpy==1.0"]
        [verdicts]
        panel = ["gold"]
        [limits]
        memory_mib = 256
        processes = 8
        [pairing]
        same_author = true
        patience = 2.5
        """
    )
    done = run(
        *(
            "ladder",
            "init",
            "--isolation",
            "process",
            "--settings",
            file,
            "--former-versions",
            "--seats",
            4,
        ),
        *("--memory", 300, "--best-of-author", "--rules", "guide", "--clock", "0.05s", "--beta", 8),
    )
    assert (done.status, done.err) == (0, "")
    with Store.open(place) as store:
        (stored,) = store.seasons.all()
    season = stored.settings
    assert (season.name, season.seats, season.packages) == ("winter", (4,), ("click", "numpy==1.0"))
    assert (season.rules, season.clock) == (seat_a_begins(PRESETS["guide"]), "50ms")
    assert (season.isolation, season.rating) == ("process", RatingParameters(beta=8.0))
    assert season.limits == BotLimits(memory_mib=300, processes=8)
    assert season.pairing == PairingSettings(same_author=True, former_versions=True, patience=2.5)
    for text in (done.out, run("ladder", "status").out):
        for words in (
            "bots of one author meet",
            "former versions play on",
            "the standings have the best bot of each author",
            "a bot may take 300 MiB and 8 processes",
            "its bots may count on click, numpy==1.0",
            "note: not installed here: numpy==1.0",
        ):
            assert words in text, words
    unknown = "  no bot has the name 'gold', which is in its [verdicts] panel"
    assert unknown in run("ladder", "status").out
    with Store.open(place) as store:
        ladder.submit(store, "Gold")
    assert unknown not in run("ladder", "status").out
    assert run("ladder", "season", "next", "--settings", file, "--packages", "click").status == 0
    with Store.open(place) as store:
        assert store.seasons.get("next").settings.packages == ("click",)


def test_a_file_of_settings_that_makes_no_sense_is_refused_by_name(
    run: Run, place: Path, tmp_path: Path
) -> None:
    # What else makes no sense in it: tests/ladder/test_season.py.
    file = tmp_path / "s.toml"
    for text, words in (("seat = [4]", "seat; did you mean seats?"), ("[", "no TOML")):
        file.write_text(text)
        line = run("ladder", "init", "--isolation", "process", "--settings", file).refusal
        assert line.startswith(f"deepsea-referee: {file}: ")
        assert words in line
    assert not place.exists()


def test_without_a_ladder_every_command_says_how_to_make_one(run: Run, place: Path) -> None:
    for words in (["standings"], ["status"], ["run"], ["games"], ["backup", place / "b"]):
        assert "ladder init" in run("ladder", *words).refusal


def test_no_command_shows_the_password_of_a_database(run: Run, postgres: Postgres) -> None:
    url = f"{postgres.url(postgres.new_database())}&password=hunter2"
    for words in ("init", "status", "status --json", "doctor", "doctor --json", "upgrade", "init"):
        done = run("ladder", *words.split(), "--store", url)
        assert not re.findall("hunter2|Traceback", done.out + done.err), words
        assert re.findall(r"postgresql:/*\S+/ladder\d", done.out + done.err), words


@pytest.mark.parametrize("url", ["postgresql://a:hunter2@h:x/y", "postgresql//a:hun\x01ter2@h/y"])
@pytest.mark.parametrize("words", ["ladder status", "ladder init", "ladder run", "ladder serve"])
def test_a_mistyped_url_is_shown_by_no_command(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: str, url: str
) -> None:
    assert not re.findall("hun|ter2", run(*words.split(), "--store", url).refusal)
    monkeypatch.setenv(options.VARIABLE, url)
    assert not re.findall("hun|ter2", run(*words.split()).refusal)


def test_ladder_alone_prints_its_help(run: Run) -> None:
    assert (done := run("ladder")).status == 2
    assert "standings" in done.err


def test_another_season_and_the_end_of_one(run: Run, played: Path) -> None:
    assert run("ladder", "season", "s2", "--isolation", "process").status == 0
    assert "s1, s2" in run("ladder", "standings").refusal
    closed = run("ladder", "close", "s1")
    assert ladder.SEED.hex() in closed.out
    assert closed.out.startswith("season s1, closed: 8 games")
    table = run("ladder", "standings", "--season", "s1").out
    assert closed.out.startswith(table.partition("head 8: ")[0])
    first, second = (line.split()[1] for line in table.splitlines()[3:5])
    assert re.search(
        rf"^{first} v1 wins season s1, better than {second} v1 with a probability of \d+ %$",
        closed.out,
        re.M,
    )
    nobody = run("ladder", "close", "s2").out
    assert "nobody wins season s2" in nobody
    assert run("ladder", "season", "s3", "--isolation", "process").status == 0
    assert run("ladder", "standings").out.startswith("season s3: 0 games")
    assert run("ladder", "standings", "--season", "s1").out.startswith("season s1, closed: 8 games")
    with Store.open(played) as store:
        assert store.seasons.get("s1").commitment == commitment(ladder.SEED)


# Submitting without playing


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "bot.toml"),
        ({"bot.toml": 'command = ["python3", "none.py"]'}, "no such file"),
        ({"bot.toml": "command = 3"}, "command"),
    ],
)
def test_what_is_no_bot_is_refused_with_the_reason(
    run: Run, played: Path, tmp_path: Path, files: dict[str, str], words: str
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    assert words in run("ladder", "submit", folder, "--author", "me").refusal


NO_TIME = "is no time with its offset, such as 2027-01-31T18:00Z"
TWO_GOALS = "--games excludes --until and --forever"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("submit greedy", "--author"),
        ("submit greedy --name <b> --author me", "name"),
        ("submit greedy --author anna-v2", "the author's name 'anna-v2' ends like a version"),
        (
            "submit 'cmd:node x' --author me",
            "a command on this machine, and the ladder plays files",
        ),
        ("run --games 3 --forever", TWO_GOALS),
        ("run --games 3 --until settled", TWO_GOALS),
        ("run --until soon", f"'soon' {NO_TIME}"),
        ("serve --until soon", f"'soon' {NO_TIME}"),
        ("serve --no-run --until settled", "--no-run starts none"),
        ("run --until tomorrow", f"'tomorrow' {NO_TIME}"),
        ("run --until 2100-01-01T18:00", f"T18:00' {NO_TIME}"),
        ("games --lost", "--bot"),
    ],
)
def test_what_makes_no_sense_is_refused(run: Run, played: Path, words: str, said: str) -> None:
    assert said in run("ladder", *shlex.split(words)).refusal


def test_bots_are_taken_out_and_come_back(run: Run, played: Path) -> None:
    assert "anna is withdrawn" in run("ladder", "withdraw", "Anna").out
    assert (
        "ben is disabled: too loud" in run("ladder", "disable", "ben", "--reason", "too loud").out
    )
    out = run("ladder", "standings").out
    assert "not shown: 2 bots taken out" in out
    assert "anna" not in out
    assert "anna" in run("ladder", "standings", "--all").out
    assert "too loud" in run("ladder", "bot", "ben").out
    assert "too loud" in run("ladder", "status").out
    assert "anna is active" in run("ladder", "disable", "--undo", "anna").out
    assert run("ladder", "disable", "--undo", "nobody").status == 2
    for arguments in ([], ["--undo", "--reason", "x"]):
        assert run("ladder", "disable", "anna", *arguments).status == 2


def test_a_run_without_enough_bots_says_so(run: Run, place: Path) -> None:
    run("ladder", "init", "--isolation", "process")
    assert "submit more" in run("ladder", "run", "--games", 1).refusal


def test_the_status_says_which_season_is_played_and_which_one_pages_show(
    run: Run, played: Path
) -> None:
    line = "pages show season s2, but games of s1 are played"
    assert run("ladder", "season", "s2", "--isolation", "process").status == 0
    assert line not in run("ladder", "status").out
    with Store.open(played) as store:
        season = store.seasons.get("s1")
        store.jobs.add(season, ladder.rotations(ladder.ids(store), 1))
        ladder.claim(store, season)
    assert line in run("ladder", "status").out.splitlines()
    found = json.loads(run("ladder", "status", "--json").out)
    assert (found["shown"], found["played"]) == ("s2", ["s1"])


def test_a_season_is_paused_and_resumed(run: Run, played: Path) -> None:
    paused = "season s1 is paused: no game is started until `pause --undo`\n"
    assert run("ladder", "pause").out == paused
    assert run("ladder", "pause", "s1").out == paused
    assert run("ladder", "standings").out.startswith("season s1, paused: 8 games, ")
    assert "season s1, paused: 8 games played" in run("ladder", "status").out
    assert run("ladder", "pause", "--undo", "s1").out == "season s1 is played\n"
    assert run("ladder", "standings").out.startswith("season s1: 8 games, ")
    assert "there is no season 's2'; there are s1" in run("ladder", "pause", "s2").refusal


# Looking


def test_standings_are_a_table_json_and_csv(run: Run, played: Path) -> None:
    done = run("ladder", "standings")
    lines = done.out.splitlines()
    assert lines[0].startswith("season s1: 8 games, rules 'manual', clock 100ms+2s")
    assert lines[2].split()[:2] == ["rank", "bot"]
    assert [line.split()[0] for line in lines[3:7]] == ["1", "2", "3", "4"]
    assert lines[7:-1] == [""]
    assert lines[-1].startswith("head 8: ")
    document = json.loads(run("ladder", "standings", "--json").out)
    assert (document["season"]["name"], document["games"]) == ("s1", 8)
    rows = list(csv.DictReader(io.StringIO(run("ladder", "standings", "--csv").out)))
    assert [row["bot"] for row in rows] == [row["bot"] for row in document["standings"]]
    ratings = [row["rating"] for row in document["standings"]]
    assert [float(row["rating"]) for row in rows] == ratings == sorted(ratings, reverse=True)
    assert run("ladder", "standings", "--json", "--csv").status == 2


@pytest.mark.parametrize("columns", [60, 80, 130])
def test_everything_fits_its_width(
    run: Run, played: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for words in (["standings"], ["bot", "anna"], ["games"]):
        done = run("ladder", *words)
        assert done.status == 0
        # A head is to be copied whole.
        around = ("season", "head")
        table_lines = [line for line in done.out.splitlines() if not line.startswith(around)]
        assert max(map(len, table_lines)) <= columns


def test_a_table_gives_up_columns_before_names_and_names_before_numbers() -> None:
    columns = [
        Column("bot", ["a bot with a long name"], text=True),
        Column("rating", ["-12.3"]),
        Column("games", ["1000000"], spare=1),
        Column("author", ["somebody else"], text=True, spare=2),
    ]

    def line(room: int) -> str:
        return table(columns, room)[1]

    assert line(80) == "a bot with a long name   -12.3  1000000  somebody else"
    assert line(46) == "a bot with a…   -12.3  1000000  somebody else"
    assert line(40) == "a bot with a long name   -12.3  1000000"
    assert line(24) == "a bot with a lo…   -12.3"
    assert line(5) == "a bot w…   -12.3"


def test_a_bot_is_shown_with_its_course_rivals_seats_and_faults(
    run: Run, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ladder.created(place) as store:
        season = ladder.stocked(store)
        store.jobs.add(season, ladder.rotations(ladder.ids(store), 4))
        ladder.play_all(store, season, {"s1-2": ["ben"], "s1-4": ["ben"]})
    out = run("ladder", "bot", "ben").out
    assert "ben by ben-senior is active" in out
    assert "after game" in out
    assert "faults in 2 games; `ladder record GAME`" in out
    assert "s1-2 seat A, decision 1: crash: its process ended; it forfeited" in out
    assert run("ladder", "bot", "anna").out.endswith("no faults\n")
    monkeypatch.setattr("deepsea_cli.ladder.standings.FAULTY", 1)
    out = run("ladder", "bot", "ben").out
    assert "faults in 2 games, the newest 1 of them;" in out
    assert "s1-2 seat" not in out


def test_games_and_records_are_printed(run: Run, played: Path) -> None:
    lines = run("ladder", "games", "--limit", 3).out.splitlines()
    assert [line.split()[0] for line in lines] == ["game", "s1-8", "s1-7", "s1-6"]
    assert "anna" in lines[1]
    assert run("ladder", "games", "--faults").out.split() == ["game", "played", "result"]
    record = GameRecord.from_json(run("ladder", "record", "s1-3").out)
    verify(record)
    assert record.game_id == "s1-3"
    unknown = run("ladder", "record", "s1-99")
    assert unknown.status == 2


def test_an_export_is_verified_with_a_head_that_was_shown(
    run: Run, played: Path, tmp_path: Path
) -> None:
    with Store.open(played) as store:
        season = store.seasons.get("s1")
    shown = f"head 8: {season.head}"
    for words in (("status",), ("close", "s1")):
        assert shown in run("ladder", *words).out
    assert json.loads(run("ladder", "standings", "--json").out)["season"]["head"] == season.head
    export = tmp_path / "export.jsonl"
    export.write_text(run("ladder", "export").out, encoding="utf-8")
    done = run("verify", "--chain", export, season.head)
    assert (done.status, done.err) == (0, "")
    assert "s1: 8 games, 0 attempts without a result" in done.out
    assert "the head is that of place 8 of 8 in season s1" in done.out
    assert "place 0 of 8" in run("verify", "--chain", export, season.commitment).out
    alone = run("verify", "--chain", export)
    assert (alone.status, f"head 8 is {season.head}" in alone.out) == (0, True)
    done = run("verify", "--chain", export, "00" * 32)
    assert (done.status, "is not in it" in done.out) == (1, True)
    lines = export.read_text(encoding="utf-8").splitlines(keepends=True)
    export.write_text("".join(lines[:4] + lines[5:]), encoding="utf-8")
    done = run("verify", "--chain", export, season.head)
    assert (done.status, "line 5: place 5 follows on 3" in done.out) == (1, True)
    export.write_bytes(b"\xff")
    for file in (export, tmp_path, tmp_path / "nothing"):
        done = run("verify", "--chain", file, season.head)
        assert done.status in (1, 2)
        assert str(file) in one_line(done.err)
    assert run("verify").status == run("verify", "--chain", export, "00", "x.json").status == 2
    assert "does not exist" in run("verify", "--chain", export.with_name("none")).refusal


def test_an_export_is_verified_as_it_was_packed(run: Run, played: Path, tmp_path: Path) -> None:
    with Store.open(played) as store:
        head = store.seasons.get("s1").head
    export = tmp_path / "export.jsonl.gz"
    text = run("ladder", "export").out.encode()
    export.write_bytes(packed := gzip.compress(text))
    assert run("verify", "--chain", export, head).status == 0
    export.write_bytes(packed[:-100])
    assert str(export) in run("verify", "--chain", export, head).refusal
    export.write_bytes(gzip.compress(text.replace(b'"points": ', b'"points": 1', 1)))
    changed = run("verify", "--chain", export, head)
    assert (changed.status, "place 1: its head" in changed.out) == (1, True)


def test_versions_of_a_bot_that_play_at_one_table_are_told_apart(
    run: Run, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairing = PairingSettings(same_author=True, former_versions=True)
    with ladder.created(place) as store:
        for number in range(2):
            ladder.submit(store, "anna", f"try {number}")
        season = store.seasons.open(SeasonSettings("s1", seats=(2,), pairing=pairing), ladder.SEED)
        first, second = (version.id for version in store.bots.versions("anna"))
        store.jobs.add(season, ladder.rotations([first, second], 2))
        ladder.play_all(store, season)
    lines = run("ladder", "games").out.splitlines()
    assert all("anna v1" in line and "anna v2" in line for line in lines[1:])
    monkeypatch.setenv("COLUMNS", "40")
    assert run("ladder", "standings").out.splitlines()[2].split()[:3] == ["rank", "bot", "ver"]
    assert "anna v" in run("ladder", "close", "s1").out.splitlines()[-2]


def test_a_refold_agrees_or_says_where_not(run: Run, played: Path) -> None:
    done = run("ladder", "refold", "--check", "--records")
    assert (done.status, done.err) == (0, "")
    assert done.out == "season s1: 8 games, the same to the last bit, every record played again\n"
    with Store.open(played) as store, store.database.write() as connection:
        connection.exec_driver_sql("UPDATE ratings SET wins = wins + 1 WHERE version_id = 1")
    done = run("ladder", "refold")
    assert done.status == 1
    assert "wins" in done.out
    assert run("ladder", "refold", "--rewrite").status == 0
    assert run("ladder", "refold").status == 0
    assert run("ladder", "refold", "--rewrite", "--check").status == 2


def test_an_audit_compares_with_the_package(run: Run, played: Path) -> None:
    done = run("ladder", "refold", "--trueskill")
    assert (done.status, done.err) == (0, "")
    found = re.fullmatch(
        r"season s1: 8 games, as the package trueskill rates them; largest difference "
        r"(\S+)( after game \d)?, rounding explains 1e-06\n",
        done.out.replace("\n", " ", done.out.count("\n") - 1),
    )
    assert found
    assert float(found[1]) < 1e-9
    assert run("ladder", "refold", "--trueskill", "--rewrite").status == 2


def test_status_tells_what_waits_and_what_is_stuck(run: Run, played: Path) -> None:
    with Store.open(played) as store:
        season = store.seasons.get("s1")
        store.jobs.add(season, ladder.rotations(ladder.ids(store), 2))
        for _ in range(5):
            store.jobs.fail(ladder.claim(store, season), "no luck")
        ladder.claim(store, season, "somebody")
    out = run("ladder", "status").out
    assert "s1-10 is played by somebody" in out
    assert "s1-9 failed 5 times, last: no luck" in out
    assert run("ladder", "requeue", "s1-9").out == "s1-9 is queued again\n"
    assert run("ladder", "requeue", "s1-9").status == 2
    assert run("ladder", "requeue", "--all").out == "0 games will be tried again\n"
    for arguments in ([], ["s1-9", "--all"], ["s1-9", "--run", "x"]):
        assert run("ladder", "requeue", *arguments).status == 2


def test_status_says_what_is_to_be_done(
    run: Run, played: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    due, old = "no backup lately", "the last backup is 9 days old"
    stalled, full = "no runner does what waits", "no room for a backup"

    def said() -> set[str]:
        out = run("ladder", "status").out
        return {line for line in (due, old, stalled, full) if line in out}

    assert said() == {due}
    assert run("ladder", "backup", tmp_path / "copy.db").status == 0
    assert said() == set()
    with Store.open(played) as store:
        store.jobs.add(store.seasons.get("s1"), ladder.rotations(ladder.ids(store), 2))
        with store.database.write() as connection:
            days = "UPDATE audit SET at = at - 9 * 86400000 WHERE kind = 'backup'"
            connection.exec_driver_sql(days)
    monkeypatch.setattr(Database, "free_bytes", lambda _: 1000)
    assert said() == {old, stalled, full}
    rests = "the runner a/1/2 rests: season s1 is not played on: its order is settled"
    with Store.open(played) as store:
        store.tasks.note_rest("a/1/2", rests.partition(" rests: ")[2], 60)
    assert said() == {old, full}
    assert f"\n{rests}\n" in run("ladder", "status").out
    assert rests in run("ladder", "doctor").out


def test_leases_are_released_by_the_name_of_the_run(run: Run, played: Path) -> None:
    with Store.open(played) as store:
        season = store.seasons.get("s1")
        store.jobs.add(season, ladder.rotations(ladder.ids(store), 2))
        job = ladder.claim(store, season, "elsewhere/1/2/3")
    assert "is played by elsewhere/1/2/3" in run("ladder", "status").out
    assert run("ladder", "requeue", "--run", "elsewhere").status == 2
    assert run("ladder", "requeue", "--run", job.owner).out == "1 task will be done again\n"


def test_a_former_version_does_not_come_back_because_a_season_is_closed(
    run: Run, played: Path
) -> None:
    with Store.open(played) as store:
        ladder.submit(store, "anna", "better")
    done = run("ladder", "close", "s1")
    assert (done.status, done.err) == (1, "")
    assert done.out.splitlines() == [
        "season s1 takes in no more bots, and is not closed yet:",
        "  anna: its present version has not played 12 games, and a former one has played",
        "let a run play, and repeat the command; with --at-once former versions keep their ranks",
    ]
    with Store.open(played) as store:
        assert store.seasons.get("s1").closed_at is None
        season = store.seasons.get("s1")
        store.jobs.add(season, ladder.rotations(ladder.ids(store), 12))
        assert run("ladder", "close", "s1").status == 1
        ladder.play_all(store, season)
    table = run("ladder", "close", "s1")
    assert table.status == 0
    (anna,) = (line.split() for line in table.out.splitlines()[3:7] if "anna" in line)
    assert anna[2] == "2"


def test_backups_are_restored_and_verified(run: Run, played: Path, tmp_path: Path) -> None:
    copy, again = tmp_path / "copy.db", tmp_path / "again.db"
    assert "8 games" in run("ladder", "backup", copy).out
    assert run("ladder", "restore", copy, "--dry-run", "--store", again).status == 0
    assert not again.exists()
    done = run("ladder", "restore", copy, "--verify", "--store", again)
    assert "every record played again" in done.out
    standings = [run("ladder", "standings", "--json", "--store", s).out for s in (played, again)]
    assert standings[0] == standings[1]
    assert run("ladder", "restore", copy, "--store", again).status == 2
    with Store.open(again) as store, store.database.write() as connection:
        connection.exec_driver_sql("UPDATE ratings SET wins = wins + 1 WHERE version_id = 1")
    third = tmp_path / "third.db"
    damaged = run("ladder", "restore", again, "--verify", "--store", third)
    assert damaged.status == 1
    assert run("ladder", "restore", again, "--store", third).status == 1
    assert not third.exists()


def test_a_ladder_of_this_program_needs_no_upgrade(run: Run, played: Path) -> None:
    done = run("ladder", "upgrade")
    assert (done.status, done.out) == (
        0,
        f"{played} has this program's schema {REVISION} already\n",
    )
    assert run("ladder", "refold").status == 0


@pytest.mark.parametrize(
    "command",
    [
        *("run", "serve --port 0", "upgrade", "standings", "status", "doctor", "refold --records"),
        *("season s2", "submissions Ada", "backup copy.db", "restore ladder.db --store new.db"),
    ],
)
def test_a_ladder_from_before_the_first_release_is_refused_in_a_line_and_stays(
    run: Run, played: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(played.parent)
    with closing(sqlite3.connect(played)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0007'")
        connection.commit()
    before = played.read_bytes()
    line = run("ladder", *command.split()).refusal
    assert f"ladder at {played.name if 'restore' in command else played} has the schema" in line
    assert "0007, which this program does not know" in line
    assert played.read_bytes() == before


@pytest.mark.needs("bubblewrap")
def test_a_ladder_without_a_table_is_called_damaged(run: Run, played: Path) -> None:
    with closing(sqlite3.connect(played)) as connection:
        connection.execute("DROP TABLE job_seats")
        connection.commit()
    done = run("ladder", "run", "--games", 1)
    assert (done.status, done.out) == (1, "")
    *lines_before, last_line = done.err.splitlines()
    assert "a table or a column of it is missing; restore a backup" in last_line
    # On some machines only.
    assert all("no control groups here" in line for line in lines_before)


def test_the_course_of_a_rating_is_drawn_to_a_file(played: Path, run: Run, tmp_path: Path) -> None:
    done = run("ladder", "bot", "anna", "--plot", tmp_path / "anna.svg")
    assert done.out.splitlines()[-1] == f"plots: {tmp_path / 'anna.svg'}"
    text = (tmp_path / "anna.svg").read_text(encoding="utf-8")
    assert "anna: after 8 rated games its rating is" in text
    json.loads(run("ladder", "bot", "anna", "--json", "--plot", tmp_path / "a.html").out)
    assert "<script" not in (tmp_path / "a.html").read_text(encoding="utf-8")
    done = run("ladder", "bot", "nobody", "--plot", tmp_path / "anna.png")
    assert "the name has to end in .svg or .html" in done.refusal
    assert run("ladder", "bot", "nobody", "--plot", tmp_path / "b.svg").status == 2
    assert not (tmp_path / "b.svg").exists()

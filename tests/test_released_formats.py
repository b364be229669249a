"""Files of each release are read for ever: tests/data has a folder for each version.

    PYTHONPATH=tests python tests/test_released_formats.py --write 1.0

writes the folder of a release, once; later only if a format has got a new version. A folder has

    match/        what `match --out` wrote: records with faults and notes, results.json, bots.json
    records/      a record for each preset
    protocol.txt  the messages of a seat's game in hex, each below its lines: from the referee (>)
                  and from a bot (<)
    ladder.sql    a ladder with something in every table, as SQLite's statements
    openapi.json  the ladder's API

Invariant: nothing that a reader of a former version finds is missing or means something else; more
may be there.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import chdir, closing
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from google.protobuf.json_format import MessageToDict
from google.protobuf.unknown_fields import UnknownFieldSet

from deepsea_arena.api.openapi import openapi
from deepsea_ladder.accounts import MACHINE
from deepsea_ladder.store import Database, Store, migrate, schema
from deepsea_rules.faults import Fault
from deepsea_rules.game import Game, GameRecord, verify
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import PRESETS
from deepsea_sdk import wire
from deepsea_sdk._pb import play_pb2 as pb
from deepsea_sdk.bot import Note
from deepsea_sdk.wire.lines import lines_of
from helpers import full_ladder
from helpers.commands import Run, called
from helpers.scripted import end_of, request_of, start_of

DATA = Path(__file__).with_name("data")
VERSIONS = sorted(folder.name for folder in DATA.iterdir()) if DATA.is_dir() else []
SEATS = 3
DAY_MS = 86_400_000
NOTING = """
from deepsea_sdk import Bot, View, run

class Noting(Bot):
    def decide(self, view: View) -> str:
        self.note("air", view.air)
        if view.dive == 2 and view.air < 20:
            raise RuntimeError("no air")
        return view.legal[-1]

run(Noting)
"""


def chosen(number: int, legal: tuple[str, ...]) -> str:
    """The decision with this number: the same on every machine."""
    return legal[hashlib.sha256(f"released/{number}".encode()).digest()[0] % len(legal)]


def played(preset: str) -> Game:
    """A game of three seats, with two faults."""
    game = Game(PRESETS[preset], SEATS, seed_from_text(f"released {preset}"))
    while (question := game.pending()) is not None:
        number = len(game.decisions)
        if number in (5, 11):
            game.decide(None, us=2_100_000, fault=Fault.TIMEOUT, came="no answer")
        else:
            game.decide(chosen(number, question.legal))
    return game


def answer(action: str) -> pb.PlayRequest:
    """A bot's message with one decision and a note."""
    message = pb.PlayRequest()
    note = Note("near home", {"chance": 0.5})
    wire.decision_to_wire((7, action, None, note), message.decisions.add())
    return message


def messages() -> Iterator[tuple[str, bytes]]:
    """The messages of seat B of a game, each with the side that sent it."""
    game = Game(PRESETS["revised"], SEATS, seed_from_text("released messages"))
    yield "<", wire.hello_to_wire("token", ["no_events"]).SerializeToString(deterministic=True)
    yield ">", wire.welcome_message()
    start = pb.PlayResponse(starts=[start_of(game, "game-1", 1)])
    yield ">", start.SerializeToString(deterministic=True)
    told = 0
    while (question := game.pending()) is not None:
        action = chosen(len(game.decisions), question.legal)
        if question.seat == 1:
            request = pb.PlayResponse(requests=[request_of(game, "game-1", 7, told)])
            yield ">", request.SerializeToString(deterministic=True)
            told = len(game.events)
            yield "<", answer(action).SerializeToString(deterministic=True)
        game.decide(action)
    yield ">", wire.result_message(end_of(game, "game-1", 1), game.events)
    yield ">", wire.void_message("game-2")
    yield ">", wire.goodbye_message("the match is over")


def noted_match(run: Run) -> int:
    """Play the match of a release in the current folder; returns the exit status."""
    Path("noting.py").write_text(NOTING.lstrip(), encoding="utf-8")
    words = ("--games", 3, "--seed", "released", "--in-process", "--clock", "60s")
    return run("match", "noting.py", "greedy", "random", *words, "--out", "match").status


def write(folder: Path) -> None:
    """Write the files of a release into a folder that is not there yet."""
    (folder / "records").mkdir(parents=True)
    for preset in PRESETS:
        seats = [(f"bot {seat}", "ab" * 32) for seat in range(SEATS)]
        record = GameRecord.of(played(preset), game_id=preset, clock="100ms+2s", seats=seats)
        (folder / "records" / f"{preset}.json").write_text(record.to_json(), encoding="utf-8")
    with tempfile.TemporaryDirectory() as name, chdir(name):
        assert noted_match(called) == 0
        shutil.copytree("match", folder / "match")
        for path in (folder / "match").iterdir():
            text = path.read_text(encoding="utf-8")
            path.write_text(text.replace(name, "/home/author"), encoding="utf-8")
        full_ladder.stock(Path("ladder.db"), full_ladder.StoreClock())
        with Store.open("ladder.db") as store:
            deadline_ms = (store.seasons.get("main").submissions_until or 0) + DAY_MS
            store.seasons.extend("main", "anna-senior", deadline_ms, MACHINE)
            store.settings.change("submissions_per_day", 7, MACHINE)
        with closing(sqlite3.connect("ladder.db")) as connection:
            statements = "\n".join(connection.iterdump())
    (folder / "ladder.sql").write_text(f"{statements}\n", encoding="utf-8")
    with (folder / "protocol.txt").open("w", encoding="utf-8") as exchange:
        for side, data in messages():
            lines = lines_of(data)[0].decode() if side == ">" else ""
            exchange.write(f"{lines}{side} {data.hex()}\n")
    document = json.dumps(openapi(), indent=1, sort_keys=True)
    (folder / "openapi.json").write_text(f"{document}\n", encoding="utf-8")


def lost(old: Any, new: Any, where: str = "") -> list[str]:
    """Places of JSON values in `old` that `new` lacks or has otherwise; new keys do no harm."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [
            place
            for key, value in old.items()
            for place in (
                lost(value, new[key], f"{where}/{key}") if key in new else [f"{where}/{key}"]
            )
        ]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return [place for at, (was, now) in pairs for place in lost(was, now, f"{where}/{at}")]
    return [] if old == new else [where]


def keyed(value: Any) -> Any:
    """A document of an API without its texts, its lists as objects: their order means nothing."""
    if isinstance(value, dict):
        texts = {"description", "summary", "title", "version"}
        return {
            key: keyed(part)
            for key, part in value.items()
            if not (key in texts and isinstance(part, str))
        }
    if isinstance(value, list):
        parts = map(keyed, value)
        return {
            part.get("name", json.dumps(part, sort_keys=True))
            if isinstance(part, dict)
            else str(part): part
            for part in parts
        }
    return value


@pytest.fixture(params=VERSIONS)
def folder(request: pytest.FixtureRequest) -> Path:
    """The files of a release."""
    return DATA / str(request.param)


def test_records_are_read_and_play_again(folder: Path) -> None:
    paths = sorted((folder / "records").glob("*.json"))
    assert {path.stem for path in paths} >= {"guide", "manual", "reference", "revised"}
    for path in (*paths, *sorted((folder / "match").glob("game-*.json"))):
        text = path.read_text(encoding="utf-8")
        record = GameRecord.from_json(text)
        verify(record)
        assert path not in paths or any(decision.fault for decision in record.decisions)
        assert lost(json.loads(text), json.loads(record.to_json())) == []


def test_a_folder_of_results_is_read(folder: Path, run: Run) -> None:
    results = folder / "match" / "results.json"
    games = json.loads(results.read_text(encoding="utf-8"))["games"]
    assert len(games) == 3
    shown = run("show", folder / "match" / "game-0002.json", "--turn", "5")
    assert shown.status == 0, shown
    verified = run("verify", *sorted((folder / "match").glob("game-*.json")))
    assert verified.status == 0, verified


def test_results_have_what_they_had(
    folder: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same match of today says all that the released results say."""
    monkeypatch.chdir(tmp_path)
    assert noted_match(run) == 0
    old, new = (
        json.loads((place / "match" / "results.json").read_text(encoding="utf-8"))
        for place in (folder, tmp_path)
    )
    for results in (old, new):
        for row in results["bots"]:
            row["median_us"] = row["slowest_us"] = 0
        for game in results["games"]:
            for fault in game["faults"]:
                fault["us"] = 0
    assert lost(old, new) == []


def test_messages_say_what_they_said(folder: Path) -> None:
    lines: list[str] = []
    now = messages()
    for line in (folder / "protocol.txt").read_text(encoding="utf-8").splitlines():
        if line[0] not in "<>":
            lines.append(line)
            continue
        side, data = line[0], bytes.fromhex(line[2:])
        now_side, now_data = next(now)
        assert side == now_side
        kind = pb.PlayRequest if side == "<" else pb.PlayResponse
        old, new = kind.FromString(data), kind.FromString(now_data)
        assert not UnknownFieldSet(old)
        assert old.SerializeToString(deterministic=True) == data or side == ">"
        for message in (old, new):
            # They name the version of the program.
            if isinstance(message, pb.PlayRequest):
                message.hello.sdk = ""
            else:
                message.welcome.referee = ""
        assert lost(MessageToDict(old), MessageToDict(new)) == []
        if side == ">":
            told = lines_of(data)[0].decode().splitlines()
            pairs = zip(map(json.loads, lines), map(json.loads, told), strict=True)
            assert [place for pair in pairs for place in lost(*pair)] == []
            lines.clear()
    assert next(now, None) is None


def test_a_ladder_is_brought_up_and_lacks_nothing(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "ladder.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript((folder / "ladder.sql").read_text(encoding="utf-8"))
        tables = schema.metadata.tables
        counts = {
            name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            if name in tables
        }
    assert all(counts.values()), [name for name, count in counts.items() if not count]
    database = Database(str(file))
    former = migrate.upgrade(database)
    migrate.check(database)
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, schema.metadata) == []
    database.close()
    Store.create(tmp_path / "new.db").close()
    # Tables that were released are changed by a script, under another revision.
    assert former != schema.REVISION or made_by(file) == made_by(tmp_path / "new.db")
    with Store.open(file) as store:
        for season in store.seasons.all():
            assert store.ratings.differences(season, records=True) == []


def made_by(ladder: Path) -> list[tuple[str, str]]:
    """Return the statements that made the tables and indexes of a ladder, each with its name."""
    query = "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name"
    with closing(sqlite3.connect(ladder)) as connection:
        return connection.execute(query).fetchall()


def test_programs_that_ask_the_api_find_what_they_found(folder: Path) -> None:
    old = json.loads((folder / "openapi.json").read_text(encoding="utf-8"))
    new = json.loads(json.dumps(openapi()))
    assert lost(keyed(old), keyed(new)) == []
    for path, operations in old["paths"].items():
        for verb, operation in operations.items():
            known = {parameter["name"] for parameter in operation["parameters"]}
            added = new["paths"][path][verb]["parameters"]
            assert not [one for one in added if one.get("required") and one["name"] not in known]


def main() -> None:
    """Write the files of a release."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", metavar="VERSION", required=True)
    write(DATA / parser.parse_args().write)


if __name__ == "__main__":
    main()

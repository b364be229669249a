"""JSON of the arena's dataclasses: any reader gets every value, and the same one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from typing import Any, Literal, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepsea_arena.bots import BotProfile, bot_profile
from deepsea_arena.documents import (
    LARGEST_EXACT,
    DocumentError,
    csv_lines,
    json_text,
    read_json,
    to_json,
    to_object,
)
from deepsea_arena.games import GamesPage, newest_games
from deepsea_arena.standings import Standings, show_standings
from deepsea_ladder.model import BotState, Int64, Time, utc_time
from deepsea_ladder.store import Store

CYPRUS = timezone(timedelta(hours=2))


class State(StrEnum):
    """A state."""

    ACTIVE = "active"


class Seat(NamedTuple):
    """A named tuple inside a dataclass."""

    seat: int | None
    points: float


@dataclass(frozen=True)
class Page:
    """One field of each kind."""

    seq: Int64
    state: State
    at: datetime | None
    games: int
    rating: float
    fine: bool
    seats: tuple[Seat, ...]
    more: dict[str, str]


PAGES = st.builds(
    Page,
    seq=st.integers(-(2**63), 2**63 - 1).map(Int64),
    state=st.just(State.ACTIVE),
    at=st.none() | st.datetimes(timezones=st.just(UTC)),
    games=st.integers(-LARGEST_EXACT, LARGEST_EXACT),
    rating=st.floats(allow_nan=False, allow_infinity=False),
    fine=st.booleans(),
    seats=st.lists(st.builds(Seat, st.none() | st.integers(0, 5), st.just(0.5))).map(tuple),
    more=st.dictionaries(st.text(), st.text()),
)


@given(page=PAGES)
@settings(max_examples=20)
def test_every_field_arrives_in_a_reader_that_has_doubles_only(page: Page) -> None:
    text = json.dumps(to_json(page), allow_nan=False)
    read = json.loads(text, parse_int=float)
    assert list(read) == ["seq", "state", "at", "games", "rating", "fine", "seats", "more"]
    assert (read["seq"], read["state"]) == (str(int(page.seq)), "active")
    assert (read["games"], read["rating"], read["fine"]) == (page.games, page.rating, page.fine)
    assert read["seats"] == [{"seat": s.seat, "points": s.points} for s in page.seats]
    assert read["more"] == page.more
    if page.at is None:
        assert read["at"] is None
    else:
        assert abs(datetime.fromisoformat(read["at"]) - page.at) < timedelta(milliseconds=1)


@pytest.mark.parametrize(
    ("time", "text"),
    [
        (datetime(2026, 11, 22, 10, 0, 0, 123_999, UTC), "2026-11-22T10:00:00.123Z"),
        (
            datetime(2026, 11, 22, 10, tzinfo=timezone(timedelta(hours=2))),
            "2026-11-22T08:00:00.000Z",
        ),
        (utc_time(0), "1970-01-01T00:00:00.000Z"),
        (utc_time(1_795_341_600_123), "2026-11-22T10:00:00.123Z"),
    ],
)
def test_a_time_is_in_utc_with_milliseconds(time: datetime, text: str) -> None:
    assert to_json(time) == text


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), LARGEST_EXACT + 1, -LARGEST_EXACT - 1, datetime(2026, 1, 1)],
)
def test_what_json_cannot_say_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        to_json([value])


@pytest.mark.parametrize("value", [b"bytes", {1, 2}, {1: "one"}, object(), Page])
def test_what_is_not_foreseen_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        to_json({"value": value})


def test_only_objects_are_extended() -> None:
    assert to_object(Seat(1, 0.5)) == {"seat": 1, "points": 0.5}
    with pytest.raises(TypeError):
        to_object([1])


# Reading


@dataclass(frozen=True)
class Whole:
    name: str
    count: int
    large: Int64
    share: float
    wanted: bool
    state: BotState
    kind: Literal["a", "b"]
    at: Time
    until: Time | None
    texts: tuple[str, ...] = ()


WHOLE = Whole(
    name="n\u202e",
    count=3,
    large=Int64(2**60),
    share=0.1,
    wanted=True,
    state=BotState.ACTIVE,
    kind="a",
    at=datetime(2026, 1, 2, 3, 4, 5, 6000, UTC),
    until=None,
)


def document(**changed: object) -> str:
    return json.dumps({**to_object(WHOLE), **changed})


def test_what_was_written_comes_back() -> None:
    assert read_json(Whole, document()) == WHOLE


def test_unknown_keys_are_skipped_and_missing_ones_have_their_defaults() -> None:
    given = json.loads(document(mood="good"))
    del given["texts"]
    assert read_json(Whole, json.dumps(given)) == replace(WHOLE, texts=())
    del given["name"]
    with pytest.raises(DocumentError, match="missing required field `name`"):
        read_json(Whole, json.dumps(given))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("name", 7),
        ("name", ["x"]),
        ("count", "3"),
        ("count", 1.5),
        ("count", True),
        ("count", float("inf")),
        ("large", "1" * 30),
        ("large", "many"),
        ("share", "NaN"),
        ("share", 10**400),
        ("share", float("nan")),
        ("share", float("-inf")),
        ("wanted", 1),
        ("at", "yesterday"),
        ("at", "2026-01-02T03:04:05"),
        ("at", 7),
        ("at", None),
        ("until", "never"),
        ("texts", [None, 7]),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_place(name: str, value: object) -> None:
    with pytest.raises(DocumentError, match=rf"(?s)^(?!.*\n).*(\$\.{name}|malformed)"):
        read_json(Whole, document(**{name: value}))


@pytest.mark.parametrize("text", ["null", "[]", "3", "", "{", "[" * 10**5, '{"a":' * 10**5])
def test_a_document_is_an_object(text: str) -> None:
    with pytest.raises(DocumentError):
        read_json(Whole, text)


def test_the_documents_of_the_ladder_come_back(played: Store) -> None:
    pages: list[tuple[type[Any], object]] = [
        (Standings, show_standings(played)),
        (BotProfile, bot_profile(played, "ben")),
        (GamesPage, newest_games(played, 3)),
    ]
    for kind, page in pages:
        assert read_json(kind, json_text(page)) == page


# CSV

ROW = {"bot": "=HYPERLINK(1)", "change": -1.5, "none": None, "new": True}


def test_a_cell_that_a_spreadsheet_would_run_is_a_text() -> None:
    assert [*csv_lines([ROW], tuple(ROW))] == [
        "bot,change,none,new\r\n",
        "'=HYPERLINK(1),-1.5,,true\r\n",
    ]


@pytest.mark.parametrize("rows", [[], [ROW]])
def test_the_columns_that_are_named_are_there_without_rows_too(rows: list[object]) -> None:
    lines = [*csv_lines([ROW] if rows else [], ("new", "change"))]
    assert lines == ["new,change\r\n", "true,-1.5\r\n"][: 1 + len(rows)]


# While msgspec looks at a type for the first time, another thread reads one.
TWO_THREADS = """
import sys, threading
from deepsea_arena.documents import convert, read_json
from deepsea_arena.games import GamesPage
from deepsea_ladder.season import SeasonSettings

def read():
    try:
        READ
    except ValueError:  # a page has more
        pass

def look(frame, event, _):
    if event == "call" and frame.f_code.co_name == "get_class_annotations":
        looked_at.append(frame.f_locals["obj"])
        if len(looked_at) == 2:  # a type in the one that is read
            other = threading.Thread(target=read)
            other.start()
            other.join(1)  # it may wait until this one has ended

looked_at = []
sys.setprofile(look)
read()
"""


@pytest.mark.parametrize(
    "read",
    [
        """read_json(GamesPage, '{"games": [{}]}')""",
        "convert(GamesPage, {'games': [{}]})",
        "SeasonSettings.from_table({'name': 's', 'limits': {'processes': 8}, 'pairing': {}})",
    ],
)
def test_types_may_be_read_by_several_threads_from_the_beginning(read: str) -> None:
    paths = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", TWO_THREADS.replace("READ", read)],
        env={**os.environ, **paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done

"""JSON of the arena's dataclasses: any reader gets every value, and the same one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepsea_arena.wire.json import LARGEST_EXACT, Int64, to_json, to_object, utc_time

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

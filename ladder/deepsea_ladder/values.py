"""Values of the documents that leave the store: times that know their zone, and large integers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

from msgspec import Meta

Time = Annotated[datetime, Meta(tz=True)]
"""A time of a document, which knows its zone."""
NO_TIME = "no time with its offset, such as 2027-01-31T18:00Z"
"""What another text is, after `is`."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Int64(int):
    """An integer that may use 64 bits, such as a number that a database gives; JSON has a text."""


def utc_time(ms: int) -> datetime:
    """A time that is given in milliseconds since 1970, as the database has it."""
    return _EPOCH + timedelta(milliseconds=ms)


def parse_time(text: str) -> datetime | None:
    """A time of RFC 3339 in UTC; None for what is none, has no year from 1 to 9999 there, or no
    offset from UTC, so that it would be another one elsewhere."""
    try:
        time = datetime.fromisoformat(text)
        return time.astimezone(UTC) if time.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def milliseconds(time: datetime) -> int:
    """A time in milliseconds since 1970, as the database has it."""
    return (time - _EPOCH) // timedelta(milliseconds=1)

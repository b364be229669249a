"""Numbers, times and names as pages write them.

Invariant: rounding and units only; templates have this module as `w`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from deepsea_arena.documents import TableColumn
from deepsea_arena.status import same_files_as as same_files_as
from deepsea_ladder.bot_states import changes_state as changes_state
from deepsea_ladder.model import GameLine, LadderAnalysis, Submission, TaskState
from deepsea_referee.person import action_words as action_words
from deepsea_rules.printable import one_line

SOON_S = 100
"""Seconds; a longer wait is said with its end."""
NOTHING = "–"
SCOPES = {
    "read": "read what is yours",
    "submit": "submit and withdraw bots",
    "admin": "administer the ladder",
}
"""The rights of a token with a scope."""
_MINUS = "\u2212"


def number(value: float | None, digits: int = 1, *, sign: bool = False) -> str:
    """A number, or a dash where there is none."""
    if value is None:
        return NOTHING
    text = f"{value:{'+' if sign else ''},.{digits}f}"
    if not float(text.replace(",", "")):  # what is rounded to nothing has no sign
        text = f"{0.0:.{digits}f}"
    return text.replace("-", _MINUS)


def percent(share: float | None, digits: int = 0) -> str:
    """A share of one, in percent."""
    return NOTHING if share is None else f"{100 * share:.{digits}f} %"


def result(game: GameLine) -> str:
    """Placements with the points."""
    return ", ".join(
        f"{seat.placement}. {name(seat.bot, 40)} {seat.points}" for seat in game.by_placement()
    )


def count(number: int, what: str, several: str | None = None) -> str:
    """`1 game`, `2,000 games`."""
    return f"{number:,} {what if number == 1 else several or f'{what}s'}"


def progress(done: int, of_all: int) -> str:
    """`12`, `3 of 12`."""
    return f"{done:,}" if done == of_all else f"{done:,} of {of_all:,}"


def may(scopes: Sequence[str]) -> str:
    """The rights of a token with these scopes."""
    words = [SCOPES.get(scope, scope) for scope in scopes]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def duration(time: timedelta) -> str:
    """`40 s`, `3 min`, `2 h 5 min`."""
    seconds = max(0, round(time.total_seconds()))
    if seconds < 100:
        return f"{seconds} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def time_left(until: datetime, now: datetime) -> str:
    """What follows a deadline; a script goes on with the same words."""
    minutes = minutes_left(until, now)
    if minutes < 0:
        return ", which is over"
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f", in {days} d {hours} h"
    return f", in {hours} h {minutes} min" if hours else f", in {minutes} min"


def wait(seconds: int) -> str:
    """How long to wait."""
    return duration(timedelta(seconds=seconds))


def later(now: datetime, seconds: int) -> datetime:
    """The first whole minute after so many seconds."""
    return now + timedelta(seconds=seconds + 59)


def minutes_left(until: datetime, now: datetime) -> int:
    """Whole minutes until a time; -1 if it is over."""
    return (until - now) // timedelta(minutes=1) if until > now else -1


def mebibytes(size: int) -> str:
    """`16 MiB`."""
    return f"{size / 2**20:,.4g} MiB"


def submission(one: Submission) -> str:
    """The progress of a submission."""
    match one.state:
        case "queued":
            return f"waits, {count(one.ahead, 'submission')} before it" if one.ahead else "is next"
        case "running":
            return f"is checked: game {one.games} of {one.of_games}" if one.of_games else "is read"
        case "failed":
            return "could not be checked"
    return str(one.state)


def analysis(one: LadderAnalysis) -> str:
    """The progress of an analysis."""
    match one.state:
        case TaskState.QUEUED if one.ahead:
            return f"The analysis is queued, {one.ahead} before it."
        case TaskState.QUEUED:
            return "The analysis is queued, it is next."
        case TaskState.RUNNING:
            return "The analysis is being made."
        case TaskState.DONE:
            return "The analysis is there."
    return "The analysis could not be made."


def minute(time: datetime) -> str:
    """A time in UTC, to the minute."""
    return time.strftime("%Y-%m-%d %H:%M")


def field_time(time: datetime | None) -> str:
    """A time in UTC as the value of a form's field for times; "" for none."""
    return "" if time is None else time.strftime("%Y-%m-%dT%H:%M")


def head(column: TableColumn) -> str:
    """The heading of a column."""
    return column.title or column.head.capitalize()


def cell(line: object, column: TableColumn) -> str:
    """The value of a line in a column, without links."""
    value = getattr(line, column.field)
    match value:
        case None | "" | ():
            return NOTHING
        case int() | float() if column.form == "percent":
            return percent(value, column.digits)
        case float():
            return number(value, column.digits, sign=column.form == "change")
        case int():
            return number(value, 0)
        case tuple():
            return ", ".join(map(str, value))
    return str(value)


def machine(time: datetime) -> str:
    """A time in UTC as a program reads it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def name(text: str, longest: int = 200) -> str:
    """A stranger's text in one line, without what would change the lines around it."""
    return one_line(text, longest)

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
"""Seconds of a wait from which on pages also say when it ends."""
NOTHING = "–"
"""The text of a table's cell without a value."""
SCOPES = {
    "read": "read what is yours",
    "submit": "submit and withdraw bots",
    "admin": "administer the ladder",
}
"""The rights that each scope of a token gives."""
_MINUS = "\u2212"


def number(value: float | None, digits: int = 1, *, sign: bool = False) -> str:
    """Return a number with `digits` decimals and a comma after thousands, or a dash if it is None.

    sign  True to write a plus sign before positive numbers, as for a change
    """
    if value is None:
        return NOTHING
    text = f"{value:+,.{digits}f}" if sign else f"{value:,.{digits}f}"
    is_zero = float(text.replace(",", "")) == 0
    if is_zero:  # also after rounding; without a sign, unlike -0.0
        text = f"{0.0:.{digits}f}"
    return text.replace("-", _MINUS)


def percent(share: float | None, digits: int = 0) -> str:
    """Return a share between 0 and 1 in percent, or a dash if it is None."""
    return NOTHING if share is None else f"{100 * share:.{digits}f} %"


def result(game: GameLine) -> str:
    """Return the result of a game: the bots by placement, each with its points."""
    return ", ".join(
        f"{seat.placement}. {name(seat.bot, 40)} {seat.points}" for seat in game.by_placement()
    )


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number of things, such as `1 game` or `2,000 games`."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def progress(done: int, of_all: int) -> str:
    """Return a part of a number, such as `3 of 12`, or the number alone if all is done."""
    return f"{done:,}" if done == of_all else f"{done:,} of {of_all:,}"


def rights(scopes: Sequence[str]) -> str:
    """Return the rights of a token with these scopes, such as `read what is yours`."""
    phrases = [SCOPES.get(scope, scope) for scope in scopes]
    if len(phrases) < 2:
        return "".join(phrases)
    return f"{', '.join(phrases[:-1])} and {phrases[-1]}"


def duration(time: timedelta) -> str:
    """Return a duration in words, such as `40 s`, `3 min` or `2 h 5 min`."""
    seconds = max(0, round(time.total_seconds()))
    if seconds < 100:
        return f"{seconds} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def time_left(until: datetime, now: datetime) -> str:
    """Return the words that follow a deadline on a page, such as `, in 2 d 5 h`.

    The script of the page counts down with the same words.
    """
    minutes = minutes_left(until, now)
    if minutes < 0:
        return ", which is over"
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f", in {days} d {hours} h"
    return f", in {hours} h {minutes} min" if hours else f", in {minutes} min"


def wait(seconds: int) -> str:
    """Return a wait in words, such as `3 min`."""
    return duration(timedelta(seconds=seconds))


def later(now: datetime, seconds: int) -> datetime:
    """Return a time after so many seconds, of which the minute alone is shown.

    It is up to 59 seconds late: at the shown minute, which cuts the seconds off, the wait is over.
    """
    return now + timedelta(seconds=seconds + 59)


def minutes_left(until: datetime, now: datetime) -> int:
    """Return the whole minutes until a time; -1 if it is over."""
    return (until - now) // timedelta(minutes=1) if until > now else -1


def mebibytes(size: int) -> str:
    """Return a number of bytes in mebibytes, such as `16 MiB`."""
    return f"{size / 2**20:,.4g} MiB"


def submission(line: Submission) -> str:
    """Return the progress of a submission in words, or its state once it is decided."""
    match line.state:
        case "queued" if line.ahead:
            return f"waits, {count(line.ahead, 'submission')} before it"
        case "queued":
            return "is next"
        case "running" if line.of_games:
            return f"is checked: game {line.games} of {line.of_games}"
        case "running":
            return "is read"
        case "failed":
            return "could not be checked"
    return str(line.state)


def analysis(line: LadderAnalysis) -> str:
    """Return the progress of an analysis as a sentence."""
    match line.state:
        case TaskState.QUEUED if line.ahead:
            return f"The analysis is queued, {line.ahead} before it."
        case TaskState.QUEUED:
            return "The analysis is queued, it is next."
        case TaskState.RUNNING:
            return "The analysis is being made."
        case TaskState.DONE:
            return "The analysis is there."
    return "The analysis could not be made."


def minute(time: datetime) -> str:
    """Return a time in UTC to the minute, such as `2026-03-01 14:05`."""
    return time.strftime("%Y-%m-%d %H:%M")


def field_time(time: datetime | None) -> str:
    """Return a time in UTC as the value of a form's field for times; "" for None."""
    return "" if time is None else time.strftime("%Y-%m-%dT%H:%M")


def head(column: TableColumn) -> str:
    """Return the heading of a column of a table."""
    return column.title or column.head.capitalize()


def cell(line: object, column: TableColumn) -> str:
    """Return the text of a table's cell: the field of a line that the column shows.

    The column's form says how a number is written: as a percentage, or as a change with its sign.
    """
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
    """Return a time in UTC as programs read it, such as `2026-03-01T14:05:00Z`."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def name(text: str, longest: int = 200) -> str:
    """Return a stranger's text in one line, without characters that change the text around it."""
    return one_line(text, longest)

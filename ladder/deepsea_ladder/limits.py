"""The settings of a ladder: limits of calls over the network, of people's games and comparisons.

Invariants: pure; every limit is a field of `RemoteLimits`, which `ladder settings` prints and
changes, and has a test; a setting changes no rated game; submissions are checked in turns of their
authors, so that nobody waits longer because another author submits much; a refusal says after how
many seconds a retry may succeed, if waiting helps at all.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import NamedTuple

from deepsea_ladder.errors import LimitReached, SeasonError
from deepsea_rules.printable import quoted

KIB = 1 << 10
MIB = 1 << 20
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
CODE_DAYS = 14
"""Days that a code is valid by default."""
SOON_S = 30
"""Seconds to wait before a retry if the time until a queue moves on is unknown."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit with its value in force, as `ladder settings` prints it."""

    name: str
    value: int
    """The value in force."""
    unit: str
    """The things that are counted, in the plural."""
    about: str
    """One sentence for people."""
    default: int = 0
    """The value in force unless an operator changes it."""


def _limit(default: int, unit: str, about: str) -> int:
    """Return a dataclass field of `RemoteLimits` with its default, its unit and a description.

    The unit and the description are stored in the field's metadata, for people.
    """
    # Declared as `int` for the type checker, like the value that the field will have.
    declared: int = field(
        default=default, metadata={"unit": unit, "about": about, "default": default}
    )
    return declared


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteLimits:
    """The limits of a ladder, with their defaults."""

    archive_bytes: int = _limit(16 * MIB, "bytes", "A bot's archive.")
    chunk_bytes: int = _limit(32 * KIB, "bytes", "A part of a download.")
    upload_seconds: int = _limit(120, "seconds", "An upload.")
    upload_bytes_per_second: int = _limit(
        8 * KIB, "bytes a second", "The least speed of an upload."
    )
    open_submissions: int = _limit(
        3, "submissions", "Of an author: one that is being checked, and two that wait."
    )
    submissions_per_hour: int = _limit(10, "submissions", "Of an author in an hour.")
    submissions_per_day: int = _limit(40, "submissions", "Of an author in a day.")
    check_seconds_per_hour: int = _limit(
        600, "seconds", "The checks of an author's bots in an hour."
    )
    queue: int = _limit(100, "submissions", "That wait to be checked, of all authors.")
    bots: int = _limit(5, "bots", "Of an author.")
    author_bytes: int = _limit(200 * MIB, "bytes", "The archives of an author together.")

    analyses_per_day: int = _limit(20, "analyses", "Of games, that an author asks for in a day.")
    analysis_queue: int = _limit(100, "analyses", "That wait, of all authors.")
    analysis_bytes: int = _limit(MIB, "bytes", "What an analysis found, as JSON.")

    play_tables: int = _limit(4, "games", "Of people at once, of all together; 0: nobody plays.")
    play_tables_of_person: int = _limit(
        1, "games", "At once of one person; visitors from one network count as one."
    )
    play_games_per_day: int = _limit(20, "games", "Of one person in a day.")
    verdict_seconds: int = _limit(
        600, "CPU seconds", "All comparisons of a version; 0: there are none."
    )
    verdict_seconds_per_hour: int = _limit(900, "CPU seconds", "All comparisons in an hour.")

    failures_per_hour: int = _limit(
        20, "failures", "Wrong codes, tokens and logins from an address in an hour."
    )
    tokens: int = _limit(50, "tokens", "Of an author, that are valid.")
    sessions: int = _limit(50, "sessions", "Of an author in the pages.")
    codes: int = _limit(500, "codes", "That are made at once.")
    token_days: int = _limit(365, "days", "How long a token is valid.")
    session_days: int = _limit(14, "days", "How long a login to the pages is valid.")
    code_days: int = _limit(
        365, "days", f"How long a code is valid; {CODE_DAYS} unless said otherwise."
    )

    calls_per_minute: int = _limit(
        120, "requests a minute", "Calls of an author, with all tokens together."
    )
    pages_per_minute: int = _limit(
        300, "requests a minute", "Pages, and calls without a known token, from an address."
    )
    connections_of_address: int = _limit(
        500, "connections", "Open ones of an address, unless it is a trusted proxy."
    )
    answer_seconds: int = _limit(60, "seconds", "For a reader to take a part of an answer.")
    heavy: int = _limit(2, "requests", "Exports and downloads at once, of an author or an address.")
    streams_of_address: int = _limit(200, "streams", "Open event streams from an address.")
    streams: int = _limit(2000, "streams", "Open event streams of all.")

    def table(self) -> tuple[Limit, ...]:
        """Return every limit with its value and description, in the order of the fields."""
        return tuple(
            Limit(limit.name, getattr(self, limit.name), **limit.metadata) for limit in fields(self)
        )


USUAL_LIMITS = RemoteLimits()
_SMALLEST_VALUES = dict.fromkeys(
    ("analyses", "requests", "streams", "play_tables", "CPU seconds"), 0
)
_SMALLEST_VALUES |= {"bytes": KIB, "code_days": CODE_DAYS}
_SMALLEST_VALUES |= dict.fromkeys(("seconds", "requests a minute", "connections"), 10)
"""The smallest value of a setting by its name or unit, if it is not 1."""
_LARGEST_VALUES = {"days": 36_500, "play_tables": 100, "play_tables_of_person": 100}
"""The largest value of a setting by its name or unit, if it is not 10**12."""


def check_setting(name: str, value: int | None) -> None:
    """Raise `SeasonError` if there is no setting of this name, or if it cannot have this value.

    value  the new value; None for the default, which every setting may have
    """
    units = {limit.name: limit.unit for limit in USUAL_LIMITS.table()}
    if name not in units:
        similar_names = difflib.get_close_matches(name, units, 1)
        hint = "`ladder settings` lists them"
        if similar_names:
            hint = f"did you mean {similar_names[0]}?"
        raise SeasonError(f"there is no setting {quoted(name, 40)}; {hint}")
    if value is None:
        return
    unit = units[name]
    # The bounds of the setting itself come before those of its unit.
    smallest = _SMALLEST_VALUES.get(name, _SMALLEST_VALUES.get(unit, 1))
    largest = _LARGEST_VALUES.get(name, _LARGEST_VALUES.get(unit, 10**12))
    if not smallest <= value <= largest:
        raise SeasonError(f"{name} must lie between {smallest} and {largest}, not {value}")


def limits_in_force(changed: Mapping[str, int], usual: RemoteLimits = USUAL_LIMITS) -> RemoteLimits:
    """Return the limits of a ladder: the usual ones, except for those that an operator changed.

    changed  the changed values by the names of the limits; a name that no limit has any more, since
             an older version stored it, is ignored
    """
    known_changes = {
        limit.name: changed[limit.name] for limit in fields(usual) if limit.name in changed
    }
    return replace(usual, **known_changes)


class Usage(NamedTuple):
    """The submissions of an author and of everybody; times in milliseconds since 1970."""

    open: int
    """The number of the author's submissions that wait or are being checked."""
    times: Sequence[int]
    """The times of the author's submissions within the last day, ascending."""
    archives: int
    """Bytes of the author's archives."""
    waiting: int
    """The number of all authors' submissions that wait."""
    checks: Sequence[tuple[int, int]]
    """The author's checks within the last hour, ascending: the time of the end, and the duration in
    milliseconds."""


def check_submission_limits(limits: RemoteLimits, used: Usage, size: int, now: int) -> None:
    """Raise `LimitReached` if an author may not submit another archive of `size` bytes now.

    used  the author's submissions so far, and everybody's that wait
    now   in milliseconds since 1970
    """
    if used.open >= limits.open_submissions:
        raise LimitReached(
            f"{used.open} submissions of yours wait or are being checked; no more at a time", SOON_S
        )
    message = "you have submitted {} times within an hour; {} are the most"
    _check_rate(used.times, now, limits.submissions_per_hour, message, HOUR_MS)
    message = "you have submitted {} times within a day; {} are the most"
    _check_rate(used.times, now, limits.submissions_per_day, message, DAY_MS)
    total_bytes = used.archives + size
    if total_bytes > limits.author_bytes:
        raise LimitReached(
            f"with this archive yours take {total_bytes / MIB:.1f} MiB; an author has "
            f"{limits.author_bytes // MIB} MiB"
        )
    _check_checking_time(limits, used.checks, now)
    if used.waiting >= limits.queue:
        raise LimitReached(f"{used.waiting} submissions wait already; no more are taken", SOON_S)


def submissions_left(limits: RemoteLimits, times: Sequence[int], now: int) -> tuple[int, int]:
    """Return how many archives an author may still submit within this hour and within this day.

    times  the times of the author's submissions, in milliseconds since 1970 like `now`
    """
    in_last_hour = len(_within_period(times, now, HOUR_MS))
    in_last_day = len(_within_period(times, now, DAY_MS))
    return (
        max(0, limits.submissions_per_hour - in_last_hour),
        max(0, limits.submissions_per_day - in_last_day),
    )


def _within_period(times: Sequence[int], now: int, period_ms: int) -> list[int]:
    return [time for time in times if time > now - period_ms]


def _check_rate(
    times: Sequence[int], now: int, limit: int, message: str, period_ms: int = DAY_MS
) -> None:
    """Raise `LimitReached` if `limit` or more of these times lie within the last period.

    times    ascending, in milliseconds since 1970 like `now`
    message  a template with two fields: the number of times, and the limit
    """
    recent_times = _within_period(times, now, period_ms)
    if len(recent_times) < limit:
        return
    if limit == 0:
        wait_s = None  # waiting does not help
    else:
        # As soon as this one is older than the period, fewer than `limit` are left in it.
        decisive_time = recent_times[-limit]
        wait_s = _whole_seconds(decisive_time + period_ms - now)
    raise LimitReached(message.format(len(recent_times), limit), wait_s)


def _check_checking_time(limits: RemoteLimits, checks: Sequence[tuple[int, int]], now: int) -> None:
    """Raise `LimitReached` if the checks of an author's bots took too long within the last hour.

    The error says after how many seconds their sum is below the limit again.

    checks  the end of each check, ascending, and its duration; all times in milliseconds
    """
    recent_checks = [(end, duration) for end, duration in checks if end > now - HOUR_MS]
    limit_ms = limits.check_seconds_per_hour * 1000
    remaining_ms = sum(duration for _, duration in recent_checks)
    if remaining_ms < limit_ms:
        return
    # The oldest check is the first that is not within the last hour any more.
    retry_at = now
    for end, duration in recent_checks:
        remaining_ms -= duration
        retry_at = end + HOUR_MS
        if remaining_ms < limit_ms:
            break
    raise LimitReached(
        f"the checks of your bots have taken {limits.check_seconds_per_hour} s within an hour",
        _whole_seconds(retry_at - now),
    )


def check_bot_count(limits: RemoteLimits, bots: int) -> None:
    """Raise `LimitReached` if an author who has this many bots may not have another."""
    if bots >= limits.bots:
        raise LimitReached(
            f"you have {bots} bots, and an author has at most {limits.bots}; withdraw one, or "
            "submit a new version"
        )


def check_analysis_rate(limits: RemoteLimits, times: Sequence[int], now: int) -> None:
    """Raise `LimitReached` if an author has requested too many analyses within the last day.

    times  the times of the author's requests, ascending, in milliseconds since 1970 like `now`
    """
    message = "you have asked for the analysis of {} games within a day; at most {} are taken"
    _check_rate(times, now, limits.analyses_per_day, message)


def check_analysis_queue(limits: RemoteLimits, waiting: int) -> None:
    """Raise `LimitReached` if the number of waiting analyses has reached its limit."""
    if waiting >= limits.analysis_queue:
        raise LimitReached(f"{waiting} analyses wait already; no more are taken", SOON_S)


def check_person_games(
    limits: RemoteLimits, games_under_way: int, own_games: int, times: Sequence[int], now: int
) -> None:
    """Raise `LimitReached` if a person may not begin another game now.

    games_under_way  the number of all people's games that have not ended
    own_games        the number of them that are this person's
    times            the starts of the person's games, ascending, in milliseconds since 1970 like
                     `now`
    """
    if not limits.play_tables:
        raise LimitReached("the ladder's operator lets nobody play here")
    if own_games >= limits.play_tables_of_person:
        raise LimitReached(f"you have {own_games} games under way: end or leave one first")
    message = "you have begun {} games within a day; {} are the most"
    _check_rate(times, now, limits.play_games_per_day, message)
    if games_under_way >= limits.play_tables:
        raise LimitReached(f"all {limits.play_tables} tables are taken: try again later", SOON_S)


def size_in_words(size: int) -> str:
    """Return a number of bytes for people, such as `42 bytes` or `16.1 MiB`.

    Tenths of MiB are rounded up, so that a size above a limit never looks equal to it.
    """
    if size < MIB:
        return f"{size} bytes"
    tenths_of_mib = -(-10 * size // MIB)  # rounded up
    return f"{tenths_of_mib / 10:g} MiB"


def _whole_seconds(ms: int) -> int:
    """Return milliseconds as seconds, rounded up, and at least 1."""
    return max(1, -(-ms // 1000))


def order_of_checks(
    waiting: Iterable[tuple[int, int]],
    last_starts: Mapping[int, int],
    busy_authors: Collection[int],
) -> list[int]:
    """Return the ids of waiting submissions in the order in which they are checked.

    Authors take turns: first one submission of each author, then a second one of each, and so on.
    Authors who have a submission being checked come last in a turn; the others come in the order
    in which they were last checked.

    waiting       (submission id, author id), the oldest first
    last_starts   by author id, the time when the last check began; authors without one are missing
    busy_authors  ids of authors with a submission that is being checked
    """
    queues: dict[int, list[int]] = {}
    for submission, author in waiting:
        queues.setdefault(author, []).append(submission)

    def precedence(author: int) -> tuple[bool, int, int]:
        return author in busy_authors, last_starts.get(author, -1), queues[author][0]

    authors = sorted(queues, key=precedence)
    turns = max(map(len, queues.values()), default=0)
    return [
        queues[author][turn]
        for turn in range(turns)
        for author in authors
        if turn < len(queues[author])
    ]

"""The settings of a ladder: limits of calls from afar, of people's games and of comparisons.

Invariants: pure; every limit is read in the one table, which `ladder settings` prints and changes,
and each has a test; a setting changes no rated game; the order of checks goes round robin by
author, so that nobody waits longer because somebody else submits much; a refusal that waiting helps
against says for how many seconds.
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
"""When to come back if something has to be checked first."""


@dataclass(frozen=True, slots=True)
class Limit:
    """One line of the table."""

    name: str
    value: int
    unit: str
    """The things that are counted."""
    about: str
    default: int = 0
    """The value, unless an operator has changed it."""


def _limit(value: int, unit: str, about: str) -> int:
    made: int = field(default=value, metadata={"unit": unit, "about": about, "default": value})
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteLimits:
    """The limits; these are the defaults of a ladder's settings, and tests take others."""

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
        """Every limit, in the order of this file."""
        return tuple(
            Limit(one.name, getattr(self, one.name), **one.metadata) for one in fields(self)
        )


USUAL_LIMITS = RemoteLimits()
_LEAST = dict.fromkeys(("analyses", "requests", "streams", "play_tables", "CPU seconds"), 0)
_LEAST |= {"bytes": KIB, "code_days": CODE_DAYS}
_LEAST |= dict.fromkeys(("seconds", "requests a minute", "connections"), 10)
"""The least value of a setting by its name or unit, if it is not 1."""
_MOST = {"days": 36_500, "play_tables": 100, "play_tables_of_person": 100}
"""The largest value of a setting by its name or unit, if it is not 10**12."""


def check_setting(name: str, value: int | None) -> None:
    """Raise `SeasonError` if there is no such setting, or it cannot be this; None: the default."""
    units = {one.name: one.unit for one in USUAL_LIMITS.table()}
    if name not in units:
        near = difflib.get_close_matches(name, units, 1)
        hint = f"did you mean {near[0]}?" if near else "`ladder settings` lists them"
        raise SeasonError(f"there is no setting {quoted(name, 40)}; {hint}")
    if value is not None:
        unit = units[name]
        least = _LEAST.get(name, _LEAST.get(unit, 1))
        most = _MOST.get(name, _MOST.get(unit, 10**12))
        if not least <= value <= most:
            raise SeasonError(f"{name} must lie between {least} and {most}, not {value}")


def limits_in_force(changed: Mapping[str, int], usual: RemoteLimits = USUAL_LIMITS) -> RemoteLimits:
    """The limits with what an operator has changed."""
    known = (one.name for one in fields(usual) if one.name in changed)
    return replace(usual, **{name: changed[name] for name in known})


class Usage(NamedTuple):
    """The submissions of an author and of everybody; times in milliseconds since 1970."""

    open: int
    """The author's submissions that wait or are being checked."""
    times: Sequence[int]
    """When the author's submissions of the last day came, in order."""
    archives: int
    """Bytes of the author's archives."""
    waiting: int
    """Submissions of everybody that wait."""
    checks: Sequence[tuple[int, int]]
    """The ends of the author's checks of the last hour, in order, and how long they took in
    milliseconds."""


def check_limits(limits: RemoteLimits, used: Usage, size: int, at: int) -> None:
    """Raise `LimitReached` if an author may not submit another archive of `size` bytes now."""
    if used.open >= limits.open_submissions:
        raise LimitReached(
            f"{used.open} submissions of yours wait or are being checked; no more at a time", SOON_S
        )
    hourly, daily = limits.submissions_per_hour, limits.submissions_per_day
    for name, most, period in (("an hour", hourly, HOUR_MS), ("a day", daily, DAY_MS)):
        words = f"you have submitted {{}} times within {name}; {{}} are the most"
        _check_rate(used.times, at, most, words, period)
    if used.archives + size > limits.author_bytes:
        raise LimitReached(
            f"with this archive yours take {(used.archives + size) / MIB:.1f} MiB; an author has "
            f"{limits.author_bytes // MIB} MiB"
        )
    _check_time(limits, used.checks, at)
    if used.waiting >= limits.queue:
        raise LimitReached(f"{used.waiting} submissions wait already; no more are taken", SOON_S)


def submissions_left(limits: RemoteLimits, times: Sequence[int], at: int) -> tuple[int, int]:
    """The number of archives that an author may still submit within an hour and within a day.

    times  those of the author's submissions, in milliseconds since 1970, as `at` is
    """
    of_hour, of_day = (len(_lately(times, at, period)) for period in (HOUR_MS, DAY_MS))
    return (
        max(0, limits.submissions_per_hour - of_hour),
        max(0, limits.submissions_per_day - of_day),
    )


def _lately(times: Sequence[int], at: int, period: int) -> list[int]:
    return [time for time in times if time > at - period]


def _check_rate(times: Sequence[int], at: int, most: int, words: str, period: int = DAY_MS) -> None:
    if len(lately := _lately(times, at, period)) >= most:
        wait = _seconds(lately[-most] + period - at) if most else None
        raise LimitReached(words.format(len(lately), most), wait)


def _check_time(limits: RemoteLimits, checks: Sequence[tuple[int, int]], at: int) -> None:
    lately = [(time, ms) for time, ms in checks if time > at - HOUR_MS]
    over = sum(ms for _, ms in lately) - limits.check_seconds_per_hour * 1000
    if over < 0:
        return
    back = at
    for time, ms in lately:  # the oldest leave the hour first
        over -= ms
        back = time + HOUR_MS
        if over < 0:
            break
    raise LimitReached(
        f"the checks of your bots have taken {limits.check_seconds_per_hour} s within an hour",
        _seconds(back - at),
    )


def check_bots(limits: RemoteLimits, bots: int) -> None:
    """Raise `LimitReached` if an author who has so many bots may not have another."""
    if bots >= limits.bots:
        raise LimitReached(
            f"you have {bots} bots, and an author has at most {limits.bots}; withdraw one, or "
            "submit a new version"
        )


def check_author(limits: RemoteLimits, times: Sequence[int], at: int) -> None:
    """Raise `LimitReached` if an author may not ask now, in milliseconds since 1970.

    times  when the author asked within the last day, in order
    """
    words = "you have asked for the analysis of {} games within a day; at most {} are taken"
    _check_rate(times, at, limits.analyses_per_day, words)


def check_queue(limits: RemoteLimits, waiting: int) -> None:
    """Raise `LimitReached` if so many analyses wait that no more are taken."""
    if waiting >= limits.analysis_queue:
        raise LimitReached(f"{waiting} analyses wait already; no more are taken", SOON_S)


def check_tables(
    limits: RemoteLimits, tables: int, own: int, times: Sequence[int], at: int
) -> None:
    """Raise `LimitReached` if a person may not begin a game now.

    tables  games of people under way
    own     the person's own ones of them
    times   when the person's games of the last day began, in order
    """
    if not limits.play_tables:
        raise LimitReached("the ladder's operator lets nobody play here")
    if own >= limits.play_tables_of_person:
        raise LimitReached(f"you have {own} games under way: end or leave one first")
    words = "you have begun {} games within a day; {} are the most"
    _check_rate(times, at, limits.play_games_per_day, words)
    if tables >= limits.play_tables:
        raise LimitReached(f"all {limits.play_tables} tables are taken: try again later", SOON_S)


def size_in_words(count: int) -> str:
    """`42 bytes`, `16 MiB`; rounded up, so that what is over a limit reads like that."""
    return f"{count} bytes" if count < MIB else f"{-(-10 * count // MIB) / 10:g} MiB"


def _seconds(ms: int) -> int:
    return max(1, -(-ms // 1000))


def check_order(
    waiting: Iterable[tuple[int, int]], begun: Mapping[int, int], busy: Collection[int]
) -> list[int]:
    """The order in which submissions are checked, by their ids.

    waiting  ids and authors, the oldest first
    begun    for each author, when the last check of one of theirs began; missing before the first
    busy     authors of whom one is being checked: theirs come after those of the others' first ones
    """
    queues: dict[int, list[int]] = {}
    for number, author in waiting:
        queues.setdefault(author, []).append(number)
    rank = {author: (author in busy, begun.get(author, -1), queues[author][0]) for author in queues}
    authors = sorted(queues, key=lambda author: rank[author])
    longest = max(map(len, queues.values()), default=0)
    return [
        queues[one][turn] for turn in range(longest) for one in authors if turn < len(queues[one])
    ]

"""What an author may submit from afar, and which submission is checked next.

Invariants: pure; the order of checks goes round robin by author, so that nobody waits longer
because somebody else submits much; a refusal that waiting helps against says for how many seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from deepsea_ladder.errors import LimitReached
from deepsea_ladder.remote_limits import MIB, RemoteLimits

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
SOON_S: Final = 30
"""When to come back if something has to be checked first."""


class Usage(NamedTuple):
    """What an author and everybody have submitted; times in milliseconds since 1970."""

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
    if size > limits.archive_bytes:
        raise LimitReached(
            f"the archive has {size} bytes; at most {limits.archive_bytes} are taken"
        )
    if used.open >= limits.open_submissions:
        raise LimitReached(
            f"{used.open} submissions of yours wait or are being checked; no more at a time", SOON_S
        )
    hourly, daily = limits.submissions_per_hour, limits.submissions_per_day
    for name, most, period in (("an hour", hourly, HOUR_MS), ("a day", daily, DAY_MS)):
        lately = [time for time in used.times if time > at - period]
        if len(lately) >= most:
            raise LimitReached(
                f"you have submitted {len(lately)} times within {name}; {most} are the most",
                _seconds(lately[-most] + period - at),
            )
    if used.archives + size > limits.author_bytes:
        raise LimitReached(
            f"with this archive yours take {(used.archives + size) / MIB:.1f} MiB; an author has "
            f"{limits.author_bytes // MIB} MiB"
        )
    _check_time(limits, used.checks, at)
    if used.waiting >= limits.queue:
        raise LimitReached(f"{used.waiting} submissions wait already; no more are taken", SOON_S)


def check_bots(limits: RemoteLimits, bots: int) -> None:
    """Raise `LimitReached` if an author who has so many bots may not have another."""
    if bots >= limits.bots:
        raise LimitReached(
            f"you have {bots} bots, and an author has at most {limits.bots}; withdraw one, or "
            "submit a new version"
        )


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

"""The host's users that bots run as: one for each sandbox.

Where the referee is root these are numbers that nobody has, else subordinate ones that /etc/subuid
and /etc/subgid give to its user.

Invariants: no two sandboxes of this machine have the same user at the same time, also those of
other referees, so nothing that the kernel counts for each user (descriptors in flight, pages of
pipes) can be used up for another bot. No user of root's range is anybody else's; if one is, every
bot is `nobody`. A user is claimed with a lock, which the kernel drops when this process ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import pwd
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from deepsea_referee.sandbox.interface import BOT_USERS

NOBODY = 65534
# Inherited by worker processes.
VARIABLE = "DEEPSEA_BOT_UIDS"
LOCKS = Path("/run/deepsea-referee.uids")


class UserRange(NamedTuple):
    """Numbers of users (and of the groups with the same numbers), first and last included."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> UserRange:
        """Read "FIRST-LAST"; raises ValueError with a line for the user."""
        first, _, last = text.partition("-")
        if not (first.isdecimal() and last.isdecimal() and 0 < int(first) <= int(last) < 2**31):
            raise ValueError(f"a range of user numbers is FIRST-LAST, such as {DEFAULT}: {text!r}")
        return cls(int(first), int(last))

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"

    def overlaps(self, first: int, count: int) -> bool:
        """Whether one of `count` numbers from `first` is in the range."""
        return first <= self.last and first + count > self.first

    def trouble(self, etc: Path = Path("/etc"), process: Path = Path("/proc/self")) -> str:
        """Why bots cannot run as these users; "" if they can.

        etc      the folder with subuid and subgid
        process  the folder with uid_map and gid_map, which say who exists in a container
        """
        for user in pwd.getpwall():
            if self.overlaps(user.pw_uid, 1):
                return f"user {user.pw_name} has the number {user.pw_uid}"
        for name in ("subuid", "subgid"):
            for owner, first, count in _entries(etc / name):
                if self.overlaps(first, count):
                    return f"{etc / name} gives numbers of it to {owner}"
        for name in ("uid_map", "gid_map"):
            lines = (map(int, line.split()) for line in _lines(process / name))
            if not any(
                first <= self.first and self.last < first + count for first, _, count in lines
            ):
                return "this container has no such users"
        return ""


# Free by systemd's conventions (below the 61184 of DynamicUser) and above what adduser gives.
DEFAULT = UserRange(*BOT_USERS)


def _entries(file: Path) -> Iterator[tuple[str, int, int]]:
    for line in _lines(file):
        words = line.strip().split(":")
        if len(words) == 3 and words[1].isdecimal() and words[2].isdecimal():
            yield words[0], int(words[1]), int(words[2])


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except OSError:
        return []


class BotUsers:
    """Claims users of one range for this process."""

    def __init__(self, users: UserRange, locks: Path = LOCKS) -> None:
        self.range = users
        self._locks = locks
        self._lock = threading.Lock()
        self._owner = 0
        self._file = -1
        self._claimed: set[int] = set()
        self._next: Iterator[int] = iter(())

    def claim(self) -> int:
        """A user that no other sandbox has. Raises OSError if all are in use."""
        with self._lock:
            self._open()
            for user in itertools.islice(self._next, self.range.last - self.range.first + 1):
                if user not in self._claimed and self._try(user):
                    self._claimed.add(user)
                    return user
        raise OSError(f"all users of bots ({self.range}) are in use: see --bot-uids")

    def release(self, user: int) -> None:
        """Give a user back: none of its processes runs any more."""
        with self._lock:
            if self._owner == os.getpid() and user in self._claimed:
                self._claimed.remove(user)
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, user)

    def _open(self) -> None:
        if self._owner == os.getpid():
            return
        # A fork inherits the open file, but no lock.
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = os.open(self._locks, flags, 0o600)
        self._owner = os.getpid()
        self._claimed = set()
        # In turns, so that a user is not used again at once.
        count = self.range.last - self.range.first + 1
        start = os.getpid() % count
        self._next = (self.range.first + (start + number) % count for number in itertools.count())

    def _try(self, user: int) -> bool:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, user)
        except OSError:
            return False
        return True


# Of many subordinate users the last ones: containers take the first.
MOST_SUBORDINATE = 500


def subordinate(user: int, etc: Path = Path("/etc")) -> UserRange | None:
    """The numbers that are given to a user both as users and as groups; None if there are none."""
    owners = {str(user)}
    with contextlib.suppress(KeyError):
        owners.add(pwd.getpwuid(user).pw_name)
    users, groups = (
        [
            (first, first + count - 1)
            for owner, first, count in _entries(etc / name)
            if owner in owners and count
        ]
        for name in ("subuid", "subgid")
    )
    for (first, last), (first_group, last_group) in itertools.product(users, groups):
        both = UserRange(max(first, first_group), min(last, last_group))
        if both.first <= both.last:
            return both._replace(first=max(both.first, both.last - MOST_SUBORDINATE + 1))
    return None


def wanted() -> UserRange:
    """The range that was chosen, or the default."""
    return UserRange.parse(os.environ.get(VARIABLE, str(DEFAULT)))


@cache
def configured() -> BotUsers | None:
    """The users of this process's bots; None: this user's own, or `nobody` if it is root."""
    own = os.geteuid()
    if own == 0:
        return BotUsers(wanted()) if not wanted().trouble() else None
    users = subordinate(own)
    return BotUsers(users, Path(f"/tmp/deepsea-referee-{own}.uids")) if users else None


def choose(text: str) -> None:
    """Use this range in this process and those that it starts; raises ValueError."""
    if os.geteuid() != 0:
        raise ValueError("only root can start bots as other users")
    if trouble := UserRange.parse(text).trouble():
        raise ValueError(f"bots cannot run as users {text}: {trouble}")
    os.environ[VARIABLE] = text
    configured.cache_clear()

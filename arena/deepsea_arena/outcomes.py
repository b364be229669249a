"""The outcome of a game that raised: whose trouble it was.

Invariant: what says nothing about the game or its bots is trouble of this machine, so that no job
is set aside for it: a full disk, too few file descriptors, a sandbox that does not start.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Final

from deepsea_arena.play.tasks import HostTrouble, VoidOutcome
from deepsea_ladder.errors import StoreUnavailable
from deepsea_referee.errors import HostTooBusy, RefereeError
from deepsea_referee.sandbox.interface import SandboxUnavailable
from deepsea_rules.printable import one_line

_SHORT: Final = frozenset(
    {
        errno.EAGAIN,
        errno.EDQUOT,
        errno.EIO,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ENOSPC,
        errno.EROFS,
    }
)
"""What a machine is short of, not a game."""


def outcome_of(error: BaseException) -> VoidOutcome | HostTrouble:
    """The outcome of a game that raised an error."""
    known = isinstance(error, RefereeError | SandboxUnavailable)
    words = one_line(str(error) if known else f"{type(error).__name__}: {error}")
    if isinstance(error, HostTooBusy):
        # Without a seat it was the host before any bot was asked.
        return HostTrouble(words) if error.seat is None else VoidOutcome(words, error.seat)
    return HostTrouble(words) if any(map(_is_hosts, _causes(error))) else VoidOutcome(words)


def _is_hosts(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return error.errno in _SHORT
    return isinstance(error, MemoryError | SandboxUnavailable | StoreUnavailable)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and those that it follows from."""
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for part in error.exceptions:
                yield from _causes(part)
        error = error.__cause__ or error.__context__

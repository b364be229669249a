"""Exceptions of the ladder.

    LadderError
    ├── StoreError             a request that the store cannot do, or not a store
    │   ├── StoreUnavailable   not now: locked, full disk, server away; nothing changed, try again
    │   └── StoreDamaged       the store contradicts itself; go back to a backup
    ├── SubmissionError        somebody else's bot, or files that play already
    ├── SeasonError            invalid settings of a season
    ├── PairingError           no games are possible with these bots
    ├── WorkerError            no worker can play; not a bot's fault
    └── RatingError            numbers that cannot be rated

Every message is one line for the user: what happened, where, what to do.
"""

from __future__ import annotations


class LadderError(Exception):
    """Any refusal of the ladder."""


class StoreError(LadderError):
    """What is asked of the store cannot be done."""


class StoreUnavailable(StoreError):
    """The store cannot be reached or written now; nothing changed, and it is worth trying again."""


class StoreDamaged(StoreError):
    """The store's content contradicts itself."""


class SubmissionError(LadderError):
    """A version that is not stored: the name is somebody else's, or its files play already."""


class SeasonError(LadderError):
    """A season's settings make no sense."""


class PairingError(LadderError):
    """No games can be made of these bots."""


class WorkerError(LadderError):
    """No worker can play."""


class RatingError(LadderError):
    """Numbers that cannot be rated."""

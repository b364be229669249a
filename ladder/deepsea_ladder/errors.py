"""Exceptions of the ladder.

    LadderError
    ├── StoreError             a request that the store cannot do, or not a store
    │   ├── NotOnLadder        a season, bot, version or game that there is not
    │   ├── SeasonClosed       a season that gets no more games
    │   ├── StoreUnavailable   not now: locked, full disk, server away; nothing changed, try again
    │   ├── StoreGone          its file was removed or replaced while it was open
    │   └── StoreDamaged       the store contradicts itself; go back to a backup
    ├── ChainBroken            an export that was changed, or from which something was dropped
    ├── NotAChain              a file that is no export
    ├── AccountError           an account's change that is not possible now
    │   └── CodeRefused        a code that there is not, or not any more
    ├── SubmissionError        somebody else's bot, files that play already, or too much of them
    │   ├── LimitReached       a limit of what is asked from afar; has when to come back
    │   └── KeyReused          another archive under the key of a submission that is there
    ├── AnalysisError          a game that cannot be analysed, or a result that is not stored
    ├── PersonGameError        a decision in a game of a person that is not due
    ├── SeasonError            invalid settings of a season, or of the ladder
    ├── PairingError           no games are possible with these bots
    ├── WorkerError            no worker can play; not a bot's fault
    └── RatingError            numbers that cannot be rated

Every message is one line for the user: what happened, where, what to do.
"""

from __future__ import annotations

import re

_ROW = re.compile(r"table \w+, row \d+(?=:)")
DISK_FULL = "the disk of the ladder is full, and its operator has to make room; nothing was changed"


class LadderError(Exception):
    """Any refusal of the ladder."""


class StoreError(LadderError):
    """A request that the store cannot do."""


class NotOnLadder(StoreError):
    """There is no season, bot, version or game of that name; the message names nothing else."""


class SeasonClosed(StoreError):
    """The season is closed and gets no more games."""


class SeasonPaused(StoreError):
    """No game of the season is started until it is resumed."""


class StoreUnavailable(StoreError):
    """The store cannot be reached or written now; nothing changed, and it is worth trying again.

    reason  a trouble that lasts until somebody ends it, for callers who may not know the store's
            place; "" if it is only busy
    """

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class StoreGone(StoreError):
    """The file that was opened is not there any more; what is written now would be lost."""


class StoreDamaged(StoreError):
    """The store's content contradicts itself.

    damage         one line on the damage, which authors may read
    ladder         the place of the store, which they may not; "" as long as nobody has added it
    table, column  those of a value that its column does not allow, as long as its row is not known;
                   else ""
    """

    def __init__(self, damage: str, table: str = "", column: str = "", *, ladder: str = "") -> None:
        super().__init__(f"the ladder at {ladder} is damaged: {damage}" if ladder else damage)
        self.damage = damage
        self.table = table
        self.column = column

    @property
    def row(self) -> str:
        """The table and the number of a row that is known to be damaged, which anybody may read,
        without what stands there; else ""."""
        row = _ROW.match(self.damage)
        return row[0] if row else ""


class ChainBroken(LadderError):
    """An export that does not follow from the season's commitment."""


class NotAChain(LadderError):
    """A file that is no export of a ladder."""


class AccountError(LadderError):
    """A change of an account that makes sense, but not in its present state."""


class NameNeeded(AccountError):
    """A code for a new author came without a name."""


class CodeRefused(AccountError):
    """A code that was mistyped, redeemed or revoked, or has expired: the message is the same."""


class SubmissionError(LadderError):
    """A version that is not stored: the name is somebody else's, its files play already, its bot
    was taken out, or its author has submitted enough.

    remedy  what the author can do; "" if `found` says it
    """

    def __init__(self, found: str, remedy: str = "") -> None:
        super().__init__(f"{found}; {remedy}" if remedy else found)
        self.found = found
        self.remedy = remedy


class LimitReached(SubmissionError):
    """A limit of submissions or analyses.

    `retry_after` is in seconds; None where waiting does not help.
    """

    def __init__(self, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class KeyReused(SubmissionError):
    """The key is that of a submission of other bytes."""


class AnalysisError(LadderError):
    """A game that cannot be analysed, or the result of an analysis that is not stored."""


class PersonGameError(LadderError):
    """A decision in a game of a person that is not due now."""


class SeasonError(LadderError):
    """A season's settings, or the ladder's, make no sense."""


class PairingError(LadderError):
    """No games can be made of these bots."""


class WorkerError(LadderError):
    """No worker can play."""


class RatingError(LadderError):
    """Numbers that cannot be rated."""

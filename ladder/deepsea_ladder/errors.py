"""Exceptions of the ladder.

    LadderError
    ├── StoreError             a request that the store cannot do, or not a store
    │   ├── NotOnLadder        a season, bot, version or game that does not exist
    │   ├── SeasonClosed       a season that gets no more games
    │   ├── SeasonPaused       a season whose games are not started until it is resumed
    │   ├── StoreUnavailable   locked, disk full or server away; nothing changed, try again
    │   ├── StoreGone          its file was removed or replaced while it was open
    │   └── StoreDamaged       the store contradicts itself; go back to a backup
    ├── ChainBroken            an export that was changed, or from which lines were removed
    ├── NotAChain              a file that is no export
    ├── AccountError           a change that the account's present state does not permit
    │   ├── NameNeeded         a code for a new author without a name
    │   └── CodeRefused        a code that does not exist, or is used, revoked or expired
    ├── SubmissionError        somebody else's bot, files that play already, or too many of them
    │   ├── LimitReached       a limit of calls; has the seconds to wait
    │   └── KeyReused          another archive under the key of an existing submission
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

_DAMAGED_ROW = re.compile(r"table \w+, row \d+(?=:)")
DISK_FULL = "the disk of the ladder is full, and its operator has to make room; nothing was changed"


class LadderError(Exception):
    """Any refusal of the ladder."""


class StoreError(LadderError):
    """A request that the store cannot do."""


class NotOnLadder(StoreError):
    """No season, bot, version or game has that name; the message names nothing else."""


class SeasonClosed(StoreError):
    """The season is closed and gets no more games."""


class SeasonPaused(StoreError):
    """No game of the season is started until it is resumed."""


class StoreUnavailable(StoreError):
    """The store cannot be reached or written now; nothing changed, and a retry may succeed.

    reason  the cause, such as a full disk, if an operator has to remove it, in words that do not
            show where the store is; "" if the store is only busy
    """

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class StoreGone(StoreError):
    """The file that was opened does not exist any more; whatever is written would be lost."""


class StoreDamaged(StoreError):
    """The store's content contradicts itself.

    damage         one line about the damage, which authors may read
    ladder         the store's path or URL, which they may not; "" if it is not added yet
    table, column  the names of a column with a value that it does not permit, if the row is not
                   known yet; else ""
    """

    def __init__(self, damage: str, table: str = "", column: str = "", *, ladder: str = "") -> None:
        super().__init__(f"the ladder at {ladder} is damaged: {damage}" if ladder else damage)
        self.damage = damage
        self.table = table
        self.column = column

    @property
    def row(self) -> str:
        """The damaged row as `table T, row N`, without its content; "" if it is not known.

        Anybody may read this.
        """
        match = _DAMAGED_ROW.match(self.damage)
        return match[0] if match else ""


class ChainBroken(LadderError):
    """An export that does not follow from the season's commitment."""


class NotAChain(LadderError):
    """A file that is no export of a ladder."""


class AccountError(LadderError):
    """A change that the present state of the account does not permit."""


class NameNeeded(AccountError):
    """A code for a new author came without a name."""


class CodeRefused(AccountError):
    """A code was mistyped, redeemed or revoked, or has expired.

    The message does not say which, so that it tells nothing about codes of others.
    """


class SubmissionError(LadderError):
    """A version is not stored.

    The bot's name is another author's, its files play already, the bot was suspended or disabled,
    or its author has submitted too often.

    found   the reason, one line
    remedy  the author's way out; "" if `found` says it
    """

    def __init__(self, found: str, remedy: str = "") -> None:
        super().__init__(f"{found}; {remedy}" if remedy else found)
        self.found = found
        self.remedy = remedy


class LimitReached(SubmissionError):
    """An author or address has reached a limit of submissions, analyses, games or calls.

    `retry_after` is the number of seconds after which a retry may succeed; None if waiting does not
    help.
    """

    def __init__(self, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class KeyReused(SubmissionError):
    """The key of a submission was used before, for an archive with other bytes."""


class AnalysisError(LadderError):
    """A game cannot be analysed, or the result of an analysis cannot be stored."""


class PersonGameError(LadderError):
    """A decision in a person's game is not due now."""


class SeasonError(LadderError):
    """The settings of a season or of the ladder are invalid."""


class PairingError(LadderError):
    """No games can be made of these bots."""


class WorkerError(LadderError):
    """No worker can play."""


class RatingError(LadderError):
    """Numbers that cannot be rated."""

"""The table of who may do what to a bot in each of its states.

Invariants: pure; the store asks it within each change of a bot, and pages offer what it allows;
what an operator has decided only an operator undoes; what the ladder did because of strikes is
undone by other files or by an operator, and because of damaged files by the same files, too; a
bot's name never changes, and its state does not when its author is renamed, blocked or anonymised.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from deepsea_ladder.errors import SubmissionError
from deepsea_ladder.model import BotState


class BotDeed(StrEnum):
    """Something that is done to a bot, and by whom."""

    OTHER_FILES = "its author submits other files"
    SAME_FILES = "its author submits the same files"
    WHOLE_FILES = "its author submits the same files, and the stored ones are damaged"
    WITHDRAW = "its author withdraws it"
    DISABLE = "an operator disables it"
    ENABLE = "an operator enables it"
    STRIKE = "it has too many strikes"
    DAMAGE = "its stored files are damaged"


_ACTIVE, _WITHDRAWN = BotState.ACTIVE, BotState.WITHDRAWN
_SUSPENDED, _DISABLED = BotState.SUSPENDED, BotState.DISABLED
_ALWAYS = frozenset(BotState)
_UNLESS_TAKEN_OUT = frozenset({_ACTIVE, _WITHDRAWN})

RIGHTS: Mapping[BotDeed, tuple[BotState, frozenset[BotState]]] = {
    BotDeed.OTHER_FILES: (_ACTIVE, _ALWAYS - {_DISABLED}),
    BotDeed.SAME_FILES: (_ACTIVE, _UNLESS_TAKEN_OUT),
    BotDeed.WHOLE_FILES: (_ACTIVE, _ALWAYS - {_DISABLED}),
    BotDeed.WITHDRAW: (_WITHDRAWN, _UNLESS_TAKEN_OUT),
    BotDeed.DISABLE: (_DISABLED, _ALWAYS),
    BotDeed.ENABLE: (_ACTIVE, _ALWAYS),
    BotDeed.STRIKE: (_SUSPENDED, frozenset({_ACTIVE})),
    BotDeed.DAMAGE: (_SUSPENDED, frozenset({_ACTIVE})),
}
"""The state after each deed, and the states in which it may be done."""
_REMEDIES = {
    _SUSPENDED: "submit it with other files, or ask whoever runs the ladder to enable it",
    _DISABLED: "ask whoever runs the ladder, who alone can enable it",
}


def state_after(deed: BotDeed, bot: str, state: BotState, reason: str | None) -> BotState:
    """The state of a bot after a deed. Raises `SubmissionError` if it may not be done."""
    after, allowed = RIGHTS[deed]
    if state not in allowed:
        raise SubmissionError(f"{bot} is {state}: {reason}", _REMEDIES.get(state, ""))
    return after


def changes_state(deed: str, state: BotState) -> bool:
    """True if a deed may be done in this state, and leads to another one: pages offer it then."""
    after, allowed = RIGHTS[BotDeed[deed]]
    return state in allowed and state is not after

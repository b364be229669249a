"""The table of who may do what to a bot in each of its states.

Invariants: pure; the store asks it within each change of a bot, and pages offer what it allows;
what an operator has decided only an operator undoes; what the ladder did because of strikes is
undone by other files or by an operator, and because of damaged files by the same files, too; a
bot's name never changes, and its state does not when its author is renamed, blocked or anonymised.

Strikes: when a bot's faults, forfeits and void games take it out of the ladder.

Invariants: pure; judges only the last games of a bot's present version, of those scheduled since
it was submitted or enabled; a bot that plays most of its games through without faults is never
taken out; a void game counts only for the bot that was asked when it became void.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import takewhile
from typing import NamedTuple

from deepsea_ladder.errors import SubmissionError
from deepsea_ladder.model import BotConduct, BotState
from deepsea_ladder.rating import SeatResult


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


@dataclass(frozen=True, slots=True)
class StrikeRules:
    """Limits of what a bot may do; beyond any of them it is suspended."""

    absences: int = 3
    """Games in a row that it forfeited by a fault that ends the stream."""
    spoiled: int = 5
    """Games of its last `games` that it forfeited, for whatever fault, or in which it had two
    faults."""
    games: int = 10
    voids: int = 5
    """Games of its last `attempts` that became void while it was asked, if those are most of the
    void ones among them."""
    attempts: int = 20


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Limits of retries and of strikes; these are the same on every ladder.

    They never change a rating.
    """

    failures: int = 5
    """Failures after which a job is quarantined: void games, refused results, dead workers."""
    checks: int = 3
    """Checks without a verdict after which a submission has failed: void games, dead runners."""
    analyses: int = 3
    """Attempts without a result after which an analysis has failed: dead runners and workers."""
    comparisons: int = 5
    """Attempts in a row without a block after which a comparison has failed."""
    steps: int = 3
    """Attempts in a row to play on a game of a person after which it is void."""
    strikes: StrikeRules = field(default_factory=StrikeRules)
    """When a bot is suspended."""


class Appearance(NamedTuple):
    """A bot in one attempt at a game."""

    result: SeatResult | None
    """None if the game became void while some bot was asked."""
    asked: bool = False
    """Of a void game: whether it was this bot that was asked."""


def conduct(
    bot: str, newest_first: Sequence[Appearance], rules: StrikeRules
) -> tuple[BotConduct, str | None]:
    """The conduct of a bot in its last games, and the reason to disable it, if there is one."""
    results = [one.result for one in newest_first if one.result is not None]
    asked = [one.asked for one in newest_first[: rules.attempts] if one.result is None]
    absences = sum(1 for _ in takewhile(lambda result: result.absent, results))
    spoiled = sum(map(_is_spoiled, results[: rules.games]))
    voids = sum(asked)
    reason = None
    if absences >= rules.absences:
        reason = f"{absences} games in a row without it"
    elif spoiled >= rules.spoiled:
        reason = f"{spoiled} of its last {rules.games} games it forfeited, or had two faults in"
    elif voids >= rules.voids and voids > len(asked) - voids:
        reason = f"{voids} of its last {rules.attempts} games became void while it was asked"
    return BotConduct(bot=bot, absences=absences, spoiled=spoiled, voids=voids), reason


def _is_spoiled(result: SeatResult) -> bool:
    return result.forfeit is not None or result.faults > 1

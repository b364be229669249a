"""The states of a bot: the table of permitted changes, and the strikes that suspend it.

Invariants: pure. The store asks the table within each change of a bot, and pages offer what it
permits. Only an operator undoes an operator's decision; a suspension for strikes ends with other
files or by an operator, one for damaged files also with the same files. A bot's state does not
change when its author is renamed, blocked or anonymised, and its name never changes.

Strikes look only at the last games of a bot's present version that were scheduled since it was
submitted or enabled. A bot that finishes most of its games without faults is never suspended; a
void game counts only for the bot whose decision was due when the game became void.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from deepsea_ladder.errors import SubmissionError
from deepsea_ladder.model import BotConduct, BotState
from deepsea_ladder.rating import SeatResult


class BotDeed(StrEnum):
    """An event that may change a bot's state, with its cause."""

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
"""The state after each deed, and the states in which the deed is permitted."""
_REMEDIES = {
    _SUSPENDED: "submit it with other files, or ask whoever runs the ladder to enable it",
    _DISABLED: "ask whoever runs the ladder, who alone can enable it",
}


def state_after(deed: BotDeed, bot: str, state: BotState, reason: str | None) -> BotState:
    """Return the state that a bot has after a deed, such as its withdrawal by its author.

    deed    the deed, which may be permitted in some states only
    bot     the bot's name, for the message
    state   its present state
    reason  the stored reason for that state
    Raises `SubmissionError` if the deed is not permitted in that state, with a remedy for the
    author.
    """
    new_state, allowed_states = RIGHTS[deed]
    if state not in allowed_states:
        raise SubmissionError(f"{bot} is {state}: {reason}", _REMEDIES.get(state, ""))
    return new_state


def changes_state(deed: str, state: BotState) -> bool:
    """Return True if a deed is permitted for a bot in this state, and gives it another state.

    Pages use this to offer only deeds that have an effect.

    deed  the name of a `BotDeed`, such as "WITHDRAW"
    """
    new_state, allowed_states = RIGHTS[BotDeed[deed]]
    return state in allowed_states and state is not new_state


@dataclass(frozen=True, slots=True)
class StrikeRules:
    """The limits of a bot's conduct; a bot that reaches one of them is suspended."""

    absences: int = 3
    """Games in a row that the bot forfeited by a fault that ends its stream, such as a crash."""
    spoiled: int = 5
    """Games, of its last `games`, that the bot forfeited or in which it had two faults."""
    games: int = 10
    """The number of last games in which `spoiled` is counted."""
    voids: int = 5
    """Games, of its last `attempts`, that became void while the bot's decision was due. They count
    only if they are more than half of the void games among those attempts."""
    attempts: int = 20
    """The number of last attempts, void or not, in which `voids` is counted."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The limits of retries and strikes, which are the same on every ladder.

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
    """Attempts in a row to continue a person's game after which it is void."""
    strikes: StrikeRules = field(default_factory=StrikeRules)
    """When a bot is suspended."""


class Appearance(NamedTuple):
    """A bot in one attempt at a game."""

    result: SeatResult | None
    """The bot's result; None if the game became void while a bot's decision was due."""
    asked: bool = False
    """True if the game became void while this bot's decision was due."""


def conduct(
    bot: str, newest_first: Sequence[Appearance], rules: StrikeRules
) -> tuple[BotConduct, str | None]:
    """Return how a bot behaved in its last games, and the reason to suspend it, or None.

    bot           the bot's name
    newest_first  its games, the newest first: those with a result, and void ones
    rules         the numbers of bad games from which on a bot is suspended
    """
    results = [game.result for game in newest_first if game.result is not None]
    void_games = [game for game in newest_first[: rules.attempts] if game.result is None]
    absences = 0  # in a row, from the newest game back
    for result in results:
        if not result.absent:
            break
        absences += 1
    spoiled = sum(_is_spoiled(result) for result in results[: rules.games])
    # Void games are counted by the bot that had to decide when they failed: this one, or another.
    voids = sum(game.asked for game in void_games)
    voids_by_others = len(void_games) - voids
    reason = None
    if absences >= rules.absences:
        reason = f"{absences} games in a row without it"
    elif spoiled >= rules.spoiled:
        reason = f"{spoiled} of its last {rules.games} games it forfeited, or had two faults in"
    elif voids >= rules.voids and voids > voids_by_others:
        # If games become void at other bots as often, this bot is hardly the cause.
        reason = f"{voids} of its last {rules.attempts} games became void while it was asked"
    return BotConduct(bot=bot, absences=absences, spoiled=spoiled, voids=voids), reason


def _is_spoiled(result: SeatResult) -> bool:
    """Return True if the bot forfeited the game or had two faults or more in it."""
    return result.forfeit is not None or result.faults > 1

"""A game from its seed: the one loop of the referee, in-process tables and re-runs.

Invariants: a game is its seed and its decisions; nothing else changes it. There is no question
where only one action is legal. A refused action changes nothing.

    while (question := game.pending()) is not None:
        game.decide(choose(game.view(question.seat)))
"""

from __future__ import annotations

from typing import NamedTuple

from . import randomness
from .actions import Kind
from .errors import IllegalAction
from .events import EngineEvent, Event, end_event, event_for, new_tuple
from .faults import Fault, is_forfeit
from .ruleset import DIVES, MAX_PLAYERS, MIN_PLAYERS, RuleSet
from .scoring import Result
from .state import GameState
from .view import View, known_values, view_for


class Question(NamedTuple):
    """Decision that a seat has to make now."""

    seat: int
    kind: Kind
    legal: tuple[str, ...]
    """Legal actions, the default action first; an order may be legal without being listed."""


class Decision(NamedTuple):
    """Decision that a seat was asked for, with its answer."""

    seat: int
    action: str
    us: int
    """Time that it took, in microseconds."""
    fault: Fault | None
    """The fault of the bot, if any; the action is the default one then."""
    came: str | None = None
    """With a fault, a description in a few words of what the bot did instead."""


class Forfeit(NamedTuple):
    """A seat that lost its right to decide."""

    seat: int
    fault: Fault
    decision: int
    """The index of the faulty decision among the game's decisions."""


class Game:
    """One game of 2 to 6 players; `seed` has 32 bytes."""

    def __init__(self, rules: RuleSet, players: int, seed: bytes) -> None:
        if not MIN_PLAYERS <= players <= MAX_PLAYERS:
            raise ValueError(f"a game has {MIN_PLAYERS} to {MAX_PLAYERS} players, not {players}")
        if len(seed) != randomness.SEED_BYTES:
            raise ValueError(f"a seed has {randomness.SEED_BYTES} bytes, not {len(seed)}")
        self.rules = rules
        self.players = players
        self.seed = seed
        self.commitment = randomness.commitment(seed)
        self.decisions: list[Decision] = []
        self.forfeits: list[Forfeit] = []
        self.events: list[EngineEvent] = []
        starter = 0
        if rules.first_player == "roll_off":
            starter = randomness.first_player(seed, players)
        self.state = GameState.opening(
            rules, randomness.deal(seed), players, starter, log=self.events
        )
        self._source = randomness.source(seed)
        self._question: Question | None = None
        self._forfeited = [False] * players
        self._faults: list[list[Fault]] = [[] for _ in range(players)]
        self._turns = [[0] * players for _ in range(DIVES + 1)]

    def pending(self) -> Question | None:
        """Return the next decision to ask for, or None when the game is over.

        On the way to it dice are rolled, single legal actions are played, and seats that have
        forfeited play default actions. Another call without a decision in between returns the same
        question.
        """
        question = self._question
        if question is not None:
            return question
        state = self.state
        while (phase := state.phase) != "over":
            seat = state.to_move
            if phase != "roll":
                legal = state.legal
                if len(legal) > 1 and not self._forfeited[seat]:
                    question = new_tuple(Question, (seat, phase, legal))
                    self._question = question
                    return question
                if phase == "search":
                    state.unchecked_search(legal[0])
                    continue
                if phase == "order":
                    state.unchecked_order(legal[0])
                    continue
                state.unchecked_declare(legal[0] if legal else None)
            dive = state.dive
            turns = self._turns[dive]
            turns[seat] += 1
            d1, d2 = self._source.dice(dive, seat, turns[seat])
            state.unchecked_move(d1, d2)
        return None

    def decide(
        self,
        action: str | None,
        us: int = 0,
        fault: Fault | None = None,
        came: str | None = None,
    ) -> Decision:
        """Play the answer to the pending question, and return it as a decision.

        Raise `InvalidAction` or `IllegalAction` for an action that the position does not allow.

        action  an action, or None with a `fault`: the default action is played then
        us      time that the decision took, in microseconds
        came    with a fault, what the bot did instead, for its author
        """
        question = self._question or self.pending()
        if question is None:
            raise IllegalAction("the game is over, nothing is to be decided")
        if fault is not None:
            action = question.legal[0]
        elif action is None:
            raise IllegalAction("only a fault is answered with the default action")
        state = self.state
        seat = state.to_move
        state.apply(action)
        self._question = None
        decision = new_tuple(Decision, (seat, action, us, fault, came))
        self.decisions.append(decision)
        if fault is not None:
            self._count(fault, seat)
        return decision

    def _count(self, fault: Fault, seat: int) -> None:
        """Count a fault of a seat, which may forfeit it."""
        self._faults[seat].append(fault)
        if is_forfeit(self._faults[seat]):
            self._forfeited[seat] = True
            self.forfeits.append(Forfeit(seat, fault, len(self.decisions) - 1))

    def has_forfeited(self, seat: int) -> bool:
        """Return True if the seat has lost its right to decide."""
        return self._forfeited[seat]

    def view(self, seat: int | None) -> View:
        """Return the position as a seat, or a watcher (None), may know it."""
        return view_for(self.state, seat)

    def events_for(self, viewer: int | None, since: int = 0) -> list[Event]:
        """Return the events as a viewer may know them now; None is a watcher.

        since  number of events to skip, such as `len(game.events)` at an earlier call. The end of a
               finished game, with its seed, is never skipped
        """
        known = known_values(self.state, viewer)
        events = [event_for(event, known) for event in self.events[since:]]
        if self.state.phase == "over":
            events.append(end_event(self.result(), self.seed))
        return events

    def keep_no_events(self) -> None:
        """Drop all events and log no more of them: for a game whose events nobody reads."""
        self.state.log = None
        self.events.clear()

    def result(self) -> Result:
        """Return points and placements of a finished game; forfeited seats rank last."""
        return self.state.result([forfeit.seat for forfeit in self.forfeits])

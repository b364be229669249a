"""Continues a recorded game from one of its decisions, in this process.

Invariants: everything before the decision is unchanged, with its times and faults; the new bots
get all earlier requests too, as if they had played from the beginning; with the dice of the record
the result is a game like any other, and its record can be verified.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace

from deepsea_referee.bots.loading import load
from deepsea_referee.bots.resolve import (
    BotSpec,
    copies,
    resolve,
    sample,
    sample_bots,
    with_unique_names,
)
from deepsea_referee.errors import UserError
from deepsea_referee.workbench.replay import control_of, game_at, refuse_decision
from deepsea_rules.errors import RulesError
from deepsea_rules.faults import Fault
from deepsea_rules.game import Decision, Game
from deepsea_rules.randomness import game_seed, source
from deepsea_rules.record import GameRecord, RecordSeat, verify
from deepsea_rules.ruleset import RuleSet
from deepsea_rules.scoring import placement_scores
from deepsea_sdk.refereed_game import RefereedGame
from deepsea_sdk.table import play_to_end


@dataclass(frozen=True, slots=True)
class Variation:
    """A recorded game that was continued from one of its decisions."""

    record: GameRecord
    """The record of the continued game."""
    game: Game
    first_other: int | None
    """The index of the first decision that differs from the original; None if all are the same."""


def branch(
    original: GameRecord, at: int, bots: Sequence[BotSpec], action: str | None = None
) -> Variation:
    """Continue a recorded game from the decision with number `at`, with the dice of the record.

    bots    the bot in each seat
    action  the action of that decision; None to ask the bot in the seat

    Raises UserError for a decision that does not exist, or an action that is not legal there.
    """
    opening = _opening(original, at, action)
    game = Game(original.rules, len(original.seats), original.seed)
    with copies(bots) as copied:
        refereed = _played_on(original, game, copied, opening)
    record = replace(
        refereed.played().record, game_id=f"{original.game_id}-at-{at}", clock=original.clock
    )
    verify(GameRecord.from_json(record.to_json()))
    pairs = zip(original.decisions, record.decisions, strict=False)
    differences = (index for index, (old, new) in enumerate(pairs) if old.action != new.action)
    return Variation(record, game, next(differences, None))


def futures(
    original: GameRecord,
    at: int,
    bots: Sequence[BotSpec],
    action: str | None,
    games: int,
    on_game: Callable[[], object] = lambda: None,
) -> list[list[float]]:
    """Continue a recorded game many times from the decision with number `at`, with other dice.

    Returns a list for each seat with its placement score in each continued game. The n-th game has
    the same dice whatever the action is, so that two actions can be compared.

    bots     the bot in each seat
    action   the action of that decision; None to ask the bot in the seat
    games    how often the game is continued
    on_game  called after each continued game

    Raises UserError for a decision that does not exist, or an action that is not legal there.
    """
    opening = _opening(original, at, action)
    scores = []
    with copies(bots) as copied:
        for number in range(games):
            dice = game_seed(original.seed, number)
            game = _OtherDice(original.rules, len(original.seats), original.seed, at, dice)
            _played_on(original, game, copied, opening)
            scores.append(placement_scores(game.result().placements))
            on_game()
    return [list(scores_of_seat) for scores_of_seat in zip(*scores, strict=True)]


class _OtherDice(Game):
    """A game that takes its dice from another seed from decision `at` on.

    Its result cannot be verified from a record, since a record has one seed.
    """

    def __init__(self, rules: RuleSet, players: int, seed: bytes, at: int, dice: bytes) -> None:
        super().__init__(rules, players, seed)
        self._at = at
        self._dice = dice

    def decide(
        self,
        action: str | None,
        us: int = 0,
        fault: Fault | None = None,
        came: str | None = None,
    ) -> Decision:
        """Apply a decision as any game does; decision `at` changes the dice first."""
        if len(self.decisions) == self._at:
            self._source = source(self._dice)
        return super().decide(action, us, fault, came)


def _opening(original: GameRecord, at: int, action: str | None) -> list[Decision]:
    """Return the decisions of a continued game that are not asked for.

    Those are the recorded decisions before number `at`, and `action` as the next one if it is
    given. Raises UserError for a decision that does not exist, or an action that is not legal.
    """
    refuse_decision(original, at)
    opening = list(original.decisions[:at])
    if action is not None:
        decision = Decision(original.decisions[at].seat, action, 0, None)
        _check_action(original, at, decision)
        opening.append(decision)
    return opening


def _played_on(
    original: GameRecord, game: Game, bots: Sequence[BotSpec], opening: Sequence[Decision]
) -> RefereedGame:
    """Play the opening and then the rest of a game with bots in this process; return the game.

    Bots print to stderr meanwhile, since the result is printed to stdout.
    """
    seats = [(bot.name, bot.digest) for bot in with_unique_names(bots)]
    # Bots see the id of the original game, as they did at its start; a record gets a new id later.
    control, attempt = control_of(original), original.attempt
    refereed = RefereedGame(game, original.game_id, control, seats, attempt)
    refereed.own_paths = lambda seat, text: bots[seat].own_paths(text)
    with redirect_stdout(sys.stderr):
        players = [load(bot) for bot in bots]
        play_to_end(refereed, players, on_error="forfeit", now_us=lambda: 0, opening=opening)
    return refereed


def original_bots(record: GameRecord, arguments: Mapping[str, str]) -> list[BotSpec]:
    """Find the programs of all bots of a recorded game, as their files are now.

    arguments  the arguments BOT of known programs, by the digests of the programs at that time

    Raises UserError for a program that is neither known nor a sample bot.
    """
    return [original_bot(seat, arguments) for seat in record.seats]


def original_bot(seat: RecordSeat, arguments: Mapping[str, str]) -> BotSpec:
    """Find the program of the bot in a seat of a recorded game, as its files are now.

    arguments  the arguments BOT of known programs, by the digests of the programs at that time

    Raises UserError for a program that is neither known nor a sample bot.
    """
    if seat.digest in arguments:
        return resolve(arguments[seat.digest])
    for spec in map(sample, sample_bots()):
        if spec.digest == seat.digest:
            return spec
    raise UserError(
        f"where the program of {seat.name} is cannot be known from the record: name a bot for "
        "each seat, or one for all"
    )


def _check_action(original: GameRecord, at: int, decision: Decision) -> None:
    """Raise UserError if the action is not legal in the position of decision number `at`."""
    try:
        game_at(original, at).decide(decision.action)
    except RulesError as error:
        raise UserError(f"--action at decision {at}: {error}") from None

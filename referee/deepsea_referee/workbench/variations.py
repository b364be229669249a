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
    """The continued game."""

    record: GameRecord
    game: Game
    first_other: int | None
    """The first decision that is not that of the original; None if all are the same."""


def branch(
    original: GameRecord, at: int, bots: Sequence[BotSpec], action: str | None = None
) -> Variation:
    """Continue from decision `at`, with `action` there if it is given.

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
    others = (i for i, (old, new) in enumerate(pairs) if old.action != new.action)
    return Variation(record, game, next(others, None))


def futures(
    original: GameRecord,
    at: int,
    bots: Sequence[BotSpec],
    action: str | None,
    games: int,
    on_game: Callable[[], object] = lambda: None,
) -> list[list[float]]:
    """Continue from decision `at` with other dice: the placement scores of each seat, by game.

    The n-th game has the same dice whatever the action is. Raises as `branch` does.
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
    return [list(seat) for seat in zip(*scores, strict=True)]


class _OtherDice(Game):
    """A game with the dice of another seed from a decision on; no record can prove it."""

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
        if len(self.decisions) == self._at:
            self._source = source(self._dice)
        return super().decide(action, us, fault, came)


def _opening(original: GameRecord, at: int, action: str | None) -> list[Decision]:
    """The decisions that are played as they are."""
    refuse_decision(original, at)
    opening = list(original.decisions[:at])
    if action is not None:
        decision = Decision(original.decisions[at].seat, action, 0, None)
        _check(original, at, decision)
        opening.append(decision)
    return opening


def _played_on(
    original: GameRecord, game: Game, bots: Sequence[BotSpec], opening: Sequence[Decision]
) -> RefereedGame:
    """The game, played to its end after the opening."""
    seats = [(bot.name, bot.digest) for bot in with_unique_names(bots)]
    # The bots received this game's id at the start; a record gets its own.
    control, attempt = control_of(original), original.attempt
    refereed = RefereedGame(game, original.game_id, control, seats, attempt)
    refereed.own_paths = lambda seat, text: bots[seat].own_paths(text)
    with redirect_stdout(sys.stderr):
        players = [load(bot) for bot in bots]
        play_to_end(refereed, players, on_error="forfeit", now_us=lambda: 0, opening=opening)
    return refereed


def original_bots(record: GameRecord, arguments: Mapping[str, str]) -> list[BotSpec]:
    """The programs of those that played, as they are now.

    arguments  those of bots by the digests with which they played
    Raises UserError for a program that is neither a sample bot nor among these.
    """
    return [original_bot(seat, arguments) for seat in record.seats]


def original_bot(played: RecordSeat, arguments: Mapping[str, str]) -> BotSpec:
    """The program of one of them; like `original_bots`."""
    if played.digest in arguments:
        return resolve(arguments[played.digest])
    for spec in map(sample, sample_bots()):
        if spec.digest == played.digest:
            return spec
    raise UserError(
        f"where the program of {played.name} is cannot be known from the record: name a bot for "
        "each seat, or one for all"
    )


def _check(original: GameRecord, at: int, decision: Decision) -> None:
    """Raises IllegalAction for an action that the position does not allow."""
    try:
        game_at(original, at).decide(decision.action)
    except RulesError as error:
        raise UserError(f"--action at decision {at}: {error}") from None

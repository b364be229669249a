"""Continues a recorded game from one of its decisions, in this process.

Invariants: everything before the decision is unchanged, with its times and faults; the new bots
get all earlier requests too, as if they had played from the beginning; the result is a game like
any other, and its record can be verified.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace

from deepsea_referee.bots.loading import load
from deepsea_referee.bots.resolve import BotSpec, resolve, sample_bots, with_unique_names
from deepsea_referee.errors import UserError
from deepsea_referee.workbench.replay import control_of
from deepsea_rules.errors import RulesError
from deepsea_rules.game import Decision, Game
from deepsea_rules.record import GameRecord, verify
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
    if not 0 <= at < len(original.decisions):
        raise UserError(
            f"the game has decisions 0 to {len(original.decisions) - 1}; there is no {at}"
        )
    opening = list(original.decisions[:at])
    if action is not None:
        decision = Decision(original.decisions[at].seat, action, 0, None)
        _check(original, at, decision)
        opening.append(decision)
    game = Game(original.rules, len(original.seats), original.seed)
    named = with_unique_names(bots)
    seats = [(bot.name, bot.digest) for bot in named]
    # The bots received this game's id at the start; the record gets its own.
    control, attempt = control_of(original), original.attempt
    refereed = RefereedGame(game, original.game_id, control, seats, attempt)
    with redirect_stdout(sys.stderr):
        players = [load(bot) for bot in bots]
        play_to_end(refereed, players, on_error="forfeit", now_us=lambda: 0, opening=opening)
    record = replace(
        refereed.played().record, game_id=f"{original.game_id}-at-{at}", clock=original.clock
    )
    verify(GameRecord.from_json(record.to_json()))
    pairs = zip(original.decisions, record.decisions, strict=False)
    others = (i for i, (old, new) in enumerate(pairs) if old.action != new.action)
    return Variation(record, game, next(others, None))


def original_bots(record: GameRecord) -> list[BotSpec]:
    """The bots that played it, if they are sample bots as they are today; else UserError."""
    samples = {spec.digest: spec for spec in map(resolve, sample_bots())}
    for seat in record.seats:
        if seat.digest not in samples:
            raise UserError(
                f"the record does not contain {seat.name}'s program: "
                "name a bot for each seat, or one for all"
            )
    return [samples[seat.digest] for seat in record.seats]


def _check(original: GameRecord, at: int, decision: Decision) -> None:
    """Raises IllegalAction for an action that the position does not allow."""
    game = Game(original.rules, len(original.seats), original.seed)
    for old in original.decisions[:at]:
        game.decide(old.action, us=old.us, fault=old.fault, came=old.came)
    try:
        game.decide(decision.action)
    except RulesError as error:
        raise UserError(f"--action at decision {at}: {error}") from None

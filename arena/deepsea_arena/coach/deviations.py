"""The decisions in which bots did something else than the policy of the roll-outs would have done.

Invariant: what is said of a decision is what its seat could know, and follows from the record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import hypot

from deepsea_arena.coach.analysis import GameAnalysis, steps_of
from deepsea_arena.coach.weaknesses import DIGITS, INSTEAD, Deviation
from deepsea_rules.record import RecordSeat
from deepsea_rules.view import View, view_for
from deepsea_sdk.coach.decisions import Estimate, Judgement
from deepsea_sdk.policies import steady

ACTS = {
    "down": ("swims on down", "swimming on down"),
    "back": ("turns back", "turning back"),
    "take": ("takes a unit", "taking a unit"),
    "leave": ("takes nothing", "taking nothing"),
    "drop": ("drops a unit", "dropping a unit"),
    "order": ("orders its cargo", "another order"),
}
"""By the verb of an action, words for a bot that did it and for one that did not."""
LEVEL = 3
"""A lead of more points counts as one."""


def games_of_bots(analyses: Iterable[GameAnalysis]) -> dict[RecordSeat, list[list[Deviation]]]:
    """By bot and version its deviations in each of its games; a bot has one seat of a game."""
    found: dict[RecordSeat, list[list[Deviation]]] = {}
    for analysis in analyses:
        deviations = list(deviations_of(analysis))
        for seat, bot in enumerate(analysis.record.seats):
            found.setdefault(bot, []).append([one for one in deviations if one.seat == seat])
    return found


def deviations_of(analysis: GameAnalysis) -> Iterator[Deviation]:
    """The deviations of all seats in the decisions that were judged."""
    judged = {one.number: one for one in analysis.decisions}
    for step in steps_of(analysis.record):
        if step.decision not in judged or step.kind != "decision":
            continue
        one = judged[step.decision]
        view = view_for(step.before.state, one.seat)
        policy, played = steady(view), one.judged.played
        if policy == played:
            continue
        act, instead = _verb(played), _verb(policy)
        lost = _lost(one.judged, policy)
        yield Deviation(
            record=analysis.name,
            game_id=analysis.record.game_id,
            seat=one.seat,
            decision=one.number,
            turn=one.turn,
            dive=one.judged.dive,
            act=ACTS[act][0],
            traits=(
                (f"{INSTEAD} {'another one' if act == instead else ACTS[instead][1]}",),
                *_traits(view),
            ),
            played=played,
            policy=policy,
            lost=round(lost.mean, DIGITS),
            error=round(lost.error, DIGITS),
        )


def _verb(action: str) -> str:
    verb = action.partition(":")[0]
    return verb if verb in ACTS else "order"


def _lost(judged: Judgement, policy: str) -> Estimate:
    """The distance of what was played behind the policy's action, by the roll-outs of both."""
    scores = {option.action: option.score for option in judged.options}
    mean = scores[policy].mean - scores[judged.played].mean
    if policy == judged.best:
        return Estimate(mean, judged.regret.error)
    # That of a difference on the same luck is smaller, but not known.
    return Estimate(mean, hypot(scores[policy].error, scores[judged.played].error))


def _traits(view: View) -> Iterator[tuple[str, ...]]:
    """The dive, the air, the way home, the load, the lead and the seats, in words.

    Each goes on with a sentence that begins with an act: "turns back, with 9 air or more".
    """
    yield (f"in dive {view.dive}",)
    yield _bands(view.air, "with {} air", (8, 16))
    yield _bands(view.distance_home, "{} spaces from home", (4, 9))
    carrying = "carrying something" if view.me.load else "carrying nothing"
    yield (carrying, *_bands(view.me.load, "with a load of {}", (1, 2)))
    banks = [view.expected_value(bank) for bank in view.bank]
    own = banks.pop(view.me.seat)
    lead = own - max(banks)
    yield (
        "when behind" if lead < -LEVEL else "when not behind",
        "when ahead" if lead > LEVEL else "when not ahead",
    )
    yield (f"with {view.players} seats",)


def _bands(number: int, words: str, ends: tuple[int, ...]) -> tuple[str, ...]:
    """On which side of each of these ends a number is; `words` has a place for it."""
    return tuple(
        words.format(f"at least {end + 1}" if number > end else f"at most {end}") for end in ends
    )

"""Weaknesses of a bot: situations in which it surely loses over many games, and their changes.

Invariants: what is summed is how far an action is behind the one that the policy of the roll-outs
would have played, which is known before any roll-out: so noise makes no losses, and the policy
itself has none. A game is one observation. Every situation that came up in `FEWEST` games is
tested, and Holm's procedure sees to it that all lines of a report are right with 95 %.

The decisions in which bots did something else than the policy of the roll-outs would have done.

Invariant: what is said of a decision is what its seat could know, and follows from the record.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, compress
from math import hypot
from typing import TypeAlias

from deepsea_arena.analysis import GameAnalysis, steps_of
from deepsea_referee.workbench.confidence import Mean, difference, holm, mean_of
from deepsea_rules.game import RecordSeat
from deepsea_rules.view import View, view_for
from deepsea_sdk.coach.decisions import Estimate, Judgement
from deepsea_sdk.policies import steady

FEWEST = 5
"""Games in which a situation has to come up to be tested."""
WORTH = 0.01
"""Placement score a game that a situation has to lose, or a change to make, more than."""
CLEAREST = 3
"""Positions of a situation that are shown."""
MOST = 0.8
"""The share of a loss from which on a part of it is named."""
DIGITS = 4
INSTEAD = "instead of"
"""The beginning of the trait that says what the policy would have done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """A decision in which a bot did something else than the policy would have done."""

    record: str
    """The place of the record."""
    game_id: str
    seat: int
    decision: int
    """Its index among the game's decisions."""
    turn: int
    dive: int
    act: str
    """The action of the bot, in words."""
    traits: tuple[tuple[str, ...], ...]
    """Further properties of the decision, by kind, the same kinds in each deviation."""
    played: str
    policy: str
    """The action of the policy."""
    lost: float
    """The distance of the action behind that of the policy; below 0 if it is ahead."""
    error: float
    """That of 95 %, by the roll-outs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weakness:
    """A situation in which a bot surely loses."""

    situation: str
    """An act and where it loses, in words that go on with "It": "turns back, in dive 3"."""
    decisions: float
    """Their number in a game."""
    games: int
    """The games with such a decision."""
    lost: float
    """Placement score a game."""
    error: float
    """That of 95 %, by the spread over the games."""
    chance: float
    """The probability of such a loss if it were `WORTH`; before Holm's correction."""
    mostly: tuple[str, ...]
    """By dive, air and so on the rarest part with nearly all of the loss."""
    clearest: tuple[Deviation, ...]
    """The positions that lost most for sure."""
    plans: float
    """Dives of a game in which these decisions together have a graver mark than any of them."""
    plan: Deviation | None
    """The clearest of these dives, by its first decision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A situation in which a bot loses more than before, or less."""

    situation: str
    before: float
    now: float
    more: float
    """By how much more it loses in a game; below 0 it has become better."""
    error: float
    chance: float
    """The probability of such a change, up or down, if it were `WORTH`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weaknesses:
    """The weaknesses in games of a bot, the one that loses most first."""

    bot: str
    games: int
    tested: int
    """The number of situations that were tested."""
    weaknesses: tuple[Weakness, ...]
    before: int
    """Games of a former version that these are compared with; 0 for none."""
    changes: tuple[Change, ...]


Games: TypeAlias = Sequence[Sequence[Deviation]]
"""The deviations of a bot in each of its games."""


def find_weaknesses(bot: str, games: Games, before: Games = ()) -> Weaknesses:
    """The weaknesses of a bot in games, and the changes since games of a former version."""
    now, then = _tally(games), _tally(before)
    tested = _tested(now)
    found = _significant(tested)
    changes = _significant(_tested(now, then)) if before else {}
    return Weaknesses(
        bot=bot,
        games=len(games),
        tested=len(tested),
        weaknesses=tuple(_weakness(key, games, found) for key in _worst(found)),
        before=len(before),
        changes=tuple(
            Change(
                situation=_situation(key),
                before=round(mean_of(then[key]).mean, DIGITS),
                now=round(mean_of(now[key]).mean, DIGITS),
                **_figures("more", changes[key]),
            )
            for key in _worst(changes)
        ),
    )


# Statistics

_Key: TypeAlias = tuple[str, str]
"""An act, and a trait or "" for all of its decisions."""
_Tests: TypeAlias = Mapping[_Key, tuple[Mean, float]]
"""By situation, what it loses in a game, and the probability of that by chance."""


def _tally(games: Games) -> defaultdict[_Key, list[float]]:
    """By situation, what was lost in each game."""
    found: defaultdict[_Key, list[float]] = defaultdict(lambda: [0.0] * len(games))
    for number, game in enumerate(games):
        for one in game:
            for trait in ("", *chain.from_iterable(one.traits)):
                found[one.act, trait][number] += one.lost
    return found


def _tested(*tallies: defaultdict[_Key, list[float]]) -> _Tests:
    """The loss, or the difference from a second tally, in each situation of enough games."""
    tests = {}
    for key in sorted(set().union(*tallies)):
        losses = [tally[key] for tally in tallies]
        is_whole = key[1] and losses == [tally[key[0], ""] for tally in tallies]
        if is_whole or min(map(len, losses)) < FEWEST or sum(map(bool, chain(*losses))) < FEWEST:
            continue
        first, *second = map(mean_of, losses)
        if not second:
            tests[key] = first, first.chance(WORTH)
            continue
        more = difference(first, *second)
        tests[key] = more, min(1.0, 2 * more._replace(mean=abs(more.mean)).chance(WORTH))
    return tests


def _significant(tests: _Tests) -> _Tests:
    return dict(compress(tests.items(), holm([chance for _, chance in tests.values()])))


def _worst(found: _Tests) -> list[_Key]:
    """Of each act the situation that surely loses most, or has changed most, that first."""
    worst: dict[str, _Key] = {}
    for key in sorted(found, key=lambda key: found[key][0].half_width - abs(found[key][0].mean)):
        worst.setdefault(key[0], key)
    return list(worst.values())


# What is shown of a situation


def _situation(key: _Key) -> str:
    act, trait = key
    return f"{act} {trait}" if trait.startswith(INSTEAD) else f"{act}, {trait}" if trait else act


def phrase_of(weakness: Weakness, conditions: int) -> str:
    """A weakness as a phrase: what the bot does, instead of what, and some conditions."""
    act, _, condition = weakness.situation.partition(", ")
    words = [word for word in (condition, *weakness.mostly) if word]
    instead = [word for word in words if word.startswith(INSTEAD)]
    others = [word for word in words if word not in instead]
    return ", ".join((" ".join((act, *instead)), *others[:conditions]))


def _figures(name: str, test: tuple[Mean, float]) -> dict[str, float]:
    mean, chance = test
    half_width = round(mean.half_width, DIGITS)
    return {name: round(mean.mean, DIGITS), "error": half_width, "chance": float(f"{chance:.2g}")}


def _weakness(key: _Key, games: Games, found: _Tests) -> Weakness:
    act, trait = key
    deviations = [
        one
        for one in chain.from_iterable(games)
        if one.act == act and trait in ("", *chain.from_iterable(one.traits))
    ]
    surely = sorted(deviations, key=lambda one: one.error - one.lost)
    plans = sorted(_plans(deviations), key=lambda plan: plan.error - plan.lost)
    return Weakness(
        situation=_situation(key),
        decisions=round(len(deviations) / len(games), DIGITS),
        games=len({(one.record, one.seat) for one in deviations}),
        **_figures("lost", found[key]),
        mostly=tuple(_mostly(key, deviations, found)),
        clearest=tuple(one for one in surely[:CLEAREST] if one.lost > one.error),
        plans=round(len(plans) / len(games), DIGITS),
        plan=plans[0] if plans else None,
    )


def _mostly(key: _Key, deviations: Sequence[Deviation], found: _Tests) -> Iterator[str]:
    """By each other kind of trait the rarest one that has nearly all of the loss, and surely loses
    itself."""
    total = sum(one.lost for one in deviations)
    for kind in zip(*[one.traits for one in deviations], strict=True):
        having = defaultdict(list)
        for traits, one in zip(kind, deviations, strict=True):
            for trait in traits:
                having[trait].append(one.lost)
        most = [
            (len(lost), trait)
            for trait, lost in having.items()
            if sum(lost) >= MOST * total
            and ((key[0], trait) in found or len(lost) == len(deviations))
            and not (trait.endswith(" seats") and len(lost) == len(deviations))
        ]
        if most and key[1] not in having:  # else the situation says it already
            yield min(most)[1]


def _plans(deviations: Iterable[Deviation]) -> Iterator[Deviation]:
    """The first decision of each dive with a mark, with what all of them lost."""
    from deepsea_arena.analysis import graver_mark, sum_of  # loads the SDK
    from deepsea_sdk.coach.decisions import Estimate, mark_of

    dives: dict[tuple[str, int, int], list[Deviation]] = {}
    for one in deviations:
        dives.setdefault((one.record, one.seat, one.dive), []).append(one)
    for together in dives.values():
        losses = [Estimate(one.lost, one.error) for one in together]
        lost = sum_of(losses)
        if graver_mark(lost, map(mark_of, losses)):
            mean, error = (round(number, DIGITS) for number in lost)
            yield replace(together[0], lost=mean, error=error)


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

"""Weaknesses of a bot: situations in which it surely loses over many games, and their changes.

A deviation is a decision in which a bot did something else than the policy of the roll-outs would
have done. A situation is an act, such as "turns back", with a trait, such as "in dive 3". Start
reading at `find_weaknesses` and `deviations_of`.

Invariants: the loss of a deviation is the distance to the policy's action, which is known before
any roll-out: so noise makes no losses, and the policy itself has none; a trait is something that
the seat could know, and follows from the record; a game is one observation. Every situation that
came up in `FEWEST` games is tested, and Holm's procedure makes all lines of a report together right
with 95 %.
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
"""Number of games in which a situation has to come up to be tested."""
WORTH = 0.01
"""Placement score in a game that a weakness has to lose, or a change has to make, at least."""
CLEAREST = 3
"""Number of positions of a situation that are shown."""
NAMED_SHARE = 0.8
"""Share of a situation's loss above which one of its parts is named."""
DIGITS = 4
INSTEAD = "instead of"
"""The beginning of the trait that names the action of the policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """A decision in which a bot did something else than the policy would have done."""

    record: str
    """The name of the record."""
    game_id: str
    seat: int
    decision: int
    """The index of the decision in the game."""
    turn: int
    dive: int
    act: str
    """The action of the bot, in words."""
    traits: tuple[tuple[str, ...], ...]
    """Properties of the decision in words, grouped by kind.

    All deviations have the same kinds in the same order.
    """
    played: str
    policy: str
    """The action of the policy."""
    lost: float
    """The placement score that the action loses against the policy's; below 0 if it gains."""
    error: float
    """The error of `lost`, of 95 %, by the roll-outs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weakness:
    """A situation in which a bot surely loses."""

    situation: str
    """The act and its trait, in words that follow "It": "turns back, in dive 3"."""
    decisions: float
    """Mean number of such decisions in a game."""
    games: int
    """Number of games with such a decision."""
    lost: float
    """Mean placement score that it loses in a game."""
    error: float
    """The error of `lost`, of 95 %, by the spread over the games."""
    chance: float
    """The probability of such a loss if the true one were `WORTH`, before Holm's correction."""
    mostly: tuple[str, ...]
    """Traits of other kinds, such as the dive or the air, that have nearly all of the loss."""
    clearest: tuple[Deviation, ...]
    """The positions that lost most for sure."""
    plans: float
    """Mean number of dives in a game whose decisions together have a graver mark than any alone."""
    plan: Deviation | None
    """The first decision of the clearest of these dives; None if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A situation in which a bot loses more than before, or less."""

    situation: str
    before: float
    """Mean loss in a game of the former version."""
    now: float
    """Mean loss in a game now."""
    more: float
    """The loss now less the loss before; below 0 if the bot has become better."""
    error: float
    """The error of `more`, of 95 %."""
    chance: float
    """The probability of such a change, up or down, if the true one were `WORTH`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weaknesses:
    """The weaknesses in games of a bot, the one that loses most first."""

    bot: str
    games: int
    tested: int
    """Number of situations that were tested."""
    weaknesses: tuple[Weakness, ...]
    before: int
    """Number of games of the former version with which these are compared."""
    changes: tuple[Change, ...]


Games: TypeAlias = Sequence[Sequence[Deviation]]
"""The deviations of a bot in each of its games."""


def find_weaknesses(bot: str, games: Games, before: Games = ()) -> Weaknesses:
    """Return a bot's weaknesses in games, and their changes since the games of a former version."""
    losses, losses_before = _losses_by_situation(games), _losses_by_situation(before)
    tested = _tests(losses)
    significant = _significant(tested)
    changes = _significant(_tests(losses, losses_before)) if before else {}
    return Weaknesses(
        bot=bot,
        games=len(games),
        tested=len(tested),
        weaknesses=tuple(_weakness(key, games, significant) for key in _worst_by_act(significant)),
        before=len(before),
        changes=tuple(
            Change(
                situation=_situation(key),
                before=round(mean_of(losses_before[key]).mean, DIGITS),
                now=round(mean_of(losses[key]).mean, DIGITS),
                **_test_numbers("more", changes[key]),
            )
            for key in _worst_by_act(changes)
        ),
    )


# -------------------------------------------------------------------------------------- statistics

_Key: TypeAlias = tuple[str, str]
"""A situation: an act, and a trait; "" for all decisions with the act."""
_Tests: TypeAlias = Mapping[_Key, tuple[Mean, float]]
"""The mean loss in a game, and its probability by chance, of each situation."""


def _losses_by_situation(games: Games) -> defaultdict[_Key, list[float]]:
    """Return the losses of each situation, with one number for each game."""
    losses: defaultdict[_Key, list[float]] = defaultdict(lambda: [0.0] * len(games))
    for number, game in enumerate(games):
        for deviation in game:
            for trait in ("", *chain.from_iterable(deviation.traits)):
                losses[deviation.act, trait][number] += deviation.lost
    return losses


def _tests(
    losses: defaultdict[_Key, list[float]],
    losses_before: defaultdict[_Key, list[float]] | None = None,
) -> _Tests:
    """Test the mean loss of each situation that came up in enough games.

    With losses of a former version test the difference from them, up or down. A trait that all
    decisions with an act have is left out, since it is the same situation as the act alone.
    """
    tests = {}
    samples = [losses] if losses_before is None else [losses, losses_before]
    for act, trait in sorted(set().union(*samples)):
        sample_losses = [sample[act, trait] for sample in samples]
        is_act_alone = trait and sample_losses == [sample[act, ""] for sample in samples]
        games_with_loss = sum(map(bool, chain(*sample_losses)))
        if is_act_alone or min(map(len, sample_losses)) < FEWEST or games_with_loss < FEWEST:
            continue
        mean_loss = mean_of(sample_losses[0])
        if losses_before is None:
            tests[act, trait] = mean_loss, mean_loss.chance(WORTH)
            continue
        change = difference(mean_loss, mean_of(sample_losses[1]))
        one_sided = change._replace(mean=abs(change.mean)).chance(WORTH)
        tests[act, trait] = change, min(1.0, 2 * one_sided)
    return tests


def _significant(tests: _Tests) -> _Tests:
    """Return the tests that Holm's procedure accepts."""
    return dict(compress(tests.items(), holm([chance for _, chance in tests.values()])))


def _worst_by_act(tests: _Tests) -> list[_Key]:
    """Return for each act the situation that surely loses or has changed most; the worst first.

    Situations are compared by the end of their interval that is nearer to 0.
    """

    def negative_sure_size(key: _Key) -> float:
        mean, _ = tests[key]
        return mean.half_width - abs(mean.mean)

    worst: dict[str, _Key] = {}
    for act, trait in sorted(tests, key=negative_sure_size):
        worst.setdefault(act, (act, trait))
    return list(worst.values())


# --------------------------------------------------------------------------------------- situations


def _situation(key: _Key) -> str:
    """Return a situation in words that follow "It", such as "turns back, in dive 3"."""
    act, trait = key
    if not trait:
        return act
    return f"{act} {trait}" if trait.startswith(INSTEAD) else f"{act}, {trait}"


def phrase_of(weakness: Weakness, conditions: int) -> str:
    """Return a weakness as a phrase: the act, the act of the policy instead, and some conditions.

    `conditions` is the largest number of conditions.
    """
    act, _, condition = weakness.situation.partition(", ")
    traits = [trait for trait in (condition, *weakness.mostly) if trait]
    instead = [trait for trait in traits if trait.startswith(INSTEAD)]
    other_traits = [trait for trait in traits if trait not in instead]
    return ", ".join((" ".join((act, *instead)), *other_traits[:conditions]))


def _test_numbers(name: str, test: tuple[Mean, float]) -> dict[str, float]:
    """Return a test as fields: the mean with this name, its error, and the chance."""
    mean, chance = test
    return {
        name: round(mean.mean, DIGITS),
        "error": round(mean.half_width, DIGITS),
        "chance": float(f"{chance:.2g}"),  # two digits
    }


def _weakness(key: _Key, games: Games, significant: _Tests) -> Weakness:
    """Return the weakness of a significant situation, with its decisions in the games."""
    act, trait = key
    deviations = [
        deviation
        for deviation in chain.from_iterable(games)
        if deviation.act == act and trait in ("", *chain.from_iterable(deviation.traits))
    ]

    def negative_sure_loss(deviation: Deviation) -> float:
        return deviation.error - deviation.lost

    clearest_first = sorted(deviations, key=negative_sure_loss)
    plans = sorted(_plans(deviations), key=negative_sure_loss)
    return Weakness(
        situation=_situation(key),
        decisions=round(len(deviations) / len(games), DIGITS),
        games=len({(deviation.record, deviation.seat) for deviation in deviations}),
        **_test_numbers("lost", significant[key]),
        mostly=tuple(_main_traits(key, deviations, significant)),
        clearest=tuple(
            deviation for deviation in clearest_first[:CLEAREST] if deviation.lost > deviation.error
        ),
        plans=round(len(plans) / len(games), DIGITS),
        plan=plans[0] if plans else None,
    )


def _main_traits(key: _Key, deviations: Sequence[Deviation], significant: _Tests) -> Iterator[str]:
    """Yield a trait of each kind that has nearly all of the loss of a situation.

    The trait must be significant itself, or common to all deviations; of several it is the rarest
    one. A kind of which the situation names a trait already is left out, and so is the number of
    seats if it was always the same.
    """
    total = sum(deviation.lost for deviation in deviations)
    for traits_of_kind in zip(*[deviation.traits for deviation in deviations], strict=True):
        losses_by_trait = defaultdict(list)
        for traits, deviation in zip(traits_of_kind, deviations, strict=True):
            for trait in traits:
                losses_by_trait[trait].append(deviation.lost)
        if key[1] in losses_by_trait:
            continue
        candidates = []
        for trait, losses in losses_by_trait.items():
            is_common = len(losses) == len(deviations)
            if (
                sum(losses) >= NAMED_SHARE * total
                and ((key[0], trait) in significant or is_common)
                and not (trait.endswith(" seats") and is_common)
            ):
                candidates.append((len(losses), trait))
        if candidates:
            _, rarest = min(candidates)
            yield rarest


def _plans(deviations: Iterable[Deviation]) -> Iterator[Deviation]:
    """Yield each dive whose deviations together have a graver mark than any of them alone.

    A dive is yielded as its first deviation, with the sum of all its losses.
    """
    from deepsea_arena.analysis import graver_mark, sum_of  # loads the SDK
    from deepsea_sdk.coach.decisions import Estimate, mark_of

    dives: dict[tuple[str, int, int], list[Deviation]] = {}
    for deviation in deviations:
        key = (deviation.record, deviation.seat, deviation.dive)
        dives.setdefault(key, []).append(deviation)
    for dive_deviations in dives.values():
        losses = [Estimate(deviation.lost, deviation.error) for deviation in dive_deviations]
        loss = sum_of(losses)
        if graver_mark(loss, map(mark_of, losses)):
            yield replace(
                dive_deviations[0], lost=round(loss.mean, DIGITS), error=round(loss.error, DIGITS)
            )


# --------------------------------------------------------------------------------------- deviations

ACTS = {
    "down": ("swims on down", "swimming on down"),
    "back": ("turns back", "turning back"),
    "take": ("takes a unit", "taking a unit"),
    "leave": ("takes nothing", "taking nothing"),
    "drop": ("drops a unit", "dropping a unit"),
    "order": ("orders its cargo", "another order"),
}
"""Words by the verb of an action: what the bot does, and what it does instead of."""
LEVEL_POINTS = 3
"""Number of points above which a lead counts."""


def games_of_bots(analyses: Iterable[GameAnalysis]) -> dict[RecordSeat, list[list[Deviation]]]:
    """Return the deviations in each game of each bot, by name and version.

    A bot that sits in several seats of a game has them as several games.
    """
    games_by_bot: dict[RecordSeat, list[list[Deviation]]] = {}
    for analysis in analyses:
        deviations = list(deviations_of(analysis))
        for seat, bot in enumerate(analysis.record.seats):
            games_by_bot.setdefault(bot, []).append(
                [deviation for deviation in deviations if deviation.seat == seat]
            )
    return games_by_bot


def deviations_of(analysis: GameAnalysis) -> Iterator[Deviation]:
    """Yield the deviations of all seats among the judged decisions of a game."""
    analysed = {decision.number: decision for decision in analysis.decisions}
    for step in steps_of(analysis.record):
        if step.decision not in analysed or step.kind != "decision":
            continue
        decision = analysed[step.decision]
        view = view_for(step.before.state, decision.seat)
        policy_action, played = steady(view), decision.judged.played
        if policy_action == played:
            continue
        act, policy_act = _verb(played), _verb(policy_action)
        alternative = "another one" if act == policy_act else ACTS[policy_act][1]
        lost = _loss_against(decision.judged, policy_action)
        yield Deviation(
            record=analysis.name,
            game_id=analysis.record.game_id,
            seat=decision.seat,
            decision=decision.number,
            turn=decision.turn,
            dive=decision.judged.dive,
            act=ACTS[act][0],
            traits=((f"{INSTEAD} {alternative}",), *_traits(view)),
            played=played,
            policy=policy_action,
            lost=round(lost.mean, DIGITS),
            error=round(lost.error, DIGITS),
        )


def _verb(action: str) -> str:
    """Return the verb of an action, such as "drop" for "drop:2"; an order of cargo has none."""
    verb = action.partition(":")[0]
    return verb if verb in ACTS else "order"


def _loss_against(judged: Judgement, policy_action: str) -> Estimate:
    """Return the score that the played action loses against the policy's action."""
    scores = {option.action: option.score for option in judged.options}
    mean = scores[policy_action].mean - scores[judged.played].mean
    if policy_action == judged.best:
        return Estimate(mean, judged.regret.error)
    # The error of a difference on the same luck is smaller, but not known: this is an upper bound.
    return Estimate(mean, hypot(scores[policy_action].error, scores[judged.played].error))


def _traits(view: View) -> Iterator[tuple[str, ...]]:
    """Yield the dive, the air, the way home, the load, the lead and the seats of a view, in words.

    The words follow an act: "turns back, with 9 air or more".
    """
    yield (f"in dive {view.dive}",)
    yield _bands(view.air, "with {} air", (8, 16))
    yield _bands(view.distance_home, "{} spaces from home", (4, 9))
    carrying = "carrying something" if view.me.load else "carrying nothing"
    yield (carrying, *_bands(view.me.load, "with a load of {}", (1, 2)))
    banks = [view.expected_value(bank) for bank in view.bank]
    own_points = banks.pop(view.me.seat)
    lead = own_points - max(banks)
    yield (
        "when behind" if lead < -LEVEL_POINTS else "when not behind",
        "when ahead" if lead > LEVEL_POINTS else "when not ahead",
    )
    yield (f"with {view.players} seats",)


def _bands(number: int, template: str, bounds: tuple[int, ...]) -> tuple[str, ...]:
    """Say for each of the bounds on which side of it a number is.

    `template` has a place for "at most 8" or "at least 9".
    """
    return tuple(
        template.format(f"at least {bound + 1}" if number > bound else f"at most {bound}")
        for bound in bounds
    )

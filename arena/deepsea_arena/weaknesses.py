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
from typing import TYPE_CHECKING, TypeAlias

from deepsea_referee.workbench.confidence import Mean, difference, holm, mean_of
from deepsea_rules.game import RecordSeat
from deepsea_rules.view import View, view_for

if TYPE_CHECKING:
    from deepsea_arena.analysis import GameAnalysis
    from deepsea_sdk.coach.decisions import Estimate, Judgement

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
    """Return the situations in which a bot certainly loses, and what has changed in that.

    games   the bot's deviations in each of its games
    before  those of its former version, with which they are compared; empty for no comparison
    """
    losses = _losses_by_situation(games)
    tests = _mean_loss_tests(losses)
    significant = _significant(tests)
    weaknesses = [_weakness(key, games, significant) for key in _worst_by_act(significant)]
    changes = []
    if before:
        losses_before = _losses_by_situation(before)
        significant_changes = _significant(_change_tests(losses, losses_before))
        for key in _worst_by_act(significant_changes):
            change = Change(
                situation=_situation(key),
                before=round(mean_of(losses_before[key]).mean, DIGITS),
                now=round(mean_of(losses[key]).mean, DIGITS),
                **_test_numbers("more", significant_changes[key]),
            )
            changes.append(change)
    return Weaknesses(
        bot=bot,
        games=len(games),
        tested=len(tests),
        weaknesses=tuple(weaknesses),
        before=len(before),
        changes=tuple(changes),
    )


# -------------------------------------------------------------------------------------- statistics

_Key: TypeAlias = tuple[str, str]
"""A situation: an act, and a trait, which is `_ANY` for all decisions with the act."""
_ANY = ""
_Losses: TypeAlias = defaultdict[_Key, list[float]]
"""The losses of each situation, with one number for each game."""
_Tests: TypeAlias = Mapping[_Key, tuple[Mean, float]]
"""The mean loss in a game, and its probability by chance, of each situation."""


def _losses_by_situation(games: Games) -> _Losses:
    """Return the placement score that a bot lost in each situation, as one number for each game.

    A situation is an act of the bot, such as "turns back", alone or with a trait of the decision,
    such as "in dive 3". So a deviation with two traits counts for three situations.
    """
    losses: _Losses = defaultdict(lambda: [0.0] * len(games))
    for game_number, deviations in enumerate(games):
        for deviation in deviations:
            for trait in (_ANY, *chain.from_iterable(deviation.traits)):
                losses[deviation.act, trait][game_number] += deviation.lost
    return losses


def _mean_loss_tests(losses: _Losses) -> _Tests:
    """Test for each situation whether a bot loses more than `WORTH` there in a game.

    Return the mean loss, and the probability of such a loss if the bot really lost only `WORTH`.
    """
    tests = {}
    for key in _testable_situations([losses]):
        mean_loss = mean_of(losses[key])
        tests[key] = mean_loss, mean_loss.chance(WORTH)
    return tests


def _change_tests(losses: _Losses, losses_before: _Losses) -> _Tests:
    """Test for each situation whether a bot loses more there than its former version, or less.

    Return the change of the mean loss, and the probability of such a change if it were `WORTH`.
    """
    tests = {}
    for key in _testable_situations([losses, losses_before]):
        change = difference(mean_of(losses[key]), mean_of(losses_before[key]))
        one_sided_chance = change._replace(mean=abs(change.mean)).chance(WORTH)
        tests[key] = change, min(1.0, 2 * one_sided_chance)  # a change up or down
    return tests


def _testable_situations(samples: Sequence[_Losses]) -> Iterator[_Key]:
    """Yield the situations that came up in enough games, in a fixed order.

    `samples` are the losses of one version, or of two that are compared. If all decisions with an
    act have a trait, the act with the trait is the same situation as the act alone: only the latter
    is yielded.
    """
    for act, trait in sorted(set().union(*samples)):
        losses_of_samples = [sample[act, trait] for sample in samples]
        losses_of_act = [sample[act, _ANY] for sample in samples]
        is_same_as_act = losses_of_samples == losses_of_act
        if trait != _ANY and is_same_as_act:
            continue
        smallest_sample = min(map(len, losses_of_samples))  # in games
        games_with_loss = sum(loss != 0 for loss in chain(*losses_of_samples))
        if smallest_sample >= FEWEST and games_with_loss >= FEWEST:
            yield act, trait


def _significant(tests: _Tests) -> _Tests:
    """Return the tests that Holm's procedure accepts."""
    return dict(compress(tests.items(), holm([chance for _, chance in tests.values()])))


def _worst_by_act(tests: _Tests) -> list[_Key]:
    """Return, for each act, the situation with the largest loss or change; the largest first.

    A loss or change is as large as it certainly is: its size less the half width of its interval.
    """

    def certain_size(key: _Key) -> float:
        mean, _ = tests[key]
        return abs(mean.mean) - mean.half_width

    worst_of_act: dict[str, _Key] = {}
    for act, trait in sorted(tests, key=certain_size, reverse=True):
        worst_of_act.setdefault(act, (act, trait))
    return list(worst_of_act.values())


# --------------------------------------------------------------------------------------- situations


def _situation(key: _Key) -> str:
    """Return a situation in words that follow "It", such as "turns back, in dive 3"."""
    act, trait = key
    if not trait:
        return act
    return f"{act} {trait}" if trait.startswith(INSTEAD) else f"{act}, {trait}"


def phrase_of(weakness: Weakness, conditions: int) -> str:
    """Return a weakness as a phrase, such as "turns back instead of taking a unit, in dive 3".

    `conditions` is the largest number of traits after the comma, such as the dive or the air.
    """
    act, _, trait_of_situation = weakness.situation.partition(", ")
    traits = [trait for trait in (trait_of_situation, *weakness.mostly) if trait]
    alternatives = [trait for trait in traits if trait.startswith(INSTEAD)]
    other_traits = [trait for trait in traits if trait not in alternatives]
    act_and_alternatives = " ".join((act, *alternatives))
    return ", ".join((act_and_alternatives, *other_traits[:conditions]))


def _test_numbers(name: str, test: tuple[Mean, float]) -> dict[str, float]:
    """Return the result of a test as fields: the mean under this name, its error, the chance."""
    mean, chance = test
    return {
        name: round(mean.mean, DIGITS),
        "error": round(mean.half_width, DIGITS),
        "chance": float(f"{chance:.2g}"),  # two digits
    }


def _weakness(key: _Key, games: Games, significant: _Tests) -> Weakness:
    """Return the weakness in a situation, with the deviations that belong to it.

    games        the bot's deviations in each of its games
    significant  the tests of all situations in which it certainly loses, with this one among them
    """
    deviations = [
        deviation for deviation in chain.from_iterable(games) if _is_in_situation(deviation, key)
    ]

    def certain_loss(deviation: Deviation) -> float:
        return deviation.lost - deviation.error

    clearest = sorted(deviations, key=certain_loss, reverse=True)[:CLEAREST]
    dives = sorted(_losing_dives(deviations), key=certain_loss, reverse=True)
    return Weakness(
        situation=_situation(key),
        decisions=round(len(deviations) / len(games), DIGITS),
        games=len({(deviation.record, deviation.seat) for deviation in deviations}),
        **_test_numbers("lost", significant[key]),
        mostly=tuple(_main_traits(key, deviations, significant)),
        clearest=tuple(deviation for deviation in clearest if certain_loss(deviation) > 0),
        plans=round(len(dives) / len(games), DIGITS),
        plan=dives[0] if dives else None,
    )


def _is_in_situation(deviation: Deviation, key: _Key) -> bool:
    """Return True if a decision has the act and the trait of a situation."""
    act, trait = key
    return deviation.act == act and trait in (_ANY, *chain.from_iterable(deviation.traits))


def _main_traits(key: _Key, deviations: Sequence[Deviation], significant: _Tests) -> Iterator[str]:
    """Yield the traits behind a situation: at most one of each kind, with nearly all of the loss.

    Kinds of traits are, for example, the dive and the air. If several traits of a kind have nearly
    all of the loss, the rarest one is yielded. The kind of the situation's own trait is left out.
    """
    act, own_trait = key
    total_loss = sum(deviation.lost for deviation in deviations)
    kinds = len(deviations[0].traits) if deviations else 0
    for kind in range(kinds):
        losses_by_trait = _losses_by_trait(deviations, kind)
        if own_trait in losses_by_trait:
            continue
        candidates = []
        for trait, losses in losses_by_trait.items():
            has_nearly_all = sum(losses) >= NAMED_SHARE * total_loss
            is_common = len(losses) == len(deviations)  # all of the deviations have it
            is_significant = (act, trait) in significant
            # If all games had the same number of seats, that explains nothing.
            is_trivial = is_common and trait.endswith(" seats")
            if has_nearly_all and (is_significant or is_common) and not is_trivial:
                candidates.append((len(losses), trait))
        if candidates:
            _, rarest = min(candidates)
            yield rarest


def _losses_by_trait(deviations: Iterable[Deviation], kind: int) -> Mapping[str, list[float]]:
    """Return, for each trait of one kind, the losses of the deviations that have the trait.

    kind  the index of the kind in `traits` of a deviation
    """
    losses_by_trait = defaultdict(list)
    for deviation in deviations:
        for trait in deviation.traits[kind]:
            losses_by_trait[trait].append(deviation.lost)
    return losses_by_trait


def _losing_dives(deviations: Iterable[Deviation]) -> Iterator[Deviation]:
    """Yield the dives whose deviations together have a graver mark than each of them alone.

    A dive is yielded as its first deviation, with the sum of the losses of all.
    """
    from deepsea_arena.analysis import graver_mark, sum_of  # loads the SDK
    from deepsea_sdk.coach.decisions import Estimate, mark_of

    by_dive: dict[tuple[str, int, int], list[Deviation]] = {}
    for deviation in deviations:
        dive_key = (deviation.record, deviation.seat, deviation.dive)
        by_dive.setdefault(dive_key, []).append(deviation)
    for deviations_of_dive in by_dive.values():
        losses = [Estimate(deviation.lost, deviation.error) for deviation in deviations_of_dive]
        total = sum_of(losses)
        if graver_mark(total, map(mark_of, losses)):
            first = deviations_of_dive[0]
            yield replace(first, lost=round(total.mean, DIGITS), error=round(total.error, DIGITS))


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
    """Return, for each version of a bot, the list of its deviations in each of its games.

    A bot that sits in several seats of a game has as many games.
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
    """Yield the judged decisions of a game that differ from those of the policy of the roll-outs.

    They are those of all seats, in the order of the game.
    """
    from deepsea_arena.analysis import steps_of  # loads the SDK
    from deepsea_sdk.policies import steady

    judged_decisions = {decision.number: decision for decision in analysis.decisions}
    for step in steps_of(analysis.record):
        if step.decision not in judged_decisions or step.kind != "decision":
            continue
        decision = judged_decisions[step.decision]
        view = view_for(step.before.state, decision.seat)
        played, policy_action = decision.judged.played, steady(view)
        if policy_action == played:
            continue
        verb, policy_verb = _verb(played), _verb(policy_action)
        # The same verb with another unit or order is called "another one".
        alternative = "another one" if verb == policy_verb else ACTS[policy_verb][1]
        lost = _loss_against(decision.judged, policy_action)
        yield Deviation(
            record=analysis.name,
            game_id=analysis.record.game_id,
            seat=decision.seat,
            decision=decision.number,
            turn=decision.turn,
            dive=decision.judged.dive,
            act=ACTS[verb][0],
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
    """Return how much score the action that was played loses against the policy's action.

    It is below 0 if the action that was played is the better one.
    """
    from deepsea_sdk.coach.decisions import Estimate  # loads the SDK

    scores = {option.action: option.score for option in judged.options}
    policy_score, played_score = scores[policy_action], scores[judged.played]
    lost = policy_score.mean - played_score.mean
    if policy_action == judged.best:
        return Estimate(lost, judged.regret.error)
    # Both actions were tried on the same luck, which makes the error of their difference smaller
    # than this. It is not known, so that this upper bound is taken.
    return Estimate(lost, hypot(policy_score.error, played_score.error))


def _traits(view: View) -> Iterator[tuple[str, ...]]:
    """Yield the traits of a position that a seat sees, in words: a group for each kind of trait.

    The kinds are the dive, the air, the way home, the load, the lead and the number of seats. The
    words follow an act, such as "turns back, with at least 9 air".
    """
    yield (f"in dive {view.dive}",)
    yield _bands(view.air, "with {} air", (8, 16))
    yield _bands(view.distance_home, "{} spaces from home", (4, 9))
    carrying = "carrying something" if view.me.load else "carrying nothing"
    yield (carrying, *_bands(view.me.load, "with a load of {}", (1, 2)))
    points = [view.expected_value(bank) for bank in view.bank]
    own_points = points.pop(view.me.seat)
    lead = own_points - max(points)
    yield (
        "when behind" if lead < -LEVEL_POINTS else "when not behind",
        "when ahead" if lead > LEVEL_POINTS else "when not ahead",
    )
    yield (f"with {view.players} seats",)


def _bands(number: int, template: str, bounds: tuple[int, ...]) -> tuple[str, ...]:
    """Return a phrase for each of the bounds, which says whether a number is above it.

    `template` is the phrase with a place for "at most 8" or "at least 9".
    """
    phrases = []
    for bound in bounds:
        side = f"at least {bound + 1}" if number > bound else f"at most {bound}"
        phrases.append(template.format(side))
    return tuple(phrases)

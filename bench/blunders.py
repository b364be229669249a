"""Whether the coach marks what was a blunder: python bench/blunders.py.

    python bench/blunders.py [--games N] [--truth TRIALS] [--precision X] [--seats N]...
    python bench/blunders.py --reports N [--bot NAME]... [--games N] [--precision X] [--seats N]...

Bots with a planted fault play against `steady`, and sample bots among themselves. The truth of a
decision is the mean of many roll-outs of each action to the end of the game, on other luck than the
coach has. It prints how many of those that truly cost 0.05 and 0.10 have a mark, how many marks are
on less, and the same for whole dives: the sums of their decisions. Needs numpy.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import process_time
from typing import NamedTuple

import numpy as np

from deepsea_arena.analysis import Analysis, AnalysisSettings, GameAnalysis, mean
from deepsea_arena.weaknesses import Deviation, deviations_of, find_weaknesses
from deepsea_bots.cautious import Cautious
from deepsea_bots.greedy import Greedy
from deepsea_bots.heuristic import Heuristic
from deepsea_rules.actions import BACK, DOWN, LEVEL_OF, TAKE, drop
from deepsea_rules.randomness import game_seed, seed_from_text
from deepsea_rules.view import View, view_for
from deepsea_sdk.batch import SteadyPolicy, draw_luck, play_on_many
from deepsea_sdk.bot import AnyBot, Bot
from deepsea_sdk.coach.decisions import Effort, Judgement, Step, game_steps
from deepsea_sdk.policies import steady
from deepsea_sdk.table import LocalGame, play
from figures import described

AIR_LEFT = 12


def drops_its_best(view: View) -> str | None:
    """Drop the best piece wherever that is possible."""
    own = view.cargo[view.to_move]
    best = max(own, key=lambda unit: sum([4 * LEVEL_OF[chip] - 2.5 for chip in unit]), default=None)
    return drop(best) if best and drop(best) in view.legal else None


def turns_early(view: View) -> str | None:
    """Take the first piece, and turn back with it while there is air left."""
    if TAKE in view.legal and not view.cargo[view.to_move]:
        return TAKE
    return BACK if BACK in view.legal and view.air >= AIR_LEFT else None


def never_turns(view: View) -> str | None:
    """Go on down."""
    return DOWN if view.phase == "declare" else None


def takes_all(view: View) -> str | None:
    """Take everything."""
    return TAKE if TAKE in view.legal else None


FAULTS: Mapping[str, Callable[[View], str | None]] = {
    "drops its best": drops_its_best,
    "turns early": turns_early,
    "never turns": never_turns,
    "takes all": takes_all,
}
SAMPLES: Sequence[AnyBot] = (Heuristic, Greedy, Cautious)


def planted(fault: Callable[[View], str | None]) -> type[Bot]:
    """A bot that decides by `steady` where its fault says nothing."""

    class Planted(Bot):
        def decide(self, view: View) -> str:
            return fault(view) or steady(view)

    return Planted


class Judged(NamedTuple):
    """A decision by the coach and by many roll-outs."""

    judgement: Judgement
    regret: float
    dive: tuple[object, ...]
    """Its game, seat and dive."""


def true_regret(step: Step, label: str, trials: int) -> float:
    """How far the action that was played is behind the best one."""
    view = view_for(step.before.state, step.seat)
    assert step.action is not None
    actions = [*view.legal, *({step.action} - set(view.legal))]
    states = [step.before.state.clone() for _ in actions]
    for state, action in zip(states, actions, strict=True):
        state.unchecked_apply(action)
    luck = draw_luck(view, np.random.default_rng(list(label.encode())), trials)
    ends = play_on_many(states, luck, SteadyPolicy(view.players))
    means = ends.halves[:, view.to_move].reshape(len(states), trials).mean(axis=1)
    return float(max(means) - means[actions.index(step.action)]) / (2 * (view.players - 1))


def games(
    fault: str, seats: int, count: int, season: str = ""
) -> Iterator[tuple[int | None, LocalGame]]:
    """Games, and the seat of the bot with the fault; all seats are looked at of sample bots."""
    for number in range(count):
        seed = game_seed(seed_from_text(f"blunders {fault} {seats}{season}"), number)
        if fault == "steady":
            yield number % seats, play([planted(steady)] * seats, seed=seed)
            continue
        if fault not in FAULTS:
            yield None, play([SAMPLES[(number + seat) % 3] for seat in range(seats)], seed=seed)
            continue
        seat = number % seats
        bots: list[AnyBot] = [planted(steady)] * seats
        bots[seat] = planted(FAULTS[fault])
        yield seat, play(bots, seed=seed)


def judged(
    fault: str, seats: int, given: argparse.Namespace
) -> tuple[list[Judged], list[GameAnalysis]]:
    """The decisions of some games; those of the seat with the fault, or all."""
    found, analyses = [], []
    for seat, game in games(fault, seats, given.games):
        settings = AnalysisSettings(Effort.to(given.precision), seat=seat)
        (analysis,) = Analysis([("", game.record())], settings).run()
        analyses.append(analysis)
        steps = {step.decision: step for step in game_steps(game) if step.kind == "decision"}
        for one in analysis.decisions:
            label = f"truth {fault} {game.seed.hex()} {one.number}"
            regret = true_regret(steps[one.number], label, given.truth)
            found.append(Judged(one.judged, regret, (game.seed, one.seat, one.judged.dive)))
    return found, analyses


def marks(found: Sequence[Judged]) -> list[str]:
    """Decisions; of those that cost so much, with a mark; marks, and those on less."""
    columns = [str(len(found))]
    for least in (0.05, 0.10):
        costly = [bool(one.judgement.mark) for one in found if one.regret >= least]
        columns.append(f"{sum(costly)} of {len(costly)}")
    marked = [one.regret for one in found if one.judgement.mark]
    return [*columns, f"{sum(regret < 0.05 for regret in marked)} of {len(marked)}"]


def dives(found: Sequence[Judged], analyses: Sequence[GameAnalysis]) -> list[str]:
    """Dives that cost 0.10 in all and have a mark, or decisions with one; marks on less."""
    cost: dict[tuple[object, ...], float] = {}
    marked: set[tuple[object, ...]] = set()
    for one in found:
        cost[one.dive] = cost.get(one.dive, 0.0) + one.regret
        if one.judgement.mark:
            marked.add(one.dive)
    whole = {
        (analysis.record.seed, dive.seat, dive.dive)
        for analysis in analyses
        for dive in analysis.marked_dives
    }
    costly = {dive for dive, total in cost.items() if total >= 0.10}
    wrong = sum(cost[dive] < 0.10 for dive in whole)
    return [f"{len(costly & (marked | whole))} of {len(costly)}", f"{wrong} of {len(whole)}"]


def reports(fault: str, seats: int, given: argparse.Namespace) -> list[str]:
    """Reports that have a line, what they name first, and what is lost in a game."""
    first: Counter[str] = Counter()
    behind, lost = [], []
    for number in range(given.reports):
        season: list[list[Deviation]] = []
        for seat, game in games(fault, seats, given.games, f" {number}"):
            settings = AnalysisSettings(Effort.to(given.precision), seat=seat)
            (analysis,) = Analysis([("", game.record())], settings).run()
            season.append(list(deviations_of(analysis)))
            lost.append(sum(one.lost for one in season[-1]))
            behind.append(0.5 - analysis.results[seat or 0])
        found = find_weaknesses("", season).weaknesses
        first.update([found[0].situation.partition(",")[0]] if found else [])
    named = ", ".join(f"{situation} ({count})" for situation, count in first.most_common())
    return [f"{first.total()} of {given.reports}", named or "-", *map(with_error, (lost, behind))]


def with_error(numbers: Sequence[float]) -> str:
    """The mean with its interval."""
    found = mean(numbers)
    assert found is not None
    return f"{found.mean:.3f} ±{found.error:.3f}"


def main() -> None:
    """Print a row for each fault and number of seats."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--games", type=int, default=12)
    parser.add_argument("--reports", type=int, default=0)
    parser.add_argument("--bot", action="append")
    parser.add_argument("--truth", type=int, default=10_000)
    parser.add_argument("--precision", type=float, default=0.03)
    parser.add_argument("--seats", type=int, action="append")
    given = parser.parse_args()
    print(f"# {described()}")
    if given.reports:
        print("| bot | seats | reports with a line | named first | lost a game | behind steady |")
        print("|---|---|---|---|---|---|")
    else:
        print("| bot | seats | decisions | marks ≥ 0.05 | ≥ 0.10 | on less than 0.05 | ", end="")
        print("dives ≥ 0.10 | marks on less |")
        print("|---|---|---|---|---|---|---|---|")
    began = process_time()
    for seats in given.seats or (2, 4):
        others = ["steady" if given.reports else "sample bots"]
        for fault in given.bot or [*FAULTS, *others]:
            if given.reports:
                row = reports(fault, seats, given)
            else:
                found, analyses = judged(fault, seats, given)
                row = [*marks(found), *dives(found, analyses)]
            print(f"| {' | '.join([fault, str(seats), *row])} |", flush=True)
    truth = "" if given.reports else f"; truth by {given.truth} roll-outs"
    print(f"{process_time() - began:.0f} s of CPU time{truth}")


if __name__ == "__main__":
    main()

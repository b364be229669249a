"""Beliefs of bots, by the numbers in their notes, against the outcomes.

Invariants: what came follows from the record alone; in a line each game counts once, since the
decisions of a game are not independent of each other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from deepsea_referee.workbench.confidence import mean_of

if TYPE_CHECKING:
    from deepsea_rules.record import GameRecord

HOME = "chance home"
"""The chance to come home in this dive."""
SCORE = "placement score"
"""The placement score that is expected of the game."""
BINS = 5
Numbers = Mapping[int, Mapping[str, float]]
"""The named numbers of a seat's notes, by decision."""


class Belief(Struct, frozen=True, kw_only=True):
    """A bot's beliefs of about one size."""

    name: str
    low: float
    high: float
    """The beliefs are between these."""
    times: int
    """Decisions with such a belief,"""
    games: int
    """and the games that they are in."""
    believed: float
    """The mean over the games,"""
    came: float
    """and that of what came."""
    error: float | None
    """That of 95 % of what came, by the spread over the games; None for a single game."""


def beliefs_of(games: Iterable[tuple[GameRecord, int, Numbers]]) -> tuple[Belief, ...]:
    """The beliefs in games, of a seat of each."""
    found: dict[tuple[str, int], list[list[tuple[float, float]]]] = defaultdict(list)
    for record, seat, numbers in games:
        known = {name for each in numbers.values() for name in each} & {HOME, SCORE}
        of_game: dict[tuple[str, int], list[tuple[float, float]]] = defaultdict(list)
        for decision, came in _outcomes(record, seat) if known else ():
            for name in known & numbers.get(decision, {}).keys():
                believed = min(1.0, max(0.0, numbers[decision][name]))
                of_game[name, min(BINS - 1, int(BINS * believed))].append((believed, came[name]))
        for key, pairs in of_game.items():
            found[key].append(pairs)
    return tuple(_belief(name, step, found[name, step]) for name, step in sorted(found))


def _belief(name: str, step: int, games: list[list[tuple[float, float]]]) -> Belief:
    means = [[sum(side) / len(pairs) for side in zip(*pairs, strict=True)] for pairs in games]
    believed, came = zip(*means, strict=True)
    return Belief(
        name=name,
        low=step / BINS,
        high=(step + 1) / BINS,
        times=sum(map(len, games)),
        games=len(games),
        believed=sum(believed) / len(games),
        came=sum(came) / len(games),
        error=mean_of(came).half_width if len(games) > 1 else None,
    )


def _outcomes(record: GameRecord, seat: int) -> Iterator[tuple[int, dict[str, float]]]:
    """The outcome of each decision of a seat, by the name of the belief."""
    from deepsea_rules.events import TurnPlayed  # a client needs no rules
    from deepsea_rules.game import Game
    from deepsea_rules.scoring import placement_scores

    game, dives = Game(record.rules, len(record.seats), record.seed), {}
    for number, old in enumerate(record.decisions):
        game.pending()  # which goes on to the decision
        if old.seat == seat:
            dives[number] = game.state.dive
        game.decide(old.action, us=old.us, fault=old.fault, came=old.came)
    game.pending()
    turns = [one for one in game.events if isinstance(one, TurnPlayed)]
    home = {one.dive for one in turns if one.seat == seat and one.home}
    score = placement_scores(record.placements)[seat]
    for number, dive in dives.items():
        yield number, {HOME: float(dive in home), SCORE: score}

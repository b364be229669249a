"""Results of games that were never played, for tests of what is done with results."""

from __future__ import annotations

from deepsea_referee.bots.output import BotLog
from deepsea_referee.bots.resolve import BotSpec
from deepsea_referee.summary import GameResult, MatchResult, VoidGame
from deepsea_rules.faults import Fault, FaultReport
from deepsea_rules.game import Decision, Forfeit, Game, GameRecord
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import PRESETS
from deepsea_rules.time_control import TimeControl

SEED = seed_from_text("results")
MANUAL = PRESETS["manual"]
BOTS = (BotSpec("a", ("x",), None, "aa"), BotSpec("b", ("y",), None, "bb"))
FAULT = FaultReport(
    seat=1,
    decision=2,
    fault=Fault.TIMEOUT,
    kind="declare",
    legal=("down", "back"),
    came="it had 5 us for the decision",
    us=7,
    played="down",
    forfeit=True,
)
ILLEGAL = FaultReport(
    seat=1,
    decision=7,
    fault=Fault.ILLEGAL_ACTION,
    kind="search",
    legal=("leave", "take"),
    came="it answered 'jump'",
    us=412,
    played="leave",
    forfeit=False,
)


def record() -> GameRecord:
    """The record of a game."""
    game = Game(MANUAL, 2, SEED)
    while (question := game.pending()) is not None:
        game.decide(question.legal[0])
    return GameRecord.of(game, game_id="g", clock="1s", seats=[("a", "aa"), ("b", "bb")])


def decisions(*times_us: tuple[int, int]) -> list[Decision]:
    """Decisions of these seats and times."""
    return [Decision(seat, "down", us, None) for seat, us in times_us]


def result(
    game: int, seats: tuple[int, ...], scores: tuple[int, ...], **more: object
) -> GameResult:
    """A game that counts; `more` is faults and forfeits."""
    best = sorted(scores, reverse=True)
    facts = {"forfeits": (), "faults": ()} | more
    return GameResult(
        game=game,
        game_id=f"g{game}",
        seats=seats,
        points=scores,
        placements=tuple(best.index(score) + 1 for score in scores),
        **facts,  # type: ignore[arg-type]
    )


FORFEITED = result(1, (0, 1), (10, 4), forfeits=(Forfeit(1, Fault.TIMEOUT, 2),), faults=(FAULT,))
SHARED = result(2, (1, 0), (7, 7))
VOID = VoidGame(3, "g3", "a bug")


def empty() -> MatchResult:
    """A match before its first game."""
    return MatchResult(
        bots=BOTS,
        rules=MANUAL,
        time_control=TimeControl(5),
        seed=SEED,
        games_asked=4,
        isolation="process",
    )


def match() -> MatchResult:
    """A match with two games that count, the second of which ended first, and one that is void."""
    it = empty()
    it.add(SHARED, decisions((0, 30), (1, 40)))
    it.add(FORFEITED, decisions((0, 10), (1, 90), (0, 20)))
    it.add_void(VOID)
    it.logs.append(BotLog(1, 2, stderr="help\n", in_file=True))
    return it

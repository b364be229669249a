"""Games in this process: the same bots and rules as with a referee, without processes and gRPC.

Invariants: a bot gets the same calls with the same views and events as over the wire, so that bots
that decide by these alone make the same record. Faults are counted by the same code. Time is read
only where there are limits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Literal, TypeVar

from deepsea_rules.events import Event, chip_text
from deepsea_rules.faults import Fault, FaultReport
from deepsea_rules.game import Decision, Game
from deepsea_rules.printable import html_table
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.record import GameRecord, unique_names
from deepsea_rules.ruleset import DEFAULT, SEAT_LETTERS, RuleSet, preset
from deepsea_rules.time_control import TimeControl

from .bot import AnyBot, Bot, SeatedBot
from .clock import Clock, now_us
from .errors import explained, summary
from .refereed_game import RefereedGame

OnError = Literal["raise", "forfeit"]
_T = TypeVar("_T")


class LocalGame(Game):
    """A game that was played in this process: `play` returns it when it is over.

    `result()` has the points and placements, `decisions` the decisions, `events_for(None)` the
    events, `state` the last position.
    """

    def __init__(
        self,
        rules: RuleSet,
        seed: bytes,
        names: Sequence[str],
        clock: TimeControl | None = None,
        game_id: str = "local",
    ) -> None:
        super().__init__(rules, len(names), seed)
        self.names = tuple(names)
        self.clock = clock
        self.game_id = game_id

    def __repr__(self) -> str:
        if self.state.phase != "over":
            return f"<LocalGame, {self.rules.name} rules: {self.state}>"
        seats = zip(SEAT_LETTERS, self.names, self.state.points(), strict=False)
        points = ", ".join(f"{seat} {name} {points}" for seat, name, points in seats)
        return f"<LocalGame, {self.rules.name} rules, points: {points}>"

    def _repr_html_(self) -> str:
        """Return the result as a table, for a notebook."""
        if self.state.phase != "over":
            return html_table(repr(self), (), ())
        state, (points, placements) = self.state, self.result()
        rows = [
            (
                SEAT_LETTERS[seat],
                name,
                points[seat],
                placements[seat],
                ", ".join(chip_text(chip, state.revealed()) for chip in state.bank[seat]),
                ", ".join(f"{dive}" for dive, lost in enumerate(state.drowned, 1) if lost[seat]),
            )
            for seat, name in enumerate(self.names)
        ]
        head = ("seat", "bot", "points", "placement", "brought home", "drowned in dive")
        return html_table(f"A game by {self.rules.name} rules", head, rows)

    def record(self) -> GameRecord:
        """Return the record for `deepsea-referee show` and `verify`, without digests of bots."""
        return GameRecord.of(
            self,
            game_id=self.game_id,
            clock=self.clock.format() if self.clock else "",
            seats=[(name, "") for name in self.names],
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write the record into a file; a file that exists is replaced."""
        Path(path).write_text(self.record().to_json(), encoding="utf-8", newline="\n")


def play(
    bots: Sequence[AnyBot],
    rules: RuleSet | str = DEFAULT,
    seed: bytes | str | None = None,
    *,
    clock: TimeControl | str | None = None,
    on_error: OnError = "raise",
    game_id: str = "local",
    now_us: Callable[[], int] = now_us,
) -> LocalGame:
    """Play one game in this process to its end, and return it.

    bots      one per seat, seat A first: classes, or functions that make a bot, or bot objects
    rules     a rule set or a preset's name
    seed      32 bytes, or a text as after `--seed` (of which the game itself is played, not game
              0); by default a new game each time
    clock     limits as after `--clock`, such as "100ms+2s". A bot that takes longer is not stopped:
              its answer is dropped when it comes, and counted as a timeout. Without limits no time
              is measured
    on_error  "raise" raises a bot's exceptions and illegal answers, for debugging; "forfeit" counts
              them as faults
    game_id   the game's name in its record; bots get the first digits of its commitment
    now_us    function that returns the time in microseconds, to measure limits with
    """
    if seed is None:
        from .entropy import fresh_seed  # 5 ms that bots in a match need not wait for

        seed = fresh_seed()
    game = LocalGame(
        preset(rules) if isinstance(rules, str) else rules,
        seed_from_text(seed) if isinstance(seed, str) else seed,
        unique_names([_name(bot) for bot in bots]),
        TimeControl.parse(clock) if isinstance(clock, str) else clock,
        game_id,
    )
    play_to_end(
        RefereedGame(game, game_id, game.clock),
        bots,
        on_error=on_error,
        now_us=now_us if clock is not None else None,
    )
    return game


def _name(bot: AnyBot) -> str:
    """Return a bot's name in records: its own name, or that of its class or function."""
    kind = bot if isinstance(bot, type) else type(bot)
    if issubclass(kind, Bot):
        return (bot.name if isinstance(bot, Bot) else kind.name) or kind.__name__
    return getattr(bot, "__name__", kind.__name__)


def play_to_end(
    refereed: RefereedGame,
    bots: Sequence[AnyBot],
    *,
    on_error: OnError = "raise",
    now_us: Callable[[], int] | None = None,
    opening: Sequence[Decision] = (),
    on_seat: Callable[[int], object] = lambda seat: None,
) -> None:
    """Play a game to its end, as `play` does.

    opening  decisions that are repeated first: bots are asked for them, but their answers are
             dropped
    on_seat  called with a seat before the code of its bot runs
    """
    game, raises = refereed.game, on_error == "raise"
    now: Callable[[], float] = (lambda: now_us() / 1e6) if now_us else (lambda: 0.0)  # seconds
    chairs: list[_Chair] = []
    for seat, bot in enumerate(bots):
        on_seat(seat)
        chairs.append(_Chair(seat, SeatedBot(bot, raises=raises), on_seat, raises))
    for chair in chairs:
        chair.call(chair.bot.start, refereed.info(chair.seat))
    while (question := game.pending()) is not None:
        seat = question.seat
        chair = chairs[seat]
        began_us = now_us() if now_us else 0
        events = chair.events(game)
        clock = Clock.of(refereed.time_left(seat), now=now, arrived=began_us / 1e6)
        answer = chair.call(chair.bot.decide, game.view(seat), clock, events)
        us = now_us() - began_us if now_us else 0
        report: FaultReport | None = None
        if opening and (number := len(game.decisions)) < len(opening):
            refereed.repeat(opening[number])
        elif answer is None:  # the bot has ended its program, now or before
            report = refereed.fault(question, Fault.CRASH, chair.crash or "", us)
        else:
            report = refereed.answer(question, answer.action, us, answer.error, answer.note)
        if report is not None:
            chair.call(chair.bot.fault, refereed.notice(report, len(game.decisions)))
    for chair in chairs:
        if chair.bot.hears_end or chair.bot.hears_events:
            chair.call(chair.bot.end, refereed.end(chair.seat), chair.events(game))


@dataclass(slots=True)
class _Chair:
    """One seat: the bot in it, and the events that it has got."""

    seat: int
    bot: SeatedBot
    on_seat: Callable[[int], object]
    raises: bool
    seen: int = 0
    """Number of the game's events that the bot has got."""
    crash: str | None = None
    """How the bot ended its own program, None if it did not. Like a process that ended, it is not
    called again."""

    def call(self, method: Callable[..., _T], *arguments: object) -> _T | None:
        """Call a method of the bot and return its result; None if the bot has ended its program.

        A bot that calls `sys.exit` now is recorded as crashed; with `raises` the exception goes on.
        """
        if self.crash is not None:
            return None
        self.on_seat(self.seat)
        try:
            return method(*arguments)
        except SystemExit as error:
            if self.raises:
                raise
            # Formatting calls the author's own code, which may raise: `explained` catches that.
            describe = partial("{}: {}".format, type(error).__name__, error)
            self.crash = summary(explained(describe))
            return None

    def events(self, game: Game) -> list[Event]:
        """Return the events that the bot has not got yet; none if it does not listen to events."""
        if not self.bot.hears_events:
            return []
        events = game.events_for(self.seat, self.seen)
        self.seen = len(game.events)
        return events

"""Admission: the games that a bot plays before it is added to the ladder.

Invariants: it plays as it would on the ladder, from its packed files, with the isolation, rules and
clock of each open season, against itself and against a sample bot; one fault of its own refuses it,
and the refusal names the decision, what the bot did, and what to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from deepsea_arena.play.rated_games import hosting
from deepsea_bundle.reader import BotBundle
from deepsea_ladder.errors import SubmissionError
from deepsea_ladder.model import SubmissionRefusal
from deepsea_ladder.season import Season
from deepsea_referee.bots.resolve import BotSpec, sample, spec_of
from deepsea_referee.errors import BotStartError, HostOutOfMemory, HostTooBusy, RefereeError
from deepsea_referee.match import MatchSettings, play_match
from deepsea_referee.results.summary import GameResult, MatchResult
from deepsea_referee.workbench.advice import ladder_remedy
from deepsea_rules.faults import REMEDIES, Fault, FaultReport
from deepsea_rules.record import GameRecord
from deepsea_rules.ruleset import SEAT_LETTERS
from deepsea_rules.time_control import TimeControl

if TYPE_CHECKING:  # a worker process checks bots without the store
    from deepsea_ladder.store import Store

OPPONENT = "random"
"""A sample bot for the other seats, which answers at once."""
LONGEST_LOG = 10
"""The number of lines of the bot's output that are shown."""


def play_admission(
    bundle: BotBundle,
    seasons: Sequence[Season],
    on_game: Callable[[], object] = lambda: None,
) -> SubmissionRefusal | None:
    """Play the admission games; returns the first fault or None. RefereeError if one is void."""
    return asyncio.run(_play(spec_of(bundle), seasons, on_game))


def games_of(seasons: Sequence[Season]) -> int:
    """The largest number of games that a bot plays."""
    return 3 * len(seasons)


async def _play(
    bot: BotSpec, seasons: Sequence[Season], on_game: Callable[[], object]
) -> SubmissionRefusal | None:
    played: list[GameResult] = []

    def note(game: GameResult, _record: GameRecord) -> None:
        played.append(game)
        on_game()

    for season in seasons:
        most, least = max(season.seats), min(season.seats)
        other = sample(OPPONENT)
        for where, line_up, count in (
            (f"against itself, {most} seats", [bot] * most, 1),
            (f"against {OPPONENT}, {least} seats", [bot, *[other] * (least - 1)], 2),
        ):
            settings = MatchSettings(
                bots=line_up,
                hosting=hosting(season.isolation, season.limits),
                games=count,
                rules=season.rules,
                time_control=TimeControl.parse(season.clock),
            )
            own = [index for index, one in enumerate(line_up) if one is bot]
            played.clear()
            try:
                result = await play_match(settings, note)
            except BotStartError as error:
                if error.bot not in own:
                    raise RefereeError(f"the sample bot does not start: {error}") from None
                found = f"{where}: {error}"
                return SubmissionRefusal(found, REMEDIES[Fault.CRASH], error=error.detail)
            place = f"season {season.name}, {where}"
            for game in played:
                for fault in game.faults:
                    if game.seats[fault.seat] in own:
                        return _refusal(result, game.seats[fault.seat], fault, place)
            for void in result.voids:
                words = f"{place}: the game is void: {void.reason}; try again"
                if void.seat is not None:
                    raise HostTooBusy(words, 0, void.seat)
                raise (HostOutOfMemory if void.out_of_memory else RefereeError)(words)
    return None


def _refusal(result: MatchResult, bot: int, fault: FaultReport, where: str) -> SubmissionRefusal:
    log = "".join(log.text for log in result.logs if log.bot == bot).splitlines()
    return SubmissionRefusal(
        f"{where}, seat {SEAT_LETTERS[fault.seat]}, decision {fault.decision}: "
        f"{fault.explanation()}",
        ladder_remedy(fault.fault, result.time_control.format()),
        tuple(log[-LONGEST_LOG:]),
        fault.error,
    )


def check_packages(bundle: BotBundle, seasons: Sequence[Season]) -> None:
    """Refuse a bot that needs packages that one of the seasons does not offer."""
    if bundle.requirements is None:
        return
    # Most bots require none, and it takes a while to import.
    from deepsea_referee.workbench.requirements import not_offered, parse_requirements

    needed = parse_requirements(bundle.requirements)
    for season in seasons:
        if lacking := not_offered(needed, season.packages):
            offered = ", ".join(season.packages) or "nothing beside the SDK"
            names = [need.name for need in needed if str(need) in lacking]
            raise SubmissionError(
                f"{bundle.name} needs {', '.join(lacking)}, which season {season.name} does not "
                f"offer; bots may count on {offered}. A season with more is opened with "
                f"`ladder season NAME --packages {','.join(names)}`, once this one is closed"
            )


def seasons_to_fit(store: Store) -> list[Season]:
    """The seasons that a bot has to be fit for: those that are open, or else the newest.

    A bot may have been submitted before the last one was closed. Before the first one is opened it
    is a season with default settings.
    """
    seasons = store.seasons.all()
    opened = [stored.settings for stored in seasons if stored.closed_at is None]
    newest = [stored.settings for stored in seasons if stored.tournament is None][-1:]
    return opened or newest or [Season(name="main")]

"""Admission: the games that a bot plays before it is added to the ladder.

Invariants: it plays as it would on the ladder, from its packed files, with the isolation, rules and
clock of each open season, against itself and against a sample bot; one fault of its own refuses it,
and the refusal names the decision, what the bot did, and what to do.

Checks submissions in a worker process: reads an archive, and plays admission games.

Invariants: an archive is read in a process of its own with limits, never here; nothing here knows
the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from deepsea_arena.rated_games import hosting, own_folder
from deepsea_bundle.errors import BundleError
from deepsea_bundle.reader import BotBundle
from deepsea_ladder.errors import SubmissionError
from deepsea_ladder.model import SubmissionRefusal
from deepsea_ladder.season import Season
from deepsea_referee.bots.resolve import BotSpec, read_in_subprocess, sample, spec_of
from deepsea_referee.errors import BotStartError, HostOutOfMemory, HostTooBusy, RefereeError
from deepsea_referee.match import MatchSettings, play_match
from deepsea_referee.summary import GameResult, MatchResult
from deepsea_referee.workbench.advice import ladder_remedy
from deepsea_referee.workers import Link, Perform
from deepsea_rules.faults import REMEDIES, Fault, FaultReport
from deepsea_rules.game import GameRecord
from deepsea_rules.ruleset import SEAT_LETTERS
from deepsea_rules.time_control import TimeControl

if TYPE_CHECKING:
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
        for where, line_up, game_count in (
            (f"against itself, {most} seats", [bot] * most, 1),
            (f"against {OPPONENT}, {least} seats", [bot, *[other] * (least - 1)], 2),
        ):
            settings = MatchSettings(
                bots=line_up,
                hosting=hosting(season.isolation, season.limits),
                games=game_count,
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
    from deepsea_referee.workbench.advice import not_offered, parse_requirements

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


_ZIP = b"PK"
_NAMELESS = "-"
"""The name of a file that makes no bot's name."""


@dataclass(frozen=True, slots=True)
class ReadArchive:
    """The task to read an archive: a zip, or a Python file."""

    content: bytes
    bot: str
    """The bot's name; "" is that of its bot.toml."""


@dataclass(frozen=True, slots=True)
class PlayAdmission:
    """The task to play a bot's admission games in these seasons."""

    bundle: BotBundle
    seasons: tuple[Season, ...]


class AdmissionPlayed(NamedTuple):
    """The end of the admission games: no other answer accepts a bot."""

    refusal: SubmissionRefusal | None


@contextmanager
def check_worker(link: Link) -> Iterator[Perform]:
    """Set up a worker that checks submissions; after each admission game it sends their number."""

    def perform(task: ReadArchive | PlayAdmission) -> BotBundle | str | AdmissionPlayed:
        if isinstance(task, ReadArchive):
            return _read(task)
        games = count(1)
        return AdmissionPlayed(
            play_admission(task.bundle, task.seasons, lambda: link.send(next(games)))
        )

    yield perform


def _read(task: ReadArchive) -> BotBundle | str:
    """The bot of an archive, or why it is none."""
    with own_folder() as folder:
        path = folder / f"{task.bot or _NAMELESS}{_ending(task.content)}"
        path.write_bytes(task.content)
        try:
            return read_in_subprocess(path, task.bot or None)
        except BundleError as error:
            found = str(error).removeprefix(f"bot {str(path)!r}: ")
    if found.startswith("the folder's or file's name"):
        found = 'the bot has no name: write name = "..." in bot.toml, or give one when you submit'
    return found


def _ending(content: bytes) -> str:
    """The file's ending: a text that is no zip may be a Python file."""
    if content.startswith(_ZIP) or b"\0" in content:
        return ".zip"
    try:
        content.decode()
    except UnicodeDecodeError:
        return ".zip"
    return ".py"

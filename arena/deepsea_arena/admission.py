"""Admission: the checks of a submitted bot before it is added to the ladder.

Start reading at `check_worker`, which reads an archive and plays the admission games.

Invariants: a bot plays as it would on the ladder, from its packed files, with the isolation, rules
and clock of each open season, against itself and against a sample bot; one fault of its own refuses
it, and the refusal names the decision, the fault and a remedy; an archive is read in a process of
its own with limits, never here; the worker knows nothing of the store.
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
from deepsea_ladder.season import SeasonSettings
from deepsea_referee.bots.resolve import BotSpec, read_in_subprocess, sample, spec_of
from deepsea_referee.errors import BotStartError, HostOutOfMemory, HostTooBusy, RefereeError
from deepsea_referee.match import MatchSettings, play_match
from deepsea_referee.summary import GameResult, MatchResult
from deepsea_referee.workbench.advice import ladder_remedy
from deepsea_referee.workers import Link, TaskFunction
from deepsea_rules.faults import REMEDIES, Fault, FaultReport
from deepsea_rules.game import GameRecord
from deepsea_rules.ruleset import SEAT_LETTERS
from deepsea_rules.time_control import TimeControl

if TYPE_CHECKING:
    from deepsea_ladder.store import Store


OPPONENT = "random"
"""The sample bot for the other seats. It answers at once."""
LONGEST_LOG = 10
"""Number of lines of the bot's output that a refusal shows, from the end."""


def play_admission(
    bundle: BotBundle,
    seasons: Sequence[SeasonSettings],
    on_game: Callable[[], object] = lambda: None,
) -> SubmissionRefusal | None:
    """Play a bot's admission games in each season.

    Return the refusal for the bot's first fault, or None if it had none. Call `on_game` after each
    game. Raises RefereeError if a game is void.
    """
    return asyncio.run(_play(spec_of(bundle), seasons, on_game))


def largest_admission(seasons: Sequence[SeasonSettings]) -> int:
    """Return how many games a bot plays that passes: three in each season."""
    return 3 * len(seasons)


async def _play(
    bot: BotSpec, seasons: Sequence[SeasonSettings], on_game: Callable[[], object]
) -> SubmissionRefusal | None:
    """Play three games in each season; see `play_admission`.

    Stop at the first fault of the bot, so that a bad bot costs few games.
    """
    games_of_match: list[GameResult] = []

    def on_result(game: GameResult, _record: GameRecord) -> None:
        games_of_match.append(game)
        on_game()

    for season in seasons:
        largest, smallest = max(season.seats), min(season.seats)
        opponent = sample(OPPONENT)
        for matchup, line_up, game_count in (
            (f"against itself, {largest} seats", [bot] * largest, 1),
            (
                f"against {OPPONENT}, {smallest} seats",
                [bot, *[opponent] * (smallest - 1)],
                2,
            ),
        ):
            settings = MatchSettings(
                bots=line_up,
                hosting=hosting(season.isolation, season.limits),
                games=game_count,
                rules=season.rules,
                time_control=TimeControl.parse(season.clock),
            )
            own_indices = [index for index, spec in enumerate(line_up) if spec is bot]
            games_of_match.clear()
            try:
                result = await play_match(settings, on_result)
            except BotStartError as error:
                if error.bot not in own_indices:
                    raise RefereeError(f"the sample bot does not start: {error}") from None
                explanation = f"{matchup}: {error}"
                return SubmissionRefusal(explanation, REMEDIES[Fault.CRASH], error=error.detail)
            context = f"season {season.name}, {matchup}"
            for game in games_of_match:
                for fault in game.faults:
                    if game.seats[fault.seat] in own_indices:
                        return _refusal(result, game.seats[fault.seat], fault, context)
            for void in result.voids:
                message = f"{context}: the game is void: {void.reason}; try again"
                if void.seat is not None:
                    raise HostTooBusy(message, 0, void.seat)
                raise (HostOutOfMemory if void.out_of_memory else RefereeError)(message)
    return None


def _refusal(result: MatchResult, bot: int, fault: FaultReport, context: str) -> SubmissionRefusal:
    """Return the refusal of a submission for a fault of its bot.

    bot      the index of the bot in the line-up of the match
    context  the season and the line-up, for the message

    The refusal has the last lines that the bot printed in the match.
    """
    output = "".join(log.text for log in result.logs if log.bot == bot)
    place = f"{context}, seat {SEAT_LETTERS[fault.seat]}, decision {fault.decision}"
    return SubmissionRefusal(
        found=f"{place}: {fault.explanation()}",
        remedy=ladder_remedy(fault.fault, result.time_control.format()),
        log=tuple(output.splitlines()[-LONGEST_LOG:]),
        error=fault.error,
    )


def check_packages(bundle: BotBundle, seasons: Sequence[SeasonSettings]) -> None:
    """Raise SubmissionError if a bot needs packages that one of the seasons does not offer."""
    if bundle.requirements is None:
        return
    # Most bots require none, and it takes a while to import.
    from deepsea_referee.workbench.advice import not_offered, parse_requirements

    requirements = parse_requirements(bundle.requirements)
    for season in seasons:
        missing = not_offered(requirements, season.packages)
        if not missing:
            continue
        offered = ", ".join(season.packages) or "nothing beside the SDK"
        missing_names = [
            requirement.name for requirement in requirements if str(requirement) in missing
        ]
        raise SubmissionError(
            f"{bundle.name} needs {', '.join(missing)}, which season {season.name} does not "
            f"offer; bots may count on {offered}. A season with more is opened with "
            f"`ladder season NAME --packages {','.join(missing_names)}`, once this one is closed"
        )


def admission_seasons(store: Store) -> list[SeasonSettings]:
    """Return the seasons in which a new bot plays its admission games: all that are open.

    If none is open, return the newest season that is not a tournament, since the bot may have been
    submitted before that season was closed. If there is none either, return a season with default
    settings.
    """
    seasons = store.seasons.all()
    open_seasons = [stored.settings for stored in seasons if stored.closed_at is None]
    if open_seasons:
        return open_seasons
    rated_seasons = [stored.settings for stored in seasons if stored.tournament is None]
    if rated_seasons:
        return [rated_seasons[-1]]
    return [SeasonSettings(name="main")]


_ZIP_START = b"PK"
"""The first bytes of every zip."""
_NAMELESS = "-"
"""File name for a bot without a given name. It is no valid name of a bot."""


@dataclass(frozen=True, slots=True)
class ReadArchive:
    """The task to read an archive: a zip, or a Python file."""

    content: bytes
    bot: str
    """The name that the bot is to have; "" takes the one in its bot.toml."""


@dataclass(frozen=True, slots=True)
class PlayAdmission:
    """The task to play a bot's admission games in these seasons."""

    bundle: BotBundle
    seasons: tuple[SeasonSettings, ...]


class AdmissionPlayed(NamedTuple):
    """The result of admission games that were played to their end.

    It has a type of its own, so that no other answer of a worker can accept a bot.
    """

    refusal: SubmissionRefusal | None
    """None accepts the bot."""


@contextmanager
def check_worker(link: Link) -> Iterator[TaskFunction]:
    """Yield the function that does one task of a check in a worker process.

    It reads an archive or plays admission games. After each game it sends the number of games that
    were played so far through `link`.
    """

    def perform(task: ReadArchive | PlayAdmission) -> BotBundle | str | AdmissionPlayed:
        """Do one task of a check.

        For an archive return its bot, or the reason why it has none. For admission games return
        their result, and send the number of games so far after each of them.
        """
        if isinstance(task, ReadArchive):
            return _read_archive(task)
        game_numbers = count(1)

        def report_game() -> None:
            link.send(next(game_numbers))

        return AdmissionPlayed(play_admission(task.bundle, task.seasons, report_game))

    yield perform


def _read_archive(task: ReadArchive) -> BotBundle | str:
    """Return the bot in an uploaded archive, or the reason why it cannot be read."""
    with own_folder() as folder:
        path = folder / f"{task.bot or _NAMELESS}{_file_ending(task.content)}"
        path.write_bytes(task.content)
        try:
            return read_in_subprocess(path, task.bot or None)
        except BundleError as error:
            # The path of the temporary file means nothing to the author.
            problem = str(error).removeprefix(f"bot {str(path)!r}: ")
    # Without a name in bot.toml the bot is called like its file, here `_NAMELESS`: no valid name.
    if problem.startswith("the folder's or file's name"):
        return 'the bot has no name: write name = "..." in bot.toml, or give one when you submit'
    return problem


def _file_ending(content: bytes) -> str:
    """Return the file ending for an uploaded bot: ".py" for text, ".zip" for anything else."""
    if content.startswith(_ZIP_START) or b"\0" in content:
        return ".zip"
    try:
        content.decode()
    except UnicodeDecodeError:
        return ".zip"
    return ".py"

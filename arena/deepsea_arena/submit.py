"""Submits a bot: plays its admission games, and stores a version on the ladder.

Invariants: what is stored is what was checked and played, to the byte; a bot that is refused
changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from deepsea_arena.play.admission import AdmissionRefusal, games_of, play_admission
from deepsea_bundle import names
from deepsea_bundle.reader import BotBundle
from deepsea_ladder.accounts import MACHINE
from deepsea_ladder.errors import SubmissionError
from deepsea_ladder.season import Season
from deepsea_ladder.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitResult:
    """A bot that was accepted, or refused after a game."""

    bot: str
    author: str
    digest: str
    version: int | None
    """The number of the new version; None if it was refused."""
    refusal: AdmissionRefusal | None


def submit(
    store: Store,
    author: str,
    bundle: BotBundle,
    on_game: Callable[[], object] = lambda: None,
) -> SubmitResult:
    """Play a bot's admission games, and store it if it has no fault.

    `on_game` is called after each game. Raises an error with one line for an author's bad name,
    somebody else's bot, files that are on the ladder already, packages that a season lacks, or
    more than an author may submit.
    """
    names.checked("the author's name", author)
    store.bots.check_quota(author)
    check_packages(bundle, seasons_to_fit(store))
    refusal = play_admission(bundle, seasons_to_fit(store), on_game)
    version = None if refusal else store.bots.submit(bundle.name, author, bundle, MACHINE)
    return SubmitResult(
        bot=version.bot if version else bundle.name,
        author=author,
        digest=bundle.digest,
        version=version.number if version else None,
        refusal=refusal,
    )


def check_packages(bundle: BotBundle, seasons: Sequence[Season]) -> None:
    """Refuse a bot that needs packages that one of the seasons does not offer."""
    if bundle.facts.requirements is None:
        return
    # Most bots require none, and it takes a while to import.
    from deepsea_referee.workbench.requirements import not_offered, parse_requirements

    needed = parse_requirements(bundle.facts.requirements)
    for season in seasons:
        if lacking := not_offered(needed, season.packages):
            offered = ", ".join(season.packages) or "nothing beside the SDK"
            raise SubmissionError(
                f"{bundle.name} needs {', '.join(lacking)}, which season {season.name} does not "
                f"offer; bots may count on {offered}"
            )


def admission_games(store: Store) -> int:
    """The largest number of admission games."""
    return games_of(seasons_to_fit(store))


def seasons_to_fit(store: Store) -> list[Season]:
    """The seasons that a bot has to be fit for; where none is open, one with default settings."""
    opened = [stored.season for stored in store.seasons.all() if stored.closed_at is None]
    return opened or [Season(name="none")]

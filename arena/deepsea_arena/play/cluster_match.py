"""A match that is no ladder's on the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from deepsea_arena.play.rated_games import own_folder
from deepsea_arena.play.workers import dask_workers
from deepsea_bundle.bot_cache import BotCache
from deepsea_referee import shared_match
from deepsea_referee.bots.output import OutputPlan
from deepsea_referee.bots.resolve import BotSpec, unpacked_bot
from deepsea_referee.errors import UserError
from deepsea_referee.match import MatchSettings, OnGame, OnVoid
from deepsea_referee.results.summary import MatchResult
from deepsea_referee.sandbox.interface import Isolation, IsolationLevel
from deepsea_referee.sandbox.probe import choose
from deepsea_referee.workers import Link

GAMES_OF_A_SHARE = 20


def match_on_cluster(
    settings: MatchSettings,
    address: str,
    on_game: OnGame | None = None,
    on_void: OnVoid | None = None,
    *,
    report: Callable[[str], object],
) -> MatchResult:
    """Play a match on the workers of the scheduler at `address`; see `shared_match.run_match`.

    report  called with what should be known of workers that cannot be used
    Raises UserError for a bot that has no files, WorkerError if nobody can play.
    """
    archives: dict[str, bytes] = {}
    digests = []
    for bot in settings.bots:
        if bot.bundle is None:
            raise UserError(f"{bot.name!r} is a command on this machine, and a cluster plays files")
        digests.append(bot.bundle.digest)
        archives[bot.bundle.digest] = bot.bundle.archive
    level: IsolationLevel = "process" if settings.hosting.isolation.name == "process" else "sandbox"
    setup = partial(player, tuple(digests), level)
    check = partial(choose, level)
    pool = dask_workers()(address, setup, check, fetch=archives.__getitem__, report=report)
    by_digest = [replace(bot, bundle=None) for bot in settings.bots]
    return shared_match.run_match(
        replace(settings, bots=by_digest, output=OutputPlan()),
        on_game=on_game,
        on_void=on_void,
        pool=pool,
        needs=tuple(archives),
        share_games=GAMES_OF_A_SHARE,
    )


@contextmanager
def player(
    digests: Sequence[str], level: IsolationLevel, link: Link
) -> Iterator[Callable[[MatchSettings], MatchResult]]:
    """Set up a worker whose tasks are shares of a match of bots with these digests."""
    isolation: Isolation = choose(level)
    with own_folder() as folder:
        bots = BotCache(folder, link.file)

        def here(bot: BotSpec, digest: str) -> BotSpec:
            found = unpacked_bot(bots(digest), bot.name)
            return replace(bot, command=found.command, folder=found.folder)

        def play(share: MatchSettings) -> MatchResult:
            if bots.has_lost(digests):
                link.leave()
            specs = [here(bot, digest) for bot, digest in zip(share.bots, digests, strict=True)]
            # This machine's CPUs are not those of the run, and other workers may be here.
            hosting = replace(share.hosting, isolation=isolation, starts_at_once=1)
            return shared_match.play_share(link, replace(share, bots=specs, hosting=hosting))

        yield play

"""Ladders for tests: bots of a line of text, and games that are played in no time."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from unittest.mock import patch

from deepsea_bundle.reader import BotBundle
from deepsea_ladder.accounts import AuditEntry, AuditKind
from deepsea_ladder.bot_states import StrikeRules
from deepsea_ladder.model import BotVersion, Job, StoredSeason
from deepsea_ladder.season import SeasonSettings
from deepsea_rules import Fault, Game, GameRecord
from deepsea_rules.randomness import Stream, seed_from_text

from .bundles import bundle_of

if TYPE_CHECKING:
    from sqlalchemy import Executable

    from deepsea_ladder.store import Store

SEED = seed_from_text("a season of the tests")
NO_STRIKES = StrikeRules(absences=10_000, spoiled=10_000, voids=10_000)
EMPTY: Mapping[str, int] = {}
CRASHES: Mapping[str, Collection[str]] = {"s1-2": ["ben"], "s1-5": ["ben"]}
NAMES = ("anna", "ben", "cleo", "dan", "eve", "finn")


def a_bundle(text: str) -> BotBundle:
    """A bot whose only peculiarity is a text."""
    manifest = b'command = ["python3", "bot.py"]\n'
    return bundle_of({"bot.toml": manifest, "bot.py": f"# {text}\n".encode()}, default="bot")


def submit(store: Store, name: str, text: str = "", author: str = "") -> BotVersion:
    """Submit a bot; each has an author of its own unless one is given."""
    return store.bots.submit(name, author or f"{name}-senior", a_bundle(text or name))


def nothing(store: Store) -> None:
    """Leave a ladder as it is."""


def stocked(store: Store, bots: int = 4, seats: tuple[int, ...] = (4,)) -> StoredSeason:
    """Give a store bots and a season."""
    for name in NAMES[:bots]:
        submit(store, name)
    return store.seasons.open(a_season(seats=seats), SEED)


def many_sizes(store: Store, crashing: Mapping[str, Collection[str]]) -> None:
    """Give a store five bots, and a season of twelve games at tables of two, three and four."""
    season = stocked(store, bots=5, seats=(2, 3, 4))
    a, b, c, d, e = ids(store)
    store.jobs.add(season, [*rotations([a, b, c, d], 4), *rotations([e, a], 4)])
    store.jobs.add(season, rotations([c, e, b], 4))
    play_all(store, season, crashing)


def to_play(store: Store, games: int = 4) -> StoredSeason:
    """Give a store four bots, and a season with games to play."""
    season = stocked(store)
    store.jobs.add(season, rotations(ids(store), games))
    return season


def write(store: Store, *statements: str | Executable, **values: object) -> None:
    """Change rows as no part of the program does, in one transaction."""
    from sqlalchemy import text

    with store.database.write() as connection:
        for statement in statements:
            sent = text(statement) if isinstance(statement, str) else statement
            connection.execute(sent, values or None)


def a_season(name: str = "s1", seats: tuple[int, ...] = (4,)) -> SeasonSettings:
    """A season with default settings."""
    return SeasonSettings(name=name, seats=seats)


def ids(store: Store) -> list[int]:
    """The ids of the versions that play, by the bots' names."""
    return [bot.current.id for bot in store.bots.all()]


def rotations(versions: Sequence[int], games: int) -> list[list[list[int]]]:
    """A rotation of the same versions, one seat further each time."""
    return [
        [
            [versions[(seat + game) % len(versions)] for seat in range(len(versions))]
            for game in range(games)
        ]
    ]


def play(
    job: Job, crashing: Collection[str] = (), choices: str = "", faulty: Mapping[str, int] = EMPTY
) -> str:
    """The record of a job's game; its bots choose by chance, from the seed and `choices`.

    Bots named in `crashing` are gone at their first decision, those in `faulty` play nonsense so
    many times.
    """
    left = dict(faulty)
    game = Game(job.season.rules, len(job.seats), job.seed)
    chance = Stream(job.seed, f"choices/{choices}")
    while (question := game.pending()) is not None:
        if job.seats[question.seat].bot in crashing:
            game.decide(None, fault=Fault.CRASH, came="its process ended")
        elif left.get(job.seats[question.seat].bot, 0) > 0:
            left[job.seats[question.seat].bot] -= 1
            game.decide(None, fault=Fault.ILLEGAL_ACTION, came="nonsense")
        else:
            # "down" and "leave" alone would let everybody drown in every dive.
            game.decide(question.legal[chance.uniform(min(len(question.legal), 3))], us=100)
    return _record(game, job)


def idle(job: Job) -> str:
    """The record of a job's game in which nobody ever takes a treasure, so that all are level."""
    game = Game(job.season.rules, len(job.seats), job.seed)
    while (question := game.pending()) is not None:
        game.decide(question.legal[0], us=100)
    return _record(game, job)


def _record(game: Game, job: Job) -> str:
    record = GameRecord.of(
        game,
        game_id=job.game_id,
        clock=job.season.clock,
        seats=[(version.label, version.digest) for version in job.seats],
    )
    return record.to_json()


def claim(store: Store, season: StoredSeason, owner: str = "worker", seconds: float = 60) -> Job:
    """Lease the next job, of which there has to be one."""
    (job,) = store.jobs.claim(season, owner, seconds)
    return job


def play_all(
    store: Store,
    season: StoredSeason,
    crashing: Mapping[str, Collection[str]] | None = None,
    games: int = 0,
) -> None:
    """Play every waiting job, rotation after rotation, and before that let so many games wait.

    crashing  bots for each game's id
    """
    if games:
        store.jobs.add(season, rotations(ids(store), games))
    rotation = None
    while jobs := store.jobs.claim(season, "worker", 60, [rotation]):
        (job,) = jobs
        rotation = job.rotation
        store.games.report(job, play(job, (crashing or {}).get(job.game_id, ())))


def no_writes(store: Store) -> AbstractContextManager[object]:
    """Let every change of a ladder fail meanwhile, as on a disk that may only be read."""
    from deepsea_ladder.errors import StoreError

    return patch.object(store.database, "write", side_effect=StoreError("it may only be read"))


@cache
def _empty() -> bytes:
    """The file of a ladder without anything; to make one takes as long as to play 20 games."""
    from deepsea_ladder.store import Store

    with TemporaryDirectory() as folder:
        path = Path(folder, "ladder.db")
        Store.create(path).close()
        return path.read_bytes()


def created(path: Path) -> Store:
    """A new ladder at this path."""
    # Where it is needed: processes that only play games start much faster without a database.
    from deepsea_ladder.store import Store

    path.write_bytes(_empty())
    return Store.open(path)


def played(path: Path, games: int = 8, crashing: Mapping[str, Collection[str]] = CRASHES) -> Path:
    """A ladder at this path: a season of games between four bots; ben crashed in two."""
    with created(path) as store:
        season = stocked(store)
        store.jobs.add(season, rotations(ids(store), 4) * (games // 4))
        play_all(store, season, crashing)
    return path


def a_cup(store: Store, name: str = "cup") -> StoredSeason:
    """An elimination of three bots at tables of two: the first has a bye, the others played."""
    a, b, c = ids(store)[:3]
    plan = {"kind": "elimination", "seats": 2, "meetings": 1, "bots": [a, b, c]}
    season = store.seasons.open(a_season(name, seats=(2,)), SEED, json.dumps(plan))
    store.jobs.add(season, rotations([b, c], 2))
    play_all(store, season)
    return season


def audited(store: Store, kind: AuditKind) -> list[AuditEntry]:
    """The newest entries of a kind in the audit log, newest first."""
    return [entry for entry in store.audit.latest() if entry.kind is kind]

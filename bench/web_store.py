"""A large ladder for `web.py`: made once, in some minutes, and kept.

Invariants: ratings and sums are those that the games give, in the store's own arithmetic; records
are of games that were played, relabelled, so many games share one course. Their seeds are not the
season's, and the chain is of made-up lines: pages read neither.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection, insert, update

from deepsea_bundle.reader import read_bot
from deepsea_ladder.model import AttemptEnd, BotVersion, Job, StoredSeason, TaskKind, TaskState
from deepsea_ladder.pairing import RandomStream
from deepsea_ladder.rating import RatingTotals, after_game, seat_results
from deepsea_ladder.season import SeasonSettings
from deepsea_ladder.store import Store, schema
from deepsea_ladder.store.sums import count_sums, write_tallies
from deepsea_rules import Fault, Game, GameRecord
from deepsea_rules.randomness import Stream, game_seed, seed_from_text

SEASON = "main"
VETERAN = "veteran"
"""The bot that sits in every tenth game."""
SEATS = 4
DEPTHS = (17, 9, 1, 99)
"""By placement, where a made-up game has its seats take a chip."""
COURSES = 200
"""Games that are played; all others have the course of one of them."""
_SEED = seed_from_text("a large ladder")
_PORTION = 2_000
_EPOCH_MS = 1_750_000_000_000


def make(path: Path, bots: int, games: int, courses: int = COURSES) -> None:
    """Make a ladder at a path where none is; `courses` games are played for it."""
    with Store.create(path) as store:
        season = store.seasons.open(SeasonSettings(name=SEASON, seats=(SEATS,)), _SEED)
        versions = [_submitted(store, number) for number in range(bots)]
        maker = _Maker(season, versions, courses)
        for start in range(1, games + 1, _PORTION):
            with store.database.write() as connection:
                maker.add(connection, range(start, min(start + _PORTION, games + 1)))
        with store.database.write() as connection:
            write_tallies(connection, season, maker.tallies, known=())
            count_sums(connection, season)


def _submitted(store: Store, number: int) -> BotVersion:
    return submit(store, number, f"# {number}\n")


def submit(store: Store, number: int, text: str) -> BotVersion:
    """Submit a version of this author's bot, a program in Python."""
    name = bot_name(number)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{name}.py"
        file.write_text(text, encoding="utf-8")
        return store.bots.submit(name, f"author-{number:03}", read_bot(file))


def bot_name(number: int) -> str:
    """The name of this author's bot."""
    return f"bot-{number:03}" if number else VETERAN


def played(job: Job, placements: Sequence[int]) -> str:
    """The record of a job's game that nobody played; nearly always it has these placements.

    In each dive a seat takes one chip and goes home, or none: the deeper, the better it is to be.
    """
    depths = [DEPTHS[min(placement, SEATS) - 1] for placement in placements]
    game = Game(job.season.rules, len(job.seats), job.seed)
    while (question := game.pending()) is not None:
        laden, legal = game.state.cargo[question.seat], question.legal
        deep = game.state.place[question.seat] >= depths[question.seat]
        turns = ("back" in legal and laden) or ("take" in legal and deep and not laden)
        game.decide(legal[-1 if turns else 0], us=200)
    seats = [(version.label, version.digest) for version in job.seats]
    clock = job.season.clock
    return GameRecord.of(game, game_id=job.game_id, clock=clock, seats=seats).to_json()


class _Course(NamedTuple):
    """A game that was played; the names are to be replaced."""

    record: GameRecord
    text: str


def _course(season: SeasonSettings, number: int) -> _Course:
    seed = game_seed(_SEED, number)
    game = Game(season.rules, SEATS, seed)
    chance = Stream(seed, "choices")
    faulty = number % 20 == 0
    while (question := game.pending()) is not None:
        if faulty and question.seat == 1 and len(game.decisions) < 8:
            game.decide(None, fault=Fault.ILLEGAL_ACTION, came="nonsense")
        else:
            legal = question.legal
            game.decide(legal[chance.uniform(min(len(legal), 2))], us=200 + chance.uniform(200))
    seats = [(f"@name{seat}@", f"@digest{seat}@") for seat in range(SEATS)]
    record = GameRecord.of(game, game_id="@game@", clock=season.clock, seats=seats)
    return _Course(record, record.to_json())


class _Maker:
    """Adds games in their order."""

    def __init__(self, season: StoredSeason, versions: list[BotVersion], courses: int) -> None:
        self._season = season
        self._versions = versions
        self._courses = [_course(season.settings, number) for number in range(courses)]
        self._chance = RandomStream(_SEED, "line-ups")
        self._head = season.head
        self.tallies: dict[int, RatingTotals] = {}

    def add(self, connection: Connection, numbers: range) -> None:
        """Add the games of these numbers, which are their places and sequence numbers too."""
        rows: dict[Any, list[dict[str, Any]]] = {
            table: []
            for table in (
                *(schema.jobs, schema.job_seats, schema.tasks, schema.attempts),
                *(schema.games, schema.game_seats),
            )
        }
        for number in numbers:
            self._game(rows, number)
        for table, its_rows in rows.items():
            connection.execute(insert(table), its_rows)
        table = schema.seasons
        connection.execute(
            update(table)
            .where(table.c.id == self._season.id)
            .values(place=numbers[-1], head=self._head)
        )

    def _lineup(self, number: int) -> list[BotVersion]:
        drawn = dict[int, None]()  # each once, in their order
        while len(drawn) < SEATS:
            drawn[1 + self._chance.below(len(self._versions) - 1)] = None
        others = [self._versions[index] for index in drawn]
        if number % 10 == 0:
            others[number // 10 % SEATS] = self._versions[0]
        return others

    def _game(self, rows: dict[Any, list[dict[str, Any]]], number: int) -> None:
        lineup = self._lineup(number)
        ids = [version.id for version in lineup]
        course = self._courses[self._chance.below(len(self._courses))]
        text = course.text.replace("@game@", f"{SEASON}-{number}")
        for seat, version in enumerate(lineup):
            text = text.replace(f"@name{seat}@", version.label)
            text = text.replace(f"@digest{seat}@", version.digest)
        at = _EPOCH_MS + 500 * number
        seats = seat_results(course.record, ids)
        after = after_game(self._season.settings.rating, self.tallies, seats, number, at)
        self.tallies |= after
        self._head = hashlib.sha256(f"{self._head}{number}".encode()).hexdigest()
        of_season: dict[str, Any] = {"season_id": self._season.id}
        rows[schema.jobs].append(
            of_season
            | {
                "id": number,
                "number": number,
                "rotation": (number - 1) // SEATS + 1,
                "shift": (number - 1) % SEATS,
                "game_id": f"{SEASON}-{number}",
                "created_at": at,
            }
        )
        rows[schema.tasks].append(
            of_season
            | {
                "kind": TaskKind.GAME,
                "subject": number,
                "priority": (number - 1) % SEATS,
                "state": TaskState.DONE,
                "attempt": 1,
                "failures": 0,
                "created_at": at,
                "changed_at": at,
                "change": number,
            }
        )
        rows[schema.attempts].append(
            of_season
            | {
                "job_id": number,
                "attempt": 1,
                "owner": "bench",
                "since": at,
                "ended_at": at,
                "ended": AttemptEnd.DONE,
            }
        )
        rows[schema.games].append(
            of_season
            | {
                "seq": number,
                "job_id": number,
                "game_id": f"{SEASON}-{number}",
                "attempt": 1,
                "place": number,
                "head": self._head,
                "played_at": at,
                "record": text,
            }
        )
        for seat, result in enumerate(seats):
            mu, sigma = after[result.version_id].rating.to_hex()
            place: dict[str, Any] = {"seat": seat, "version_id": result.version_id}
            rows[schema.job_seats].append(of_season | place | {"job_id": number})
            rows[schema.game_seats].append(
                {**of_season, **place, **result._asdict(), "seq": number, "mu": mu, "sigma": sigma}
                | {"number": after[result.version_id].games}
            )

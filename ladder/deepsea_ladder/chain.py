"""The hash chain of a season (docs/records.md), and the proof of games by their records.

Invariants: head 0 is the commitment to the season's seed. Each game and each attempt without a
result has a place, from 1 and without gaps; head n is the SHA-256 of head n-1 and of the SHA-256 of
line n. A line has only values that never change, and no fractions, so that its canonical JSON has
one form; ratings and authors' names stand beside it, since they may change.

Everything here is pure, so that games can be proved in any process. `difference` plays a stored
game again from its record; a difference is one line that names the game.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

from deepsea_ladder.errors import ChainBroken, NotAChain, StoreDamaged
from deepsea_ladder.model import LostAttempt, StoredGame, StoredSeason, utc_time
from deepsea_ladder.rating import SeatResult, seat_results
from deepsea_rules.errors import InvalidRecord
from deepsea_rules.game import GameRecord, verify
from deepsea_rules.randomness import SEED_BYTES, commitment, game_seed

Line = dict[str, Any]
"""The public line of one place of a season: JSON without fractions."""
UNHASHED_KEYS = ("authors", "head", "ratings")
"""Keys of an exported line that are not hashed."""


class Link(NamedTuple):
    """A place of a season's chain in an export."""

    season: str
    place: int
    head: str
    is_game: bool
    """False for an attempt without a result, and for the opening line."""


class RecordedGame(NamedTuple):
    """A stored game with the values that its record must agree with."""

    game_id: str
    record: str
    """JSON."""
    seed: bytes
    """The seed that follows from the season's."""
    lineup: tuple[int, ...]
    """Version ids by seat."""
    results: tuple[SeatResult, ...]
    """The stored results by seat."""


Prove: TypeAlias = Callable[[Iterable[RecordedGame]], Iterator[str]]
"""Yields a line for each game that its record does not prove, in the order of the games."""


def opening(season: StoredSeason, seed: str | None) -> Line:
    """Return the opening line of a season's export, at place 0.

    It is not hashed: its head is the commitment to the season's seed.

    seed  the season's seed in hex; None as long as it is secret
    """
    return {
        "place": 0,
        "season": season.name,
        "opened_at": _text_of(utc_time(season.created_at)),
        "commitment": season.commitment,
        "seed": seed,
        "head": season.commitment,
    }


def game_line(stored: StoredGame) -> Line:
    """Return the line of a game in the chain. Raises `StoreDamaged` if its record is no JSON."""
    game = stored.line
    try:
        record = json.loads(stored.record)
    except (ValueError, RecursionError) as error:
        raise StoreDamaged(f"game {game.game_id}: its record is no JSON: {error}") from None
    return {
        "place": game.place,
        "season": game.season,
        "game_id": game.game_id,
        "attempt": game.attempt,
        "ended": "done",
        "seq": str(game.seq),
        "played_at": _text_of(game.played_at),
        "seats": [
            {
                "bot": seat.bot,
                "version": seat.version,
                "digest": seat.digest,
                "points": seat.points,
                "placement": seat.placement,
                "decisions": seat.decisions,
                "faults": seat.faults,
                "forfeit": seat.forfeit,
            }
            for seat in game.seats
        ],
        "record": record,
    }


def lost_line(season: str, lost: LostAttempt) -> Line:
    """Return the line of an attempt at a game that had no result, for the chain of a season.

    The keys and values are those of the public export (docs/records.md).
    """
    return {
        "place": lost.place,
        "season": season,
        "game_id": lost.game_id,
        "attempt": lost.attempt,
        "ended": str(lost.ended),
        "ended_at": _text_of(utc_time(lost.ended_at)),
        "reason": lost.reason,
        "asked_seat": lost.seat,
        "seats": [
            {"bot": version.bot, "version": version.number, "digest": version.digest}
            for version in lost.lineup
        ],
    }


def _text_of(time: datetime) -> str:
    """Return a time in UTC in the format of RFC 3339, with milliseconds."""
    return time.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def canonical(line: Line) -> bytes:
    """Return a line as canonical JSON (RFC 8785): sorted keys, no spaces, in UTF-8."""
    text = json.dumps(
        line, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
    )
    return text.encode()


def next_head(head: str, line: Line) -> str:
    """Return the head of a chain after a line, in hex.

    head  the head before it, in hex
    line  without the keys that are not hashed
    """
    line_hash = hashlib.sha256(canonical(line)).digest()
    return hashlib.sha256(bytes.fromhex(head) + line_hash).hexdigest()


def follow(lines: Iterable[str]) -> Iterator[Link]:
    """Check the lines of an export, which may have several seasons, and yield a link for each line.

    Each line has a hash, its head, that depends on all lines of its season before it. Raises
    `NotAChain` for a line that is not of an export, and `ChainBroken` for a line that was changed,
    or that does not follow from those before it.
    """
    checks: dict[str, _ChainCheck] = {}  # by season
    for number, text in enumerate(lines, 1):
        try:
            line = json.loads(text)
            season, place, head = line["season"], line["place"], line["head"]
            if place == 0:
                if season in checks:
                    raise ChainBroken(f"season {season!r} begins twice")
                checks[season] = _ChainCheck(line)
            elif season in checks:
                checks[season].check(line)
            else:
                raise ChainBroken(f"season {season!r} does not begin with place 0")
        except ChainBroken as broken:
            raise ChainBroken(f"line {number}: {broken}") from None
        except (ValueError, TypeError, KeyError, RecursionError):
            raise NotAChain(f"line {number} is none of an export") from None
        yield Link(season, place, head, line.get("ended") == "done")


class _ChainCheck:
    """The check of one season's chain, line by line from the opening line."""

    def __init__(self, opening_line: Line) -> None:
        """Begin with the opening line. Raises `ChainBroken` if its head or its seed is wrong."""
        self._head, self._place = opening_line["commitment"], 0
        self._lost_attempts: dict[str, set[int]] = {}
        """The numbers of attempts without a result, from 0, by game id."""
        if opening_line["head"] != self._head or len(bytes.fromhex(self._head)) != SEED_BYTES:
            raise ChainBroken("head 0 is not the season's commitment")
        seed = opening_line["seed"]
        self._seed = None if seed is None else bytes.fromhex(seed)
        if self._seed is not None and commitment(self._seed) != self._head:
            raise ChainBroken("the seed is not the one that the season committed to")

    def check(self, line: Line) -> None:
        """Check the next line of the chain. Raises `ChainBroken`, which names the place.

        Its place and head must follow on the line before it. A game must have a line for each
        earlier attempt, a record of the same game and seats, and, if the season's seed is shown,
        the seed that follows from it.
        """
        if line["place"] != self._place + 1:
            raise ChainBroken(f"place {line['place']} follows on {self._place}")
        hashed = {key: value for key, value in line.items() if key not in UNHASHED_KEYS}
        head = next_head(self._head, hashed)
        if head != line["head"]:
            raise ChainBroken(f"place {line['place']}: its head is {line['head']}, not {head}")
        self._head, self._place = head, line["place"]
        lost_attempts = self._lost_attempts.setdefault(line["game_id"], set())
        if line["ended"] != "done":
            lost_attempts.add(line["attempt"])
            return
        where, record = f"place {line['place']}, game {line['game_id']}", line["record"]
        missing_attempt = 0  # not counted up to line["attempt"], which may be a huge number
        while missing_attempt in lost_attempts:
            missing_attempt += 1
        if missing_attempt < line["attempt"]:
            raise ChainBroken(f"{where}: there is no line of attempt {missing_attempt}")
        seats = [(f"{seat['bot']} v{seat['version']}", seat["digest"]) for seat in line["seats"]]
        if record["game_id"] != line["game_id"] or seats != [
            (seat["name"], seat["digest"]) for seat in record["seats"]
        ]:
            raise ChainBroken(f"{where}: the record is another game's")
        if self._seed is not None:
            number = int(line["game_id"].removeprefix(f"{line['season']}-"))
            if record["seed"] != game_seed(self._seed, number, line["attempt"]).hex():
                raise ChainBroken(f"{where}: its seed does not follow from the season's")


def prove(games: Iterable[RecordedGame]) -> Iterator[str]:
    """Yield the mistake of each game that has one, computed one after another in this process."""
    for game in games:
        mistake = difference(game)
        if mistake is not None:
            yield mistake


def difference(game: RecordedGame) -> str | None:
    """Return the first mistake of a stored game as one line, or None if it has none.

    The game is played again from its record, which must have the same result, and must agree with
    the stored id, seed and results.
    """
    try:
        record = GameRecord.from_json(game.record)
        verify(record)  # plays it
    except InvalidRecord as error:
        return f"game {game.game_id}: the record is wrong: {error}"
    if record.game_id != game.game_id:
        return f"game {game.game_id}: the record is another game's"
    if record.seed != game.seed:
        return f"game {game.game_id}: its seed does not follow from the season's"
    has_same_seats = len(game.lineup) == len(record.seats)
    if not has_same_seats or game.results != tuple(seat_results(record, game.lineup)):
        return f"game {game.game_id}: the stored results are not those of its record"
    return None

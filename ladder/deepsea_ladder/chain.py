"""The chain of a season: a line for each game, hashed one after another (docs/records.md).

Invariants: head 0 is the commitment to the season's seed; each game and each attempt without a
result has a place, from 1 and without gaps, and head n is SHA-256 of head n-1 and of the SHA-256 of
line n; a line holds nothing that changes later, and no fractions, so its canonical JSON has one
form; ratings and authors' names stand beside it, since they may change.

Whether stored games are what their records prove is pure too, so that they may be looked at in any
process; a difference is one line that names the game, in the order of the games.
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
BESIDE = ("authors", "head", "ratings")
"""Keys of an exported line that are not hashed."""


class Link(NamedTuple):
    """A place of a season's chain, as an export has it."""

    season: str
    place: int
    head: str
    is_game: bool


class RecordedGame(NamedTuple):
    """A stored game with what its record must agree with."""

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
"""Gives the differences of games, each a line, in the order of the games."""


def opening(season: StoredSeason, seed: str | None) -> Line:
    """Line 0 of a season's export; it is not hashed, its head is the commitment."""
    return {
        "place": 0,
        "season": season.name,
        "opened_at": _text_of(utc_time(season.created_at)),
        "commitment": season.commitment,
        "seed": seed,
        "head": season.commitment,
    }


def game_line(stored: StoredGame) -> Line:
    """The line of a game; `StoreDamaged` if its record is no JSON."""
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
    """The line of an attempt without a result."""
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
    """A time in RFC 3339 with milliseconds."""
    return time.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def canonical(line: Line) -> bytes:
    """The line's canonical JSON (RFC 8785): sorted keys, no spaces, UTF-8."""
    text = json.dumps(
        line, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
    )
    return text.encode()


def next_head(head: str, line: Line) -> str:
    """The head after a line, in hex."""
    told = hashlib.sha256(canonical(line)).digest()
    return hashlib.sha256(bytes.fromhex(head) + told).hexdigest()


def follow(lines: Iterable[str]) -> Iterator[Link]:
    """Check an export, which may have several seasons, line by line.

    Raises `NotAChain` for a line that is none of an export, `ChainBroken` for one that was changed,
    or does not follow from those before it.
    """
    seasons: dict[str, _Follower] = {}
    for number, text in enumerate(lines, 1):
        try:
            line = json.loads(text)
            season, place, head = line["season"], line["place"], line["head"]
            if place == 0:
                if season in seasons:
                    raise ChainBroken(f"season {season!r} begins twice")
                seasons[season] = _Follower(line)
            elif season in seasons:
                seasons[season].follow(line)
            else:
                raise ChainBroken(f"season {season!r} does not begin with place 0")
        except ChainBroken as broken:
            raise ChainBroken(f"line {number}: {broken}") from None
        except (ValueError, TypeError, KeyError, RecursionError):
            raise NotAChain(f"line {number} is none of an export") from None
        yield Link(season, place, head, line.get("ended") == "done")


class _Follower:
    """Follows the chain of one season from its line 0."""

    def __init__(self, line: Line) -> None:
        self._head, self._place = line["commitment"], 0
        self._lost: dict[str, set[int]] = {}
        if line["head"] != self._head or len(bytes.fromhex(self._head)) != SEED_BYTES:
            raise ChainBroken("head 0 is not the season's commitment")
        self._seed = None if line["seed"] is None else bytes.fromhex(line["seed"])
        if self._seed is not None and commitment(self._seed) != self._head:
            raise ChainBroken("the seed is not the one that the season committed to")

    def follow(self, line: Line) -> None:
        """Check the next line."""
        if line["place"] != self._place + 1:
            raise ChainBroken(f"place {line['place']} follows on {self._place}")
        told = {key: value for key, value in line.items() if key not in BESIDE}
        head = next_head(self._head, told)
        if head != line["head"]:
            raise ChainBroken(f"place {line['place']}: its head is {line['head']}, not {head}")
        self._head, self._place = head, line["place"]
        lost = self._lost.setdefault(line["game_id"], set())
        if line["ended"] != "done":
            lost.add(line["attempt"])
            return
        where, record = f"place {line['place']}, game {line['game_id']}", line["record"]
        # No more numbers are looked at than lines were read, whatever the line says.
        missing = next(number for number in range(len(lost) + 1) if number not in lost)
        if missing < line["attempt"]:
            raise ChainBroken(f"{where}: there is no line of attempt {missing}")
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
    """Look at one game after another in this process."""
    return filter(None, map(difference, games))


def difference(game: RecordedGame) -> str | None:
    """The mistake in a game, found by a re-run of its record; None if there is none."""
    try:
        record = GameRecord.from_json(game.record)
        verify(record)
    except InvalidRecord as error:
        return f"game {game.game_id}: the record is wrong: {error}"
    if record.game_id != game.game_id:
        return f"game {game.game_id}: the record is another game's"
    if record.seed != game.seed:
        return f"game {game.game_id}: its seed does not follow from the season's"
    if len(game.lineup) != len(record.seats) or game.results != tuple(
        seat_results(record, game.lineup)
    ):
        return f"game {game.game_id}: the stored results are not those of its record"
    return None

"""Tournament schedules and scores: round-robin, gauntlet and elimination.

Invariants: pure and seeded; a schedule is a list of line-ups like those of the pairing, each a
rotation in which every bot sits in every seat; the tables of an elimination's round depend only on
the bots that are still in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from deepsea_ladder.errors import PairingError
from deepsea_ladder.pairing import LineUp, RandomStream
from deepsea_ladder.rating import SeatResult
from deepsea_rules.scoring import halves_ahead

FINAL_GAMES = 2000
"""The number of games of a final, unless another one is given."""
MOST_GAMES = 100_000
"""The largest number of games of a tournament: hours of playing, and half a million stored rows."""


def round_robin(bots: Sequence[int], seats: int, seed: bytes, meetings: int = 1) -> list[LineUp]:
    """Return tables at which every two bots meet at least `meetings` times.

    At tables with two seats they meet exactly that often. The tables are ordered so that at any
    time the bots have played about the same number of games.
    """
    check_entrants(bots, seats)
    shuffled_bots = RandomStream(seed, "round robin").shuffled(bots)
    if seats == 2:
        return [pair for _ in range(meetings) for pair in _pairs_of_round_robin(shuffled_bots)]
    return _covering_tables(shuffled_bots, seats, meetings)


def fewest_round_robin_games(bots: int, seats: int, meetings: int) -> int:
    """Return a lower bound of the games of a round robin, which two seats reach exactly.

    There are bots * (bots - 1) / 2 pairs that meet at `meetings` tables. A table has
    seats * (seats - 1) / 2 pairs and as many games as seats.
    """
    return ceil_div(bots * (bots - 1) * meetings, seats - 1)


def fewest_gauntlet_games(bots: int, seats: int, meetings: int) -> int:
    """Return the smallest number of games of a gauntlet between these bots.

    At a table the challenger meets seats - 1 others, in as many games as there are seats.
    """
    return ceil_div((bots - 1) * meetings, seats - 1) * seats


def most_elimination_games(bots: int, meetings: int) -> int:
    """Return the largest number of games of an elimination.

    That is reached by tables of two, each of which takes out one bot with two games a meeting.
    """
    return 2 * (bots - 1) * meetings


def ceil_div(number: int, divisor: int) -> int:
    """Return number / divisor, rounded up."""
    return -(-number // divisor)


def gauntlet(
    challenger: int, others: Sequence[int], seats: int, seed: bytes, meetings: int = 1
) -> list[LineUp]:
    """Return tables at which the challenger meets each other bot at least `meetings` times."""
    check_entrants([challenger, *others], seats)
    stream = RandomStream(seed, "gauntlet")
    waiting: list[int] = []
    for _ in range(meetings):
        waiting += stream.shuffled(others)
    tables = []
    while waiting:
        opponents: list[int] = []
        # First the next bots in the queue; if they are too few for a table, any others.
        for bot in [*waiting, *stream.shuffled(others)]:
            if len(opponents) < seats - 1 and bot not in opponents:
                opponents.append(bot)
        for bot in opponents:
            if bot in waiting:
                waiting.remove(bot)
        tables.append(LineUp((challenger, *opponents)))
    return tables


def elimination(entrants: Sequence[int], seats: int) -> tuple[list[LineUp], set[int]]:
    """Return the tables of a round whose winners advance, and the bots that advance by a bye.

    The tables are of about the same size, and high seeds sit at different ones. A single entrant
    has no table. With two seats the highest seeds get byes, as many as leave a power of two for
    the next round; with more seats there are none.

    entrants  the bots that are still in it, the first seed first
    seats     the largest number of bots at a table
    """
    check_entrants(entrants, 1)
    if seats < 2:
        raise PairingError(f"a table has two seats or more, not {seats}")
    if len(entrants) == 1:
        return [], set()
    bracket = 1  # the next power of two
    while bracket < len(entrants):
        bracket *= 2
    byes = bracket - len(entrants) if seats == 2 else 0
    playing = entrants[byes:]
    count = ceil_div(len(playing), seats)
    tables: list[list[int]] = [[] for _ in range(count)]
    for i, bot in enumerate(playing):
        # From the first table to the last and back again, so that the seeds are balanced.
        lap, step = divmod(i, count)
        tables[step if lap % 2 == 0 else count - 1 - step].append(bot)
    return [LineUp(tuple(table)) for table in tables], set(entrants[:byes])


class Score(NamedTuple):
    """A bot's results in a tournament."""

    bot: int
    games: int
    share: float
    """The mean share of opponents at the table that the bot was better than; ties count half."""
    wins: int
    """First places, shared ones too."""
    mean_points: float

    @property
    def standing(self) -> tuple[float, float, float]:
        """The sort key of scores, the best first."""
        return -self.share, -self.wins / self.games, -self.mean_points


_SHARE_UNITS = 120
"""Shares are summed as whole numbers of this many units a game, so that sums are exact: it divides
by 2 and by the number of opponents at any table, 1 to 5."""


def scores(games: Iterable[Sequence[SeatResult]]) -> list[Score]:
    """Return the scores of the bots of some games, the best first.

    games  the results of each game, by seat
    """
    rows = []
    for seats in games:
        halves = halves_ahead([seat.placement for seat in seats])
        for seat, half_points in zip(seats, halves, strict=True):
            is_win = int(seat.placement == 1)
            rows.append((seat.version_id, len(seats), 1, is_win, seat.points, half_points))
    return summed_scores(rows)


def summed_scores(sums: Iterable[Sequence[int]]) -> list[Score]:
    """Return the scores of bots, the best first: by share, then wins, then points.

    Shares can be compared between tables of different sizes, placements cannot.

    sums  rows of a bot, the number of players at a table, and the bot's sums at such tables: games,
          wins, points, and half points (two for each opponent behind it, one for each tied one); a
          bot may have several rows
    """
    totals: dict[int, list[int]] = {}
    for bot, players, games, wins, points, half_points in sums:
        share_units = _SHARE_UNITS // 2 * half_points // (players - 1)
        row = (games, share_units, wins, points)
        before = totals.get(bot, [0, 0, 0, 0])
        totals[bot] = [total + value for total, value in zip(before, row, strict=True)]
    table = [
        Score(bot, games, share_units / (_SHARE_UNITS * games), wins, points / games)
        for bot, (games, share_units, wins, points) in totals.items()
    ]
    return sorted(table, key=lambda score: (score.standing, score.bot))


def check_entrants(bots: Sequence[int], seats: int) -> None:
    """Raise `PairingError` unless these bots are different ones and fill a table."""
    if len(set(bots)) != len(bots):
        raise PairingError("a bot takes part in a tournament once")
    if seats < 1 or len(bots) < seats:
        raise PairingError(f"a table of {seats} needs as many bots, and there are {len(bots)}")


def _pairs_of_round_robin(bots: Sequence[int]) -> list[LineUp]:
    """Return every pair of bots once, in rounds in which each bot has one opponent.

    Circle method: opposite places of a ring are paired, then all but the first move on by one
    place. With an odd number of bots, None is the opponent of the one that pauses.
    """
    ring: list[int | None] = [*bots, None] if len(bots) % 2 else [*bots]
    pairs = []
    for _ in range(len(ring) - 1):
        for i in range(len(ring) // 2):
            bot, opponent = ring[i], ring[-1 - i]
            if bot is not None and opponent is not None:
                pairs.append(LineUp((bot, opponent)))
        ring = [ring[0], ring[-1], *ring[1:-1]]
    return pairs


def _covering_tables(bots: Sequence[int], seats: int, meetings: int) -> list[LineUp]:
    """Return tables at which every two bots meet at least `meetings` times.

    Greedy: each table begins with the bot that lacks most meetings, and adds the bot that lacks a
    meeting with most of its members. There may be ways with fewer tables.
    """
    # The meetings that each two bots still lack; below 0 if they met more often than needed.
    missing = {bot: {other: meetings for other in bots if other != bot} for bot in bots}
    played = dict.fromkeys(bots, 0)

    def lacking_members(bot: int, table: Sequence[int]) -> int:
        """Return the number of members that the bot still has to meet."""
        return sum(missing[bot][member] > 0 for member in table)

    tables: list[LineUp] = []
    while True:
        open_meetings = {
            bot: sum(count for count in missing[bot].values() if count > 0) for bot in bots
        }
        first = max(bots, key=lambda bot: (open_meetings[bot], -played[bot]))
        if open_meetings[first] == 0:
            return tables
        table = [first]
        while len(table) < seats:
            candidates = [bot for bot in bots if bot not in table]
            table.append(
                max(
                    candidates,
                    key=lambda bot: (
                        lacking_members(bot, table),
                        open_meetings[bot],
                        -played[bot],
                    ),
                )
            )
        for bot in table:
            played[bot] += 1
            for other in table:
                if other != bot:
                    missing[bot][other] -= 1
        tables.append(LineUp(tuple(table)))

"""Tournament schedules and scores: round-robin, gauntlet and elimination.

Invariants: pure and seeded; a schedule is a list of line-ups like those of the pairing, each a
rotation in which every bot sits in every seat; a bot plays with one of its versions, and each
number that stands for a bot here is the id of that version; the tables of an elimination's round
depend only on the bots that are still in it.
"""

from __future__ import annotations

from collections import Counter
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
    """Return tables of `seats` bots at which every two bots meet at least `meetings` times.

    At tables of two they meet exactly that often. The tables are ordered so that at any time the
    bots have played about the same number of games.

    seed  the seed of the order in which the bots get their tables
    """
    check_entrants(bots, seats)
    shuffled_bots = RandomStream(seed, "round robin").shuffled(bots)
    if seats == 2:
        return _pairs_of_round_robin(shuffled_bots) * meetings
    return _covering_tables(shuffled_bots, seats, meetings)


def fewest_round_robin_games(bots: int, seats: int, meetings: int) -> int:
    """Return the smallest number of games of a round robin; with two seats it is the exact number.

    bots      the number of bots
    seats     the number of bots at a table; a table plays as many games, so that they can rotate
    meetings  at how many tables each two bots meet
    """
    # A table has seats * (seats - 1) / 2 pairs. So the number of tables is at least
    # all_meetings * 2 / (seats * (seats - 1)), and each table plays `seats` games.
    all_meetings = bots * (bots - 1) // 2 * meetings
    return ceil_div(2 * all_meetings, seats - 1)


def fewest_gauntlet_games(bots: int, seats: int, meetings: int) -> int:
    """Return the smallest number of games of a gauntlet, in which one bot plays all the others.

    bots      the number of bots, with the one that plays the others
    seats     the number of bots at a table; a table plays as many games, so that they can rotate
    meetings  at how many tables that bot meets each other one
    """
    # At a table it meets seats - 1 others.
    tables = ceil_div((bots - 1) * meetings, seats - 1)
    return tables * seats


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
    """Return tables at which the challenger meets each other bot at least `meetings` times.

    seats  the number of bots at a table, with the challenger
    seed   the seed of the order in which the bots meet the challenger
    """
    check_entrants([challenger, *others], seats)
    stream = RandomStream(seed, "gauntlet")
    # The bots in the order in which they meet the challenger; each is in the queue several times.
    queue: list[int] = []
    for _ in range(meetings):
        queue += stream.shuffled(others)
    tables = []
    while queue:
        opponents: list[int] = []
        # The next bots in the queue, each once; if they are too few for a table, any others.
        for bot in [*queue, *stream.shuffled(others)]:
            if len(opponents) < seats - 1 and bot not in opponents:
                opponents.append(bot)
        for bot in opponents:
            if bot in queue:
                queue.remove(bot)
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
    byes = 0
    if seats == 2:
        next_power_of_two = 1 << (len(entrants) - 1).bit_length()
        byes = next_power_of_two - len(entrants)
    playing = entrants[byes:]
    table_count = ceil_div(len(playing), seats)
    tables: list[list[int]] = [[] for _ in range(table_count)]
    for i, bot in enumerate(playing):
        # The seeds are dealt from the first table to the last and back again, so that the tables
        # are about equally strong.
        lap, table = divmod(i, table_count)
        if lap % 2 == 1:
            table = table_count - 1 - table
        tables[table].append(bot)
    return [LineUp(tuple(members)) for members in tables], set(entrants[:byes])


class Score(NamedTuple):
    """The results of a bot in a tournament, in which it plays with one of its versions."""

    version_id: int
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
    rows = []  # as `summed_scores` takes them, with the sums over a single game
    for seats in games:
        players = len(seats)
        # For each seat: two for each opponent behind it, one for each tied one.
        half_points_by_seat = halves_ahead([seat.placement for seat in seats])
        for seat, half_points in zip(seats, half_points_by_seat, strict=True):
            wins = int(seat.placement == 1)
            rows.append((seat.version_id, players, 1, wins, seat.points, half_points))
    return summed_scores(rows)


def summed_scores(sums: Iterable[Sequence[int]]) -> list[Score]:
    """Return the scores of bots from sums over their games, the best first.

    They are sorted by the mean share of opponents that a bot was better than, then by wins and by
    points. Shares can be compared between tables of different sizes, placements cannot.

    sums  rows of a bot, the number of players at a table, and the bot's sums at such tables: games,
          wins, points, and half points (two for each opponent behind it, one for each tied one); a
          bot may have several rows
    """
    total_games: Counter[int] = Counter()
    total_wins: Counter[int] = Counter()
    total_points: Counter[int] = Counter()
    total_share_units: Counter[int] = Counter()
    for bot, players, games, wins, points, half_points in sums:
        total_games[bot] += games
        total_wins[bot] += wins
        total_points[bot] += points
        # In a game a share is half points / 2 / (number of opponents), and counts in whole units.
        total_share_units[bot] += _SHARE_UNITS // 2 * half_points // (players - 1)
    table = [
        Score(
            version_id=bot,
            games=games,
            share=total_share_units[bot] / (_SHARE_UNITS * games),
            wins=total_wins[bot],
            mean_points=total_points[bot] / games,
        )
        for bot, games in total_games.items()
    ]
    return sorted(table, key=lambda score: (score.standing, score.version_id))


def check_entrants(bots: Sequence[int], seats: int) -> None:
    """Raise `PairingError` unless these bots are different ones and fill a table."""
    if len(set(bots)) != len(bots):
        raise PairingError("a bot takes part in a tournament once")
    if seats < 1 or len(bots) < seats:
        raise PairingError(f"a table of {seats} needs as many bots, and there are {len(bots)}")


def _pairs_of_round_robin(bots: Sequence[int]) -> list[LineUp]:
    """Return every pair of bots once, in rounds in which each bot has one opponent.

    This is the circle method: the bots sit in a ring, and opposite places are paired. After each
    round all but the first bot move on by one place.
    """
    ring: list[int | None] = [*bots]
    if len(ring) % 2 == 1:
        ring.append(None)  # the opponent of None has no game in the round
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

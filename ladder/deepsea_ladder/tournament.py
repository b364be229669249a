"""Tournament schedules and scores: round-robin, gauntlet, elimination.

Invariants: pure and seeded; a schedule is a list of line-ups like those of the pairing, each a
rotation in which every bot sits in every seat; a round of an elimination depends only on who is
still in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from deepsea_ladder.errors import PairingError
from deepsea_ladder.pairing import LineUp, RandomStream
from deepsea_ladder.rating import SeatResult
from deepsea_rules.scoring import halves_ahead

FINAL_GAMES = 2000
"""The budget of a final, unless another one is given."""
MOST_GAMES = 100_000
"""The most games of a tournament: hours for a fast runner, and half a million rows of a store."""


def round_robin(bots: Sequence[int], seats: int, seed: bytes, meetings: int = 1) -> list[LineUp]:
    """Tables at which every two bots meet at least `meetings` times; with two seats exactly.

    The order keeps the bots' numbers of games about equal.
    """
    check_entrants(bots, seats)
    order = RandomStream(seed, "round robin").shuffled(bots)
    if seats == 2:
        return [pair for _ in range(meetings) for pair in _circle(order)]
    return _covering(order, seats, meetings)


def least_round_robin_games(bots: int, seats: int, meetings: int) -> int:
    """The fewest games of a round robin: a game has all pairs of its table, and two bots meet in
    as many games as there are seats; with two seats there are no more."""
    return -(-bots * (bots - 1) * meetings // (seats - 1))


def least_gauntlet_games(bots: int, seats: int, meetings: int) -> int:
    """The fewest games of a gauntlet: at a table the challenger meets all others."""
    return -(-(bots - 1) * meetings // (seats - 1)) * seats


def most_elimination_games(bots: int, meetings: int) -> int:
    """The most games of an elimination: a table of two takes out one bot with two games."""
    return 2 * (bots - 1) * meetings


def gauntlet(
    challenger: int, others: Sequence[int], seats: int, seed: bytes, meetings: int = 1
) -> list[LineUp]:
    """Tables at which the challenger meets each of the others at least `meetings` times."""
    check_entrants([challenger, *others], seats)
    chance = RandomStream(seed, "gauntlet")
    waiting: list[int] = []
    for _ in range(meetings):
        waiting += chance.shuffled(others)
    tables = []
    while waiting:
        company: list[int] = []
        # The next ones in the queue who are not at this table already; then anybody.
        for bot in [*waiting, *chance.shuffled(others)]:
            if len(company) < seats - 1 and bot not in company:
                company.append(bot)
        for bot in company:
            if bot in waiting:
                waiting.remove(bot)
        tables.append(LineUp((challenger, *company)))
    return tables


def elimination(entrants: Sequence[int], seats: int) -> tuple[list[LineUp], set[int]]:
    """The tables of a round in which the best of each table advances, and who has a bye.

    The tables are of about the same size, with the high seeds apart; one bot has none. The highest
    seeds have byes: so many that the other rounds of two seats are even.

    entrants  the bots that are still in it, the first seed first
    seats     the most bots at a table
    """
    check_entrants(entrants, 1)
    if seats < 2:
        raise PairingError(f"a table has two seats or more, not {seats}")
    if len(entrants) == 1:
        return [], set()
    full = 1
    while full < len(entrants):
        full *= 2
    byes = full - len(entrants) if seats == 2 else 0
    playing = entrants[byes:]
    count = -(-len(playing) // seats)
    tables: list[list[int]] = [[] for _ in range(count)]
    for i, bot in enumerate(playing):
        lap, step = divmod(i, count)
        tables[step if lap % 2 == 0 else count - 1 - step].append(bot)
    return [LineUp(tuple(table)) for table in tables], set(entrants[:byes])


class Score(NamedTuple):
    """A bot's results in a tournament."""

    bot: int
    games: int
    share: float
    """The mean share of the others at the table that it was better than; level counts half."""
    wins: int
    """First places, shared ones too."""
    mean_points: float

    @property
    def standing(self) -> tuple[float, float, float]:
        """The sort key of scores, the best first."""
        return -self.share, -self.wins / self.games, -self.mean_points


_PARTS = 120
"""Shares are counted in these parts of a game: it divides by the others at any table, and by 2."""


def scores(games: Iterable[Sequence[SeatResult]]) -> list[Score]:
    """The scores of the bots of some games, the best first."""
    return summed_scores(
        (seat.version_id, len(seats), 1, int(seat.placement == 1), seat.points, half)
        for seats in games
        for seat, half in zip(seats, halves_ahead([one.placement for one in seats]), strict=True)
    )


def summed_scores(sums: Iterable[Sequence[int]]) -> list[Score]:
    """The scores of bots, the best first: by share, then wins, then points.

    Shares may be compared between tables of different sizes, placements may not.

    sums  a bot, the players at its tables, its games there, wins, points, and what `halves_ahead`
          counts, together
    """
    sums_of: dict[int, list[int]] = {}
    for bot, players, games, wins, points, halves in sums:
        more = (games, _PARTS // 2 * halves // (players - 1), wins, points)
        sums_of[bot] = [a + b for a, b in zip(sums_of.get(bot, [0] * 4), more, strict=True)]
    table = [
        Score(bot, games, parts / (_PARTS * games), wins, points / games)
        for bot, (games, parts, wins, points) in sums_of.items()
    ]
    return sorted(table, key=lambda score: (score.standing, score.bot))


def check_entrants(bots: Sequence[int], seats: int) -> None:
    """Raise PairingError unless these bots fill a table."""
    if len(set(bots)) != len(bots):
        raise PairingError("a bot takes part in a tournament once")
    if seats < 1 or len(bots) < seats:
        raise PairingError(f"a table of {seats} needs as many bots, and there are {len(bots)}")


def _circle(bots: Sequence[int]) -> list[LineUp]:
    """Rounds in which each bot has one opponent (circle method: one stays, the others rotate)."""
    ring: list[int | None] = [*bots, None] if len(bots) % 2 else [*bots]
    pairs = []
    for _ in range(len(ring) - 1):
        for i in range(len(ring) // 2):
            one, other = ring[i], ring[-1 - i]
            if one is not None and other is not None:
                pairs.append(LineUp((one, other)))
        ring = [ring[0], ring[-1], *ring[1:-1]]
    return pairs


def _covering(bots: Sequence[int], seats: int, meetings: int) -> list[LineUp]:
    """A greedy covering: each table takes the bots that met least; maybe not the fewest tables."""
    missing = {bot: dict.fromkeys((o for o in bots if o != bot), meetings) for bot in bots}
    played = dict.fromkeys(bots, 0)

    def lacks(bot: int, table: Sequence[int]) -> int:
        return sum(missing[bot][member] > 0 for member in table)

    tables: list[LineUp] = []
    while True:
        open_pairs = {bot: sum(n for n in missing[bot].values() if n > 0) for bot in bots}
        first = max(bots, key=lambda bot: (open_pairs[bot], -played[bot]))
        if open_pairs[first] == 0:
            return tables
        table = [first]
        while len(table) < seats:
            table.append(
                max(
                    (bot for bot in bots if bot not in table),
                    key=lambda bot: (lacks(bot, table), open_pairs[bot], -played[bot]),
                )
            )
        for bot in table:
            played[bot] += 1
            for other in table:
                if other != bot:
                    missing[bot][other] -= 1
        tables.append(LineUp(tuple(table)))

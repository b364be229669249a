"""A season from its first day to its last, simulated: what games and pages cost as it grows.

    python bench/season.py [--step class|club|open] [--authors N] [--days D] [--games N]
                           [--before N] [--requests 10] [--json [FILE]]
    python bench/season.py --real [--authors N] [--games N]
    python bench/season.py --pairing

Authors come, submit, improve their bots and leave; games are made up by the skills of the bots and
go through the real runner, matchmaker, store, chain and ratings; a served ladder answers requests
for pages and by the API. `--games` bounds the games, `--before` has so many in the store at first.
`--real` plays with real bots that answer at once. `--pairing` simulates line-ups and ratings alone.

Invariants: times are of the CPU, a game's without what it took to make it up; all but times follows
from a seed; queues' times are those of a ladder that plays the step's games of a day one after the
other. Nothing here fails because something is slow.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import at_once
import ladder
import web
import web_store
from deepsea_arena.api.ladder_api import ROOT
from deepsea_arena.run_report import Stop
from deepsea_arena.runner import RunGoal, Runner
from deepsea_arena.tasks import FinishedGame, JobOutcome
from deepsea_arena.workers import JobWorkers
from deepsea_ladder.matchmaker import Matchmaker
from deepsea_ladder.model import Job, Rotation, StoredSeason
from deepsea_ladder.pairing import RandomStream
from deepsea_ladder.rating import Rating
from deepsea_ladder.season import PairingSettings, SeasonSettings
from deepsea_ladder.store import Store
from deepsea_rules.randomness import seed_from_text
from figures import Row, at_most, beside, median, report
from real import as_the_command_line

PARTS = 10
"""The first and the last are compared: a game and a page may cost GROWTH times as much."""
GROWTH = 1.3
STARTS_A_GAME = 0.25
WORKERS = 2
VERSIONS = 4
"""Of each bot but the veteran, at any times after its author came."""
LATE = 10
"""One in so many authors comes after the first part, and one leaves."""
PROVISIONAL = PairingSettings().provisional_games


class Step(NamedTuple):
    """The size of a ladder."""

    authors: int
    games_a_day: int


STEPS = {"class": Step(30, 20_000), "club": Step(1_000, 200_000), "open": Step(10_000, 2_000_000)}
GAMES = 20_000  # unless days or another number are asked for


class Authors:
    """Who comes, submits, improves and leaves at which game, and how good the bots truly are."""

    def __init__(self, store: Store, authors: int, games: int) -> None:
        self._store = store
        self._chance = RandomStream(b"season", "authors")
        self.skills: dict[int, float] = {}  # by version
        self.current: dict[int, int] = {}
        """The version of each author's bot that plays."""
        self._plans: list[tuple[int, int, bool]] = []
        for author in range(authors):
            late = self._chance.below(LATE) == 0
            comes = self._chance.below(max(1, games // (1 if late else PARTS)))
            if author < authors // 2:  # is there from the beginning
                comes = -1
            for version in range(comes < 0, VERSIONS if author else 0):
                at = comes + (version and self._chance.below(games - comes))
                self._plans.append((at, author, False))
            if author and self._chance.below(LATE) == 0:
                self._plans.append((comes + self._chance.below(games - comes), author, True))
        self._plans.sort(reverse=True)
        for author in range(authors // 2):
            self._note(author, self._store.bots.get(web_store.bot_name(author)).current.id)

    def pass_until(self, game: int) -> Iterator[int]:
        """Let come what is due; the versions that are new."""
        while self._plans and self._plans[-1][0] <= game:
            _, author, leaves = self._plans.pop()
            if leaves:
                self._store.bots.withdraw(web_store.bot_name(author))
                del self.current[author]
                self._plans = [plan for plan in self._plans if plan[1] != author]
            else:
                version = web_store.submit(self._store, author, f"# {len(self.skills)}\n").id
                self._note(author, version)
                yield version

    def _note(self, author: int, version: int) -> None:
        chance, spread = self._chance, ladder.PARAMETERS.sigma
        if author in self.current:
            gain = abs(ladder.normal(chance)) * spread / VERSIONS
            self.skills[version] = self.skills[self.current[author]] + gain
        else:
            self.skills[version] = ladder.normal(chance) * spread
        self.current[author] = version

    def tau(self, ratings: dict[int, Rating]) -> float:
        """Kendall's tau between the skills of the bots that play and their ratings."""
        present = list(self.current.values())
        rated = {bot: ratings[version] for bot, version in enumerate(present) if version in ratings}
        return ladder.tau([self.skills[version] for version in present], rated)


class MadeUp(JobWorkers):
    """Workers whose games end at an even pace, as skills and luck will have it."""

    def __init__(self, authors: Authors, games_a_day: int) -> None:
        self._authors = authors
        self._pace = 86_400.0 / games_a_day
        self._chance = RandomStream(b"season", "luck")
        self._held: list[Job] = []
        self._last: list[int | None] = [None] * WORKERS
        self.played = 0
        self.newest = ""
        self.queued: dict[int, float] = {}  # when the jobs of each number were added
        self.spent = 0.0
        """CPU seconds for what is no part of the ladder,"""
        self.making = 0.0
        """and of these for making games up, which shows how fast the machine is."""
        self.seconds: dict[str, list[float]] = defaultdict(list)
        """How long things took, by the ladder's clock."""
        self._came: dict[int, float] = {}
        self._games: Counter[int] = Counter()

    def now(self) -> float:
        """The ladder's clock, in seconds."""
        return self.played * self._pace

    def free(self) -> Sequence[int | None]:
        """Those that hold no job."""
        return self._last[len(self._held) :]

    def start(self, job: Job) -> bool:
        """Hold it."""
        number = int(job.game_id.rpartition("-")[2])
        self.seconds["a game in the queue"].append(self.now() - self.queued.pop(number))
        self._held.append(job)
        return True

    def wait(self, seconds: float, stop: Stop) -> Sequence[tuple[Job, JobOutcome]]:
        """The game of the oldest job."""
        began = time.process_time()
        job = self._held.pop(0)
        self._last = [*self._last[1:], job.rotation]
        self.played += 1
        self.newest = job.game_id
        for version in self._authors.pass_until(self.played):
            self._came[version] = self.now()
        versions = tuple(version.id for version in job.seats)
        for version in versions:
            self._games[version] += 1
            if version in self._came and self._games[version] in (1, PROVISIONAL):
                what = f"a submission until its game {self._games[version]}"
                self.seconds[what].append(self.now() - self._came[version])
        skills = self._authors.skills
        result = ladder.performed(skills, self._chance, self.played, versions)
        makes = time.process_time()
        record = web_store.played(job, result.placements)
        self.making += time.process_time() - makes
        self.spent += time.process_time() - began
        return [(job, FinishedGame(record))]

    def has_not_begun(self, job: Job) -> bool:
        """None waits for another."""
        return False

    def close(self) -> None:
        """Nothing runs."""


def season(
    path: Path, authors: int, games_a_day: int, games: int, before: int, requests: int
) -> Iterator[Row]:
    """The rows of a simulated season."""
    web_store.make(path, authors // 2, before, min(before, web_store.COURSES))
    per_game, yardstick = list[float](), list[float]()
    costs: list[dict[str, tuple[float, float]]] = []
    with Store.open(path) as store:
        stored = store.seasons.get(web_store.SEASON)
        crowd = Authors(store, authors, games)
        pool = MadeUp(crowd, games_a_day)
        for part in range(PARTS):
            size, began, spent, making = _bytes(store), time.process_time(), pool.spent, pool.making
            number = games * (part + 1) // PARTS - pool.played
            _play(store, stored, pool, number)
            used = time.process_time() - began - (pool.spent - spent)
            per_game.append(1000 * used / number)
            yardstick.append((pool.making - making) / number)
            entries = store.ratings.entries(stored)
            tau = crowd.tau({entry.version.id: entry.tally.rating for entry in entries})
            grown = (_bytes(store) - size) / number
            yield beside(
                f"{before + pool.played:,} games, {len(crowd.current):,} bots",
                f"{per_game[-1]:.2f} ms and {grown:,.0f} bytes a game, tau {tau:.3f}",
                game_cpu_ms=per_game[-1],
                bytes_a_game=grown,
                tau=tau,
            )
            if part in (0, PARTS - 1):
                costs.append(dict(_page_costs(path, pool.newest, requests)))
    slower = yardstick[-1] / yardstick[0]
    yield _growth("a rated game: CPU", per_game[0], per_game[-1] / slower)
    for page, (first, same) in costs[0].items():
        last, same_then = costs[1][page]
        yield _growth(f"{page}: CPU", first, last * same / same_then)
    for what, seconds in pool.seconds.items():
        words = f"median {median(seconds) / 60:.1f} min, longest {max(seconds) / 60:.1f} min"
        yield beside(what, words, median_s=median(seconds), longest_s=max(seconds))


def _play(store: Store, stored: StoredSeason, pool: MadeUp, games: int) -> None:
    source, say = Matchmaker(store, stored), partial(print, file=sys.stderr)
    listener: Any = SimpleNamespace(finished=lambda *_: None, failed=say, trouble=say)

    def chosen(number: int, wanted: int) -> list[Rotation]:
        rotations = source(number, wanted)
        added = sum(map(len, rotations))
        pool.queued |= dict.fromkeys(range(number + 1, number + 1 + added), pool.now())
        return rotations

    with closing(Stop()) as stop:
        ended = Runner(
            store,
            stored,
            pool,
            owner=f"bench-{pool.played}",
            clock=pool.now,
            stop=stop,
            watcher=listener,
            source=chosen,
            goal=RunGoal(games=games),
        ).run()
    if ended.accepted != games:
        raise SystemExit(f"of {games} made-up games {ended.accepted} were accepted")


def _bytes(store: Store) -> float:
    """The size of the store, its log included."""
    with store.database.read() as connection:
        pages, size = (
            float(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())
            for name in ("page_count", "page_size")
        )
    return pages * size


def _growth(what: str, first: float, last: float) -> Row:
    words = f"{first:.2f} ms in the first tenth, {last:.2f} ms in the last"
    return at_most(what, words, last / first, GROWTH, first_ms=first, last_ms=last)


def _page_costs(
    path: Path, newest: str, requests: int
) -> Iterator[tuple[str, tuple[float, float]]]:
    """Return the server's CPU milliseconds of pages and calls that were not kept.

    Each is beside that of a page that always shows the same, which says how fast the machine is.
    """
    paths = {
        "standings": "/",
        "a bot": f"/bots/{web_store.VETERAN}",
        "newest games": "/games",
        "table of pairs": "/pairs",
        "standings by the API": f"{ROOT}/standings",
        "a bot by the API": f"{ROOT}/bots/{web_store.VETERAN}",
    }

    def cost(server: web.Server, first: str, *pages: str) -> float:
        server.get(first)
        took = []
        for page in pages:
            web.outlive_pages()
            took.append(web.time_of(server, page))
        return median(one.cpu for one in took)

    asked = {what: [page] * (requests + 1) for what, page in paths.items()}
    # A game's page is kept for ever, so that each is asked for once.
    season, _, number = newest.rpartition("-")
    asked["page of a game"] = [f"/games/{season}-{int(number) - n}" for n in range(requests + 1)]
    with web.Server(path) as server:
        for what, pages in asked.items():
            yield what, (cost(server, *pages), cost(server, *["/how"] * (requests + 1)))


def real(folder: Path, bots: int, games: int) -> Iterator[Row]:
    """The rows of games of bots in processes of their own, which answer at once."""
    path, starts = folder / "ladder.db", folder / "starts"
    program = Path(at_once.__file__).read_text(encoding="utf-8")
    main = "if __name__ =="
    noted = f'open({str(starts)!r}, "a").write("x")\n\n{main}'
    with Store.create(path) as store:
        settings = SeasonSettings(name=web_store.SEASON, isolation="process", clock="10s")
        store.seasons.open(settings, seed_from_text("a season with real bots"))
        for author in range(bots):
            web_store.submit(store, author, f"# {author}\n{program.replace(main, noted)}")
    began, used = time.monotonic(), _children_s()
    web.command("run", path, "--games", str(games))
    wall, cpu = time.monotonic() - began, _children_s() - used
    started = len(starts.read_text(encoding="utf-8")) / games
    what = f"{bots} real bots, {games} games"
    words = f"{games / wall:.2f} games/s, {1000 * cpu / games:.0f} ms of CPU a game"
    yield beside(what, words, per_second=games / wall, cpu_ms=1000 * cpu / games)
    yield at_most(f"{what}: starts a game", f"{started:.3f}", started, STARTS_A_GAME)


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--step", choices=STEPS, default="class")
    parser.add_argument("--authors", type=int, help="instead of the step's")
    parser.add_argument("--days", type=float, help="how long the season is; the games follow")
    parser.add_argument("--games", type=int, help="at most so many are played")
    parser.add_argument("--before", type=int, default=0, help="games of an earlier time")
    parser.add_argument("--requests", type=int, default=10, help="of each page")
    parser.add_argument("--real", action="store_true", help="with real bots")
    parser.add_argument("--pairing", action="store_true", help="ratings and line-ups alone")
    parser.add_argument("--json", nargs="?", const="-", metavar="FILE", help="JSON, too")
    given = parser.parse_args()
    if given.pairing:
        ladder.field()
        ladder.newcomer()
        return
    step = STEPS[given.step]
    authors = given.authors or step.authors
    games = int(given.days * step.games_a_day) if given.days else given.games or GAMES
    games = min(games, given.games or games)
    with tempfile.TemporaryDirectory() as folder, as_the_command_line():
        topic = partial(real, Path(folder), authors, games)
        if not given.real:
            arguments = (authors, step.games_a_day, games, given.before, given.requests)
            topic = partial(season, Path(folder, "ladder.db"), *arguments)
        sys.exit(report({given.step: topic}, given.json, step=given.step))


if __name__ == "__main__":
    main()

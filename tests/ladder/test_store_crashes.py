"""Whatever dies at whatever moment: every job ends in exactly one result, and ratings agree."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Semaphore
from typing import TypeVar

import pytest

from deepsea_arena.run_report import RunWatcher, Stop, retry_until_available
from deepsea_arena.runner import Runner, RunnerSettings
from deepsea_arena.tasks import FinishedGame, JobOutcome
from deepsea_ladder.errors import StoreUnavailable
from deepsea_ladder.model import Job, Receipt, ReceiptStatus, StoredSeason
from deepsea_ladder.store import RetryPolicy, Store
from deepsea_rules.randomness import Stream, seed_from_text
from helpers import ladder
from helpers.inline import InlineWorker
from helpers.killing import EVERYWHERE, context, killed_at
from helpers.postgres import Postgres

pytestmark = pytest.mark.databases

T = TypeVar("T")

AHEAD = 4
"""So many events a runner may be ahead of who kills, however busy the machine is."""
PATIENT = RetryPolicy(failures=10_000, strikes=ladder.NO_STRIKES)


@pytest.fixture
def season(store: Store) -> StoredSeason:
    """A season with four bots and one game to play."""
    return ladder.to_play(store, 1)


@EVERYWHERE
def test_a_death_in_a_submission_leaves_all_or_nothing(
    target: str, store: Store, step: int
) -> None:
    number = 2
    while killed_at(number, _submit, target) is None:
        number += step
        assert store.bots.all() == []
        assert store.audit.latest() == []
    assert store.bots.get("greedy").current.number == 1


def _submit(store: Store) -> None:
    ladder.submit(store, "greedy")


class _Chaos:
    """Runners in processes of their own, which are killed now and then; all from one seed."""

    def __init__(self, store: Store, target: str, seed: str) -> None:
        self.store = store
        self.target = target
        self.stream = Stream(seed_from_text(seed), "chaos")
        self.running: dict[Connection, tuple[BaseProcess, str, Semaphore]] = {}
        self.started = 0
        self.kills = 0

    def start(self) -> None:
        self.started += 1
        owner = f"runner {self.started}"
        ours, theirs = context.Pipe(duplex=False)
        ahead = context.Semaphore(AHEAD)
        process = context.Process(target=_run, args=(theirs, ahead, self.target, owner))
        process.start()
        theirs.close()
        self.running[ours] = (process, owner, ahead)

    def events(self) -> Iterator[None]:
        """Something that one of the runners did, until all have ended by themselves."""
        while self.running:
            for connection in wait(list(self.running)):
                assert isinstance(connection, Connection)
                if connection not in self.running:
                    continue  # killed since
                try:
                    connection.recv_bytes()
                    self.running[connection][2].release()
                    yield
                except (EOFError, OSError):
                    self._gone(connection)

    def kill_one(self) -> None:
        victims = [c for c, (process, _, _) in self.running.items() if process.is_alive()]
        if not victims:
            return
        victim = victims[self.stream.uniform(len(victims))]
        process, _, _ = self.running[victim]
        process.kill()
        self.kills += 1
        self._gone(victim)
        self.start()

    def _gone(self, connection: Connection) -> None:
        process, owner, _ = self.running.pop(connection)
        process.join()
        assert process.exitcode in (0, -signal.SIGKILL), f"exit status {process.exitcode}"
        connection.close()
        # What would happen by itself when the lease runs out.
        ladder.write(self.store, "UPDATE tasks SET until = 0 WHERE owner = :owner", owner=owner)


def _run(events: Connection, ahead: Semaphore, target: str, owner: str) -> None:
    """A runner that tells what it does, delivers some results twice, and sleeps on some leases."""
    stream = Stream(seed_from_text(owner), "runner")
    records: dict[str, str] = {}

    def tell(event: bytes) -> None:
        ahead.acquire()
        events.send_bytes(event)

    def play(job: Job) -> JobOutcome:
        tell(b"playing")
        records[job.game_id] = ladder.play(job, choices=owner)
        tell(b"played")
        return FinishedGame(records[job.game_id])

    class Listener(RunWatcher):
        def finished(self, job: Job, receipt: Receipt) -> None:
            tell(b"reported")
            if stream.uniform(5) == 0:
                with suppress(StoreUnavailable):
                    again = store.games.report(job, records[job.game_id])
                    assert again.status is ReceiptStatus.DUPLICATE

        def failed(self, job: Job, reason: str) -> None:
            raise AssertionError(reason)

        def trouble(self, message: str) -> None:
            tell(b"trouble")

    def available(call: Callable[[], T]) -> T:
        return retry_until_available(call, Stop(), lambda message: None)

    # The server may be killed while a runner starts, too.
    with Store(available(lambda: Store.open(target)).database, PATIENT) as store:
        summary = Runner(
            store,
            available(lambda: store.seasons.get("s1")),
            InlineWorker(play),
            owner=owner,
            clock=lambda: 0.0,
            stop=Stop(),
            # A lease that has run out at once makes a zombie of whoever has it.
            settings=RunnerSettings(lease=60 * stream.uniform(3), idle=0.01),
            watcher=Listener(),
        ).run()
        assert summary.refused == 0


# Another seed kills at other moments; each finds the same in a report, a claim and a renewal.
@pytest.mark.slow
@pytest.mark.parametrize("seed", ["one", pytest.param("two", marks=pytest.mark.release)])
def test_runners_that_are_killed_at_random_lose_and_double_nothing(
    target: str, store: Store, seed: str
) -> None:
    games = 60
    season = ladder.stocked(store, bots=6)
    store.jobs.add(season, ladder.rotations(ladder.ids(store)[:4], games // 2))
    store.jobs.add(season, ladder.rotations(ladder.ids(store)[2:], games // 2))
    chaos = _Chaos(store, target, seed)
    for _ in range(3):
        chaos.start()
    wait_for = 5
    for _ in chaos.events():
        wait_for -= 1
        if wait_for <= 0 and chaos.kills < 15:
            chaos.kill_one()
            wait_for = 1 + chaos.stream.uniform(12)
    assert chaos.kills == 15
    _check_all_is_well(store, season, games)


@pytest.mark.slow
def test_a_database_server_that_is_killed_loses_and_doubles_nothing(postgres: Postgres) -> None:
    games = 40
    target = postgres.url(postgres.new_database())
    with Store(Store.create(target).database, PATIENT) as store:
        season = ladder.to_play(store, games)
        chaos = _Chaos(store, target, "server")
        for _ in range(3):
            chaos.start()
        kills = 0
        for count, _ in enumerate(chaos.events()):
            if kills < 3 and count == 20 * (kills + 1):
                postgres.kill()
                postgres.start()
                kills += 1
                # The first use of a connection that is gone says so; the next makes a new one.
                store.close()
        assert kills == 3
        _check_all_is_well(store, season, games)


def _check_all_is_well(store: Store, season: StoredSeason, games: int) -> None:
    counts = store.queue.counts(season)
    assert (counts.done, counts.waiting, counts.leased, counts.quarantined) == (games, 0, 0, 0)
    played = [game.line.game_id for game in store.history.games(season)]
    assert sorted(played) == sorted(f"s1-{number}" for number in range(1, games + 1))
    assert store.ratings.last_seq() == games
    assert store.ratings.differences(season, records=True) == []

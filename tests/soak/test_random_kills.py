"""Random kills of everything at once, from one seed.

Two runners with real workers and bots and two servers on one ladder are killed at random, as
connections of a database are cut.

In every run tests/arena/test_kills.py goes through the moments of each kind of task, one by one.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from http.client import HTTPConnection
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TypeVar

import pytest
from sqlalchemy import make_url

from deepsea_arena.analysis import AnalysisSettings
from deepsea_arena.ladder_analyses import plan
from deepsea_arena.run_report import RunWatcher, Stop, StopRequest, retry_until_available
from deepsea_arena.runner import RunRequest, run
from deepsea_arena.workers import local_workers
from deepsea_bundle.archive import pack
from deepsea_bundle.reader import read_bot
from deepsea_ladder.limits import RemoteLimits
from deepsea_ladder.model import (
    Job,
    Receipt,
    ReceiptStatus,
    StoredComparison,
    Submission,
    TaskState,
)
from deepsea_ladder.season import SeasonSettings, VerdictSettings
from deepsea_ladder.store import RetryPolicy, Store
from deepsea_rules.game import GameRecord, verify
from deepsea_rules.randomness import Stream, seed_from_text
from deepsea_sdk.coach.decisions import Effort
from helpers import ladder, submissions
from helpers.bundles import bundle_of
from helpers.commands import Process, serving
from helpers.killing import context
from helpers.members import a_service, a_token
from helpers.people import replayed
from helpers.postgres import Postgres
from helpers.programs import chooser, workers

T = TypeVar("T")
KILLS = 30
KINDS = ["sqlite", "postgresql"]
PATIENT = RetryPolicy(
    failures=10_000,
    checks=10_000,
    analyses=10_000,
    comparisons=10_000,
    steps=10_000,
    strikes=ladder.NO_STRIKES,
)
"""Nothing fails only because what does it is killed again and again."""
CUT = """
SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
QUICK = AnalysisSettings(effort=Effort.of(2))
"""Settings of an analysis that takes a moment."""


class Telling(RunWatcher):
    """A listener that tells another process what kind of task has ended."""

    def __init__(self, events: Connection) -> None:
        self._events = events
        self._sending = threading.Lock()

    def _report(self, event: str) -> None:
        with self._sending, suppress(OSError):
            self._events.send(event)

    def finished(self, job: Job, receipt: Receipt) -> None:
        assert receipt.status is not ReceiptStatus.REFUSED, receipt.reason
        self._report("game")

    def checked(self, bot: str, author: str, state: TaskState, note: str) -> None:
        self._report("check")

    def analysed(self, game_id: str, state: TaskState, note: str) -> None:
        self._report("analysis")

    def compared(self, found: StoredComparison) -> None:
        self._report("comparison")

    def trouble(self, message: str) -> None:
        self._report("trouble")


def play_until_stopped(connection: Connection, target: str) -> None:
    """Be a runner, until a message comes."""
    stop = Stop()

    def listen() -> None:
        with suppress(EOFError, OSError):
            connection.recv()
        stop.ask(StopRequest.FINISH)

    threading.Thread(target=listen, daemon=True).start()
    watcher = Telling(connection)

    def available(call: Callable[[], T]) -> T:
        return retry_until_available(call, stop, watcher.trouble)

    with Store(available(lambda: Store.open(target)).database, PATIENT) as store:
        run(store, RunRequest(season="s1", forever=True), local_workers(store, 1), watcher, stop)


class Ladder:
    """A ladder whose authors always want something, and what serves it."""

    def __init__(
        self, store: Store, target: str, folder: Path, cut: Callable[[], object] | None
    ) -> None:
        self.store = store
        self.seen: Counter[str] = Counter()
        """What runners told, which they do not if they are killed just before."""
        self.asked: Counter[str] = Counter()
        """Tasks of each kind: the next one when the former one has ended."""
        self.killed: Counter[str] = Counter()
        self.games: list[str] = []
        """Ids of a person's games."""
        self._target = target
        self._cut = cut
        self._chance = Stream(seed_from_text("kills at random"), "kills")
        chooser(folder)
        self._bot = read_bot(folder / "chooser")
        for name in ("anna", "ben", "cleo"):
            self._submit_version(name)
        verdicts = VerdictSettings(blocks=4)
        self.season = store.seasons.open(
            SeasonSettings(
                name="s1", seats=(2,), clock="10s+60s", isolation="process", verdicts=verdicts
            ),
            ladder.SEED,
        )
        self._token = a_token(a_service(store), "anna-senior")
        self._runners: dict[Connection, BaseProcess] = {}
        self._servers: list[tuple[Process, int]] = []

    def __enter__(self) -> Ladder:
        self._leaving = ExitStack()
        for _ in range(2):
            self._start_runner()
            self._start_server()
        self._ask()
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._runners.values():
            process.kill()
            process.join()
        self._leaving.close()

    def go_on(self) -> None:
        """Wait for a task that has ended, ask for others, and perhaps kill something."""
        for connection in wait([*self._runners]):
            assert isinstance(connection, Connection)
            event = connection.recv()
            self.seen[event] += 1
            if self.is_wild:
                self._ask()
                if self._chance.uniform(8) == 0:
                    self._kill()
                    return  # perhaps this runner
        self._decide()

    @property
    def is_wild(self) -> bool:
        """Whether more is to be killed."""
        return sum(self.killed.values()) < KILLS

    def checks(self) -> list[Submission]:
        """What was submitted to be checked."""
        return self.store.submissions.of_author(submissions.an_author(self.store, "Ada"), 999)

    def is_done(self) -> bool:
        """Whether nothing waits or is done but rated games."""
        store = self.store
        own = store.person_games.get(self.games[-1]) if self.games else None
        return (
            (own is None or own.state.is_final)
            and all(one.state.is_final for one in self.checks())
            and not store.analyses.queue()
            and all(one.state.is_final for one in store.comparisons.of_season(self.season))
        )

    def stop(self) -> None:
        """Let the runners finish."""
        for connection, process in self._runners.items():
            connection.send("finish")
            with suppress(EOFError, OSError):
                while True:
                    self.seen[connection.recv()] += 1
            process.join()
            assert process.exitcode == 0
        self._runners.clear()

    def _start_runner(self) -> None:
        ours, theirs = context.Pipe()
        process = context.Process(target=play_until_stopped, args=(theirs, self._target))
        process.start()
        theirs.close()
        self._runners[ours] = process

    def _start_server(self) -> None:
        server = self._leaving.enter_context(serving(self._target, "--no-run"))
        self._servers.append(server)

    def _submit_version(self, name: str, text: str = "") -> None:
        files = {**self._bot.files, "note.txt": f"{name} {text}".encode()}
        self.store.bots.submit(name, f"{name}-senior", bundle_of(files, default=name))

    def _ask(self) -> None:
        """Ask for the next check, analysis and comparison if the former one has ended."""
        store = self.store
        if all(one.state.is_final for one in self.checks()):
            self.asked["check"] += 1
            files = {**self._bot.files, "note.txt": f"new {self.asked['check']}".encode()}
            author, content = submissions.an_author(store, "Ada"), pack(files)
            new = submissions.new(author, content, bot="new", needs_sandbox=False)
            limits = RemoteLimits(submissions_per_hour=999, submissions_per_day=999)
            store.submissions.add(new, [content], limits)
        games = [*store.history.games(self.season)]
        if games and not store.analyses.queue():
            self.asked["analysis"] += 1
            store.analyses.request(games[-1].line.game_id, None, plan(QUICK), RemoteLimits())
        if all(one.state.is_final for one in store.comparisons.of_season(self.season)):
            self.asked["comparison"] += 1
            self._submit_version("anna", str(self.asked["comparison"]))

    def _decide(self) -> None:
        """Make the decision that a person is asked for, or begin another game."""
        own = self.store.person_games.get(self.games[-1]) if self.games else None
        if own is not None and not self.is_wild:
            self.store.person_games.leave(own.game_id)  # it ends by default actions
        elif own is None or own.state.is_final:
            begun = self._post("/play", bots=["ben"], rules="guide", seat="A")
            if begun is not None:
                self.games.append(begun["game_id"])
        elif own.state is TaskState.ASKED:
            question = replayed(own).pending()
            assert question is not None
            action = question.legal[self._chance.uniform(min(len(question.legal), 3))]
            asked = len(own.decisions)
            self._post(f"/play/{own.game_id}/answer", asked=asked, action=action)
            self.asked["step"] += 1

    def _post(self, path: str, **fields: object) -> dict[str, str] | None:
        """The answer of a server to a call; None if the server is killed before it comes."""
        server, port = self._servers[self._chance.uniform(len(self._servers))]
        connection = HTTPConnection("127.0.0.1", port, timeout=120)
        headers = {"Authorization": f"Bearer {self._token}"}
        try:
            connection.request("POST", f"/api/v1{path}", json.dumps(fields), headers)
            if self.is_wild and self._chance.uniform(6) == 0:
                self._kill_server(server, port)
                return None
            with connection.getresponse() as answer:
                text = answer.read()
                assert answer.status < 500 or answer.status == 503, text
                return json.loads(text) if answer.status == 200 else None
        finally:
            connection.close()

    def _kill_server(self, server: Process, port: int) -> None:
        self.killed["server"] += 1
        self._servers.remove((server, port))
        server.kill()
        server.wait()
        self._start_server()

    def _kill(self) -> None:
        victims = ["runner", "workers"] + ["connections"] * (self._cut is not None)
        victim = victims[self._chance.uniform(len(victims))]
        self.killed[victim] += 1
        connection = [*self._runners][self._chance.uniform(len(self._runners))]
        process = self._runners[connection]
        if victim == "runner":
            process.kill()
            process.join()
            del self._runners[connection]
            connection.close()
            self._start_runner()
        elif victim == "workers":
            for pid in workers(process.pid or 0):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        else:
            assert self._cut is not None
            self._cut()
            self.store.close()  # the first use of a connection that is gone says so


@pytest.mark.release
@pytest.mark.databases
def test_nothing_is_lost_doubled_or_stuck_whatever_is_killed(
    kind: str, target: str, store: Store, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    cut: Callable[[], object] | None = None
    if kind == "postgresql":
        server: Postgres = request.getfixturevalue("postgres")
        cut = partial(server.execute, CUT, str(make_url(target).database))
    with Ladder(store, target, tmp_path, cut) as busy:
        while busy.is_wild or not busy.is_done():
            busy.go_on()
        busy.stop()
    assert set(busy.killed) == {"runner", "workers", "server", *(["connections"] if cut else [])}
    assert min(busy.asked[kind] for kind in ("check", "analysis", "comparison", "step")) > 1
    assert store.tasks.owners() == []
    season = store.seasons.get("s1")
    counts = store.queue.counts(season)
    assert (counts.leased, counts.quarantined) == (0, 0)
    assert store.ratings.last_seq() == counts.done
    assert store.ratings.differences(season, records=True) == []
    checked = busy.checks()
    assert {one.state for one in checked} == {TaskState.ACCEPTED}
    assert sorted(one.number for one in store.bots.versions("new")) == [*range(1, len(checked) + 1)]
    for game_id in busy.games:
        assert store.person_games.get(game_id).state is TaskState.DONE
        record = GameRecord.from_json(store.games.record(game_id))
        verify(record)
        assert not any(decision.fault for decision in record.decisions)

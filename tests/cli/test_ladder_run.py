"""`ladder submit`, `run` and `tournament` with real bots; whatever is killed, games are whole."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Literal

import pytest
from msgspec import structs

from deepsea_arena import rated_games
from deepsea_arena.rated_games import RatedGamePlayer, worker
from deepsea_arena.run_report import Stop
from deepsea_arena.tasks import FinishedGame, HostTrouble, JobOutcome, VoidOutcome
from deepsea_arena.tournament_run import TournamentResult
from deepsea_arena.tournaments import RankCertainty, ScoreLine, TournamentTable
from deepsea_arena.workers import local_workers
from deepsea_bundle.atomic import BotCache
from deepsea_bundle.reader import read_bot
from deepsea_cli.ladder.run import RunOutput, print_result
from deepsea_ladder.model import GameNote, Job, SeatLog, TaskState
from deepsea_ladder.season import SeasonSettings
from deepsea_ladder.store import Store
from deepsea_referee.bots.process import Hosting
from deepsea_referee.errors import HostTooBusy
from deepsea_referee.sandbox import probe
from deepsea_referee.sandbox.cgroup import Hierarchies
from deepsea_referee.sandbox.plain_process import PlainProcess
from deepsea_referee.workers import Link, LocalWorkers
from deepsea_rules.game import GameRecord
from helpers import ladder
from helpers.commands import Run, environment, program, start
from helpers.programs import nothing_left_behind, opponent_in, program_in
from helpers.remembering import SUSPICIOUS
from helpers.tools import require

TRUSTED = SeasonSettings(name="main", isolation="process")
PATIENT = "10s+60s"
"""A clock that no machine is too slow for."""

REPORT = """
def report(pipe):
    # Nobody listens most of the time.
    try:
        descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return
    os.write(descriptor, b".")
    os.close(descriptor)
    if os.path.exists(pipe + ".hang"):
        signal.pause()
"""


def enter(store: Store, file: Path) -> None:
    """Store a bot without letting it play before."""
    store.bots.submit(file.stem, f"{file.stem}-senior", read_bot(file))


def enter_both(place: Path, folder: Path, deed: str = "pass", first: str = "") -> None:
    """Store the bots anna and ben, who has that deed."""
    with Store.open(place) as store:
        enter(store, opponent_in(folder, "anna"))
        if (deed, first) == ("pass", ""):
            enter(store, opponent_in(folder, "ben"))
        else:
            enter(store, program_in(folder, "ben", deed, first))


@pytest.fixture
def place(place: Path, pattern: Path) -> Path:
    """A ladder of trusted bots, two at a table, without bots yet."""
    shutil.copy(pattern, place)
    with Store.open(place) as store:
        season = SeasonSettings(name="s1", seats=(2,), clock=PATIENT, isolation="process")
        store.seasons.open(season, ladder.SEED)
    return place


def claimed(place: Path, games: int) -> list[Job]:
    """Jobs of one rotation, leased."""
    with Store.open(place) as store:
        season = store.seasons.get("s1")
        store.jobs.add(season, ladder.rotations(ladder.ids(store), games))
        return store.jobs.claim(season, "worker", 60, [1] * games)


class PlainLink(Link):
    """What a worker has of its pool: bots, straight from the store."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def file(self, digest: str) -> bytes:
        with Store.open(self._place) as store:
            return store.bots.archive(digest)

    def on_stop(self, call: Callable[[], object]) -> None:
        """Nobody stops it."""

    def on_next(self, call: Callable[[Job], object]) -> None:
        """Nothing comes meanwhile."""


# Playing one job


def test_workers_get_bots_from_the_runner_and_never_hear_where_the_store_is(
    place: Path, tmp_path: Path
) -> None:
    enter_both(place, tmp_path)
    jobs = claimed(place, 2)
    given = [pickle.dumps(worker), *map(pickle.dumps, jobs)]
    assert not any(place.name.encode() in words for words in given)
    with (
        Store.open(place) as store,
        nothing_left_behind(),
        closing(Stop()) as stop,
        closing(local_workers(store, 1)(TRUSTED, RunOutput())) as pool,
    ):
        for job in jobs:
            pool.start(job)
            ((_, outcome),) = pool.wait(60, stop)
            assert isinstance(outcome, FinishedGame)


@pytest.mark.parametrize("isolation", ["process", "sandbox"])
def test_a_worker_whose_folders_a_cleaner_has_removed_leaves_its_games_to_another(
    isolation: Literal["process", "sandbox"], place: Path, tmp_path: Path
) -> None:
    """Bots read their own files in each game."""
    season = SeasonSettings(name="main", isolation=isolation)
    enter_both(place, tmp_path, "self.asked > 1 or open(__file__).close()")
    jobs = claimed(place, 3)
    with (
        Store.open(place) as store,
        nothing_left_behind(),
        closing(Stop()) as stop,
        closing(local_workers(store, 1)(season, RunOutput())) as pool,
    ):
        outcomes: list[JobOutcome] = []

        def play(*jobs: Job) -> None:
            for job in jobs:
                pool.start(structs.replace(job, season=season))
            most = len(outcomes) + len(jobs)
            while len(outcomes) < most:
                outcomes.extend(outcome for _, outcome in pool.wait(60, stop))

        play(jobs[0])
        assert isinstance(pool.pool, LocalWorkers)
        (first,) = filter(None, pool.pool._workers)
        for parent in {"/tmp", tempfile.gettempdir()}:
            for folder in Path(parent).glob(f"deepsea-{first.process.pid}-*"):
                shutil.rmtree(folder)
        play(*jobs[1:])
    for outcome in outcomes:
        assert isinstance(outcome, FinishedGame), outcome
        assert not outcome.logs


def test_a_bot_that_does_not_start_loses_its_own_game(place: Path, tmp_path: Path) -> None:
    enter_both(place, tmp_path, first="raise SystemExit('no licence')")
    (job,) = claimed(place, 1)
    with worker(PlainLink(place)) as play:
        outcome = play(job)
    assert isinstance(outcome, FinishedGame)
    record = GameRecord.from_json(outcome.record)
    (forfeit,) = record.forfeits
    assert record.seats[forfeit.seat].name == "ben v1"
    assert record.placements[forfeit.seat] == 2
    assert "no licence" not in outcome.record
    assert "before connecting" in outcome.record
    (log,) = outcome.logs
    assert log.seat == forfeit.seat
    assert "no licence" in log.output
    assert "no licence" in log.error
    assert "asked to" not in log.error


def test_what_a_bot_at_fault_left_is_shown(run: Run, place: Path, tmp_path: Path) -> None:
    boom = "print('\\x1b[2Jhere')\n        raise KeyError(view.dive)"
    enter_both(place, tmp_path, boom)
    (job,) = claimed(place, 1)
    with worker(PlainLink(place)) as play:
        outcome = play(job)
    assert isinstance(outcome, FinishedGame)
    # Everybody reads the record, the export and the pages; the author alone has the log.
    assert {one.came for one in GameRecord.from_json(outcome.record).decisions} >= {
        "it raised KeyError"
    }
    assert "KeyError: 1" not in outcome.record
    assert "it raised KeyError: 1" in outcome.logs[0].error
    with Store.open(place) as store:
        receipt = store.games.report(job, outcome.record)
        assert receipt.seq is not None
        store.logs.add(receipt.seq, outcome.logs)
    seat = "AB"[outcome.logs[0].seat]
    out = run("ladder", "log", job.game_id).out
    assert out.startswith(f"seat {seat}, ben v1:\n  decision ")
    assert "raise KeyError(view.dive)\n  KeyError: 1\n" in out
    assert "\n  \\x1b[2Jhere\n" in out
    assert run("ladder", "log", job.game_id, "--seat", seat.lower()).out == out
    other = run("ladder", "log", job.game_id, "--seat", "BA"[outcome.logs[0].seat])
    assert other.status == 1
    assert run("ladder", "log", job.game_id, "--seat", "x").status == 2
    assert run("ladder", "log", "nothing").status == 2
    page = run("ladder", "bot", "ben").out
    assert f"the error in {job.game_id}; `ladder log GAME` has it with the output" in page
    assert "\n    KeyError: 1\n" in page
    with Store.open(place) as store:
        note = GameNote(3, "deep", {"load": 2.0})
        store.logs.add(receipt.seq, [SeatLog("BA".index(seat), "", "", "", (note,))])
    assert "\n  decision 3: load 2; deep\n" in run("ladder", "log", job.game_id).out


def test_files_with_another_digest_are_not_played(place: Path, tmp_path: Path) -> None:
    with Store.open(place) as store:
        enter(store, program_in(tmp_path, "anna"))
        enter(store, program_in(tmp_path, "ben", first="# another one"))
        archive = store.bots.archive(store.bots.get("anna").current.digest)
        with store.database.write() as connection:
            connection.exec_driver_sql("UPDATE archives SET content = ?", (zlib.compress(archive),))
    (job,) = claimed(place, 1)
    with worker(PlainLink(place)) as play:
        outcome = play(job)
    assert isinstance(outcome, VoidOutcome)
    assert "another digest" in outcome.reason


def test_a_season_that_wants_a_sandbox_is_not_played_without_one(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trouble = probe.Check("no luck", "", "buy another machine", found="nothing works")
    monkeypatch.setattr(probe, "sandbox_trouble", lambda begun=None: trouble)
    with Store.open(place) as store:
        for name in ("anna", "ben"):
            enter(store, opponent_in(tmp_path, name))
        store.seasons.close("s1")
        season = store.seasons.open(SeasonSettings(name="s2", seats=(2,)), ladder.SEED)
        store.jobs.add(season, ladder.rotations(ladder.ids(store), 1))
        job = ladder.claim(store, season)
    with worker(PlainLink(place)) as play:
        outcome = play(job)
    assert isinstance(outcome, HostTrouble)
    assert "another machine" in outcome.reason


def test_trouble_of_our_own_is_no_bots_fault(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter_both(place, tmp_path)
    (job,) = claimed(place, 1)
    starts = Starts()
    room = RatedGamePlayer(
        BotCache(tmp_path / "bots", (link := PlainLink(place)).file), link, starts
    )
    monkeypatch.setattr("deepsea_referee.sandbox.process_tree.os.pidfd_open", _refuse)
    with nothing_left_behind():
        outcome = room.play(job)
        room.close()
    assert isinstance(outcome, HostTrouble)
    assert "Too many open files" in outcome.reason
    assert starts.begun > 0, "bots start outside of their worker's limit"


@pytest.mark.parametrize(
    ("isolation", "pressure", "suspects"),
    [
        pytest.param("sandbox", Path("/sys/fs/cgroup"), (1,), id="the kernel tells"),
        pytest.param("sandbox", None, (0, 1), id="it does not"),
        pytest.param("process", Path("/sys/fs/cgroup"), (0, 1), id="no group of its own"),
    ],
)
def test_where_no_pressure_is_told_a_version_makes_one_game_of_a_season_void(
    isolation: str,
    pressure: Path | None,
    suspects: tuple[int, ...],
    place: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken: list[tuple[int, ...]] = []

    async def play(*_: object, suspects: tuple[int, ...]) -> None:
        taken.append(suspects)
        raise HostTooBusy("the host was too busy", 1, 0)

    monkeypatch.setattr(rated_games, "play_game", play)
    monkeypatch.setattr(rated_games, "hosting", lambda *_: Hosting(PlainProcess()))
    monkeypatch.setattr(rated_games, "hierarchies", lambda: Hierarchies(pressure=pressure))
    enter_both(place, tmp_path)
    (job,) = claimed(place, 1)
    season = structs.replace(job.season, isolation=isolation)
    with worker(PlainLink(place)) as perform:
        perform(structs.replace(job, season=season, void_seats=(1,), suspects=(0, 1)))
    assert taken == [suspects]


def test_a_game_goes_on_while_a_bot_of_the_next_one_is_unpacked(
    place: Path, tmp_path: Path
) -> None:
    enter_both(place, tmp_path)
    (job,) = claimed(place, 1)
    with Store.open(place) as store:
        enter(store, program_in(tmp_path, "carl"))
        carl = store.bots.get("carl").current
    following = Following(place, structs.replace(job, seats=(carl, job.seats[1])))
    with nothing_left_behind(), worker(following) as play:
        outcome = play(job)
        following.over.set()
        following.thread.join()
        assert isinstance(play(following.job), FinishedGame)
    assert isinstance(outcome, FinishedGame)
    assert following.waited == [True]


def test_files_that_two_jobs_want_at_once_are_fetched_once(place: Path, tmp_path: Path) -> None:
    enter_both(place, tmp_path)
    (job,) = claimed(place, 1)
    wanted = Wanted(place, job)
    with nothing_left_behind(), worker(wanted) as play:
        assert isinstance(play(job), FinishedGame)
        wanted.thread.join()
    assert wanted.asked == [job.seats[0].digest]


class Wanted(PlainLink):
    """Has another job while the files for the first are fetched; they come once."""

    def __init__(self, place: Path, job: Job) -> None:
        super().__init__(place)
        self._job = job
        self._twice = threading.Event()
        self.asked: list[str] = []

    def file(self, digest: str) -> bytes:
        self.asked.append(digest)
        if self.asked[1:]:
            self._twice.set()
        else:
            self.thread = threading.Thread(target=self._next, args=(self._job,))
            self.thread.start()
            self._twice.wait(0.1)  # in vain: the other thread waits for this one
        return super().file(digest)

    def on_next(self, call: Callable[[Job], object]) -> None:
        self._next = call


class Following(PlainLink):
    """Has another job as soon as one is played, with files that come when that game is over."""

    def __init__(self, place: Path, job: Job) -> None:
        super().__init__(place)
        self.job = job
        self.over = threading.Event()
        self.waited: list[bool] = []

    def file(self, digest: str) -> bytes:
        if digest == self.job.seats[0].digest:
            self.waited.append(self.over.wait(20))
        return super().file(digest)

    def on_next(self, call: Callable[[Job], object]) -> None:
        self._next = call

    def on_stop(self, call: Callable[[], object]) -> None:
        if not self.over.is_set():
            self.thread = threading.Thread(target=self._next, args=(self.job,))
            self.thread.start()


class Starts(asyncio.Semaphore):
    """Counts the starts of a worker's bots."""

    begun = 0

    async def acquire(self) -> Literal[True]:
        self.begun += 1
        return await super().acquire()


def _refuse(*_: object) -> int:
    raise OSError(24, "Too many open files")


# Submitting


def test_a_bot_is_taken_in_after_its_games(run: Run, place: Path, tmp_path: Path) -> None:
    folder = opponent_in(tmp_path, "mine")
    with Store.open(place) as store:
        enter(store, folder)
    done = run("ladder", "submit", folder, "--author", "mine-senior")
    assert (done.status, "mine version 1 by mine-senior" in done.out) == (0, True)
    program = folder / "bot.py"
    program.write_text(f"{program.read_text()}# better\n")
    done = run("ladder", "submit", folder, "--author", "mine-senior")
    assert done.status == 0, done
    assert "mine version 2 by mine-senior" in done.out


# Running


def test_games_are_played_and_rated(run: Run, place: Path, tmp_path: Path) -> None:
    enter_both(place, tmp_path)
    with nothing_left_behind():
        done = run("ladder", "run", "--games", 3)
    assert (done.status, done.err) == (0, "")
    assert "3 games of season s1 played" in done.out
    assert "season s1: 3 games" in run("ladder", "refold", "--check", "--records").out
    assert json.loads(run("ladder", "standings", "--json").out)["games"] == 3


def three_opponents(place: Path, folder: Path) -> tuple[str, ...]:
    """Their names; they are on the ladder."""
    names = ("anna", "ben", "cleo")
    with Store.open(place) as store:
        for name in names:
            enter(store, opponent_in(folder, name))
    return names


def test_a_tournament_tells_its_rounds_and_shows_a_table(
    run: Run, place: Path, tmp_path: Path
) -> None:
    names = three_opponents(place, tmp_path)
    done = run("ladder", "tournament", "elimination", "cup", *names)
    assert (done.status, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[:4] == [
        "round 1: 1 table, 3 bots",
        "2 games of season cup played",
        "round 2: 1 table, 2 bots",
        "2 games of season cup played",
    ]
    assert lines[5].split() == ["bot", "games", "placement", "score", "wins", "points"]
    assert [line.split()[0] for line in lines[6:9]] in (["1", "2", "2"], ["1", "2", "3"])
    assert lines[-2] == f"{lines[6].split()[1]} wins the tournament cup"
    assert run("ladder", "tournament", "elimination", "cup", *names).status == 2
    assert run("ladder", "tournament", "gauntlet", "x", *names, "--top", 1).status == 2


def test_bots_that_are_level_share_a_tournament(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [
        ScoreLine(
            rank=1,
            bot=bot,
            version=1,
            author=bot,
            games=4,
            placement_score=0.5,
            wins=4,
            mean_points=0.0,
        )
        for bot in ("anna", "ben", "cleo")
    ]
    shared = TournamentResult(
        tournament="cup",
        kind="round-robin",
        games=6,
        seed="00",
        winners=("anna", "ben", "cleo"),
        champion=None,
        scores=tuple(lines),
        rounds=(),
        certainty=RankCertainty(
            confidence=0.95, pairs=2, open_pairs=2, least_games=300, most_games=1200
        ),
    )
    print_result(shared)
    out = capsys.readouterr().out
    assert (
        "ranks are sure with 95 % for 0 of 2 pairs of neighbours; for all it takes more games, "
        "about 300 to 1,200 games, fewer if bots differ; a `tournament final` names a sure winner "
        "sooner\n"
    ) in out
    assert "anna, ben and cleo are level and share the tournament cup\n" in out
    assert out.count("\n1  ") == 3
    table = TournamentTable(lines=(), games=(), level=("anna", "ben"))
    print_result(structs.replace(shared, winners=("anna",), champion="anna", rounds=((table,),)))
    out = capsys.readouterr().out
    assert "round 1: anna and ben were level; the best seed, anna, advances\n" in out
    assert "\nanna wins the tournament cup\n" in out


def test_who_remembers_meets_nothing_twice_in_rated_games_and_finals(
    run: Run, place: Path, tmp_path: Path
) -> None:
    with Store.open(place) as store:
        for name in ("anna", "ben"):
            file = tmp_path / f"{name}.py"
            file.write_text(SUSPICIOUS, encoding="utf-8")
            enter(store, file)
    assert run("ladder", "run", "--games", 8).status == 0
    assert run("ladder", "tournament", "final", "best", "anna", "ben", "--games", 8).status == 0
    with Store.open(place) as store:
        games = [f"{season}-{number}" for season in ("s1", "best") for number in range(1, 9)]
        records = [GameRecord.from_json(store.games.record(game)) for game in games]
    assert len({record.commitment for record in records}) == len(records)
    assert not any(decision.fault for record in records for decision in record.decisions)


# What a final is: tests/arena/test_runs.py.
@pytest.mark.release
def test_a_final_without_a_winner_says_who_may_be_the_best(
    run: Run, place: Path, tmp_path: Path
) -> None:
    names = three_opponents(place, tmp_path)
    final = run("ladder", "tournament", "final", "best", *names, "--games", 3)
    assert "round 1: 1 table, 3 bots" in final.out
    assert "not decided after 2 games: the best may be " in final.out


# What is stopped and killed


@pytest.fixture
def pipe(place: Path, tmp_path: Path) -> Path:
    """A ladder of two bots, one of which reports into this pipe at each decision."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    enter_both(place, tmp_path, f"report({str(path)!r})", REPORT)
    return path


def heard(pipe: Path) -> None:
    with pipe.open("rb") as stream:
        assert stream.read(1) == b"."


def check_whole(run: Run, place: Path, games: int) -> None:
    """So many games have one result each, nothing is leased, and every record can be repeated."""
    with Store.open(place) as store:
        counts = store.queue.counts(store.seasons.get("s1"))
        records = [GameRecord.from_json(game.record) for game in store.history.games()]
    assert (counts.done, counts.leased, counts.quarantined) == (games, 0, 0)
    assert len({record.game_id for record in records}) == len(records) == games
    assert run("ladder", "refold", "--check", "--records").status == 0


@pytest.mark.slow
def test_a_kill_changes_nothing_but_the_time(run: Run, place: Path, pipe: Path) -> None:
    with nothing_left_behind():
        runner = start("ladder", "run", "--games", 50, "--workers", 2)
        heard(pipe)
        runner.kill()
        runner.communicate()
    done = run("ladder", "run", "--games", 3)
    assert done.status == 0
    assert "run that was killed" in done.err
    document = json.loads(run("ladder", "status", "--json").out)["seasons"][0]
    assert document["expired"] == 0
    assert document["done"] >= 3
    check_whole(run, place, document["done"])


@pytest.mark.parametrize(("options", "status"), [(["--forever"], 0), (["--games", 50], 130)])
def test_a_run_without_end_that_is_stopped_as_a_service_ends_well(
    options: list[object], status: int, place: Path, pipe: Path
) -> None:
    with nothing_left_behind():
        runner = start("ladder", "run", *options)
        heard(pipe)
        runner.send_signal(signal.SIGTERM)
        out, err = runner.communicate()
    assert runner.returncode == status
    assert "nothing is lost" in (err if status else out)
    assert "Traceback" not in err
    with Store.open(place) as store:
        assert store.queue.listed(store.seasons.get("s1"), TaskState.RUNNING) == []


def test_a_run_that_waits_for_a_season_ends_well_as_a_service(place: Path) -> None:
    with Store.open(place) as store:
        store.seasons.close("s1")
    runner = start("ladder", "run", "--forever")
    assert "no season is open" in runner.stderr.readline()
    runner.send_signal(signal.SIGTERM)
    _, err = runner.communicate()
    assert (runner.returncode, err) == (0, "")


@pytest.mark.slow
def test_ctrl_c_finishes_what_is_played_and_a_second_one_hands_it_back(
    place: Path, pipe: Path
) -> None:
    with nothing_left_behind():
        runner = start("ladder", "run", "--forever")
        heard(pipe)
        runner.send_signal(signal.SIGINT)
        _, err = runner.communicate()
        assert runner.returncode == 130
        assert "nothing is lost" in err.splitlines()[-1]
        Path(f"{pipe}.hang").touch()
        runner = start("ladder", "run", "--forever")
        heard(pipe)
        runner.send_signal(signal.SIGINT)
        assert "finishing" in runner.stderr.readline()
        runner.send_signal(signal.SIGINT)
        _, err = runner.communicate()
        assert runner.returncode == 130
        # The game in play, and the one that waits behind it if its bots were already claimed.
        assert re.search(r"\b[12] handed back", err)
    with Store.open(place) as store:
        season = store.seasons.get("s1")
        assert store.queue.listed(season, TaskState.RUNNING) == []
        assert store.ratings.differences(season, records=True) == []


# A machine that is short of something

SHORT: dict[str, tuple[list[str], dict[str, str], Literal["process", "sandbox"]]] = {
    "descriptors": (["prlimit", "--nofile=90:90"], {}, "process"),
    "soft descriptors": (["prlimit", "--nofile=90:4096"], {}, "process"),
    "users": ([], {"DEEPSEA_BOT_UIDS": "61184-61191"}, "sandbox"),
}
"""Steps before the command, its environment, and how bots are kept apart."""
MANY = 14
"""Bots that do not all fit into these limits at once."""


@pytest.mark.release
@pytest.mark.skipif(os.geteuid() != 0, reason="only root chooses the users of bots")
@pytest.mark.parametrize("short", SHORT)
def test_a_ladder_with_more_bots_than_a_machine_can_keep_plays_on(
    tmp_path: Path, place: Path, pattern: Path, short: str
) -> None:
    steps, more, isolation = SHORT[short]
    if isolation == "sandbox":
        require("bubblewrap")
    shutil.copy(pattern, place)
    season = SeasonSettings(name="s1", seats=(2,), clock=PATIENT, isolation=isolation)
    with Store.open(place) as store:
        store.seasons.open(season, ladder.SEED)
        for number in range(MANY):
            enter(store, program_in(tmp_path, f"bot{number:02}"))
    done = subprocess.run(
        [*steps, *program("ladder", "run", "--store", place, "--games", 3 * MANY)],
        env={**environment(), **more},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "void" not in done.stdout
    with Store.open(place) as store:
        assert len([*store.history.games()]) == 3 * MANY

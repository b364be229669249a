"""Submitting here: what is refused adds no bot; what is taken in has played in every season."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest

from deepsea_arena import rated_games
from deepsea_arena.api.local import ladder_of
from deepsea_arena.api.submissions import Archive
from deepsea_arena.background_work import do_now
from deepsea_arena.handlers import CHECKS
from deepsea_arena.rated_games import hosting
from deepsea_arena.run_report import RunWatcher, Stop, StopRequest
from deepsea_bundle.errors import BundleError
from deepsea_bundle.reader import BotBundle, read_bot
from deepsea_ladder.errors import SubmissionError
from deepsea_ladder.model import Submission, TaskState
from deepsea_ladder.season import BotLimits, SeasonSettings
from deepsea_ladder.store import Store
from deepsea_referee.sandbox.bubblewrap import Sandbox
from deepsea_referee.sandbox.cgroup import Hierarchies
from deepsea_referee.sandbox.interface import ResourceLimits, SandboxUnavailable
from deepsea_referee.system.gauge import BotGauge, WallGauge
from deepsea_sdk.entropy import fresh_token
from helpers import ladder
from helpers.tiers import daily

ACCEPTED, REFUSED = TaskState.ACCEPTED, TaskState.REFUSED
BOT = """
from deepsea_sdk import Bot, run

class Mine(Bot):
    def decide(self, view):
        {deed}

run(Mine)
"""

LINES = """
import json

print('{"type":"ready"}', flush=True)
while (message := json.loads(input()))["type"] != "goodbye":
    if message["type"] == "decide":
        answer = {"type": "SAYS", "id": message["id"], "action": message["legal"][0]}
        print(json.dumps(answer), flush=True)
"""


@pytest.fixture
def store(pattern: Path, tmp_path: Path) -> Iterator[Store]:
    """A ladder of trusted bots, two at a table."""
    with Store.open(shutil.copy(pattern, tmp_path / "ladder.db")) as store:
        season = SeasonSettings(name="s1", seats=(2,), clock="10s+60s", isolation="process")
        store.seasons.open(season, ladder.SEED)
        yield store


class Games(RunWatcher):
    """Notes how many admission games were played each time."""

    def __init__(self, store: Store) -> None:
        self.seen: list[tuple[int, int]] = []
        self._store = store

    def checking(self, number: int) -> None:
        now = self._store.submissions.get(number)
        self.seen.append((now.games, now.of_games))


def submit(
    store: Store, author: str, bundle: BotBundle, watcher: RunWatcher | None = None
) -> Submission:
    """Submit a bot, and check it at once; the submission in its last state."""
    store.authors.ensure(author)
    ladder = ladder_of(store, author)
    archive = Archive.of(bundle.archive, bundle.name, fresh_token(), 1000)
    (submission,) = islice(filter(None, ladder.submit(archive)), 1)
    with closing(Stop()) as stop:
        assert do_now(CHECKS, store, submission.id, watcher or RunWatcher(), stop)
    return store.submissions.get(submission.id)


def test_a_bot_plays_three_games_in_each_open_season(store: Store, tmp_path: Path) -> None:
    store.seasons.open(SeasonSettings(name="s2", seats=(2,), isolation="process"), ladder.SEED)
    games = Games(store)
    assert submit(store, "me", read_bot(speaks_lines(tmp_path)), games).state is ACCEPTED
    assert [seen for seen in games.seen if seen[1]] == [(played, 6) for played in range(7)]


def test_a_bot_without_faults_gets_a_version(store: Store, tmp_path: Path) -> None:
    bundle = read_bot(speaks_lines(tmp_path))
    ladder.submit(store, "other", author="Me")
    result = submit(store, "me", bundle)
    assert (result.state, result.bot, result.version) == (ACCEPTED, "mine", 1)
    assert result.author == "Me"  # who was there
    assert store.bots.get("mine").current.digest == result.digest == bundle.digest


def test_the_admissions_opponent_is_the_sample_whatever_lies_in_the_ladders_folder(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = read_bot(speaks_lines(tmp_path))
    (tmp_path / "random").mkdir()
    monkeypatch.chdir(tmp_path)
    assert submit(store, "me", bundle).state is ACCEPTED


def speaks_lines(folder: Path, says: str = "answer", declares: str = "") -> Path:
    """A bot that answers, without the SDK, which takes long to import."""
    (folder / "bot.py").write_text(LINES.replace("SAYS", says), encoding="utf-8")
    manifest = f'name = "mine"\ncommand = "python3 -S bot.py"\nprotocol = "lines"\n{declares}'
    (folder / "bot.toml").write_text(manifest, encoding="utf-8")
    return folder


def test_a_bot_that_speaks_lines_is_refused_by_its_faults(store: Store, tmp_path: Path) -> None:
    result = submit(store, "me", read_bot(speaks_lines(tmp_path, "guess")))
    assert result.state is REFUSED
    assert "which is no answer" in result.found


def test_a_bot_that_needs_what_a_season_does_not_offer_is_refused_with_the_list(
    store: Store, tmp_path: Path
) -> None:
    (tmp_path / "needs.txt").write_text("click>=8\nnumpy>=2\ntorch\n", encoding="utf-8")
    bundle = read_bot(speaks_lines(tmp_path, declares='requirements = "needs.txt"\n'))
    assert submit(store, "me", bundle).found == (
        "mine needs click>=8, numpy>=2, torch, which season s1 does not offer; "
        "bots may count on nothing beside the SDK. A season with more is opened with "
        "`ladder season NAME --packages click,numpy,torch`, once this one is closed"
    )
    store.seasons.close("s1")
    offered = ("click", "numpy==1.26.4", "torch")
    store.seasons.open(
        SeasonSettings(name="s2", seats=(2,), isolation="process", packages=offered), ladder.SEED
    )
    found = submit(store, "me", bundle).found
    assert re.match(r"mine needs numpy>=2, .*numpy==1\.26\.4, torch", found)
    assert store.bots.all() == []
    (tmp_path / "needs.txt").write_text("click>=8\n", encoding="utf-8")
    assert submit(store, "me", read_bot(tmp_path)).state is ACCEPTED


def test_a_seasons_limits_are_those_of_its_bots() -> None:
    limits = hosting("process", BotLimits(memory_mib=64, processes=5)).limits
    assert (limits.memory_bytes, limits.processes) == (64 << 20, 5)
    usual = hosting("process").limits
    assert usual == ResourceLimits()
    assert hosting("process", BotLimits()).limits == usual


def test_a_season_that_requires_control_groups_is_not_played_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted = BotLimits(require_cgroups=True)
    place = Path("/sys/fs/cgroup")
    everything = Hierarchies(memory=place, pids=place, core=place, pressure=place, cpu=place)
    monkeypatch.setattr(rated_games, "hierarchies", lambda: everything)
    assert hosting("process", wanted).limits == ResourceLimits()
    monkeypatch.setattr(rated_games, "hierarchies", lambda: everything._replace(memory=None))
    with pytest.raises(SandboxUnavailable, match=r"here are none for memory: .* doctor"):
        hosting("process", wanted)


FAULTS = [
    ("print('hm'); return 'fly'", "", "decision 0: illegal_action", "view.legal", "hm"),
    # In every run these are submitted by a command: tests/cli/test_author_errors.py.
    ("raise RuntimeError('a bug')", "", "exception", "", "RuntimeError: a bug"),
    ("pass", "raise SystemExit('no licence')", "no licence", "", ""),
]


@pytest.mark.parametrize(
    ("deed", "first", "found", "remedy", "log"),
    daily(FAULTS, FAULTS[:1]),
)
def test_the_first_fault_refuses_a_bot_with_what_to_do(
    store: Store, tmp_path: Path, deed: str, first: str, found: str, remedy: str, log: str
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(f"{first}\n{BOT.format(deed=deed)}", encoding="utf-8")
    bundle = read_bot(file)
    result = submit(store, "me", bundle)
    assert store.bots.all() == []
    assert result.state is REFUSED
    assert "against itself, 2 seats" in result.found
    assert found in result.found
    assert remedy in result.remedy
    assert result.remedy
    assert any(log in line for line in result.log) or not log


def test_an_authors_bad_name_is_refused_before_any_game(store: Store) -> None:
    bundle = ladder.a_bundle("nothing that could play")
    with pytest.raises(BundleError, match="the author's name") as refused:
        submit(store, "a\nb", bundle)
    assert "\n" not in str(refused.value)


def test_files_that_play_already_and_anothers_bot_cost_no_game(
    store: Store, tmp_path: Path
) -> None:
    bundle = read_bot(speaks_lines(tmp_path))
    store.bots.submit("mine", "me", bundle)
    games = Games(store)
    assert submit(store, "me", bundle, games).version == 1
    assert games.seen == [(0, 0)]  # its files are read
    with pytest.raises(SubmissionError, match="is another author's; choose"):
        submit(store, "you", bundle)


def test_a_request_to_stop_leaves_the_submission_in_the_queue(store: Store, tmp_path: Path) -> None:
    bundle = read_bot(speaks_lines(tmp_path))
    store.authors.ensure("me")
    ladder = ladder_of(store, "me")
    archive = Archive.of(bundle.archive, "mine", fresh_token(), 1000)
    (submission,) = islice(filter(None, ladder.submit(archive)), 1)
    with closing(Stop()) as stop:

        class Interrupted(RunWatcher):
            def checking(self, number: int) -> None:
                stop.ask(StopRequest.FINISH)

        assert not do_now(CHECKS, store, submission.id, Interrupted(), stop)
    assert store.submissions.get(submission.id).state is TaskState.QUEUED
    assert store.tasks.owners() == []


@pytest.mark.parametrize(("counts", "gauge"), [(True, BotGauge), (False, WallGauge)])
def test_rated_bots_are_charged_the_wall_where_not_every_process_is_counted(
    monkeypatch: pytest.MonkeyPatch, counts: bool, gauge: type[BotGauge]
) -> None:
    places = Hierarchies(core=Path("/")) if counts else Hierarchies()
    monkeypatch.setattr(rated_games, "choose", lambda _: Sandbox(places))
    assert hosting("sandbox").gauge is gauge

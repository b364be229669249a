"""Bots that remember what they were sent play as their twin that forgets, wherever games count.

They are the author's own, so no sandbox is needed: memory is the only thing that they try.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from deepsea_arena.admission import play_admission
from deepsea_arena.rated_games import hosting
from deepsea_arena.task_workers import BlockPlayed, play_on
from deepsea_ladder.model import BotVersion, ComparisonLease
from deepsea_ladder.season import SeasonSettings, VerdictSettings
from deepsea_referee.bots import pool as pools
from deepsea_referee.bots.pool import BotPool
from deepsea_referee.bots.resolve import bundle_for_ladder, resolve
from deepsea_referee.clock import SystemClock
from deepsea_referee.match import MatchSettings
from deepsea_referee.shared_match import run_match_with_workers
from deepsea_referee.workbench.blocks import BlockSettings, GroupSettings, PlayedBlock, play_blocks
from deepsea_referee.workbench.checks import examine
from deepsea_referee.workbench.ranking import RankSettings
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import PRESETS
from deepsea_rules.time_control import TimeControl
from helpers.commands import Run
from helpers.programs import PATIENT
from helpers.remembering import EXPLOITS, SUSPICIOUS, TWIN
from helpers.tiers import daily

HOUR = TimeControl.parse("60m")
BOTS = {"twin": TWIN, "suspicious": SUSPICIOUS, "exploits": EXPLOITS}
REMEMBERS = [name for name in BOTS if name != "twin"]


def bot_in(folder: Path, name: str) -> Path:
    """The file of a bot; all of them are called `mine`."""
    place = folder / name
    place.mkdir(exist_ok=True)
    (place / "mine.py").write_text(BOTS[name], encoding="utf-8")
    return place / "mine.py"


def settings(kind: str, mine: Path) -> GroupSettings:
    """Groups of games with the bot, each on one seed."""
    common: dict[str, object] = {"hosting": PATIENT, "time_control": HOUR}
    common["seed"] = seed_from_text("memory")
    own, other = resolve(str(mine)), resolve("random")
    if kind == "rank":
        bots = [own, other, resolve("cautious"), resolve("steady")]
        return RankSettings(bots=bots, players=3, games=12, **common)  # type: ignore[arg-type]
    field = [resolve("cautious")] if kind == "field" else []
    seats = {"two seats": 2, "three seats": 3, "field": 3}[kind]
    return BlockSettings.of(own, other, field, seats, blocks=3, **common)


def games(what: GroupSettings, workers: int, in_process: bool) -> list[object]:
    """All that the games of some groups came to."""
    found: list[object] = []

    def on_block(_number: int, block: PlayedBlock) -> bool:
        for result, record in block:
            decisions = [decision._replace(us=0) for decision in record.decisions]
            found.append((result.game, result.points, decisions, result.faults))
        return False

    play_blocks(what, on_block, workers=workers, in_process=in_process)
    return sorted(found, key=repr)


@pytest.mark.parametrize(
    ("kind", "workers", "in_process"),
    daily(
        itertools.product(["two seats", "three seats", "field", "rank"], [1, 2], [True, False]),
        [("two seats", 1, False), ("field", 1, True), ("rank", 1, True), ("three seats", 2, True)],
    ),
)
def test_who_remembers_plays_as_its_twin_in_blocks_and_rounds(
    tmp_path: Path, kind: str, workers: int, in_process: bool
) -> None:
    twin = games(settings(kind, bot_in(tmp_path, "twin")), workers, in_process)
    for name in REMEMBERS:
        mine = bot_in(tmp_path, name)
        assert games(settings(kind, mine), workers, in_process) == twin


COMMANDS = {
    "compare": ("compare", "mine.py", "cautious", "--blocks", 4, "--clock", "60m"),
    "rank": ("rank", "mine.py", "cautious", "random", "--games", 9, "--clock", "60m"),
    "tune": ("tune", "mine.py,number=1..4", "--budget", 100, "--clock", "60m"),
    "match": ("match", "mine.py", "random", "--games", 4, "--clock", "60m", "--quiet"),
}
IN_PROCESS, AS_PROCESSES = ("--in-process",), ("--isolation", "process")


@pytest.mark.parametrize(
    ("command", "how"),
    daily(
        itertools.product(COMMANDS, [IN_PROCESS, AS_PROCESSES]),
        [("compare", IN_PROCESS), ("tune", IN_PROCESS)],
    ),
)
def test_who_remembers_has_the_report_of_its_twin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run, command: str, how: tuple[str, ...]
) -> None:
    reports = []
    for name in BOTS:
        monkeypatch.chdir(bot_in(tmp_path, name).parent)
        done = run(*COMMANDS[command], "--seed", "memory", *how)
        assert done.status in (0, 1), done.err
        reports.append(done.out)
    assert reports == [reports[0]] * len(BOTS)


def test_who_remembers_improves_as_its_twin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    # In the time of one game, one judged game and one block.
    words = [
        "improve",
        "mine.py",
        "--in-process",
        "--against",
        "cautious",
        "--games",
        "2",
        "--seed",
        "memory",
    ]
    words += ["--precision", "0.2", "--minutes", "0.00001"]
    reports = []
    for name in BOTS:
        mine = bot_in(tmp_path, name)
        monkeypatch.chdir(mine.parent)
        assert run(*words).status == 0
        mine.write_text(f"{BOTS[name]}# another version\n", encoding="utf-8")
        reports.append(json.loads(run(*words, "--json").out)["comparison"])
    assert reports[0]["blocks"] == 1
    assert reports == [reports[0]] * len(BOTS)


@pytest.mark.parametrize("name", daily(BOTS, ["exploits"]))
def test_who_remembers_is_checked_as_its_twin(tmp_path: Path, name: str) -> None:
    report = asyncio.run(
        examine(
            resolve(str(bot_in(tmp_path, name))),
            PATIENT,
            HOUR,
            rules=(PRESETS["manual"],),
            tables=3,
            time_us=HOUR.budget_us,
        )
    )
    assert [finding for finding in report.findings if not finding.ok] == []


def test_what_a_bot_keeps_of_a_game_in_its_module_is_seen_by_the_check(tmp_path: Path) -> None:
    text = TWIN.replace("number = 2", "number = 2; games = []").replace(
        "run(Twin)",
        """
class Tired(Twin):
    def on_game_start(self, info):
        self.games.append(info)

    def search(self, view):
        return "leave" if len(self.games) > 1 else super().search(view)

run(Tired)
""",
    )
    (tmp_path / "tired.py").write_text(text, encoding="utf-8")
    bot = resolve(str(tmp_path / "tired.py"))
    report = asyncio.run(
        examine(bot, PATIENT, HOUR, rules=(PRESETS["manual"],), tables=2, time_us=HOUR.budget_us)
    )
    (again,) = (finding for finding in report.findings if finding.name == "same again")
    assert not again.ok


@pytest.mark.parametrize("in_process", daily([True, False], [False]))
def test_a_verdict_on_who_remembers_is_that_on_its_twin(tmp_path: Path, in_process: bool) -> None:
    season = SeasonSettings(
        "s1", seats=(2,), isolation="process", clock="60m", verdicts=VerdictSettings(blocks=4)
    )
    versions = tuple(
        BotVersion(id=number, bot="mine", author="ada", number=number, digest="", created_at=0)
        for number in (2, 1)
    )
    lease = ComparisonLease(
        id=1,
        owner="runner",
        attempt=1,
        season=season,
        versions=(versions[0], versions[1]),
        seed="memory",
        kept=(),
        cpu_ms=10**9,
    )

    def blocks(name: str) -> list[object]:
        sent: list[BlockPlayed] = []
        pair = resolve(str(bot_in(tmp_path, name))), resolve("cautious")
        play_on(lease, pair, hosting("process"), sent.append, in_process=in_process)
        return [(block.content, block.standing) for block in sent]

    verdicts = [blocks(name) for name in BOTS]
    assert len(verdicts[0]) == 4
    assert verdicts == [verdicts[0]] * len(BOTS)


def test_who_remembers_meets_nothing_twice_in_admission(tmp_path: Path) -> None:
    bundle = bundle_for_ladder(str(bot_in(tmp_path, "suspicious")))
    assert play_admission(bundle, [SeasonSettings("s1", isolation="process", clock="60m")]) is None


# The pool


def test_a_seed_that_comes_again_is_played_by_another_process(tmp_path: Path) -> None:
    bot = resolve(str(bot_in(tmp_path, "twin")))
    one, other = bytes(32), bytes([1] * 32)

    async def meet() -> list[list[int]]:
        pool = BotPool([bot, bot], PATIENT, SystemClock())
        slots: list[list[int]] = []
        async with pool:
            for line_up, seed in (([0, 1], one), ([1, 0], one), ([0, 1], other), ([1, 1], one)):
                with pool.table(line_up, seed) as given:
                    slots.append([*given])
                    processes = [await pool.ready(slot) for slot in given]
                    assert all(process.session.usable for process in processes)
        return slots

    slots = asyncio.run(meet())
    assert slots == [[0, 1], [2, 3], [0, 1], [4, 4]]


def test_a_pool_keeps_so_many_processes_and_starts_the_others_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "MOST_RUNNING", 5)
    settings_of = settings("rank", bot_in(tmp_path, "suspicious"))
    few = games(settings_of, 1, in_process=False)
    monkeypatch.undo()
    assert few == games(settings("rank", bot_in(tmp_path, "twin")), 1, in_process=True)


def test_modules_beside_a_bot_are_its_own_for_each_game_on_a_seed(tmp_path: Path) -> None:
    mine = bot_in(tmp_path, "suspicious")
    text = mine.read_text(encoding="utf-8")
    (mine.parent / "lib").mkdir()
    (mine.parent / "lib" / "keepsake.py").write_text("MET = set()", encoding="utf-8")
    text = text.replace(
        "MET = set()",
        "import os.path, sys; sys.path.insert(0, os.path.dirname(__file__) + '/lib')\n"
        "from keepsake import MET",
    )
    mine.write_text(text, encoding="utf-8")
    (mine.parent / "bot.toml").write_text('name = "mine"\ncommand = "python3 mine.py"\n')
    path = [*sys.path]
    try:
        own = games(settings("two seats", mine.parent), 1, in_process=True)
    finally:
        sys.path[:] = path
    assert own == games(settings("two seats", bot_in(tmp_path, "twin")), 1, in_process=True)


def test_a_match_has_one_process_for_each_bot(tmp_path: Path) -> None:
    starts: list[int] = []

    class Counting(type(PATIENT.isolation)):  # type: ignore[misc]
        def spawn(self, launch: object) -> object:
            starts.append(1)
            return super().spawn(launch)

    mine = resolve(str(bot_in(tmp_path, "suspicious")))
    what = MatchSettings([mine, mine], replace(PATIENT, isolation=Counting()), 12)
    assert run_match_with_workers(what).games == 12
    assert len(starts) == 2

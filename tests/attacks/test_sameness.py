"""A bot cannot tell from what it is sent for what it plays: all kinds of games have one form."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from deepsea_arena.admission import play_admission
from deepsea_arena.rated_games import hosting, worker
from deepsea_arena.task_workers import PlayedOn, Tables, play_on
from deepsea_arena.tasks import FinishedGame
from deepsea_bundle.atomic import BotCache
from deepsea_bundle.reader import BotBundle
from deepsea_ladder.model import (
    BotVersion,
    ComparisonLease,
    Job,
    PersonGame,
    Presence,
    TaskState,
)
from deepsea_ladder.season import SeasonSettings, VerdictSettings
from deepsea_referee import workers
from deepsea_referee.bots.resolve import BotSpec, bundle_for_ladder, resolve
from deepsea_referee.match import MatchSettings
from deepsea_referee.shared_match import run_match_with_workers
from deepsea_referee.workbench.blocks import BlockSettings
from deepsea_referee.workbench.checks import examine
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.time_control import TimeControl
from deepsea_sdk.table import play
from helpers.programs import PATIENT

SPY = """
import json, os, sys
with open({file!r}, "a") as file:
    print(json.dumps({{"type": "environment", "names": sorted(os.environ)}}), file=file)
    print('{{"type":"ready"}}', flush=True)
    for line in sys.stdin:
        print(line, end="", file=file, flush=True)
        message = json.loads(line)
        if message["type"] == "decide":
            answer = {{"type": "answer", "id": message["id"], "action": message["legal"][0]}}
            print(json.dumps(answer), flush=True)
"""
"""Writes all that it can know into a file, and answers with default actions."""
SEASON = SeasonSettings(
    "s1", seats=(2,), isolation="process", clock="60m", verdicts=VerdictSettings(blocks=1)
)
HOUR = TimeControl.parse("60m")
SEED = seed_from_text("sameness")


def version(number: int, bundle: BotBundle) -> BotVersion:
    return BotVersion(
        id=number, bot="spy", author="ada", number=number, digest=bundle.digest, created_at=0
    )


class Link(workers.Link):
    """A worker's connection over which only bots' files come."""

    def __init__(self, bundle: BotBundle) -> None:
        self._bundle = bundle

    def file(self, digest: str) -> bytes:
        assert digest == self._bundle.digest
        return self._bundle.archive

    def on_stop(self, call: Callable[[], object]) -> None:
        """Nobody stops it."""

    def on_next(self, call: Callable[[object], object]) -> None:
        """Nothing follows."""


def in_match(spy: BotSpec, _bundle: BotBundle) -> None:
    run_match_with_workers(
        MatchSettings([spy, spy], PATIENT, games=2, time_control=HOUR, seed=SEED)
    )


def in_comparison(spy: BotSpec, _bundle: BotBundle) -> None:
    run_match_with_workers(
        BlockSettings.of(spy, spy, seats=2, blocks=1, hosting=PATIENT, time_control=HOUR, seed=SEED)
    )


def in_check(spy: BotSpec, _bundle: BotBundle) -> None:
    rules = (SEASON.rules,)
    asyncio.run(examine(spy, PATIENT, HOUR, rules=rules, tables=2, time_us=HOUR.budget_us))


def in_admission(_spy: BotSpec, bundle: BotBundle) -> None:
    assert play_admission(bundle, [SEASON]) is None


def in_verdict(spy: BotSpec, bundle: BotBundle) -> None:
    lease = ComparisonLease(
        id=1,
        owner="runner",
        attempt=1,
        season=SEASON,
        versions=(version(2, bundle), version(1, bundle)),
        seed="sameness",
        kept=(),
        cpu_ms=10**9,
    )
    play_on(lease, (spy, spy), hosting("process"), lambda block: None)


def in_rated_game(_spy: BotSpec, bundle: BotBundle) -> None:
    seats = version(1, bundle), version(2, bundle)
    job = Job(1, "s1-1", SEASON, SEED, seats, rotation=1, attempt=1, owner="runner")
    with worker(Link(bundle)) as perform:
        assert isinstance(perform(job), FinishedGame)


def in_persons_game(_spy: BotSpec, bundle: BotBundle, folder: Path) -> None:
    game = PersonGame(
        id=1,
        game_id="person-one",
        season=SEASON,
        author_id=None,
        visitor="cookie",
        person="",
        rules=SEASON.rules.name,
        seed=SEED,
        seat=1,
        versions=(version(1, bundle),),
        state=TaskState.RUNNING,
        presence=Presence.LEFT,
        until=None,
        decisions=(),
        answer=None,
        reason="",
        record="",
        created_at=0,
        changed_at=0,
        owner="runner",
        attempt=1,
    )
    link = Link(bundle)
    with closing(Tables(BotCache(folder, link.file), link)) as tables:
        played = tables.perform(game)
        assert isinstance(played, PlayedOn)
        assert played.record


KINDS = (
    in_match,
    in_comparison,
    in_check,
    in_admission,
    in_verdict,
    in_rated_game,
    in_persons_game,
)


def told(kind: Callable[..., None], folder: Path) -> set[str]:
    """All that differs in what bots are sent in games of a kind, but for the games themselves."""
    place, file = folder / "spy", folder / "told.jsonl"
    place.mkdir()
    (place / "bot.toml").write_text(
        'name = "spy"\ncommand = "python3 spy.py"\nprotocol = "lines"\n', encoding="utf-8"
    )
    (place / "spy.py").write_text(SPY.format(file=str(file)), encoding="utf-8")
    more = (folder / "files",) if kind is in_persons_game else ()
    for one in more:
        one.mkdir()
    kind(resolve(str(place)), bundle_for_ladder(str(place)), *more)
    forms = set()
    games: set[str] = set()
    for line in file.read_text(encoding="utf-8").splitlines():
        message = json.loads(line)
        if message["type"] == "start":
            assert message["game_id"] == message.pop("commitment")[:16]
            games.add(message["game_id"])
        game = message.pop("game_id", None)
        assert game is None or (game in games and re.fullmatch("[0-9a-f]{16}", game))
        if message["type"] in ("decide", "end", "fault"):
            message = {"type": message["type"], "keys": sorted(message)}
        elif message["type"] == "start":
            if kind is in_check and (message["seats"] != 2 or message["clock"] != HOUR.format()):
                continue  # it looks at games of every number of seats, and at longer clocks
            del message["seat"]
        forms.add(json.dumps(message, sort_keys=True))
    return forms


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """That of a rated game."""
    return told(in_rated_game, tmp_path_factory.mktemp("usual"))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not in_rated_game])
def test_what_a_bot_is_sent_has_one_form_in_all_kinds_of_games(
    tmp_path: Path, usual: set[str], kind: Callable[..., None]
) -> None:
    forms = told(kind, tmp_path)
    ends = {form for form in usual if '"goodbye"' in form}
    assert forms - {form for form in forms if '"fault"' in form} == usual
    assert ends


def test_a_game_in_process_has_the_same_form_of_id() -> None:
    from deepsea_sdk import Bot
    from deepsea_sdk.bot import GameInfo

    ids: list[tuple[str, str]] = []

    class Spy(Bot):
        def on_game_start(self, info: GameInfo) -> None:
            ids.append((info.game_id, info.commitment))

    play([Spy, Spy], game_id="a name that only the record has")
    assert len(ids) == 2
    assert all(game_id == commitment[:16] for game_id, commitment in ids)

"""The runner's side of games of people: steps in a worker, what fails, and what is rebuilt."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from deepsea_arena.task_workers import PlayedOn, Tables
from deepsea_bundle.atomic import BotCache
from deepsea_ladder.model import PersonGame, TaskState
from deepsea_ladder.season import SeasonSettings
from deepsea_ladder.store import Store
from deepsea_referee import workers
from deepsea_referee.errors import HostTooBusy
from deepsea_referee.workers import Task, TaskFailure, WorkerDeath, WorkerEvent
from deepsea_rules.game import Decision, Game, GameRecord, verify
from helpers import ladder
from helpers.bundles import bundle_of
from helpers.people import Runner, new_game
from helpers.programs import nothing_left_behind

QUEUED, RUNNING, ASKED = TaskState.QUEUED, TaskState.RUNNING, TaskState.ASKED
DONE, VOID = TaskState.DONE, TaskState.VOID
GAME = "person-one"

BOT = b"""
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "hello":
        print('{"type":"ready"}', flush=True)
    elif message["type"] == "decide":
        legal, seen = message["legal"], json.dumps(message["view"])
        action = legal[sum(seen.encode()) % len(legal)]
        print(json.dumps({"type": "answer", "id": message["id"], "action": action}), flush=True)
"""
"""A bot whose decisions follow from all that it sees; without the SDK it starts sooner."""


def CONTENTS(store: Store) -> None:  # noqa: N802
    """A game against two bots."""
    manifest = b'command = ["python3", "-S", "bot.py"]\nprotocol = "lines"\n'
    for name in ("anna", "ben"):
        files = {"bot.toml": manifest, "bot.py": BOT + name.encode().join((b"# ", b"\n"))}
        store.bots.submit(name, f"{name}-senior", bundle_of(files, name))
    season = SeasonSettings(name="s1", seats=(2,), clock="10s+60s", isolation="process")
    store.seasons.open(season, ladder.SEED)
    new_game(store)


@pytest.fixture
def begun(store: Store) -> PersonGame:
    """That game."""
    return store.person_games.get(GAME)


class Link(workers.Link):
    """A connection on which nothing comes."""

    def __init__(self) -> None:
        pass

    def on_stop(self, call: Callable[[], object]) -> None:
        """Nobody stops it."""


def tables(store: Store, folder: Path, kept: int = 8) -> Tables:
    """A worker in this process."""
    return Tables(BotCache(folder, store.bots.archive), Link(), kept)


def answered(game: PersonGame, played: PlayedOn) -> PersonGame:
    """The next step: the person takes the last of its choices."""
    state = Game(game.ruleset, len(game.names), game.seed)
    for decision in played.decisions:
        state.pending()
        state.decide(*decision[1:])
    question = state.pending()
    assert question is not None
    assert question.seat == game.seat
    return structs.replace(game, decisions=played.decisions, answer=question.legal[-1])


def without_times(record: str) -> GameRecord:
    found = GameRecord.from_json(record)
    verify(found)
    decisions = tuple(one._replace(us=0) for one in found.decisions)
    return replace(found, decisions=decisions)


def test_a_game_that_is_set_up_anew_at_each_step_is_the_same(
    store: Store, begun: PersonGame, tmp_path: Path
) -> None:
    """The bots decide by what they see; each step may be another worker's."""
    with nothing_left_behind():
        place = tables(store, tmp_path / "one")
        game = begun
        while not (played := place.perform(game)).record:
            game = answered(game, played)
        place.close()
        other = begun
        while True:
            again = tables(store, tmp_path / "other")
            found = again.perform(other)
            again.close()
            if found.record:
                break
            other = answered(other, found)
    assert without_times(found.record) == without_times(played.record)


def test_few_tables_keep_their_bots(store: Store, begun: PersonGame, tmp_path: Path) -> None:
    with nothing_left_behind():
        place = tables(store, tmp_path / "bots", kept=1)
        first = answered(begun, place.perform(begun))
        second = structs.replace(begun, game_id="person-two")
        place.perform(second)
        assert list(place.open) == ["person-two"]
        assert place.perform(first).decisions[: len(first.decisions)] == first.decisions
        place.close()


@pytest.mark.parametrize(
    "ending",
    [
        lambda task: WorkerDeath(task, "signal 9"),
        lambda task: TaskFailure(task, RuntimeError("a mistake of the worker")),
        lambda task: TaskFailure(task, HostTooBusy("the host was busy", 1, 0)),
    ],
)
def test_a_step_without_an_end_is_repeated_and_then_the_game_is_void(
    store: Store, begun: PersonGame, ending: object
) -> None:
    runner, failing = Runner(store), True

    def do(task: Task) -> Iterator[WorkerEvent]:
        if failing:
            yield ending(task)  # type: ignore[operator]
        else:
            yield from runner.worker._do(task)

    runner.worker.do = do
    runner.play_on()
    game = store.person_games.get(GAME)
    assert game.state is VOID
    assert len(runner.watcher.troubles) == 3
    assert "waits again" in runner.watcher.troubles[0]
    assert f"the game {GAME} is void" in runner.watcher.troubles[-1]
    new_game(store, game_id="person-two")
    failing = False
    runner.play_on()
    assert store.person_games.get("person-two").state is ASKED


@pytest.mark.databases
def test_a_machine_that_cannot_play_makes_no_game_void(store: Store, begun: PersonGame) -> None:
    runner = Runner(store)
    runner.worker.do = lambda task: iter([TaskFailure(task, MemoryError())])
    runner.play_on()
    assert store.person_games.get(GAME).state is QUEUED
    assert store.tasks.owners() == []
    assert "games of people cannot be played now" in runner.watcher.troubles[0]


@pytest.mark.databases
def test_a_decision_of_a_fault_is_kept_as_it_was(store: Store, begun: PersonGame) -> None:
    lease = store.person_games.claim("runner", 60)
    assert lease is not None
    made = (Decision(0, "down", 5, None), Decision(2, "leave", 7, None, "nonsense"))
    assert store.person_games.ask(lease, made)
    assert store.person_games.get(GAME).decisions == made

"""Games of people: a runner whose bots play in this process, by chance and not by any value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

from deepsea_arena.background_work import TaskLoop
from deepsea_arena.handlers import STEPS
from deepsea_arena.run_report import Stop
from deepsea_arena.task_workers import PlayedOn
from deepsea_arena.tasks import Times
from deepsea_ladder.model import PersonGame, Presence
from deepsea_ladder.store import Store
from deepsea_referee.workers import Task, TaskResult, WorkerEvent
from deepsea_rules.game import Game, GameRecord
from deepsea_rules.randomness import Stream, seed_from_text

from .background import OneWorker, Watcher

SEED = seed_from_text("a game of a person")


def replayed(game: PersonGame) -> Game:
    """The game with the decisions that were made."""
    played = Game(game.ruleset, len(game.names), game.seed)
    for decision in game.decisions:
        played.pending()
        played.decide(*decision[1:])
    return played


def step(game: PersonGame) -> PlayedOn:
    """Play to the person's next decision, or to the end."""
    played = replayed(game)
    answer = game.answer
    while (question := played.pending()) is not None:
        if question.seat != game.seat:
            chance = Stream(game.seed, f"bots/{len(played.decisions)}")
            played.decide(question.legal[chance.uniform(min(len(question.legal), 3))], us=100)
        elif answer is None and game.presence is not Presence.LEFT:
            return PlayedOn(tuple(played.decisions))
        else:
            played.decide(answer or question.legal[0], us=1_000_000)
            answer = None
    seats = [(name, "") for name in game.names]
    clock = game.season.clock
    record = GameRecord.of(played, game_id=game.game_id, clock=clock, seats=seats)
    return PlayedOn((), record.to_json())


class InlineWorker(OneWorker):
    """A worker for steps; `do` may be another one."""

    def __init__(self) -> None:
        super().__init__()
        self.do: Callable[[Task], Iterator[WorkerEvent]] = self._do

    def steps(self, task: Task) -> Iterator[WorkerEvent]:
        return self.do(task)

    def _do(self, task: Task) -> Iterator[WorkerEvent]:
        assert isinstance(task.argument, PersonGame)
        yield TaskResult(task, step(task.argument))


class Runner:
    """The runner's side of games of people."""

    def __init__(self, store: Store, owner: str = "runner") -> None:
        self.worker = InlineWorker()
        self.watcher = Watcher()
        self._store = store
        self._owner = owner

    def play_on(self) -> None:
        """Do all that waits."""
        with closing(Stop()) as stop:
            times = Times(idle=0.0, host_pause=0.0)
            TaskLoop(
                STEPS,
                self._store,
                self.worker,
                owner=self._owner,
                stop=stop,
                watcher=self.watcher,
                times=times,
            ).drain()


def new_game(
    store: Store, *, author_id: int | None = None, address: str = "", **more: object
) -> PersonGame:
    """Begin a game against two bots of the newest season."""
    values: dict[str, Any] = {
        "game_id": "person-one",
        "season_id": store.seasons.all()[-1].id,
        "visitor": None if author_id else "cookie",
        "rules": "guide",
        "seed": SEED,
        "seat": 1,
        "versions": [bot.current.id for bot in store.bots.all()][:2],
        **more,
    }
    return store.person_games.begin(author_id=author_id, address=address, **values)

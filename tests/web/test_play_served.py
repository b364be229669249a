"""A game of a person on a served ladder with real bots, whose runner or worker is killed."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

import pytest

from deepsea_bundle.reader import read_bot
from deepsea_ladder.season import SeasonSettings
from deepsea_ladder.store import Store
from deepsea_rules.game import GameRecord, verify
from deepsea_rules.randomness import Stream, seed_from_text
from helpers import ladder
from helpers.commands import serving
from helpers.members import a_service, a_token
from helpers.programs import children, nothing_stays_behind, opponent_in, workers

ROOT = "/api/v1"


class Player:
    """Somebody who plays by HTTP."""

    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self._headers = {"Authorization": f"Bearer {token}"}

    def post(self, path: str, **fields: Any) -> Any:
        """Call a method."""
        with self._asked("POST", path, json.dumps(fields)) as answer:
            assert answer.status == 200, answer.read()
            return json.loads(answer.read())

    def states(self, game_id: str) -> Iterator[Any]:
        """The states of a game, as they come."""
        with self._asked("GET", f"/play/{game_id}") as answer:
            assert answer.status == 200
            for line in answer:
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])

    @contextmanager
    def _asked(self, verb: str, path: str, body: str = "") -> Iterator[HTTPResponse]:
        with closing(HTTPConnection("127.0.0.1", self._port, timeout=120)) as connection:
            connection.request(verb, ROOT + path, body or None, self._headers)
            with connection.getresponse() as answer:
                yield answer


def runner_of(server: int) -> int:
    """The runner of a server, once it runs."""
    while True:
        for pid in children(server):
            with suppress(FileNotFoundError):
                if b"--forever" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    return pid


# All of it at once. In every run tests/arena/test_person_games.py repeats steps and sets games up
# anew, and tests/web/test_remote_serve.py starts a runner again that has ended.
@pytest.mark.release
@pytest.mark.parametrize("killed", ["nothing", "the runner", "all workers"])
def test_a_game_goes_on_whatever_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: str
) -> None:
    """After the fifth decision and after the tenth; rated games go on beside it."""
    place, chance = tmp_path / "ladder.db", Stream(seed_from_text(killed), "answers")
    with ladder.created(place) as store:
        for bot in ("anna", "ben", "cleo"):
            store.bots.submit(bot, f"{bot}-senior", read_bot(opponent_in(tmp_path, bot)))
        season = SeasonSettings(name="s1", seats=(2,), clock="10s+60s", isolation="process")
        stored = store.seasons.open(season, ladder.SEED)
        token = a_token(a_service(store), "anna")
    with nothing_stays_behind(monkeypatch), serving(place, "--workers", 1) as (server, port):
        player = Player(port, token)
        begun = player.post("/play", bots=["anna", "cleo"], rules="guide", seat="B")
        game_id, answered, rated = begun["game_id"], 0, []
        state: Any = None
        for state in player.states(game_id):
            if (asked := json.loads(state["document"])["asked"]) is None:
                continue
            choices = asked["choices"]
            action = choices[chance.uniform(len(choices))]["key"]
            player.post(f"/play/{game_id}/answer", asked=asked["id"], action=action)
            answered += 1
            if answered in (5, 10) and killed != "nothing":
                runner = runner_of(server.pid)
                doomed = [runner] if killed == "the runner" else workers(runner)
                with Store.open(place) as store:
                    rated.append(store.seasons.get(stored.name).games)
                for pid in doomed:
                    os.kill(pid, signal.SIGKILL)
    assert state["person_game"]["state"] == "done"
    assert answered > 5
    with Store.open(place) as store:
        record = GameRecord.from_json(store.games.record(game_id))
        verify(record)
        assert [fault for fault in record.decisions if fault.fault] == []
        assert store.seasons.get(stored.name).games > (rated or [0])[-1] > -1
        assert store.tasks.owners() == []
        assert store.ratings.differences(stored, records=True) == []

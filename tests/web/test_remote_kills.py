"""A server that is killed while a submission is checked: the retried key gets the one verdict."""

from __future__ import annotations

import hashlib
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from deepsea_arena.api.service import LadderService
from deepsea_bundle.archive import pack
from deepsea_ladder.store import Store
from deepsea_sdk.entropy import fresh_seed
from helpers import ladder
from helpers.commands import serving
from helpers.remote import OK, a_token, served_by

GREEDY = Path("sample_bots/deepsea_bots/greedy.py").read_bytes()


# In every run tests/cli/test_remote_ladder.py kills a server whose submission waits, and
# tests/cli/test_ladder_submissions.py a runner that checks one.
@pytest.mark.release
@pytest.mark.parametrize("seen", [1, 2, 3])
def test_a_submission_outlives_its_server(tmp_path: Path, seen: int) -> None:
    """Killed when it waits, when its check has begun, and between its games."""
    place = tmp_path / "ladder.db"
    with Store.create(place) as store:
        store.seasons.open(replace(ladder.a_season(seats=(2,)), isolation="process"), ladder.SEED)
        service = LadderService(store, store, entropy=fresh_seed)
        token = a_token(service, "anna")
    content = pack({"bot.toml": b'command = ["python3", "bot.py"]\n', "bot.py": GREEDY})
    digest = hashlib.sha256(content).hexdigest()
    header = {"bot": "mine", "size": len(content), "sha256": digest, "key": digest[:16]}
    with serving(place) as (process, port):
        with served_by(service, port) as there:
            first = there.submit(token, header, [content], most=seen)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert first.code == OK
    with serving(place) as (_, port), served_by(service, port) as there:
        again = there.submit(token, header, [content])
    assert again.code == OK
    last = again.documents[-1]["submission"]
    assert (last["id"], last["state"], last["version"]) == (
        first.documents[0]["submission"]["id"],
        "accepted",
        1,
    )
    with Store.open(place) as store:
        (bot,) = store.bots.all()
        assert len(store.bots.versions(bot.name)) == 1

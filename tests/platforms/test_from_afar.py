"""Submitting to a ladder from afar, by an author who is not on Linux."""

from __future__ import annotations

from pathlib import Path

import pytest

from deepsea_referee.bots.resolve import bundle_for_ladder
from helpers.answering import Answering, Scripted, begun, event, submission
from platforms.desk import WINDOWS, Desk

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("form", WINDOWS)
def test_a_bot_is_submitted(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEPSEA_LADDER_TOKEN", "dsl_" + "a" * 64)
    digest = bundle_for_ladder("greedy").digest
    steps = event(submission("queued")) + event(submission("accepted", version=1, digest=digest))
    with Answering(Scripted({"/bots/greedy": begun() + steps})) as server:
        done = Desk(form, tmp_path).run("ladder", "submit", "greedy", "--remote", server.url)
    assert done.status == 0, done.err
    assert "greedy version 1 by anna is on the ladder" in done.out
    (upload,) = [asked for asked in server.asked if asked.verb == "PUT"]
    assert len(upload.body) == int(upload.headers["content-length"]) > 0

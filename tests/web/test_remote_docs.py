"""The page about the API: its commands run, and its tables are those of the program."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from deepsea_arena.api.errors import STATUS
from deepsea_ladder.model import SubmissionRefusal
from deepsea_ladder.store import Store
from helpers import submissions
from helpers.members import a_service, a_token
from helpers.remote import served

PAGE = Path("docs/api.md").read_text(encoding="utf-8")


class Example(NamedTuple):
    """A command, and what it prints, if that is shown."""

    command: str
    shown: str


def examples() -> list[Example]:
    found = []
    for block in re.findall(r"^```text\n(.*?)^```$", PAGE, re.M | re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, shown = part.partition("\n")
            found.append(Example(command, shown.strip()))
    return found


def test_the_table_of_errors_is_that_of_the_program() -> None:
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|", PAGE, re.M)
    assert {(int(status), code) for status, code in rows} == {
        (status, kind.value) for kind, status in STATUS.items()
    }


@pytest.fixture
def place(
    played: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, str]]:
    """The variables of the page, of a ladder whose runner refuses everything."""
    service = a_service(played)
    (tmp_path / "bot.zip").write_bytes(submissions.zipped("x"))
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(0.05):
            lease = played.submissions.claim("a runner", 60)
            if lease is not None:
                refusal = SubmissionRefusal(found="it is a test", remedy="none")
                played.submissions.refuse(lease, refusal, 0)

    runner = threading.Thread(target=run)
    runner.start()
    # `| head` has read enough; `curl` sees it when it is to write again.
    monkeypatch.setattr("deepsea_web.http.BEAT_US", 0)
    with served(service) as server:
        token = a_token(service, "anna-senior")
        yield {"URL": f"http://127.0.0.1:{server.port}", "TOKEN": token}
    ended.set()
    runner.join()


@pytest.mark.slow
@pytest.mark.needs("curl")
def test_the_commands_of_the_page_run(place: dict[str, str], tmp_path: Path) -> None:
    assert len(examples()) > 12
    for command, shown in examples():
        done = subprocess.run(
            ("bash", "-o", "pipefail", "-c", command),
            cwd=tmp_path,
            env={**os.environ, **place},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        # `head` ends what it has read enough of.
        assert done.returncode == 0 or "| head" in command, (command, done.stdout, done.stderr)
        lines = [line.removeprefix("data: ") for line in done.stdout.splitlines()]
        answers = [json.loads(line) for line in lines if line.startswith('{"')]
        if shown:
            (answer,), expected = answers, json.loads(shown)
            assert answer.keys() == expected.keys(), command
            for name, inner in expected.items():
                assert answer[name].keys() == inner.keys()
            if "error" in expected:
                assert answer == expected
        else:
            assert done.stdout or "-o " in command, command
            assert [answer for answer in answers if "error" in answer] == [], command
    assert (tmp_path / "anna.zip").read_bytes()[:2] == b"PK"
    (submission,) = served_states(place)
    assert submission == "refused"


def served_states(place: dict[str, str]) -> list[str]:
    command = ("curl", "-s", "-H", f"Authorization: Bearer {place['TOKEN']}")
    done = subprocess.run(
        (*command, f"{place['URL']}/api/v1/submissions"), capture_output=True, check=True
    )
    return [one["state"] for one in json.loads(done.stdout)["submissions"]]

"""What travels between processes is plain: reading it loads no database."""

from __future__ import annotations

import pickle
import subprocess
import sys

from deepsea_ladder.model import BotVersion, Job
from helpers import ladder


def _fresh(code: str, given: bytes = b"") -> str:
    """What a new process prints that runs `code`."""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, input=given, capture_output=True, check=True)
    return done.stdout.decode()


def test_importing_the_model_loads_no_sqlalchemy() -> None:
    code = "import deepsea_ladder.model, sys; print('sqlalchemy' in sys.modules)"
    assert _fresh(code) == "False\n"


def test_unpickling_a_job_loads_no_sqlalchemy() -> None:
    version = BotVersion(1, "anna", "anna senior", 2, "ab" * 32, 0)
    job = Job(1, "s1-1", ladder.a_season(), bytes(32), (version,), 1, 1, "worker")
    code = (
        "import pickle, sys; job = pickle.loads(sys.stdin.buffer.read());"
        "print(job.game_id, 'sqlalchemy' in sys.modules)"
    )
    assert _fresh(code, pickle.dumps(job)) == "s1-1 False\n"

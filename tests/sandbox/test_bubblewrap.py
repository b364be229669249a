"""What is special about the sandbox."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from deepsea_referee.sandbox import bot_users, bubblewrap, probe
from deepsea_referee.sandbox.bubblewrap import Sandbox
from deepsea_referee.sandbox.cgroup import Hierarchies
from deepsea_referee.sandbox.interface import LaunchSpec, ResourceLimits, Watchdog
from helpers.tools import require

PYTHON = (sys.executable, "-I", "-S", "-B", "-c")


@pytest.fixture
def sandbox() -> Sandbox:
    """The sandbox as it is on this machine."""
    require("bubblewrap")
    return Sandbox()


def bot(folder: Path, program: str) -> Path:
    """A folder with a bot.toml, a program and a file beside it."""
    folder.mkdir()
    (folder / "bot.toml").write_text('command = "python bot.py"\n')
    (folder / "bot.py").write_text(program)
    (folder / "data.txt").write_text("data")
    return folder


@pytest.mark.needs("bubblewrap")
def test_bots_start_though_the_interpreter_was_named_by_a_way_back(tmp_path: Path) -> None:
    """As `../.venv/bin/python` from a folder beside it."""
    named = os.path.relpath(sys.executable, tmp_path)
    words = ("-m", "deepsea_cli", "match", "greedy", "random", "--games", "1")
    done = subprocess.run(
        (named, *words, "--isolation", "sandbox"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "1 game, manual rules" in done.stdout


def test_a_bot_sees_its_folder_and_no_other(sandbox: Sandbox, tmp_path: Path) -> None:
    bot(tmp_path / "other", "")
    folder = bot(tmp_path / "mine", "import os; print(open('data.txt').read(), os.listdir('..'))")
    outcome = probe.run(sandbox, (sys.executable, "bot.py"), folder=folder)
    assert outcome.stdout == "data ['mine']\n"


def test_rivals_and_secrets_in_a_bots_folder_are_hidden_with_a_warning(
    sandbox: Sandbox, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = bot(tmp_path / "mine", "")
    rival = bot(folder / "rival", "strategy")
    (folder / ".env").write_text("PASSWORD=secret")
    (folder / "bot.py").write_text(
        "import os\n"
        "print(os.listdir('rival'))\n"
        "try: print(open('.env').read())\n"
        "except OSError as error: print(type(error).__name__)\n"
        "try: os.mkdir('rival/x')\n"
        "except OSError as error: print(error.strerror)\n"
    )
    limits = ResourceLimits()
    for _ in range(2):
        reading, writing = os.pipe()
        launch = LaunchSpec(
            (sys.executable, "bot.py"), folder, {}, None, writing, 2, limits, (rival,)
        )
        contained = sandbox.spawn(launch)
        os.close(writing)
        with os.fdopen(reading) as output:
            said = output.read()
        contained.close()
        assert said == "[]\nPermissionError\nRead-only file system\n"
    (warning,) = caplog.messages  # once
    assert warning == (
        f"the bot in {folder} does not see {folder / '.env'}, {rival}: "
        "settings, a ladder's store or another bot"
    )


def test_a_single_file_is_seen_without_its_neighbours(sandbox: Sandbox, tmp_path: Path) -> None:
    file = tmp_path / "bot.py"
    file.write_text("import os; print(os.listdir('.'))")
    (tmp_path / "other.py").write_text("")
    outcome = probe.run(sandbox, (sys.executable, str(file)), folder=tmp_path)
    assert outcome.stdout == "['bot.py']\n"


def test_a_command_line_sees_the_files_that_it_names(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "named.txt").write_text("named")
    (tmp_path / "other.txt").write_text("other")
    monkeypatch.chdir(tmp_path)
    program = "import os, sys; print(open(sys.argv[1]).read(), os.listdir('.'))"
    outcome = probe.run(sandbox, (*PYTHON, program, "named.txt"))
    assert outcome.stdout == "named ['named.txt']\n"


def test_a_bots_own_command_does_not_show_it_more_files(sandbox: Sandbox, tmp_path: Path) -> None:
    # bot.toml is written by the bot's author, who may be a stranger.
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    folder = bot(tmp_path / "mine", "import sys; print(open(sys.argv[1]).read())")
    outcome = probe.run(sandbox, (sys.executable, "bot.py", str(secret)), folder=folder)
    assert outcome.returncode == 1
    assert "FileNotFoundError" in outcome.stderr


@pytest.mark.skipif(not bot_users.is_root(), reason="only root starts bots as another user")
def test_a_private_bot_of_roots_is_copied_and_the_copy_removed(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    folder = bot(tmp_path / "mine", "import os; print(open('data.txt').read(), os.getcwd())")
    for path in (folder, *folder.iterdir()):
        path.chmod(0o700 if path.is_dir() else 0o600)
    before = _private_folders()
    outcome = probe.run(sandbox, (sys.executable, "bot.py"), folder=folder)
    assert outcome.stdout == f"data {folder}\n"
    assert stat.S_IMODE((folder / "data.txt").stat().st_mode) == 0o600
    assert _private_folders() == before


def _private_folders() -> set[Path]:
    """Those of this process; other tests may have left some that go with it."""
    return set(Path("/tmp").glob(f"deepsea-{os.getpid()}-*"))


def test_a_sandbox_that_cannot_be_built_is_not_the_bots_fault(sandbox: Sandbox) -> None:
    # The working directory cannot be made in what is read-only.
    outcome = probe.run(sandbox, ("true",), folder=Path("/usr/no-such-folder"))
    assert outcome.returncode not in (None, 0)
    assert outcome.setup_error is not None
    assert "doctor" in outcome.setup_error


def test_the_watchdog_does_not_look_at_a_sandbox_that_is_being_built(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Until it is built, its /tmp is this machine's.
    monkeypatch.setattr(bubblewrap, "WATCHDOG", Watchdog(0.0002))
    for _ in range(10):
        outcome = probe.run(Sandbox(Hierarchies()), ("true",))
        assert outcome.over_limit is None
        assert outcome.returncode == 0


def test_a_crash_is_the_bots_fault(sandbox: Sandbox) -> None:
    outcome = probe.run(sandbox, (*PYTHON, "import os; os.abort()"))
    assert outcome.returncode == 128 + 6
    assert outcome.setup_error is None


def test_being_ended_is_no_setup_error_even_before_it_began(sandbox: Sandbox) -> None:
    contained = sandbox.spawn(LaunchSpec(("true",), None, {}, None, 2, 2))
    contained.kill()
    contained.close()
    assert contained.setup_error() is None


def test_nobody_inside_can_loosen_the_bond_with_the_referee(sandbox: Sandbox) -> None:
    # PR_SET_PDEATHSIG 0 seems to work and does nothing; PR_GET_PDEATHSIG shows it.
    program = (
        "import ctypes, json\n"
        "library, number = ctypes.CDLL(None), ctypes.c_int(-1)\n"
        "done = library.prctl(1, 0, 0, 0, 0)\n"
        "library.prctl(2, ctypes.byref(number), 0, 0, 0)\n"
        "print(json.dumps([done, number.value]))"
    )
    assert json.loads(probe.run(sandbox, (*PYTHON, program)).stdout) == [0, 9]


def test_libraries_that_place_their_threads_work(sandbox: Sandbox) -> None:
    # OpenBLAS starts threads of its own and asks where they may run.
    program = (
        "import numpy as np; a = np.ones((500, 500)); print(int((a @ a).sum()), end='; ')\n"
        "from concurrent.futures import ProcessPoolExecutor as P\n"
        "with P(2) as pool: print(sum(pool.map(abs, range(-9, 0))))"
    )
    outcome = probe.run(sandbox, (sys.executable, "-c", program), milliseconds=60_000)
    assert (outcome.stdout, outcome.stderr) == ("125000000; 45\n", "")


def test_limits_that_only_the_sandbox_sets(sandbox: Sandbox) -> None:
    program = (
        "import json, resource as r\n"
        "names = ['NPROC', 'CORE', 'MEMLOCK', 'MSGQUEUE', 'RTPRIO', 'SIGPENDING']\n"
        "print(json.dumps({n: r.getrlimit(getattr(r, 'RLIMIT_' + n))[1] for n in names}))"
    )
    assert json.loads(probe.run(sandbox, (*PYTHON, program)).stdout) == {
        "NPROC": ResourceLimits().processes,
        "CORE": 1,
        "MEMLOCK": 65536,
        "MSGQUEUE": 0,
        "RTPRIO": 0,
        "SIGPENDING": 256,
    }

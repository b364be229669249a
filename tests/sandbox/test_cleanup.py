"""What killed referees left is removed by the next process that plays, and nothing else."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from deepsea_referee.sandbox import cleanup
from deepsea_referee.sandbox.interface import MARK_VARIABLE
from deepsea_referee.sandbox.process_tree import start_time
from helpers.programs import hide

NOBODY = 2**22 + 1
"""The number of no process."""


def names() -> dict[str, bool]:
    """Names as of folders and groups, and whether somebody may still use what has them."""
    pid, began, space, number = cleanup.new_name().split("-")[1:]
    assert (int(pid), int(began)) == (os.getpid(), start_time(os.getpid()))
    return {
        f"deepsea-{NOBODY}-{began}-{space}-{number}": False,
        f"deepsea-{pid}-1-{space}-{number}": False,  # its number was used again
        f"deepsea-{pid}-{began}-{space}-{number}": True,
        f"deepsea-{NOBODY}-{began}-1-{number}": True,  # of another namespace: who knows
        f"deepsea-{NOBODY}-0-{space}-{number}": False,  # of one that could not read its start
        f"deepsea-{NOBODY}-{number}": True,
        "deepsea-of-somebody": True,
    }


def test_only_folders_of_ended_processes_of_this_user_are_removed(tmp_path: Path) -> None:
    used = names()
    for name in used:
        (tmp_path / name / "bot").mkdir(parents=True)
        (tmp_path / name / "bot" / "bot.py").write_text("import this\n")
    precious = tmp_path / "precious"
    precious.mkdir()
    link = tmp_path / f"{next(iter(used))}7"
    link.symlink_to(precious)
    cleanup.remove_folders([tmp_path, tmp_path / "missing"])
    stay = {name for name, stays in used.items() if stays} | {link.name, precious.name}
    assert {folder.name for folder in tmp_path.iterdir()} == stay


def test_only_empty_groups_of_ended_processes_are_removed(tmp_path: Path) -> None:
    used = names()
    for name in used:
        (tmp_path / name).mkdir()
    busy = f"{next(iter(used))}7"
    (tmp_path / busy / "busy").mkdir(parents=True)
    cleanup.remove_groups([tmp_path])
    stay = {name for name, stays in used.items() if stays} | {busy}
    assert {group.name for group in tmp_path.iterdir()} == stay


def test_nothing_of_a_living_process_that_proc_hides_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / cleanup.new_name()
    own.mkdir()
    hide(monkeypatch, os.getpid())
    cleanup.remove_folders([tmp_path])
    cleanup.remove_groups([tmp_path])
    assert own.is_dir()


def test_only_processes_whose_referee_has_ended_are_killed() -> None:
    waits = (sys.executable, "-I", "-S", "-c", "input()")
    used = names()
    with ExitStack() as ending:
        started = {
            name: ending.enter_context(
                subprocess.Popen(
                    waits,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env={MARK_VARIABLE: name},
                )
            )
            for name in used
        }
        other = ending.enter_context(
            # The name alone is no mark: somebody may look at such a folder.
            subprocess.Popen(
                (*waits, "look", next(iter(used))), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
            )
        )
        cleanup.end_processes()
        for name, process in started.items():
            process.communicate(b"\n")
            assert process.returncode == (0 if used[name] else -9), name
        other.communicate(b"\n")
        assert other.returncode == 0


def test_a_folder_is_private_and_goes_with_its_process_but_not_with_a_fork(tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "from deepsea_referee.sandbox import cleanup\n"
        "folder = cleanup.private_folder(sys.argv[1])\n"
        "(folder / 'file').touch()\n"
        "if child := os.fork():\n"
        "    os.waitpid(child, 0)\n"
        "    print(folder.stat().st_mode & 0o777, *os.listdir(folder))\n"
    )
    paths = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path],
        env={**os.environ, **paths},
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode().split() == [str(0o700), "file"]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_locked_while_it_is_in_use_so_that_no_cleaner_of_tmp_removes_it() -> None:
    folder = cleanup.private_folder()
    cleaner = os.open(folder, os.O_RDONLY)
    try:
        with pytest.raises(BlockingIOError):
            fcntl.flock(cleaner, fcntl.LOCK_EX | fcntl.LOCK_NB)
        cleanup.remove_folder(folder)
        fcntl.flock(cleaner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(cleaner)
    assert not folder.exists()

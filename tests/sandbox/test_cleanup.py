"""What whole process trees left that were killed at once is swept by the next worker."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deepsea_referee.sandbox import cleanup
from deepsea_referee.sandbox.cleanup_process import start_time

NOBODY = 2**22 + 1
"""The number of no process."""


def test_only_folders_of_ended_processes_of_this_user_are_removed(tmp_path: Path) -> None:
    pid, began, space, number = cleanup.folder_name().split("-")[1:]
    assert (int(pid), int(began)) == (os.getpid(), start_time(os.getpid()))
    names = {
        f"deepsea-{NOBODY}-{began}-{space}-{number}": False,
        f"deepsea-{pid}-1-{space}-{number}": False,  # its number was used again
        f"deepsea-{pid}-{began}-{space}-{number}": True,
        f"deepsea-{NOBODY}-{began}-1-{number}": True,  # of another namespace: who knows
        f"deepsea-{NOBODY}-{number}": True,
        "deepsea-of-somebody": True,
    }
    for name in names:
        (tmp_path / name / "bot").mkdir(parents=True)
        (tmp_path / name / "bot" / "bot.py").write_text("import this\n")
    precious = tmp_path / "precious"
    precious.mkdir()
    link = tmp_path / f"deepsea-{NOBODY}-{began}-{space}-7777"
    link.symlink_to(precious)
    removed = cleanup.remove_folders([tmp_path, tmp_path / "missing"])
    gone = {name for name, stays in names.items() if not stays}
    assert {folder.name for folder in removed} == gone
    assert {name for name in names if not (tmp_path / name).exists()} == gone
    assert link.is_symlink()
    assert precious.is_dir()


def test_only_empty_groups_of_ended_processes_are_removed(tmp_path: Path) -> None:
    for name in (f"deepsea-{NOBODY}-1", f"deepsea-{NOBODY}-2", f"deepsea-{os.getpid()}-1"):
        (tmp_path / name).mkdir()
    (tmp_path / f"deepsea-{NOBODY}-2" / "busy").mkdir()
    cleanup.remove_groups([tmp_path])
    assert sorted(group.name for group in tmp_path.iterdir()) == sorted(
        [f"deepsea-{NOBODY}-2", f"deepsea-{os.getpid()}-1"]
    )


def test_a_folder_is_registered_before_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there: list[bool] = []
    real = cleanup.register

    def register(kind: cleanup.Kind, value: str | Path, extra: int = 0) -> None:
        there.append(Path(value).exists())
        real(kind, value, extra)

    monkeypatch.setattr(cleanup, "register", register)
    folder = cleanup.private_folder(str(tmp_path))
    assert there == [False]
    assert folder.stat().st_mode & 0o777 == 0o700
    cleanup.remove_folder(folder)
    assert not folder.exists()

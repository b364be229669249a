"""Files are there whole, or as they were."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from deepsea_bundle.atomic import put_in_place, write_atomically


def test_a_file_is_whole_or_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results.json"
    write_atomically(path, "old\n")

    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left") as caught:
        write_atomically(path, "new\n")
    assert caught.value.filename == str(path)
    assert path.read_text() == "old\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["results.json"]
    monkeypatch.undo()
    write_atomically(path, "new\n")
    assert path.read_text() == "new\n"
    assert path.stat().st_mode & 0o777 == 0o644


def test_pieces_are_one_text(tmp_path: Path) -> None:
    write_atomically(tmp_path / "results.json", (f"{number}\n" for number in range(3)))
    assert (tmp_path / "results.json").read_bytes() == b"0\n1\n2\n"


def test_a_piece_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        write_atomically(tmp_path / "results.json", (str(1 // number) for number in (1, 0)))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "none" / "game-0001.json"
    with pytest.raises(FileNotFoundError) as caught:
        write_atomically(path, "{}")
    assert caught.value.filename == str(path)


def test_content_and_name_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written, target = tmp_path / "written", tmp_path / "target"
    written.write_text("new")
    synced = []

    def fsync(descriptor: int) -> None:
        synced.append((Path(f"/proc/self/fd/{descriptor}").readlink(), target.exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    put_in_place(written, target)
    assert synced == [(written, False), (tmp_path, True)]
    assert target.read_text() == "new"

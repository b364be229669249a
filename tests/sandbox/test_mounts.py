"""What a bot is shown of the file system."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

from deepsea_referee.sandbox import mounts, python_paths
from deepsea_referee.sandbox.interface import LaunchSpec


def launch(command: tuple[str, ...], folder: Path | None, socket: Path | None = None) -> LaunchSpec:
    """A launch with nothing special."""
    return LaunchSpec(command, folder, {}, socket, 1, 2)


def of_the_bot(plan: mounts.Layout) -> list[str]:
    """Where the bot's own things are."""
    return [one.target for one in plan.shown if one.is_bot]


def test_outer_folders_come_first_and_hide_inner_ones() -> None:
    shown = [mounts.Mount(Path(p), p) for p in ("/a/b/c", "/a/b", "/usr", "/usr/lib", "/", "/a/bc")]
    kept = [one.target for one in mounts._without_nested(shown)]
    assert kept == ["/usr", "/a/b", "/a/bc"]


def test_the_interpreter_and_the_sdk_are_shown_where_they_are() -> None:
    targets = [Path(one.target) for one in mounts.layout_for(launch(("true",), None)).shown]
    for needed in (
        Path(sys.executable),
        *python_paths.python_folders(),
        *python_paths.sdk_folders(),
    ):
        for path in (needed.absolute(), needed.resolve()):
            assert any(path.is_relative_to(target) for target in targets), path


def test_homes_and_secrets_of_the_system_are_not_shown() -> None:
    plan = mounts.layout_for(launch(("true",), None))
    targets = {one.target for one in plan.shown}
    assert not targets & {"/", "/etc", "/home", "/root", "/var", "/run", "/tmp", "/dev", "/sys"}


def test_a_folder_with_a_manifest_is_shown_whole(tmp_path: Path) -> None:
    (tmp_path / "bot.toml").touch()
    (tmp_path / "bot.py").touch()
    assert of_the_bot(mounts.layout_for(launch((sys.executable, "bot.py"), tmp_path))) == [
        str(tmp_path)
    ]


def test_a_folder_without_one_shows_the_named_files(tmp_path: Path) -> None:
    for name in ("bot.py", "other.py", "weights"):
        (tmp_path / name).touch()
    command = (sys.executable, str(tmp_path / "bot.py"), "./weights", "no-file", "long" * 2000)
    shown = of_the_bot(mounts.layout_for(launch(command, tmp_path)))
    assert shown == [str(tmp_path / "bot.py"), str(tmp_path / "weights")]


def test_the_socket_has_the_same_name_in_every_sandbox(tmp_path: Path) -> None:
    plan = mounts.layout_for(launch(("true",), None, tmp_path / "seat-b.sock"))
    (door,) = (one for one in plan.shown if one.source.name == "seat-b.sock")
    assert door.target == mounts.SOCKET


def test_nothing_but_private_memory_can_be_written(tmp_path: Path) -> None:
    plan = mounts.layout_for(launch(("true",), tmp_path))
    options = mounts.bubblewrap_options(plan, launch(("true",), tmp_path), {})
    assert "--bind" not in options
    assert options.count("--tmpfs") == options.count("--size") == 5
    made_read_only = {place for option, place in pairwise(options) if option == "--remount-ro"}
    assert made_read_only == {"/", "/dev", "/proc/1"}

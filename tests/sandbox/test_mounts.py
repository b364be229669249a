"""What a bot is shown of the file system."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from itertools import pairwise
from pathlib import Path

import pytest

from deepsea_referee.sandbox import mounts
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
    plan = mounts.layout_for(launch(("true",), None))
    targets = [Path(one.target) for one in plan.shown]
    for needed in (*mounts.python_folders(), *mounts.sdk_folders()):
        for path in (needed.absolute(), needed.resolve()):
            assert any(path.is_relative_to(target) for target in targets), path
    # The interpreter is a file, or a link that leads to one.
    executable = Path(sys.executable)
    assert any(executable.resolve().is_relative_to(target) for target in targets)
    links = {path for _, path in plan.links}
    assert str(executable) in links or any(executable.is_relative_to(t) for t in targets)


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
    assert made_read_only == {"/", "/dev", "/proc", "/proc/1"}


ENVIRONMENT = """
import sys
from pathlib import Path
from deepsea_referee.sandbox import mounts
from deepsea_referee.sandbox.interface import LaunchSpec
plan = mounts.layout_for(LaunchSpec((sys.executable,), None, {}, None, 1, 2))
for path in [*(one.target for one in plan.shown), *(path for _, path in plan.links)]:
    if Path(path).is_relative_to(sys.prefix):
        print(Path(path).relative_to(sys.prefix))
"""


def test_of_an_environment_in_a_project_only_python_is_shown(tmp_path: Path) -> None:
    # `python -m venv .` makes the project's folder the environment.
    venv.create(tmp_path, with_pip=False)
    (tmp_path / "ladder.db").touch()
    (tmp_path / "rival.py").touch()
    python = tmp_path / "bin" / "python"
    done = subprocess.run(
        [str(python), "-c", ENVIRONMENT],
        env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        check=True,
    )
    names = set(done.stdout.split())
    site_packages = {name for name in names if name.endswith("/site-packages")}
    assert {"bin/python", "bin/python3", "pyvenv.cfg"} <= names
    assert len(site_packages) >= 1
    assert all(name.startswith("bin/python") for name in names - site_packages - {"pyvenv.cfg"})


def test_private_files_and_rivals_inside_of_a_bots_folder_are_hidden(tmp_path: Path) -> None:
    for name in ("bot.toml", "bot.py", ".env", "ladder.db", "ladder.db-wal", "rivals/anna/bot.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / ".env.local").touch()
    (tmp_path / "link.env").symlink_to("/nowhere")
    one = launch((sys.executable, "bot.py"), tmp_path)
    outside = tmp_path.parent / "outside.py"
    plan = mounts.layout_for(
        one._replace(rivals=(tmp_path / "rivals" / "anna", outside, tmp_path, tmp_path.parent))
    )
    assert set(plan.hidden) == {
        tmp_path / ".env",
        tmp_path / "ladder.db",
        tmp_path / "ladder.db-wal",
        tmp_path / "book" / ".env.local",
        tmp_path / "rivals" / "anna",
    }
    options = mounts.bubblewrap_options(plan, one, {})
    assert pairwise_has(options, "/dev/null", str(tmp_path / ".env"))
    assert pairwise_has(options, "--tmpfs", str(tmp_path / "rivals" / "anna"))
    assert pairwise_has(options, "--remount-ro", str(tmp_path / "rivals" / "anna"))


def pairwise_has(words: list[str], first: str, second: str) -> bool:
    """Whether the two words follow each other."""
    return (first, second) in pairwise(words)


def test_of_a_folder_of_libraries_only_what_was_installed_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As `pip install --target .` does in a project's folder.
    for name in ("grpc/__init__.py", "rival.py", "ladder.db"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    info = tmp_path / "grpcio-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: grpcio\nVersion: 1.0\n")
    (info / "RECORD").write_text("grpc/__init__.py,,\ngrpcio-1.0.dist-info/METADATA,,\n")
    found = {"grpc": [tmp_path / "grpc"], "deepsea_sdk": [], "deepsea_rules": []}
    monkeypatch.setattr(mounts, "_package_folders", found.__getitem__)
    assert mounts.sdk_folders.__wrapped__() == (tmp_path / "grpc", info)


@pytest.mark.parametrize("name", ["python", "python3", "python3.11"])
def test_an_interpreter_is_found_once_by_whichever_name_it_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """As in an environment: the commands that pip writes there may begin with any of its names."""
    real = tmp_path / "base" / "python3.11"
    real.parent.mkdir()
    real.touch()
    folder = tmp_path / "environment" / "bin"
    folder.mkdir(parents=True)
    (folder / "python3").symlink_to(real)
    for link in ("python", "python3.11"):
        (folder / link).symlink_to("python3")
    monkeypatch.setattr(sys, "executable", str(folder / name))
    files, links = mounts.interpreter.__wrapped__()
    assert real in files
    paths = [path for _, path in links]
    assert sorted(paths) == sorted({folder / name, folder / "python3", folder / "python3.11"})

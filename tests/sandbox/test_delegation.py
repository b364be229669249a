"""Delegation: which group of systemd's may be divided, and who is asked."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from deepsea_referee.sandbox import delegation
from deepsea_referee.sandbox.delegation import Properties, Unit, refusal, unit_of
from helpers.programs import hide

POINT = Path("/sys/fs/cgroup")
USERS = "user.slice/user-1000.slice"


@pytest.fixture(autouse=True)
def systemd(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A system on which systemd runs."""
    monkeypatch.setattr(delegation, "SYSTEMD", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("group", "name", "depth", "user"),
    [
        ("system.slice/ladder-runner.service", "ladder-runner.service", 2, None),
        ("system.slice/ladder-runner.service/deepsea-referee", "ladder-runner.service", 2, None),
        (f"{USERS}/session-3.scope", "session-3.scope", 3, None),
        (f"{USERS}/user@1000.service/app.slice/run-r7.scope", "run-r7.scope", 5, 1000),
        (f"{USERS}/user@1000.service/init.scope", "init.scope", 4, 1000),
        (f"{USERS}/user@1000.service", "user@1000.service", 3, None),
        # What a unit has below itself is its own affair, whatever the names.
        ("system.slice/docker.service/a/b.scope", "docker.service", 2, None),
    ],
)
def test_the_unit_of_a_group(group: str, name: str, depth: int, user: int | None) -> None:
    place = POINT.joinpath(*group.split("/")[:depth])
    assert unit_of(POINT / group, POINT) == Unit(name, place, user)


@pytest.mark.parametrize("group", ["", "user.slice", "made-by-hand/7"])
def test_a_group_that_is_no_units(group: str) -> None:
    assert unit_of(POINT / group, POINT) is None


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"Delegate": "yes", "OOMPolicy": "continue"}, ""),
        ({"Delegate": "yes"}, ""),  # a scope of an older systemd has no OOMPolicy
        ({"Delegate": "no", "OOMPolicy": "stop"}, "a.service has no Delegate=yes"),
        ({"Delegate": "no"}, "a.service has no Delegate=yes"),
        ({"Delegate": "yes", "OOMPolicy": "stop"}, "OOMPolicy=stop"),
        ({"Delegate": "yes", "OOMPolicy": "kill"}, "OOMPolicy=kill"),
        (None, "a.service has no Delegate=yes"),  # nobody answers, and there is no mark
    ],
)
def test_a_unit_is_divided_only_if_it_was_delegated_and_outlives_a_bot(
    properties: Properties | None, words: str
) -> None:
    found = refusal(POINT / "system.slice/a.service", POINT, lambda unit: properties)
    assert words in found
    assert bool(words) == bool(found)


@pytest.mark.parametrize("mark", ["user.delegate", "trusted.delegate"])
def test_where_systemd_cannot_be_asked_its_mark_counts(
    mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def getxattr(path: Path, name: str) -> bytes:
        if (path, name) == (POINT / "system.slice/a.service", mark):
            return b"1"
        raise OSError(61, "no data")

    monkeypatch.setattr(os, "getxattr", getxattr)
    assert refusal(POINT / "system.slice/a.service/leaf", POINT, lambda unit: None) == ""
    assert refusal(POINT / "system.slice/b.service", POINT, lambda unit: None) != ""


def nobody(_unit: Unit) -> Properties:
    raise AssertionError("nobody is to be asked")


def test_the_groups_of_systemd_itself_are_not_divided_and_one_made_by_hand_is() -> None:
    assert "systemd" in refusal(POINT, POINT, nobody)
    assert "systemd" in refusal(POINT / "system.slice", POINT, nobody)
    assert refusal(POINT / "by-hand", POINT, nobody) == ""


def test_where_systemd_does_not_run_what_can_be_written_is_ours(systemd: Path) -> None:
    systemd.rmdir()
    assert refusal(POINT, POINT, nobody) == ""
    assert refusal(POINT / "system.slice/docker-7.scope", POINT, nobody) == ""


def test_each_unit_is_asked_for_at_its_own_manager(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "systemctl"
    program.write_text(
        '#!/bin/sh\necho "$@" "$XDG_RUNTIME_DIR" >&2\n'
        f'echo "$@" "$XDG_RUNTIME_DIR" >{tmp_path}/asked\n'
        "echo Delegate=yes; echo OOMPolicy=continue\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    own, other = os.geteuid(), os.geteuid() + 1
    for user, words in (
        (None, "show --property=Delegate,OOMPolicy -- a.scope"),
        (own, f"--user show --property=Delegate,OOMPolicy -- a.scope /run/user/{own}"),
        (other, f"--user --machine={other}@.host show"),
    ):
        assert delegation.ask_systemd(Unit("a.scope", POINT, user)) == {
            "Delegate": "yes",
            "OOMPolicy": "continue",
        }
        assert (tmp_path / "asked").read_text().strip().startswith(words)


@pytest.mark.parametrize("body", ["exit 1", "echo nonsense", "echo Delegate=yes; exit 1"])
def test_an_answer_that_is_none_is_no_answer(
    body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unit = Unit("a.scope", POINT)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert delegation.ask_systemd(unit) is None  # no such program
    program = tmp_path / "systemctl"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    assert delegation.ask_systemd(unit) is None


def test_a_process_that_proc_hides_is_a_stranger(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", "input()"], stdin=subprocess.PIPE
    ) as process:
        inside = (os.getpid(), process.pid)
        assert delegation.outsiders(inside, ()) == []
        with monkeypatch.context() as patch:
            hide(patch, process.pid)
            assert delegation.outsiders(inside, ()) == [process.pid]
        process.communicate(b"\n")
    assert delegation.outsiders(inside, ()) == []

"""Choosing a level: a sandbox only after a look from within, and never silently without one."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deepsea_referee.sandbox import bot_users, cgroup, probe, probe_inside
from deepsea_referee.sandbox.bubblewrap import Sandbox
from deepsea_referee.sandbox.cgroup import Hierarchies
from deepsea_referee.sandbox.interface import IsolatedProcess, LaunchSpec, SandboxUnavailable
from deepsea_referee.sandbox.plain_process import PlainProcess
from helpers.commands import Run
from helpers.tools import require


@pytest.fixture
def no_bubblewrap(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine on which nothing of the system is found."""
    probe.sandbox_trouble.cache_clear()
    monkeypatch.setattr(bot_users, "TOOL_PATH", "/nonexistent")
    yield
    probe.sandbox_trouble.cache_clear()


def test_without_bubblewrap_a_sandbox_is_refused_with_the_remedy(no_bubblewrap: None) -> None:
    with pytest.raises(
        SandboxUnavailable, match=r"no sandbox here: missing: bwrap.*apt-get install"
    ):
        probe.choose("sandbox")


def test_without_bubblewrap_auto_says_that_it_is_a_plain_process(no_bubblewrap: None) -> None:
    assert probe.choose("auto").name == "process"


def test_with_it_auto_takes_the_sandbox() -> None:
    require("bubblewrap")
    assert probe.choose("auto").name == "sandbox"
    assert probe.choose("sandbox").name == "sandbox"


def test_a_plain_process_needs_no_probe(no_bubblewrap: None) -> None:
    assert probe.choose("process").name == "process"


def test_a_look_that_was_begun_early_is_the_one_that_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    require("bubblewrap")
    with probe.start_test("auto") as begun:
        assert begun is not None
        monkeypatch.setattr(probe, "_look_inside", None)  # no second one
        assert probe.choose("auto", begun).name == "sandbox"


def test_a_look_that_shows_a_hole_is_believed() -> None:
    require("bubblewrap")
    hole = "import json, sys; json.dump({}, sys.stdout)"
    with probe.started(Sandbox(), (sys.executable, "-I", "-S", "-c", hole)) as begun:
        assert probe.choose("auto", begun).name == "process"


def test_a_look_that_nobody_asks_about_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    require("bubblewrap")
    spawned, spawn = [], Sandbox.spawn

    def noted(sandbox: Sandbox, launch: LaunchSpec) -> IsolatedProcess:
        spawned.append(spawn(sandbox, launch))
        return spawned[-1]

    monkeypatch.setattr(Sandbox, "spawn", noted)
    with probe.start_test("sandbox") as begun:
        assert begun is not None
        assert [process.returncode for process in spawned] == [None]
    assert spawned[0].returncode is not None


def test_where_no_sandbox_is_wanted_or_possible_nobody_looks(no_bubblewrap: None) -> None:
    for level in ("process", "auto"):
        with probe.start_test(level) as begun:
            assert begun is None


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ("bwrap: setting up uid map: Permission denied", "AppArmor"),
        ("bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", "AppArmor"),
        ("bwrap: No permissions to creating new namespace, likely because", "unprivileged_userns"),
        ("unshare: unshare failed: Operation not permitted", "container"),
        ("bwrap: Unknown option --size", "too old"),
        ("bwrap: something else", "docs/security.md"),
    ],
)
def test_what_bubblewrap_says_leads_to_a_remedy(words: str, remedy: str) -> None:
    assert remedy in probe._check("a sandbox starts", False, "", probe._remedy_for(words)).remedy


GOOD = {
    "namespaces": {"pid": "pid:[0]"},
    "outside_uid": 1000,
    "capabilities": ["0000000000000000"],
    "no_new_privileges": "1",
    "filtered": "2",
    "processes": [1, 2],
    "interfaces": ["lo"],
    "first_process": [],
    "write_root": "EROFS",
    "write_system": "EROFS",
    "write_own_file": "EACCES",
    "write_tmp": "",
    "internet_socket": "EAFNOSUPPORT",
    "vsock_socket": "EAFNOSUPPORT",
    "unix_socket": "",
    "calls": {
        "unshare": "EPERM",
        "add_key": "EPERM",
        "clone3": "ENOSYS",
        "io_uring_setup": "ENOSYS",
        "beyond": "ENOSYS",
    },
    "threads": 62,
    "descriptors": [0, 1, 2, 3],
}


def failed(**changes: object) -> list[str]:
    """Which checks fail for a sandbox that is good but for these facts."""
    return [check.name for check in probe._judge({**GOOD, **changes}) if not check.ok]


def test_a_good_sandbox_passes() -> None:
    assert failed() == []


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"namespaces": probe_inside.own_namespaces()}, "own namespaces"),
        ({"processes": [1, 2, 77]}, "own namespaces"),
        ({"interfaces": ["lo", "eth0"]}, "own namespaces"),
        ({"outside_uid": 0}, "no privileges"),
        ({"capabilities": ["00000000a80425fb"]}, "no privileges"),
        ({"no_new_privileges": "0"}, "no privileges"),
        ({"filtered": "0"}, "system call filter"),
        ({"vsock_socket": ""}, "system call filter"),
        ({"calls": {}}, "system call filter"),
        ({"write_system": ""}, "read-only"),
        ({"write_tmp": "EROFS"}, "read-only"),
        ({"first_process": ["environ"]}, "nothing inherited"),
        ({"descriptors": [0, 1, 2, 3, 9]}, "nothing inherited"),
        ({"threads": 3}, "process limit"),
        ({"threads": 128}, "process limit"),
    ],
)
def test_each_hole_is_noticed(changes: dict[str, object], check: str) -> None:
    assert failed(**changes) == [check]


def test_doctor_is_green_where_the_sandbox_works(run: Run) -> None:
    require("bubblewrap")
    done = run("doctor", "--json")
    document = json.loads(done.out)
    # Complete for strangers' bots only with control groups for everything.
    complete = not cgroup.hierarchies().missing()
    assert (done.status, document["sandbox"]) == (0 if complete else 1, complete)
    failed = [check["name"] for check in document["checks"] if check["needed"] and not check["ok"]]
    assert failed == ([] if complete else ["control groups"])
    assert all(check["meaning"] and check["remedy"] for check in document["checks"])


def test_doctor_says_what_to_do_where_it_does_not(no_bubblewrap: None, run: Run) -> None:
    done = run("doctor")
    assert done.status == 1
    assert "FAIL programs" in done.out
    assert "to do: install it: `apt-get install bubblewrap`" in done.out
    assert "run only bots that you trust" in done.out


LATE = probe.RunOutcome(False, None, "", "", None, None, is_silent=False)


def test_a_check_that_ran_out_of_time_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    require("bubblewrap")
    late = [check for check in probe.confinement(lambda: LATE) if not check.ok]
    monkeypatch.setattr(probe, "run", lambda *_, **__: LATE)
    late += [probe._bots_run(), probe._memory_bound(), probe._whole_tree_ends()]
    assert [check.name for check in late] == [
        "Python runs inside",
        "bots can run",
        "memory limit",
        "whole tree is killed",
    ]
    assert {check.found for check in late} == {f"no answer in {probe.TIMEOUT_MS // 1000} s"}
    assert {check.remedy for check in late} == {probe.TOO_LATE}
    # One that could not be started is no matter of time.
    failed = LATE._replace(setup_error="no bwrap", stderr="no bwrap")
    assert not failed.was_late


SOME = Path("/sys/fs/cgroup")
EVERYTHING = Hierarchies(memory=SOME, pids=SOME, core=SOME, cpu=SOME)


@pytest.mark.parametrize(
    ("places", "missing"),
    [
        (EVERYTHING, ""),
        (EVERYTHING._replace(cpu=None), "CPU shares"),
        (EVERYTHING._replace(core=None), "freezing, CPU time"),
        (Hierarchies(core=SOME), "memory, processes, CPU shares"),
        (Hierarchies(), "memory, processes, freezing, CPU time, CPU shares"),
    ],
)
def test_what_control_groups_lack_is_named_with_how_to_get_it(
    places: Hierarchies, missing: str
) -> None:
    check = probe.control_groups_check(places)
    assert check.ok is not bool(missing)
    assert check.found == (f"missing for: {missing}" if missing else "used for all")
    assert "-p Delegate=yes" in check.remedy
    assert "`Delegate=cpu memory pids` and `OOMPolicy=continue`" in check.remedy
    assert "complete" in probe.verdict([check])
    assert ("not complete" in probe.verdict([check])) is bool(missing)


def test_the_reason_why_a_group_has_no_bounds_is_said() -> None:
    refused = "session-7.scope has no Delegate=yes"
    check = probe.control_groups_check(Hierarchies(core=SOME, refused=refused))
    assert check.found == f"missing for: memory, processes, CPU shares: {refused}"


def test_each_user_is_told_the_scope_that_works(tmp_path: Path) -> None:
    known, scope = tmp_path / "1000", "systemd-run --user --scope -p Delegate=yes"
    known.mkdir()

    def told(user: int, **environment: str) -> str:
        return probe.own_scope(user, environment, tmp_path)

    assert "`systemd-run --scope -p Delegate=yes" in told(0)
    logged_in = told(1000, XDG_RUNTIME_DIR=str(known))
    assert scope in logged_in
    assert "ends when you log out, unless root has run `loginctl enable-linger 1000`" in logged_in
    changed = told(1000)  # by su or sudo: the user has a manager
    assert f"{scope} deepsea-referee ...`, after `export XDG_RUNTIME_DIR={known}`" in changed
    alone = told(1001)  # the user has none
    assert "after `loginctl enable-linger 1001` as root, then `export XDG_RUNTIME_DIR" in alone


def test_a_service_that_may_not_look_at_users_is_told_how_to_start_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As with ProtectHome=, where nothing below /run/user can be looked at."""

    def refused(_: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_dir", refused)
    assert "after `loginctl enable-linger 996` as root" in probe.own_scope(996, {})


def test_where_nobody_counts_what_a_bot_was_denied_doctor_says_so() -> None:
    check = probe.pressure_check(Hierarchies())
    assert not check.ok
    assert not check.needed
    assert "psi=1" in check.remedy


def test_a_sandbox_counts_every_process_where_the_kernel_does() -> None:
    assert Sandbox(EVERYTHING).counts_every_process
    assert not Sandbox(EVERYTHING._replace(core=None)).counts_every_process
    assert not PlainProcess().counts_every_process

"""List S: what a bot can do to the machine, to other bots and to the referee from a sandbox.

Each case runs a hostile program; the harness checks after each that nothing of it is left.
docs/dev/attacks.md has the table of cases. What bounds a bot is a control group or the watchdog: in
every run each attack meets one of them, and before a release both.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import secrets
import socket
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from attacks import guard
from attacks.harness import SMALL, Arena, Result, readable
from deepsea_referee.bots.output import KEPT_BYTES, OutputCapture
from deepsea_referee.sandbox import process_tree
from deepsea_referee.sandbox.bot_users import is_root
from deepsea_referee.sandbox.interface import LaunchSpec, ResourceLimits
from helpers.tiers import daily

DENIED = {"EPERM", "EACCES", "EROFS", "ENOENT"}
GROUPS, WATCHDOG = "control groups", "watchdog"


def bounded(by: str) -> pytest.MarkDecorator:
    """Parametrize with what bounds the bot in every run; a release tries both."""
    cases = daily([GROUPS, WATCHDOG], [by])
    return pytest.mark.parametrize("bounded_arena", cases, indirect=True)


def canary() -> str:
    """A planted secret."""
    return f"canary-{secrets.token_hex(16)}"


# ------------------------------------------------------------------------- processes and memory


@bounded(GROUPS)
def test_s01_fork_bomb_meets_the_limit(bounded_arena: Arena) -> None:
    result = bounded_arena.run("s01_fork_bomb")
    assert result.report["error"] == "EAGAIN"
    assert 0 < result.report["made"] < SMALL.processes


@bounded(WATCHDOG)
def test_s02_thread_bomb_meets_the_limit(bounded_arena: Arena) -> None:
    result = bounded_arena.run("s02_thread_bomb")
    assert "can't start new thread" in result.report["error"]
    assert 0 < result.report["made"] < SMALL.processes


def ended_by_memory(result: Result) -> None:
    """A program that took too much was ended, and the reason is known."""
    assert result.outcome.ended
    assert result.outcome.over_limit == "memory: more than 64 MiB"
    assert result.report == {}


@pytest.mark.parametrize(
    ("bounded_arena", "kind"),
    daily(
        product([GROUPS, WATCHDOG], ["private", "shared"]),
        [(GROUPS, "private"), (WATCHDOG, "shared")],
    ),
    indirect=["bounded_arena"],
)
def test_s03_memory_bomb_is_ended(bounded_arena: Arena, kind: str) -> None:
    ended_by_memory(bounded_arena.run("s03_memory_bomb", kind))


@bounded(WATCHDOG)
def test_s04_memory_of_many_children_is_ended(bounded_arena: Arena) -> None:
    ended_by_memory(bounded_arena.run("s04_memory_of_children"))


def test_s05_s06_memory_that_belongs_to_no_process_cannot_be_had(arena: Arena) -> None:
    report = arena.run("s05_s06_hidden_memory").report
    # Where the machine is a container, its filter of calls may refuse before the limit does.
    assert report.pop("mlock") in ("ENOMEM", "EPERM")
    assert report == {
        "shmget": "EPERM",
        "semget": "EPERM",
        "msgget": "EPERM",
        "mq_open": "EPERM",
        "memfd_create": "ENOSYS",
        "memfd_secret": "ENOSYS",
        "setxattr": "ENOTSUP",
    }


def test_s07_s09_only_a_little_can_be_written(arena: Arena) -> None:
    report = arena.run("s07_s09_fill_disk").report
    assert report["writable"] == ["/dev/shm", "/tmp"]
    assert report["long"] == "EFBIG"
    for place in ("tmp", "shm"):
        assert report[place]["error"] == "ENOSPC"
        assert 0 < report[place]["written"] <= SMALL.file_bytes
    assert report["kernel"] in DENIED
    assert report["sysrq"] in DENIED


@bounded(WATCHDOG)
def test_s08_empty_files_count_as_memory(bounded_arena: Arena) -> None:
    result = bounded_arena.run("s08_inodes")
    if result.report:  # a control group refuses instead of ending, now and then
        assert result.report["error"] == "ENOMEM"
    else:
        ended_by_memory(result)


# ----------------------------------------------------------------------------------- output


def captured(arena: Arena, program: str) -> str:
    """What is kept of the standard output of a program that runs to its end."""

    async def play() -> str:
        capture = OutputCapture()
        folder = arena.bot_folder(program)
        contained = arena.sandbox.spawn(
            LaunchSpec(
                (sys.executable, "program.py"),
                folder,
                {guard.HOST_VARIABLE: json.dumps(guard.namespaces())},
                None,
                capture.writing,
                2,
                SMALL,
            )
        )
        capture.close_writing()
        handle = os.pidfd_open(contained.pid)
        ended = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().add_reader(handle, ended.set_result, None)
        try:
            await asyncio.wait_for(ended, 60)
        finally:
            asyncio.get_running_loop().remove_reader(handle)
            os.close(handle)
            assert contained.poll() == 0
            contained.close()
            capture.finish()
        return capture.tail.text()

    return asyncio.run(play())


def test_s10_a_flood_of_output_is_cut(arena: Arena) -> None:
    kept = captured(arena, "s10_flood")
    assert "bytes left out" in kept
    assert len(kept) < KEPT_BYTES + 200


def test_s11_strange_output_is_escaped(arena: Arena) -> None:
    kept = captured(arena, "s11_strange_output")
    assert kept.isprintable()
    assert "\\x1b[2J" in kept


# ---------------------------------------------------------------------------------- secrets


def test_s12_s13_planted_secrets_are_not_found(
    arena: Arena, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = [tmp_path / "other_bot" / "bot.py", tmp_path / "ladder.db", tmp_path / "token"]
    for path in named:
        path.parent.mkdir(exist_ok=True)
        path.write_text(canary())
        path.chmod(0o644)
    # In the referee's environment and working memory, where process 1 might have it from.
    monkeypatch.setenv("DATABASE_URL", canary())
    result = arena.run(
        "s12_read_canaries", *map(str, named), environment={"OWN": canary()}, milliseconds=60_000
    )
    report = result.report
    assert set(report["named"]) == {"ENOENT"}
    assert report["own_environment_is_seen"]
    # Its own environment is all that it finds: process 2 is the bot, process 1 is covered.
    assert report["found"] == []
    assert report["found_in_proc"] == ["/proc/2/environ"]
    assert report["of_1"] == []
    assert report["kcore"] in DENIED


def test_s14_other_processes_cannot_be_read_or_traced(arena: Arena) -> None:
    for attempts in arena.run("s14_other_processes").report.values():
        assert set(attempts.values()) == {"EPERM"}


def test_s15_signals_reach_only_its_own(arena: Arena) -> None:
    outsider = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        report = arena.run("s15_signals", str(outsider.pid)).report
        assert outsider.poll() is None
    finally:
        outsider.kill()
        outsider.wait()
    # Process 1, its parent, cannot be ended or stopped from within; nobody else is in sight.
    assert report == {
        "everybody": "ESRCH",
        "first": "",
        "first_stop": "",
        "parent": "",
        "outside": "ESRCH",
        "outside_group": "ESRCH",
        "outside_handle": "ESRCH",
        "in_sight": [1, 2],
    }


def test_s16_s17_no_way_to_anybody_elses_socket(arena: Arena, tmp_path: Path) -> None:
    abstract = f"deepsea-test-{secrets.token_hex(8)}"
    others, own = tmp_path / "others.sock", tmp_path / "own.sock"
    listeners = [socket.create_server(("127.0.0.1", 0))]
    port = listeners[0].getsockname()[1]
    with contextlib.suppress(OSError):  # no IPv6 on this machine
        listeners.append(socket.create_server(("::1", port), family=socket.AF_INET6))
    for address in (f"\0{abstract}", str(others), str(own)):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(address)
        listener.listen()
        listeners.append(listener)
    try:
        result = arena.run("s16_network", str(port), abstract, str(others), socket=own)
        called = [readable(listener.fileno(), 0) for listener in listeners]
    finally:
        for listener in listeners:
            listener.close()
    report = result.report
    assert report.pop("own_path") == ""
    assert report.pop("others_path") == "ENOENT"
    assert report.pop("abstract") == "ECONNREFUSED"
    assert set(report.values()) == {"EAFNOSUPPORT"}
    assert called == [False] * (len(listeners) - 1) + [True]


def test_s18_no_word_passes_between_two_sandboxes(arena: Arena) -> None:
    with arena.started("s18_channel", "sender") as sender:
        sent = sender.read_report()
        received = arena.run("s18_channel", "receiver").report
    for name in ("flock", "fcntl", "ofd"):
        assert sent[name] == received[name] == "ENOLCK"
    for name in ("lease", "notify"):
        assert sent[name] == "ENOLCK"
    assert sent["keyring"] == sent["keyctl"] == "EPERM"
    assert sent["inotify"] == sent["page_cache"] == "ENOSYS"
    assert "word" not in received["tmp"]
    assert received["shm"] == []
    assert received["abstract"] == "ECONNREFUSED"
    assert received["host_name"] == "bot"


@pytest.mark.skipif(not is_root(), reason="only root gives each sandbox a user of its own")
def test_s33_what_is_counted_for_each_user_cannot_be_used_up_for_others(arena: Arena) -> None:
    with arena.started("s33_in_flight", "burner") as burner:
        taken = burner.read_report()
        # The descriptor of its first process is opened now, and none of the victim's.
        burner.contained.check_limits()
        report = arena.run("s33_in_flight", "victim").report
    assert (taken["first"], taken["again"]) == ("", "ETOOMANYREFS")
    assert taken["pipe"] < 65536
    assert report == {"send": "", "pipe": 65536}


# ----------------------------------------------------------------------------------- rights


def test_s19_the_kernels_side_doors_are_shut(arena: Arena) -> None:
    report = arena.run("s19_kernel").report
    missing = {"clone3", "io_uring_setup", "io_uring_enter", "beyond", "x32"}
    in_32_bit = report.pop("32-bit", None)
    assert {name for name, error in report.items() if error == "ENOSYS"} == missing
    assert {error for name, error in report.items() if name not in missing} == {"EPERM"}
    # SIGSYS from the filter; SIGSEGV where the kernel has no 32-bit calls at all.
    assert in_32_bit in (None, -31, -11)


def test_s20_s21_s29_no_rights_can_be_gained(arena: Arena) -> None:
    report: dict[str, Any] = arena.run("s20_s21_rights").report
    assert report.pop("suid") >= 0
    assert report.pop("suid_is_ignored") is True
    assert report.pop("own_suid") == "1000"
    assert "not allowed" in report.pop("raise_limit")
    assert report.pop("terminal") == report.pop("new_terminal") == "ENOENT"
    assert report.pop("autogroup") == report.pop("oom") == "EROFS"
    assert report.pop("oom_score_adj") == "1000"
    assert set(report.values()) <= {"EPERM", "EACCES", "EINVAL"}, report


def test_s36_threads_are_neither_placed_nor_ranked_but_may_yield(arena: Arena) -> None:
    assert arena.run("s36_placement").report == {
        "nice": "EPERM",
        "setpriority": "EPERM",
        "ioprio_set": "EPERM",
        "sched_setscheduler": "EPERM",
        "sched_setparam": "EPERM",
        "sched_setattr": "EPERM",
        "sched_setaffinity": "EPERM",
        "sync": "EPERM",
        "syncfs": "EPERM",
        "sync_file_range": "ENOSYS",
        "io_setup": "ENOSYS",
        "drop_pages": "EPERM",
        "page_out": "EINVAL",
        "hint": "ENOLCK",
        "set_hint": "ENOLCK",
        "sched_yield": "",
        "sched_getaffinity": "",
        "sched_getscheduler": "",
        "getpriority": "",
        "fsync": "",
    }


def test_s22_own_code_and_libraries_cannot_be_changed(arena: Arena) -> None:
    report = arena.run("s22_own_code").report
    assert report.pop("link") in ("EXDEV", "EROFS", "EPERM")
    assert report.pop("own_rename") in ("EBUSY", "EROFS", "EACCES", "EXDEV")
    assert set(report.values()) <= {"EROFS", "EACCES", "EPERM"}, report


# ------------------------------------------------------------------------------- the end


# The kernel ends all of them in the same way.
@pytest.mark.parametrize(
    ("bounded_arena", "how"),
    daily(
        product([GROUPS, WATCHDOG], ["tree", "zombies", "ignore", "stop"]),
        [(GROUPS, "tree"), (WATCHDOG, "stop")],
    ),
    indirect=["bounded_arena"],
)
def test_s23_to_s27_whatever_it_does_it_is_gone_when_it_is_closed(
    bounded_arena: Arena, how: str
) -> None:
    with bounded_arena.started("s23_hard_to_end", how) as running:
        running.read_report()
        running.contained.kill()
        assert process_tree.wait_for_end(running.contained.pid, 5_000)
        running.contained.close()
        # Every process that had the pipe is gone: it is at its end.
        assert readable(running.stdout, 0)
        assert os.read(running.stdout, 1) == b""


@bounded(GROUPS)
def test_s23_s24_a_daemon_that_holds_the_output_goes_with_the_bot(bounded_arena: Arena) -> None:
    with bounded_arena.started("s23_hard_to_end", "daemon") as running:
        running.read_report()
        assert process_tree.wait_for_end(running.contained.pid, 10_000)
        assert running.contained.poll() == 7
        # Nobody killed anything yet: the sandbox ends with the bot's first process.
        assert readable(running.stdout, 5_000)
        assert os.read(running.stdout, 1) == b""


def test_s28_abort_leaves_no_core_file(arena: Arena) -> None:
    result = arena.run("s28_abort")
    assert result.outcome.returncode == 128 + 6
    # One byte: no core file, and no core dump program of the host is started either.
    # Zero where this process itself has no more.
    assert result.report["core_limit"] in ([1, 1], [0, 0])


def test_s30_s31_descriptors_are_its_own_and_bounded(arena: Arena) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    report = arena.run("s30_s31_descriptors").report
    assert report["inherited"] == [0, 1, 2]
    assert report["kinds"][:2] == ["/dev/null", "pipe"]
    assert report["error"] == "EMFILE"
    assert report["opened"] < SMALL.open_files
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before
    os.close(os.open(os.devnull, os.O_RDONLY))


@pytest.mark.release  # The limits of all other attacks here are chosen, too.
def test_limits_can_be_chosen(arena: Arena) -> None:
    roomy = ResourceLimits()
    result = arena.run("s02_thread_bomb", limits=roomy)
    assert SMALL.processes < result.report["made"] < roomy.processes

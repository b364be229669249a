"""Looking at processes through /proc."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from typing import NoReturn

import pytest

from deepsea_referee.sandbox import process_tree
from deepsea_referee.sandbox.interface import ThreadTimes
from helpers.programs import hide, soon

GONE = 2**22 + 1
"""A number beyond the largest one that a process can have."""


def no_descriptor(*_: object, **__: object) -> NoReturn:
    raise OSError(errno.EMFILE, "Too many open files")


def test_a_tree_is_found_and_memory_that_it_shares_counts_once_if_that_matters() -> None:
    program = "import os; os.fork(); print('on', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == process.stdout.readline() == b"on\n"
        tree = process_tree.tree(process.pid)
        (tasks, most), (_, exact) = (process_tree.usage(tree, limit) for limit in (1 << 40, 0))
        assert len(tree) == tasks == 2
        assert 0 < exact < most
        process.communicate(b"\n")


def test_a_tree_that_had_no_cpu_time_is_not_read_again() -> None:
    # Its child starts another process while it itself does nothing.
    program = """
import os
here, there = os.pipe()
if os.fork():
    os.read(0, 1)
    os.close(there)
else:
    os.close(there)
    os.read(here, 1)
    os.fork()
    print("on", flush=True)
os.read(0, 1)
"""
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        activity = process_tree.TreeActivity()
        assert len(activity.tree_if_active(process.pid)) >= 1
        assert soon(lambda: len(process_tree.tree(process.pid)) == 2)
        assert soon(lambda: not activity.tree_if_active(process.pid))
        assert activity.tree_if_active(process.pid) == []
        process.stdin.write(b"x")
        process.stdin.flush()
        assert process.stdout.readline() == b"on\n"
        assert len(activity.tree_if_active(process.pid)) == 3
        process.communicate()


def test_what_is_gone_counts_as_nothing() -> None:
    assert process_tree.tree(GONE) == [GONE]
    assert process_tree.cpu_us(GONE) == 0
    assert process_tree.threads([GONE]) == {}
    assert not process_tree.is_ready(GONE)
    assert process_tree.usage([GONE], -1) == (0, 0)
    assert process_tree.is_stopped(GONE)


def test_what_cannot_be_read_for_want_of_descriptors_is_an_error_and_not_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = os.getpid()
    monkeypatch.setattr(os, "open", no_descriptor)
    monkeypatch.setattr(os, "listdir", no_descriptor)
    for read in (
        lambda: process_tree.usage([here], 1 << 40),
        lambda: process_tree.usage([here], -1),
        lambda: process_tree.tree(here),
        lambda: process_tree.threads([here]),
        lambda: process_tree.start_time(here),
        lambda: process_tree.is_stopped(here),
        lambda: process_tree.is_ready(here),
        lambda: process_tree.cpu_us(here),
        lambda: process_tree.host_cpu_us(None),
        lambda: process_tree.environment_and_command(here),
    ):
        with pytest.raises(OSError, match="Too many open files"):
            read()


def test_a_process_has_ended_only_if_that_is_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", "input()"],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        pid, began = process.pid, process_tree.start_time(process.pid)
        assert not process_tree.has_ended(pid)
        assert not process_tree.has_ended(pid, began)
        assert process_tree.has_ended(pid, began + 1)  # it is another one with that number
        with monkeypatch.context() as patch:
            hide(patch, pid)
            assert process_tree.start_time(pid) == 0
            assert not process_tree.has_ended(pid, began)
            assert not process_tree.has_ended(pid, began + 1)  # who knows
            assert not process_tree.is_stopped(pid)
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", no_descriptor)
            assert not process_tree.has_ended(pid, began)
        process.kill()
        assert process_tree.wait_for_end(pid, 60_000)
        assert process_tree.has_ended(pid, began)  # nobody has waited for it
    assert process_tree.has_ended(pid, began)
    assert process_tree.has_ended(GONE)
    assert process_tree.has_ended(1 << 80)
    with monkeypatch.context() as patch:
        hide(patch, 1)  # another user's, if this is not root
        assert not process_tree.has_ended(1)


def test_ones_own_cpu_time_is_that_of_the_clock() -> None:
    before = os.times()
    used = process_tree.cpu_us(os.getpid())
    # os.times counts in ticks of 10 ms.
    known = sum((before.user, before.system, before.children_user, before.children_system))
    assert abs(used / 1e6 - known) < 0.5


def test_what_a_thread_has_waited_counts_on_when_it_ends() -> None:
    looks = [
        {7: 500, 8: 100},
        {7: 600, 8: 100, 9: 30},  # another one began and has waited
        {8: 100, 9: 50},  # the one that had waited most is gone
        {7: 40, 8: 100, 9: 50},  # its number is used anew
        {},  # all are gone
    ]
    waits = process_tree.WaitSum()
    sums = [waits.add_reading({t: ThreadTimes(0, us) for t, us in look.items()}) for look in looks]
    assert sums == [600, 730, 750, 790, 790]


def test_threads_of_several_processes_are_seen_each_with_its_times() -> None:
    own = process_tree.threads([os.getpid()])
    assert own[threading.get_native_id()].cpu_us > 0
    assert own.keys() <= process_tree.threads(process_tree.tree(os.getpid())).keys()


def test_the_host_uses_at_least_what_this_process_uses() -> None:
    known = os.times()
    used_us = (known.user + known.system) * 1e6
    assert process_tree.host_cpu_us(None) > used_us / 2
    assert process_tree.host_cpu_us(range(os.cpu_count() or 1)) > used_us / 2

"""What both levels promise: start, measure, freeze, end, and leave nothing."""

from __future__ import annotations

import gc
import os
import resource
import select
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deepsea_referee.sandbox import cgroup, cleanup, probe, process_tree
from deepsea_referee.sandbox.bubblewrap import Sandbox
from deepsea_referee.sandbox.cgroup import Hierarchies, hierarchies
from deepsea_referee.sandbox.interface import (
    MIB,
    IsolatedProcess,
    Isolation,
    LaunchSpec,
    ResourceLimits,
)
from deepsea_referee.sandbox.plain_process import PlainProcess
from deepsea_sdk.entropy import fresh_token
from helpers.programs import needs_groups, open_descriptors, processes_with, soon
from helpers.tools import require

PYTHON = (sys.executable, "-I", "-S", "-c")
SPIN = "print('on', flush=True)\nwhile True: pass"
SILENT = "print('on')"
WAIT = "import time\nprint('on', flush=True)\ntime.sleep(60)"


@pytest.fixture(params=["process", "sandbox", "sandbox without control groups"])
def isolation(request: pytest.FixtureRequest) -> Isolation:
    """Every way of starting a bot that this machine has."""
    if request.param == "process":
        return PlainProcess()
    require("bubblewrap")
    if request.param == "sandbox":
        if not hierarchies().folders():
            pytest.skip("no control group can be made here")
        return Sandbox()
    return Sandbox(Hierarchies())


@contextmanager
def running(
    isolation: Isolation, program: str, limits: ResourceLimits | None = None
) -> Iterator[IsolatedProcess]:
    """A Python program that has printed its first line."""
    reading, writing = os.pipe()
    contained = None
    try:
        launch = LaunchSpec(
            (*PYTHON, program), None, {}, None, writing, 2, limits or ResourceLimits()
        )
        contained = isolation.spawn(launch)
        os.close(writing)
        writing = -1
        assert os.read(reading, 1), "it ended before it printed anything"
        yield contained
    finally:
        if writing >= 0:
            os.close(writing)
        os.close(reading)
        if contained is not None:
            contained.close()


def pass_time(milliseconds: int) -> None:
    """Nothing is waited for: what is asked is what somebody else does in the meantime."""
    select.poll().poll(milliseconds)


def grows(contained: IsolatedProcess) -> bool:
    """Whether its CPU time grows within ten seconds."""
    before = contained.cpu_us()
    for _ in range(500):
        if contained.cpu_us() > before + 1_000:
            return True
        pass_time(20)
    return False


def test_output_status_and_environment(isolation: Isolation) -> None:
    program = "import os, sys; print(os.environ['WORD'], os.getcwd()); sys.exit(3)"
    outcome = probe.run(
        isolation, (*PYTHON, program), folder=Path("/usr"), environment={"WORD": "hello"}
    )
    assert (outcome.ended, outcome.returncode) == (True, 3)
    assert outcome.stdout == "hello /usr\n"
    assert outcome.setup_error is None
    assert outcome.over_limit is None


def test_the_referees_environment_is_not_handed_down(
    isolation: Isolation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "secret")
    outcome = probe.run(isolation, (*PYTHON, "import os; print('DATABASE_URL' in os.environ)"))
    assert outcome.stdout == "False\n"


def test_the_address_is_the_socket_as_the_bot_sees_it(isolation: Isolation, tmp_path: Path) -> None:
    path = tmp_path / "door.sock"
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(path))
        door.listen()
        program = (
            "import os, socket\n"
            "address = os.environ['DEEPSEA_ADDRESS'].removeprefix('unix:')\n"
            "socket.socket(socket.AF_UNIX).connect(address)"
        )
        outcome = probe.run(isolation, (*PYTHON, program), socket=path)
    assert outcome.stderr == ""
    assert outcome.returncode == 0


def test_bots_can_import_the_sdk(isolation: Isolation) -> None:
    outcome = probe.run(isolation, (sys.executable, "-c", "import deepsea_sdk.client"))
    assert outcome.stderr == ""
    assert outcome.returncode == 0


def test_a_program_that_does_not_exist(isolation: Isolation, tmp_path: Path) -> None:
    try:
        outcome = probe.run(isolation, ("no-such-program-anywhere",), folder=tmp_path)
    except OSError:
        return
    # 126 if some folder on PATH may not be looked into.
    assert outcome.returncode in (126, 127)
    assert "no-such-program-anywhere" in outcome.stderr
    # The bot is at fault, not the isolation.
    assert outcome.setup_error is None


def test_cpu_time_grows_while_it_works_and_stands_while_it_is_frozen(isolation: Isolation) -> None:
    with running(isolation, SPIN) as contained:
        assert grows(contained)
        if isolation.name == "process":
            contained.freeze()
            assert grows(contained)  # trusted: never frozen
            return
        contained.freeze()
        contained.freeze()
        before = contained.cpu_us()
        pass_time(200)
        # It may still have worked for a moment while the freeze took hold.
        settled = contained.cpu_us()
        pass_time(200)
        assert contained.cpu_us() == settled
        assert settled >= before
        contained.thaw()
        assert grows(contained)
        assert contained.poll() is None


@contextmanager
def no_descriptor() -> Iterator[None]:
    """No file can be opened meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("call", ["freeze", "thaw"])
def test_at_want_of_descriptors_a_bot_is_frozen_and_thawed_or_ended_and_not_at_fault(
    isolation: Isolation, call: str
) -> None:
    if isolation.name == "process":
        pytest.skip("it is trusted: never frozen")
    with running(isolation, SPIN) as contained:
        assert grows(contained)
        if call == "thaw":
            contained.freeze()
        with no_descriptor():
            getattr(contained, call)()
        if contained.check_error is not None:
            assert process_tree.wait_for_end(contained.pid, 5_000)
        elif call == "thaw":
            assert grows(contained)
        else:
            pass_time(200)
            settled = contained.cpu_us()
            pass_time(200)
            assert contained.cpu_us() == settled
        assert contained.over_limit() is None


def test_cpu_time_of_children_counts(isolation: Isolation) -> None:
    program = (
        "import os\nif os.fork() == 0:\n    sum(range(10**7))\n    os._exit(0)\nos.wait()\n" + WAIT
    )
    with running(isolation, program) as contained:
        # Ticks of 10 ms may be all that is known of an ended child.
        assert contained.cpu_us() > 50_000


def test_cpu_time_never_decreases_and_outlives_the_bot(isolation: Isolation) -> None:
    with running(isolation, "sum(range(10**6))\n" + WAIT) as contained:
        used = contained.cpu_us()
        assert used > 0
        contained.kill()
        assert process_tree.wait_for_end(contained.pid, 5_000)
        contained.poll()
        assert contained.cpu_us() >= used
        contained.close()
        assert contained.cpu_us() >= used


def test_waiting_for_a_cpu_is_known(isolation: Isolation) -> None:
    with running(isolation, WAIT) as contained:
        assert all(times.waited_us >= 0 for times in contained.threads().values())
        assert contained.threads()
        first = contained.denied_us()
        contained.close()
        assert contained.threads() == {}
        last = contained.denied_us()
        assert (first is None) is (last is None)
        assert (last or 0) >= (first or 0) >= 0


@pytest.mark.parametrize(
    ("program", "ready"), [(SPIN, True), (WAIT, False)], ids=["spins", "waits"]
)
def test_whether_it_is_ready_is_known(isolation: Isolation, program: str, ready: bool) -> None:
    with running(isolation, program) as contained:
        assert soon(lambda: contained.is_ready() is ready)
        contained.close()
        contained.poll()
        assert not contained.is_ready()


def test_a_killed_bot_is_not_frozen_again(isolation: Isolation) -> None:
    # The watchdog's thread may kill a bot while the event loop is about to freeze it.
    with running(isolation, SPIN) as contained:
        contained.kill()
        contained.freeze()
        assert process_tree.wait_for_end(contained.pid, 5_000)


def test_a_frozen_bot_can_be_ended(isolation: Isolation) -> None:
    with running(isolation, SPIN) as contained:
        contained.freeze()
        contained.kill()
        contained.kill()
        assert process_tree.wait_for_end(contained.pid, 5_000)
        assert contained.poll() in (-9, 128 + 9)
        assert contained.setup_error() is None


def test_closing_twice_and_calling_after_the_end_do_no_harm(isolation: Isolation) -> None:
    with running(isolation, WAIT) as contained:
        contained.close()
        contained.close()
        contained.kill()
        contained.freeze()
        contained.thaw()
        assert contained.poll() == contained.returncode
        assert contained.over_limit() is None


def test_ending_it_at_once_leaves_nothing(isolation: Isolation) -> None:
    for _ in range(4):
        word = fresh_token()
        contained = isolation.spawn(
            LaunchSpec((*PYTHON, WAIT), None, {"WORD": word}, None, 2, 2, ResourceLimits())
        )
        contained.kill()
        contained.close()
        assert contained.returncode is not None
        assert processes_with(word) == []


def test_nothing_is_left_open(isolation: Isolation) -> None:
    with running(isolation, WAIT):
        pass  # what is made once in a process is there from now on
    gc.collect()  # what other tests left may hold some
    before = open_descriptors()
    with running(isolation, WAIT):
        pass
    assert open_descriptors() == before


def test_too_much_memory_is_named(isolation: Isolation) -> None:
    program = "import time\nprint('on', flush=True)\nheld = b'x' * (128 << 20)\ntime.sleep(60)"
    with running(isolation, program, ResourceLimits(memory_bytes=64 * MIB)) as contained:
        assert process_tree.wait_for_end(contained.pid, 20_000)
        contained.poll()
        assert contained.over_limit() == "memory: more than 64 MiB"


@pytest.fixture
def short_of_memory() -> Iterator[Hierarchies]:
    """Control groups below one that has 96 MiB: for bots it is as if this machine had no more."""
    require("bubblewrap")
    places = needs_groups()
    assert places.memory is not None
    parent = places.memory / cleanup.new_name()
    parent.mkdir()
    try:
        is_v2 = (parent / "memory.max").exists()
        (parent / ("memory.max" if is_v2 else "memory.limit_in_bytes")).write_text(f"{96 * MIB}")
        cgroup.write(parent / "memory.swap.max", "0")
        cgroup.write(parent / "cgroup.subtree_control", "+memory +pids")
        if is_v2:
            yield places._replace(memory=parent, pids=parent, core=parent, pressure=None, cpu=None)
        else:
            yield places._replace(memory=parent)
    finally:
        parent.rmdir()


BIG = "print('on', flush=True)\nheld = bytearray(192 << 20)\nimport signal; signal.pause()"


def test_a_bot_within_its_limit_is_not_blamed_for_a_machine_without_memory(
    short_of_memory: Hierarchies,
) -> None:
    with running(Sandbox(short_of_memory), BIG) as contained:
        assert process_tree.wait_for_end(contained.pid, 30_000)
        contained.poll()
        assert contained.over_limit() is None
        assert contained.out_of_memory()
        assert contained.setup_error() is None
    assert contained.out_of_memory()


def test_a_bot_over_its_limit_is_blamed_on_a_machine_without_memory_too(
    short_of_memory: Hierarchies,
) -> None:
    limits = ResourceLimits(memory_bytes=64 * MIB)
    with running(Sandbox(short_of_memory), BIG, limits) as contained:
        assert process_tree.wait_for_end(contained.pid, 30_000)
        assert contained.over_limit() == "memory: more than 64 MiB"
        assert not contained.out_of_memory()


@pytest.mark.parametrize("without_groups", ["process", "sandbox"])
def test_without_a_group_the_count_of_this_machine_tells_why_a_bot_was_killed(
    without_groups: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    isolation: Isolation = PlainProcess()
    if without_groups == "sandbox":
        require("bubblewrap")
        isolation = Sandbox(Hierarchies())
    killed = "import os, signal\nprint('on', flush=True)\nos.kill(os.getpid(), signal.SIGKILL)"
    kills = [7]
    monkeypatch.setattr(process_tree, "oom_kills", lambda: kills[0])
    for program, more, by_us, expected in (
        (killed, 0, False, False),  # it killed itself, or somebody else did
        (killed, 1, False, True),
        (WAIT, 1, True, False),  # the referee did, and another process was short of memory
        (SILENT, 1, False, False),
    ):
        with running(isolation, program) as contained:
            kills[0] += more
            if by_us:
                contained.kill()
            assert process_tree.wait_for_end(contained.pid, 30_000)
            assert contained.out_of_memory() is expected
            contained.poll()
            assert contained.out_of_memory() is expected


def test_memory_that_children_share_counts_once(isolation: Isolation) -> None:
    program = (
        "import os, time\n"
        "held = b'x' * (24 << 20)\n"
        "for _ in range(5):\n"
        "    if os.fork() == 0: time.sleep(60)\n" + WAIT
    )
    # The sum of what the six have in memory is more than the limit, what they hold is less.
    with running(isolation, program, ResourceLimits(memory_bytes=100 * MIB)) as contained:
        assert not process_tree.wait_for_end(contained.pid, 500)
        assert contained.over_limit() is None


def test_limits_are_set(isolation: Isolation) -> None:
    program = (
        "import resource as r, sys\n"
        "print(*[r.getrlimit(n)[1] for n in (r.RLIMIT_NOFILE, r.RLIMIT_FSIZE)])\n"
    )
    limits = ResourceLimits(open_files=100, file_bytes=MIB)
    # A plain process gets its limits a moment after its start.
    program = "import time; time.sleep(0.2)\n" + program
    assert probe.run(isolation, (*PYTHON, program), limits=limits).stdout == f"100 {MIB}\n"

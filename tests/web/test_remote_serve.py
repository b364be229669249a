"""`ladder serve` as a whole: the runner beside it, certificates, and what it refuses to serve."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import signal
import socket
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from deepsea_arena.api.errors import ApiError
from deepsea_ladder.limits import RemoteLimits
from deepsea_ladder.store import Store
from deepsea_referee.errors import UserError
from deepsea_web.access import Access, Certificate
from deepsea_web.gateway import Slots
from deepsea_web.serve import FIRST_PAUSE_S, HEALTHY_S, RunnerProcess, runner_command
from helpers import certificates, ladder
from helpers.commands import Run, one_line, serving
from helpers.manual_clock import ManualClock
from helpers.members import a_service
from helpers.programs import children, has_ended
from helpers.site import a_site, get

PYTHON = sys.executable


# The runner


def see(tmp_path: Path, text: str) -> list[str]:
    """A command that is a Python program."""
    program = tmp_path / "seen.py"
    program.write_text(text, encoding="utf-8")
    return [PYTHON, str(program)]


REPORT = """
import os, pathlib, sys
found = []
for name in os.listdir("/proc/self/fd"):
    try:
        found.append(os.readlink(f"/proc/self/fd/{name}"))
    except OSError:
        pass
pathlib.Path(sys.argv[1]).write_text("\\n".join(found))
pathlib.Path(sys.argv[2]).write_text("\\n".join(f"{k}={v}" for k, v in os.environ.items()))
"""


def test_the_runner_gets_no_socket_key_or_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DEEPSEA_LADDER_TOKEN", "DEEPSEA_TOKEN"):
        monkeypatch.setenv(name, "dsl_nobody-may-see-this")
    key = tmp_path / "key.pem"
    key.write_text("a key", encoding="ascii")
    files, variables = tmp_path / "files", tmp_path / "variables"
    command = [*see(tmp_path, REPORT), str(files), str(variables)]

    async def main() -> None:
        clock = ManualClock()
        runner = RunnerProcess(command, "/srv/ladder.db", clock)
        await runner.start()
        await runner.ended.wait()
        await runner.stop()

    with socket.create_server(("127.0.0.1", 0)) as listening, key.open() as secret:
        # Even if something made them inheritable.
        for one in (listening.fileno(), secret.fileno()):
            os.set_inheritable(one, True)
        asyncio.run(main())
    opened = files.read_text(encoding="utf-8").splitlines()
    assert [one for one in opened if "socket:" in one or "key.pem" in one] == []
    environment = variables.read_text(encoding="utf-8").splitlines()
    assert "DEEPSEA_LADDER=/srv/ladder.db" in environment
    assert [one for one in environment if "nobody-may-see-this" in one] == []


def test_the_runners_command_names_no_store() -> None:
    """Other users of the machine can read command lines, and a store's may have a password."""
    assert runner_command(3)[-4:] == ["run", "--forever", "--workers", "3"]
    assert runner_command(3, "settled")[-3:] == ["3", "--until", "settled"]


async def test_a_runner_that_ends_is_started_again_later_each_time(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = see(tmp_path, f"import pathlib; pathlib.Path({str(log)!r}).open('a').write('x')")

    clock = ManualClock()
    runner = RunnerProcess(command, "", clock)
    await runner.start()
    pause = FIRST_PAUSE_S
    for times in (1, 2, 3):
        await runner.ended.wait()
        assert log.read_text() == "x" * times
        clock.jump(pause * 1_000_000 - 1)
        assert runner.pid is None
        runner.ended.clear()
        clock.jump(1)
        pause *= 2
    await runner.ended.wait()
    await runner.stop()


async def test_a_runner_that_lived_for_a_while_is_started_again_soon(tmp_path: Path) -> None:
    log, go = tmp_path / "log", tmp_path / "go"
    os.mkfifo(go)
    text = f"import pathlib; pathlib.Path({str(log)!r}).open('a').write('x')\nopen({str(go)!r})"
    clock = ManualClock()
    runner = RunnerProcess(see(tmp_path, text), "", clock)
    await runner.start()
    for lived_s, pause in ((0, 2), (0, 4), (HEALTHY_S - 1, 8), (HEALTHY_S, 2), (0, 4)):
        clock.jump(lived_s * 1_000_000)
        with await asyncio.to_thread(go.open, "w"):
            await runner.ended.wait()
        runner.ended.clear()
        clock.jump(pause * 1_000_000 - 1)
        assert runner.pid is None
        clock.jump(1)
        while runner.pid is None:
            await asyncio.to_thread(int)  # what is due happens
    await runner.stop()


@contextmanager
def no_free_descriptor() -> Iterator[None]:
    """Let this process open no file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_a_runner_that_cannot_be_started_is_tried_again_later_each_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failed = "the runner cannot be started: Too many open files; another try soon"
    ended = "the runner has ended with status 0; another starts soon"
    clock = ManualClock()
    runner = RunnerProcess(["true"], "", clock)
    with no_free_descriptor():
        await runner.start()
    await runner.stop()
    assert caplog.messages == [failed]

    runner = RunnerProcess([PYTHON, "-c", ""], "", clock)
    await runner.start()
    await runner.ended.wait()
    for pause in (FIRST_PAUSE_S, 2 * FIRST_PAUSE_S):
        runner.ended.clear()
        with no_free_descriptor():
            clock.jump(pause * 1_000_000 - 1)
            await asyncio.to_thread(int)  # what is due happens
            assert not runner.ended.is_set()
            clock.jump(1)
            await runner.ended.wait()
    runner.ended.clear()
    clock.jump(4 * FIRST_PAUSE_S * 1_000_000)
    await runner.ended.wait()
    await runner.stop()
    assert caplog.messages == [failed, ended, failed, failed, ended]


async def test_a_runner_that_does_not_end_is_killed(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    command = see(
        tmp_path,
        "import pathlib, signal\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"pathlib.Path({str(ready)!r}).write_text('')\n"
        "while True: signal.pause()\n",
    )

    clock = ManualClock()
    runner = RunnerProcess(command, "", clock)
    await runner.start()
    pid = runner.pid
    assert pid is not None
    await asyncio.to_thread(ready.read_bytes)
    stopping = asyncio.create_task(runner.stop())
    await asyncio.sleep(0)  # noqa: TID251  (it begins)
    clock.jump(60_000_000)
    await stopping
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_runner_ends_with_its_server_however_that_ends(
    played: Store, end: signal.Signals
) -> None:
    with serving(played.database) as (process, _):
        assert process.stdout is not None
        assert process.stdout.readline() == "a runner with 1 worker plays and checks bots\n"
        (runner,) = map(os.pidfd_open, children(process.pid))
        process.send_signal(end)
        assert process.wait() == (-end if end == signal.SIGKILL else 0)
        assert has_ended(runner)


# What is refused


def test_nobody_elses_machine_meets_a_season_without_a_sandbox(run: Run, tmp_path: Path) -> None:
    place = tmp_path / "ladder.db"
    with ladder.created(place) as store:
        ladder.submit(store, "anna")
        store.seasons.open(replace(ladder.a_season(), isolation="process"), ladder.SEED)
    made = certificates.make(tmp_path)
    tls = ("--tls-cert", made.certificate, "--tls-key", made.key)
    for options in (
        ("--trusted-proxy", "127.0.0.1"),
        ("--host", "0.0.0.0", "--public-url", "https://x.example", *tls),
    ):
        done = run("ladder", "serve", "--no-run", "--port", "0", "--store", place, *options)
        assert done.status == 2
        assert "plays bots without a sandbox" in one_line(done.err)
    with Store.open(place) as store:
        store.seasons.close("s1")


def test_workers_need_a_runner(run: Run, played: Store) -> None:
    place = played.database.path
    done = run("ladder", "serve", "--store", place, "--no-run", "--workers", "1")
    assert done.status == 2
    assert "--no-run starts none" in one_line(done.err)


# Certificates


async def test_a_pair_that_changes_is_read_again_and_half_a_pair_is_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old, new = (certificates.make(tmp_path, name) for name in ("old", "new"))
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"

    def put(made: certificates.Made) -> None:
        shutil.copy(made.certificate, chain)
        shutil.copy(made.key, key)

    put(old)

    names = {made.certificate.read_text(encoding="ascii").strip(): made for made in (old, new)}

    async def shown(port: int) -> certificates.Made:
        """Whose certificate the port shows."""
        text = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port))
        return names[text.strip()]

    certificate = Certificate(chain, key)
    http = await asyncio.start_server(
        lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=certificate.context()
    )
    port = http.sockets[0].getsockname()[1]
    async with http:
        assert await shown(port) is old
        shutil.copy(new.certificate, chain)
        assert await shown(port) is old
        assert caplog.text.count("the pair before stays in use") == 1
        shutil.copy(new.key, key)
        assert await shown(port) is new
        key.unlink()
        assert await shown(port) is new


def test_a_pair_that_does_not_belong_together_is_refused(tmp_path: Path) -> None:
    one, other = (certificates.make(tmp_path, name) for name in ("one", "other"))
    with pytest.raises(UserError, match="--tls-key"):
        Certificate(one.certificate, other.key)


# Small parts


def test_slots_are_given_back() -> None:
    slots = Slots(lambda: (1, 2))
    with slots.hold("a"):
        with pytest.raises(ApiError, match="too many streams"), slots.hold("a"):
            pass
        with slots.hold("b"), pytest.raises(ApiError), slots.hold("c"):
            pass
    with slots.hold("a"):
        assert slots.open == 1


def test_pages_of_an_address_are_limited_and_this_machine_is_not(played: Store) -> None:
    access = Access("https://x.example", everybody=True)
    limits = RemoteLimits(pages_per_minute=2)
    service = a_service(played, limits=limits)
    site = a_site(service, access, ManualClock())
    statuses = [get(site, "/", client="203.0.113.7").status for _ in range(3)]
    assert statuses == [200, 200, 429]
    assert get(site, "/", client="203.0.113.7").headers["retry-after"] == "30"
    assert get(site, "/static/none", client="203.0.113.7").status == 404
    refused = get(site, "/", client="203.0.113.7")
    assert "<p>Try again in 30 s.</p>" in refused.text
    assert "Too many requests from your address." in refused.text
    assert get(site, "/", client="203.0.113.8").status == 200
    assert [get(site, "/").status for _ in range(4)] == [200] * 4
    site.gateway.close()

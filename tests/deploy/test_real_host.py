"""Every documented form of start on a real host: Debian 12 with control groups of version 2 alone.

The host is a virtual machine. DEEPSEA_HOST_IMAGE names a folder with its parts, which
docs/dev/real_host.md says how to make; the machine's disk is not changed. In each form the kernel's
files of the bots' groups are read while bots play.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import socket
import subprocess
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from helpers.programs import soon

pytestmark = pytest.mark.release

VARIABLE = "DEEPSEA_HOST_IMAGE"
ROOT = Path(__file__).resolve().parents[2]
PARTS = ("image", "vmlinuz", "initrd", "key")
CHECKOUT = "/opt/src/project"
REFEREE = f"{CHECKOUT}/.venv-dev/bin/deepsea-referee"
USER = "anna"
BOOT_MS, COMMAND_S = 12_000, 600
"""The pauses between tries to reach the guest together, and the timeout of a command."""
BOUNDS = {
    "memory.max": ["536870912"],
    "memory.swap.max": ["0"],
    "pids.max": ["66"],
    "cpu.weight": ["100"],
}
MATCH = f"{REFEREE} match greedy random --games 2 --seed 1 --clock 60s+600s --isolation sandbox"
SCOPE = "systemd-run --scope --quiet"
# Runs in the guest: reads the groups of bots while a command runs.
WATCH = """
import json, os, subprocess, sys, tempfile, time
files = ("memory.max", "memory.swap.max", "pids.max", "cpu.weight", "cgroup.freeze")
seconds, command = float(sys.argv[1]), sys.argv[2]
seen = {}
with tempfile.TemporaryFile("w+") as output:
    process = subprocess.Popen(["sh", "-c", command], stdin=subprocess.DEVNULL, stdout=output,
                               stderr=subprocess.STDOUT)
    end = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < end:
        for folder, _, _ in os.walk("/sys/fs/cgroup"):
            name = os.path.basename(folder)
            if not (name.startswith("deepsea-") and name[8:].replace("-", "").isdigit()):
                continue
            texts = {}
            for file in files:
                try:
                    with open(os.path.join(folder, file)) as opened:
                        texts[file] = opened.read().strip()
                except FileNotFoundError:
                    texts[file] = "missing"
                except OSError:  # the group has just been removed
                    pass
            # Before its bounds are written a group has the kernel's.
            if texts.get("memory.max") != "max" and os.path.isdir(folder):
                for file, text in texts.items():
                    seen.setdefault(file, set()).add(text)
        time.sleep(0.05)
    late = process.poll() is None
    if late:
        process.terminate()
    status = process.wait()
    output.seek(0)
    print(json.dumps({"late": late, "status": status, "output": output.read()[-4000:],
                      "seen": {file: sorted(texts) for file, texts in seen.items()}}))
"""


class Host:
    """A running guest, which ssh reaches at a port of this machine."""

    def __init__(self, parts: Path, port: int) -> None:
        self._parts = parts
        self._port = port

    def run(self, user: str, command: str, *, stdin: bytes = b"", seconds: float = 60) -> str:
        """Run a command as a user who logs in; returns what it printed."""
        options = ("BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null")
        words = ["ssh", "-q", "-i", str(self._parts / "key"), "-p", str(self._port)]
        for option in (*options, "ConnectTimeout=60"):
            words += ["-o", option]
        done = subprocess.run(
            [*words, f"{user}@127.0.0.1", command],
            input=stdin,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
        if done.returncode:
            raise OSError(f"{command!r}: status {done.returncode}, {done.stderr.decode()[-2000:]}")
        return done.stdout.decode()

    def watched(self, user: str, command: str) -> dict[str, Any]:
        """The end of a command, and what the groups of bots had meanwhile."""
        words = f"cd; python3 - {COMMAND_S - 60} {quoted(command)}"
        text = self.run(user, words, stdin=WATCH.encode(), seconds=COMMAND_S)
        found: dict[str, Any] = json.loads(text)
        return found


def quoted(command: str) -> str:
    return "'" + command.replace("'", "'\\''") + "'"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """The guest, with this checkout in place of the one in its image."""
    if not (named := os.environ.get(VARIABLE)):
        pytest.skip(f"{VARIABLE} names no image of a host (docs/dev/real_host.md)")
    parts, program = Path(named), shutil.which("qemu-system-x86_64")
    missing = [part for part in PARTS if not (parts / part).exists()]
    assert not missing, f"{parts} lacks {', '.join(missing)}"
    if program is None:
        pytest.skip("QEMU is not installed (apt-get install qemu-system-x86)")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    console = tmp_path_factory.mktemp("host") / "console"
    words = [program, "-accel", "tcg,thread=multi,tb-size=1024", "-cpu", "max", "-smp", "2"]
    words += ["-m", "3072", "-kernel", str(parts / "vmlinuz"), "-initrd", str(parts / "initrd")]
    words += ["-append", "root=/dev/vda rw console=ttyS0", "-snapshot", "-display", "none"]
    words += ["-drive", f"file={parts / 'image'},if=virtio,format=raw,cache=unsafe"]
    words += ["-netdev", f"user,id=n,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22"]
    words += ["-device", "virtio-net-pci,netdev=n", "-device", "virtio-rng-pci"]
    words += ["-serial", f"file:{console}", "-monitor", "none"]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL) as machine:
        try:
            guest = Host(parts, port)
            assert soon(lambda: answers(guest), BOOT_MS), console.read_text(errors="replace")[
                -2000:
            ]
            guest.run(
                "root", f"tar xz --no-same-owner -C {CHECKOUT}", stdin=checkout(), seconds=600
            )
            yield guest
        finally:
            machine.kill()


def answers(guest: Host) -> bool:
    """Whether it lets somebody in; while it starts it may take long to say nothing."""
    try:
        return guest.run("root", "echo up", seconds=120) == "up\n"
    except (OSError, subprocess.TimeoutExpired):
        return False


def checkout() -> bytes:
    """The files of this checkout that git knows, packed."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
        for name in filter(None, listed.stdout.split("\0")):
            if (ROOT / name).exists():
                archive.add(ROOT / name, name)
    return packed.getvalue()


def made(command: str) -> str:
    """A command as the recipe of a Makefile."""
    rule = f"all:\\n\\t{command}\\n\\t@true\\n"
    return f'make -f "$(printf {quoted(rule)} >~/made.mk; echo ~/made.mk)"'


FORMS: Sequence[tuple[str, str, str]] = [
    (USER, "--user -p Delegate=yes", "{}"),
    (USER, "--user -p Delegate=yes", "sh -c '{}; true'"),
    (USER, "--user -p Delegate=yes", "sh -c '{} | cat'"),
    (USER, "--user -p Delegate=yes", "make"),
    (USER, "--user -p Delegate=yes", "uv run --no-project {}"),
    ("root", "-p Delegate=yes", "{}"),
    ("root", "-p Delegate=yes -p MemoryMax=400M", "{}"),
]


@pytest.mark.parametrize(("user", "properties", "form"), FORMS)
def test_in_a_delegated_group_the_kernel_bounds_bots(
    host: Host, user: str, properties: str, form: str
) -> None:
    command = made(MATCH) if form == "make" else form.format(MATCH)
    ended = host.watched(user, f"{SCOPE} {properties} {command}")
    assert not ended["late"], ended
    assert ended["status"] == 0, ended
    assert {file: ended["seen"].get(file) for file in BOUNDS} == BOUNDS
    assert set(ended["seen"]["cgroup.freeze"]) <= {"0", "1"}
    doctor = form.replace("make", "{}").format(f"{REFEREE} doctor")
    assert "used for all" in host.watched(user, f"{SCOPE} {properties} {doctor}")["output"]


@pytest.mark.parametrize(
    ("user", "prefix", "words"),
    [
        ("root", "", "has no Delegate=yes"),
        ("root", f"{SCOPE} ", "has no Delegate=yes"),
        (USER, "", "missing for: memory, processes"),
        (USER, f"{SCOPE} --user ", "has no Delegate=yes"),
        (
            "root",
            "systemd-run --pipe --wait --quiet -p Delegate=yes -p OOMPolicy=stop ",
            "has OOMPolicy=stop",
        ),
    ],
)
def test_elsewhere_a_bot_over_its_limit_does_not_end_the_referee(
    host: Host, user: str, prefix: str, words: str
) -> None:
    ended = host.watched(user, f"{prefix}{REFEREE} doctor")
    assert not ended["late"], ended
    assert ended["status"] == 1, ended  # not ended by a signal: 143 or 137
    assert words in ended["output"]
    assert "-p Delegate=yes deepsea-referee" in ended["output"]
    # Groups may be there to freeze and to count; they have no bounds.
    assert ended["seen"].get("memory.max", ["missing"]) == ["missing"]


SERVED = (
    "export DEEPSEA_LADDER=~/served.db; rm -f ~/served.db*; R={referee}; "
    "$R ladder init --clock 60s+600s --require-cgroups {seats} && "
    "$R ladder submit greedy --author one && $R ladder submit random --author two && "
    "{{ timeout -s TERM {seconds} $R ladder serve --port 0; $R ladder status; }}"
)


@pytest.mark.parametrize(("user", "manager"), [(USER, "--user "), ("root", "")])
def test_a_server_with_its_runner_bounds_bots_and_plays_what_requires_it(
    host: Host, user: str, manager: str
) -> None:
    script = SERVED.format(referee=REFEREE, seats="--seats 2", seconds=240)
    ended = host.watched(user, f"{SCOPE} {manager}-p Delegate=yes sh -c {quoted(script)}")
    assert not ended["late"], ended
    assert {file: ended["seen"].get(file) for file in BOUNDS} == BOUNDS
    assert "the runner: control groups are used for all" in ended["output"]
    assert "no control groups" not in ended["output"]


def test_the_units_play_with_bounds_and_stop_well(host: Host) -> None:
    unit = "ladder-runner.service"
    host.run(
        "root",
        f"cd {CHECKOUT}; install --mode 0644 deploy/{unit} /etc/systemd/system/; "
        "install --directory --owner ladder --group ladder --mode 0700 /var/lib/ladder; "
        "export DEEPSEA_LADDER=/var/lib/ladder/ladder.db; "
        f"R='runuser -u ladder -- {REFEREE}'; $R ladder init --clock 60s+600s --seats 2; "
        "systemctl daemon-reload",
        seconds=300,
    )
    for bot in ("greedy", "random"):  # they are checked by a service, too
        submitting = f"{REFEREE} ladder submit {bot} --author {bot}-senior"
        host.run(
            "root",
            "systemd-run --pipe --wait --quiet --uid=ladder -p Delegate=yes "
            f"-E DEEPSEA_LADDER=/var/lib/ladder/ladder.db {submitting}",
            seconds=COMMAND_S,
        )
    ended = host.watched("root", f"systemctl start {unit}; sleep 120; systemctl stop {unit}")
    assert {file: ended["seen"].get(file) for file in BOUNDS} == BOUNDS
    shown = host.run("root", f"systemctl show --property=ActiveState,Result {unit}")
    assert set(shown.split()) == {"ActiveState=inactive", "Result=success"}

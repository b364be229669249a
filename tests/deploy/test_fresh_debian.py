"""The walk of docs/server.md and the steps of the Containerfile, each in a Debian made for it.

For a release: each takes minutes and some hundred megabytes. The page's commands are run as they
stand, as root, in a folder that debootstrap has filled. What needs systemd is run in it once that
Debian was booted, as a container without a network; mounts, processes and ports end with it.
"""

from __future__ import annotations

import faulthandler
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from helpers.deploy import DOCTOR, PROGRAM, ROOT, instructions, walk

LIMIT_S = 3_600
"""For a step; with several at once on a slow disk they take a while."""
VARIABLES = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LC_ALL": "C.UTF-8",
    "DEBIAN_FRONTEND": "noninteractive",
    "DPKG_FORCE": "unsafe-io",
    # What the host's pip has found, wherever that was.
    "PIP_NO_INDEX": "1",
    "PIP_FIND_LINKS": "/root/found",
    **{name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")},
}
CONTAINER = ("systemd-nspawn", "--quiet", "--register=no", "--keep-unit")
HERE = "http://127.0.0.1:8080"
DONE = "DONE"
RUNS_BOTS = ("bots can run", "memory limit", "whole tree is killed", "a user for each bot")
"""Checks of `doctor` that a service passes as its user."""

pytestmark = [pytest.mark.release, pytest.mark.needs("debootstrap", "systemd-nspawn")]


def run(words: Sequence[object], **options: object) -> str:
    """Run a command that must succeed; returns what it said on stdout."""
    done = subprocess.run(
        [str(word) for word in words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        **options,  # type: ignore[call-overload]
    )
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return str(done.stdout)


def inside(root: Path, *words: str) -> str:
    """Run options of the container and a command in it."""
    variables = [f"--setenv={name}={value}" for name, value in VARIABLES.items()]
    return run((*CONTAINER, "--pipe", "--directory", root, *variables, *words))


def booted(root: Path, script: str) -> str:
    """Boot that Debian without a network, run a script there, and shut it down."""
    said = root / "root/said.txt"
    (root / "root/script.sh").write_text(script)
    (root / "etc/systemd/system/script.service").write_text(
        "[Unit]\nAfter=caddy.service\n"
        "[Service]\nType=oneshot\nWorkingDirectory=/root/project\nEnvironment=HOME=/root\n"
        "ExecStart=/bin/sh -c 'sh -eu /root/script.sh > /root/said.txt 2>&1'\n"
        "ExecStopPost=systemctl --no-block poweroff\n"
        "[Install]\nWantedBy=multi-user.target\n"
    )
    inside(root, "systemctl", "enable", "script")
    run((*CONTAINER, "--console=pipe", "--private-network", "--boot", "--directory", root))
    return said.read_text()


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Debian with nothing but what each has, our wheels, and what pip needs for them."""
    faulthandler.cancel_dump_traceback_later()  # each step has a limit of its own
    if os.geteuid() != 0:
        pytest.skip("debootstrap and systemd-nspawn are for root")
    if shutil.which("apt-get") is None:
        pytest.skip("no apt-get: this is no Debian")
    release = dict(
        line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if line
    )
    codename = release.get("VERSION_CODENAME", "").strip('"')
    targets = run(("apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME) $(COMPONENT)"))
    mirrors = re.findall(rf"^(\S+) {codename} main$", targets, re.M)
    if release.get("ID") != "debian" or not mirrors:
        pytest.skip("from where this machine has its packages, Debian cannot be made")
    folder = tmp_path_factory.mktemp("debian")
    root = folder / "root"
    made = ("debootstrap", "--variant=minbase", "--include=systemd", codename, root, mirrors[0])
    # What it mounts ends with it, however it ends.
    run(("unshare", "--mount", "--propagation", "private", *made), env=VARIABLES)
    shutil.copy("/etc/hosts", root / "etc")
    proxies = ("apt-config", "dump", "--format", '%f "%v";%n', "Acquire::http", "Acquire::https")
    (root / "etc/apt/apt.conf.d/90host").write_text(run(proxies))

    project = root / "root/project"
    shutil.copytree(ROOT / "deploy", project / "deploy")
    for source in (ROOT, ROOT / "sdk"):
        copied = shutil.copytree(
            source,
            folder / source.name,
            ignore=shutil.ignore_patterns(".*", "build", "dist", "tests", "bench"),
        )
        run((sys.executable, "-m", "build", "--wheel", "--outdir", project / "dist", copied))
    # With the Python that this Debian has, since not everything comes as a wheel.
    run(("/usr/bin/python3", "-m", "venv", folder / "tool"))
    collecting = (folder / "tool/bin/pip", "wheel", "--wheel-dir", root / "root/found")
    run((*collecting, *(project / "dist").iterdir()))
    return root


@pytest.fixture
def root(debian: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    faulthandler.cancel_dump_traceback_later()
    run(("cp", "--archive", "--reflink=auto", debian, tmp_path / "root"))
    return tmp_path / "root"


def test_the_page_leads_from_a_fresh_debian_to_a_served_ladder(root: Path) -> None:
    variables, *steps, services, last = walk()
    assert "systemctl start" in services
    inside(root, "sh", "-euc", "\n".join(("cd /root/project", variables, *steps)))
    slips = (root / "root/project/slips.txt").read_text()
    codes = re.findall(r"\b(?:[0-9A-Z]{4}-){3}[0-9A-Z]{4}\b", slips)
    assert len({*codes}) == 30
    said = booted(
        root,
        f"""
        {variables}
        {services}
        mkfifo /run/journal
        journalctl --follow --lines=all --output=cat --unit=ladder > /run/journal &
        grep --max-count=1 "is shown at" /run/journal
        python3 -c 'from urllib.request import urlopen
print("readyz:", urlopen("{HERE}/readyz").read().decode())'
        {last}
        unset DEEPSEA_LADDER
        echo {codes[0]} | {PROGRAM} ladder login {HERE} --code - --author anna
        {PROGRAM} new my_bot
        {PROGRAM} ladder submit my_bot --remote {HERE}
        systemctl is-active caddy ladder ladder-runner ladder-backup.timer
        systemctl is-enabled ladder ladder-runner ladder-backup.timer
        {DOCTOR}
        echo {DONE}
        """,
    )
    assert "the ladder is shown at https://ladder.school.example/\n" in said, said
    assert "readyz: ready\n" in said
    for name in (
        *RUNS_BOTS,
        "permissions",
        "store",
        "content",
        "disk",
        "backup",
        "runner",
        "clock",
    ):
        assert f"\nok   {name}: " in said, said
    # Where the host has version 1, no user is given controllers.
    assert {*re.findall(r"^FAIL (.*?):", said, re.M)} <= {"control groups"}
    assert "my_bot version 1 by anna is on the ladder\n" in said
    assert 4 * "active\n" + 3 * "enabled\n" in said
    assert said.endswith(f"{DONE}\n")


def test_the_steps_of_the_containerfile_make_what_runs_bots_in_the_sandbox(root: Path) -> None:
    options = []
    for name, rest in instructions():
        if name in ("ENV", "USER"):
            options.append(f"--{name.lower().replace('env', 'setenv')}={rest}")
        elif name == "COPY":
            pattern, target = rest.split()
            (root / target.strip("/")).mkdir(parents=True)
            for wheel in (root / "root/project").glob(pattern):
                shutil.copy(wheel, root / target.strip("/"))
        elif name == "RUN":
            inside(root, "sh", "-euc", rest)
    said = inside(root, *options, "sh", "-c", f"echo; {PROGRAM} doctor; true")
    for name in RUNS_BOTS:
        assert f"\nok   {name}: " in said, said
    assert "season main" in inside(root, *options, PROGRAM, "ladder", "init")

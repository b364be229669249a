"""The files of deploy/, looked at by the programs that read them, and the commands in them.

Whether they serve a ladder is in test_fresh_debian.py and test_behind_a_proxy.py.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from deepsea_cli import main
from helpers.deploy import CONTAINERFILE, DEPLOY, PAGE, PROGRAM, instructions, service, walk

UNITS = sorted(path.name for path in DEPLOY.glob("*.service"))
EXPOSURE = {"ladder.service": 1.5, "ladder-backup.service": 1.5, "ladder-runner.service": 6.5}
"""By `systemd-analyze security`: 0 may do nothing, 10 everything."""
BREAKS_SANDBOX = (
    "NoNewPrivileges|SystemCall|Restrict|Protect(Clock|Control|Hostname|Kernel|Proc)|ProcSubset|Private"
    "(Devices|Tmp|Users)|Lock|MemoryDeny|DynamicUser|RootDirectory"
)
FORMS = {
    "FROM": r"[a-z]+:[a-z-]+",
    "RUN": r"(?s).+",
    "COPY": r"dist/\*\.whl /usr/src/deepsea/",
    "USER": r"ladder",
    "WORKDIR": r"/var/lib/ladder",
    "VOLUME": r"/var/lib/ladder",
    "ENV": r"DEEPSEA_LADDER=/var/lib/ladder/ladder\.db",
    "EXPOSE": r"8080",
    "ENTRYPOINT": r"\[.*\]",
    "CMD": r"\[.*\]",
}
"""The instructions of the Containerfile, and what each may say."""
analysed = pytest.mark.needs("systemd")


@analysed
@pytest.mark.parametrize("typo", ["", "ProtectHom=yes\n", "Delegate=perhaps\n"])
def test_systemd_reads_the_units(tmp_path: Path, typo: str) -> None:
    for path in (*DEPLOY.glob("*.service"), *DEPLOY.glob("*.timer")):
        text = path.read_text(encoding="utf-8").replace(PROGRAM, sys.executable)
        (tmp_path / path.name).write_text(text.replace("[Service]\n", f"[Service]\n{typo}"))
    words = ("systemd-analyze", "verify", "--man=no", *map(str, tmp_path.iterdir()))
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    said = [line for line in (done.stdout + done.stderr).splitlines() if str(tmp_path) in line]
    assert bool(said) == bool(typo), said
    assert done.returncode == 0


@analysed
@pytest.mark.parametrize("name", UNITS)
def test_a_service_may_do_no_more_than_it_needs(name: str) -> None:
    words = ("systemd-analyze", "security", "--offline=true", "--no-pager", DEPLOY / name)
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    (level,) = re.findall(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)
    assert 0 < float(level) <= EXPOSURE[name]


def test_the_runner_is_left_what_the_sandbox_is_made_of() -> None:
    settings = service(DEPLOY / "ladder-runner.service")
    assert [name for name in settings if re.match(BREAKS_SANDBOX, name)] == []
    assert settings["Delegate"].split() == ["cpu", "memory", "pids"]
    needed = "CAP_DAC_OVERRIDE CAP_SETGID CAP_SETUID CAP_SYS_ADMIN"  # by newuidmap
    assert settings["CapabilityBoundingSet"] == needed
    assert (settings["OOMPolicy"], settings["KillMode"]) == ("continue", "mixed")


def command_lines() -> Iterator[tuple[str, str]]:
    """Where a command line of ours stands, and its words after the program's name."""
    for name in UNITS:
        for start in re.findall(rf"{PROGRAM} ([^\n']+)", (DEPLOY / name).read_text("utf-8")):
            yield name, start.replace("%%", "%").replace("$(date +%Y-%m-%dT%H-%M-%S)", "now")
    arguments = dict(instructions())
    entry, usual = (
        shlex.join(re.findall(r'"([^"]*)"', arguments[name])) for name in ("ENTRYPOINT", "CMD")
    )
    yield "Containerfile", f"{entry} {usual}".removeprefix(f"{PROGRAM} ")
    comment = "".join(re.findall(r"^# ?(.*\n)", CONTAINERFILE, re.M)).replace("\\\n", "")
    for line in re.findall(r"^ +podman run .* ladder +(.*)$", comment, re.M):
        yield "Containerfile", f"ladder {line}"
    yield from (
        ("server.md", line) for line in re.findall(r"^ *\$ deepsea-referee (.+)", PAGE, re.M)
    )
    for line in re.findall(r"^(ladder .+)$", "".join(walk()), re.M):
        yield "server.md", line.replace("$NAME", "ladder.school.example")


@pytest.mark.parametrize(("place", "line"), list(command_lines()))
def test_a_command_is_one_that_the_program_takes(
    place: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("course.jsonl").touch()  # written by the command before the one that reads it
    words = shlex.split(line.partition(" > ")[0])
    found: click.Command | None = main
    name = "deepsea-referee"
    while isinstance(found, click.Group):
        name, *words = words
        found = found.get_command(click.Context(found), name)
    assert found is not None, f"{place}: {name}"
    found.make_context(name, words)  # raises for what it does not take


def test_there_are_commands_in_each_place() -> None:
    places = [place for place, _ in command_lines()]
    assert {*places} == {*UNITS, "Containerfile", "server.md"}
    assert places.count("Containerfile") == 3


def test_the_containerfile_is_made_of_instructions_that_can_be_followed() -> None:
    found = instructions()
    assert [name for name, rest in found if not re.fullmatch(FORMS[name], rest)] == []
    assert {name for name, _ in found} == FORMS.keys()
    for script in [*(rest for name, rest in found if name == "RUN"), *walk()]:
        subprocess.run(("sh", "-n", "-c", script), check=True)


@pytest.mark.slow
def test_packages_that_are_installed_are_debians() -> None:
    installing = r"^.*apt-get install --yes --no-install-recommends ([a-z0-9 .-]+)"
    lines = [re.findall(installing, text, re.M) for text in (CONTAINERFILE, PAGE)]
    assert [len(found) for found in lines] == [1, 1]
    packages = sorted({name for (line,) in lines for name in line.split()})
    if shutil.which("apt-cache") is None:
        pytest.skip("no apt-cache: this is no Debian")
    # Once for all: where images are kept small, apt makes its cache anew with each call.
    words = ("apt-cache", "show", "--no-all-versions", *packages)
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if not done.stdout:
        pytest.skip("no lists of Debian's packages (apt-get update)")
    assert sorted(re.findall(r"^Package: (.+)$", done.stdout, re.M)) == packages


def test_names_that_are_to_be_changed_are_the_same_everywhere() -> None:
    (pattern,) = re.findall(r'^sed --in-place "s/(.+)/\$NAME/" (.+)$', PAGE, re.M)
    expression, places = pattern
    for place in places.split():
        text = (DEPLOY / Path(place).name).read_text(encoding="utf-8")
        assert re.search(expression, text)
        assert "example" not in re.sub(expression, "", text)

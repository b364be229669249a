"""Every documented form of start on a real host: Debian 12 with control groups of version 2 alone.

The host is a virtual machine. DEEPSEA_HOST_IMAGE names a folder with its parts, which
docs/dev/real_host.md says how to make; the machine's disk is not changed. In each form the kernel's
files of the bots' groups are read while bots play.
"""

from __future__ import annotations

import faulthandler
import io
import json
import os
import re
import select
import shutil
import socket
import subprocess
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from deepsea_bundle.archive import pack
from deepsea_bundle.reader import read_bot
from deepsea_ladder.season import BotLimits, PairingSettings, SeasonSettings
from deepsea_ladder.store import Store
from helpers.deploy import DOCTOR, walk
from helpers.ladder import SEED, created
from helpers.members import a_service, an_admin_token
from helpers.submissions import LIMITS, an_author, new
from helpers.tools import path_of, require

# Alone: one guest serves all, and it needs the CPUs.
pytestmark = [pytest.mark.release, pytest.mark.alone]

VARIABLE = "DEEPSEA_HOST_IMAGE"
ROOT = Path(__file__).resolve().parents[2]
PARTS = ("image", "vmlinuz", "initrd", "key")
CHECKOUT = "/opt/src/project"
PYTHON = f"{CHECKOUT}/.venv-dev/bin/python"
REFEREE = f"{CHECKOUT}/.venv-dev/bin/deepsea-referee"
USER = "author"
BOOT_TRIES, PAUSE_MS = 10, 15_000
"""How often ssh tries to reach the guest after a start, and the pause between two tries."""
COMMAND_S = 1800
"""Timeout of a command in the guest."""
BOUNDS = {
    "memory.max": {"536870912"},
    "memory.swap.max": {"0"},
    "pids.max": {"66"},
    "cpu.weight": {"100"},
    "memory.events": {"oom 0"},
}
BOTS = "/opt/bots"
CLOCK = "60s+600s"
# As in docs/protocol.md: a bot in Python takes longer to start than all of its games.
BOT = r"""
mkfifo /tmp/silent
exec 3<>/tmp/silent
while read -r line; do
  [[ $line == '{"type":"hello"'* ]] && echo '{"type":"ready"}'
  [[ $line == '{"type":"decide"'* ]] || continue
  PAUSE
  [[ $line =~ \"id\":([0-9]+) ]] && id=${BASH_REMATCH[1]}
  [[ $line =~ \"legal\":\[\"([^\"]+)\",\"([^\"]+) ]] && action=${BASH_REMATCH[1]}
  [[ ${BASH_REMATCH[2]} == take || ${BASH_REMATCH[2]} == back ]] && action=${BASH_REMATCH[2]}
  echo "{\"type\":\"answer\",\"id\":$id,\"action\":\"$action\"}"
done
"""
PAUSES = {"quick": ":", "slow": "read -rt 0.3 -u 3"}
# What may take longer here than the referee waits: a bot's start, a trial of the sandbox, and a
# worker's end. Hostile programs get longer, too.
REFEREE_FILES = "referee/deepsea_referee"
PATIENT = {
    f"{REFEREE_FILES}/bots/process.py": (
        "start_limit_us: int = 10_000_000",
        "start_limit_us: int = 300_000_000",
    ),
    f"{REFEREE_FILES}/sandbox/probe.py": ("TIMEOUT_MS = 10_000", "TIMEOUT_MS = 300_000"),
    f"{REFEREE_FILES}/sandbox/bot_users.py": ("_TRIAL_S = 10", "_TRIAL_S = 300"),
    f"{REFEREE_FILES}/workers.py": ("GRACE_S = 10.0", "GRACE_S = 300.0"),
    "tests/attacks/guard.py": ("LONGEST_S = 20", "LONGEST_S = 300"),
    "tests/attacks/harness.py": ("milliseconds: int = [13]", "milliseconds: int = 30"),
}
# Runs in the guest: reads the groups of bots while a command runs.
WATCH = """
import json, os, subprocess, sys, tempfile, time
files = ("memory.max", "memory.swap.max", "pids.max", "cpu.weight", "cgroup.freeze",
         "memory.events")
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
            try:
                with open(os.path.join(folder, "cgroup.procs")) as opened:
                    if not opened.read():  # a bot joins when its bounds are written
                        continue
            except OSError:
                continue
            for file in files:
                try:
                    with open(os.path.join(folder, file)) as opened:
                        lines = opened.read().splitlines()
                        texts[file] = next((l for l in lines if l.startswith("oom ")), lines[0])
                except FileNotFoundError:
                    texts[file] = "missing"
                except OSError:  # the group has just been removed
                    pass
            if os.path.isdir(folder):
                for file, text in texts.items():
                    seen.setdefault(file, set()).add(text)
        time.sleep(1)
    late = process.poll() is None
    if late:
        process.terminate()
    status = process.wait()
    output.seek(0)
    print(json.dumps({"status": None if late else status, "output": output.read()[-20000:],
                      "seen": {file: sorted(texts) for file, texts in seen.items()}}))
"""
# Runs in the guest: waits until a question to a store has an answer, and prints the answer.
ASK = """
import sqlite3, sys, time
store, question, *wanted = sys.argv[1:]
while True:
    with sqlite3.connect(f"file:{store}?mode=ro", uri=True, timeout=60) as connection:
        rows = [tuple(map(str, row)) for row in connection.execute(question)]
    if not wanted or rows and int(rows[0][0]) >= int(wanted[0]):
        print(*map(" ".join, rows), sep=", ")
        break
    time.sleep(1)
"""


class Watched(NamedTuple):
    """A command that has ended in the guest."""

    status: int | None
    """Its exit status; None if it had to be ended."""
    output: str
    seen: dict[str, set[str]]
    """What stood in each of the kernel's files of bots' groups meanwhile."""

    @property
    def bounds(self) -> dict[str, set[str] | None]:
        return {file: self.seen.get(file) for file in BOUNDS}

    def part(self, name: str) -> str:
        """What was printed behind a line `== name`."""
        return self.output.partition(f"== {name}\n")[2].partition("== ")[0]


class Host:
    """A running guest, which ssh reaches at a port of this machine."""

    def __init__(self, parts: Path, port: int, monitor: Path) -> None:
        self._parts = parts
        self._port = port
        self._monitor = monitor

    def run(self, user: str, command: str, *, stdin: bytes = b"", seconds: float = 600) -> str:
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
            said = (done.stdout + done.stderr).decode()[-2000:]
            raise OSError(f"{command!r}: status {done.returncode}, {said}")
        return done.stdout.decode()

    def watched(self, user: str, command: str) -> Watched:
        """Run a command, and see what the groups of bots have meanwhile."""
        words = f"cd; python3 - {COMMAND_S - 60} {quoted(command)}"
        text = self.run(user, words, stdin=WATCH.encode(), seconds=COMMAND_S)
        ended = json.loads(text)
        seen = {file: set(texts) for file, texts in ended["seen"].items()}
        return Watched(ended["status"], ended["output"], seen)

    def boot_id(self) -> str | None:
        """Return what the kernel has drawn for this boot; None if nobody is let in."""
        try:
            # While it starts it may take long to say nothing.
            return self.run("root", "cat /proc/sys/kernel/random/boot_id", seconds=120)
        except (OSError, subprocess.TimeoutExpired):
            return None

    def cut_power(self) -> None:
        """Reset the machine: what it has not written to its disk is lost."""
        with socket.socket(socket.AF_UNIX) as monitor:
            monitor.connect(str(self._monitor))
            with monitor.makefile("rw") as words:
                for command in ("qmp_capabilities", "system_reset"):
                    words.readline()  # its greeting, and the answer to the former command
                    words.write(json.dumps({"execute": command}) + "\n")
                    words.flush()
                words.readline()

    def wait_for_boot(self, former: str | None) -> None:
        """Wait until the guest lets people in after another boot than the former one."""
        for number in range(1, 3 * BOOT_TRIES + 1):
            if self.boot_id() not in (None, former):
                return
            select.poll().poll(PAUSE_MS)
            if number % BOOT_TRIES == 0:
                # An emulated kernel that patches its own code while it starts may stand still.
                self.cut_power()
        raise AssertionError("the guest does not start: see its console")


def quoted(command: str) -> str:
    return "'" + command.replace("'", "'\\''") + "'"


@pytest.fixture(autouse=True)
def unhurried() -> None:
    """Let a test take longer than others may: each command in the guest has a timeout."""
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """The guest, with this checkout in place of the one in its image."""
    if not (named := os.environ.get(VARIABLE)):
        pytest.skip(f"{VARIABLE} names no image of a host (docs/dev/real_host.md)")
    require("qemu")
    parts, program = Path(named), path_of("qemu")
    assert program is not None
    missing = [part for part in PARTS if not (parts / part).exists()]
    assert not missing, f"{parts} lacks {', '.join(missing)}"
    faulthandler.cancel_dump_traceback_later()
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
    monitor = console.with_name("monitor")
    words += ["-serial", f"file:{console}", "-qmp", f"unix:{monitor},server=on,wait=off"]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL) as machine:
        try:
            guest = Host(parts, port, monitor)
            guest.wait_for_boot(None)
            prepare(guest, tmp_path_factory.mktemp("bots"))
            yield guest
        finally:
            machine.kill()


def prepare(guest: Host, folder: Path) -> None:
    """Put this checkout in place of that of the image, and bots and ladders into BOTS."""
    replaced = "git ls-files -z | xargs -0 rm -f && tar xz --no-same-owner"
    guest.run("root", f"cd {CHECKOUT} && {replaced}", stdin=packed_checkout())
    for file, (limit, patient) in PATIENT.items():
        words = f"grep -q '{limit}' {file} && sed -i 's/{limit}/{patient}/' {file}"
        guest.run("root", f"cd {CHECKOUT} && {words}")
    packages = "arena cli ladder referee sample_bots sdk web tests"
    guest.run("root", f"cd {CHECKOUT} && {PYTHON} -m compileall -q {packages}")
    (folder / "ask.py").write_text(ASK)
    with created(folder / "ladder.db") as store:
        limits = BotLimits(require_cgroups=True)
        pairing = PairingSettings(same_author=True)
        season = SeasonSettings("main", seats=(2,), clock=CLOCK, limits=limits, pairing=pairing)
        store.seasons.open(season, SEED)
        for name, pause in PAUSES.items():
            (folder / name).mkdir()
            (folder / name / "bot.sh").write_text(BOT.replace("PAUSE", pause))
            (folder / name / "bot.toml").write_text(
                f'name = "{name}"\ncommand = "bash bot.sh"\nprotocol = "lines"\n'
            )
            store.bots.submit(name, "author", read_bot(folder / name))
        service = a_service(store)
        (folder / "token").write_text(an_admin_token(service, "keeper"))
    shutil.copy(folder / "ladder.db", folder / "waiting.db")
    with Store.open(folder / "waiting.db") as store:
        files = {**read_bot(folder / "quick").files, "more": b"of version 2"}
        author = an_author(store, "author")
        store.submissions.add(new(author, pack(files), bot="quick"), [pack(files)], LIMITS)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(folder, ".")
    put = f"mkdir {BOTS} && tar x --no-same-owner -C {BOTS} && chmod -R a+rX {BOTS}"
    guest.run("root", put, stdin=packed.getvalue())


def packed_checkout() -> bytes:
    """The files of this checkout that git knows, in a tar file."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
        for name in filter(None, listed.stdout.decode().split("\0")):
            if (ROOT / name).exists():
                archive.add(ROOT / name, name)
    return packed.getvalue()


class Form(NamedTuple):
    """A way to start the referee."""

    user: str
    properties: str
    """Of the scope: whose it is, and what it has."""
    around: str
    """Words around the command."""

    def __str__(self) -> str:
        return f"{self.user} {self.properties} {self.around}"

    def command(self, words: str) -> str:
        """A shell's command that starts the referee with these words."""
        inner = made(words) if self.around == "make" else self.around.format(words)
        return f"systemd-run --scope --quiet --unit=form {self.properties} {inner}"


def made(command: str) -> str:
    """A command as the recipe of a Makefile."""
    rule = f"all:\\n\\t{command}\\n\\t@true\\n"
    return f'make -f "$(printf {quoted(rule)} >~/made.mk; echo ~/made.mk)"'


DIRECT = Form(USER, "--user -p Delegate=yes", "{}")
SHELL = DIRECT._replace(around="sh -c '{}; true'")
MAKE = DIRECT._replace(around="make")
AS_ROOT = Form("root", "-p Delegate=yes", "{}")
FORMS: Sequence[Form] = (
    DIRECT,
    SHELL,
    DIRECT._replace(around="sh -c '{} | cat'"),
    MAKE,
    DIRECT._replace(around="uv run --no-project {}"),
    AS_ROOT,
    AS_ROOT._replace(properties="-p Delegate=yes -p MemoryMax=400M"),
)
PLAYED = f"--games 1 --seed 1 --clock {CLOCK} --isolation sandbox"
MATCH = f"{REFEREE} match {BOTS}/quick {BOTS}/slow {PLAYED}"
LEFT = "find /sys/fs/cgroup -name 'deepsea-[0-9]*'"
"""Names the groups of bots that are there. Folders of a killed worker go with the next run."""


# Ladders


URL = "http://127.0.0.1:8080"
STORE = "/var/lib/ladder/ladder.db"
PLAYING = "FROM tasks WHERE kind = 'game' AND state = 'running'"
CHECKED = "FROM tasks WHERE kind = 'check' AND state NOT IN ('queued', 'running')"


def asking(question: str, least: int | str = "") -> str:
    """Return the command that prints the answer of the ladder's store to a question in SQL.

    least  wait until the answer is a number of at least this; "" prints any answer at once
    """
    return f"runuser -u ladder -- python3 {BOTS}/ask.py {STORE} {quoted(question)} {least}"


@pytest.fixture(scope="module")
def units(host: Host) -> Watched:
    """A ladder in the services of docs/server.md; a submission waits when its runner starts.

    Its season is closed from afar while a game is in play, and then the services are stopped.
    """
    ladder = f"runuser -u ladder -- {REFEREE} ladder"
    return host.watched(
        "root",
        f"cd {CHECKOUT}; install --mode 0644 deploy/ladder*.service /etc/systemd/system/; "
        "install --directory --owner ladder --group ladder --mode 0700 /var/lib/ladder; "
        f"install --owner ladder --group ladder --mode 0600 {BOTS}/waiting.db {STORE}; "
        "systemctl daemon-reload; systemctl start ladder ladder-runner; "
        f"export DEEPSEA_LADDER_TOKEN=$(cat {BOTS}/token); "
        f"echo '== checks'; {asking(f'SELECT count(*) {CHECKED}', '1')}; "
        f"echo '== games'; {asking('SELECT count(*) FROM games', '1')}; "
        f"echo '== status'; {ladder} status --store {STORE}; "
        f"{asking(f'SELECT count(*) {PLAYING}', '1')}; "
        f"echo '== close'; {REFEREE} ladder close main --at-once --remote {URL}; "
        f"{asking(f'SELECT count(*) = 0 {PLAYING}', '1')}; "
        f"echo '== closed'; {REFEREE} ladder close main --remote {URL}; "
        f"echo '== attempts'; {asking('SELECT DISTINCT ended FROM attempts')}; "
        "echo '== stop'; systemctl stop ladder-runner ladder; "
        "systemctl show --property=ActiveState,Result ladder-runner ladder; "
        f"echo '== left'; {LEFT}; echo '== log'; journalctl --no-pager -u ladder -u ladder-runner",
    )


def test_units_check_and_play_with_bounds_though_a_submission_waits_at_the_start(
    units: Watched,
) -> None:
    assert units.bounds == BOUNDS, units
    assert int(units.part("games")) >= 1


def test_status_in_a_shell_says_what_the_runners_unit_has(units: Watched) -> None:
    assert "the runner: control groups are used for all" in units.part("status"), units


def test_a_season_that_is_closed_through_the_unit_of_the_pages_lets_games_in_play_count(
    units: Watched,
) -> None:
    # From there /proc does not show the runner.
    assert "being played will count" in units.part("close"), units
    assert "seed" not in units.part("close").replace("for the final table and the seed", "")
    assert "season main is closed; seed" in units.part("closed")
    assert units.part("attempts").strip() == "done"


def test_units_that_are_stopped_have_not_failed_and_leave_nothing(units: Watched) -> None:
    states = set(units.part("stop").split())
    assert states == {"ActiveState=inactive", "Result=success"}, units
    assert units.part("left") == ""


def test_what_is_submitted_here_is_checked_with_bounds(host: Host) -> None:
    ended = host.watched(
        "root",
        f"cp {BOTS}/ladder.db ~/checked.db; cp -r {BOTS}/quick ~/mine; "
        + AS_ROOT.command(
            f"{REFEREE} ladder submit ~/mine --name mine --author me --store ~/checked.db"
        ),
    )
    assert ended.status == 0, ended
    assert "mine version 1 by me" in ended.output
    assert ended.bounds == BOUNDS


@pytest.mark.parametrize("form", [DIRECT, SHELL, MAKE, AS_ROOT], ids=str)
def test_a_server_with_its_runner_plays_with_bounds_and_a_stop_leaves_nothing(
    host: Host, form: Form
) -> None:
    manager = "--user" if "--user" in form.properties else "--system"
    store = f"/tmp/{form.user}.db"
    served = f"{REFEREE} ladder serve --port 0 --store {store}"
    ended = host.watched(
        form.user,
        f"cp {BOTS}/ladder.db {store}; {form.command(served)} & "
        f"python3 {BOTS}/ask.py {store} 'SELECT count(*) FROM games' 1; "
        f"systemctl {manager} stop form.scope; wait; rm {store}*; echo '== left'; {LEFT}",
    )
    assert ended.bounds == BOUNDS, ended
    assert ended.part("left") == "", ended


# Matches


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_in_a_delegated_group_the_kernel_bounds_bots(host: Host, form: Form) -> None:
    ended = host.watched(form.user, form.command(MATCH))
    assert ended.status == 0, ended
    assert ended.bounds == BOUNDS
    assert ended.seen["cgroup.freeze"] <= {"0", "1"}
    assert "forfeit" not in ended.output


@pytest.mark.parametrize("form", [SHELL, AS_ROOT], ids=str)
def test_doctor_says_in_a_delegated_group_that_it_is_used(host: Host, form: Form) -> None:
    assert "used for all" in host.watched(form.user, form.command(f"{REFEREE} doctor")).output


@pytest.mark.parametrize(
    ("user", "prefix", "words"),
    [
        ("root", "", "has no Delegate=yes"),
        ("root", "systemd-run --scope --quiet ", "has no Delegate=yes"),
        (USER, "", "missing for: memory, processes"),
        (USER, "systemd-run --scope --quiet --user ", "has no Delegate=yes"),
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
    assert ended.status == 1, ended  # not ended by a signal: 143 or 137
    assert words in ended.output
    assert "-p Delegate=yes deepsea-referee" in ended.output
    # Groups may be there to freeze and to count; they have no bounds.
    assert ended.seen.get("memory.max", {"missing"}) == {"missing"}


def test_doctor_in_the_runners_unit_finds_a_complete_sandbox(host: Host) -> None:
    copied = f"install --mode 0644 {CHECKOUT}/deploy/ladder-runner.service /etc/systemd/system/"
    said = host.run("root", copied + DOCTOR, seconds=COMMAND_S)
    assert "(used for all)" in said
    assert said.endswith("the sandbox is complete: --isolation sandbox\n"), said


# Tests that look into the kernel's files themselves


NOT_HERE = {
    "it is trusted: never frozen",
    "only root can act as another user",
    "only root starts bots as another user",
    "only root starts bots as other users",
}
"""Reasons to skip a test that no control group would remove."""


@pytest.mark.parametrize(
    ("form", "tests"),
    [
        (DIRECT, "tests/sandbox"),
        (AS_ROOT, "tests/sandbox tests/attacks/test_sandbox.py -m ''"),
    ],
    ids=str,
)
def test_bots_are_confined_as_elsewhere_and_no_test_of_it_is_skipped_for_lack_of_groups(
    host: Host, form: Form, tests: str
) -> None:
    words = f"{PYTHON} -m pytest -p no:cacheprovider -o faulthandler_timeout=1500 -q -rs {tests}"
    ended = host.watched(form.user, form.command(f"sh -c {quoted(f'cd {CHECKOUT}; {words}')}"))
    assert ended.status == 0, ended
    skipped = re.findall(r"^SKIPPED .*?: (.*)", ended.output, re.M)
    assert {*skipped} <= NOT_HERE, ended


# The ladder of docs/server.md, from nothing


CHAIN = "SELECT seq, head FROM games ORDER BY seq"


def test_the_ladder_of_the_page_loses_nothing_by_a_reboot_or_a_cut_of_power(host: Host) -> None:
    """The commands of the page but for the proxy, which nobody asks anything here."""
    variables, _, user, ladder, services, _ = walk()
    # Games of two slow bots take long enough.
    ladder = ladder.replace("ladder init", f"ladder init --seats 2 --clock {CLOCK}")
    services = "".join(line for line in services.splitlines(True) if "caddy" not in line.lower())
    # The image has that user.
    before = f"set -eu; cd {CHECKOUT}; userdel ladder; rm -rf /var/lib/ladder\n"
    slips = host.run(
        "root", f"{before}{variables}{user}{ladder}{services}cat slips.txt", seconds=COMMAND_S
    )
    codes = re.findall(r"\b(?:[0-9A-Z]{4}-){3}[0-9A-Z]{4}\b", slips)
    assert len(codes) == 30

    def ask(question: str, least: int | str = "") -> str:
        return host.run("root", asking(question, least), seconds=COMMAND_S)

    def submission(author: str) -> str:
        """A shell's command that submits the bot of an author who has logged in."""
        there = f"XDG_CONFIG_HOME=/srv/{author}/settings {REFEREE} ladder"
        return f"{there} submit /srv/{author}/bot --name {author} --remote {URL}"

    for author, code in zip(("anna", "ben"), codes, strict=False):
        logged_in = f"{REFEREE} ladder login {URL} --code - --author {author}"
        said = host.run(
            "root",
            f"mkdir --parents /srv/{author}/settings; cp -r {BOTS}/quick /srv/{author}/bot; "
            f"echo {author} >/srv/{author}/bot/more; "
            f"echo {code} | XDG_CONFIG_HOME=/srv/{author}/settings {logged_in}; "
            f"{submission(author)}",
            seconds=COMMAND_S,
        )
        assert f"{author} version 1 by {author} is on the ladder" in said
    ask("SELECT count(*) FROM games", 2)

    kept, former = ask(CHAIN), host.boot_id()
    host.run("root", "nohup sh -c 'sleep 1; systemctl reboot' >/dev/null 2>&1 </dev/null &")
    host.wait_for_boot(former)
    ask("SELECT count(*) FROM games", kept.count(",") + 3)
    assert ask(CHAIN).startswith(kept.strip())

    # The power is cut when a new version was just taken in, and a game is being played.
    again = f"echo again >/srv/anna/bot/more; {submission('anna')}"
    host.run("root", f"nohup sh -c {quoted(again)} >/dev/null 2>&1 </dev/null &")
    ask("SELECT count(*) FROM tasks WHERE kind = 'check'", 3)
    ask(f"SELECT count(*) {PLAYING}", 1)
    kept, former = ask(CHAIN), host.boot_id()
    host.cut_power()
    host.wait_for_boot(former)
    ask(f"SELECT count(*) {CHECKED}", 3)
    assert ask("SELECT max(number) FROM bot_versions").strip() == "2"
    ask("SELECT count(*) FROM games", kept.count(",") + 3)
    assert ask(CHAIN).startswith(kept.strip())

    said = host.run(
        "root",
        f"{variables}set -eu; systemctl stop ladder-runner; ladder refold --check --records; "
        "ladder close --at-once main; ladder export >chain.jsonl; "
        f"{REFEREE} verify --chain chain.jsonl; echo == failed; systemctl --failed --no-legend",
        seconds=COMMAND_S,
    )
    assert ", the same to the last bit, every record played again\n" in said
    assert "\nok chain.jsonl" in said
    assert said.endswith("== failed\n"), said

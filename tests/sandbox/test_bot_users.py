"""A user of its own for each sandbox: ranges, claims, and who has a number already."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import deepsea_bundle
from deepsea_referee.sandbox import bot_users, probe
from deepsea_referee.sandbox.bot_users import BotUsers, UserRange
from deepsea_referee.sandbox.bubblewrap import Sandbox
from helpers.tools import require

SMALL = UserRange(700_000, 700_002)
MODULES = ((deepsea_bundle, 1), (bot_users, 2))
"""Where the packages are that a sandbox needs."""


@pytest.mark.parametrize(
    "text", ["", "5", "5-", "-5", "9-5", "0-5", "a-b", "5-6-7", "5-99999999999"]
)
def test_what_is_no_range_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="FIRST-LAST, such as 60600-61099"):
        UserRange.parse(text)


def machine(tmp_path: Path, subuid: str = "", uid_map: str = "0 0 4294967295") -> tuple[Path, Path]:
    """Folders like /etc and /proc/self."""
    for name in ("subuid", "subgid"):
        (tmp_path / name).write_text(subuid if name == "subuid" else "")
    for name in ("uid_map", "gid_map"):
        (tmp_path / name).write_text(f"{uid_map}\n")
    return tmp_path, tmp_path


@pytest.mark.parametrize(
    ("users", "subuid", "uid_map", "trouble"),
    [
        (SMALL, "", "0 0 4294967295", ""),
        (SMALL, "anna:100000:65536\n# note\n", "0 0 4294967295", ""),
        (SMALL, "anna:650000:65536\n", "0 0 4294967295", "gives numbers of it to anna"),
        (SMALL, "anna:700002:1\n", "0 0 4294967295", "gives numbers of it to anna"),
        (SMALL, "anna:700003:1\n", "0 0 4294967295", ""),
        (SMALL, "", "0 100000 65536", "this container has no such users"),
        (bot_users.DEFAULT, "", "0 100000 65536", ""),
    ],
)
def test_a_range_must_be_free(
    tmp_path: Path, users: UserRange, subuid: str, uid_map: str, trouble: str
) -> None:
    found = users.trouble(*machine(tmp_path, subuid, uid_map))
    assert trouble in found
    assert bool(trouble) == bool(found)


def test_a_range_with_a_user_of_this_machine_is_refused(tmp_path: Path) -> None:
    user = pwd.getpwuid(65534)
    found = UserRange(65_000, 65_600).trouble(*machine(tmp_path))
    assert found == f"user {user.pw_name} has the number 65534"


def test_users_are_claimed_once_and_given_back(tmp_path: Path) -> None:
    users = BotUsers(SMALL, tmp_path / "locks")
    claimed = [users.claim() for _ in range(3)]
    assert sorted(claimed) == [700_000, 700_001, 700_002]
    with pytest.raises(OSError, match="all users of bots"):
        users.claim()
    users.release(claimed[1])
    users.release(claimed[1])
    assert users.claim() == claimed[1]


CLAIM_TWO = """
import sys
from pathlib import Path
from deepsea_referee.sandbox.bot_users import BotUsers, UserRange
users = BotUsers(UserRange(700_000, 700_002), Path(sys.argv[1]))
print(users.claim(), users.claim(), flush=True)
sys.stdin.read()
"""


def test_another_referee_has_others_until_it_is_killed(tmp_path: Path) -> None:
    locks = tmp_path / "locks"
    other = subprocess.Popen(
        [sys.executable, "-c", CLAIM_TWO, str(locks)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert other.stdout is not None
        theirs = {int(word) for word in other.stdout.readline().split()}
        users = BotUsers(SMALL, locks)
        (mine,) = {*range(700_000, 700_003)} - theirs
        assert users.claim() == mine
        with pytest.raises(OSError, match="in use"):
            users.claim()
    finally:
        other.kill()
        other.communicate()
    assert {users.claim(), users.claim()} == theirs


def test_a_forked_process_does_not_own_its_parents_claims(tmp_path: Path) -> None:
    users = BotUsers(SMALL, tmp_path / "locks")
    claimed = {users.claim(), users.claim()}
    child = os.fork()
    if child == 0:
        users.release(min(claimed))  # not its own: nothing happens
        os._exit(users.claim() in claimed)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.skipif(not bot_users.is_root(), reason="only root starts bots as other users")
def test_two_sandboxes_at_once_have_two_users() -> None:
    require("bubblewrap")
    own = bot_users.configured_users()
    assert own is not None, bot_users.requested_range().trouble()
    show = (sys.executable, "-I", "-S", "-c", "print(open('/proc/self/uid_map').read())")
    with (
        probe.started(Sandbox(), show) as end_first,
        probe.started(Sandbox(), show) as end_second,
    ):
        seen = {int(end().stdout.split()[1]) for end in (end_first, end_second)}
    assert len(seen) == 2
    assert all(own.range.first <= user <= own.range.last for user in seen)


def test_only_root_may_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ValueError, match="only root"):
        bot_users.choose("700000-700002")


@pytest.mark.parametrize(
    ("subuid", "subgid", "users"),
    [
        ("", "", None),
        ("anna:100000:65536\n", "", None),
        ("anna:100000:65536\n", "ben:100000:65536\n", None),
        ("anna:100000:65536\n", "anna:300000:65536\n", None),
        ("anna:100000:0\n", "anna:100000:0\n", None),
        ("anna:100000:10\n", "anna:100000:10\n", UserRange(100_000, 100_009)),
        ("anna:100000:65536\n", "4242:100000:65536\n", UserRange(165_036, 165_535)),
        ("x:1:9\nanna:9:3\nanna:200:9\n", "anna:204:99\n", UserRange(204, 208)),
    ],
)
def test_subordinate_users_are_the_last_that_are_given_as_users_and_as_groups(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    subuid: str,
    subgid: str,
    users: UserRange | None,
) -> None:
    anna = pwd.struct_passwd(("anna", "x", 4242, 4242, "", "/", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", {4242: anna}.__getitem__)
    (tmp_path / "subuid").write_text(subuid)
    (tmp_path / "subgid").write_text(subgid)
    assert bot_users.subordinate(4242, tmp_path) == users
    assert bot_users.subordinate(17, tmp_path) is None


# As an ordinary user: two bots at once, and a private bot, which is copied for them.
ORDINARY = """
import json, os, sys, tempfile
from pathlib import Path
from deepsea_referee.sandbox import bot_users, probe, process_tree
from deepsea_referee.sandbox.interface import LaunchSpec, ResourceLimits
from deepsea_referee.sandbox.bubblewrap import Sandbox

folder = Path(tempfile.mkdtemp())
(folder / "bot.toml").write_text('command = "python bot.py"')
(folder / "bot.py").write_text("import os; print('private', os.getuid())")
(folder / "bot.py").chmod(0o600)
users = bot_users.own_users()
outcome = probe.run(Sandbox(), (sys.executable, "bot.py"), folder=folder)
bots, outside = [], []
for _ in range(2):
    out, end = os.pipe()
    command = ("sh", "-c", "echo ready; exec sleep 20")
    bots.append(Sandbox().spawn(LaunchSpec(command, None, {}, None, end, 2, ResourceLimits())))
    os.close(end)
    os.read(out, 6)
    outside.append(os.stat(f"/proc/{process_tree.tree(bots[-1].pid)[-1]}").st_uid)
for one in bots:
    one.freeze()
    one.close()
ended = [one.returncode is not None for one in bots]
left = [path.name for path in Path("/tmp").glob(f"deepsea-{os.getpid()}-*")]
(folder / "bot.py").unlink(), (folder / "bot.toml").unlink(), folder.rmdir()
print(json.dumps([users and users.range, outcome.stdout + outcome.stderr, outside, ended, left]))
"""
AN_ORDINARY_USER = 61_900
# In a mount namespace of its own, so that this machine's users stay what they are.
AS_USER = """
for file in passwd subuid subgid; do
    [ -e /etc/$file ] || touch /etc/$file
    mount --bind "$1/$file" /etc/$file || exit 99
done
shift
exec setpriv --reuid 61900 --regid 61900 --clear-groups -- "$@"
"""


def as_ordinary_user(etc: Path, *command: str) -> Sequence[str]:
    """The command line of a program that an ordinary user with subordinate ones runs."""
    etc.mkdir(exist_ok=True)
    line = f"deepsea-test:x:{AN_ORDINARY_USER}:{AN_ORDINARY_USER}::/tmp:/bin/sh\n"
    (etc / "passwd").write_text(Path("/etc/passwd").read_text() + line)
    for name in ("subuid", "subgid"):
        (etc / name).write_text("deepsea-test:700000:50\n")
    for path in etc.iterdir():
        path.chmod(0o644)
    return ("unshare", "--mount", "--", "sh", "-c", AS_USER, "sh", str(etc), *command)


@pytest.mark.skipif(not bot_users.is_root(), reason="only root can act as another user")
def test_an_ordinary_user_with_subordinate_ones_has_a_user_for_each_bot(tmp_path: Path) -> None:
    require("bubblewrap", "uidmap")
    paths = {str(Path(str(module.__file__)).parents[depth]) for module, depth in MODULES}
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TMPDIR": "/tmp"}

    def run(python: str, program: str) -> subprocess.CompletedProcess[str]:
        command = as_ordinary_user(tmp_path / "etc", python, "-c", program)
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=60
        )

    # That of the tests may be in a home that is closed to others.
    reads_itself = "from deepsea_referee.sandbox import mounts; mounts.interpreter()"
    pythons = (sys.executable, "/usr/bin/python3")
    python = next((one for one in pythons if not run(one, reads_itself).returncode), None)
    if python is None:
        pytest.skip("no Python here that an ordinary user can run")
    done = run(python, ORDINARY)
    assert done.returncode == 0, done.stderr
    users, printed, outside, ended, left = json.loads(done.stdout)
    assert users == [700_000, 700_049]
    assert printed == "private 1000\n"
    assert len(set(outside)) == 2
    assert all(700_000 <= user <= 700_049 for user in outside)
    assert (ended, left) == ([True, True], [])

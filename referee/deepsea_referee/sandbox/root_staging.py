"""The steps between this process and bubblewrap: control groups, and an unprivileged user.

Invariants: each step executes the next in its place, so the bot's tree is below one child process.
A bot is never uid 0 outside its sandbox: if this process is root, the child becomes a user without
rights (bot_users.py) before bubblewrap starts; if it is an ordinary user with subordinate ones, the
child becomes one of these in a user namespace, which this process owns and may so kill and read.
What that user cannot reach (an interpreter in a home, a private socket folder) is then mounted, in
its own mount namespace, where it can; files of a bot that it cannot read are copied. When memory is
short on the whole machine, the kernel kills bots first.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from deepsea_referee.sandbox import bot_users, cleanup
from deepsea_referee.sandbox.errors import SandboxUnavailable
from deepsea_referee.sandbox.mounts import Mount

# The number of a subordinate user in the namespace in which it exists.
INSIDE = 1000
_TRIAL_S = 10

TOOL_PATH = os.pathsep.join(("/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"))

# Arguments: files to join -- pairs of source and mount point -- the next program.
# dash starts in a millisecond; a preexec_fn in a process with gRPC threads may hang.
# What root has raised nobody else can lower, and in the sandbox /proc is read-only.
_SCRIPT = """
echo 1000 > /proc/self/oom_score_adj || :
while [ "$1" != -- ]; do echo 0 > "$1" || exit 125; shift; done; shift
while [ "$1" != -- ]; do "$MOUNT" --bind "$1" "$2" || exit 125; shift 2; done; shift
unset MOUNT PWD OLDPWD
exec "$@"
"""


def tool(name: str) -> str:
    """The path of a program of the system; SandboxUnavailable if it is missing."""
    # Not the caller's PATH: these programs run before anything is confined.
    found = shutil.which(name, path=TOOL_PATH)
    if found is None:
        raise SandboxUnavailable(f"the sandbox needs the program {name!r}: install its package")
    return found


def is_root() -> bool:
    """Whether bots must run as another user."""
    return os.geteuid() == 0


@cache
def own_users() -> bot_users.BotUsers | None:
    """The users for bots, if there are any and a process can become one of them here."""
    users = bot_users.configured()
    if users is None or is_root():
        return users
    try:
        users.release(users.claim())  # the file with the locks may be somebody else's
        command = [*_as_subordinate(users.range.first), tool("true")]
        done = subprocess.run(command, env={}, check=False, capture_output=True, timeout=_TRIAL_S)
    except (OSError, SandboxUnavailable, subprocess.TimeoutExpired):
        return None
    return users if done.returncode == 0 else None


def in_namespace() -> bool:
    """Whether bots are subordinate users, whose numbers they do not see themselves."""
    return not is_root() and own_users() is not None


def _as_subordinate(user: int) -> list[str]:
    """The steps into a user namespace in which a program may become this user, number INSIDE.

    unshare calls newuidmap and newgidmap, which look in /etc/subuid and /etc/subgid. It becomes
    root in there because `mount` insists on it.
    """
    words = [tool("unshare"), "--map-user=0", "--map-group=0"]
    tool("newuidmap")  # or the error would be unshare's
    words += [f"--map-{kind}={user},{INSIDE},1" for kind in ("users", "groups")]
    return [*words, "--mount", "--propagation", "private", "--"]


@dataclass(slots=True)
class Stage:
    """Makes mounts readable for the sandbox's user; `sources` has their new places."""

    users: bot_users.BotUsers | None = None
    user: int | None = None
    """The number of the user and group that the bot runs as; None: this process's own."""
    folder: Path | None = None
    sources: dict[Mount, Path] = field(default_factory=dict)
    mounts: list[tuple[Path, Path]] = field(default_factory=list)

    @classmethod
    def build(cls, shown: Sequence[Mount]) -> Stage:
        """Prepare the mounts; nothing to do where bots are the same user as this process."""
        stage = cls(own_users())
        if is_root() or stage.users:
            stage.user = stage.users.claim() if stage.users else bot_users.NOBODY
            try:
                for one in shown:
                    stage._add(one)
            except OSError:
                stage.remove()
                raise
        return stage

    def _add(self, one: Mount) -> None:
        if one.is_bot and not _tree_is_open(one.source):
            # Others may pass through our folder if this is no root's: copies are in a private one.
            copies = self._passage() / "copies"
            copies.mkdir(mode=0o700, exist_ok=True)
            copy = copies / str(len(self.sources))
            _copy_open(one.source, copy)
            self._mount(one, copy)
        elif stat.S_ISSOCK(one.source.stat().st_mode):
            self._open_socket(one.source)
            self._mount(one, one.source)
        elif not _reachable(one.source):
            self._mount(one, one.source)

    def _open_socket(self, socket: Path) -> None:
        assert self.user is not None
        if is_root():
            os.chown(socket, self.user, self.user)
        else:
            socket.chmod(0o666)  # its folder is private

    def _mount(self, one: Mount, source: Path) -> None:
        place = self._passage() / str(len(self.sources))
        if source.is_dir():
            place.mkdir()
        else:
            place.touch()
        self.mounts.append((source.resolve(), place))
        self.sources[one] = place

    def _passage(self) -> Path:
        """The folder of the mount points: the sandbox's user may pass through but not list it."""
        if self.folder is None:
            self.folder = cleanup.private_folder()
            if not _reachable(self.folder.parent):
                cleanup.remove_folder(self.folder)
                self.folder = cleanup.private_folder(parent="/tmp")
            assert self.user is not None
            if is_root():
                os.chown(self.folder, -1, self.user)
                self.folder.chmod(0o710)
            else:
                self.folder.chmod(0o711)
        return self.folder

    def remove(self) -> None:
        """Remove copies and mount points; the mounts are gone with their namespace.

        Only when no process of the bot is left: its user is given back.
        """
        if self.users is not None and self.user is not None:
            self.users.release(self.user)
            self.user = None
        if self.folder is not None:
            cleanup.remove_folder(self.folder)
            self.folder = None


def steps(joins: Sequence[Path], stage: Stage) -> tuple[list[str], dict[str, str]]:
    """The command line before bubblewrap's, and the environment that it needs."""
    words: list[str] = []
    environment: dict[str, str] = {}
    user = stage.user
    if user is not None and not is_root():
        words, user = _as_subordinate(user), INSIDE
    elif stage.mounts:
        words = [tool("unshare"), "--mount", "--propagation", "private", "--"]
    if stage.mounts:
        environment["MOUNT"] = tool("mount")
    words += [tool("sh"), "-c", _SCRIPT, "sh"]
    words += [*map(str, joins), "--"]
    words += [str(path) for pair in stage.mounts for path in pair] + ["--"]
    if user is not None:
        words += [tool("setpriv"), f"--reuid={user}", f"--regid={user}", "--clear-groups", "--"]
    return words, environment


def _reachable(path: Path) -> bool:
    """Whether any user may reach and read this file or folder."""
    path = path.resolve()
    needed = stat.S_IROTH | (stat.S_IXOTH if path.is_dir() else 0)
    if path.stat().st_mode & needed != needed:
        return False
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in path.parents)


def _tree_is_open(path: Path) -> bool:
    """Whether any user may read this file, or everything in this folder, once it is reached."""
    if not path.is_dir():
        return bool(path.stat().st_mode & stat.S_IROTH)
    for folder, _folders, files in os.walk(path):
        inside = [Path(folder), *(Path(folder, name) for name in files)]
        for one in inside:
            mode = one.lstat().st_mode
            needed = stat.S_IROTH | (stat.S_IXOTH if stat.S_ISDIR(mode) else 0)
            if not stat.S_ISLNK(mode) and mode & needed != needed:
                return False
    return True


def _copy_open(source: Path, target: Path) -> None:
    """Copy a bot so that any user who reaches the copy can read it."""
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True)
        paths = [
            Path(folder, name) for folder, _, files in os.walk(target) for name in ("", *files)
        ]
    else:
        shutil.copy(source, target)
        paths = [target]
    for path in paths:
        mode = path.lstat().st_mode
        if not stat.S_ISLNK(mode):
            # Readable, and executable where its owner may execute it.
            path.chmod(stat.S_IMODE(mode) | 0o444 | (0o111 if mode & stat.S_IXUSR else 0))

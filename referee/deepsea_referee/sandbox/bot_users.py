"""The host's users that bots run as, and the steps between this process and bubblewrap.

A bot is never uid 0 outside of its sandbox. If the referee is root, bots get user numbers that are
not in use; if it is an ordinary user, subordinate numbers that /etc/subuid and /etc/subgid assign
to it, in a user namespace that this process owns, so that it may kill and read its processes.

Invariants: no two sandboxes of this machine have the same user at the same time, including those of
other referees, so that no bot can use up resources of another one that the kernel counts for each
user (descriptors in flight, pages of pipes). No number of root's range belongs to another user; if
one does, every bot runs as `nobody`. A user is claimed with a lock, which the kernel drops when
this process ends.

Each step executes the next in its place, so the bot's tree is below one child process. What a bot's
user cannot reach (an interpreter in a home, a private socket folder) is mounted, in its own mount
namespace, where it can; files of a bot that it cannot read are copied. When memory is short on the
whole machine, the kernel kills bots first.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import os
import pwd
import shutil
import stat
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

from deepsea_referee.sandbox import cleanup
from deepsea_referee.sandbox.interface import BOT_USERS, SandboxUnavailable
from deepsea_referee.sandbox.mounts import Mount

NOBODY = 65534
# Inherited by worker processes.
VARIABLE = "DEEPSEA_BOT_UIDS"
LOCKS = Path("/run/deepsea-referee.uids")
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


class UserRange(NamedTuple):
    """Numbers of users (and of the groups with the same numbers), first and last included."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> UserRange:
        """Read a range such as "60600-61099". Raises ValueError with a line for the user."""
        first, _, last = text.partition("-")
        if not (first.isdecimal() and last.isdecimal() and 0 < int(first) <= int(last) < 2**31):
            raise ValueError(f"a range of user numbers is FIRST-LAST, such as {DEFAULT}: {text!r}")
        return cls(int(first), int(last))

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"

    def overlaps(self, first: int, count: int) -> bool:
        """Return True if one of `count` numbers from `first` on is in the range."""
        return first <= self.last and first + count > self.first

    def trouble(self, etc: Path = Path("/etc"), process: Path = Path("/proc/self")) -> str:
        """Return the reason why bots cannot run as these users; "" if they can.

        etc      the folder with subuid and subgid
        process  the folder with uid_map and gid_map, which list the users of a container
        """
        for user in pwd.getpwall():
            if self.overlaps(user.pw_uid, 1):
                return f"user {user.pw_name} has the number {user.pw_uid}"
        for name in ("subuid", "subgid"):
            for owner, first, count in _entries(etc / name):
                if self.overlaps(first, count):
                    return f"{etc / name} gives numbers of it to {owner}"
        for name in ("uid_map", "gid_map"):
            lines = (map(int, line.split()) for line in _lines(process / name))
            if not any(
                first <= self.first and self.last < first + count for first, _, count in lines
            ):
                return "this container has no such users"
        return ""


# Free by systemd's conventions (below the 61184 of DynamicUser) and above what adduser gives.
DEFAULT = UserRange(*BOT_USERS)


def _entries(file: Path) -> Iterator[tuple[str, int, int]]:
    """Yield the entries of subuid or subgid: the owner, the first number, and their count."""
    for line in _lines(file):
        words = line.strip().split(":")
        if len(words) == 3 and words[1].isdecimal() and words[2].isdecimal():
            yield words[0], int(words[1]), int(words[2])


def _lines(file: Path) -> list[str]:
    """Return the lines of a file; an empty list if it cannot be read."""
    try:
        return file.read_text().splitlines()
    except OSError:
        return []


class BotUsers:
    """Claims users of a range for sandboxes, by a lock on one byte of a file for each user."""

    def __init__(self, users: UserRange, locks: Path = LOCKS) -> None:
        self.range = users
        self._locks = locks
        self._lock = threading.Lock()
        self._owner = 0
        self._file = -1
        self._claimed: set[int] = set()
        self._next: Iterator[int] = iter(())

    def claim(self) -> int:
        """Claim a user that no other sandbox has. Raises OSError if all are in use."""
        with self._lock:
            self._open()
            for user in itertools.islice(self._next, self.range.last - self.range.first + 1):
                if user not in self._claimed and self._try_lock(user):
                    self._claimed.add(user)
                    return user
        message = f"all users of bots ({self.range}) are in use: see --bot-uids"
        raise BlockingIOError(errno.EAGAIN, message)

    def release(self, user: int) -> None:
        """Release a user, which must have no running process any more."""
        with self._lock:
            if self._owner == os.getpid() and user in self._claimed:
                self._claimed.remove(user)
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, user)

    def _open(self) -> None:
        """Open the file with the locks, once in each process."""
        if self._owner == os.getpid():
            return
        # A forked process inherits the open file, but no lock: it needs a file of its own.
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = os.open(self._locks, flags, 0o600)
        self._owner = os.getpid()
        self._claimed = set()
        # In turns, so that a user is not used again at once; processes begin at different users.
        count = self.range.last - self.range.first + 1
        start = os.getpid() % count
        self._next = (self.range.first + (start + number) % count for number in itertools.count())

    def _try_lock(self, user: int) -> bool:
        """Lock a user for this process; return False if another process has it."""
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, user)
        except OSError:
            return False
        return True


# Of many subordinate users the last ones: containers take the first.
MOST_SUBORDINATE = 500


def subordinate(user: int, etc: Path = Path("/etc")) -> UserRange | None:
    """Return numbers that are assigned to a user both as users and as groups; None if none are.

    Of many numbers these are the last ones, because containers use the first ones.
    """
    owners = {str(user)}
    with contextlib.suppress(KeyError):
        owners.add(pwd.getpwuid(user).pw_name)
    users, groups = (
        [
            (first, first + count - 1)
            for owner, first, count in _entries(etc / name)
            if owner in owners and count
        ]
        for name in ("subuid", "subgid")
    )
    for (first, last), (first_group, last_group) in itertools.product(users, groups):
        both = UserRange(max(first, first_group), min(last, last_group))
        if both.first <= both.last:
            return both._replace(first=max(both.first, both.last - MOST_SUBORDINATE + 1))
    return None


def requested_range() -> UserRange:
    """Return the range of users that was chosen, or the default."""
    return UserRange.parse(os.environ.get(VARIABLE, str(DEFAULT)))


@cache
def configured_users() -> BotUsers | None:
    """Return the users for this process's bots by the configuration of the machine.

    None means that bots run as this process's own user, or as `nobody` if that is root.
    """
    own = os.geteuid()
    if own == 0:
        return BotUsers(requested_range()) if not requested_range().trouble() else None
    users = subordinate(own)
    return BotUsers(users, Path(f"/tmp/deepsea-referee-{own}.uids")) if users else None


def choose(text: str) -> None:
    """Use a range of users in this process and the processes that it starts.

    Raises ValueError with a line for the user if the range cannot be used.
    """
    if os.geteuid() != 0:
        raise ValueError("only root can start bots as other users")
    if trouble := UserRange.parse(text).trouble():
        raise ValueError(f"bots cannot run as users {text}: {trouble}")
    os.environ[VARIABLE] = text
    configured_users.cache_clear()


# The steps to bubblewrap


def tool_path(name: str) -> str:
    """Return the path of a program of the system. Raises SandboxUnavailable if it is missing."""
    # Not the caller's PATH: these programs run before the bot is confined.
    path = shutil.which(name, path=TOOL_PATH)
    if path is None:
        raise SandboxUnavailable(f"the sandbox needs the program {name!r}: install its package")
    return path


def is_root() -> bool:
    """Return True if this process is root, so that bots must run as another user."""
    return os.geteuid() == 0


@cache
def own_users() -> BotUsers | None:
    """Return the users for bots, or None if there are none, or no process can become one here.

    For subordinate users this is tried out, once in each process.
    """
    users = configured_users()
    if users is None or is_root():
        return users
    try:
        users.release(users.claim())  # fails if the file with the locks belongs to another user
        command = [*_as_subordinate(users.range.first), tool_path("true")]
        done = subprocess.run(command, env={}, check=False, capture_output=True, timeout=_TRIAL_S)
    except (OSError, SandboxUnavailable, subprocess.TimeoutExpired):
        return None
    return users if done.returncode == 0 else None


def in_namespace() -> bool:
    """Return True if bots are subordinate users, whose numbers are not visible in a sandbox."""
    return not is_root() and own_users() is not None


def _as_subordinate(user: int) -> list[str]:
    """Return the command that enters a user namespace in which a program may become this user.

    The user has the number INSIDE there. unshare calls newuidmap and newgidmap, which check
    /etc/subuid and /etc/subgid. It becomes root in the namespace, which `mount` requires.
    """
    words = [tool_path("unshare"), "--map-user=0", "--map-group=0"]
    tool_path("newuidmap")  # if it is missing, the error here is clearer than that of unshare
    words += [f"--map-{kind}={user},{INSIDE},1" for kind in ("users", "groups")]
    return [*words, "--mount", "--propagation", "private", "--"]


@dataclass(slots=True)
class Stage:
    """Prepares the files of a sandbox for its user: makes them readable, by copies or mounts."""

    users: BotUsers | None = None
    user: int | None = None
    """The number of the user and group of the bot; None for those of this process."""
    folder: Path | None = None
    """The folder with copies and mount points; None if there are none."""
    sources: dict[Mount, Path] = field(default_factory=dict)
    """The new sources of mounts that the user cannot read at their own paths."""
    mounts: list[tuple[Path, Path]] = field(default_factory=list)
    """The additional mounts: source and mount point."""

    @classmethod
    def build(cls, shown: Sequence[Mount]) -> Stage:
        """Claim a user, and prepare the mounts for it.

        There is nothing to do if bots run as the user of this process.
        """
        stage = cls(own_users())
        if is_root() or stage.users:
            stage.user = stage.users.claim() if stage.users else NOBODY
            try:
                for mount in shown:
                    stage._add(mount)
            except OSError:
                stage.remove()
                raise
        return stage

    def _add(self, mount: Mount) -> None:
        """Make a mount readable for the sandbox's user: by a copy, a mount point, or as it is."""
        if mount.is_bot and not _tree_is_open(mount.source):
            # Copies are in a private folder: without root, any user may pass through ours.
            copies = self._mount_points_folder() / "copies"
            copies.mkdir(mode=0o700, exist_ok=True)
            copy = copies / str(len(self.sources))
            _copy_open(mount.source, copy)
            self._mount(mount, copy)
        elif stat.S_ISSOCK(mount.source.stat().st_mode):
            self._open_socket(mount.source)
            self._mount(mount, mount.source)
        elif not _reachable(mount.source):
            self._mount(mount, mount.source)

    def _open_socket(self, socket: Path) -> None:
        """Let the sandbox's user connect to the referee's socket."""
        assert self.user is not None
        if is_root():
            os.chown(socket, self.user, self.user)
        else:
            socket.chmod(0o666)  # its folder is private

    def _mount(self, mount: Mount, source: Path) -> None:
        """Mount a file or folder at a new mount point that the sandbox's user can reach."""
        mount_point = self._mount_points_folder() / str(len(self.sources))
        if source.is_dir():
            mount_point.mkdir()
        else:
            mount_point.touch()
        self.mounts.append((source.resolve(), mount_point))
        self.sources[mount] = mount_point

    def _mount_points_folder(self) -> Path:
        """Return the folder of the mount points, created if necessary.

        The sandbox's user may pass through it, but not list it.
        """
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
        """Remove copies and mount points, and release the user.

        No process of the bot may be running any more. The mounts have ended with their namespace.
        """
        if self.users is not None and self.user is not None:
            self.users.release(self.user)
            self.user = None
        if self.folder is not None:
            cleanup.remove_folder(self.folder)
            self.folder = None


def launcher(joins: Sequence[Path], stage: Stage) -> tuple[list[str], dict[str, str]]:
    """Return the command that is put before that of bubblewrap, and its environment.

    joins  the files of control groups to which a process writes 0 to join them
    """
    words: list[str] = []
    environment: dict[str, str] = {}
    user = stage.user
    if user is not None and not is_root():
        words, user = _as_subordinate(user), INSIDE
    elif stage.mounts:
        words = [tool_path("unshare"), "--mount", "--propagation", "private", "--"]
    if stage.mounts:
        environment["MOUNT"] = tool_path("mount")
    words += [tool_path("sh"), "-c", _SCRIPT, "sh"]
    words += [*map(str, joins), "--"]
    words += [str(path) for pair in stage.mounts for path in pair] + ["--"]
    if user is not None:
        words += [
            tool_path("setpriv"),
            f"--reuid={user}",
            f"--regid={user}",
            "--clear-groups",
            "--",
        ]
    return words, environment


def _reachable(path: Path) -> bool:
    """Return True if any user may reach and read this file or folder."""
    path = path.resolve()
    needed = stat.S_IROTH | (stat.S_IXOTH if path.is_dir() else 0)
    if path.stat().st_mode & needed != needed:
        return False
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in path.parents)


def _tree_is_open(path: Path) -> bool:
    """Return True if any user who can reach a file may read it, or all that a folder contains."""
    if not path.is_dir():
        return bool(path.stat().st_mode & stat.S_IROTH)
    for folder, _folders, files in os.walk(path):
        inside = [Path(folder), *(Path(folder, name) for name in files)]
        for file in inside:
            mode = file.lstat().st_mode
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
            # Readable for all, and executable for all if the owner may execute it.
            path.chmod(stat.S_IMODE(mode) | 0o444 | (0o111 if mode & stat.S_IXUSR else 0))

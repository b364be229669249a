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
# The environment variable with the range of users that was chosen.
VARIABLE = "DEEPSEA_BOT_UIDS"
LOCKS = Path("/run/deepsea-referee.uids")
# The number of a subordinate user in the namespace in which it exists.
INSIDE = 1000
_NEW_MOUNTS = ("--mount", "--propagation", "private", "--")
"""The options of unshare for a mount namespace, whose mounts the rest of the host does not see."""
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

    def numbers(self) -> range:
        """Return the numbers of the users, in order."""
        return range(self.first, self.last + 1)

    def overlaps(self, first: int, count: int) -> bool:
        """Return True if one of `count` numbers from `first` on is in the range."""
        return first <= self.last and first + count > self.first

    def trouble(self, etc: Path = Path("/etc"), process: Path = Path("/proc/self")) -> str:
        """Return the reason why root cannot run bots as these users; "" if it can.

        They must not belong to anybody else, and must exist in this container.

        etc      the folder with subuid and subgid, which assign numbers to ordinary users
        process  the folder with uid_map and gid_map, which list the numbers of a container
        """
        for user in pwd.getpwall():
            if self.overlaps(user.pw_uid, 1):
                return f"user {user.pw_name} has the number {user.pw_uid}"
        for name in ("subuid", "subgid"):
            for owner, first, count in _entries(etc / name):
                if self.overlaps(first, count):
                    return f"{etc / name} gives numbers of it to {owner}"
        for name in ("uid_map", "gid_map"):
            # Each line: the first number inside, the first number outside, and their count.
            mapped_ranges = (map(int, line.split()) for line in _lines(process / name))
            is_mapped = any(
                first <= self.first and self.last < first + count
                for first, _outside, count in mapped_ranges
            )
            if not is_mapped:
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
        self._candidates: Iterator[int] = iter(())
        """The users to try, beginning with the next one; it never ends once the file is open."""

    def claim(self) -> int:
        """Claim a user that no other sandbox of this machine has, and return its number.

        Raises OSError if all are in use.
        """
        with self._lock:
            self._open_locks_file()
            for user in itertools.islice(self._candidates, len(self.range.numbers())):
                # A process can lock a byte twice: its own claims are known by the set only.
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

    def _open_locks_file(self) -> None:
        """Open the file with the locks, if this process has not opened it yet.

        A forked process inherits the open file, but no lock, so it opens the file again, and begins
        without claims.
        """
        if self._owner == os.getpid():
            return
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = os.open(self._locks, flags, 0o600)
        self._owner = os.getpid()
        self._claimed = set()
        # All users in turn, so that a released one is not used again at once. Each process begins
        # at another user, so that processes seldom try the same one.
        users = self.range.numbers()
        start = os.getpid() % len(users)
        self._candidates = (users[(start + turn) % len(users)] for turn in itertools.count())

    def _try_lock(self, user: int) -> bool:
        """Lock a user's byte of the file; return False if another process has locked it."""
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, user)
        except OSError:
            return False
        return True


MOST_SUBORDINATE = 500


def subordinate(user: int, etc: Path = Path("/etc")) -> UserRange | None:
    """Return the users that this machine has assigned to an ordinary user; None if there are none.

    The file subuid assigns numbers of users, subgid numbers of groups. The result is a range that
    both assign, at most MOST_SUBORDINATE long, so that each bot has a user and a group with the
    same number.

    user  the number of the ordinary user
    etc   the folder with subuid and subgid
    """
    owners = {str(user)}  # the files name an owner by number or by name
    with contextlib.suppress(KeyError):
        owners.add(pwd.getpwuid(user).pw_name)
    user_ranges = _ranges_of(owners, etc / "subuid")
    group_ranges = _ranges_of(owners, etc / "subgid")
    for users, groups in itertools.product(user_ranges, group_ranges):
        first, last = max(users.first, groups.first), min(users.last, groups.last)
        if first <= last:
            # The last ones, because containers use the first ones.
            return UserRange(max(first, last - MOST_SUBORDINATE + 1), last)
    return None


def _ranges_of(owners: set[str], file: Path) -> list[UserRange]:
    """Return the ranges that subuid or subgid assigns to any of these owners."""
    return [
        UserRange(first, first + count - 1)
        for owner, first, count in _entries(file)
        if owner in owners and count > 0
    ]


def requested_range() -> UserRange:
    """Return the range of users that was chosen, or the default."""
    return UserRange.parse(os.environ.get(VARIABLE, str(DEFAULT)))


@cache
def configured_users() -> BotUsers | None:
    """Return the users that this machine is configured to have for the bots of this process.

    For root they are the requested range, for another user its subordinate users. Return None if
    there are none: bots run as `nobody` then if this process is root, otherwise as its own user.
    """
    user = os.geteuid()
    if user == 0:
        requested = requested_range()
        return None if requested.trouble() else BotUsers(requested)
    users = subordinate(user)
    if users is None:
        return None
    return BotUsers(users, Path(f"/tmp/deepsea-referee-{user}.uids"))


def choose(text: str) -> None:
    """Let this process, and those that it starts, run bots as the users of a range.

    Raises ValueError, whose message is a line for the user, if the range cannot be used.

    text  the range, such as "60600-61099"
    """
    if os.geteuid() != 0:
        raise ValueError("only root can start bots as other users")
    if trouble := UserRange.parse(text).trouble():
        raise ValueError(f"bots cannot run as users {text}: {trouble}")
    os.environ[VARIABLE] = text  # worker processes inherit it
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
    """Return the configured users if bots can run as them on this machine, otherwise None.

    Root can become any user. For subordinate users, this process tries once to run a program as one
    of them: the machine may lack a program, or not allow user namespaces.
    """
    users = configured_users()
    if users is None or is_root():
        return users
    try:
        users.release(users.claim())  # fails if the file with the locks belongs to another user
        command = [*_enter_namespace(users.range.first), tool_path("true")]
        trial = subprocess.run(command, env={}, check=False, capture_output=True, timeout=_TRIAL_S)
    except (OSError, SandboxUnavailable, subprocess.TimeoutExpired):
        return None
    return users if trial.returncode == 0 else None


def in_namespace() -> bool:
    """Return True if bots are subordinate users, whose numbers are not visible in a sandbox."""
    return not is_root() and own_users() is not None


def _enter_namespace(user: int) -> list[str]:
    """Return the command that runs another one in new user and mount namespaces.

    In there, this process's user is root, as `mount` requires, and the subordinate user `user` has
    the number INSIDE. unshare calls newuidmap and newgidmap, which check that /etc/subuid and
    /etc/subgid allow this.
    """
    unshare = tool_path("unshare")
    tool_path("newuidmap")  # if it is missing, the error here is clearer than that of unshare
    return [
        unshare,
        "--map-user=0",
        "--map-group=0",
        f"--map-users={user},{INSIDE},1",
        f"--map-groups={user},{INSIDE},1",
        *_NEW_MOUNTS,
    ]


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
        """Claim a user for a sandbox, and let it read all that is mounted there.

        If bots run as the user of this process, nothing is claimed or prepared: `user` is None.

        shown  the mounts of the sandbox
        """
        available = own_users()
        stage = cls(available)
        if available is not None:
            stage.user = available.claim()
        elif is_root():
            stage.user = NOBODY
        else:
            return stage  # bots run as the user of this process
        try:
            for mount in shown:
                stage._make_readable(mount)
        except OSError:
            stage.remove()
            raise
        return stage

    def _make_readable(self, mount: Mount) -> None:
        """Let the sandbox's user read a mount: by a copy, by a mount point, or as it is."""
        if mount.is_bot and not _tree_is_open(mount.source):
            # The mount points' folder may be open to any user: the copies need a private one.
            copies = self._mount_points_folder() / "copies"
            copies.mkdir(mode=0o700, exist_ok=True)
            copy = copies / str(len(self.sources))
            _copy_readable(mount.source, copy)
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
            # Only root may change the owner. Others cannot connect: the socket's folder is private.
            socket.chmod(0o666)

    def _mount(self, mount: Mount, source: Path) -> None:
        """Plan to mount `source` at a new mount point that the sandbox's user can reach.

        The sandbox mounts this mount point then, instead of the mount's own source.
        """
        mount_point = self._mount_points_folder() / str(len(self.sources))
        if source.is_dir():
            mount_point.mkdir()
        else:
            mount_point.touch()
        self.mounts.append((source.resolve(), mount_point))
        self.sources[mount] = mount_point

    def _mount_points_folder(self) -> Path:
        """Return the folder of the mount points, which the first call creates.

        The sandbox's user may enter it, but not list it. It is below /tmp if that user cannot reach
        the usual folder for temporary files.
        """
        if self.folder is None:
            self.folder = cleanup.private_folder()
            if not _reachable(self.folder.parent):
                cleanup.remove_folder(self.folder)
                self.folder = cleanup.private_folder(parent="/tmp")
            assert self.user is not None
            if is_root():
                os.chown(self.folder, -1, self.user)  # only the group
                self.folder.chmod(0o710)
            else:
                self.folder.chmod(0o711)
        return self.folder

    def remove(self) -> None:
        """Release the user, and remove the copies and mount points; may be called again.

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

    It enters the namespaces that are needed, then runs _SCRIPT, which joins the control groups and
    makes the mounts, and then becomes the user of the stage.

    joins  the files of control groups to which a process writes 0 to join them
    stage  has the user of the bot, and the mounts that this user needs
    """
    command: list[str] = []
    environment: dict[str, str] = {}
    user = stage.user
    if user is not None and not is_root():
        command = _enter_namespace(user)
        user = INSIDE  # its number in that namespace
    elif stage.mounts:
        command = [tool_path("unshare"), *_NEW_MOUNTS]
    if stage.mounts:
        environment["MOUNT"] = tool_path("mount")
    # The script's arguments are two lists, each of which ends with "--", and the next program.
    command += [tool_path("sh"), "-c", _SCRIPT, "sh"]
    command += [*map(str, joins), "--"]
    for source, mount_point in stage.mounts:
        command += [str(source), str(mount_point)]
    command.append("--")
    if user is not None:
        command += [tool_path("setpriv"), f"--reuid={user}", f"--regid={user}"]
        command += ["--clear-groups", "--"]
    return command, environment


def _reachable(path: Path) -> bool:
    """Return True if any user may enter the folders above a file or folder, and read it."""
    path = path.resolve()
    if not _is_readable_for_all(path.stat().st_mode):
        return False
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in path.parents)


def _is_readable_for_all(mode: int) -> bool:
    """Return True if any user may read a file with this mode, or read and enter such a folder."""
    needed = stat.S_IROTH | (stat.S_IXOTH if stat.S_ISDIR(mode) else 0)
    return mode & needed == needed


def _tree_is_open(path: Path) -> bool:
    """Return True if any user may read a file, or everything in a folder at any depth.

    The folders above it are not considered, see `_reachable`.
    """
    if not path.is_dir():
        return _is_readable_for_all(path.stat().st_mode)
    for file in _walk(path):
        mode = file.lstat().st_mode
        if not stat.S_ISLNK(mode) and not _is_readable_for_all(mode):
            return False
    return True


def _copy_readable(source: Path, target: Path) -> None:
    """Copy the file or folder of a bot, and let any user read the copy."""
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True)
        copied_paths = list(_walk(target))
    else:
        shutil.copy(source, target)
        copied_paths = [target]
    for path in copied_paths:
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            continue
        permissions = stat.S_IMODE(mode) | 0o444  # readable for all
        if mode & stat.S_IXUSR:  # executable for all if the owner may execute it
            permissions |= 0o111
        path.chmod(permissions)


def _walk(top: Path) -> Iterator[Path]:
    """Yield a folder, and all folders and files in it at any depth."""
    for folder, _folders, files in os.walk(top):
        yield Path(folder)
        for name in files:
            yield Path(folder, name)

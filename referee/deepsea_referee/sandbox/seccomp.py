"""The system call filter of the sandbox (seccomp): a reviewed table and the program made from it.

Invariants: the table is data, and can be reviewed without the code below it. A call that the table
does not name is allowed if it existed when the table was reviewed (up to LAST_REVIEWED) and fails
with ENOSYS otherwise, so calls of newer kernels are refused. Other architectures' calls
(32-bit on a 64-bit kernel) kill the process. One program serves x86_64 and aarch64.
The format is classic BPF as seccomp(2) describes it; bubblewrap installs it.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

# 462 is mseal (Linux 6.10). The table was reviewed against Linux's syscall tables up to there.
LAST_REVIEWED = 462


class DeniedCall(NamedTuple):
    """A system call that fails with `error`; if that is 0, it does nothing and returns 0.

    `when` restricts this to some values of one argument.
    """

    name: str
    x86_64: int | None
    aarch64: int | None
    error: int
    when: ArgumentTest | None = None


class ArgumentTest(NamedTuple):
    """A test of the low 32 bits of argument number `argument`.

    kind `in`: the value is one of `values`; `not in`: it is none of them; `any bit`: it has a bit
    in common with values[0].
    """

    argument: int
    kind: str
    values: tuple[int, ...]


# New user, mount, pid, net, ipc, uts or cgroup namespaces, as flags of clone(2).
_NEW_NAMESPACE = 0x7E020000
_AF_UNIX = 1
# F_GETLK F_SETLK F_SETLKW, the same for open file descriptions, F_SETLEASE F_GETLEASE F_NOTIFY.
_LOCKS = (5, 6, 7, 36, 37, 38, 1024, 1025, 1026)
# F_GET_RW_HINT F_SET_RW_HINT F_GET_FILE_RW_HINT F_SET_FILE_RW_HINT: kept with the inode.
_HINTS = (1035, 1036, 1037, 1038)
_FADV_DONTNEED = 4
_MADV_PAGEOUT = 21
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_PR_SET_PDEATHSIG = 1
_EPERM, _ENOSYS = errno.EPERM, errno.ENOSYS

TABLE: tuple[DeniedCall, ...] = (
    # Other processes' memory, registers and descriptors.
    DeniedCall("ptrace", 101, 117, _EPERM),
    DeniedCall("process_vm_readv", 310, 270, _EPERM),
    DeniedCall("process_vm_writev", 311, 271, _EPERM),
    DeniedCall("process_madvise", 440, 440, _EPERM),
    DeniedCall("pidfd_getfd", 438, 438, _EPERM),
    DeniedCall("kcmp", 312, 272, _EPERM),
    # Keyrings are shared by all sandboxes of a user.
    DeniedCall("keyctl", 250, 219, _EPERM),
    DeniedCall("add_key", 248, 217, _EPERM),
    DeniedCall("request_key", 249, 218, _EPERM),
    # Most of the kernel's security holes were found in new namespaces. clone3 takes its
    # flags from memory, where no filter can see them; libraries fall back to clone.
    DeniedCall("unshare", 272, 97, _EPERM),
    DeniedCall("setns", 308, 268, _EPERM),
    DeniedCall("clone", 56, 220, _EPERM, ArgumentTest(0, "any bit", (_NEW_NAMESPACE,))),
    DeniedCall("clone3", 435, 435, _ENOSYS),
    # Mounts and roots.
    DeniedCall("mount", 165, 40, _EPERM),
    DeniedCall("umount2", 166, 39, _EPERM),
    DeniedCall("pivot_root", 155, 41, _EPERM),
    DeniedCall("chroot", 161, 51, _EPERM),
    DeniedCall("open_tree", 428, 428, _EPERM),
    DeniedCall("move_mount", 429, 429, _EPERM),
    DeniedCall("fsopen", 430, 430, _EPERM),
    DeniedCall("fsconfig", 431, 431, _EPERM),
    DeniedCall("fsmount", 432, 432, _EPERM),
    DeniedCall("fspick", 433, 433, _EPERM),
    DeniedCall("mount_setattr", 442, 442, _EPERM),
    DeniedCall("statmount", 457, 457, _EPERM),
    DeniedCall("listmount", 458, 458, _EPERM),
    DeniedCall("name_to_handle_at", 303, 264, _EPERM),
    DeniedCall("open_by_handle_at", 304, 265, _EPERM),
    # Large parts of the kernel that no bot needs.
    DeniedCall("bpf", 321, 280, _EPERM),
    DeniedCall("perf_event_open", 298, 241, _EPERM),
    DeniedCall("userfaultfd", 323, 282, _EPERM),
    DeniedCall("io_uring_setup", 425, 425, _ENOSYS),
    DeniedCall("io_uring_enter", 426, 426, _ENOSYS),
    DeniedCall("io_uring_register", 427, 427, _ENOSYS),
    DeniedCall("fanotify_init", 300, 262, _EPERM),
    DeniedCall("fanotify_mark", 301, 263, _EPERM),
    # Counted for each user of the host: one bot could use up the others' share.
    DeniedCall("inotify_init", 253, None, _ENOSYS),
    DeniedCall("inotify_init1", 294, 26, _ENOSYS),
    # Memory that belongs to no process, so neither its limits nor the watchdog count it.
    DeniedCall("shmget", 29, 194, _EPERM),
    DeniedCall("shmat", 30, 196, _EPERM),
    DeniedCall("shmctl", 31, 195, _EPERM),
    DeniedCall("shmdt", 67, 197, _EPERM),
    DeniedCall("semget", 64, 190, _EPERM),
    DeniedCall("semop", 65, 193, _EPERM),
    DeniedCall("semtimedop", 220, 192, _EPERM),
    DeniedCall("semctl", 66, 191, _EPERM),
    DeniedCall("msgget", 68, 186, _EPERM),
    DeniedCall("msgsnd", 69, 189, _EPERM),
    DeniedCall("msgrcv", 70, 188, _EPERM),
    DeniedCall("msgctl", 71, 187, _EPERM),
    DeniedCall("mq_open", 240, 180, _EPERM),
    DeniedCall("mq_unlink", 241, 181, _EPERM),
    DeniedCall("memfd_create", 319, 279, _ENOSYS),
    DeniedCall("memfd_secret", 447, 447, _ENOSYS),
    DeniedCall("setxattr", 188, 5, errno.EOPNOTSUPP),
    DeniedCall("lsetxattr", 189, 6, errno.EOPNOTSUPP),
    DeniedCall("fsetxattr", 190, 7, errno.EOPNOTSUPP),
    # Only Unix sockets: internet sockets are useless in an empty network, but vsock ones reach
    # the hypervisor, and netlink, packet and others are large parts of the kernel.
    DeniedCall("socket", 41, 198, errno.EAFNOSUPPORT, ArgumentTest(0, "not in", (_AF_UNIX,))),
    DeniedCall("socketpair", 53, 199, errno.EAFNOSUPPORT, ArgumentTest(0, "not in", (_AF_UNIX,))),
    # Locks and hints on files that two sandboxes see (libraries, say), and what is in the page
    # cache of them, would be a covert channel.
    DeniedCall("flock", 73, 32, errno.ENOLCK),
    DeniedCall("fcntl", 72, 25, errno.ENOLCK, ArgumentTest(1, "in", (*_LOCKS, *_HINTS))),
    DeniedCall("cachestat", 451, 451, _ENOSYS),
    DeniedCall("fadvise64", 221, 223, _EPERM, ArgumentTest(3, "in", (_FADV_DONTNEED,))),
    DeniedCall("madvise", 28, 233, errno.EINVAL, ArgumentTest(2, "in", (_MADV_PAGEOUT,))),
    # Writing out the host's disks takes the time of others. fsync of its own files is left.
    DeniedCall("sync", 162, 81, _EPERM),
    DeniedCall("syncfs", 306, 267, _EPERM),
    DeniedCall("sync_file_range", 277, 84, _ENOSYS),
    # The contexts of all users come from one small pool of the host.
    DeniedCall("io_setup", 206, 0, _ENOSYS),
    # A bot must not clear the parent-death signal that kills it with the referee.
    DeniedCall("prctl", 157, 167, 0, ArgumentTest(0, "in", (_PR_SET_PDEATHSIG,))),
    # Typing into a terminal.
    DeniedCall("ioctl", 16, 29, _EPERM, ArgumentTest(1, "in", (_TIOCSTI, _TIOCLINUX))),
    # Clocks, scheduling, placement: threads of low priority or pinned to one CPU would make the
    # host look busy. EPERM, because libraries that place or rank their threads (OpenBLAS, OpenMP,
    # libuv) know it from containers and go on; to ask (sched_get*) and to yield is allowed.
    DeniedCall("clock_settime", 227, 112, _EPERM),
    DeniedCall("clock_adjtime", 305, 266, _EPERM),
    DeniedCall("settimeofday", 164, 170, _EPERM),
    DeniedCall("adjtimex", 159, 171, _EPERM),
    DeniedCall("setpriority", 141, 140, _EPERM),
    DeniedCall("ioprio_set", 251, 30, _EPERM),
    DeniedCall("sched_setparam", 142, 118, _EPERM),
    DeniedCall("sched_setscheduler", 144, 119, _EPERM),
    DeniedCall("sched_setaffinity", 203, 122, _EPERM),
    DeniedCall("sched_setattr", 314, 274, _EPERM),
    DeniedCall("migrate_pages", 256, 238, _EPERM),
    DeniedCall("move_pages", 279, 239, _EPERM),
    # The machine itself. All of these need privileges that a bot does not have; refused again here.
    DeniedCall("acct", 163, 89, _EPERM),
    DeniedCall("swapon", 167, 224, _EPERM),
    DeniedCall("swapoff", 168, 225, _EPERM),
    DeniedCall("reboot", 169, 142, _EPERM),
    DeniedCall("sethostname", 170, 161, _EPERM),
    DeniedCall("setdomainname", 171, 162, _EPERM),
    DeniedCall("init_module", 175, 105, _EPERM),
    DeniedCall("finit_module", 313, 273, _EPERM),
    DeniedCall("delete_module", 176, 106, _EPERM),
    DeniedCall("kexec_load", 246, 104, _EPERM),
    DeniedCall("kexec_file_load", 320, 294, _EPERM),
    DeniedCall("quotactl", 179, 60, _EPERM),
    DeniedCall("quotactl_fd", 443, 443, _EPERM),
    DeniedCall("syslog", 103, 116, _EPERM),
    DeniedCall("vhangup", 153, 58, _EPERM),
    DeniedCall("lookup_dcookie", 212, 18, _EPERM),
    DeniedCall("personality", 135, 92, _EPERM),
    DeniedCall("lsm_get_self_attr", 459, 459, _EPERM),
    DeniedCall("lsm_set_self_attr", 460, 460, _EPERM),
    DeniedCall("lsm_list_modules", 461, 461, _EPERM),
    # Only on x86_64: obsolete calls.
    DeniedCall("iopl", 172, None, _EPERM),
    DeniedCall("ioperm", 173, None, _EPERM),
    DeniedCall("modify_ldt", 154, None, _EPERM),
    DeniedCall("uselib", 134, None, _ENOSYS),
    DeniedCall("ustat", 136, None, _ENOSYS),
    DeniedCall("sysfs", 139, None, _ENOSYS),
    DeniedCall("_sysctl", 156, None, _ENOSYS),
)

# -------------------------------------------------------------------------------- the assembler

# Where seccomp shows the call (struct seccomp_data, little-endian).
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

KILL, ALLOW, ERROR = 0x80000000, 0x7FFF0000, 0x00050000

LOAD, JUMP, EQUAL, GREATER, ANY_BIT, RETURN = 0x20, 0x05, 0x15, 0x25, 0x45, 0x06

Instruction = tuple[int, int, int, int]  # code, steps if true, steps if false, constant


def _load(offset: int) -> Instruction:
    return (LOAD, 0, 0, offset)


def _return(action: int) -> Instruction:
    return (RETURN, 0, 0, action)


def _jump(
    comparison: int, constant: int, *, skip_if_true: int = 0, skip_if_false: int = 0
) -> Instruction:
    """Return a jump that compares the loaded value with a constant.

    comparison  EQUAL, GREATER or ANY_BIT (a bit in common)
    skip_if_*   how many of the instructions after the jump are skipped
    """
    return (comparison, skip_if_true, skip_if_false, constant)


def _rule_instructions(rule: DeniedCall, number: int) -> Iterator[Instruction]:
    """Yield the instructions that apply one rule of the table to the call.

    The number of the call must be loaded before them. If it is not that of the rule, they are
    skipped, so that the number is still loaded for the next rule.

    number  the number of the rule's system call
    """
    refuse = _return(ERROR | rule.error)
    body = [refuse] if rule.when is None else list(_test_instructions(rule.when, refuse))
    yield _jump(EQUAL, number, skip_if_false=len(body))
    yield from body


def _test_instructions(test: ArgumentTest, refuse: Instruction) -> Iterator[Instruction]:
    """Yield the instructions that test an argument of a call, and then refuse or allow the call.

    refuse  the instruction that refuses the call
    """
    allow = _return(ALLOW)
    # The kernel itself reads only 32 bits of all arguments that the table tests.
    yield _load(_ARGUMENTS_AT + 8 * test.argument)
    if test.kind == "any bit":
        refused_bits = test.values[0]
        yield _jump(ANY_BIT, refused_bits, skip_if_false=1)
        yield refuse
        yield allow
    elif test.kind == "not in":
        yield from _skip_next_if_in(test.values)
        yield refuse
        yield allow
    else:
        yield from _skip_next_if_in(test.values)
        yield allow
        yield refuse


def _skip_next_if_in(values: Sequence[int]) -> Iterator[Instruction]:
    """Yield instructions that skip the one after them if the loaded value is one of `values`."""
    # A match skips the comparisons that remain, and the one instruction after them.
    for index, value in enumerate(values):
        remaining = len(values) - index - 1
        yield _jump(EQUAL, value, skip_if_true=remaining + 1)


def _architecture_instructions(architecture: str) -> list[Instruction]:
    """Return the instructions that decide about the calls of one architecture.

    Calls that the table does not name are allowed, except those that are newer than the table.

    architecture  a name of ARCHITECTURES: the field of DeniedCall with the numbers of its calls
    """
    program = [
        _load(_NUMBER_AT),
        # Newer calls fail, and so do those of the x32 interface, with numbers above 2**30.
        _jump(GREATER, LAST_REVIEWED, skip_if_false=1),
        _return(ERROR | errno.ENOSYS),
    ]
    for rule in TABLE:
        number: int | None = getattr(rule, architecture)
        if number is not None:
            program += _rule_instructions(rule, number)
    return [*program, _return(ALLOW)]


@cache
def instructions() -> Sequence[Instruction]:
    """Return the instructions of the filter, for both architectures.

    A call of any other architecture kills the process.
    """
    program: list[Instruction] = [_load(_ARCHITECTURE_AT)]
    for name, audit_number in ARCHITECTURES.items():
        rules = _architecture_instructions(name)
        # A call of this architecture skips the jump over its rules. There are two jumps because a
        # conditional one reaches only 255 instructions.
        program.append(_jump(EQUAL, audit_number, skip_if_true=1))
        program.append((JUMP, 0, 0, len(rules)))  # always skips that many
        program += rules
    return (*program, _return(KILL))


def program() -> bytes:
    """Return the filter for bubblewrap's option --seccomp: an array of struct sock_filter."""
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in instructions())

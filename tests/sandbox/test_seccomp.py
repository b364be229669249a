"""The filter, run instruction by instruction as the kernel would, for both architectures."""

from __future__ import annotations

import ctypes.util
import errno

import pytest

from deepsea_referee.sandbox import seccomp
from deepsea_referee.sandbox.seccomp import ALLOW, ARCHITECTURES, ERROR, KILL, TABLE, DeniedCall

I386 = 0x40000003


def decide(architecture: int, number: int, *arguments: int) -> int:
    """What the filter answers to one call."""
    data = [number & 0xFFFFFFFF, architecture, 0, 0]
    for argument in (*arguments, *[0] * (6 - len(arguments))):
        data += [argument & 0xFFFFFFFF, (argument >> 32) & 0xFFFFFFFF]
    program = seccomp.instructions()
    loaded = position = 0
    while True:
        code, if_true, if_false, constant = program[position]
        position += 1
        if code == seccomp.LOAD:
            loaded = data[constant // 4]
        elif code == seccomp.RETURN:
            return constant
        elif code == 0x05:
            position += constant
        else:
            true = {
                seccomp.EQUAL: loaded == constant,
                seccomp.GREATER: loaded > constant,
                seccomp.ANY_BIT: bool(loaded & constant),
            }[code]
            position += if_true if true else if_false


def number_of(rule: DeniedCall, architecture: str) -> int | None:
    return rule.x86_64 if architecture == "x86_64" else rule.aarch64


def rule_of(name: str) -> DeniedCall:
    return next(rule for rule in TABLE if rule.name == name)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_unconditional_rule_refuses_its_call(architecture: str) -> None:
    for rule in TABLE:
        number = number_of(rule, architecture)
        if rule.when is None and number is not None:
            assert decide(ARCHITECTURES[architecture], number) == ERROR | rule.error, rule.name


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_calls_that_are_not_in_the_table_are_allowed(architecture: str) -> None:
    named = {number_of(rule, architecture) for rule in TABLE}
    for number in range(seccomp.LAST_REVIEWED + 1):
        if number not in named:
            assert decide(ARCHITECTURES[architecture], number) == ALLOW


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("number", [463, 500, 0x40000000, 0x40000000 + 101, 0xFFFFFFFF])
def test_calls_newer_than_the_review_and_x32_calls_do_not_exist(
    architecture: str, number: int
) -> None:
    assert decide(ARCHITECTURES[architecture], number) == ERROR | errno.ENOSYS


@pytest.mark.parametrize("number", [0, 1, 11, 102, 400])
def test_32_bit_calls_end_the_process(number: int) -> None:
    assert decide(I386, number) == KILL


CASES = [
    ("socket", (1,), None),
    ("socket", (1 | 1 << 40,), None),  # the kernel reads an int
    ("socket", (2,), errno.EAFNOSUPPORT),
    ("socket", (10,), errno.EAFNOSUPPORT),
    ("socket", (16,), errno.EAFNOSUPPORT),
    ("socket", (40,), errno.EAFNOSUPPORT),
    ("socketpair", (1,), None),
    ("socketpair", (30,), errno.EAFNOSUPPORT),
    ("clone", (0x3D0F00,), None),  # what pthread_create asks for
    ("clone", (0x01200011,), None),  # what fork asks for
    ("clone", (0x10000011,), errno.EPERM),
    ("clone", (0x00020011,), errno.EPERM),
    ("clone", (0x40000000,), errno.EPERM),
    ("clone", (0x02000000,), errno.EPERM),
    ("fcntl", (3, 1), None),  # F_GETFD
    ("fcntl", (3, 1030), None),  # F_DUPFD_CLOEXEC
    ("fcntl", (3, 1033), None),  # F_ADD_SEALS
    ("fcntl", (3, 5), errno.ENOLCK),
    ("fcntl", (3, 38), errno.ENOLCK),
    ("fcntl", (3, 1026), errno.ENOLCK),
    ("fcntl", (3, 1032), None),  # F_GETPIPE_SZ
    ("fcntl", (3, 1035), errno.ENOLCK),
    ("fcntl", (3, 1038), errno.ENOLCK),
    ("fadvise64", (3, 0, 0, 3), None),  # POSIX_FADV_WILLNEED
    ("fadvise64", (3, 0, 0, 4), errno.EPERM),
    ("madvise", (0, 0, 4), None),  # MADV_DONTNEED
    ("madvise", (0, 0, 21), errno.EINVAL),
    ("ioctl", (0, 0x5401), None),  # TCGETS
    ("ioctl", (0, 0x5412), errno.EPERM),
    ("ioctl", (0, 0x5412 | 1 << 32), errno.EPERM),
    ("ioctl", (0, 0x541C), errno.EPERM),
]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(("name", "arguments", "error"), CASES)
def test_conditional_rules_look_at_the_argument(
    architecture: str, name: str, arguments: tuple[int, ...], error: int | None
) -> None:
    number = number_of(rule_of(name), architecture)
    assert number is not None
    expected = ALLOW if error is None else ERROR | error
    assert decide(ARCHITECTURES[architecture], number, *arguments) == expected


def test_every_jump_stays_inside_and_every_path_returns() -> None:
    program = seccomp.instructions()
    assert len(program) <= 4096  # BPF_MAXINSNS
    for position, (code, if_true, if_false, constant) in enumerate(program):
        if code == 0x05:
            assert position + 1 + constant < len(program)
        elif code not in (seccomp.LOAD, seccomp.RETURN):
            assert max(if_true, if_false) <= 255
            assert position + 1 + max(if_true, if_false) < len(program)
    assert program[-1] == (seccomp.RETURN, 0, 0, KILL)
    assert len(seccomp.program()) == 8 * len(program)


def test_no_call_stands_in_the_table_twice() -> None:
    for architecture in ARCHITECTURES:
        numbers = [number_of(rule, architecture) for rule in TABLE]
        numbers = [number for number in numbers if number is not None]
        assert len(numbers) == len(set(numbers))


def test_numbers_agree_with_libseccomp() -> None:
    """Libseccomp keeps its own tables; names that an older one does not know are passed over."""
    library = ctypes.util.find_library("seccomp")
    if library is None:
        pytest.skip("needs libseccomp (libseccomp2)")
    resolve = ctypes.CDLL(library).seccomp_syscall_resolve_name_arch
    compared = 0
    for architecture, audit_number in ARCHITECTURES.items():
        for rule in TABLE:
            known = resolve(ctypes.c_uint32(audit_number), rule.name.encode())
            if known == -1:
                continue
            expected = number_of(rule, architecture)
            # Calls that an architecture has not got have negative numbers there.
            assert (known if known >= 0 else None) == expected, (architecture, rule.name)
            compared += 1
    assert compared > 100

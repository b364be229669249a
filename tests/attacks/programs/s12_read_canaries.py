"""S12, S13, S17: open what the arguments name, and search all that can be seen for canaries."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from attacks.guard import run, tried

CANARY = re.compile(rb"canary-[0-9a-f]{32}")
PROC_FILES = ("environ", "cmdline", "maps", "mountinfo", "status", "stack", "syscall", "auxv")
# Large and the same everywhere: the system and the interpreter.
SKIPPED = ("/usr", "/proc", sys.base_prefix, sys.prefix)


def found_in(path: Path) -> bool:
    """Whether a file can be read and holds a canary."""
    try:
        with path.open("rb") as file:
            return bool(CANARY.search(file.read(1 << 20)))
    except OSError:
        return False


def visible_files() -> list[Path]:
    """Every regular file in sight but for SKIPPED."""
    files = []
    for folder, folders, names in os.walk("/"):
        folders[:] = [name for name in folders if str(Path(folder, name)) not in SKIPPED]
        paths = [Path(folder, name) for name in names]
        files += [path for path in paths if path.is_file() and not path.is_symlink()]
    return files


def attack() -> dict[str, object]:
    numbers = [name for name in os.listdir("/proc") if name.isdigit()]
    of_processes = [Path("/proc", number, name) for number in numbers for name in PROC_FILES]
    of_kernel = [path for path in Path("/proc").iterdir() if path.is_file()]
    small = [path for path in of_kernel if path.name not in ("kmsg", "kcore", "kpagecount")]
    return {
        "named": [tried(Path(name).read_bytes) for name in sys.argv[1:]],
        "listed": [tried(os.listdir, Path(name).parent) for name in sys.argv[1:]],
        "found": [str(path) for path in visible_files() if found_in(path)],
        "found_in_proc": [str(path) for path in [*of_processes, *small] if found_in(path)],
        "own_environment_is_seen": bool(CANARY.search(os.environb.get(b"OWN", b""))),
        "of_1": os.listdir("/proc/1"),
        "kcore": tried(lambda: Path("/proc/kcore").open("rb").close()),
    }


run(attack)

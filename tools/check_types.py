"""Runs mypy for macOS and Windows over the packages, but for what is Linux's own.

The files that are left out stand in pyproject.toml, [tool.deepsea.platforms]. A file that is left
out without need is named, so that the list gets no longer than it has to be. With `--linux`
everything is checked for Linux, at the same time: tests, tools and benchmarks are run nowhere else.
With names of systems, for these; without any, for both, or with `--linux` for Linux alone. Each
system has a cache of its own.
"""

from __future__ import annotations

import fnmatch
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ELSEWHERE = ("darwin", "win32")


def main() -> int:
    """Run it; returns the exit status."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        tool = tomllib.load(file)["tool"]
    left_out: list[str] = tool["deepsea"]["platforms"]["linux_only"]
    packages = [str(folder.relative_to(ROOT)) for folder in sorted(ROOT.glob("*/deepsea_*/"))]
    named = [word for word in sys.argv[1:] if word != "--linux"]
    if unknown := set(named) - {*ELSEWHERE}:
        sys.exit(f"no such system: {', '.join(sorted(unknown))}; there are {', '.join(ELSEWHERE)}")
    with_linux = "--linux" in sys.argv[1:]
    elsewhere = named or (() if with_linux else ELSEWHERE)
    systems = ("linux", *elsewhere) if with_linux else elsewhere
    running = {system: _start(system, packages) for system in systems}
    failed = False
    needed: set[str] = set()
    for system, process in running.items():
        output, _ = process.communicate()
        wrong = []
        for line in output.splitlines():
            file_name = line.partition(":")[0]
            patterns = [one for one in left_out if fnmatch.fnmatch(file_name, one)]
            if system == "linux" or not patterns:
                wrong.append(line)
            elif ": error:" in line:
                needed.update(patterns)
        errors = [line for line in wrong if ": error:" in line]
        # 1: there are errors, maybe only where they are allowed; more: it could not run.
        if errors or process.returncode > 1 or (system == "linux" and process.returncode):
            failed = True
            print(*wrong, sep="\n")
        print(f"mypy for {system}: {len(errors)} errors")
    for pattern in left_out:
        if pattern not in needed and not failed and {*elsewhere} == {*ELSEWHERE}:
            print(f"note: pyproject.toml: {pattern!r} need not be left out")
    return int(failed)


def _start(system: str, packages: list[str]) -> subprocess.Popen[str]:
    # The cache of Linux is where a plain `mypy` has it.
    what = [] if system == "linux" else ["--cache-dir", f".mypy_cache/{system}", *packages]
    return subprocess.Popen(
        [sys.executable, "-m", "mypy", "--platform", system, "--no-error-summary", *what],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


if __name__ == "__main__":
    sys.exit(main())

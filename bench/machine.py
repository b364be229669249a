"""What a figure was measured on. A figure without it is worth nothing."""

from __future__ import annotations

import datetime
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path


def described() -> str:
    """The date, the machine, how busy it is, and the Python, in one line."""
    model = platform.machine()
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return (
        f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}, {os.cpu_count()} cores of {model}, "
        f"load {os.getloadavg()[0]:.1f}, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}"
    )


def seconds(work: Callable[[], object], repeat: int = 3) -> float:
    """The CPU seconds that the work takes, the median of a few runs; others do not count."""
    times = []
    for _ in range(repeat):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return statistics.median(times)

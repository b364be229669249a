"""What a benchmark says: rows with a figure, a goal, and whether it is met; and on which machine.

Invariants: a figure is worth nothing without the machine that it was measured on; one that has a
goal is a ratio of two things that were measured in the same run, or a rate that the goal names as a
number; rows without a goal are there to be compared with. Rows are printed as they come, and a
topic that cannot be measured loses none of the others.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

Scale: TypeAlias = Literal["tiny", "full"]
"""`tiny` shows that a benchmark runs; its figures mean nothing."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    what: str
    measured: str
    """For people, with units."""
    ratio: float | None = None
    goal: str = ""
    met: bool | None = None
    figures: Mapping[str, float] = field(default_factory=dict)
    """For programs: everything that was measured, its unit in its name."""


def at_most(what: str, measured: str, ratio: float, limit: float, **figures: float) -> Row:
    """A ratio that is to be small."""
    return Row(what, measured, ratio, f"≤ {limit:g}", ratio <= limit, figures)


def at_least(what: str, measured: str, ratio: float, limit: float, **figures: float) -> Row:
    """A ratio that is to be large."""
    return Row(what, measured, ratio, f"≥ {limit:g}", ratio >= limit, figures)


def rate(what: str, per_second: float, wanted: int, **figures: float) -> Row:
    """How often a second something is done, with a goal that is a number."""
    shown, figures = f"{per_second:,.0f}/s", {"per_second": per_second, **figures}
    return Row(what, shown, per_second / wanted, f"≥ {wanted:,}/s", per_second >= wanted, figures)


def beside(what: str, measured: str, **figures: float) -> Row:
    """Something to compare with."""
    return Row(what, measured, figures=figures)


def median(values: Iterable[float]) -> float:
    """The median; of no values it is an error of the benchmark."""
    return statistics.median(values)


HEAD = "| what | measured | ratio | goal | met |\n| --- | --- | --- | --- | --- |"
"""Of the table for people, in Markdown."""


def line(row: Row) -> str:
    """A row of that table."""
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    met = {True: "yes", False: "no", None: ""}[row.met]
    return f"| {row.what} | {row.measured} | {ratio} | {row.goal} | {met} |"


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


Topics: TypeAlias = Mapping[str, Callable[[], Iterable[Row]]]


def measured(topics: Topics, show: Callable[[str], object]) -> tuple[list[Row], dict[str, str]]:
    """The rows of these topics, shown as they come, and why some could not be measured."""
    rows: list[Row] = []
    failed: dict[str, str] = {}
    for topic, measure in topics.items():
        print(f"{topic} ...", file=sys.stderr, flush=True)
        try:
            for row in measure():
                rows.append(row)
                show(line(row))
        except Exception as error:  # noqa: BLE001  (whatever it is, the other topics stand)
            failed[topic] = f"{type(error).__name__}: {error}"
            show(f"| {topic} | not measured: {failed[topic]} | | | |")
    return rows, failed


def report(topics: Topics, json_to: str | None, **about: str) -> int:
    """Print the table of these topics, and JSON if that is wanted; returns the exit status.

    json_to  a file, or `-` for stdout: then the table goes to stderr
    """
    machine, out = described(), sys.stderr if json_to == "-" else sys.stdout

    def show(text: str) -> None:
        print(text, file=out, flush=True)

    show(f"{machine}\n\n{HEAD}")
    rows, failed = measured(topics, show)
    document = {"machine": machine, **about, "rows": [asdict(row) for row in rows]}
    text = json.dumps(document | {"failed": failed})
    if json_to == "-":
        print(text)
    elif json_to is not None:
        Path(json_to).write_text(f"{text}\n", encoding="utf-8")
    return 1 if failed else 0

"""Ways in which bots once hurt others or gained, tried again: H1 to H7, A1, F1, F2, G2.

    PYTHONPATH=tests:bench python -m soak.hostile_trials [--only H2,H5] [--without-groups] [--json]

Each way is tried a few times, with control groups and without them (as in a match, and charged the
wall time as rated games then are), on the host as it is and beside two busy loops. A table says
what innocent bots suffered: `held` if nothing; `limit` if something that docs/security.md says of
such a machine, and a line of `doctor` names; `broken` otherwise, and the exit status is 1.

Hostile programs are those of tests/attacks, under the same rule: in a verified sandbox only, with
nothing but loopback, bounded in number and time.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from attacks.duels import (
    CHILDREN,
    HONEST,
    HOSTILE,
    SHORT,
    Duel,
    burner,
    duel,
    duels,
    honest,
    hosting_in,
    second_try,
)
from attacks.harness import Arena
from attacks.matches import hostile
from deepsea_referee.bots.process import Hosting
from deepsea_referee.bots.resolve import BotSpec
from deepsea_referee.clock import SystemClock
from deepsea_referee.errors import HostTooBusy
from deepsea_referee.sandbox import bot_users, probe
from deepsea_referee.sandbox.bubblewrap import Sandbox
from deepsea_referee.sandbox.cgroup import Hierarchies, hierarchies
from deepsea_referee.sandbox.interface import ResourceLimits
from deepsea_referee.system.gauge import BotGauge, WallGauge
from deepsea_rules.faults import Fault
from deepsea_rules.time_control import TimeControl
from deepsea_sdk.entropy import fresh_seed
from figures import described
from host_load import busy_host

BUSY_LOOPS = 2
LEAST_SHARE = 0.9
"""The part of its thinking time that a bot must have beside a burner."""
FREE_US = 50_000
"""CPU time that a bot may use uncharged in a game: until it is frozen, after its own decisions."""
STANDSTILL_S = 11
"""The longest that others wait for a bot that takes no message: ten seconds, and the game."""
FOR_LONGER_S = 14
"""How long a bot sleeps whose threads pretend to wait: beyond the patience of every clock here."""


class Limit(NamedTuple):
    """What is documented not to hold."""

    section: str
    """The heading in docs/security.md."""
    doctor: str
    """The name of the line of `doctor` that says whether this machine has it."""

    def __str__(self) -> str:
        return f"docs/security.md, {self.section}; doctor: {self.doctor}"


NO_GROUPS = Limit("Known limits", "control groups")
ONE_USER = Limit("Known limits", "a user for each bot")


@dataclass(frozen=True, slots=True)
class Condition:
    """How a trial is made.

    groups  whether the sandbox has control groups
    rated   charged as in rated games; without groups, that is the wall time
    busy    beside two busy loops
    """

    groups: bool
    rated: bool
    busy: bool

    @property
    def text(self) -> str:
        """For the table."""
        groups = "control groups" if self.groups else "none, rated" if self.rated else "none, match"
        return f"{groups}, busy" if self.busy else groups


@dataclass(slots=True)
class Seen:
    """What came of the runs of one trial."""

    innocent_faults: int = 0
    """Faults of innocent bots, and runs in which they lost something else than thinking time."""
    void_games: int = 0
    cheats_not_caught: int = 0
    """Runs in which the hostile bot had time or secrets for nothing."""
    shares: list[float] = field(default_factory=list)
    """Of each run, the part of its thinking time that an innocent bot kept beside the hostile one.
    One run of three decisions says little where busy loops have the CPU as well."""
    notes: list[str] = field(default_factory=list)
    """What happened, of each run."""

    @property
    def robbed(self) -> bool:
        """Whether the innocent bot lost its time in most of the runs."""
        return bool(self.shares) and statistics.median(self.shares) < LEAST_SHARE

    @property
    def unharmed(self) -> bool:
        """Whether nobody innocent lost anything and nobody hostile gained."""
        counts = self.innocent_faults, self.void_games, self.cheats_not_caught
        return not (any(counts) or self.robbed)


Trial = Callable[[Arena, Condition, int, Seen], None]


@dataclass(frozen=True, slots=True)
class Case:
    """One reproduction.

    timed  whether groups and load can matter to it; else it is tried as things are
    limit  what is documented not to hold under a condition
    """

    cause: str
    what: str
    trial: Trial
    timed: bool = True
    limit: Callable[[Condition], Limit | None] = lambda _: None


# ------------------------------------------------------------------------------------ the trials


def hosted(arena: Arena, condition: Condition) -> Hosting:
    """As a match or a rated game hosts bots there."""
    by_wall = condition.rated and not condition.groups
    return replace(hosting_in(arena), gauge=WallGauge if by_wall else BotGauge)


def play(
    arena: Arena,
    condition: Condition,
    bots: tuple[BotSpec, BotSpec],
    number: int,
    seen: Seen,
    control: TimeControl = SHORT,
) -> Duel | None:
    """Play a game and count what the honest bot suffered; None if it is void."""
    try:
        played = duel(bots, hosted(arena, condition), number, control)
    except HostTooBusy as error:
        seen.void_games += 1
        seen.notes.append(f"void: {error}")
        return None
    suffered = played.of(HONEST)
    seen.innocent_faults += len(suffered)
    for report in suffered:
        seen.notes.append(report.explanation())
    return played


def another(arena: Arena, kind: str) -> BotSpec:
    """An honest bot in a new folder."""
    return honest(Path(tempfile.mkdtemp(dir=arena.folder)) / "bot", kind)


def beside_burner(kind: str, how: str) -> Trial:
    """An honest bot plays against a burner."""

    def trial(arena: Arena, condition: Condition, number: int, seen: Seen) -> None:
        play(arena, condition, (another(arena, kind), burner(arena, how)), number, seen)

    return trial


def start_beside_another_match(arena: Arena, condition: Condition, number: int, seen: Seen) -> None:
    """A bot that starts slowly, beside a bot of another match that nobody freezes."""
    with arena.started("t15_burners", str(CHILDREN), "15", limits=ResourceLimits()) as burners:
        burners.read_report()
        bots = (another(arena, "slow start"), burner(arena, "quiet"))
        play(arena, condition, bots, number, seen)


def wall_clock(arena: Arena, condition: Condition, number: int, seen: Seen) -> None:
    """What a bot that thinks by a wall clock gets of its time beside a burner."""
    medians = []
    for how in ("quiet", "turns"):
        bots = (another(arena, "wall clock"), burner(arena, how))
        played = play(arena, condition, bots, number, seen)
        if played is None or not played.thought_us:
            return
        medians.append(statistics.median(played.thought_us))
    alone, beside = medians
    seen.shares.append(beside / alone)
    seen.notes.append(f"thought {beside / 1000:.0f} ms of {alone / 1000:.0f} ms without a burner")


def cheat(program: str, *arguments: str, control: TimeControl) -> Trial:
    """A hostile bot takes more time than it has; each time must be a timeout."""

    def trial(arena: Arena, condition: Condition, number: int, seen: Seen) -> None:
        bots = (another(arena, "at once"), hostile(arena, program, *arguments))
        played = play(arena, condition, bots, number, seen, control)
        if played is not None:
            caught = [report.fault for report in played.of(HOSTILE)]
            seen.cheats_not_caught += caught != [Fault.TIMEOUT] * 3
            seen.notes.append(f"the cheat had {', '.join(caught) or 'no fault'}")

    return trial


def in_flight(arena: Arena, _condition: Condition, _number: int, seen: Seen) -> None:
    """A bot that sends a descriptor and makes a pipe, beside one that has used up its user's."""
    with arena.started("s33_in_flight", "burner") as running:
        running.read_report()
        # The descriptor of its first process is opened now, and none of the victim's.
        running.contained.check_limits()
        report = arena.run("s33_in_flight", "victim").report
    seen.innocent_faults += report != {"send": "", "pipe": 65536}
    seen.notes.append(
        f"the innocent bot: send {report['send'] or 'works'}, pipe {report['pipe']} bytes"
    )


def another_try(how: str) -> Trial:
    """A bot with games beside others wants them played again, on deals that it knows."""

    def trial(arena: Arena, condition: Condition, _number: int, seen: Seen) -> None:
        deals = second_try(arena, hosted(arena, condition), how, every=700, games=200)
        seen.cheats_not_caught += deals.known
        again = sum(record.attempt for record in deals.records)
        seen.notes.append(f"{again} of 200 games played again, {deals.known} with a known deal")

    return trial


def thinks_behind_a_shut_window(
    arena: Arena, condition: Condition, number: int, seen: Seen
) -> None:
    """A bot takes no message while it computes: that must be charged."""
    bots = (another(arena, "child process"), hostile(arena, "p17_shuts", "thinks"))
    played = play(arena, condition, bots, number, seen, TimeControl.parse("2s"))
    if played is not None:
        caught = played.of(HOSTILE)
        # Not by three faults always: on a busy host its own alarm ends it before the third.
        forfeits = any(report.forfeit for report in caught)
        seen.cheats_not_caught += played.free_us > FREE_US or not forfeits
        faults = ", ".join(report.fault for report in caught)
        seen.notes.append(f"free: {max(0, played.free_us) / 1000:.0f} ms of CPU time, {faults}")


def shuts_its_window(arena: Arena, condition: Condition, number: int, seen: Seen) -> None:
    """A bot takes nothing any more: nobody waits for it for longer than a message may take."""
    bots = (another(arena, "at once"), hostile(arena, "p17_shuts", "holds"))
    played = play(arena, condition, bots, number, seen, TimeControl.parse("60s"))
    if played is not None:
        seen.cheats_not_caught += played.seconds > STANDSTILL_S
        faults = ", ".join(report.fault for report in played.of(HOSTILE))
        seen.notes.append(f"{played.seconds:.1f} s, {faults}")


def frozen_for_a_minute(arena: Arena, condition: Condition, _number: int, seen: Seen) -> None:
    """Nobody is hostile: in one of ten games one thinks for a minute, and the other is frozen."""
    bots = (another(arena, "at once"), another(arena, "once over a minute"))
    clock = TimeControl.parse("100s")
    for played in duels(bots, hosted(arena, condition), range(10), clock):
        seen.innocent_faults += len(played.faults)


# Run by the interpreter of an environment that is a whole project: a folder, then what to look for.
LOOK = """
import json, pathlib, sys
from attacks.harness import Arena
from deepsea_referee.sandbox import probe
from deepsea_referee.sandbox.bubblewrap import Sandbox
assert probe.sandbox_trouble() is None
report = Arena(Sandbox(), pathlib.Path(sys.argv[1])).run("s12_read_canaries", *sys.argv[2:]).report
print(json.dumps([report["named"], report["found"]]))
"""


def project(arena: Arena, _condition: Condition, _number: int, seen: Seen) -> None:
    """A bot looks for its rivals in a project whose folder is the referee's environment."""
    folder = Path(tempfile.mkdtemp(dir=arena.folder))
    venv.create(folder / "project", with_pip=False)
    planted = [folder / "project" / name for name in ("rivals/bot.py", "ladder.db", ".env")]
    for path in planted:
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"canary-{fresh_seed().hex()[:32]}")
    (folder / "bots").mkdir()
    python = str(folder / "project" / "bin" / "python")
    done = subprocess.run(
        [python, "-c", LOOK, str(folder / "bots"), *map(str, planted)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=True,
    )
    named, found = json.loads(done.stdout)
    seen.cheats_not_caught += set(named) != {"ENOENT"} or found != []
    seen.notes.append(f"opening them: {', '.join(sorted(set(named)))}; found: {len(found)}")


# ------------------------------------------------------------------------------------- the table


def one_user(_condition: Condition) -> Limit | None:
    """All bots are one user unless the referee is root or has subordinate ones."""
    return None if bot_users.own_users() else ONE_USER


HALF = TimeControl.parse("500ms")
LONGER = str(FOR_LONGER_S)
ENGINE, MOST = "child process", "80 % of its budget"
CASES = (
    Case("H1", "1 s of CPU to start, beside a burner", beside_burner("slow start", "turns")),
    Case("H1", "the same, a burner of another match", start_beside_another_match),
    Case("H2", "threads wake in phase", cheat("t14_starves", "wakers", LONGER, control=HALF)),
    Case("H2", "threads starve beside one", cheat("t14_starves", "idle", LONGER, control=HALF)),
    Case("H3", "20 of 100 ms in a child process", beside_burner(ENGINE, "turns")),
    Case("H3", "80 of 100 ms", beside_burner(MOST, "turns")),
    Case("H3", "80 ms by a wall clock", wall_clock),
    Case("H4", "20 of 100 ms, the burner has forfeited", beside_burner(ENGINE, "forfeit")),
    Case("H4", "80 of 100 ms, the burner has forfeited", beside_burner(MOST, "forfeit")),
    Case("H5", "works in children that vanish", cheat("t17_unseen", control=HALF)),
    Case("H6", "descriptors in flight, pages of pipes", in_flight, False, one_user),
    Case("H7", "an environment in a project's folder", project, False),
    Case("A1", "sleeps beside other games", another_try("sleeps"), False),
    Case("A1", "exits beside other games", another_try("exits"), False),
    Case("F1", "computes behind a shut window", thinks_behind_a_shut_window),
    Case("F2", "takes nothing after a fault", shuts_its_window),
    Case("G2", "frozen for 66 s, nobody hostile", frozen_for_a_minute, False),
)


def conditions(case: Case, groups: Sequence[bool], busy: Sequence[bool]) -> list[Condition]:
    """Those under which a case is tried, in the order of the table."""
    if not case.timed:
        return [Condition(groups[0], rated=False, busy=False)]
    ways = [(True, False)] * (True in groups) + [(False, False), (False, True)] * (False in groups)
    return [Condition(has, rated, load) for has, rated in ways for load in busy]


def tried(case: Case, condition: Condition, runs: int) -> dict[str, Any]:
    """Make a trial so many times; the figures of its row."""
    sandbox = Sandbox() if condition.groups else Sandbox(Hierarchies())
    seen = Seen()
    clock = SystemClock()
    begun_us = clock.now_us()
    with (
        tempfile.TemporaryDirectory(prefix="trials-") as folder,
        busy_host(BUSY_LOOPS if condition.busy else 0),
    ):
        for number in range(runs):
            place = Path(folder, str(number))
            place.mkdir()
            case.trial(Arena(sandbox, place), condition, number, seen)
    limit = case.limit(condition) or (None if condition.groups or not case.timed else NO_GROUPS)
    return {
        "cause": case.cause,
        "case": case.what,
        "where": condition.text if case.timed else "",
        "runs": runs,
        **asdict(seen),
        "robbed": seen.robbed,
        "verdict": "held" if seen.unharmed else "limit" if limit else "broken",
        "stated": "" if seen.unharmed or limit is None else str(limit),
        "seconds": round((clock.now_us() - begun_us) / 1e6, 1),
    }


def cell(row: dict[str, Any]) -> str:
    """The outcome in the table."""
    counts = {
        "faults": row["innocent_faults"],
        "void": row["void_games"],
        "not caught": row["cheats_not_caught"],
        "robbed": int(row["robbed"]),
    }
    words = ", ".join(f"{what} {count}" for what, count in counts.items() if count)
    return f"{row['verdict']} ({words})" if words else str(row["verdict"])


def table(rows: Sequence[dict[str, Any]]) -> str:
    """A line for each case and a column for each condition, in Markdown."""
    where = list(dict.fromkeys(row["where"] for row in rows if row["where"])) or ["as it is"]
    lines = [["cause", "case", *where], ["---"] * (2 + len(where))]
    for cause, case in dict.fromkeys((row["cause"], row["case"]) for row in rows):
        # What no condition matters to is in the first column.
        own = {row["where"] or where[0]: cell(row) for row in rows if row["case"] == case}
        lines.append([cause, case, *(own.get(one, "") for one in where)])
    return "".join(f"| {' | '.join(words)} |\n" for words in lines)


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Try again what hostile bots once broke.")
    causes = sorted({case.cause for case in CASES})
    parser.add_argument("--only", metavar="H1,H2", help="these causes alone")
    parser.add_argument("--runs", type=int, default=3, help="runs of each row (default 3)")
    groups = parser.add_mutually_exclusive_group()
    groups.add_argument("--with-groups", action="store_true", help="with control groups alone")
    groups.add_argument("--without-groups", action="store_true", help="without them alone")
    host = parser.add_mutually_exclusive_group()
    host.add_argument("--quiet", action="store_true", help="without busy loops alone")
    host.add_argument("--busy", action="store_true", help="beside busy loops alone")
    parser.add_argument("--json", action="store_true", help="JSON instead of the table")
    given = parser.parse_args()
    given.only = given.only.split(",") if given.only else causes
    if unknown := set(given.only) - set(causes):
        parser.error(f"no such cause: {', '.join(sorted(unknown))}; there are {', '.join(causes)}")
    if given.runs < 1:
        parser.error("at least one run")
    return given


def main() -> None:
    """Run from the command line."""
    given = parsed()
    if trouble := probe.sandbox_trouble():
        sys.exit(f"no sandbox here: {trouble.name}: {trouble.found}. {trouble.remedy}")
    groups = [True] * (not given.without_groups) + [False] * (not given.with_groups)
    if True in groups and not hierarchies().counts_cpu:
        sys.exit("no control groups here (see `deepsea-referee doctor`): use --without-groups")
    busy = [False] * (not given.busy) + [True] * (not given.quiet)
    machine = described()
    rows = []
    for case in CASES:
        if case.cause in given.only:
            for condition in conditions(case, groups, busy):
                row = tried(case, condition, given.runs)
                rows.append(row)
                words = (row["cause"], row["case"], row["where"], cell(row), *row["notes"])
                sys.stderr.write("; ".join(filter(None, words)) + "\n")
    text = f"{machine}, {given.runs} runs of each\n\n{table(rows)}"
    for stated in dict.fromkeys(row["stated"] for row in rows if row["stated"]):
        text += f"\nlimit: {stated}\n"
    sys.stderr.write(f"{sum(row['seconds'] for row in rows):.0f} s\n")
    if given.json:
        text = json.dumps({"machine": machine, "runs": given.runs, "rows": rows}) + "\n"
    sys.stdout.write(text)
    sys.exit(any(row["verdict"] == "broken" for row in rows))


if __name__ == "__main__":
    main()

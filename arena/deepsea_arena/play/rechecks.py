"""Rated games that are played again on other machines, and compared decision by decision.

Invariants: only the season's secret tells which games, so that no machine knows before it has
reported; no machine plays a game twice; what two machines played alike counts, and a machine that
played otherwise is used no more; a bot is named, never punished.

A bot that decides otherwise now and then makes a machine look like a liar: after a difference its
games are not played again, so that it costs at most one machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations
from typing import TypeAlias

from deepsea_arena.play.tasks import FinishedGame, Outcome, VoidOutcome
from deepsea_arena.play.workers import JobWorkers
from deepsea_bundle.bot_cache import stored_files
from deepsea_bundle.manifest import read_manifest
from deepsea_ladder.model.games import Job, StoredSeason
from deepsea_ladder.store import Store
from deepsea_rules.errors import InvalidRecord
from deepsea_rules.record import GameRecord

PLAYS = 3
"""The most plays of a game."""
_Decisions: TypeAlias = list[tuple[int, str, str | None]]
"""Seats, actions and faults."""


def is_drawn(store: Store, season: StoredSeason, job: Job, one_in: int) -> bool:
    """Whether to play a game again: one in `one_in` of the games between deterministic bots."""
    label = f"recheck/{job.game_id}/{job.attempt}"
    if store.seasons.chance(season, label).uniform(one_in):
        return False
    suspects = store.audit.suspects()
    digests = [version.digest for version in job.seats if version.label not in suspects]
    files = [stored_files(store.bots.archive(digest), digest) for digest in digests]
    return [read_manifest(one).deterministic for one in files] == [True] * len(job.seats)


@dataclass(slots=True)
class Rechecks:
    """The games of a run that are being played again."""

    pool: JobWorkers
    is_drawn: Callable[[Job], bool]
    suspect: Callable[[str, str], object]
    """Names a bot, with what was found."""
    dismiss: Callable[[str, str], object]
    """Gives up a machine, with the reason."""
    plays: dict[str, list[FinishedGame]] = field(default_factory=dict)
    """By the game's id."""
    named: set[str] = field(default_factory=set)
    """The bots that were, by their versions."""

    def settled(self, job: Job, outcome: Outcome) -> Outcome | None:
        """The outcome that counts; None if the game is played again first."""
        plays = self.plays.pop(job.game_id, [])
        if isinstance(outcome, FinishedGame):
            if not plays and not (outcome.machine and self.is_drawn(job)):
                return outcome
            plays.append(outcome)
            made = [_decisions(play) for play in plays]
            if len(plays) == PLAYS or max(map(made.count, made)) > 1:
                return self._verdict(job, plays, made)
            if self.pool.start_elsewhere(job, {play.machine for play in plays}):
                self.plays[job.game_id] = plays
                return None
        if len(plays) < PLAYS - 1:  # it was not played again
            return plays[0] if plays else outcome
        machines = " and ".join(play.machine for play in plays)
        return VoidOutcome(f"it went otherwise on {machines}, and no third machine has decided")

    def _verdict(self, job: Job, plays: list[FinishedGame], made: list[_Decisions]) -> Outcome:
        """The play that counts; who played otherwise is named."""
        differences = filter(None, (_difference(*pair) for pair in combinations(made, 2)))
        found = {job.seats[seat].label: number for seat, number in differences}
        names = found.keys() - self.named
        for label in sorted(names):
            words = f"decided otherwise when game {job.game_id} was played again"
            self.suspect(label, f"{words}, from decision {found[label]} on")
        self.named |= names
        chosen = max(made, key=made.count)
        if made.count(chosen) > 1 and (names or [] in made):
            for play in [play for play, one in zip(plays, made, strict=True) if one != chosen]:
                self.dismiss(play.machine, f"game {job.game_id} went otherwise on two others")
        return plays[made.index(chosen)]


def _decisions(play: FinishedGame) -> _Decisions:
    """The decisions of a play, without times; empty if its record is invalid."""
    try:
        record = GameRecord.from_json(play.record)
    except InvalidRecord:
        return []
    return [(one.seat, one.action, one.fault) for one in record.decisions]


def _difference(one: _Decisions, other: _Decisions) -> tuple[int, int] | None:
    """The seat and the number of the first decision that differs."""
    both = enumerate(zip(one, other, strict=False))
    return next(((here[0], at) for at, (here, there) in both if here != there), None)

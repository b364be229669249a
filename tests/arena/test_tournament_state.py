"""The state of a tournament, whatever happens between: exits, orders of results, pieces of runs."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepsea_arena.tournament_state import (
    Table,
    TournamentKind,
    TournamentPlan,
    TournamentState,
    tournament_state,
)
from deepsea_ladder.model import QueuedJob
from deepsea_ladder.pairing import RandomStream
from deepsea_ladder.rating import SeatResult
from deepsea_ladder.tournament import scores


@st.composite
def plans(draw: st.DrawFn) -> TournamentPlan:
    kinds: list[TournamentKind] = ["round-robin", "gauntlet", "elimination", "elimination", "final"]
    kind = draw(st.sampled_from(kinds))
    seats = draw(st.integers(2, 4))
    least = seats if kind in ("round-robin", "gauntlet") else 2
    bots = draw(st.permutations(range(draw(st.integers(least, 7)))))
    is_final = kind == "final"
    return TournamentPlan(
        kind=kind,
        seats=seats,
        meetings=draw(st.integers(1, 2)),
        bots=tuple(bots),
        top=draw(st.integers(1, len(bots) - 1)) if is_final else 0,
        most_games=draw(st.integers(1, 200)) if is_final else 0,
    )


@dataclass
class Played:
    """A tournament as a store keeps it; its results follow from the numbers of the games."""

    plan: TournamentPlan
    places: int
    """Placements that games have; 1: all are level in every game."""
    games: list[QueuedJob] = field(default_factory=list)
    exits: dict[int, int] = field(default_factory=dict)
    out: set[int] = field(default_factory=set)

    def state(self) -> TournamentState:
        found = scores(game.seats for game in self.games if game.seats)
        return tournament_state(self.plan, b"seed", self.games, self.exits, found)

    def open(self) -> list[int]:
        return [i for i, game in enumerate(self.games) if game.is_open]

    def queue(self, state: TournamentState, most: int | None = None) -> None:
        """Queue the next tables, or the first of them, as a run that is killed then."""
        assert state.after == len(self.games)
        rotation = self.games[-1].rotation if self.games else 0
        for table in state.next[:most]:
            assert self.exits.keys().isdisjoint(table.version_ids)
            rotation += 1
            for lineup in table.seatings():
                number = len(self.games) + 1
                job = QueuedJob(number, rotation, tuple(lineup), f"cup-{number}", is_open=True)
                self.games.append(job)

    def play(self, index: int) -> None:
        game = self.games[index]
        chance = RandomStream(b"results", f"{game.number}")
        marks = [chance.shuffled(range(self.places))[0] for _ in game.lineup]
        seats = tuple(
            SeatResult(bot, 9 - mark, 1 + sum(one < mark for one in marks), 1, 0, None)
            for bot, mark in zip(game.lineup, marks, strict=True)
        )
        self.games[index] = game._replace(seats=seats, is_open=False)

    def leave(self, bot: int, playing: set[int]) -> None:
        """Cancel the bot's games, but for those that are being played."""
        self.exits.setdefault(bot, len(self.games))
        for index in self.open():
            if bot in self.games[index].lineup and index not in playing:
                self.games[index] = self.games[index]._replace(is_open=False)


def check_last_table(played: Played, table: Table, champion: int) -> None:
    """It won that table, or drew it and said so, but for those that left before its end."""
    assert table.winner == champion
    if not table.scores:
        assert not table.games
        return
    standings = {bot: score.standing for bot, score in table.scores.items()}
    stayed = standings.keys() - played.exits.keys() | {champion}
    assert min(standings[bot] for bot in stayed) == standings[champion]
    assert all(standings[bot] == standings[champion] for bot in table.level)


def check_end(played: Played, state: TournamentState) -> None:
    """Check what holds of every tournament that is over."""
    assert state.is_over
    assert not state.next
    keys = [
        (bot != state.champion, score.standing)
        for _, score in state.ranks
        for bot in [score.version_id]
    ]
    if state.race is None:
        assert [rank for rank, _ in state.ranks] == [1 + sorted(keys).index(key) for key in keys]
    if played.plan.kind == "elimination":
        assert state.winners == (() if state.champion is None else (state.champion,))
        if state.champion is None and len(played.exits) < len(played.plan.bots):
            # All bots of the last tables left before the end of these.
            assert state.rounds
            assert all(table.winner is None for table in state.rounds[-1])
            assert all(played.exits.keys() >= {*table.version_ids} for table in state.rounds[-1])
        tables = [table for tables in state.rounds for table in tables]
        own = [table for table in tables if state.champion in table.version_ids]
        if state.champion is not None and own:
            check_last_table(played, own[-1], state.champion)
    elif played.plan.kind == "final":
        assert state.race is not None
        assert not set(state.winners) & played.exits.keys()
        if len(played.exits) < len(played.plan.bots):
            assert state.race.left
    else:
        assert list(state.winners) == [score.version_id for rank, score in state.ranks if rank == 1]


@given(plans(), st.integers(1, 4), st.binary(max_size=8), st.data())
def test_a_tournament_ends_and_what_is_decided_stays(
    plan: TournamentPlan, places: int, seed: bytes, data: st.DataObject
) -> None:
    """Games are queued in portions and played in any order, and bots leave at any moment."""
    played, chance = Played(plan, places), RandomStream(seed, "moves")
    leaving = data.draw(st.lists(st.integers(0, 60), max_size=len(plan.bots)), label="moments")
    moments = dict(zip(chance.shuffled(plan.bots), leaving, strict=False))
    decided: tuple[object, ...] = ()
    for step in range(2000):
        state = played.state()
        for bot in [bot for bot, moment in moments.items() if moment <= step]:
            del moments[bot]
            playing = set(chance.shuffled(played.open())[: chance.shuffled(range(3))[0]])
            played.leave(bot, playing)
            state = played.state()
        assert state.rounds[: len(decided)] == decided
        if state.is_over:
            break
        if state.next:
            decided = state.rounds[:-1]
            # A final draws a few tables at a time, which are queued in one transaction.
            played.queue(state, None if plan.kind == "final" else 1 + chance.shuffled(range(9))[0])
        else:
            played.play(chance.shuffled(played.open())[0])
    check_end(played, played.state())


@given(plans(), st.integers(1, 4), st.binary(max_size=8))
def test_the_order_in_which_results_come_changes_nothing(
    plan: TournamentPlan, places: int, seed: bytes
) -> None:
    ends, chance = [], RandomStream(seed, "order")
    for is_mixed in (False, True):
        played = Played(plan, places)
        while not (state := played.state()).is_over:
            if state.next:
                played.queue(state)
                if played.games[-1].number >= 8:  # the same moment, whatever the order
                    played.exits.setdefault(plan.bots[-1], played.games[-1].number)
            games = played.open()
            if is_mixed:
                games = chance.shuffled(games)
            for index in games:
                played.play(index)
                played.state()
        check_end(played, state)
        ends.append((state.rounds, state.ranks, state.winners, state.champion, played.games))
    assert ends[0] == ends[1]


@given(plans().filter(lambda plan: plan.kind != "final"), st.integers(1, 4))
def test_games_that_are_queued_in_portions_are_those_that_are_queued_at_once(
    plan: TournamentPlan, places: int
) -> None:
    ends = []
    for most in (None, 1):
        played = Played(plan, places)
        while not (state := played.state()).is_over:
            if state.next:
                played.queue(state, most)
            else:
                for index in played.open():
                    played.play(index)
        ends.append(([game.lineup for game in played.games], state.ranks, state.champion))
    assert ends[0] == ends[1]


@pytest.mark.parametrize("is_looked_at", [True, False])
@pytest.mark.parametrize("last", [0, "the winner"])
def test_who_leaves_last_of_those_that_went_on_has_won(last: int | str, is_looked_at: bool) -> None:
    """Of three bots one has a bye; whoever looks between the exits changes nothing."""
    played = Played(TournamentPlan(kind="elimination", seats=2, meetings=1, bots=(0, 1, 2)), 2)
    played.queue(played.state())
    for index in played.open():
        played.play(index)
    winner = played.state().rounds[0][0].winner
    assert winner is not None
    order = [winner, 0] if last == 0 else [0, winner]
    for bot in order:
        played.leave(bot, set())
        if is_looked_at:
            assert played.state().champion == order[1]
    assert played.state().is_over
    assert played.state().champion == order[1]
    check_end(played, played.state())

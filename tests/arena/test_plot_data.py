"""Numbers for plots: those of the records, whatever the order of games, in bounded memory."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from deepsea_referee.summary import GameResult
from deepsea_rules.faults import Fault, FaultReport
from deepsea_rules.game import Game, GameRecord
from deepsea_rules.narration import moments
from deepsea_rules.ruleset import PRESETS, SEAT_LETTERS
from deepsea_web.bars import Depth, PlotSums, SeatDive, medians, seat_dives
from helpers.commands import faulty, played, record_of

TURN = re.compile(r"([A-F])[▼▲] \S+ +(\S+) → (\S+) +air (-?\d+)(.*)")


def in_words(game: Game) -> list[tuple[int, SeatDive]]:
    """The dives of a game, read from the words that `show` prints."""
    found: list[tuple[int, SeatDive]] = []
    turned: dict[str, Depth] = {}
    ends: dict[str, str] = {}
    air = 25
    for line in (line for moment in moments(game) for line in moment.lines):
        if said := TURN.match(line):
            ends[said[1]], air = said[3], max(0, int(said[4]))
            if "turns back" in said[5]:
                turned[said[1]] = Depth(int(said[2]), air)
        elif re.match(r"dive \d ends", line):
            for seat, letter in enumerate(SEAT_LETTERS[: game.players]):
                end = ends.get(letter, "sub")
                drowned = None if end in ("home", "sub") else Depth(int(end), air)
                found.append((seat, SeatDive(end == "home", turned.get(letter), drowned)))
            turned, ends = {}, {}
    return found


def result_of(record: GameRecord, number: int = 1, *faults: FaultReport) -> GameResult:
    """Its result in a match, with the bots in the order of their seats."""
    return GameResult(
        number,
        record.game_id,
        tuple(range(len(record.seats))),
        record.points,
        record.placements,
        record.forfeits,
        faults,
    )


def summed(*records: GameRecord) -> PlotSums:
    sums = PlotSums([seat.name for seat in records[0].seats])
    for number, record in enumerate(records, 1):
        sums.add(result_of(record, number), record)
    return sums


@pytest.mark.parametrize("preset", sorted(PRESETS))
@pytest.mark.parametrize("players", [2, 4, 6])
def test_dives_are_what_the_words_of_the_game_say(preset: str, players: int) -> None:
    for salt in "abc":
        game = played(preset, players, salt)
        assert list(seat_dives(game.events, players)) == in_words(game)


def test_games_add_up_in_any_order() -> None:
    records = [record_of(played(salt=salt)) for salt in "abcde"]
    one, two = summed(*records), summed(*records[::-1])
    assert one.games == 5
    for bot, same in zip(one.bots, two.bots, strict=True):
        assert bot.dives == 15
        assert bot.placements.total() == 5
        assert bot.home + bot.drowned.total() <= bot.dives
        for name in ("name", "placements", "dives", "home", "turned", "drowned"):
            assert getattr(bot, name) == getattr(same, name)
        assert bot.times.counts() == same.times.counts()


def test_copies_of_a_bot_are_summed_together() -> None:
    sums = PlotSums(["A", "B"], [0, 1, 0])
    record = record_of(played())
    sums.add(result_of(record), record)
    assert [bot.placements.total() for bot in sums.bots] == [2, 1]
    assert [bot.dives for bot in sums.bots] == [6, 3]


def test_dives_that_the_referee_played_are_left_out() -> None:
    record = record_of(faulty())
    sums = summed(record)
    assert [forfeit.seat for forfeit in record.forfeits] == [1]
    assert [bot.dives for bot in sums.bots] == [3, 0, 3]
    assert sums.bots[1].placements == Counter({(1, 3): 1})


def test_times_are_of_decisions_that_were_asked_for() -> None:
    record = record_of(faulty())
    asked = sum(decision.seat == 1 for decision in record.decisions)
    assert summed(record).bots[1].times.counts() == [(99, asked)]
    first = next(i for i, decision in enumerate(record.decisions) if decision.seat == 1)
    unasked = FaultReport(
        1, first, Fault.CRASH, "declare", ("down",), "it was gone", 0, "down", False, when="start"
    )
    sums = PlotSums(["a", "b", "c"])
    sums.add(result_of(record, 1, unasked), record)
    assert sums.bots[1].times.count == asked - 1


def test_medians_are_of_spaces_and_of_air() -> None:
    places = Counter({Depth(3, 20): 2, Depth(9, 4): 1, Depth(5, 12): 2})
    assert medians(places) == Depth(5, 12)
    assert medians(Counter()) is None

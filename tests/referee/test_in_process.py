"""Matches in this process give what matches of processes give, times aside."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest

from deepsea_referee import in_process
from deepsea_referee.bots import BotSpec, resolve
from deepsea_referee.clock import TimeControl
from deepsea_referee.match import MatchSettings, play_match
from deepsea_referee.results import GameResult, MatchResult
from deepsea_rules.faults import Fault
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.record import GameRecord, verify
from deepsea_rules.ruleset import PRESETS
from helpers.programs import PATIENT, program

Played = tuple[MatchResult, list[GameRecord]]


def settings(*bots: BotSpec, games: int = 2, rules: str = "manual") -> MatchSettings:
    return MatchSettings(
        bots=bots,
        hosting=PATIENT,
        games=games,
        rules=PRESETS[rules],
        time_control=TimeControl.parse("60s"),
        seed=seed_from_text("in process"),
    )


def here(what: MatchSettings) -> Played:
    records: list[GameRecord] = []
    return in_process.run_match(what, lambda _, record: records.append(record)), records


def with_processes(what: MatchSettings) -> Played:
    records: list[GameRecord] = []
    done = asyncio.run(play_match(what, lambda _, record: records.append(record)))
    return done, records


def timeless(record: GameRecord) -> str:
    decisions = tuple(decision._replace(us=0) for decision in record.decisions)
    return dataclasses.replace(record, decisions=decisions).to_json()


def untimed(result: GameResult) -> GameResult:
    faults = tuple(dataclasses.replace(fault, us=0) for fault in result.faults)
    return dataclasses.replace(result, faults=faults)


@pytest.mark.parametrize("rules", ["manual", "publisher"])
def test_records_are_those_of_processes_to_the_byte(rules: str) -> None:
    what = settings(*map(resolve, ("greedy", "random", "cautious", "random")), rules=rules)
    (result, records), (other, others) = here(what), with_processes(what)
    assert [timeless(record) for record in records] == [timeless(record) for record in others]
    assert result.games == other.games
    assert [bot.name for bot in result.bots] == [bot.name for bot in other.bots]
    for record in records:
        verify(record)


def test_illegal_answers_are_counted_in_the_same_words(tmp_path: Path) -> None:
    bad = program(tmp_path, "bad", "if self.asked in (2, 5): raise_ = 1")
    text = Path(bad.command[1]).read_text(encoding="utf-8")
    text = text.replace("return super().decide(view)", "return super().decide(view) + extra")
    text = text.replace("if self.asked in (2, 5): raise_ = 1", "pass")
    text = text.replace("self.before(view)", "extra = 'ü!' * 40 if self.asked in (2, 5) else ''")
    Path(bad.command[1]).write_text(text, encoding="utf-8")
    what = settings(resolve(bad.command[1]), resolve("greedy"), games=1)
    (result, records), (other, others) = here(what), with_processes(what)
    assert [fault.fault for fault in result.games[0].faults] == [Fault.ILLEGAL_ACTION] * 2
    assert untimed(result.games[0]).faults == untimed(other.games[0]).faults
    assert timeless(records[0]) == timeless(others[0])


def test_a_crash_forfeits_as_it_does_for_a_process(tmp_path: Path) -> None:
    bad = program(tmp_path, "bad", "if self.asked == 4: raise ValueError('no idea')")
    what = settings(bad, resolve("greedy"), resolve("cautious"))
    (result, _), (other, _) = here(what), with_processes(what)
    for ours, theirs in zip(result.games, other.games, strict=True):
        assert ours.forfeits == theirs.forfeits != ()
        assert (ours.scores, ours.placements) == (theirs.scores, theirs.placements)
        assert [f.came for f in ours.faults] == ["it raised ValueError: no idea"]
        assert ours.faults[0].forfeit


def test_what_bots_print_stays_off_stdout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here(settings(program(tmp_path, "loud", "print('aha')"), resolve("greedy"), games=1))
    out, err = capsys.readouterr()
    assert out == ""
    assert "aha" in err


def test_an_interrupt_keeps_the_games_that_are_complete() -> None:
    def stop(result: GameResult, _record: GameRecord) -> None:
        if result.game == 2:
            raise KeyboardInterrupt

    what = settings(resolve("greedy"), resolve("cautious"), games=5)
    result = in_process.run_match(what, stop)
    assert result.interrupted
    assert [game.game for game in result.games] == [1, 2]

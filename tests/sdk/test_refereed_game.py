"""What an answer is worth: time, faults, words and records, without streams and processes."""

from __future__ import annotations

import pytest

from deepsea_rules.faults import FAULTS_TO_FORFEIT, Fault, FaultReport
from deepsea_rules.game import Game, GameRecord, Question, verify
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import PRESETS
from deepsea_rules.time_control import TimeControl
from deepsea_sdk.bot import NO_CLOCK, TimeLeft
from deepsea_sdk.errors import summary
from deepsea_sdk.table import RefereedGame

SEED = seed_from_text("refereed")
CONTROL = TimeControl(100, 1_000)


def refereed(control: TimeControl | None = CONTROL) -> RefereedGame:
    seats = [("one", "0" * 64), ("other", "1" * 64)]
    return RefereedGame(Game(PRESETS["manual"], 2, SEED), "g", control, seats)


def asked(it: RefereedGame) -> Question:
    question = it.game.pending()
    assert question is not None
    return question


def played_on(it: RefereedGame) -> RefereedGame:
    while (question := it.game.pending()) is not None:
        assert it.answer(question, question.legal[-1]) is None
    return it


def test_an_answer_costs_its_time() -> None:
    it = refereed()
    question = asked(it)
    assert it.time_left(question.seat) == TimeLeft(100, 1_000)
    assert it.answer(question, question.legal[0], 130) is None
    assert it.time_left(question.seat) == TimeLeft(100, 970)
    assert it.time_left(1 - question.seat) == TimeLeft(100, 1_000)
    assert it.game.decisions[0][:4] == (question.seat, question.legal[0], 130, None)


def test_without_limits_nothing_is_too_late() -> None:
    it = refereed(None)
    question = asked(it)
    assert it.answer(question, question.legal[0], 10**15) is None
    assert it.time_left(question.seat) == NO_CLOCK


@pytest.mark.parametrize(("us", "late"), [(1_100, False), (1_101, True)])
def test_more_than_budget_and_bank_is_a_timeout(us: int, late: bool) -> None:
    it = refereed()
    question = asked(it)
    report = it.answer(question, question.legal[-1], us)
    assert it.time_left(question.seat).bank_us == 0
    assert (report is not None) is late
    if report is not None:
        assert (report.fault, report.us, report.played) == (Fault.TIMEOUT, us, question.legal[0])
        assert report.came == "it had 1.1 ms for the decision"


def test_an_illegal_answer_is_reported_and_the_default_played() -> None:
    it = refereed()
    question = asked(it)
    report = it.answer(question, "fly", 400)
    assert report == FaultReport(
        seat=question.seat,
        decision=0,
        fault=Fault.ILLEGAL_ACTION,
        kind=question.kind,
        legal=tuple(question.legal),
        came="it answered 'fly', which is not legal",
        us=400,
        played=question.legal[0],
        forfeit=False,
    )
    assert it.faults == [report]
    assert it.time_left(question.seat).bank_us == 700
    notice = it.notice(report, 7)
    assert (notice.game_id, notice.request_id) == (it.game.commitment[:16], 7)
    assert (notice.fault, notice.forfeit) == (Fault.ILLEGAL_ACTION, False)
    assert notice.message == report.explanation()
    assert "asked to" in notice.message


def test_the_third_fault_forfeits_and_a_crash_at_once() -> None:
    it = refereed()
    forfeits = []
    while not it.game.forfeits:
        question = asked(it)
        if question.seat == 0:
            forfeits.append(it.fault(question, Fault.ILLEGAL_ACTION, "noise").forfeit)
        else:
            it.answer(question, question.legal[0])
    assert forfeits == [False] * (FAULTS_TO_FORFEIT - 1) + [True]
    assert it.fault(asked(it), Fault.CRASH, "gone").forfeit


@pytest.mark.parametrize(
    ("raised", "recorded"),
    [
        ("Traceback ...\nKeyError: 'hunter2'\n", "it raised KeyError"),
        ("my_bot.Trouble: a\nhunter2\nmy_bot.Trouble: a hunter2", "it raised my_bot.Trouble"),
        ("ValueError", "it raised ValueError"),
        ("Error: hunter2\n    at hunter2 (bot.js:1:2)", "it raised an exception"),
        ("hunter2 is no type: x", "it raised an exception"),
        ("a" * 200, "it raised an exception"),
    ],
)
def test_a_public_record_has_the_type_of_an_exception_and_its_author_all_of_it(
    raised: str, recorded: str
) -> None:
    it = refereed()
    it.is_public = True
    report = it.answer(asked(it), "", 120, raised)
    assert report is not None
    assert (report.came, report.error) == (summary(raised), raised)
    assert it.game.decisions[0].came == recorded


def test_a_public_record_has_no_words_of_a_bot_about_an_action_that_is_not_legal() -> None:
    it = refereed()
    it.is_public = True
    report = it.answer(asked(it), "fly", 120, "decide returned 'fly', not hunter2")
    assert report is not None
    assert report.came == "decide returned 'fly', not hunter2"
    assert it.game.decisions[0].came == "it answered 'fly', which is not legal"


def test_what_a_bot_raised_is_a_fault_with_its_text() -> None:
    it = refereed()
    report = it.answer(asked(it), "", 120, "Traceback ...\nKeyError: 'no\x1bway'\n")
    assert report is not None
    assert (report.fault, report.forfeit, report.us) == (Fault.EXCEPTION, False, 120)
    assert report.came == "it raised KeyError: 'no\\x1bway'"
    assert report.error == "Traceback ...\nKeyError: 'no\x1bway'\n"
    assert it.game.decisions[0][3:] == (Fault.EXCEPTION, report.came)
    # Too late is too late, whatever it was.
    late = it.answer(asked(it), "", 10_000, "KeyError")
    assert late is not None
    assert (late.fault, late.error) == (Fault.TIMEOUT, "")


def test_a_decision_is_repeated_with_its_time_and_its_fault() -> None:
    it = refereed()
    it.answer(asked(it), "fly", 150)
    it.answer(asked(it), asked(it).legal[-1], 120)
    again = refereed()
    for decision in it.game.decisions:
        asked(again)
        again.repeat(decision)
    assert again.game.decisions == it.game.decisions
    assert [again.time_left(seat) for seat in (0, 1)] == [it.time_left(seat) for seat in (0, 1)]


def test_start_and_end_say_what_the_game_is() -> None:
    it = refereed()
    info = it.game_info(1)
    assert (info.game_id, info.seat, info.players) == (it.game.commitment[:16], 1, 2)
    assert (info.budget_us, info.bank_us) == (100, 1_000)
    assert info.commitment == it.game.commitment
    end = played_on(it).game_end(1)
    assert (end.seat, end.seed, end.is_void) == (1, SEED, False)
    assert (end.points, end.placements) == tuple(it.game.result())


def test_the_record_has_names_and_clock_and_is_accepted() -> None:
    it = refereed()
    it.answer(asked(it), "fly")
    played = played_on(it).played()
    assert played.faults == tuple(it.faults)
    record = played.record
    assert (record.game_id, record.clock) == ("g", "100us+1ms")
    assert [seat.name for seat in record.seats] == ["one", "other"]
    assert verify(GameRecord.from_json(record.to_json())).decisions == it.game.decisions

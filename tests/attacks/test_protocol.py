"""List P: what a bot can do to the connection and to the conversation.

Each case plays a game with a hostile bot in a verified sandbox; `matches.attack` makes the same
five checks after each. docs/dev/attacks.md has the table of cases. Of cases that take one way
through the referee a few are played: what it reads is tested without a sandbox, case by case, in
tests/referee/test_session.py, test_server.py, test_shut_window.py and test_lines_stream.py. In
every run an attack of each kind is played, and before a release all.
"""

from __future__ import annotations

import secrets
from typing import Final

import pytest

from attacks.harness import Arena
from attacks.matches import CANARY_VARIABLE, HANDSHAKE, PATIENT, Played, attack
from deepsea_rules.faults import Fault
from deepsea_rules.time_control import TimeControl
from helpers.tiers import daily

OK, INVALID, LATE, UNAUTHENTICATED = "0", "3", "4", "16"
EXISTS, EXHAUSTED, UNIMPLEMENTED = "6", "8", "12"
THREE: Final = {
    fault: [fault] * 3
    for fault in (
        Fault.ILLEGAL_ACTION,
        Fault.EXCEPTION,
        Fault.TIMEOUT,
    )
}


@pytest.fixture(autouse=True)
def _canary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Something in the referee's environment that nobody may ever see."""
    monkeypatch.setenv(CANARY_VARIABLE, f"canary-{secrets.token_hex(16)}")


def crashed(played: Played) -> None:
    """The stream's end forfeits the seat at once, and says why."""
    (report,) = played.faults[0]
    assert (report.fault, report.forfeit) == (Fault.CRASH, True)
    assert report.came


def refused(played: Played) -> None:
    """What nobody asked for ends the stream and forfeits the seat."""
    assert played.kinds() == [Fault.PROTOCOL_ERROR]
    assert played.faults[0][-1].forfeit
    assert played.report["ended"] == INVALID
    assert played.report["why"]


# --------------------------------------------------------------------------------- the door


@pytest.mark.release  # so it is with attacks that cost nothing
def test_no_attack_is_no_fault(arena: Arena) -> None:
    assert attack(arena, "p00_no_attack").kinds() == []


def test_p01_p03_wrong_tokens_are_all_refused_in_the_same_words(arena: Arena) -> None:
    others = secrets.token_urlsafe(32)
    played = attack(arena, "p01_tokens", others, reports=1)
    ((status, words),) = played.report["answers"]
    assert status == UNAUTHENTICATED
    assert "token" in words
    assert played.kinds() == []  # and the right one still opened the door


@pytest.mark.release
def test_p02_a_second_connection_beside_the_first_is_refused(arena: Arena) -> None:
    played = attack(arena, "p02_second", "beside", reports=1)
    assert played.report == {"second": EXISTS, "on_the_same_connection": EXISTS}
    assert played.kinds() == []


def test_p02_a_second_connection_cannot_take_over_from_the_first(arena: Arena) -> None:
    played = attack(arena, "p02_second", "after", reports=1)
    assert played.report == {"second": EXISTS}
    crashed(played)


@pytest.mark.release
def test_p26_features_that_nobody_knows_cost_nothing(arena: Arena) -> None:
    assert attack(arena, "p26_features").kinds() == []


def test_p13_there_are_no_other_methods(arena: Arena) -> None:
    played = attack(arena, "p13_methods", reports=1)
    assert UNIMPLEMENTED in played.report["ended"]
    # Another way to write the path is another method, or no HTTP at all.
    assert OK not in played.report["ended"]
    assert UNAUTHENTICATED not in played.report["ended"]
    assert played.kinds() == []


# -------------------------------------------------------------------------------- decisions


@pytest.mark.parametrize("how", daily(["stale", "nothing"], ["stale"]))
def test_p04_p07_what_nobody_asked_for_ends_the_stream(arena: Arena, how: str) -> None:
    refused(attack(arena, "p04_uninvited", how, reports=1))


def test_p05_the_first_of_two_answers_counts_and_the_second_is_refused(arena: Arena) -> None:
    played = attack(arena, "p04_uninvited", "twice", reports=1)
    refused(played)
    decisions = [one for one in played.games[0].decisions if one.seat == 1]
    assert [one.fault is None for one in decisions] == [True] * 3 + [False]


def test_p06_an_answer_for_a_finished_game_is_a_fault_of_the_next(arena: Arena) -> None:
    played = attack(arena, "p04_uninvited", "finished", games=2, reports=1)
    assert played.kinds(0) == []
    assert played.kinds(1) == [Fault.PROTOCOL_ERROR]


def test_p08_illegal_actions_are_counted_and_the_third_forfeits(arena: Arena) -> None:
    which = ["nothing", "words", "numbers", "foreign", "long", "strange", "not_now", "escapes"]
    played = attack(arena, "p08_actions", *which, games=len(which))
    for game, reports in enumerate(played.faults):
        assert played.kinds(game) == THREE[Fault.ILLEGAL_ACTION], which[game]
        assert [report.forfeit for report in reports] == [False, False, True]
        for report in reports:
            assert report.explanation().isprintable()
            assert report.explanation().isascii()
            assert len(report.explanation()) < 500


def test_p08_errors_are_counted_and_kept_short(arena: Arena) -> None:
    which = ["nothing", "long", "lines", "escapes", "text"]
    played = attack(arena, "p08_errors", *which, games=len(which))
    for game, reports in enumerate(played.faults):
        assert played.kinds(game) == THREE[Fault.EXCEPTION], which[game]
        for report in reports:
            assert report.explanation().isprintable()
            assert len(report.explanation()) < 500
            assert len(report.error.encode()) <= 8 * 1024


# ------------------------------------------------------------------------------------ bytes

MALFORMED = [
    "truncated",
    "wire_type",
    "field_zero",
    "overflow",
    "length",
    "negative_length",
    "text",
    "nested",
    "end_group",
    "zeros",
]


def test_p09_malformed_bytes_at_the_door_cost_nothing(arena: Arena) -> None:
    played = attack(arena, "p09_malformed", "first", reports=1)
    assert played.report == dict.fromkeys(MALFORMED, INVALID)
    assert played.kinds() == []


@pytest.mark.parametrize("which", daily(["nested", "length"], ["nested"]))
def test_p09_malformed_bytes_in_a_game_end_the_stream(arena: Arena, which: str) -> None:
    refused(attack(arena, "p09_malformed", which, reports=1))


@pytest.mark.release  # tests/referee/test_newer_peers.py has them, too
def test_p09_unknown_fields_are_passed_over(arena: Arena) -> None:
    assert attack(arena, "p09_unknown_fields").kinds() == []


@pytest.mark.parametrize(
    "those",
    daily(
        ["large,announced,not_packed", "bomb", "headers,headers_unheeded"],
        ["large,announced,not_packed"],
    ),
)
def test_p10_p12_what_is_too_large_is_refused_at_the_door(arena: Arena, those: str) -> None:
    played = attack(arena, "p10_large", those, "first", reports=1)
    assert played.report.keys() == set(those.split(","))
    for how, ended in played.report.items():
        # A hundred kB of headers are only looked at once the bound was acknowledged.
        unheeded = UNAUTHENTICATED if how == "headers_unheeded" else None
        # The last if it came before the rest.
        assert ended in (unheeded, INVALID, EXHAUSTED, LATE, "reset 1"), how
    assert played.kinds() == []


def test_p10_a_message_that_is_too_large_ends_the_stream(arena: Arena) -> None:
    played = attack(arena, "p10_large", "large", "later", reports=1)
    assert played.report["ended"] == EXHAUSTED
    crashed(played)


@pytest.mark.release  # at the door it is refused, too
def test_p10_a_message_that_never_comes_is_not_waited_for(arena: Arena) -> None:
    played = attack(arena, "p10_large", "announced", "later", control=TimeControl(300_000))
    # Newer versions of gRPC refuse its length, older ones wait for the rest.
    assert played.kinds() in ([Fault.CRASH], THREE[Fault.TIMEOUT])


@pytest.mark.parametrize("how", daily(["bomb", "not_packed"], ["bomb"]))
def test_p11_nothing_is_unpacked(arena: Arena, how: str) -> None:
    refused(attack(arena, "p10_large", how, "later", reports=1))


# ------------------------------------------------------------------------------------ floods


def test_p14_garbage_from_600_connections_disturbs_nobody(arena: Arena) -> None:
    played = attack(arena, "p14_garbage", reports=1)
    assert played.kinds() == []
    assert played.report["held"] < 15


@HANDSHAKE
@pytest.mark.parametrize("times", daily([1, 3], [1]))
def test_p14_connections_left_in_their_handshake_do_not_outlive_the_match(
    arena: Arena, times: int
) -> None:
    for _ in range(times):
        assert attack(arena, "p14_left_open").kinds() == []


def test_p15_200_streams_are_refused_and_the_first_goes_on(arena: Arena) -> None:
    assert attack(arena, "p15_streams").kinds() == []


def test_p16_a_flood_is_cut_at_the_first_word_nobody_asked_for(arena: Arena) -> None:
    played = attack(arena, "p16_flood", reports=1)
    assert played.kinds() == [Fault.PROTOCOL_ERROR]


@pytest.mark.parametrize("room", daily([0, 400], [400]))
def test_p17_who_never_reads_is_cut_off(arena: Arena, room: int) -> None:
    # No room for the welcome, or none for a whole question.
    crashed(attack(arena, "p17_never_reads", str(room), write_limit_us=300_000))


@pytest.mark.release
def test_p17_who_has_no_room_for_the_question_is_on_the_clock(arena: Arena) -> None:
    played = attack(
        arena,
        "p17_never_reads",
        "700",  # room for the start of a game, not for a question behind it
        control=TimeControl(200_000),
        grace_us=0,
    )
    assert played.kinds() == THREE[Fault.TIMEOUT]


def test_p17_who_takes_no_message_is_on_the_clock_with_the_next_request(arena: Arena) -> None:
    # One of the others thinks, so that it is frozen while the notice waits for it.
    played = attack(
        arena,
        "p17_shuts",
        "thinks",
        control=TimeControl(300_000),
        grace_us=0,
        freeze=True,
        pause_s=0.02,
        pauses=4,
    )
    assert played.kinds() == [Fault.ILLEGAL_ACTION, Fault.TIMEOUT, Fault.TIMEOUT]
    used_us = sum(line["used_us"] for line in played.said)
    charged_us = sum(one.us for one in played.games[0].decisions if one.seat == 1)
    assert 0 < used_us <= charged_us + 50_000


def test_p17_who_takes_nothing_any_more_is_cut_off(arena: Arena) -> None:
    # The others answer at once: it is asked before it is frozen.
    limit_us = 300_000
    played = attack(arena, "p17_shuts", "holds", write_limit_us=limit_us, freeze=True)
    assert played.kinds() == [Fault.ILLEGAL_ACTION, Fault.CRASH]
    assert 0 < played.faults[0][1].us < 20 * limit_us  # on its clock, and not for ever


@pytest.mark.release
def test_p17_who_does_not_take_its_result_is_on_the_clock_in_the_next_game(arena: Arena) -> None:
    control = TimeControl(300_000)
    played = attack(
        arena, "p17_shuts", "results", games=2, control=control, grace_us=0, freeze=True
    )
    assert played.kinds(0) == []
    assert played.kinds(1) == THREE[Fault.TIMEOUT]


def test_p17_a_small_window_is_no_fault(arena: Arena) -> None:
    assert attack(arena, "p17_shuts", "slowly", games=2, freeze=True).kinds() == []


@pytest.mark.parametrize(
    "how",
    daily(
        ["half_close_with_answer", "reset_within_message", "hang_up_within_frame", "deadline"],
        ["hang_up_within_frame", "deadline"],
    ),
)
def test_p18_p19_p22_whoever_leaves_in_its_turn_forfeits_at_once(arena: Arena, how: str) -> None:
    crashed(attack(arena, "p18_endings", how))


@pytest.mark.parametrize(
    ("how", "words"), daily([("kill", "SIGKILL"), ("exit", "status 1")], [("kill", "SIGKILL")])
)
def test_p20_a_process_that_ends_in_its_turn_forfeits_at_once(
    arena: Arena, how: str, words: str
) -> None:
    played = attack(arena, "p18_endings", how)
    crashed(played)
    assert played.faults[0][0].us < 60_000_000  # not after the timeout


@pytest.mark.release
def test_p18_a_stream_that_ends_before_hello_is_nothing(arena: Arena) -> None:
    assert attack(arena, "p18_endings", "closed_before_hello").kinds() == []


@pytest.mark.parametrize(
    "how",
    daily(
        [
            "ping",
            "settings",
            "settings_ack",
            "empty_data",
            "window",
            "continuation",
            "unknown",
            "rapid_reset",
        ],
        ["rapid_reset"],
    ),
)
def test_p21_floods_of_frames_end_their_own_connection_or_nothing(arena: Arena, how: str) -> None:
    played = attack(arena, "p21_frames", how)
    if played.kinds():
        crashed(played)


# ------------------------------------------------------------------------------------ lines


@pytest.mark.parametrize(
    ("how", "fault"),
    daily(
        [
            ("stdin", Fault.TIMEOUT),  # bubblewrap's own processes still have the pipes
            ("mebibyte", Fault.PROTOCOL_ERROR),
            ("twice", Fault.PROTOCOL_ERROR),
            ("flood", Fault.PROTOCOL_ERROR),
            ("exits", Fault.CRASH),
        ],
        [("stdin", Fault.TIMEOUT), ("flood", Fault.PROTOCOL_ERROR)],
    ),
)
def test_p27_whatever_a_bot_writes_in_lines_is_its_own_fault(
    arena: Arena, how: str, fault: Fault
) -> None:
    control = TimeControl(300_000) if fault is Fault.TIMEOUT else PATIENT
    played = attack(arena, "p27_lines", how, control=control, grace_us=0, protocol="lines")
    assert played.kinds() == THREE.get(fault, [fault])
    assert played.faults[0][-1].forfeit
    for report in played.faults[0]:
        assert report.explanation().isprintable()
        assert len(report.explanation()) < 500

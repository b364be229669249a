"""A person's page over HTTP: whole games by forms, who gets in, and nothing that is hidden."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from html import unescape
from typing import TYPE_CHECKING, Any, cast

import pytest

from deepsea_arena import seat as stored_person
from deepsea_referee.summary import VoidGame
from deepsea_rules import randomness
from deepsea_rules.game import Game, verify
from deepsea_rules.ruleset import PRESETS
from deepsea_rules.time_control import TimeControl
from deepsea_sdk.table import RefereedGame
from deepsea_web.access import HEADERS
from deepsea_web.site.pages.games import SeatRequest, board_words, seat_cursor_of, seat_request_of
from deepsea_web.throwaway import GRACE_US
from helpers.games import Chooser, other_values
from helpers.pages import RUN
from helpers.seat_page import ASKED, CHOICE, Sitting, Visitor, sitting
from helpers.tiers import daily

if TYPE_CHECKING:
    from deepsea_arena.analysis import GameAnalysis


@contextmanager
def entered(preset: str = "manual", **given: Any) -> Iterator[tuple[Sitting, Visitor]]:
    """A game of a person, and that person on its page; `given` as for `sitting`."""
    with sitting(preset, **given) as table:
        visitor = Visitor(table.ladder.address)
        visitor.enter()
        yield table, visitor


TABLES = [*zip(PRESETS, range(2, 7), strict=True)]


@pytest.mark.parametrize(("preset", "seats"), daily(TABLES, TABLES[-1:]))
def test_whole_games_by_forms(preset: str, seats: int) -> None:
    with entered(preset, seats=seats, salt=preset) as (table, visitor):
        page = unescape(visitor.play(Chooser(preset)))
        record = table.game.played().record
    verify(record)
    own = [one for one in record.decisions if one.seat == 1]
    assert own
    assert all(one.fault is None for one in own)
    assert "Game 1 is over" in page
    for place, seat in zip(record.placements, "ABCDEF", strict=False):
        assert f"{place}. {seat} " in page


# Who gets in


def test_the_code_opens_the_page_once_and_for_one_browser() -> None:
    with sitting() as table:
        one, other = (Visitor(table.ladder.address) for _ in range(2))
        game_id = table.game.game_id
        for path in ("/", f"/play/{game_id}/news", f"/play/{game_id}/game"):
            assert one.get(path).status in (303, 404)
        assert 'name="code"' in one.get("/login").text
        assert one.enter("AAAA-AAAA-AAAA-AAAA").status == 401
        answer = one.enter()
        assert (answer.status, one.seat) == (303, f"/play/{game_id}")
        for word in ("HttpOnly", "SameSite=Lax"):
            assert word in answer.headers["Set-Cookie"]
        page = one.settled()
        assert one.settled() == page  # it was loaded again
        assert one.get("/").headers["Location"] == one.seat
        assert one.url.fragment not in page
        [asked] = set(ASKED.findall(page))
        assert other.enter().status == 401
        other.seat = one.seat
        for refused in (other.get(), other.get(f"{one.seat}/news"), other.deed("drop", asked)):
            assert refused.status in (303, 403)
            assert refused.headers.get("Location", "/login").startswith("/login")
        assert not table.person.dropped


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "http://127.0.0.1:1"}, {"Origin": "null"}, {"Sec-Fetch-Site": "same-site"}],
)
def test_a_form_of_another_page_is_refused(headers: dict[str, str]) -> None:
    with entered() as (table, visitor):
        [asked] = set(ASKED.findall(visitor.settled()))
        fields = {"id": table.game.game_id, "what": "drop", "asked": asked}
        said = {"Origin": f"http://{visitor.url.netloc}", **headers}
        answer = visitor.send(f"{visitor.seat}/deed", fields, **said)
        assert answer.status == 403
        assert not table.person.dropped


def test_every_answer_has_the_policy_and_other_hosts_are_refused() -> None:
    with entered() as (_, visitor):
        for path, status in (
            (visitor.seat, 200),
            *((path, 404) for path in ("/x", "/static/x", "/games")),
            (f"{visitor.seat}/%00", 400),
        ):
            answer = visitor.get(path)
            assert answer.status == status, path
            for name, value in HEADERS.items():
                assert answer.headers.get_all(name) == [value]
        assert visitor.get(Host="evil.example").status == 421
        assert visitor.deed("win", 1).status == 400


# Deeds


def test_a_deed_that_is_not_for_this_question_does_nothing() -> None:
    with entered(seats=2) as (table, visitor):
        [asked] = set(ASKED.findall(visitor.settled()))
        for number in (999, int(asked) + 1):
            for what in ("answer", "hint"):
                assert visitor.deed(what, number, "take").status in (400, 409)
        assert visitor.deed("answer", asked, "fly").status == 400
        assert visitor.deed("next", 0).status == 409
        assert set(ASKED.findall(visitor.settled())) == {asked}
        assert not table.game.game.decisions or table.game.game.decisions[-1].seat == 0
        assert not table.dropped.is_set()


def test_a_hint_and_leaving() -> None:
    with entered() as (table, visitor):
        [asked] = set(ASKED.findall(visitor.settled()))
        visitor.deed("hint", asked)
        while "hint: " not in (page := visitor.settled()):
            pass
        assert table.person.hints == 1
        [asked] = set(ASKED.findall(page))
        visitor.deed("play on", asked)
        assert "is over" in visitor.settled()
        assert table.person.away
    with entered() as (table, visitor):
        [asked] = set(ASKED.findall(visitor.settled()))
        visitor.deed("drop", asked)
        assert table.dropped.wait(60)


def test_the_worst_decisions_are_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    with entered() as (table, visitor):
        page = visitor.play(Chooser("manual"))
        position = unescape(re.findall('data-position="([^"]+)"', page)[0])
        one = {"turn": 3, "dive": 1, "position": position, "played": "leave", "lost": 0.2}
        judged = {"words": "lost", "worst": [{**one, "better": "drop:[12]"}]}
        monkeypatch.setattr(stored_person, "judgement", lambda *_: judged)
        table.person.judged(cast("GameAnalysis", object()), 1)
        page = re.sub("<[^>]+>", "", visitor.settled())
    assert "Turn 3, dive 1: take nothing lost 0.2; better: drop levels 1, 2" in page


def test_a_game_that_is_void_says_why_and_the_next_one_may_be_wished_for() -> None:
    with entered() as (table, visitor):
        visitor.settled()
        void = VoidGame(1, table.game.game_id, "the host was too busy")
        table.person.void(void, more=True)
        page = visitor.settled()
        assert "The game is void: the host was too busy." in page
        assert "next game" in page
        assert not table.dropped.is_set()
        waiting = threading.Thread(target=table.person.wait_for_next)
        waiting.start()
        wishing = threading.Thread(target=lambda: visitor.deed("next", 0))
        wishing.start()
        waiting.join()
        again = RefereedGame(table.game.game, "another", None, [(n, "") for n in table.game.names])
        table.person.begin(again, 1)
        wishing.join()
        assert visitor.seat == "/play/another"


@pytest.mark.parametrize(
    ("fields", "request_"),
    [
        (
            [("what", "answer"), ("asked", "3"), ("action", "take")],
            SeatRequest("answer", 3, "take"),
        ),
        ([("what", "next")], SeatRequest("next")),
        ([("what", "drop"), ("asked", "-1")], None),
        ([("what", "win"), ("asked", "1")], None),
    ],
)
def test_requests_of_forms(fields: list[tuple[str, str]], request_: SeatRequest | None) -> None:
    assert seat_request_of(fields) == request_


def test_places_of_readers() -> None:
    texts = ("", "7.2.40", "7.2.40.9", "x.1", "9" * 5000)
    assert [seat_cursor_of(text) for text in texts] == [
        *((0, 0, 0), (7, 2, 40), (7, 2, 40), (0, 1, 0), (0, 0, 0)),
    ]


def test_the_time_that_is_left_is_shown() -> None:
    with (
        entered(control=TimeControl(2_000_000, 58_000_000)) as (table, visitor),
        closing(visitor.stream()) as reader,  # so that nobody has left
    ):
        reader.next()
        assert '<span id="seat-left">60</span>' in visitor.settled()
        table.in_loop(lambda: table.clock.jump(18_000_000))
        assert '<span id="seat-left">42</span>' in visitor.settled()


# Who has left


def test_who_closes_the_page_has_left_but_not_who_loads_it_again() -> None:
    with entered() as (table, visitor):
        visitor.settled()
        for _ in range(2):
            with closing(visitor.stream()) as stream:
                stream.next()
            while not table.clock.alarms:  # the server notices in its own time
                visitor.get()
            table.in_loop(lambda: table.clock.jump(GRACE_US - 1))
            assert not table.dropped.is_set()
        table.in_loop(lambda: table.clock.jump(1))
        assert table.dropped.wait(60)


def test_a_stream_brings_the_frames_that_a_reader_lacks() -> None:
    with entered() as (_, visitor):
        visitor.settled()
        with closing(visitor.stream()) as stream:
            frames = stream.next()["frames"]
        for known in (1, len(frames)):
            with closing(visitor.stream(f"1.1.{known}")) as stream:
                assert stream.next()["frames"] == frames[known:]


# What is seen


def seen(
    monkeypatch: pytest.MonkeyPatch, preset: str, seats: int, values: Sequence[int] = ()
) -> tuple[Game, list[str]]:
    """A whole game, and all that is sent: each page, the stream of all frames, and the end.

    values  those of the chips; else those of the seed
    """
    pages: list[str] = []
    with monkeypatch.context() as patched:
        if values:
            patched.setattr(randomness, "deal", lambda seed: tuple(values))
        with entered(preset, seats=seats, salt=preset) as (table, visitor):
            chooser = Chooser(preset)
            while asked := set(ASKED.findall(page := visitor.settled())):
                if len(pages) == 2:
                    visitor.deed("hint", max(asked))
                    while "hint: " not in (page := visitor.settled()):
                        pass
                with closing(visitor.stream()) as stream:
                    pages += [page, json.dumps(stream.next())]
                visitor.deed("answer", max(asked), unescape(chooser.pick(CHOICE.findall(page))))
            while "That was the last game" not in page:
                page = visitor.settled()
        # The name of a cookie is made of the address, whose port is another one each time.
        return table.game.game, [re.sub('data-cookie="[^"]*"', "", one) for one in [*pages, page]]


@pytest.mark.parametrize(("preset", "seats"), daily(TABLES, [("reference", 3)]))
def test_hidden_values_change_no_byte(
    monkeypatch: pytest.MonkeyPatch, preset: str, seats: int
) -> None:
    one, first = seen(monkeypatch, preset, seats)
    values = other_values(one.state.values, known_before_the_end(one))
    assert values != one.state.values
    other, again = seen(monkeypatch, preset, seats, values)
    assert other.decisions == one.decisions
    assert again[:-1] == first[:-1]
    assert len(first) > 2


def test_of_the_end_a_page_shows_what_the_seat_knows_then(monkeypatch: pytest.MonkeyPatch) -> None:
    one, first = seen(monkeypatch, "guide", 2)
    assert "is over" in first[-1]
    for known, same in ((one.view(1).known, True), ([], False)):
        values = other_values(one.state.values, known)
        assert values != one.state.values
        assert (seen(monkeypatch, "guide", 2, values)[1] == first) is same


def known_before_the_end(finished: Game) -> set[int]:
    """The chips whose values seat B knew when it decided last."""
    again = Game(finished.rules, finished.players, finished.seed)
    known = set[int]()
    for decision in finished.decisions:
        question = again.pending()
        assert question is not None
        if question.seat == 1:
            known = set(again.view(1).known)
        again.decide(decision.action)
    return known


def test_names_are_text_and_nothing_else() -> None:
    with entered(bot=RUN) as (_, visitor):
        page = visitor.play(Chooser("x"))
    assert "<img src=x" not in page
    assert "onload=ran" not in page.replace("&lt;svg onload=ran", "")
    assert "&lt;script&gt;" in page


def test_the_board_is_in_words_whatever_is_asked_for() -> None:
    position = "1 x 3=9 {1=0,2} [24] 2 3 4 | *A3v:1,2,3,4 B1v:1 | d1 a0 order"
    trail = [
        *("level 1, diver B", "blank", "level 3 worth 9, diver A"),
        *("stack of levels 1 worth 0, 2", "stack of levels 2, 4", "level 2", "level 3", "level 4"),
    ]
    assert board_words(position) == (position, 1, 0, trail)

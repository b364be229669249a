"""A person's page over HTTP: whole games by forms, who gets in, and nothing that is hidden."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from html import unescape
from typing import Any

import pytest

from deepsea_rules import randomness
from deepsea_rules.game import Game
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.record import verify
from deepsea_rules.ruleset import PRESETS
from deepsea_rules.time_control import TimeControl
from deepsea_web.http import GRACE_US, HEADERS, MOST_STREAMS
from deepsea_web.play.page import board, deed_of, place_of
from deepsea_web.play.seat import Deed
from deepsea_web.play.server import COOKIE
from helpers.games import Chooser, other_values
from helpers.pages import RUN
from helpers.seat_page import ASKED, Sitting, Visitor, sitting
from helpers.tiers import daily


def game(preset: str = "manual", seats: int = 3, salt: str = "demo") -> Game:
    return Game(PRESETS[preset], seats, seed_from_text(salt))


@contextmanager
def entered(of: Game | None = None, **given: Any) -> Iterator[tuple[Sitting, Visitor]]:
    """A game of a person, and that person on its page; `given` as for `sitting`."""
    with sitting(of or game(), **given) as table:
        visitor = Visitor(table.server.address)
        visitor.enter()
        yield table, visitor


TABLES = [*zip(PRESETS, range(2, 7), strict=True)]


@pytest.mark.parametrize(("preset", "seats"), daily(TABLES, TABLES[-1:]))
def test_whole_games_by_forms(preset: str, seats: int) -> None:
    with entered(game(preset, seats, preset)) as (table, visitor):
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
    with sitting(game()) as table:
        one, other = (Visitor(table.server.address) for _ in range(2))
        for path in ("news", "deed"):
            assert one.get(path).status in (403, 405)
        assert 'name="code"' in one.get().text
        assert one.enter("x" * 43).status == 403
        answer = one.enter()
        assert (answer.status, answer.headers["Location"]) == (303, one.url.path)
        for word in ("HttpOnly", "SameSite=strict", f"Path={one.url.path}"):
            assert word in answer.headers["Set-Cookie"]
        page = one.settled()
        assert one.settled() == page  # it was loaded again
        assert one.url.fragment not in page
        other.cookie = f"{COOKIE}={one.url.fragment}"
        [asked] = set(ASKED.findall(page))
        for refused in (
            other.get(),
            other.enter(),
            other.get("news"),
            other.post("deed", what="drop", asked=asked),
        ):
            assert refused.status == 403
            assert one.url.path not in refused.text
        assert not table.seat.dropped


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "http://127.0.0.1:1"}, {"Origin": "null"}, {"Sec-Fetch-Site": "same-site"}],
)
def test_a_form_of_another_page_is_refused(headers: dict[str, str]) -> None:
    with entered() as (table, visitor):
        [asked] = set(ASKED.findall(visitor.settled()))
        answer = visitor.send("deed", {"what": "drop", "asked": asked}, **headers)
        assert answer.status == 403
        assert not table.seat.dropped


def test_every_answer_has_the_policy_and_other_hosts_are_refused() -> None:
    with entered() as (_, visitor):
        for path, status in (
            *((path, 200) for path in ("", "viewer.js", "play.js", "play.css")),
            *((path, 404) for path in ("x", "../", "play.js/x", "%00")),
            ("deed", 405),
        ):
            answer = visitor.get(path)
            assert answer.status == status, path
            for name, value in HEADERS.items():
                assert answer.headers.get_all(name) == [value]
        assert visitor.get(Host="evil.example").status == 421
        assert visitor.post("deed", what="win", asked=1).status == 400


# Deeds


def test_a_deed_that_is_not_for_this_question_does_nothing() -> None:
    with entered(game(seats=2)) as (table, visitor):
        [asked] = set(ASKED.findall(visitor.settled()))
        for number in ("0", "999", str(int(asked) - 1)):
            table.seat.do(Deed("drop", int(number)))
        table.seat.do(Deed("answer", int(asked), "fly"))
        page = visitor.settled()
        while set(ASKED.findall(page)) == {asked}:  # the same is asked for again
            page = visitor.settled()
        assert not table.game.game.decisions or table.game.game.decisions[-1].seat == 0
        assert not table.dropped.is_set()


def test_a_hint_and_leaving() -> None:
    with entered() as (table, visitor):
        [asked] = set(ASKED.findall(visitor.settled()))
        visitor.post("deed", what="hint", asked=asked)
        page = visitor.settled()
        assert "hint: " in page
        assert table.seat.hints == 1
        [asked] = set(ASKED.findall(page))
        visitor.post("deed", what="play on", asked=asked)
        assert "is over" in visitor.settled()
        assert table.seat.away
    with entered() as (table, visitor):
        [asked] = set(ASKED.findall(visitor.settled()))
        table.seat.do(Deed("drop", int(asked)))
        assert table.dropped.wait(60)


@pytest.mark.parametrize(
    ("fields", "deed"),
    [
        ([("what", "answer"), ("asked", "3"), ("action", "take")], Deed("answer", 3, "take")),
        ([("what", "next")], Deed("next")),
        ([("what", "drop"), ("asked", "-1")], None),
        ([("what", "win"), ("asked", "1")], None),
    ],
)
def test_deeds_of_forms(fields: list[tuple[str, str]], deed: Deed | None) -> None:
    assert deed_of(fields) == deed


def test_places_of_readers() -> None:
    texts = ("", "7.2.40", "7.2.40.9", "x.1", "9" * 5000)
    assert [place_of(text) for text in texts] == [
        *((0, 0, 0), (7, 2, 40), (7, 2, 40), (0, 1, 0), (0, 0, 0)),
    ]


def test_the_time_that_is_left_is_shown() -> None:
    with (
        entered(control=TimeControl(2_000_000, 58_000_000)) as (table, visitor),
        closing(visitor.stream("0.0.0")) as reader,  # so that nobody has left
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


def test_streams_are_limited() -> None:
    with entered() as (_, visitor):
        streams = [visitor.stream() for _ in range(MOST_STREAMS)]
        assert all(stream.next() for stream in streams)
        assert visitor.get("news").status == 503
        for stream in streams:
            stream.close()


def test_a_stream_brings_the_frames_that_a_reader_lacks() -> None:
    with entered() as (table, visitor):
        visitor.settled()
        document = table.seat.document()
        for known in (0, 1, len(document["frames"])):
            with closing(visitor.stream(f"1.1.{known}")) as stream:
                news = stream.next()
            assert news["frames"] == json.loads(json.dumps(document["frames"][known:]))


# What is seen


def seen(table_game: Game, salt: str, *, told: bool = False) -> list[str]:
    """All that is sent in a whole game: each page, and the stream of all frames after it.

    told  also the page of the end
    """
    pages: list[str] = []
    with entered(table_game, told=told) as (table, visitor):
        chooser = Chooser(salt)
        while asked := set(ASKED.findall(page := visitor.settled())):
            pages.append(page)
            with closing(visitor.stream()) as stream:
                pages.append(json.dumps(stream.next()))
            what = chooser.pick(("answer", "answer", "hint"))
            question = table.seat.document()["asked"]
            assert question is not None
            action = chooser.pick(question["choices"])["action"]
            visitor.post("deed", what=what, asked=asked.pop(), action=action)
        while told and "that was the last game" not in page.lower():
            page = visitor.settled()
        return [*pages, page] if told else pages


@pytest.mark.parametrize(("preset", "seats"), daily(TABLES, [("reference", 3)]))
def test_hidden_values_change_no_byte(preset: str, seats: int) -> None:
    one, other = (game(preset, seats, preset) for _ in range(2))
    first = seen(one, preset)
    assert first
    values = other_values(one.state.values, known_before_the_end(one))
    assert other.state.values != values
    other.state.values = values
    assert seen(other, preset) == first
    assert other.decisions == one.decisions


def test_of_the_end_a_page_shows_what_the_seat_knows_then(monkeypatch: pytest.MonkeyPatch) -> None:
    one = game("guide", 2)
    first = seen(one, "guide", told=True)
    assert "is over" in first[-1]
    for known, same in ((one.view(1).known, True), ([], False)):
        values = other_values(one.state.values, known)
        assert values != one.state.values
        with monkeypatch.context() as patched:
            patched.setattr(randomness, "deal", lambda seed, values=values: values)
            assert (seen(game("guide", 2), "guide", told=True) == first) is same


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
    assert page.count("<script") == 1
    assert "<img" not in page
    assert "&lt;script&gt;" in page


def test_the_board_is_that_of_a_position_whatever_is_asked_for() -> None:
    position = "1 2 3 4 1 2 3 4 | *A3v:1,2,3,4 B1v:1 | d1 a0 order"
    assert board(position).count('class="ds-space"') == 8

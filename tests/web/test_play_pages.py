"""Games of people on the site: played by forms alone, and what is sent to whom."""

from __future__ import annotations

import asyncio
import html
import json
import re
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text as sql

from deepsea_arena.api.errors import ApiError
from deepsea_arena.api.ladder_api import METHODS
from deepsea_arena.api.local import LocalLadder
from deepsea_arena.documents import json_text
from deepsea_arena.games import read_record
from deepsea_ladder.season import PlaySettings
from deepsea_ladder.store import Store
from deepsea_rules import randomness
from deepsea_rules.game import Game, GameRecord, verify
from deepsea_rules.randomness import Stream, seed_from_text
from deepsea_rules.ruleset import PRESETS
from deepsea_rules.state import NO_TREASURE_NO_ENTRY, NO_TREASURE_NO_TURN
from helpers import ladder
from helpers.full_ladder import StoreClock
from helpers.games import other_values
from helpers.members import Person, forms_of
from helpers.people import Runner
from helpers.site import ask
from helpers.tiers import daily
from helpers.world import ANNA, Stock, World, opened


def begin(world: World, person: Person, **typed: str) -> str:
    """Begin a game on the page; its address."""
    answer = person.send("/play", "/play", {"seat": "B", "opponents": "2", **typed})
    assert answer.status == 303, answer.text
    Runner(world.service.store).play_on()
    return answer.headers["location"]


def answers(page: str) -> list[str]:
    """The actions of the buttons on a seat's page."""
    return re.findall(r'<button name="action" value="([^"]+)"', page)


def answer_to_the_end(world: World, person: Person, address: str, seed: bytes = b"") -> list[str]:
    """Play by forms and reloads alone; the pages that were seen."""
    chance = Stream(seed or seed_from_text("a person"), "answers")
    seen = []
    for _ in range(400):
        page = person.get(address)
        assert page.status == 200, page.text
        seen.append(page.text)
        offered = answers(page.text)
        if not offered:
            return seen
        action = html.unescape(offered[chance.uniform(len(offered))])
        sent = person.send(page, f"{address}/deed", {"action": action})
        assert (sent.status, sent.headers["location"]) == (303, address), sent.text
        Runner(world.service.store).play_on()
    raise AssertionError("the game does not end")


@pytest.mark.parametrize("rules", daily(PRESETS, ["publisher"]))
def test_a_member_plays_to_the_end_without_a_script(world: World, rules: str) -> None:
    anna = world.person(ANNA)
    address = begin(world, anna, rules=rules)
    pages = answer_to_the_end(world, anna, address)
    assert len(pages) > 6
    assert "The whole game" in pages[-1]
    assert "B you" in pages[-1]
    store = world.service.store
    game = store.person_games.get(address.rpartition("/")[2])
    record = GameRecord.from_json(game.record)
    verify(record)
    assert record.rules.name == rules
    assert record.seats[1].name == "person"
    assert f"{record.placements[1]} of 3" in anna.get("/play").text
    everybody = world.person().get(f"{address}/game")
    assert everybody.status == 200
    assert "Not rated" in everybody.text
    assert ANNA in everybody.text
    frames = world.person().get(f"/games/{game.game_id}/frames.json?seat=B")
    assert json.loads(frames.body)["viewer"] == "B"


@pytest.mark.parametrize(
    ("rules", "rule"), [("manual", NO_TREASURE_NO_TURN), ("publisher", NO_TREASURE_NO_ENTRY)]
)
def test_a_page_names_the_rule_that_stops_a_diver(world: World, rules: str, rule: str) -> None:
    anna = world.person(ANNA)
    address = begin(world, anna, rules=rules)
    for _ in range(100):
        page = anna.get(address)
        if rule in page.text:
            return
        offered = answers(page.text)
        key = "b" if "b" in offered else offered[0]  # home at once, and nothing is taken
        anna.send(page, f"{address}/deed", {"action": key})
        Runner(world.service.store).play_on()
    raise AssertionError("nothing has stopped it")


def test_its_analysis_is_asked_for_on_its_page(world: World) -> None:
    anna = world.person(ANNA)
    address = begin(world, anna)
    world.service.store.person_games.leave(address.rpartition("/")[2])
    Runner(world.service.store).play_on()
    sent = anna.send(f"{address}/game", "/analyse")
    assert (sent.status, sent.headers["location"]) == (303, f"{address}/game")
    assert "The analysis is queued" in anna.get(f"{address}/game").text


def test_who_chooses_no_bots_meets_those_of_its_strength(world: World) -> None:
    store = world.service.store
    anna = world.person(ANNA)
    ranked = re.findall(r'name="bots" value="(\w+)"', anna.get("/play").text)
    begin(world, anna, opponents="1")
    game, *_ = store.person_games.of_person(store.authors.id_of(ANNA), None, 9)
    assert [one.bot for one in game.versions] == [ranked[len(ranked) // 2]]


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ({"bots": "nobody"}, "does not play"),
        ({"rules": "chess"}, "rules is one of"),
        ({"seat": "F"}, "a letter from a to c"),
        ({"seat": "BB"}, "a letter from a to c"),
        ({"opponents": "9"}, "1 to 5 bots"),
        ({"opponents": "-1"}, "1 to 5 bots"),
        ({"opponents": "two"}, "opponents is a whole number, not 'two'"),
    ],
)
def test_what_cannot_be_played_is_refused_in_one_line(
    unchanged: World, typed: dict[str, str], words: str
) -> None:
    sent = unchanged.person(ANNA).send("/play", "/play", {"opponents": "2", "seat": "A", **typed})
    assert sent.status == 400
    assert words in html.unescape(sent.text).lower()


def test_a_form_that_is_old_or_sent_twice_does_nothing(world: World) -> None:
    anna = world.person(ANNA)
    address = begin(world, anna)
    fields = anna.form(address, f"{address}/deed", what="answer")
    typed = [*fields, ("action", "leave")]
    assert anna.post(f"{address}/deed", typed).status == 303
    assert anna.post(f"{address}/deed", typed).status == 409
    Runner(world.service.store).play_on()
    assert anna.post(f"{address}/deed", typed).status == 409
    assert answers(anna.get(address).text)


def test_leaving_and_dropping(world: World) -> None:
    anna = world.person(ANNA)
    for what, words in (("play on", "The whole game"), ("drop", "its person dropped it")):
        address = begin(world, anna)
        fields = anna.form(address, f"{address}/deed", what=what)
        assert anna.post(f"{address}/deed", fields).status == 303
        Runner(world.service.store).play_on()
        assert words in anna.get(address).text


# Who may what


def test_visitors_play_where_the_season_lets_them(world: World) -> None:
    page = world.person().get("/play")
    assert "log in" in page.text
    assert not any(form.action == "/play" for form in forms_of(page))
    store = world.service.store
    store.seasons.close("s1")
    season = ladder.a_season("s2")
    open_to_all = type(season)(name="s2", play=PlaySettings(visitors=True))
    store.seasons.open(open_to_all, ladder.SEED)
    visitor, other = world.person(), world.person()
    address = begin(world, visitor)
    fields = visitor.form(address, f"{address}/deed", what="play on")
    assert visitor.post(f"{address}/deed", fields).status == 303
    Runner(store).play_on()
    assert "a visitor" in other.get(f"{address}/game").text
    address = begin(world, visitor)
    assert other.get(address).status == 404
    assert address not in other.get("/play").text
    assert address in visitor.get("/play").text


def test_a_token_without_the_scope_to_submit_plays_no_game(world: World) -> None:
    made = world.ladder(ANNA).create_token(label="reads", scopes=("read",), days=1)
    reading = world.service.caller_of(made.secret, "")
    with pytest.raises(ApiError, match="scope submit"):
        LocalLadder(world.service, reading).play()


# Hidden information


def played_until_now(store: Store, game_id: str) -> Game:
    """The game, to its next question or its end."""
    game = store.person_games.get(game_id)
    decisions = read_record(game.record).decisions if game.record else game.decisions
    played = Game(game.ruleset, len(game.names), game.seed)
    played.pending()
    for decision in decisions:
        played.decide(*decision[1:])
        played.pending()
    return played


def rewrite_record(store: Store, game_id: str) -> None:
    """Store the record of a game that is over as it is with the values that are dealt now."""
    game = store.person_games.get(game_id)
    if game.record:
        former, played = read_record(game.record), played_until_now(store, game_id)
        record = GameRecord.of(played, game_id=game_id, clock=former.clock, seats=former.seats)
        change = sql("UPDATE person_games SET record = :record WHERE game_id = :game_id")
        with store.database.write() as connection:
            connection.execute(change, {"record": record.to_json(), "game_id": game_id})


def everything_sent(world: World, person: Person, address: str) -> list[bytes]:
    """Return all that the site sends of a game to its person: page, list, stream, JSON, refusals.

    Of a game that is over it gives everything away to everybody, but not on these.
    """
    game_id = address.rpartition("/")[2]
    addresses = [address, "/play"]
    if not world.service.store.person_games.get(game_id).state.is_final:
        addresses.append(f"{address}/game")
        addresses += [f"/games/{game_id}/{one}.json" for one in ("frames", "record", "analysis")]
    bodies = [person.get(one).body for one in addresses]
    gateway = world.site.gateway
    caller = world.service.caller_of(world.tokens[ANNA], "")

    async def streamed() -> bytes:
        steps = gateway.stream(caller, METHODS["watch_seat"], {"game_id": game_id})
        async with aclosing(steps):
            batch = await anext(steps)
            return "".join(map(json_text, batch.answers)).encode()

    news: list[bytes] = []

    def noted(message: Any) -> None:
        news.append(message.get("body", b""))
        if news[-1]:
            world.site.gateway.closing.set()

    asyncio.run(ask(world.site, f"{address}/news?after=0.0.0", headers=person.said, noted=noted))
    gateway.closing.clear()
    return [*bodies, asyncio.run(streamed()), b"".join(news)]


@pytest.mark.parametrize("rules", daily(PRESETS, ["revised"]))
def test_what_is_sent_depends_on_nothing_that_the_seat_does_not_know(
    rules: str, stock: Stock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with StoreClock().installed(), opened(stock, tmp_path) as world:
        store = world.service.store
        anna = world.person(ANNA)
        address = begin(world, anna, rules=rules)
        game_id = address.rpartition("/")[2]

        def check() -> None:
            """Nothing differs with other values of what the seat does not know."""
            played = played_until_now(store, game_id)
            values = other_values(played.state.values, played.view(1).known)
            assert values != played.state.values
            sent = everything_sent(world, anna, address)
            assert all(sent)
            with monkeypatch.context() as patched:
                patched.setattr(randomness, "deal", lambda seed: values)
                rewrite_record(store, game_id)
                assert everything_sent(world, anna, address) == sent

        turn = 0
        while not store.person_games.get(game_id).state.is_final:
            if turn % 12 == 0:
                check()
            if turn == 24:  # a game may be much longer
                store.person_games.leave(game_id)
                Runner(store).play_on()
                break
            page = anna.get(address)
            offered = answers(page.text)
            anna.send(
                page, f"{address}/deed", {"action": html.unescape(offered[turn % len(offered)])}
            )
            Runner(store).play_on()
            turn += 1
        assert turn > 3
        assert "is over" in anna.get(address).text
        check()

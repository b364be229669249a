"""A game's analysis on its page: how to ask, how far it is, what was found."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from deepsea_arena.analysis import AnalysisSettings
from deepsea_arena.documents import json_text
from deepsea_arena.ladder_analyses import plan
from deepsea_ladder.limits import USUAL_LIMITS
from deepsea_ladder.model import TaskState
from deepsea_ladder.store import Store
from deepsea_rules.game import GameRecord
from deepsea_sdk.coach.decisions import Effort
from deepsea_sdk.coach.roll_outs import COACH_VERSION
from helpers import ladder
from helpers.site import a_site, get
from helpers.world import ANNA, BEN, SHORT, World, analysed

PAGE = "/games/s1-1"


def section(text: str) -> str:
    """What the page says of the analysis, without its tags."""
    (found,) = re.findall(r'<section id="analysis".*?</section>', text, re.DOTALL)
    return " ".join(re.sub(r"<[^>]*>", " ", found).split())


def test_who_has_an_account_asks_by_a_form_and_sees_how_far_it_is(world: World) -> None:
    person = world.person(ANNA)
    world.ladder().request_analysis(game_id="s1-2")
    assert '<button class="primary">Analyse this game</button>' in person.get(PAGE).text
    answer = person.send(PAGE, "/analyse")
    assert (answer.status, answer.headers["location"]) == (303, PAGE)
    for one in (person, world.person(BEN), world.person()):
        text = one.get(PAGE).text
        assert "The analysis is queued, 1 before it." in section(text)
        assert "data-waits" in text
        assert "<button" not in section(text)
    number = world.service.store.analyses.of_game("s1-1")[1]
    assert number is not None
    world.service.store.analyses.claim("runner", 60, number.id)
    assert "The analysis is being made." in section(person.get(PAGE).text)


def test_visitors_are_led_to_the_login_and_from_there_to_the_form(world: World) -> None:
    visitor = world.person()
    text = visitor.get(PAGE).text
    assert "Ask for its analysis , with an account." in section(text)
    assert f'<a href="{PAGE}/analysis">' in text
    login = visitor.get(f"{PAGE}/analysis").headers["location"]
    after = visitor.send(login, "/login", {"token": world.tokens[ANNA]}).headers["location"]
    assert after == f"{PAGE}/analysis"
    assert visitor.send(after, "/analyse").headers["location"] == PAGE
    assert visitor.post("/analyse", [("id", "s1-2")]).status == 303
    assert world.person().post("/analyse", [("id", "s1-3")]).status == 401


def test_what_was_found_is_on_the_page_for_everybody(world: World) -> None:
    before = world.person().get(PAGE).headers["etag"]
    frames_before = world.person().get(f"{PAGE}/frames.json")
    assert "policy" not in json.loads(frames_before.text)
    assert world.person().get(f"{PAGE}/analysis.json").status == 404
    found = analysed(world.service.store)
    for one in (world.person(), world.person(ANNA)):
        text = one.get(PAGE).text
        assert f"Analysed by roll-outs of {COACH_VERSION}" in section(text)
        assert "Analyse this game" not in text
    assert world.person().get(PAGE).headers["etag"] != before
    record = GameRecord.from_json(world.service.store.games.record("s1-1"))
    for seat in ("", "?seat=B", "?seat=watcher"):
        answer = world.person().get(f"{PAGE}/frames.json{seat}")
        shown = json.loads(answer.text)
        assert shown["policy"] == COACH_VERSION
        assert len(shown["luck"]) == len(record.seats)
        assert sum("judged" in one for one in shown["decisions"]) == len(record.decisions)
    assert (
        world.person().get(f"{PAGE}/frames.json").headers["etag"] != frames_before.headers["etag"]
    )
    kept = world.person().get(f"{PAGE}/analysis.json")
    assert json.loads(kept.text) == json.loads(found)
    assert kept.headers["content-disposition"] == 'attachment; filename="s1-1-analysis.json"'
    again = world.person().get(f"{PAGE}/analysis.json", {"If-None-Match": kept.headers["etag"]})
    assert again.status == 304


def test_one_of_an_older_policy_is_shown_with_it_and_may_be_asked_for_again(world: World) -> None:
    analysed(world.service.store, asked=structs.replace(plan(), policy="steady-0"))
    person = world.person(ANNA)
    text = person.get(PAGE).text
    assert "Analysed by roll-outs of steady-0" in section(text)
    assert "it may be asked for again" in section(text)
    assert person.send(PAGE, "/analyse").status == 303
    text = world.person().get(PAGE).text
    assert "Analysed by roll-outs of steady-0" in section(text)
    assert "The analysis is queued, it is next." in section(text)


def test_one_that_failed_says_why_and_may_be_asked_for_again(world: World) -> None:
    store = world.service.store
    store.analyses.request("s1-1", None, plan(), USUAL_LIMITS)
    lease = store.analyses.claim("runner", 60)
    assert lease is not None
    store.analyses.reject(lease, "<b>no sense</b>")
    assert "could not be made. &lt;b&gt;no sense&lt;/b&gt;" in section(
        world.person().get(PAGE).text
    )
    assert world.person(ANNA).send(PAGE, "/analyse").status == 303
    last = store.analyses.of_game("s1-1")[1]
    assert last is not None
    assert last.state is TaskState.QUEUED


@pytest.fixture
def many(tmp_path: Path) -> Iterator[Store]:
    """Play sixteen games of four bots that choose at random, with an analysis of ben in each."""
    with Store.open(ladder.played(tmp_path / "ladder.db", games=16, crashing={})) as store:
        for number in range(1, 17):
            settings = AnalysisSettings(Effort.of(4), bot="ben v1")
            analysed(store, f"s1-{number}", settings=settings)
        yield store


def test_the_page_of_a_bot_says_where_it_loses_in_games_with_an_analysis(many: Store) -> None:
    site = a_site(many)
    page = get(site, "/bots/ben").text
    (found,) = re.findall(r'<section>\s*<h2 id="weaknesses".*?</section>', page, re.DOTALL)
    said = " ".join(re.sub(r"<[^>]*>", " ", found).split())
    data = json.loads(json_text(site.ladder.bot(bot="ben")))["weaknesses"]
    assert (data["bot"], data["games"], data["before"]) == ("ben v1", 16, 0)
    assert "Of 16 games with an analysis" in said
    worst = data["weaknesses"][0]
    assert worst["situation"] in said
    first = worst["clearest"][0]
    turn = first["turn"] - (first["played"] in ("down", "back"))
    assert f'href="/games/{first["game_id"]}?turn={turn}&amp;' in found
    assert f'seat={"ABCDEF"[first["seat"]]}"' in found


def test_the_page_of_a_bot_without_analyses_says_nothing_of_weaknesses(played: Store) -> None:
    site = a_site(played)
    before = get(site, "/bots/anna")
    assert "Weaknesses" not in before.text
    analysed(played, settings=SHORT)
    after = get(site, "/bots/anna")
    assert after.headers["etag"] != before.headers["etag"]
    assert "No situation in which it surely loses" in after.text

"""The page of a person's seat for players: one screen on a telephone, the rules, another game."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser

from deepsea_web.site.forms import Cookie
from helpers.chromium import visited
from helpers.people import Runner
from helpers.world import ANNA, HERS, World


def test_a_seat_leads_to_the_rules_and_after_its_end_to_another_game(world: World) -> None:
    anna = world.person(ANNA)
    page = f"/play/{HERS}"
    asked = anna.get(page).text
    assert 'href="/how#game"' in asked
    assert "Play again" not in asked
    world.ladder(ANNA).leave(game_id=HERS)
    Runner(world.service.store).play_on()
    over = anna.get(page).text
    assert "Play again" in over
    (form,) = re.findall(r'(?s)<form method="post" action="/play" .*?</form>', over)
    fields = re.findall(r'name="([^"]+)" value="([^"]+)"', form)
    assert ("rules", "guide") in fields
    bots = [value for name, value in fields if name == "bots"]
    answer = anna.post("/play", fields)
    assert answer.status == 303
    newest = world.ladder(ANNA).person_games().games[0]
    assert answer.headers["location"] == f"/play/{newest.game_id}"
    others = [one for seat, one in enumerate(newest.names) if seat != newest.seat]
    assert sorted(one.rpartition(" v")[0] for one in others) == sorted(bots)


@pytest.mark.slow
@pytest.mark.parametrize("width", [360, 390])
def test_board_and_choices_are_on_one_screen(
    chromium: Browser, served: tuple[World, str], width: int
) -> None:
    world, url = served
    with visited(chromium, f"{url}/how") as seen:
        seen.set_viewport_size({"width": width, "height": 800})
        login = world.service.log_in(world.tokens[ANNA], "127.0.0.1")
        name = Cookie(world.site.access, "session").name
        seen.context.add_cookies([{"name": name, "value": login.session, "url": url}])
        seen.goto(f"{url}/play/{HERS}")
        boxes = {
            part: seen.locator(part).bounding_box()
            for part in ("#seat-board", "#seat-actions", "#seat-panel", "#seat-question")
        }
        board, actions, card, heading = (box for box in boxes.values() if box is not None)
        top = seen.evaluate("scrollY")
        assert board["y"] >= 0
        assert actions["y"] + actions["height"] <= 800, (boxes, top)
        assert heading["y"] - card["y"] <= 16

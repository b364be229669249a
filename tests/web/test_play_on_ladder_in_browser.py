"""A game of a person on the site in a real browser: by keys, narrow, dark, without scripts."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect

from deepsea_arena.seat import open_question
from helpers.chromium import SCHEMES, fits, visited, without_violations
from helpers.people import Runner
from helpers.tiers import daily
from helpers.world import ANNA, World

pytestmark = pytest.mark.slow


def looked_at(page: Page, name: str) -> None:
    """Nothing is wider than a telephone, and axe finds nothing."""
    fits(page, name)
    for scheme in SCHEMES:
        without_violations(page, scheme)
    page.emulate_media(color_scheme="light")


BY_HAND = 8
"""So many questions are answered on the page, the others by the API meanwhile."""


def next_question(world: World, game_id: str, steps: int) -> int | None:
    """Let the bots play; the number of the question that waits then, None at the end."""
    store = world.service.store
    while True:
        Runner(store).play_on()
        found = open_question(store.person_games.get(game_id))
        if found is None or steps < BY_HAND:
            return found and found[0]
        action = found[1].offered[0].key
        world.ladder(ANNA).decide(game_id=game_id, asked=found[0], action=action)


@pytest.mark.parametrize("scripts", daily([True, False], [True]))
def test_a_game_is_played_to_its_end(
    chromium: Browser, served: tuple[World, str], scripts: bool
) -> None:
    world, url = served
    store, form = world.service.store, "scripts" if scripts else "plain"
    with visited(chromium, f"{url}/login", java_script_enabled=scripts) as page:
        page.get_by_label("Token", exact=True).fill(world.tokens[ANNA])
        page.get_by_role("button", name="Log in").click()
        page.goto(f"{url}/play")
        expect(page.get_by_role("link", name="Play", exact=True)).to_have_attribute(
            "aria-current", "page"
        )
        if scripts:
            page.evaluate("localStorage.setItem('deepsea-pace', '0')")
            looked_at(page, "play")
        page.get_by_label("ben", exact=True).check()
        page.get_by_label("cleo", exact=True).check()
        page.get_by_label("Seat").select_option("B")
        page.get_by_role("button", name="Play", exact=True).click()
        expect(page.locator("#seat-question")).to_have_text("The bots play")
        (game, *_) = store.person_games.of_person(store.authors.id_of(ANNA), None, 9)
        assert [one.bot for one in game.versions] == ["ben", "cleo"]
        steps = 0
        while (asked := next_question(world, game.game_id, steps)) is not None:
            if not scripts:
                page.goto(f"{url}/play/{game.game_id}")
            question = page.locator(f"#seat-actions input[name='asked'][value='{asked}']")
            expect(question).to_have_count(1)
            if steps == 0:
                (looked_at if scripts else fits)(page, f"play-seat-{form}")
            actions = page.locator("#seat-actions button")
            choice = actions.nth(steps % actions.count())
            if scripts:
                page.keyboard.press(choice.get_attribute("data-key") or "")
            else:
                choice.click()
            expect(question).to_have_count(0)
            steps += 1
        assert steps > 5
        if not scripts:
            page.goto(f"{url}/play/{game.game_id}")
        expect(page.locator("#seat-question")).to_have_text("Game 1 is over")
        expect(page.locator("#seat-problem")).to_have_text("")
        fits(page, f"play-over-{form}")
        page.goto(f"{url}/play/{game.game_id}/game")
        expect(page.locator("h1")).to_have_text(f"A game of {ANNA} against bots")
        if scripts:
            expect(page.locator("#stage svg").first).to_be_visible()
            looked_at(page, "play-game")

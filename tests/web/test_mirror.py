"""The pages of a ladder as files: the command of docs/server.md, run against `ladder serve`.

For a release alone: it tries another program with pages that other tests look at.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from urllib.parse import unquote, urljoin

import pytest

from deepsea_ladder.accounts import MACHINE
from deepsea_ladder.store import Store
from deepsea_rules.game import GameRecord, verify
from helpers import ladder
from helpers.commands import serving
from helpers.pages import elements_of

pytestmark = [
    pytest.mark.release,
    pytest.mark.needs("wget"),
]
DOCS = Path(__file__).parent.parent.parent / "docs" / "server.md"
PUBLIC = "https://ladder.school.example/"
FOLDER = "course-site"
NOT_COPIED = {"account", "api", "feed", "join", "login", "play", "start", "submit", "tv"}


def documented() -> list[str]:
    """The command of the page, without the pause between two requests."""
    (line,) = re.findall(r"^\$ (wget (?:.*\\\n)*.*)", DOCS.read_text("utf-8"), re.M)
    return [
        word for word in shlex.split(line.replace("\\\n", "")) if not word.startswith("--wait=")
    ]


@pytest.fixture(scope="module")
def mirrored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder that the command makes of two seasons and a tournament, and their address."""
    folder = tmp_path_factory.mktemp("mirror")
    with Store.open(ladder.played(folder / "ladder.db", 4)) as store:
        ladder.a_cup(store)
        for name in ("s1", "cup"):
            store.seasons.close(name)
        store.seasons.open(ladder.a_season("s2"), ladder.SEED)
        store.settings.change("pages_per_minute", 10_000, MACHINE)
        place = store.database.path
    with serving(place, "--no-run") as (_, port):
        address = f"http://127.0.0.1:{port}/"
        words = [address if word == PUBLIC else word for word in documented()]
        assert address in words
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return folder / FOLDER, address


def page_of(folder: Path, name: str) -> tuple[str, set[str]]:
    """The text of a page, and the addresses of its links, from the folder's root."""
    text = (folder / name).read_text("utf-8")
    links = {has["href"] or "" for tag, has in elements_of(text) if tag == "a" and "href" in has}
    return text, {urljoin(name, unquote(link.partition("#")[0])) for link in links}


def test_standings_a_bot_and_a_game_lead_to_each_other(mirrored: tuple[Path, str]) -> None:
    folder, _ = mirrored
    text, links = page_of(folder, "index.html@season=s1.html")
    assert "<h1>Standings" in text
    bot = next(link for link in sorted(links) if link.startswith("bots/anna"))
    text, links = page_of(folder, bot)
    assert "anna" in text
    game = next(link for link in sorted(links) if link.startswith("games/s1-"))
    text, links = page_of(folder, game)
    assert "The game in words" in text
    assert {"index.html", "index.html@season=s1.html", "games.html"} <= links
    assert any(link.startswith("bots/") for link in links)
    record = (folder / next(link for link in links if link.endswith("/record.json"))).read_text()
    verify(GameRecord.from_json(record))


def test_every_season_tournament_and_game_is_there(mirrored: tuple[Path, str]) -> None:
    folder, _ = mirrored
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    names = [f"s1-{number}" for number in range(1, 5)] + ["cup-1", "cup-2"]
    expected = {f"games/{name}.html" for name in names}
    expected |= {f"games/{name}/record.json" for name in names}
    expected |= {"index.html", "how.html", "pairs.html", "tournaments/cup.html"}
    assert expected <= files
    assert not {name.partition("/")[0].partition(".")[0] for name in files} & NOT_COPIED


def test_a_link_leads_to_a_file_or_to_what_the_page_says_is_left_out(
    mirrored: tuple[Path, str],
) -> None:
    folder, address = mirrored
    for path in folder.rglob("*.html"):
        for tag, has in elements_of(path.read_text("utf-8")):
            if tag == "form":
                continue
            for link in filter(None, (has.get("href"), has.get("src"))):
                if not link.startswith("http"):
                    name = unquote(link.partition("#")[0])
                    assert not name or (path.parent / name).is_file(), (path, link)
                    continue
                assert link.startswith(address), (path, link)
                page, _, query = link.removeprefix(address).partition("?")
                of_others = re.search(r"(?:^|&)(?:against|faults|find|format|lost|next)=", query)
                assert of_others or page.partition("/")[0] in NOT_COPIED, (path, link)

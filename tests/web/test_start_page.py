"""The way to a first bot: commands that work as they stand, and the bot that they begin with."""

from __future__ import annotations

import io
import re
import shlex
import shutil
import zipfile
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import click
import pytest
from msgspec.structs import replace

from deepsea_arena.seasons import checked_settings, open_season
from deepsea_cli import main
from deepsea_ladder.store import Store
from deepsea_referee.workbench.scaffold import create
from deepsea_rules.ruleset import OPTIONS, PRESETS, RuleSet
from deepsea_web.access import Access
from deepsea_web.site.app import Site
from helpers import ladder
from helpers.site import LOCAL, a_site, get

HTTPS = Access("https://ladder.school.example")


@pytest.fixture
def store(pattern: Path, tmp_path: Path) -> Iterator[Store]:
    with Store.open(shutil.copy(pattern, tmp_path)) as store:
        yield store


def opened(
    store: Store, rules: RuleSet, seats: tuple[int, ...] = (4,), access: Access = LOCAL
) -> Site:
    base = replace(ladder.a_season(seats=seats), rules=rules, clock="50ms+1s")
    open_season(store, checked_settings(base))
    return a_site(store, access)


def lines_of(html: str) -> list[list[str]]:
    """The commands of a page, each as its words."""
    return [shlex.split(unescape(one)) for one in re.findall(r"data-copy>(.*?)<", html)]


@pytest.mark.parametrize("preset", PRESETS)
def test_its_commands_are_this_seasons_and_can_be_typed(store: Store, preset: str) -> None:
    html = get(opened(store, PRESETS[preset], (2, 5), HTTPS), "/start?bot=otter").text
    ours = [words[1:] for words in lines_of(html) if words[0] == "deepsea-referee"]
    for words in ours:
        command: click.Command = main
        with click.Context(main) as context:
            while isinstance(command, click.Group):
                found = command.get_command(context, words[0])
                assert found is not None, words
                command, words = found, words[1:]  # noqa: PLW2901
            command.make_context(None, list(words))  # which refuses what it does not know
    new, check, match, login, submit = ours
    assert new == ["new", "otter"]
    assert check == ["check", "otter", "--clock", "50ms+1s"]
    assert match[1] == "otter"
    assert match.index("--rules") == 1 + 5
    assert match[match.index("--rules") + 1] == preset
    assert login == ["ladder", "login", "https://ladder.school.example/"]
    assert submit == ["ladder", "submit", "otter"]


def test_a_fingerprint_is_explained_where_one_may_be_shown(store: Store) -> None:
    site = opened(store, PRESETS["manual"])
    assert "fingerprint" not in get(site, "/start").text
    assert "fingerprint" in get(a_site(store, HTTPS), "/start").text


def test_rules_of_a_ladders_own_are_a_file_that_somebody_has(store: Store) -> None:
    own = RuleSet.from_table({"name": "ours", "options": {"tiebreak": "level4"}})
    site = opened(store, own)
    assert "--rules rules.toml" in get(site, "/start").text
    assert "rules of this ladder" in get(site, "/how").text


def test_how_it_works_has_the_rules_of_its_season(store: Store) -> None:
    site = opened(store, PRESETS["guide"])
    rows = dict(
        re.findall(
            r'<code>(\w+)</code></small></th><td class="text">(.*?)</td>', get(site, "/how").text
        )
    )
    assert list(rows) == [option.name for option in OPTIONS]
    assert rows["reveal"] == "game end"
    assert rows["turn_needs_treasure"] == "no"
    assert rows["first_player"] == "seat a"


def test_the_zip_is_what_new_makes(store: Store, tmp_path: Path) -> None:
    site = opened(store, PRESETS["manual"])
    address = re.findall(r'href="(/start/[^"]*)"', get(site, "/start?bot=my.otter.py").text)[0]
    answer = get(site, address)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/zip")
    assert answer.headers["content-disposition"] == 'attachment; filename="my.otter.zip"'
    made = create(str(tmp_path / "my.otter"))
    with zipfile.ZipFile(io.BytesIO(answer.body)) as archive:
        found = {name: archive.read(name) for name in archive.namelist()}
    assert found == {f"my.otter/{file.name}": file.read_bytes() for file in made}


@pytest.mark.parametrize("name", ["%2e%2e", "-x", "a%20b", "greedy-v3", "%3Cb%3E", "x" * 41])
def test_a_name_that_is_none_is_refused(store: Store, name: str) -> None:
    site = opened(store, PRESETS["manual"])
    for address in (f"/start?bot={name}", f"/start/{name}.zip"):
        answer = get(site, address)
        assert answer.status == 400, address
        assert "is not allowed" in answer.text or "ends like a version" in answer.text
        assert "<b>" not in answer.text

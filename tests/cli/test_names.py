"""One rule for names: what looks odd or like another name is refused wherever a name is given.

The rule meets every odd name in every run, and each command some of them; the others before a
release, as a bot is read for each.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from sqlalchemy import String

from deepsea_bundle import names
from deepsea_bundle.errors import BundleError
from deepsea_ladder.season import SeasonSettings
from deepsea_ladder.store import Store, schema
from helpers import ladder
from helpers.commands import Run

PROGRAM = "from deepsea_sdk import Bot, run\nclass Mine(Bot):\n    pass\nrun(Mine)\n"

ODD = {
    "nothing": "",
    "space": " ",
    "spaces inside": "my bot",
    "invisible letter": "\u115fbot",
    "another one": "bot\u1160",
    "a third": "b\u3164ot",
    "zero width": "bo\u200bt",
    "soft hyphen": "bo\u00adt",
    "right to left": "\u202etob",
    "Cyrillic": "gr\u0435edy",
    "Greek": "gre\u0435\u03bfdy",
    "wide": "ｂｏｔ",
    "ligature": "ﬁn",
    "accent": "bo\u0301t",
    "Turkish": "B\u0130N",
    "kelvin": "\u212aing",
    "21 letters that fold to 42": "ß" * 21,
    "40 letters that fold to 80": "ß" * 40,
    "digits of another script": "bot\u0661",
    "new line": "bot\n",
    "escape": "\x1b[2Jbot",
    "not UTF-8": "bot\udcff",
    "too long": "x" * 41,
    "path": "../bot",
    "hidden": ".bot",
    "option": "-bot",
    "a page's": "<b>bot",
    "a query's": "bot' OR '1'='1",
    "emoji": "🤖",
}


PEOPLES = {
    "spaces inside",
    "accent",
    "Turkish",
    "kelvin",
    "wide",
    "ligature",
    "digits of another script",
}
"""Names that an author may have, but no bot."""


@pytest.fixture
def place(place: Path, pattern: Path) -> Path:
    shutil.copy(pattern, place)
    with Store.open(place) as store:
        store.seasons.open(SeasonSettings(name="s1", seats=(2,), isolation="process"), ladder.SEED)
    return place


SOME = ["not UTF-8", "option"]


@pytest.mark.parametrize("name", ODD.values(), ids=ODD)
def test_the_rule_refuses_it(name: str) -> None:
    with pytest.raises(BundleError) as refused:
        names.valid_bot_name("name", name)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("what", ODD)
def test_an_authors_name_may_be_of_any_script_and_not_odd(what: str) -> None:
    if what in PEOPLES:
        name = names.valid_author_name(ODD[what])
        assert names.valid_author_name(name) == name
        return
    with pytest.raises(BundleError) as refused:
        names.valid_author_name(ODD[what])
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, id=what, marks=() if what in SOME else pytest.mark.release)
        for what, name in ODD.items()
    ],
)
def test_an_odd_name_is_refused_in_one_line(
    run: Run, place: Path, tmp_path: Path, name: str
) -> None:
    bot = tmp_path / "folder"
    bot.mkdir()
    (bot / "bot.py").write_text(PROGRAM)
    manifest = 'command = ["python3", "bot.py"]\n'
    (bot / "bot.toml").write_text(manifest)
    people = {ODD[what] for what in PEOPLES}
    attempts: list[tuple[object, ...]] = [
        ("ladder", "submit", bot, f"--name={name}", "--author", "me"),
        *(() if name in people else [("ladder", "submit", bot, f"--author={name}")]),
        ("ladder", "season", "--isolation", "process", "--", name),
        ("ladder", "tournament", "--", "round-robin", name),
        ("ladder", "init", "--store", tmp_path / "other.db", f"--season={name}"),
    ]
    for attempt in attempts:
        assert run(*attempt).refusal.isprintable(), attempt
    if name.isprintable() and "\\" not in name:
        (bot / "bot.toml").write_text(f'name = "{name}"\n{manifest}', encoding="utf-8")
        # `match` and `check` use the same words: tests/bundle/test_one_reader.py.
        assert "name" in run("ladder", "submit", bot, "--author", "me").refusal
    with Store.open(place) as store:
        assert store.bots.all() == []
        assert [season.name for season in store.seasons.all()] == ["s1"]


def test_the_longest_names_fit_every_store(store: Store) -> None:
    longest = "Z" * names.LONGEST
    season = store.seasons.open(ladder.a_season("z" * 32, seats=(2,)), ladder.SEED)
    versions = [
        ladder.submit(store, name, author=longest).id for name in (longest, longest[:-1] + "y")
    ]
    store.jobs.add(season, [[versions]])
    job = ladder.claim(store, season, "owner")
    assert store.games.report(job, ladder.play(job)).seq == 1
    assert store.bots.get(longest.lower()).author == longest


def test_a_key_of_a_name_is_no_longer_than_the_name() -> None:
    columns = (schema.authors.c.name_key, schema.bots.c.name_key, schema.seasons.c.name)
    for column in columns:
        assert isinstance(column.type, String)
        assert (column.type.length or 0) >= names.LONGEST
    for name in ("A", "Z" * names.LONGEST, "a.B_c-9"):
        assert len(names.key(names.valid_bot_name("it", name))) == len(name)

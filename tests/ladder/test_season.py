"""Seasons: nothing is lost on the way to a file and back, and nonsense is refused by name."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepsea_ladder.errors import SeasonError
from deepsea_ladder.rating import RatingParameters
from deepsea_ladder.season import BotLimits, PairingSettings, SeasonSettings
from deepsea_rules.ruleset import PRESETS, RuleSet
from helpers.games import rule_sets

seasons = st.builds(
    SeasonSettings,
    name=st.from_regex(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?", fullmatch=True),
    rules=rule_sets,
    seats=st.sets(st.integers(2, 6), min_size=1).map(tuple),
    clock=st.sampled_from(["100ms+2s", "1.5s", "20ms"]),
    isolation=st.sampled_from(["sandbox", "process"]),
    rating=st.builds(
        RatingParameters,
        mu=st.floats(-100.0, 100.0),
        sigma=st.floats(1.0, 10.0),
        beta=st.floats(1.0, 30.0),
        tau=st.floats(0.0, 1.0),
        draw_probability=st.floats(0.001, 0.9),
    ),
    best_of_author=st.booleans(),
    packages=st.lists(st.sampled_from(["numpy==2.1.0", "torch"]), unique=True).map(tuple),
    limits=st.builds(BotLimits, memory_mib=st.integers(16, 9999), processes=st.integers(1, 9999)),
    pairing=st.builds(
        PairingSettings,
        same_author=st.booleans(),
        former_versions=st.booleans(),
        patience=st.floats(1.0, 100.0),
        provisional_games=st.integers(0, 100),
    ),
)


def toml(season: SeasonSettings) -> str:
    """Every setting as people write it, from the texts, numbers and lists of its JSON."""
    data = json.loads(season.to_json())
    if season.rules.name in PRESETS:
        data["rules"] = season.rules.name
    else:  # in this preset every option is None that TOML cannot write
        data["rules"]["base"] = "guide"
        data["rules.options"] = data["rules"].pop("options")
    plain = {key: value for key, value in data.items() if not isinstance(value, dict)}
    tables = {key: value for key, value in data.items() if isinstance(value, dict)}
    return "\n".join(
        [f"{key} = {json.dumps(value)}" for key, value in plain.items()]
        + [
            f"[{name}]\n"
            + "\n".join(f"{k} = {json.dumps(v)}" for k, v in table.items() if v is not None)
            for name, table in tables.items()
        ]
    )


@given(seasons)
@settings(max_examples=15)
def test_json_round_trip(season: SeasonSettings) -> None:
    text = season.to_json()
    assert "\n" not in text
    assert SeasonSettings.from_json(text) == season
    assert SeasonSettings.from_json(text).to_json() == text


@given(seasons)
@settings(max_examples=15)
def test_toml_round_trip(season: SeasonSettings) -> None:
    assert SeasonSettings.from_toml(toml(season)) == season


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_read_by_its_name_and_kept_by_its_options(name: str) -> None:
    season = SeasonSettings.from_toml(f'name = "summer"\nrules = "{name}"')
    assert season.rules == PRESETS[name]
    assert '"reveal":' in season.to_json()


def test_what_is_left_out_has_its_default() -> None:
    assert SeasonSettings.from_toml('name = "summer"') == SeasonSettings("summer")


def test_the_ladders_page_has_every_setting_with_its_default() -> None:
    page = (Path(__file__).parents[2] / "docs" / "ladder.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```toml\n(name = .*?)```", page, re.S)
    assert SeasonSettings.from_toml(text) == SeasonSettings("winter")

    def keys(toml: str) -> list[str]:
        return re.findall(r"^(\[?\w+)", toml, re.M)

    assert keys(text) == keys(toml(SeasonSettings("winter")))


def test_a_season_of_an_older_program_has_no_later_setting() -> None:
    data = json.loads(SeasonSettings("summer").to_json())
    del data["best_of_author"]
    assert SeasonSettings.from_json(json.dumps(data)) == SeasonSettings("summer")


def test_a_file_as_people_write_it() -> None:
    season = SeasonSettings.from_toml(
        """
        name = "winter-2"
        seats = [4, 2, 3]
        clock = "1s"
        isolation = "process"

        [rules]
        name = "secret banks"
        base = "manual"
        options = { reveal = "game_end" }

        [rating]
        beta = 10

        [pairing]
        same_author = true
        """
    )
    assert season.seats == (2, 3, 4)
    assert season.rules == replace(PRESETS["manual"], name="secret banks", reveal="game_end")
    assert season.rating == RatingParameters(beta=10.0)
    assert season.pairing.same_author


def test_a_season_is_frozen() -> None:
    with pytest.raises(AttributeError, match="immutable"):
        SeasonSettings("summer").clock = "1s"  # type: ignore[misc]


REFUSED = [
    ("", "a season needs a name"),
    ("name = 3", "name must be a text, not 3"),
    ('name = "Summer"', "lower-case letters"),
    ('name = "-a"', "lower-case letters"),
    ('name = "' + 33 * "a" + '"', "up to 32"),
    ("name", "is no TOML"),
    ('name = "a"\nseat = [4]', "a season has no seat; did you mean seats?"),
    ('name = "a"\nseats = 4', "seats must be a list, not 4"),
    ('name = "a"\nseats = [true]', r"seats\[0\] must be a whole number, not True"),
    ('name = "a"\nseats = []', "seats names each number of seats once"),
    ('name = "a"\nseats = [2, 2]', "seats names each number of seats once"),
    ('name = "a"\nseats = [1]', "a table has 2 to 6 seats, not 1"),
    ('name = "a"\nseats = [7]', "a table has 2 to 6 seats, not 7"),
    ('name = "a"\nclock = 100', "clock must be a text, not 100"),
    ('name = "a"\nclock = "now or never"', "clock must look like 100ms"),
    ('name = "a"\nisolation = "auto"', "isolation is sandbox or process, not 'auto'"),
    ('name = "a"\nbest_of_author = 1', "best_of_author must be true or false, not 1"),
    ('name = "a"\nrules = "manul"', "did you mean 'manual'"),
    ('name = "a"\nrules = 3', "rules must be a table of settings, not 3"),
    ('name = "a"\n[rules]\nname = "manual"', "belongs to a preset"),
    ('name = "a"\n[rules]\nbase = "x"\n[rules.options]', "no preset is called 'x'"),
    ('name = "a"\n[rules]\n[rules.options]\nreveal = "never"', "reveal is one of"),
    ('name = "a"\n[rules]\n[rules.options]\nreveal = 2000-01-01', "reveal is one of"),
    ('name = "a"\n[rules]\n[rules.other]\nx = 1', "unknown key .other.; a rule set has"),
    ('name = "a"\nrating = 3', "rating must be a table of settings, not 3"),
    ('name = "a"\n[rating]\nbetta = 3', "a season has no rating.betta; did you mean beta?"),
    ('name = "a"\n[rating]\nbeta = "x"', "rating.beta must be a number, not 'x'"),
    ('name = "a"\n[rating]\nbeta = true', "rating.beta must be a number, not True"),
    ('name = "a"\n[rating]\nbeta = nan', "rating.beta must lie"),
    ('name = "a"\n[rating]\nbeta = 1' + 400 * "0", "rating.beta: Number out of range"),
    ('name = "a"\n[pairing]\nsame_author = 1', "pairing.same_author must be true or false, not 1"),
    ('name = "a"\n[pairing]\nprovisional_games = 1.5', "must be a whole number, not 1.5"),
    (
        'name = "a"\n[pairing]\nprovisional_games = -1',
        "games must be a whole number of at least 0, not -1",
    ),
    (
        'name = "a"\n[pairing]\npatience = 0.5',
        "patience must be a number of at least 1, not 0.5",
    ),
    ('name = "a"\n[pairing]\nexploration = 0.1', "a season has no pairing.exploration"),
    (
        'name = "a"\n[limits]\nmemory_mib = 1',
        "memory_mib must be a whole number of at least 16, not 1",
    ),
    ('name = "a"\npackages = "numpy"', "packages must be a list, not 'numpy'"),
    ('name = "a"\npackages = [1]', r"packages\[0\] must be a text, not 1"),
    ('name = "a"\n[pairing]\npatience = nan', "pairing.patience must be a number of"),
    ('name = "a"\n[verdicts]\nseats = 1', "verdicts.seats must be 0 or from 2, not 1"),
    (
        'name = "a"\n[limits]\nprocesses = 1' + 400 * "0",
        "processes must be a whole number of at most",
    ),
]


@pytest.mark.parametrize(("text", "complaint"), REFUSED)
def test_nonsense_is_refused_in_one_line_that_names_it(text: str, complaint: str) -> None:
    with pytest.raises(SeasonError, match=complaint) as refusal:
        SeasonSettings.from_toml(text)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "text", ["", "[]", "3", "null", '{"name": "a", "rules": null}', '{"name": "a", "rules": {}}']
)
def test_damaged_json_is_refused(text: str) -> None:
    with pytest.raises(SeasonError):
        SeasonSettings.from_json(text)


def test_rules_may_not_pose_as_a_preset() -> None:
    options = PRESETS["manual"].options() | {"reveal": "game_end"}
    with pytest.raises(SeasonError, match="differ from that preset"):
        SeasonSettings("a", RuleSet.from_options("manual", options))


def test_every_setting_is_explained_at_the_top_of_the_module() -> None:
    import deepsea_ladder.season as module

    text = str(module.__doc__)
    for kind in (SeasonSettings, RatingParameters, PairingSettings):
        for name in kind.__struct_fields__:
            assert name in text

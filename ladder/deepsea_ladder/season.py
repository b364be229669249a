"""A season: all settings of its games and ratings, and how they are read and written.

Invariants: frozen, since games played under different settings are not compared; a round trip
through JSON loses nothing; an invalid setting is refused in one line that names the key.

    name = "summer"
    rules = "manual"            # a preset, or a table [rules] with name, base and [rules.options]
    seats = [4]                 # how many bots sit at a table; [2, 3, 4] mixes them
    clock = "100ms+2s"
    isolation = "sandbox"       # or "process", where all authors are trusted
    packages = ["numpy==2.1.0"] # what bots may count on beside the SDK, installed by the keeper
    best_of_author = true       # the standings have the best bot of each author

    [limits]                    # memory_mib, processes, require_cgroups
    [rating]                    # mu, sigma, beta, tau, draw_probability
    [pairing]                   # same_author, former_versions, patience,
                                # provisional_games
    [play]                      # visitors, silent_seconds: of people who play against its bots
    [verdicts]                  # panel, seats, margin, blocks: of new versions that are compared
                                # with former ones and with a panel
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Annotated, Any, Literal, NoReturn, get_args

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict, force_setattr, replace

from deepsea_ladder.errors import RatingError, SeasonError
from deepsea_ladder.rating import RatingParameters
from deepsea_rules.errors import InvalidRules
from deepsea_rules.printable import quoted
from deepsea_rules.ruleset import (
    DEFAULT,
    MAX_PLAYERS,
    MIN_PLAYERS,
    PRESETS,
    USUAL_PLAYERS,
    RuleSet,
    preset,
)
from deepsea_rules.time_control import DEFAULT_CLOCK

Isolation = Literal["sandbox", "process"]
"""Ways to keep bots apart. There is no "auto": all games of a season are played alike."""
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?")
_CLOCK = re.compile(r"[0-9a-z.+]{1,40}")


class BotLimits(Struct, frozen=True, forbid_unknown_fields=True):
    """The limits of one bot with all its processes."""

    memory_mib: Annotated[int, Meta(ge=16, le=1_048_576)] = 512
    """Memory of all its processes together."""
    processes: Annotated[int, Meta(ge=1, le=10_000)] = 64
    """Processes and threads together."""
    require_cgroups: bool = False
    """True if games are refused where no control groups enforce the limits and count CPU time."""


class PairingSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The settings by which the bots of a game are chosen."""

    same_author: bool = False
    """True if bots of one author may meet."""
    former_versions: bool = False
    """True if the former versions of bots go on playing."""
    patience: Annotated[float, Meta(ge=1, le=1000)] = 4.0
    """The longest wait of a bot in fair intervals; to it comes one round of all bots."""
    provisional_games: Annotated[int, Meta(ge=0, le=10_000)] = 12
    """A bot with fewer games is provisional: it is always due, and leaves the order open."""

    def lacking(self, games: int) -> int:
        """Return how many games a bot lacks after this many; 0 if it is not provisional."""
        return max(0, self.provisional_games - games)


class PlaySettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The games of people against the season's bots."""

    visitors: bool = False
    """True if people without an account may play, too."""
    silent_seconds: Annotated[int, Meta(ge=10, le=86_400)] = 120
    """Seconds without an answer after which the default action is played."""


class VerdictSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The comparisons of new versions, each with its bot's former version and with a panel."""

    panel: tuple[str, ...] = ()
    """Names of bots of the ladder, also of withdrawn ones."""
    seats: Annotated[int, Meta(ge=0, le=MAX_PLAYERS)] = 0
    """Number of bots at a table; 0 for the largest table of the season."""
    margin: Annotated[float, Meta(ge=0.001, le=1)] = 0.05
    """The largest difference in placement score that counts as level."""
    blocks: Annotated[int, Meta(ge=1, le=100_000)] = 2000
    """The largest number of blocks of a comparison."""

    def __post_init__(self) -> None:
        """Raise `SeasonError` for a table of one bot, and for a bot that the panel names twice."""
        if 0 < self.seats < MIN_PLAYERS:
            raise SeasonError(f"verdicts.seats must be 0 or from {MIN_PLAYERS}, not {self.seats}")
        # Bots are looked up by their names in small letters.
        keys = [name.casefold() for name in self.panel]
        for name, key in zip(self.panel, keys, strict=True):
            if keys.count(key) > 1:
                raise SeasonError(f"verdicts.panel names {quoted(name, 60)} twice")


class SeasonSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """All settings of a season, which never change once it is open.

    `StoredSeason` has them together with the season's state; `SeasonInfo` is what everybody may
    know of both.
    """

    name: str
    """The season's name, in lower-case letters, digits and hyphens; game ids begin with it."""
    rules: RuleSet = PRESETS[DEFAULT]
    seats: tuple[int, ...] = (USUAL_PLAYERS,)
    """Numbers of bots that may sit at a table, ascending."""
    clock: str = DEFAULT_CLOCK.format()
    """The clock of a decision in the referee's notation. Only its characters are checked here; the
    caller lets the referee parse it."""
    isolation: Isolation = "sandbox"
    packages: tuple[str, ...] = ()
    """Packages that bots may use beside the SDK, as `name` or `name==version`. The ladder's keeper
    installs them; their names are not checked here but by the caller."""
    best_of_author: bool = False
    """True if the standings have only the best bot of each author, and a tournament without a list
    of bots is played between these."""
    limits: BotLimits = BotLimits()
    rating: RatingParameters = RatingParameters()
    pairing: PairingSettings = PairingSettings()
    play: PlaySettings = PlaySettings()
    verdicts: VerdictSettings = VerdictSettings()

    def __post_init__(self) -> None:
        """Sort the sizes of tables, and raise `SeasonError` for an invalid setting."""
        if not _NAME.fullmatch(self.name):
            raise SeasonError(
                f"a season's name has up to 32 lower-case letters, digits and hyphens inside, "
                f"not {self.name!r}"
            )
        if PRESETS.get(self.rules.name, self.rules) != self.rules:
            self._refuse(
                f"the rules call themselves {self.rules.name!r} but differ from that preset; "
                "give them another name"
            )
        if not self.seats or len(set(self.seats)) != len(self.seats):
            self._refuse(f"seats names each number of seats once, not {list(self.seats)}")
        for count in self.seats:
            if not MIN_PLAYERS <= count <= MAX_PLAYERS:
                self._refuse(f"a table has {MIN_PLAYERS} to {MAX_PLAYERS} seats, not {count}")
        force_setattr(self, "seats", tuple(sorted(self.seats)))
        if not _CLOCK.fullmatch(self.clock):
            self._refuse(f"clock must look like 100ms+2s, not {self.clock!r}")

    def _refuse(self, reason: str) -> NoReturn:
        raise SeasonError(f"season {self.name}: {reason}")

    def with_settings(self, changed: Mapping[str, Any]) -> SeasonSettings:
        """Return a copy of the season with some settings changed.

        changed  new values by the names of settings, such as `clock` and `limits.memory_mib`
        Raises `SeasonError` for an invalid value or an unknown name.
        """
        data = msgspec.to_builtins(self) | {"rules": self.rules}
        for name, value in changed.items():
            table_name, _, key = name.rpartition(".")
            table = data[table_name] if table_name else data
            table[key] = value
        return _convert(data, read_rules=lambda rules: rules)  # it is a rule set already

    # JSON, as the store has it: always the whole rules, so that no later preset changes them

    def to_json(self) -> str:
        """Return the settings as one line of JSON; equal seasons give equal text."""
        rules = {"name": self.rules.name, "options": self.rules.options()}
        return msgspec.json.encode(asdict(self) | {"rules": rules}).decode()

    @classmethod
    def from_json(cls, text: str) -> SeasonSettings:
        """Return the season that `to_json` wrote. Raises `SeasonError` for any other text."""
        try:
            data = msgspec.json.decode(text)
        except (ValueError, RecursionError) as error:
            raise SeasonError(f"a season's settings are no JSON: {error}") from None
        return _convert(_require_table(data, "a season's settings"), _rules_from_options)

    # TOML, as people write it

    @classmethod
    def from_toml(
        cls, text: str, name: str | None = None, default: str | None = None
    ) -> SeasonSettings:
        """Return the season of a TOML text; a setting that is missing has its default.

        name     the season's name, whatever the text says
        default  the season's name if neither `name` nor the text has one
        Raises `SeasonError` for an invalid text or setting.
        """
        try:
            data = tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            raise SeasonError(f"a season's file is no TOML: {error}") from None
        if name is not None:
            data["name"] = name
        elif "name" not in data and default is not None:
            data["name"] = default
        return cls.from_table(data)

    @classmethod
    def from_table(cls, data: Mapping[str, Any]) -> SeasonSettings:
        """Return the season of settings that were parsed from TOML. Raises `SeasonError`."""
        return _convert(data, _rules_from_toml)


# msgspec builds its description of a type at first use, and a second thread that uses the type
# meanwhile crashes the process. So each such type is used once when its module is imported.
msgspec.json.Decoder(SeasonSettings)


def _convert(data: Mapping[str, Any], read_rules: Callable[[Any], RuleSet]) -> SeasonSettings:
    """Return the season of parsed settings. Raises `SeasonError` that names the wrong setting.

    data        the settings by name; one that is missing has its default
    read_rules  turns the value of the setting `rules` into a rule set, since JSON, TOML and code
                write it differently
    """
    settings_without_rules = {key: value for key, value in data.items() if key != "rules"}
    try:
        season = msgspec.convert(settings_without_rules, SeasonSettings)
    except msgspec.ValidationError as error:
        raise SeasonError(_explain(str(error), data)) from None
    except RatingError as error:
        raise SeasonError(f"season {data.get('name')}: {error}") from None
    if "rules" not in data:
        return season
    try:
        return replace(season, rules=read_rules(data["rules"]))
    except InvalidRules as error:
        raise SeasonError(f"season {season.name}: {error}") from None


_TYPE_NAMES = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "array": "a list",
    "object": "a table of settings",
}
"""The names of types for people, by those of msgspec's messages."""
_EXPECTED_TYPE = re.compile(r"Expected `(\w+)[^`]*`(?: ([<>])= ([\d.]+))?")


def _explain(error: str, data: Mapping[str, Any]) -> str:
    """Return one line that names the wrong setting, its value and the permitted ones.

    error  a message of msgspec, such as "Expected `int` >= 16 - at `$.limits.memory_mib`"
    data   the settings that were converted
    """
    problem, _, path = error.partition(" - at `$")
    key = path.strip(".`")
    if "missing" in problem:
        return "a season needs a name"  # the only setting without a default
    if "unknown field" in problem:
        table = attrgetter(key)(SeasonSettings("any")) if key else SeasonSettings
        known = table.__struct_fields__
        unknown = problem.split("`")[1]
        similar_names = difflib.get_close_matches(unknown, known, 1)
        hint = f"there are {', '.join(known)}"
        if similar_names:
            hint = f"did you mean {similar_names[0]}?"
        prefix = f"{key}." if key else ""
        return f"a season has no {prefix}{unknown}; {hint}"
    value: Any = data
    for part in re.findall(r"\w+", key):  # names of tables, and positions in lists
        value = value[int(part) if isinstance(value, list | tuple) else part]
    if expected := _EXPECTED_TYPE.match(problem):
        type_name, comparison, number = expected.groups()
        bound = ""
        if comparison:
            side = "most" if comparison == "<" else "least"
            bound = f" of at {side} {number.removesuffix('.0')}"
        return f"{key} must be {_TYPE_NAMES[type_name]}{bound}, not {quoted(value, 60)}"
    if problem.startswith("Invalid enum value"):
        return f"{key} is {' or '.join(get_args(Isolation))}, not {quoted(value, 60)}"
    return f"{key}: {problem}"


def _rules_from_options(data: object) -> RuleSet:
    """Return the rules of a stored season, which has all options in full."""
    table = _require_table(data, "rules")
    if table.keys() != {"name", "options"} or not isinstance(table["name"], str):
        raise SeasonError("rules must be a table with a name and options")
    options = _require_table(table["options"], "rules.options")
    return RuleSet.from_options(table["name"], options)


def _rules_from_toml(data: object) -> RuleSet:
    """Return the rules of a season's file: the name of a preset, or a table of changed options."""
    if isinstance(data, str):
        return preset(data)
    return RuleSet.from_table(_require_table(data, "rules"))


def _require_table(data: object, setting: str) -> Mapping[str, Any]:
    """Return the value of a setting that has to be a table. Raises `SeasonError` if it is not."""
    if not isinstance(data, dict):
        raise SeasonError(f"{setting} must be a table of settings, not {data!r}")
    return data
